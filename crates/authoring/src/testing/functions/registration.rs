//! Registers the functions of tests, and gives them access to the running test.

use crate::testing::environment::TestEnvironment;
use rhai::{FnNamespace, FuncRegistration};
use std::sync::Arc;
use valvehouse_dialect::value::error;
use valvehouse_script_std::functions::RhaiResultOf;

/// Registers a function without a module.
pub(super) fn function(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_namespace(FnNamespace::Global)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments([format!("/// {comment}")])
}

/// Registers a function of a module.
pub(super) fn within(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments([format!("/// {comment}")])
}

/// Returns the environment of the running test.
pub(super) fn environment(function: &str) -> RhaiResultOf<Arc<TestEnvironment>> {
    TestEnvironment::current().map_err(|why| error(format!("{function}: {why}")))
}
