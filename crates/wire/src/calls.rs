//! Tool calls for protocols in which every input is an object.

use valvehouse_core::chat::ModelCall;
use valvehouse_core::chat::delta::is_custom;
use valvehouse_json::Json;

/// Returns the tool calls of a message with their inputs as objects, and the calls as the message has them.
///
/// The free-form text of a custom tool becomes `{input}`. Arguments that are cut off or are not an object become
/// `{unreadable_arguments}`, so that the model sees them next to the error.
pub(crate) fn with_objects(message: &Json) -> Vec<(ModelCall, Json, Json)> {
    let calls = message.list("tool_calls").into_iter().filter_map(|given| {
        let alone = Json::from([("tool_calls", vec![given.clone()].into())]);
        let call = ModelCall::all(&alone).pop()?;
        let text = |key: &str| Json::from([(key, call.arguments.clone().into())]);
        let input = match is_custom(&given) {
            true => text("input"),
            false => call.parse().unwrap_or_else(|_| text("unreadable_arguments")),
        };
        Some((call, input, given))
    });
    calls.collect()
}
