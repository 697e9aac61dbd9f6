//! The modules of tests.

use super::{assertions, calls, fixtures, observations};
use rhai::{Engine, Module, Shared};
use std::sync::OnceLock;
use valvehouse_script_std::reference::{self, Function};

/// Returns the modules of tests; the functions of the module "" need no prefix.
pub(in crate::testing) fn modules() -> &'static [(&'static str, Shared<Module>)] {
    static MODULES: OnceLock<Vec<(&'static str, Shared<Module>)>> = OnceLock::new();
    MODULES.get_or_init(|| {
        let mut own = Module::new();
        calls::register(&mut own);
        fixtures::register(&mut own);
        assertions::register(&mut own);
        let modules = [
            ("", own),
            ("canned", fixtures::canned()),
            ("clock", fixtures::clock()),
            ("seen", observations::module()),
        ];
        let ready = |(name, mut module): (&'static str, Module)| {
            module.set_id(if name.is_empty() { "testing" } else { name });
            module.build_index();
            (name, module.into())
        };
        modules.into_iter().map(ready).collect()
    })
}

/// Returns the functions that only tests may call, sorted by module and name.
pub fn test_functions() -> &'static [Function] {
    static ALL: OnceLock<Vec<Function>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut engine = Engine::new_raw();
        for (name, module) in modules() {
            match *name {
                "" => engine.register_global_module(module.clone()),
                name => engine.register_static_module(name, module.clone()),
            };
        }
        reference::registered_with(&engine)
    })
}
