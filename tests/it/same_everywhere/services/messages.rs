//! The service over Anthropic's Messages.

use super::{Part, Step, finish, parts, steps};
use crate::same_everywhere::case::Failure;
use crate::same_everywhere::seen::{call_of, text_of};
use crate::sdk::upstream::Round;
use serde_json::{Value, json};

/// The conversation of a request: each text of a user and each result of a tool is a message of its own.
pub(super) fn conversation(body: &Value) -> Vec<Value> {
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
            let mut said = json!({"role": "assistant", "text": text_of(&json!(blocks))});
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let calls: Vec<_> = calls.map(|block| call_of(&block["name"], &block["input"])).collect();
            if !calls.is_empty() {
                said["calls"] = json!(calls);
            }
            messages.push(said);
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
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Thought(text) => json!({"type": "thinking", "thinking": text, "signature": "c2ln"}),
        Part::Call { id, name, arguments } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or(json!({}));
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
    }
}

/// A whole answer.
pub(super) fn whole(number: usize, round: &Round) -> Value {
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
        _ => "end_turn",
    }
}

/// The events of a streamed answer.
pub(super) fn events(number: usize, round: &Round) -> Vec<Value> {
    let mut message = whole(number, round);
    (message["content"], message["stop_reason"]) = (json!([]), Value::Null);
    let mut events = vec![json!({"type": "message_start", "message": message})];
    let mut next = 0;
    let mut is_thought = false;
    let end = |events: &mut Vec<Value>, next: usize, is_thought: &mut bool| {
        let Some(index) = next.checked_sub(1) else { return };
        if std::mem::take(is_thought) {
            let delta = json!({"type": "signature_delta", "signature": "c2ln"});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    };
    for step in steps(round) {
        let delta = match step {
            Step::Begins(part) => {
                end(&mut events, next, &mut is_thought);
                is_thought = matches!(part, Part::Thought(_));
                let mut block = block(&part);
                if is_thought {
                    block["signature"] = json!("");
                }
                events.push(json!({"type": "content_block_start", "index": next, "content_block": block}));
                next += 1;
                continue;
            }
            Step::Text(text) => json!({"type": "text_delta", "text": text}),
            Step::Thought(text) => json!({"type": "thinking_delta", "thinking": text}),
            Step::Arguments(text) => json!({"type": "input_json_delta", "partial_json": text}),
        };
        events.push(json!({"type": "content_block_delta", "index": next - 1, "delta": delta}));
    }
    end(&mut events, next, &mut is_thought);
    let delta = json!({"stop_reason": reason(round), "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// An error, under the type that Anthropic has for its status.
pub(super) fn refusal(failure: &Failure) -> Value {
    let kind = match failure.status {
        429 => "rate_limit_error",
        400 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": failure.body["error"]["message"]}})
}
