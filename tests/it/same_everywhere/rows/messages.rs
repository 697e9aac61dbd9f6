//! Anthropic's Messages API: `/v1/messages`.

use super::{Row, Way, emitted, named_events, post};
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::{Case, Special};
use crate::same_everywhere::outcome::{self, Class, Refusal, TurnView};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct Messages;

impl Row for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn supports(&self, case: &Case, _: &Way) -> bool {
        case.special != Some(Special::Custom)
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let answer = post(host, "/v1/messages", way, &body(case, way)).await;
            if answer.is_stream() { of_stream(&answer) } else { of_whole(&answer) }
        })
    }
}

fn body(case: &Case, way: &Way) -> Value {
    let messages: Vec<Value> =
        case.messages().into_iter().filter(|message| message["role"] != "system").collect();
    let mut body = json!({
        "model": case.model(way), "messages": messages, "max_tokens": case.max_tokens,
        "stream": way.stream,
    });
    if let Some(system) = &case.system {
        body["system"] = json!(system);
    }
    if let Some(temperature) = case.temperature {
        body["temperature"] = json!(temperature);
    }
    if case.has_door {
        body["tools"] = json!([{"name": crate::sdk::DOOR, "input_schema": {"type": "object"}}]);
    }
    body
}

fn of_whole(answer: &Answer) -> TurnView {
    let body = answer.json();
    let events = Some(emitted(answer));
    if answer.status != 200 {
        let message = body["error"]["message"].as_str().unwrap_or_default();
        let refusal = Some(Refusal::new(Class::of_status(answer.status), message));
        return TurnView { refusal, events, ..TurnView::default() };
    }
    let blocks = body["content"].as_array().cloned().unwrap_or_default();
    TurnView { answer: Some(of_blocks(&blocks, &body, &body["usage"])), events, ..TurnView::default() }
}

fn of_blocks(blocks: &[Value], ending: &Value, usage: &Value) -> outcome::Answer {
    let of_kind = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
    let texts = |kind: &'static str, key: &str| -> String {
        of_kind(kind).filter_map(|block| block[key].as_str()).collect()
    };
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    let finish = match ending["stop_reason"].as_str() {
        Some("end_turn") => Some("stop"),
        Some("max_tokens") => Some("length"),
        Some("tool_use") => Some("tool_calls"),
        // In chats, a refusal ends with `stop`, unless the service withdrew the text.
        Some("refusal") => Some("content_filter"),
        other => other,
    };
    let citations = of_kind("text").filter_map(|block| block["citations"].as_array()).flatten();
    let text = |citation: &Value, key: &str| citation[key].as_str().expect("a text").to_owned();
    let source = |citation: &Value| (text(citation, "url"), text(citation, "title"));
    outcome::Answer {
        sources: Some(citations.map(source).collect()),
        text: texts("text", "text"),
        thoughts: Some(texts("thinking", "thinking")),
        calls: of_kind("tool_use").map(|block| outcome::call_of(&block["name"], &block["input"])).collect(),
        finish: finish.map(str::to_owned),
        usage: Some((count("input_tokens"), count("output_tokens"))),
        ..outcome::Answer::default()
    }
}

fn of_stream(answer: &Answer) -> TurnView {
    let mut seen = TurnView { events: Some(Vec::new()), ..TurnView::default() };
    let mut blocks: BTreeMap<u64, Value> = BTreeMap::new();
    let (mut ending, mut usage) = (Value::Null, json!({}));
    for (name, event) in named_events(answer.body()) {
        let index = event["index"].as_u64().unwrap_or_default();
        match &*name {
            "content_block_start" => drop(blocks.insert(index, event["content_block"].clone())),
            "content_block_delta" => {
                let block = blocks.get_mut(&index).expect("a block begins before it grows");
                if let Some(citation) = event["delta"].get("citation") {
                    let mut citations = block["citations"].as_array().cloned().unwrap_or_default();
                    citations.push(citation.clone());
                    block["citations"] = json!(citations);
                }
                for (from, key) in [("text", "text"), ("thinking", "thinking"), ("partial_json", "given")] {
                    if let Some(more) = event["delta"][from].as_str() {
                        block[key] = json!(block[key].as_str().unwrap_or_default().to_owned() + more);
                    }
                }
            }
            "content_block_stop" => {
                let block = blocks.get_mut(&index).expect("a block begins before it ends");
                if let Some(given) = block["given"].as_str().filter(|given| !given.is_empty()) {
                    block["input"] = serde_json::from_str(given).unwrap_or(json!(given));
                }
            }
            "message_start" => usage = event["message"]["usage"].clone(),
            "message_delta" => {
                ending = event["delta"].clone();
                let counts = event["usage"].as_object().cloned().unwrap_or_default();
                counts.into_iter().for_each(|(key, count)| usage[key] = count);
            }
            "valvehouse" => seen.events.as_mut().unwrap().push(event["event"].clone()),
            "error" => {
                let error = &event["error"];
                let class = Class::of_word(error["type"].as_str().unwrap_or_default());
                seen.refusal = Some(Refusal::new(class, error["message"].as_str().unwrap_or_default()));
            }
            _ => {}
        }
    }
    let blocks: Vec<Value> = blocks.into_values().collect();
    seen.answer = seen.refusal.is_none().then(|| of_blocks(&blocks, &ending, &usage));
    seen
}
