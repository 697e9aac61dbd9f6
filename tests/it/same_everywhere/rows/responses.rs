//! OpenAI's Responses: `/v1/responses`.

use super::{Row, Way, emitted, named_events, post};
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::Case;
use crate::same_everywhere::seen::{self, Class, Refusal, Seen};
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub(super) struct Responses;

impl Row for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, Seen> {
        Box::pin(async move {
            let answer = post(host, "/v1/responses", way, &body(case, way)).await;
            if answer.is_stream() {
                return of_stream(&answer);
            }
            let (body, events) = (answer.json(), Some(emitted(&answer)));
            if answer.status != 200 {
                let message = body["error"]["message"].as_str().unwrap_or_default();
                let refusal = Some(Refusal::new(Class::of_status(answer.status), message));
                return Seen { refusal, events, ..Seen::default() };
            }
            Seen { answer: Some(of_response(&body)), events, ..Seen::default() }
        })
    }
}

fn body(case: &Case, way: &Way) -> Value {
    let messages: Vec<Value> =
        case.messages().into_iter().filter(|message| message["role"] != "system").collect();
    let mut body = json!({
        "model": case.model(way), "input": messages,
        "max_output_tokens": case.max_tokens, "stream": way.stream, "store": false,
    });
    if case.is_plain() {
        body["input"] = json!(case.says);
    }
    if let Some(system) = &case.system {
        body["instructions"] = json!(system);
    }
    if let Some(temperature) = case.temperature {
        body["temperature"] = json!(temperature);
    }
    if case.has_door {
        body["tools"] =
            json!([{"type": "function", "name": crate::sdk::DOOR, "parameters": {"type": "object"}}]);
    }
    body
}

fn of_response(response: &Value) -> seen::Answer {
    let items = response["output"].as_array().cloned().unwrap_or_default();
    let of_kind = |kind: &'static str| items.iter().filter(move |item| item["type"] == kind);
    let texts = |kind: &'static str| -> String {
        of_kind(kind).map(|item| seen::text_of(&item["content"])).collect()
    };
    let calls: Vec<(String, Value)> =
        of_kind("function_call").map(|item| seen::call_of(&item["name"], &item["arguments"])).collect();
    let finish = match response["status"].as_str() {
        Some("incomplete") => "length",
        _ if calls.is_empty() => "stop",
        _ => "tool_calls",
    };
    let count = |key: &str| response["usage"][key].as_u64().unwrap_or(0);
    seen::Answer {
        text: texts("message"),
        thoughts: Some(texts("reasoning")),
        calls,
        finish: Some(finish.to_owned()),
        usage: Some((count("input_tokens"), count("output_tokens"))),
    }
}

fn of_stream(answer: &Answer) -> Seen {
    let mut seen = Seen { events: Some(Vec::new()), ..Seen::default() };
    let mut text = String::new();
    for (name, event) in named_events(answer.body()) {
        match &*name {
            "response.output_text.delta" => text += event["delta"].as_str().unwrap(),
            "valvehouse:event" => seen.events.as_mut().unwrap().push(event["event"].clone()),
            "error" => {
                let class = Class::of_word(event["code"].as_str().unwrap_or_default());
                // A limit says here when it ends, since a stream that began has no header for it.
                let message = event["message"].as_str().unwrap_or_default();
                let message = message.split("; try again in ").next().unwrap_or_default();
                seen.refusal = Some(Refusal::new(class, message));
            }
            "response.completed" | "response.incomplete" => {
                let whole = of_response(&event["response"]);
                assert_eq!(whole.text, text, "the deltas are the text");
                seen.answer = Some(whole);
            }
            _ => {}
        }
    }
    assert!(seen.answer.is_some() != seen.refusal.is_some(), "{}", answer.body());
    seen
}
