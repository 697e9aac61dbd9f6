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

#[cfg(test)]
mod tests {
    use crate::messages::stream::MessagesWriter;
    use crate::ollama::answer::OllamaWriter;
    use crate::ollama::request::OllamaRoute;
    use crate::responses::answer::Resource;
    use crate::responses::request;
    use crate::responses::stream::ResponsesWriter;
    use valvehouse_core::chat::Fold;
    use valvehouse_json::Json;

    fn responses() -> ResponsesWriter {
        let request = request::read(Json::from([("input", "hi".into())]), Vec::new()).unwrap();
        ResponsesWriter::new(Resource::new(&request), request.spaces)
    }

    /// Returns what clients of other protocols receive for an answer in these deltas: whole and streamed over Messages,
    /// Responses and Ollama.
    fn written(deltas: &[&str], finish: &str) -> [Json; 6] {
        let event = |delta: &str, finish: &str| {
            let text = format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#);
            Json::parse(text.as_bytes()).unwrap()
        };
        let ollama = || OllamaWriter::new(OllamaRoute::Chat, "m".into());
        let (mut fold, mut messages, mut own, mut lines) =
            (Fold::default(), MessagesWriter::default(), responses(), ollama());
        let (mut message, mut line) = (Vec::new(), Vec::new());
        let last = event("{}", &format!("\"{finish}\""));
        for event in deltas.iter().map(|delta| event(delta, "null")).chain([last]) {
            fold.push(&event);
            message.extend(messages.write(&event));
            own.write(&event);
            line.extend(lines.write(&event));
        }
        message.extend(messages.end());
        line.extend(lines.end());
        let whole = fold.finish();
        let mut complete = responses();
        complete.write_whole(&whole);
        let last = |events: Vec<Json>| events.last().unwrap().field("response");
        [
            crate::messages::answer::write(&whole),
            message.into(),
            last(complete.end()),
            last(own.end()),
            ollama().whole(&whole),
            line.into(),
        ]
    }

    #[test]
    fn a_call_without_arguments_has_an_empty_object_in_a_response() {
        let call = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}"#;
        let [_, _, whole, response, ..] = written(&[call], "tool_calls");
        for response in [whole, response] {
            assert!(response.at_path("output.0").is_text("arguments", "{}"), "{response}");
        }
        let [_, _, _, cut, ..] = written(&[call], "length");
        assert!(cut.at_path("output.0").is_text("arguments", ""), "{cut}");
    }
}
