//! The service with Anthropic's Messages API.

use super::{Part, Step, finish, parts, steps};
use crate::generator::answer::{Round, Source};
use crate::generator::outcome::{call_of, text_of};
use serde_json::{Value, json};

/// Returns the conversation of a request: each text of a user and each tool result is a separate message.
pub(crate) fn conversation(body: &Value) -> Vec<Value> {
    let mut messages = Vec::new();
    let system = text_of(&body["system"]);
    if !system.is_empty() {
        messages.push(json!({"role": "system", "text": system}));
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.clone(),
            text => vec![json!({"type": "text", "text": text})],
        };
        if message["role"] == "assistant" {
            let mut answer = json!({"role": "assistant", "text": text_of(&json!(blocks))});
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let calls: Vec<_> = calls.map(|block| call_of(&block["name"], &block["input"])).collect();
            if !calls.is_empty() {
                answer["calls"] = json!(calls);
            }
            messages.push(answer);
            continue;
        }
        messages.extend(blocks.iter().map(|block| match block["type"].as_str() {
            Some("tool_result") => json!({"role": "tool", "text": text_of(&block["content"])}),
            _ => json!({"role": message["role"], "text": block["text"]}),
        }));
    }
    messages
}

fn block(part: &Part) -> Value {
    match part {
        Part::Text(text, sources) if sources.is_empty() => json!({"type": "text", "text": text}),
        Part::Text(text, sources) => {
            let citations: Vec<Value> = sources.iter().map(citation).collect();
            json!({"type": "text", "text": text, "citations": citations})
        }
        Part::Refusal(_) => unreachable!("no such case is sent here"),
        Part::Thought(text) => json!({"type": "thinking", "thinking": text, "signature": "c2ln"}),
        Part::Call { id, name, arguments, is_custom } => {
            let input: Value = match is_custom {
                true => json!({"input": arguments}),
                false => serde_json::from_str(arguments).unwrap_or(json!({})),
            };
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
    }
}

fn citation(source: &Source) -> Value {
    json!({"type": "web_search_result_location", "url": source.url, "title": source.title,
        "cited_text": "quoted", "encrypted_index": "ZW5j"})
}

/// Returns a whole response.
pub(crate) fn whole(number: usize, round: &Round) -> Value {
    let blocks: Vec<Value> = parts(round).iter().map(block).collect();
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "m", "content": blocks,
        "stop_reason": reason(round), "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
    })
}

fn reason(round: &Round) -> &'static str {
    match finish(round) {
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
        _ => "end_turn",
    }
}

/// Returns the events of a streamed response.
pub(crate) fn events(number: usize, round: &Round) -> Vec<Value> {
    let mut message = whole(number, round);
    (message["content"], message["stop_reason"]) = (json!([]), Value::Null);
    let mut events = vec![json!({"type": "message_start", "message": message})];
    let mut next = 0;
    // The last delta of a block.
    let mut last: Option<Value> = None;
    let mut is_custom = false;
    let end = |events: &mut Vec<Value>, next: usize, last: &mut Option<Value>| {
        let Some(index) = next.checked_sub(1) else { return };
        if let Some(delta) = last.take() {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    };
    for step in steps(round) {
        let delta = match step {
            Step::Begins(part) => {
                end(&mut events, next, &mut last);
                let mut block = block(&part);
                is_custom = matches!(part, Part::Call { is_custom: true, .. });
                if let Part::Thought(_) = part {
                    block["signature"] = json!("");
                    last = Some(json!({"type": "signature_delta", "signature": "c2ln"}));
                }
                if let Part::Call { .. } = part {
                    block["input"] = json!({});
                }
                events.push(json!({"type": "content_block_start", "index": next, "content_block": block}));
                next += 1;
                if !is_custom {
                    continue;
                }
                last = Some(json!({"type": "input_json_delta", "partial_json": "\"}"}));
                json!({"type": "input_json_delta", "partial_json": "{\"input\": \""})
            }
            Step::Text(text) => json!({"type": "text_delta", "text": text}),
            Step::Source(source) => json!({"type": "citations_delta", "citation": citation(&source)}),
            Step::Refusal(_) => unreachable!("no such case is sent here"),
            Step::Arguments(text) if is_custom => {
                let text = json!(text).to_string();
                json!({"type": "input_json_delta", "partial_json": text[1..text.len() - 1]})
            }
            Step::Thought(text) => json!({"type": "thinking_delta", "thinking": text}),
            Step::Arguments(text) => json!({"type": "input_json_delta", "partial_json": text}),
        };
        events.push(json!({"type": "content_block_delta", "index": next - 1, "delta": delta}));
    }
    end(&mut events, next, &mut last);
    let delta = json!({"stop_reason": reason(round), "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// Converts an error from OpenAI's format to Anthropic's.
pub(crate) fn error(body: &Value) -> Value {
    let kind = match &body["error"]["type"] {
        kind if kind == "server_error" => "api_error".into(),
        kind => kind.clone(),
    };
    json!({"type": "error", "error": {"type": kind, "message": body["error"]["message"]}})
}
