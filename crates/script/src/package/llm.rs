//! `llm::chat`: a script asks a model of this host.

use super::argument::{AnyMap, RhaiResultOf, fail, unfit};
use super::host_calls;
use crate::value::{Shape, json_of, live};
use crate::{budget, call};
use rhai::{Dynamic, FuncRegistration, Module};
use valvehouse_json::Json;

pub(super) fn module() -> Module {
    let mut module = Module::new();
    FuncRegistration::new("chat")
        .with_params_info(["request: map", "result"])
        .with_comments([
            "/// Asks a model of this host: `llm::chat(#{ model: \"assistant\", messages: [#{ role: \"user\", content: \"…\" }] })`.\n             /// Gives `#{ content, tool_calls, finish_reason, usage, model, id }`. Without a `model` the turn's own is asked.\n             /// Every other filter of that model runs; those of the script itself do not.",
        ])
        .with_volatility(true)
        .set_into_module(&mut module, |request: AnyMap| chat(&request));
    module
}

fn chat(request: &Dynamic) -> RhaiResultOf<Dynamic> {
    const NAME: &str = "llm::chat";
    let call = call::current().ok_or_else(|| fail(NAME, "there is no model to ask outside of a turn"))?;
    let models = call.reach.models.as_ref();
    let models = models.ok_or_else(|| fail(NAME, "declare it in the opening comment: requirements: llm"))?;
    if call.turn.facts().callers.iter().any(|caller| **caller == *call.caller.plugin) {
        return Err(fail(NAME, "this call already is part of a question of this script's own"));
    }
    let request = match json_of(request)? {
        request @ Json::Object(_) => request.copy(),
        _ => return Err(unfit(NAME, "request", "a map", request)),
    };
    let plugin = call.caller.plugin.to_string();
    let answer = host_calls::once(
        NAME,
        || request.copy(),
        || {
            let asked = models.chat(plugin, request.copy(), call.turn.clone());
            budget::wait(&call.turn, asked)?.map_err(|fault| fail(NAME, fault))
        },
    )?;
    Ok(live(&answer, Shape::Message))
}
