//! The language of scripts: Rhai with metered natives, live values, `throw` with a position, and limits. An engine is
//! cheap because everything but the limits is shared.

use crate::call::log;
use crate::syntax::tokens;
use crate::value::limits::{ARRAY, MAP};
use crate::value::{self, limits as value_limits};
use crate::{answer, interpreter, standard};
use rhai::{Dynamic, Engine, Module, OptimizationLevel, Shared};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Creates an engine with every limit and these `functions`, without access to the outside.
pub fn engine(functions: impl IntoIterator<Item = Shared<Module>>) -> Engine {
    let mut engine = Engine::new_raw();
    for module in modules().into_iter().chain(functions) {
        engine.register_global_module(module);
    }
    engine
        .set_optimization_level(OptimizationLevel::Simple)
        .set_max_strings_interned(0)
        .set_max_call_levels(interpreter::LEVELS_OF_RHAI)
        .set_max_expr_depths(128, 64)
        .set_max_string_size(value_limits::max_text())
        .set_max_array_size(ARRAY)
        .set_max_map_size(MAP)
        .set_max_variables(256)
        .set_max_functions(500)
        .set_max_modules(0)
        .disable_symbol("eval");
    engine.on_print(|text| log::log(tracing::Level::INFO, text));
    engine.on_debug(|text, _, position| {
        log::log(tracing::Level::DEBUG, &format!("{position:?} {text}"));
    });
    tokens::free_reserved_words(&mut engine);
    tokens::accept_literal_operands(&mut engine);
    answer::own_throw(&mut engine);
    value::lend_missing_functions(&mut engine);
    engine
}

/// Returns the functions of the language.
pub fn modules() -> [Shared<Module>; 4] {
    static OWN: OnceLock<Shared<Module>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let mut module = Module::new();
        answer::register(&mut module);
        value::register_bytes(&mut module);
        module.build_index();
        module.into()
    });
    [standard::packages(), standard::metered(), value::functions(), own.clone()]
}

/// Resolves names that Rhai cannot: the file's constants within its functions, and the variable of a caught error.
pub fn resolve_names(engine: &mut Engine, constants: HashMap<String, Dynamic>, caught: Vec<String>) {
    if constants.is_empty() && caught.is_empty() {
        return;
    }
    let constants = Arc::new(constants);
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_var(move |name, _, mut context| {
        if caught.iter().any(|caught| caught == name) {
            let scope = context.scope_mut();
            let converted = scope.get_value_ref::<rhai::Map>(name).cloned().map(Dynamic::from);
            if let Some(thrown) = converted.as_ref().and_then(answer::from_catch) {
                scope.set_value(name.to_owned(), thrown);
            }
            return Ok(None);
        }
        if context.scope().contains(name) {
            return Ok(None);
        }
        Ok(constants.get(name).cloned())
    });
}
