//! OpenAI's Responses API: `/v1/responses`.

use super::{Row, Way, emitted, named_events, post};
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::{Case, Special};
use crate::same_everywhere::outcome::{self, Class, Refusal, TurnView};
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
            Some(Special::Custom) => json!([{"type": "custom", "name": crate::sdk::DOOR}]),
            _ => json!([{"type": "function", "name": crate::sdk::DOOR, "parameters": {"type": "object"}}]),
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
    let mut seen = TurnView { events: Some(Vec::new()), ..TurnView::default() };
    let mut text = String::new();
    let events = named_events(answer.body());
    check_lifecycle(&events);
    for (name, event) in events {
        match &*name {
            "response.output_text.delta" => text += event["delta"].as_str().unwrap(),
            "valvehouse:event" => seen.events.as_mut().unwrap().push(event["event"].clone()),
            "error" => {
                let class = Class::of_word(event["code"].as_str().unwrap_or_default());
                // In a stream, the message of a limit contains the waiting time, because the headers have
                // been sent already.
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

/// Checks the fields with which clients assemble a response: the events are numbered without gaps, all have
/// the same response id, each item has its own place and id, starts before its deltas and ends once, and the
/// last event contains all items.
fn check_lifecycle(events: &[(String, Value)]) {
    let kinds: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(kinds[..2], ["response.created", "response.in_progress"], "{kinds:?}");
    let id = &events[0].1["response"]["id"];
    let mut items: Vec<(Value, Option<Value>)> = Vec::new();
    for (number, (name, event)) in events.iter().enumerate() {
        assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(number)));
        if let Some(response) = event.get("response") {
            assert_eq!(&response["id"], id, "{name}");
        }
        let Some(place) = event["output_index"].as_u64().map(|place| usize::try_from(place).unwrap()) else {
            continue;
        };
        if name == "response.output_item.added" {
            assert_eq!(place, items.len(), "items have places of their own");
            // Items that only their service can read keep its ids, which are the same in each round here.
            let is_foreign = event["item"]["id"].as_str().is_some_and(|id| matches!(&id[..3], "ws_" | "rs_"));
            let is_new = items.iter().all(|(item, _)| item["id"] != event["item"]["id"]);
            assert!(is_new || is_foreign, "items have ids of their own: {}", event["item"]);
            items.push((event["item"].clone(), None));
            continue;
        }
        let (begun, done) = items.get_mut(place).expect("an item begins before it grows");
        assert_eq!(*done, None, "{name} follows the end of its item");
        let own = event.get("item_id").unwrap_or(&event["item"]["id"]);
        assert_eq!(*own, begun["id"], "{name}");
        if name == "response.output_item.done" {
            assert_eq!(event["item"]["call_id"], begun["call_id"]);
            *done = Some(event["item"].clone());
        }
    }
    let Some((name, last)) = events.last() else { return };
    let ends = ["response.completed", "response.incomplete", "response.failed"];
    assert!(ends.contains(&name.as_str()), "a response has an end: {kinds:?}");
    let items: Vec<Value> = items.into_iter().map(|(_, done)| done.expect("each item ends")).collect();
    assert_eq!(last["response"]["output"], json!(items), "{name}");
}
