//! The functions that scripts may call, read from the engine.

use super::keys::type_of_engine;
use crate::engine;
use rhai::{Engine, FuncMetadata};
use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;
use valvehouse_dialect::value::Type;
use valvehouse_grants::Capability;

/// A function that scripts may call. Overloads by number of arguments are separate functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The path before `::`, such as `regex` or `kv::user`; "" for a function outside of modules.
    pub module: String,
    /// Its name.
    pub name: String,
    /// Its parameters, in order. A method's first parameter is its receiver.
    pub params: Vec<Param>,
    /// The type of its result.
    pub returns: Type,
    /// Its documentation, in Markdown.
    pub doc: String,
    /// The capability that a script must declare to call it.
    pub capability: Option<Capability>,
    /// `true` if a call may wait for another machine, a program, a model or a person.
    pub may_wait: bool,
    /// `true` if it is called as a method: `messages.last("user")`.
    pub is_method: bool,
    /// Its origin.
    pub origin: FunctionOrigin,
}

/// The origin of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionOrigin {
    /// The host.
    Host,
    /// The language.
    Rhai,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The type of its value.
    pub kind: Type,
}

impl Function {
    /// Returns the path of a function, such as `regex::find`, or of a method, such as `messages.last`.
    pub fn path(&self) -> String {
        match (&*self.module, self.params.first()) {
            ("", Some(of)) if self.is_method => format!("{}.{}", of.name, self.name),
            ("", _) => self.name.clone(),
            (module, _) => format!("{module}::{}", self.name),
        }
    }

    /// Returns the signature, such as `regex::find(text: text, pattern: text) -> any`.
    pub fn signature(&self) -> String {
        let params: Vec<String> = self.arguments().iter().map(Param::written).collect();
        let returns = match self.returns {
            Type::Nothing => String::new(),
            other => format!(" -> {other}"),
        };
        format!("{}({}){returns}", self.path(), params.join(", "))
    }

    /// Returns the parameters between the brackets of a call.
    pub fn arguments(&self) -> &[Param] {
        &self.params[usize::from(self.is_method)..]
    }
}

impl Param {
    /// Returns the parameter as `pattern: text`, or only its name if the kind adds nothing.
    pub fn written(&self) -> String {
        let kind = self.kind.name();
        if kind == self.name || self.kind == Type::Any {
            self.name.clone()
        } else {
            format!("{}: {kind}", self.name)
        }
    }
}

/// Returns all functions except operators: the host's first, sorted by module and name.
pub fn functions() -> &'static [Function] {
    static ALL: OnceLock<Vec<Function>> = OnceLock::new();
    ALL.get_or_init(read)
}

/// Returns the modules and names of the functions that return a boolean for any arguments.
pub fn boolean_functions() -> &'static HashSet<(&'static str, &'static str)> {
    static ALL: OnceLock<HashSet<(&str, &str)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let named = |function: &'static Function| (function.module.as_str(), function.name.as_str());
        let others = functions().iter().filter(|function| function.returns != Type::Boolean);
        let others: HashSet<_> = others.map(named).collect();
        functions().iter().map(named).filter(|name| !others.contains(name)).collect()
    })
}

/// Returns the functions that are registered with an engine, sorted by module and name.
pub fn registered_with(engine: &Engine) -> Vec<Function> {
    let mut all = engine.collect_fn_metadata(None, |info| read_one(&info.namespace, info.metadata), false);
    all.sort_by_key(order);
    all
}

/// The built-in functions that are not registered, and their documentation.
const BUILT_IN: [(&str, &[&str], Type, &str, FunctionOrigin); 10] = [
    (
        "print",
        &["value: any"],
        Type::Nothing,
        "Writes a line to the log, like log::info().",
        FunctionOrigin::Host,
    ),
    (
        "debug",
        &["value: any"],
        Type::Nothing,
        "Writes a debug line with its place in the script to the log.",
        FunctionOrigin::Host,
    ),
    (
        "type_of",
        &["value: any"],
        Type::Text,
        "Returns the type of a value: `\"string\"`, `\"i64\"`, `\"array\"`, `\"map\"`, `\"()\"` …; the same \
         for live and plain values.",
        FunctionOrigin::Rhai,
    ),
    (
        "Fn",
        &["name: text"],
        Type::Closure,
        "Returns the function of this name as a value.",
        FunctionOrigin::Rhai,
    ),
    (
        "call",
        &["function: closure"],
        Type::Any,
        "Calls a function value with the arguments that follow: `f.call(1, 2)`.",
        FunctionOrigin::Rhai,
    ),
    (
        "curry",
        &["function: closure", "argument: any"],
        Type::Closure,
        "Returns a function value with its first arguments bound.",
        FunctionOrigin::Rhai,
    ),
    (
        "is_shared",
        &["value: any"],
        Type::Boolean,
        "Returns true if a closure shares the variable.",
        FunctionOrigin::Rhai,
    ),
    (
        "is_def_var",
        &["name: text"],
        Type::Boolean,
        "Returns true if a variable of this name exists.",
        FunctionOrigin::Rhai,
    ),
    (
        "is_def_fn",
        &["name: text", "count: integer"],
        Type::Boolean,
        "Returns true if the script has a function of this name with this number of parameters.",
        FunctionOrigin::Rhai,
    ),
    (
        "sleep",
        &["seconds: number"],
        Type::Nothing,
        "Not available: write `time::sleep(milliseconds)`.",
        FunctionOrigin::Rhai,
    ),
];

/// Capabilities whose functions may wait.
pub const WAITING: [Capability; 8] = [
    Capability::Http,
    Capability::Files,
    Capability::Shell,
    Capability::Llm,
    Capability::Tools,
    Capability::Vectors,
    Capability::Memories,
    Capability::Chats,
];

/// Internal names of the language.
const HIDDEN: [&str; 10] = [
    "__call_tool__",
    "print",
    "debug",
    "to_debug",
    "sleep",
    "get_fn_metadata_list",
    "is_def_var",
    "is_def_fn",
    "tag",
    "set_tag",
];

fn read() -> Vec<Function> {
    let engine = engine::new();
    let of_host = engine.collect_fn_metadata(None, |info| read_one(&info.namespace, info.metadata), false);
    let all = engine.collect_fn_metadata(None, |info| read_one(&info.namespace, info.metadata), true);
    let mut read: BTreeMap<Order, Function> = BTreeMap::new();
    let built_in = BUILT_IN.iter().map(|(name, params, returns, doc, origin)| Function {
        module: String::new(),
        name: (*name).to_owned(),
        params: params.iter().filter_map(|written| param(written)).collect(),
        returns: *returns,
        doc: (*doc).to_owned(),
        capability: None,
        may_wait: false,
        is_method: matches!(*name, "call" | "curry"),
        origin: *origin,
    });
    let known_to_rhai = |one: &Function| {
        all.iter().any(|other| other.name == one.name && other.module.is_empty() && !other.doc.is_empty())
    };
    // Functions that Rhai has too behave the same on live values, and are documented there.
    let own = of_host.iter().filter(|one| !(one.doc.is_empty() && known_to_rhai(one)));
    let names: HashSet<&str> = of_host.iter().map(|one| one.name.as_str()).collect();
    let rhais = all.iter().filter(|one| !(names.contains(one.name.as_str()) && of_host.contains(one)));
    let rhais = rhais.map(|one| Function {
        origin: FunctionOrigin::Rhai,
        is_method: is_method_of_rhai(one),
        ..one.clone()
    });
    for function in built_in.chain(own.cloned()).chain(rhais) {
        read.entry(order(&function)).or_insert(function);
    }
    read.into_values().collect()
}

/// A function or operator as registered with the engine, including overloads, getters and setters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// The module before `::`; empty for a function outside of modules.
    pub module: String,
    /// Its name: `+` for an operator, `get$system` for a getter, `set$system` for a setter.
    pub name: String,
    /// The engine's names for the types of its arguments, such as `INT`, `ImmutableString`, `Dynamic`.
    pub params: Vec<String>,
}

/// Returns all functions and operators that an engine of this host offers to scripts, sorted.
pub fn registrations() -> Vec<Registration> {
    let read = |module: &str, function: &FuncMetadata| {
        let written =
            function.params_info.iter().map(|info| info.split_once(':').map_or(&**info, |(_, kind)| kind));
        let written =
            written.map(|kind| kind.trim().trim_start_matches('&').trim_start_matches("mut ").trim());
        let mut params: Vec<String> = written.map(str::to_owned).collect();
        params.resize_with(function.num_params, || "Dynamic".to_owned());
        Registration { module: module.to_owned(), name: function.name.to_string(), params }
    };
    let mut all =
        engine::new().collect_fn_metadata(None, |info| Some(read(&info.namespace, info.metadata)), true);
    all.sort();
    all.dedup();
    all
}

type Order = (FunctionOrigin, String, String, Vec<String>);

/// Returns the sort key. Overloads whose parameters have the same kinds for scripts count as one function.
fn order(function: &Function) -> Order {
    let kinds = function.params.iter().map(|param| param.kind.name()).collect();
    (function.origin, function.module.clone(), function.name.clone(), kinds)
}

fn read_one(module: &str, function: &FuncMetadata) -> Option<Function> {
    let name = function.name.as_str();
    let is_word = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !is_word || module.is_empty() && HIDDEN.contains(&name) {
        return None;
    }
    let mut params: Vec<Param> =
        function.params_info.iter().map(|info| param(info)).collect::<Option<_>>()?;
    params.resize_with(function.num_params, || Param { name: "_".into(), kind: Type::Any });
    let top = module.split(':').next();
    let capability = Capability::ALL.into_iter().find(|one| top == Some(one.name()));
    let is_ask = match module {
        "" => ["ask", "__event_call__", "retry", "poll", "parallel"].contains(&name),
        module => (module, name) == ("time", "sleep"),
    };
    Some(Function {
        module: module.to_owned(),
        name: name.to_owned(),
        params,
        returns: match function.return_type.as_str() {
            "" => Type::Nothing,
            kind => type_of_engine(kind)?,
        },
        doc: doc_of(&function.comments),
        capability,
        may_wait: is_ask || capability.is_some_and(|one| WAITING.contains(&one)),
        is_method: module.is_empty()
            && function.params_info.first().is_some_and(|info| info.contains("&mut")),
        origin: FunctionOrigin::Host,
    })
}

fn param(info: &str) -> Option<Param> {
    let (name, kind) = info.split_once(':').unwrap_or((info, ""));
    let name = name.trim();
    let name = name.strip_prefix("mut ").unwrap_or(name);
    Some(Param { name: if name.is_empty() { "_" } else { name }.to_owned(), kind: type_of_engine(kind)? })
}

/// Returns `true` if a function of Rhai is documented as a method: those on a value are nearly always called as
/// methods.
fn is_method_of_rhai(function: &Function) -> bool {
    let made =
        ["range", "blob", "timestamp", "parse_int", "parse_float", "parse_json", "max", "min", "PI", "E"];
    !function.params.is_empty() && !made.contains(&function.name.as_str())
}

/// Returns the text of a doc comment, without its marks and without the examples of Rhai's own.
pub(super) fn doc_of(comments: &[impl AsRef<str>]) -> String {
    let lines = comments.iter().flat_map(|comment| comment.as_ref().lines());
    let lines = lines
        .map(|line| line.trim_start().trim_start_matches("///"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("# ")).collect();
    text.join("\n").trim().to_owned()
}
