//! The fields for tools in the first version of OpenAI's API, for services that have none of them.

use super::draft::Draft;
use super::history::id_of;
use super::kind::ServiceKind;
use compact_str::CompactString;
use valvehouse_core::chat::message::role_of;
use valvehouse_json::Json;

/// Writes `functions` and `function_call` as tools and their choice, and the calls and results in messages as those of
/// tools. A result belongs to the call before it.
pub(super) fn write_tools(draft: &mut Draft, kind: ServiceKind) {
    let functions = draft.list("functions");
    if !functions.is_empty() {
        let mut tools = draft.list("tools");
        let is_legacy = tools.is_empty();
        tools.extend(functions.into_iter().map(of_function));
        draft.set("tools", tools.into(), "functions");
        if let (Some(choice), None) = (draft.given("function_call"), draft.given("tool_choice")) {
            let choice = if choice.is_object() { of_function(choice) } else { choice };
            draft.set("tool_choice", choice, "function_call");
        }
        if is_legacy && kind != ServiceKind::Ollama {
            // A message has at most one `function_call`.
            draft.set("parallel_tool_calls", false.into(), "functions");
        }
    }
    draft.remove("functions");
    draft.remove("function_call");
    let mut last: Option<CompactString> = None;
    for at in 0..draft.len() {
        let message = draft.message(at);
        let function = message.field("function_call");
        if function.is_object() && message.field("tool_calls").is_empty() {
            let id = id_of(at, 0, &function.text_or_empty("name"));
            let call = of_function(function.deep_clone());
            call.put("id", &*id);
            let message = draft.edit(at, "function_call");
            message.remove("function_call");
            message.put("tool_calls", vec![call]);
            last = Some(id);
        } else if role_of(message) == "function" {
            let message = draft.edit(at, "function_call");
            message.put("role", "tool");
            if let Some(id) = last.take() {
                message.put("tool_call_id", &*id);
            }
        }
    }
}

/// Returns a function, its choice or its call in the form of tools.
fn of_function(function: Json) -> Json {
    Json::from([("type", "function".into()), ("function", function)])
}
