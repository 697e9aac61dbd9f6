//! The functions that scripts may call: the host's own and Rhai's, with and without a module's name.

use super::engine;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

/// Functions by their names, and how many arguments each takes.
pub(super) type Functions = HashMap<String, BTreeSet<usize>>;

/// Returns the numbers of arguments that the host's functions of a name take; none where it has no such
/// function.
pub(super) fn arities(name: &str) -> Option<&'static BTreeSet<usize>> {
    all().get("")?.get(name)
}

/// The functions of a module such as `regex` or `kv::user`.
pub(super) fn in_module(module: &str) -> Option<&'static Functions> {
    all().get(module).filter(|_| !module.is_empty())
}

/// All names that need no module's.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().get("").into_iter().flat_map(|functions| functions.keys().map(String::as_str))
}

/// The modules that have a function of this name, in their order.
pub(super) fn modules_with(name: &str) -> impl Iterator<Item = &'static str> {
    let modules =
        all().iter().filter(|(module, functions)| !module.is_empty() && functions.contains_key(name));
    modules.map(|(module, _)| module.as_str()).collect::<BTreeSet<_>>().into_iter()
}

/// By module; those without one under "".
fn all() -> &'static HashMap<String, Functions> {
    static KNOWN: OnceLock<HashMap<String, Functions>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut known: HashMap<String, Functions> = HashMap::new();
        let functions = engine::new().collect_fn_metadata(
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
