//! The registration of a word of tests, and its access to the running test.

use crate::package::RhaiResultOf;
use crate::testing::environment::TestEnvironment;
use crate::value::error;
use rhai::{FnNamespace, FuncRegistration};
use std::sync::Arc;

/// A function of this name, for every test.
pub(super) fn function(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_namespace(FnNamespace::Global)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments([format!("/// {comment}")])
}

/// A function behind a module's name.
pub(super) fn within(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
    FuncRegistration::new(name)
        .with_volatility(true)
        .with_params_info(params)
        .with_comments([format!("/// {comment}")])
}

/// The environment of the running test.
pub(super) fn environment(function: &str) -> RhaiResultOf<Arc<TestEnvironment>> {
    TestEnvironment::current().map_err(|why| error(format!("{function}: {why}")))
}
