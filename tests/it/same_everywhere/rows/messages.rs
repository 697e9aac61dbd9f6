//! Anthropic's Messages API: `/v1/messages`.

use super::{Row, Way, emitted, post};
use crate::generator::outcome::{self, Class, Refusal, TurnView};
use crate::generator::received::ReceivedMessage;
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::{Case, Special};
use futures::future::BoxFuture;
use serde_json::{Value, json};

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
        body["tools"] = json!([{"name": crate::generator::DOOR, "input_schema": {"type": "object"}}]);
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
    let events: Vec<Value> = answer.named_events().into_iter().map(|(_, event)| event).collect();
    let message = ReceivedMessage::of(&events);
    let refusal = message.error.map(|error| {
        let class = Class::of_word(error["type"].as_str().unwrap_or_default());
        Refusal::new(class, error["message"].as_str().unwrap_or_default())
    });
    let answer = refusal.is_none().then(|| of_blocks(&message.blocks, &message.ending, &message.usage));
    TurnView { answer, refusal, events: Some(message.emitted), ..TurnView::default() }
}
