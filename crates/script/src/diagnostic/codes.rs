//! Problems of scripts, each kind with a code that never changes; `docs/problems.md` has a page about each.

/// All pages: the one place where they are written.
const DOCUMENT: &str = include_str!("../../problems.md");

macro_rules! codes {
    ($($(#[$doc:meta])+ $name:ident = $id:literal,)+) => {
        /// The kind of a problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])+ $name,)+ }

        impl Code {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// As in V101.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }
        }
    };
}

codes! {
    // -- the file
    /// It cannot be read.
    Unreadable = "V001",
    /// It is longer than scripts are.
    TooLong = "V002",
    /// It is not text.
    NoText = "V003",
    /// Nothing is in it.
    Empty = "V004",
    /// Its name cannot be an id.
    BadId = "V005",
    /// Another file has the same id.
    SameId = "V006",
    /// A guard's file is missing.
    GuardGone = "V007",
    /// A change would weaken a guard.
    GuardWeakened = "V008",
    /// It looks like a guard and cannot be read as one.
    UnclearGuard = "V009",
    /// This version ended the process, of a host or of `check`.
    Quarantined = "V010",
    /// Another plugin was removed under its id.
    SetAside = "V011",

    // -- how it is written
    /// The parser cannot read on.
    Syntax = "V101",
    /// A bracket or text is never closed.
    Unclosed = "V102",
    /// Syntax of another language.
    ForeignSyntax = "V103",
    /// Nothing has that name.
    UnknownVariable = "V104",
    /// The name is the language's or the host's.
    ReservedName = "V105",
    /// The target of an assignment cannot be written.
    NotAssignable = "V106",
    /// A constant is written to.
    ConstantWritten = "V107",
    /// One name stands for two things.
    Twice = "V108",
    /// More, or more deeply nested, than the parser takes.
    TooComplex = "V109",

    // -- what it says of itself
    /// A word of the opening comment has a value it cannot have.
    BadSwitch = "V201",
    /// There is no such capability.
    UnknownRequirement = "V202",
    /// It needs another host.
    HostVersion = "V203",
    /// A valve cannot be declared so.
    BadValve = "V204",
    /// A value that has to be literal is computed.
    Computed = "V205",
    /// `match` stands where it does nothing, or harm.
    BadMatch = "V206",
    /// A parameter that is never set.
    UnknownParameter = "V207",
    /// A function is called almost like a hook.
    AlmostHook = "V208",
    /// A callback that is never called.
    DeadCallback = "V209",
    /// A hook, callback or action in a file of another kind.
    MisplacedHook = "V210",
    /// A tool's file without a handler.
    NoHandler = "V211",
    /// A tool and a module of tools in one file.
    TwoForms = "V212",
    /// A tool cannot be declared so.
    BadTool = "V213",
    /// `tools()` or `tool_info()` gives no tools.
    BadToolList = "V214",
    /// Two tools have one name.
    SameTool = "V215",
    /// A tool that a model lists is not there.
    MissingTool = "V216",
    /// Models are offered in a wrong way.
    BadPipe = "V217",
    /// The value of a valve does not match.
    ValveMisfit = "V218",
    /// A filter that no hook calls.
    NoHook = "V219",
    /// An unknown key of the opening comment.
    UnknownKey = "V220",
    /// The settings name a filter, tool or valve that is not there.
    UnknownName = "V221",
    /// The settings' file changed and cannot be applied.
    SettingsRefused = "V222",
    /// The settings' file changed in what only a restart applies.
    SettingsWaiting = "V223",
    /// A secret that the settings name cannot be read here.
    SecretUnread = "V224",
    /// An MCP server of the settings is not available.
    McpAway = "V225",
    /// A tool of an MCP server is not offered: it is new, or not as it was approved.
    McpQuarantined = "V226",
    /// Work is scheduled in a wrong way.
    BadSchedule = "V227",
    /// The latest scripts of the store are not taken.
    GenerationRefused = "V228",
    /// The database of the store does not answer.
    StoreAway = "V229",
    /// A pooler passes no notifications of the store's database on.
    StorePolled = "V230",
    /// A file of actions without one.
    NoAction = "V231",
    /// An action cannot be declared so.
    BadAction = "V232",

    // -- what it may reach
    /// A capability is used and not declared.
    NotDeclared = "V301",
    /// A capability is declared and not granted.
    NotGranted = "V302",
    /// A host is named wrongly.
    BadHost = "V303",
    /// A capability is declared and not used.
    UnusedCapability = "V304",

    // -- its modules
    /// The imported module is missing.
    NoModule = "V401",
    /// Modules import each other.
    ImportCircle = "V402",
    /// More modules than a script may have.
    TooManyModules = "V403",
    /// An import that cannot be read without running.
    BadImport = "V404",
    /// Something that a module cannot have.
    NotInModule = "V405",

    // -- what it calls
    /// A pattern that is none.
    BadPattern = "V501",
    /// No function has that name.
    UnknownFunction = "V502",
    /// The function takes another number of arguments.
    WrongArguments = "V503",
    /// The script declares no such valve.
    UnknownValve = "V504",
    /// A property of the host's values is misspelt.
    UnknownProperty = "V505",
    /// A function takes the place of the host's own.
    Shadowed = "V506",

    // -- what is surely not meant
    /// A method that changes its text is used as a value.
    ChangesInPlace = "V601",
    /// An escape that means nothing in backticks.
    EscapeInBackticks = "V602",
    /// A loop that one call of the host's does.
    NeedlessLoop = "V603",
    /// A valve that nothing reads.
    UnusedValve = "V604",
    /// An unused function.
    UnusedFunction = "V605",
    /// A variable that nothing reads.
    UnusedVariable = "V606",
    /// Nothing gets there.
    Unreachable = "V607",
    /// A comparison without effect.
    IdleComparison = "V608",
    /// A hook returns what it cannot.
    WrongReturn = "V609",
    /// A parameter is assigned a value that the caller does not receive.
    LostAssignment = "V610",
    /// A tool gives a value on one way and nothing on another.
    NoResult = "V611",
    /// A text that looks as if it were filled in.
    UnfilledText = "V612",
    /// An answer that is built and not returned.
    LostAnswer = "V613",
    /// A `try` that is used as a value.
    TryAsValue = "V614",
    /// Values of two kinds are compared.
    ForeignKinds = "V615",
    /// A condition is neither true nor false.
    NoCondition = "V616",
    /// A call does nothing but give a value, and nothing takes it.
    LostResult = "V617",

    // -- its tests
    /// Tests that belong to no script, or a file without any.
    NoTest = "V701",
    /// A test with parameters.
    TestWithParameters = "V702",
    /// A test failed.
    TestFailed = "V703",

    // -- while it runs
    /// A bug, a budget, a wrong return.
    Broke = "V801",
    /// A function that the host calls from time to time failed.
    ScheduledFailed = "V802",
}

impl Code {
    /// The code of a text such as `V101`, in any case.
    pub fn from_name(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.id().eq_ignore_ascii_case(id))
    }

    /// Returns its title: the words behind its number.
    pub fn title(self) -> &'static str {
        self.section().split_once('\n').map_or("", |(title, _)| title)
    }

    /// Returns its page: the problem, why it is wrong, an example and the correction, in Markdown.
    pub fn page(self) -> &'static str {
        self.section().split_once('\n').map_or("", |(_, page)| page).trim()
    }

    /// The first paragraph of its page.
    pub fn summary(self) -> String {
        let paragraph = self.page().split_once("\n\n").map_or_else(|| self.page(), |(first, _)| first);
        paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// From its title to the next heading.
    fn section(self) -> &'static str {
        let heading = DOCUMENT.find(&format!("\n### {} ", self.id()));
        let rest = heading.map_or("", |at| &DOCUMENT[at + "\n### V000 ".len()..]);
        let next = ["\n### ", "\n## "].into_iter().filter_map(|heading| rest.find(heading)).min();
        &rest[..next.unwrap_or(rest.len())]
    }
}

/// Its id.
impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id())
    }
}
