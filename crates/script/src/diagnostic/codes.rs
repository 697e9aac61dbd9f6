//! The kinds of problems of scripts. Each has a code that never changes and a page in `docs/problems.md`.

/// The text of all pages.
const DOCUMENT: &str = include_str!("../../problems.md");

macro_rules! codes {
    ($($(#[$doc:meta])+ $name:ident = $id:literal,)+) => {
        /// The kind of a problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])+ $name,)+ }

        impl Code {
            /// All codes in ascending order.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the code, such as `V101`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }
        }
    };
}

codes! {
    // -- the file
    /// The file cannot be read.
    Unreadable = "V001",
    /// The file exceeds the length limit of scripts.
    TooLong = "V002",
    /// The file is not valid UTF-8.
    NoText = "V003",
    /// The file is empty.
    Empty = "V004",
    /// The file name is not a valid id.
    BadId = "V005",
    /// Another file has the same id.
    SameId = "V006",
    /// A guard's file is missing.
    GuardGone = "V007",
    /// A change would weaken a guard.
    GuardWeakened = "V008",
    /// The file looks like a guard but cannot be read as one.
    UnclearGuard = "V009",
    /// This version ended the process of a host or of `check`.
    Quarantined = "V010",
    /// Another plugin with the same id was removed.
    SetAside = "V011",

    // -- syntax
    /// A syntax error.
    Syntax = "V101",
    /// A bracket or text that is not closed.
    Unclosed = "V102",
    /// Syntax of another language.
    ForeignSyntax = "V103",
    /// An unknown variable.
    UnknownVariable = "V104",
    /// A name that is reserved by the language or the host.
    ReservedName = "V105",
    /// An expression that cannot be assigned to.
    NotAssignable = "V106",
    /// An assignment to a constant.
    ConstantWritten = "V107",
    /// A name that is declared twice.
    Twice = "V108",
    /// Code that exceeds the parser's limit of length or nesting.
    TooComplex = "V109",

    // -- declarations
    /// An invalid value of a key in the opening comment.
    BadSwitch = "V201",
    /// An unknown capability.
    UnknownRequirement = "V202",
    /// The script requires another version of the host.
    HostVersion = "V203",
    /// An invalid declaration of a valve.
    BadValve = "V204",
    /// A computed value where a literal is required.
    Computed = "V205",
    /// A `match` that has no effect or would be harmful.
    BadMatch = "V206",
    /// An unknown parameter.
    UnknownParameter = "V207",
    /// A function with almost the name of a hook.
    AlmostHook = "V208",
    /// A callback that is never called.
    DeadCallback = "V209",
    /// A hook, callback or action in a file of another kind.
    MisplacedHook = "V210",
    /// A tool's file without a handler.
    NoHandler = "V211",
    /// A tool and a module of tools in one file.
    TwoForms = "V212",
    /// An invalid declaration of a tool.
    BadTool = "V213",
    /// `tools()` or `tool_info()` returns an invalid value.
    BadToolList = "V214",
    /// Two tools with the same name.
    SameTool = "V215",
    /// A model of the configuration lists a missing tool.
    MissingTool = "V216",
    /// An invalid declaration of models.
    BadPipe = "V217",
    /// A value that does not match its valve's declaration.
    ValveMisfit = "V218",
    /// A filter without hooks.
    NoHook = "V219",
    /// An unknown key of the opening comment.
    UnknownKey = "V220",
    /// The settings name an unknown filter, tool or valve.
    UnknownName = "V221",
    /// The changed settings file is invalid and was not applied.
    SettingsRefused = "V222",
    /// The settings file has changes that require a restart.
    SettingsWaiting = "V223",
    /// A secret of the settings cannot be read.
    SecretUnread = "V224",
    /// An MCP server of the settings is not available.
    McpAway = "V225",
    /// A tool of an MCP server is not offered: it is new, or differs from the approved one.
    McpQuarantined = "V226",
    /// An invalid declaration of scheduled work.
    BadSchedule = "V227",
    /// The latest scripts of the store were rejected.
    GenerationRefused = "V228",
    /// The database of the store does not respond.
    StoreAway = "V229",
    /// A pooler does not forward the notifications of the store's database.
    StorePolled = "V230",
    /// A file in the folder of actions without an action.
    NoAction = "V231",
    /// An invalid declaration of an action.
    BadAction = "V232",

    // -- capabilities
    /// A capability is used but not declared.
    NotDeclared = "V301",
    /// A capability is declared but not granted.
    NotGranted = "V302",
    /// An invalid name of a host.
    BadHost = "V303",
    /// A capability is declared but not used.
    UnusedCapability = "V304",

    // -- modules
    /// The imported module is missing.
    NoModule = "V401",
    /// Modules import each other.
    ImportCircle = "V402",
    /// The script imports more modules than allowed.
    TooManyModules = "V403",
    /// An import whose path is not literal.
    BadImport = "V404",
    /// Code that is not allowed in a module.
    NotInModule = "V405",

    // -- calls
    /// An invalid pattern.
    BadPattern = "V501",
    /// An unknown function.
    UnknownFunction = "V502",
    /// A call with the wrong number of arguments.
    WrongArguments = "V503",
    /// The script does not declare this valve.
    UnknownValve = "V504",
    /// A misspelled property of a value of the host.
    UnknownProperty = "V505",
    /// A function that shadows one of the host.
    Shadowed = "V506",
    /// An option that a function does not have.
    UnknownOption = "V507",

    // -- probable mistakes
    /// A method that changes its text in place is used as a value.
    ChangesInPlace = "V601",
    /// An escape sequence without meaning in backticks.
    EscapeInBackticks = "V602",
    /// A loop that a single call of a host function replaces.
    NeedlessLoop = "V603",
    /// An unused valve.
    UnusedValve = "V604",
    /// An unused function.
    UnusedFunction = "V605",
    /// An unused variable.
    UnusedVariable = "V606",
    /// Unreachable code.
    Unreachable = "V607",
    /// A comparison without effect.
    IdleComparison = "V608",
    /// A hook returns a value of the wrong kind.
    WrongReturn = "V609",
    /// An assignment to a parameter that the caller does not receive.
    LostAssignment = "V610",
    /// A tool returns a value on one path and nothing on another.
    NoResult = "V611",
    /// A text with a placeholder that is not filled in.
    UnfilledText = "V612",
    /// An answer that is built but not returned.
    LostAnswer = "V613",
    /// A `try` that is used as a value.
    TryAsValue = "V614",
    /// A comparison of values of two kinds.
    ForeignKinds = "V615",
    /// A time limit of a few milliseconds.
    ShortTimeout = "V616",
    /// A call without effect whose value is discarded.
    LostResult = "V617",
    /// A division of whole numbers whose fraction is used.
    LostFraction = "V618",

    // -- tests
    /// Tests that belong to no script, or a file without tests.
    NoTest = "V701",
    /// A test with parameters.
    TestWithParameters = "V702",
    /// A test failed.
    TestFailed = "V703",

    // -- at run time
    /// A call failed: a bug, an exceeded budget or a wrong return value.
    Broke = "V801",
    /// A scheduled function failed.
    ScheduledFailed = "V802",
}

impl Code {
    /// Returns the code of a name such as `V101`, case-insensitively.
    pub fn from_name(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.id().eq_ignore_ascii_case(id))
    }

    /// Returns its title: the text after its number in the heading.
    pub fn title(self) -> &'static str {
        self.section().split_once('\n').map_or("", |(title, _)| title)
    }

    /// Returns its page in Markdown: the problem, why it is wrong, an example and the correction.
    pub fn page(self) -> &'static str {
        self.section().split_once('\n').map_or("", |(_, page)| page).trim()
    }

    /// Returns the first paragraph of its page.
    pub fn summary(self) -> String {
        let paragraph = self.page().split_once("\n\n").map_or_else(|| self.page(), |(first, _)| first);
        paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns its section, from the title to the next heading.
    fn section(self) -> &'static str {
        let heading = DOCUMENT.find(&format!("\n### {} ", self.id()));
        let rest = heading.map_or("", |at| &DOCUMENT[at + "\n### V000 ".len()..]);
        let next = ["\n### ", "\n## "].into_iter().filter_map(|heading| rest.find(heading)).min();
        &rest[..next.unwrap_or(rest.len())]
    }
}

/// Writes its id.
impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id())
    }
}
