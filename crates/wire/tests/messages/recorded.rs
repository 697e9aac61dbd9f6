//! Recorded answers, which are not part of the project: in and out again without a loss.

use super::{assembled, chunks, folded, json, written};
use valvehouse_core::chat::{self, CONTENT_BLOCKS, ModelCall, response, split};
use valvehouse_json::Json;
use valvehouse_testkit::recordings::recorded;
use valvehouse_wire::messages::answer;

fn events(name: &str) -> Option<Vec<Json>> {
    let text = recorded(name)?;
    let data = |line: &str| match name.ends_with(".jsonl") {
        true => Some(json(line)),
        false => line.strip_prefix("data:").map(json),
    };
    Some(text.lines().filter_map(data).collect())
}

/// The meaning of a message, without empty lists of citations and fields that only one way of sending it has.
fn meaning(message: &Json) -> Json {
    let meaning = Json::object();
    for key in ["id", "model", "role", "stop_reason", "stop_sequence"] {
        meaning.set(key, message.at_path(key)).unwrap();
    }
    let blocks = message.at_path("content").deep_clone();
    for block in blocks.items() {
        if block.get("citations").is_some_and(|citations| citations.is_empty()) {
            block.remove("citations");
        }
    }
    meaning.set("content", blocks).unwrap();
    for key in ["input_tokens", "output_tokens"] {
        meaning.set(key, message.at_path("usage").get(key)).unwrap();
    }
    meaning
}

/// The message of an answer; models write spaces into the arguments of calls.
fn without_spaces(answer: &Json) -> Json {
    let message = response::message_of(answer).deep_clone();
    for (call, given) in ModelCall::all(&message).iter().zip(message.at_path("tool_calls").items()) {
        given.at_path("function").set("arguments", call.parse().unwrap().to_string()).unwrap();
    }
    message
}

#[test]
fn recorded_answers_survive_a_round_trip() {
    for name in ["text", "text-tools", "thinking"] {
        let Some(text) = recorded(&format!("messages.{name}.anthropic.json")) else { return };
        let original = json(&text);
        let answer = answer::completion(&original);
        assert_eq!(meaning(&answer::write(&answer)), meaning(&original), "{name}");
        // The same chunks reach a client of either kind.
        let chunks = split(&answer, true);
        assert_eq!(folded(&chunks), answer, "{name}");
        assert_eq!(meaning(&assembled(&written(&chunks))), meaning(&original), "{name}");
    }
}

#[test]
fn recorded_streams_survive_a_round_trip() {
    for name in [
        "text.anthropic.sse",
        "text-tools.anthropic.sse",
        "thinking.anthropic.sse",
        "web-search.anthropic.sse",
        "duplicate-start.anthropic.jsonl",
    ] {
        let Some(mut events) = events(&format!("messages.{name}")) else { return };
        events.retain(|event| event.text("type").unwrap() != "ping");
        let chunks = chunks(&events);
        if name.starts_with("duplicate") {
            events.remove(0);
        }
        let original = assembled(&events);
        if original.at_path("usage.input_tokens").is_null() {
            // Only the start has it.
            let input = events[0].at_path("message.usage.input_tokens");
            original.at_path("usage").set("input_tokens", input).unwrap();
        }
        assert_eq!(meaning(&assembled(&written(&chunks))), meaning(&original), "{name}");
        let answer = folded(&chunks);
        assert_eq!(meaning(&answer::write(&answer)), meaning(&original), "{name}");
        // The same answer, had it come whole, and had it been kept back and then streamed.
        let whole = answer::completion(&original);
        assert_eq!(without_spaces(&whole), without_spaces(&answer), "{name}");
        let held = split(&answer, true);
        assert_eq!(meaning(&assembled(&written(&held))), meaning(&original), "{name}");
    }
}

#[test]
fn answers_have_the_fields_that_openai_clients_read() {
    let Some(tools) = events("messages.text-tools.anthropic.sse") else { return };
    let answer = folded(&chunks(&tools));
    let message = response::message_of(&answer);
    let calls = ModelCall::all(&message);
    assert_eq!(calls.iter().map(|call| &*call.name).collect::<Vec<_>>(), ["get_weather", "get_time"]);
    assert!(calls.iter().all(|call| call.parse().is_ok()));
    assert_eq!(response::finish_reason_of(&answer).as_deref(), Some("tool_calls"));
    assert_eq!(answer.at_path("usage.completion_tokens").as_i64(), Some(153));
    assert!(message.get(CONTENT_BLOCKS).is_none(), "{message}");

    let thinking = folded(&chunks(&events("messages.thinking.anthropic.sse").unwrap()));
    let message = response::message_of(&thinking);
    assert!(message.text("reasoning_content").unwrap().starts_with("Let me count"));
    assert!(message.at_path("content_blocks.0").text("signature").unwrap().starts_with("ErUB"));

    let search = folded(&chunks(&events("messages.web-search.anthropic.sse").unwrap()));
    let message = response::message_of(&search);
    let text = chat::message::text_of(&message);
    assert_eq!(text, "The latest stable Ruby version is 4.0.6, which was released in July 2026.");
    let kinds = message.at_path("content_blocks").items();
    let kinds: Vec<_> = kinds.iter().map(|block| block.text("type").unwrap()).collect();
    assert_eq!(kinds, ["server_tool_use", "web_search_tool_result", "text", "text", "text"]);
    assert!(!message.to_string().contains(r#"latest stable Ruby","#), "no text stands twice");
}
