//! What tests may call besides all that scripts may: a file per theme.

mod assertions;
mod calling;
mod laying_out;
mod seeing;

pub(super) use calling::saying;

use super::stage::Stage;
use crate::package::RhaiResultOf;
use crate::value::error;
use rhai::{FnNamespace, FuncRegistration, Module, Shared};
use std::sync::{Arc, OnceLock};

/// The modules of tests; "" is the one whose functions need no module's name.
pub(crate) fn modules() -> &'static [(&'static str, Shared<Module>)] {
    static MODULES: OnceLock<Vec<(&'static str, Shared<Module>)>> = OnceLock::new();
    MODULES.get_or_init(|| {
        let mut own = Module::new();
        calling::register(&mut own);
        laying_out::register(&mut own);
        assertions::register(&mut own);
        let modules = [
            ("", own),
            ("canned", laying_out::canned()),
            ("clock", laying_out::clock()),
            ("seen", seeing::module()),
        ];
        let ready = |(name, mut module): (&'static str, Module)| {
            module.set_id(if name.is_empty() { "testing" } else { name });
            module.build_index();
            (name, module.into())
        };
        modules.into_iter().map(ready).collect()
    })
}

/// A function of this name, for every test.
fn function(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_namespace(FnNamespace::Global)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments([format!("/// {comment}")])
}

/// A function behind a module's name.
fn within(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments([format!("/// {comment}")])
}

/// The stage of the running test.
fn stage(function: &str) -> RhaiResultOf<Arc<Stage>> {
    Stage::current().map_err(|why| error(format!("{function}: {why}")))
}
