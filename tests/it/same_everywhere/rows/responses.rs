//! OpenAI's Responses API: `/v1/responses`.

use super::{Row, Way, emitted, post};
use crate::generator::outcome::{self, Class, Refusal, TurnView};
use crate::generator::received::ReceivedResponse;
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::{Case, Special};
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub(super) struct Responses;

impl Row for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let answer = post(host, "/v1/responses", way, &body(case, way)).await;
            if answer.is_stream() {
                return of_stream(&answer);
            }
            let (body, events) = (answer.json(), Some(emitted(&answer)));
            if answer.status != 200 {
                let message = body["error"]["message"].as_str().unwrap_or_default();
                let refusal = Some(Refusal::new(Class::of_status(answer.status), message));
                return TurnView { refusal, events, ..TurnView::default() };
            }
            TurnView { answer: Some(of_response(&body)), events, ..TurnView::default() }
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
        body["tools"] = match case.special {
            Some(Special::Custom) => json!([{"type": "custom", "name": crate::generator::DOOR}]),
            _ => {
                json!([{"type": "function", "name": crate::generator::DOOR, "parameters": {"type": "object"}}])
            }
        };
    }
    body
}

fn of_response(response: &Value) -> outcome::Answer {
    let items = response["output"].as_array().cloned().unwrap_or_default();
    let of_kind = |kind: &'static str| items.iter().filter(move |item| item["type"] == kind);
    let texts = |kind: &'static str| -> String {
        of_kind(kind).map(|item| outcome::text_of(&item["content"])).collect()
    };
    let call = |item: &Value| match item["type"].as_str() {
        Some("function_call") => Some(outcome::call_of(&item["name"], &item["arguments"])),
        Some("custom_tool_call") => Some(outcome::custom_call(&item["name"], &item["input"])),
        _ => None,
    };
    let calls: Vec<(String, Value)> = items.iter().filter_map(call).collect();
    let parts: Vec<&Value> =
        of_kind("message").flat_map(|item| item["content"].as_array().expect("parts")).collect();
    let finish = match response["status"].as_str() {
        Some("incomplete") if response["incomplete_details"]["reason"] == "content_filter" => {
            "content_filter"
        }
        Some("incomplete") => "length",
        _ if calls.is_empty() => "stop",
        _ => "tool_calls",
    };
    let count = |key: &str| response["usage"][key].as_u64().unwrap_or(0);
    let mut answer = outcome::Answer {
        refusal: Some(parts.iter().filter_map(|part| part["refusal"].as_str()).collect()),
        text: texts("message"),
        thoughts: Some(texts("reasoning")),
        calls,
        finish: Some(finish.to_owned()),
        usage: Some((count("input_tokens"), count("output_tokens"))),
        ..outcome::Answer::default()
    };
    answer.cite(parts.iter().filter_map(|part| part["annotations"].as_array()).flatten());
    answer
}

fn of_stream(answer: &Answer) -> TurnView {
    let received = ReceivedResponse::of(&answer.named_events());
    let refusal = received.error.map(|error| {
        let class = Class::of_word(error["code"].as_str().unwrap_or_default());
        // In a stream, the message of a limit contains the waiting time, because the headers have been sent already.
        let message = error["message"].as_str().unwrap_or_default();
        Refusal::new(class, message.split("; try again in ").next().unwrap_or_default())
    });
    let answer = refusal.is_none().then(|| of_response(&received.response));
    TurnView { answer, refusal, events: Some(received.emitted), ..TurnView::default() }
}
