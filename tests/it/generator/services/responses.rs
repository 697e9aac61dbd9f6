//! The service with OpenAI's Responses API. Some responses have items that only this service can read:
//! encrypted reasoning, and a built-in search.

use super::{Part, Step, finish, parts, steps};
use crate::generator::answer::{Round, Source};
use crate::generator::outcome::{call_of, text_of};
use serde_json::{Map, Value, json};

/// Returns the conversation of a request: consecutive items of the model are one message.
pub(crate) fn conversation(body: &Value) -> Vec<Value> {
    let mut messages: Vec<Map<String, Value>> = Vec::new();
    let model = |messages: &mut Vec<Map<String, Value>>| {
        if messages.last().is_none_or(|last| last["role"] != "assistant") {
            let empty = json!({"role": "assistant", "text": ""});
            messages.push(empty.as_object().unwrap().clone());
        }
    };
    for item in body["input"].as_array().into_iter().flatten() {
        let text = text_of(&item["content"]);
        match (item["type"].as_str().unwrap_or("message"), item["role"].as_str()) {
            ("message", Some("assistant")) => {
                model(&mut messages);
                let message = messages.last_mut().unwrap();
                message["text"] = json!(message["text"].as_str().unwrap().to_owned() + text.as_str());
            }
            ("message", role) => messages.extend(json!({"role": role, "text": text}).as_object().cloned()),
            ("function_call", _) => {
                model(&mut messages);
                let calls = messages.last_mut().unwrap().entry("calls").or_insert(json!([]));
                calls.as_array_mut().unwrap().push(json!(call_of(&item["name"], &item["arguments"])));
            }
            ("function_call_output", _) => {
                let result = json!({"role": "tool", "text": text_of(&item["output"])});
                messages.extend(result.as_object().cloned());
            }
            // A message of the model may consist of these items only.
            _ => model(&mut messages),
        }
    }
    messages.into_iter().map(Value::from).collect()
}

fn has_encrypted(number: usize) -> bool {
    number.is_multiple_of(3)
}

/// Returns the item of a search, with which some responses start.
fn search(number: usize) -> Option<Value> {
    let action = json!({"type": "search", "query": "q"});
    let item = json!({"id": "ws_0", "type": "web_search_call", "status": "completed", "action": action});
    (number % 5 == 1).then_some(item)
}

fn message(at: usize, part: &Value) -> Value {
    json!({"id": format!("msg_{at}"), "type": "message", "role": "assistant", "status": "completed",
        "content": [part]})
}

fn annotation(source: &Source) -> Value {
    let mut fields = source.fields();
    fields["type"] = json!("url_citation");
    fields
}

fn item(number: usize, at: usize, part: &Part) -> Value {
    match part {
        Part::Text(text, sources) => {
            let sources: Vec<Value> = sources.iter().map(annotation).collect();
            let part = json!({"type": "output_text", "text": text, "annotations": sources});
            message(at, &part)
        }
        Part::Refusal(text) => message(at, &json!({"type": "refusal", "refusal": text})),
        Part::Thought(text) if has_encrypted(number) => {
            json!({"id": format!("rs_{at}"), "type": "reasoning", "encrypted_content": "gAAA+/==",
                "summary": [{"type": "summary_text", "text": text}]})
        }
        Part::Thought(text) => json!({"id": format!("rs_{at}"), "type": "reasoning", "summary": [],
            "content": [{"type": "reasoning_text", "text": text}]}),
        Part::Call { id, name, arguments, is_custom: true } => json!({"id": format!("ctc_{at}"),
            "type": "custom_tool_call", "status": "completed", "call_id": id, "name": name, "input": arguments}),
        Part::Call { id, name, arguments, .. } => json!({"id": format!("fc_{at}"), "type": "function_call",
            "status": "completed", "call_id": id, "name": name, "arguments": arguments}),
    }
}

fn items(number: usize, round: &Round) -> Vec<Value> {
    let begin = usize::from(search(number).is_some());
    let parts = parts(round);
    let items = parts.iter().enumerate().map(|(at, part)| item(number, begin + at, part));
    search(number).into_iter().chain(items).collect()
}

/// Returns a whole response.
pub(crate) fn whole(number: usize, round: &Round) -> Value {
    let (status, details) = match finish(round) {
        "length" => ("incomplete", json!({"reason": "max_output_tokens"})),
        "content_filter" => ("incomplete", json!({"reason": "content_filter"})),
        _ => ("completed", Value::Null),
    };
    json!({
        "id": format!("resp_{number}"), "object": "response", "created_at": 1, "model": "m", "status": status,
        "error": null, "incomplete_details": details, "output": items(number, round),
        "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2},
    })
}

/// Returns the events of a streamed response.
pub(crate) fn events(number: usize, round: &Round) -> Vec<Value> {
    let (whole, items) = (whole(number, round), items(number, round));
    let mut begun = whole.clone();
    (begun["status"], begun["output"], begun["usage"]) = (json!("in_progress"), json!([]), Value::Null);
    begun["incomplete_details"] = Value::Null;
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    let added = |at: usize, item: &Value| json!({"type": "response.output_item.added", "output_index": at, "item": item});
    let done =
        |at: usize| json!({"type": "response.output_item.done", "output_index": at, "item": items[at]});
    if let Some(search) = search(number) {
        events.extend([added(0, &search), done(0)]);
    }
    let first = usize::from(search(number).is_some());
    let mut next = first;
    let mut is_custom = false;
    for step in steps(round) {
        let of_item = |kind: &str, key: &str, place: &str, text: &str| json!({"type": kind, "output_index": next - 1, "item_id": items[next - 1]["id"], place: 0, key: text});
        match step {
            Step::Begins(part) => {
                if next > first {
                    events.push(done(next - 1));
                }
                is_custom = matches!(part, Part::Call { is_custom: true, .. });
                events.push(added(next, &item(number, next, &part)));
                next += 1;
            }
            Step::Text(text) => {
                events.push(of_item("response.output_text.delta", "delta", "content_index", text))
            }
            Step::Thought(text) => events.push(match has_encrypted(number) {
                true => of_item("response.reasoning_summary_text.delta", "delta", "summary_index", text),
                false => of_item("response.reasoning_text.delta", "delta", "content_index", text),
            }),
            Step::Refusal(text) => {
                events.push(of_item("response.refusal.delta", "delta", "content_index", text))
            }
            Step::Source(source) => {
                let mut event = of_item("response.output_text.annotation.added", "", "content_index", "");
                event["annotation"] = annotation(&source);
                events.push(event);
            }
            Step::Arguments(text) => events.push(match is_custom {
                true => of_item("response.custom_tool_call_input.delta", "delta", "content_index", text),
                false => of_item("response.function_call_arguments.delta", "delta", "content_index", text),
            }),
        }
    }
    if next > first {
        events.push(done(next - 1));
    }
    let end = if whole["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    events.push(json!({"type": end, "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

/// Returns the last event of a response that failed in the middle.
pub(crate) fn failed(number: usize, body: &Value) -> Value {
    let code = match body["error"]["type"].as_str() {
        Some("rate_limit_error") => "rate_limit_exceeded",
        Some("invalid_request_error") => "invalid_prompt",
        _ => "server_error",
    };
    let error = json!({"code": code, "message": body["error"]["message"]});
    let response = json!({"id": format!("resp_{number}"), "object": "response", "created_at": 1, "model": "m",
        "status": "failed", "error": error, "output": []});
    json!({"type": "response.failed", "response": response})
}
