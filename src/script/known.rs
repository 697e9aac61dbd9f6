//! The functions that every script may call without a module's name: the host's own and Rhai's.

use super::engine;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

/// How many arguments the host's functions of a name take; none where it has no such function.
pub(super) fn arities(name: &str) -> Option<&'static BTreeSet<usize>> {
    static KNOWN: OnceLock<HashMap<String, BTreeSet<usize>>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut known: HashMap<String, BTreeSet<usize>> = HashMap::new();
        let functions = engine::new().collect_fn_metadata(
            None,
            |info| {
                let function = info.metadata;
                info.namespace.is_empty().then(|| (function.name.to_string(), function.num_params))
            },
            true,
        );
        for (name, arity) in functions {
            known.entry(name).or_default().insert(arity);
        }
        known
    });
    known.get(name)
}
