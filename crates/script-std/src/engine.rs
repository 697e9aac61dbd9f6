//! Creates an engine per plugin with every function of the host; and lists the functions that scripts may call, with and
//! without a module.

use crate::functions;
use rhai::{Engine, Module, Shared};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::OnceLock;
use valvehouse_dialect::{language, value};

/// Functions of the language itself, with any number of arguments.
pub const LANGUAGE: [&str; 11] = [
    "Fn",
    "call",
    "curry",
    "debug",
    "eval",
    "is_def_fn",
    "is_def_var",
    "is_shared",
    "print",
    "throw",
    "type_of",
];

/// Creates an engine with every host function and every limit, without access to the outside.
pub fn new() -> Engine {
    with_modules(|_| true)
}

/// Creates an engine with only these modules: Rhai searches each of them whenever it determines the type of a
/// value.
pub fn with_modules(is_wanted: impl Fn(&str) -> bool) -> Engine {
    let mut engine = language::engine([functions::globals(), own()]);
    for (name, module) in functions::modules().iter().filter(|(name, _)| is_wanted(name)) {
        engine.register_static_module(*name, module.clone());
    }
    engine
}

/// Returns `true` if every engine has a function of this name.
pub fn has_function(name: &str) -> bool {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    let names = NAMES
        .get_or_init(|| value::names_of(language::modules().iter().chain(&[functions::globals(), own()])));
    names.contains(name)
}

fn own() -> Shared<Module> {
    static OWN: OnceLock<Shared<Module>> = OnceLock::new();
    OWN.get_or_init(|| {
        let mut module = Module::new();
        functions::reading::register(&mut module);
        functions::turn::register(&mut module);
        functions::register_callable(&mut module);
        functions::register_after(&mut module);
        functions::padding::register(&mut module);
        module.build_index();
        module.into()
    })
    .clone()
}

/// Functions by name, with the numbers of arguments they take.
pub(super) type Functions = HashMap<String, BTreeSet<usize>>;

/// Returns the numbers of arguments that the host's functions of a name take; `None` if the function is unknown.
pub fn arities(name: &str) -> Option<&'static BTreeSet<usize>> {
    all().get("")?.get(name)
}

/// Returns the functions of a module such as `regex` or `kv::user`.
pub fn in_module(module: &str) -> Option<&'static Functions> {
    all().get(module).filter(|_| !module.is_empty())
}

/// Returns the names of all functions outside of modules.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().get("").into_iter().flat_map(|functions| functions.keys().map(String::as_str))
}

/// Returns the modules that have a function of this name, sorted.
pub fn modules_with(name: &str) -> impl Iterator<Item = &'static str> {
    let modules =
        all().iter().filter(|(module, functions)| !module.is_empty() && functions.contains_key(name));
    modules.map(|(module, _)| module.as_str()).collect::<BTreeSet<_>>().into_iter()
}

/// Returns the functions by module; those outside of modules are listed under "".
fn all() -> &'static HashMap<String, Functions> {
    static KNOWN: OnceLock<HashMap<String, Functions>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut known: HashMap<String, Functions> = HashMap::new();
        let functions = new().collect_fn_metadata(
            None,
            |info| {
                Some((info.namespace.to_string(), info.metadata.name.to_string(), info.metadata.num_params))
            },
            true,
        );
        for (module, name, arity) in functions {
            known.entry(module).or_default().entry(name).or_default().insert(arity);
        }
        known
    })
}
