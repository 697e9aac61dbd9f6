//! Anthropic's blocks through filters: unchanged blocks keep their signatures, and blocks are neither joined
//! nor split.

use super::Shape;
use super::raw::{full, redacted};
use crate::generator::received::ReceivedMessage;
use crate::kernel::{asking, json, stream, value};
use serde_json::{Value, json};
use valvehouse::json::Json;
use valvehouse::kernel::ModelDefaults;
use valvehouse::provider::Reply;
use valvehouse::wire::messages::stream::{MessagesReader, MessagesWriter};

/// Returns the events of a response with these blocks, their texts in pieces of `length` characters.
pub(crate) fn events(blocks: &[Value], length: usize) -> Vec<Value> {
    let head = json!({"id": "msg_1", "model": "claude", "usage": {"input_tokens": 1}});
    let mut all = vec![json!({"type": "message_start", "message": head})];
    for (index, block) in blocks.iter().enumerate() {
        let (mut start, mut deltas) = (block.clone(), Vec::new());
        let mut grow = |kind: &str, key: &str, text: &str, length: usize| {
            let letters: Vec<char> = text.chars().collect();
            let pieces = letters.chunks(length.max(1)).map(|piece| piece.iter().collect::<String>());
            deltas.extend(pieces.map(|piece| json!({"type": kind, key: piece})));
        };
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match text("type") {
            "text" => {
                start = json!({"type": "text", "text": ""});
                grow("text_delta", "text", text("text"), length);
            }
            "thinking" => {
                start = json!({"type": "thinking", "thinking": "", "signature": ""});
                grow("thinking_delta", "thinking", text("thinking"), length);
                grow("signature_delta", "signature", text("signature"), usize::MAX);
            }
            "tool_use" | "server_tool_use" => {
                start["input"] = json!({});
                grow("input_json_delta", "partial_json", &block["input"].to_string(), length);
            }
            _ => {}
        }
        let citations = block["citations"].as_array().into_iter().flatten();
        deltas.extend(citations.map(|citation| json!({"type": "citations_delta", "citation": citation})));
        all.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        all.extend(deltas.into_iter().map(delta));
        all.push(json!({"type": "content_block_stop", "index": index}));
    }
    let usage = json!({"output_tokens": 2});
    all.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage}));
    all.push(json!({"type": "message_stop"}));
    all
}

/// Returns the blocks that an Anthropic client receives, without empty fields.
fn written(chunks: &[Json]) -> Vec<Value> {
    let mut writer = MessagesWriter::default();
    let mut events: Vec<Json> = chunks.iter().flat_map(|chunk| writer.write(chunk)).collect();
    events.extend(writer.end());
    full(&ReceivedMessage::of(&events.iter().map(value).collect::<Vec<_>>()).blocks)
}

/// Returns the blocks that an Anthropic client receives through filters of a shape.
async fn through(shape: Shape, events: &[Value]) -> Vec<Value> {
    let mut reader = MessagesReader::default().with_usage(true);
    let chunks: Vec<Json> = events.iter().flat_map(|event| reader.read(&json(&event.to_string()))).collect();
    let settings = ModelDefaults { hold: shape == Shape::Hold, ..ModelDefaults::default() };
    let kernel = asking([Reply::chunks(chunks)]).0.filters(shape.filters()).settings(settings).build();
    let streamed = stream(&kernel).await;
    streamed.answer.as_ref().unwrap();
    written(&streamed.pieces.into_iter().map(|piece| piece.event).collect::<Vec<_>>())
}

pub(super) fn answers() -> Vec<Vec<Value>> {
    let thinking = |text: &str| json!({"type": "thinking", "thinking": text, "signature": "c2ln"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let tool = |n: usize| {
        let input = json!({"place": format!("Seattle, WA {n}")});
        json!({"type": "tool_use", "id": format!("t{n}"), "name": "f", "input": input})
    };
    let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search",
        "input": {"query": "latest stable Ruby version"}});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "s1",
        "content": [{"type": "web_search_result", "title": "Ruby", "url": "https://r.example"}]});
    let cited = json!({"type": "text", "text": "Ruby is at 4.", "citations":
        [{"type": "web_search_result_location", "url": "https://r.example", "cited_text": "4"}]});
    vec![
        vec![thinking("I have to think before acting."), text("Let me look."), tool(1), tool(2)],
        vec![text("Let me look."), tool(1), text("second words"), tool(2), text("third")],
        vec![search, result, cited, text(" That is new.")],
        vec![thinking("one"), text("first words"), tool(1), thinking("two, at length"), text("last words")],
        vec![text("only text")],
    ]
}

#[tokio::test]
async fn unchanged_blocks_pass_as_they_are() {
    for answer in answers() {
        for length in 1..12 {
            let events = events(&answer, length);
            for shape in
                [Shape::None, Shape::Identity, Shape::Window, Shape::Redact, Shape::RedactTwice, Shape::Hold]
            {
                assert_eq!(through(shape, &events).await, answer, "{shape:?}, pieces of {length}");
            }
        }
    }
}

#[tokio::test]
async fn a_changed_block_loses_its_signature_and_the_others_keep_theirs() {
    let secret = json!({"type": "thinking", "thinking": "it is secret-42, hm", "signature": "c2ln"});
    let other = json!({"type": "thinking", "thinking": "something else", "signature": "b3RoZXI="});
    let text = json!({"type": "text", "text": "so it is"});
    let tool = json!({"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}});
    for answer in
        [vec![secret.clone(), text.clone(), tool.clone(), other.clone()], vec![other, text, tool, secret]]
    {
        for length in [1, 3, 100] {
            let events = events(&answer, length);
            for shape in [Shape::Redact, Shape::RedactTwice, Shape::Hold] {
                assert_eq!(through(shape, &events).await, redacted(&answer), "{shape:?}, pieces of {length}");
            }
        }
    }
}

#[tokio::test]
async fn anthropic_clients_receive_custom_tool_calls() {
    let calls = super::Speech::Calls(vec![super::Call::custom("f2", "any text")]);
    let call = json!({"type": "tool_use", "id": "call_0", "name": "f2", "input": {"input": "any text"}});
    assert_eq!(written(&super::events_of(&[calls], 2, true)), [call]);
}
