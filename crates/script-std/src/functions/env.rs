//! `env::…`: the granted variables of the host's environment.

use super::argument::{RhaiResultOf, effect, fail, running};
use rhai::{Dynamic, Module};

/// The module with `env::get(name)`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "get",
        &["name: &str", "Dynamic"],
        "Returns the value of an environment variable of the host, `()` if it is not set. Fails if the \
         variable is not granted: `valvehouse grant ID env=NAME`.",
    )
    .set_into_module(&mut module, get);
    module
}

fn get(name: &str) -> RhaiResultOf<Dynamic> {
    let call = running("env::get")?;
    let value = call.resources.variables.get(name);
    let value = value.map_err(|failure| fail("env::get", failure.message_for(&call.caller.plugin)))?;
    Ok(value.map_or(Dynamic::UNIT, Dynamic::from))
}
