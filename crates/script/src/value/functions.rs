//! The functions of live values.

use super::{list, map, message};
use rhai::{Module, Shared};
use std::sync::OnceLock;

/// The functions of live values, for every engine.
pub(crate) fn functions() -> Shared<Module> {
    static FUNCTIONS: OnceLock<Shared<Module>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            let mut module = Module::new();
            list::register(&mut module);
            map::register(&mut module);
            message::register(&mut module);
            module.build_index();
            module.into()
        })
        .clone()
}
