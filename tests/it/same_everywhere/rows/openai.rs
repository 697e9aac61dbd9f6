//! OpenAI's chats: `/v1/chat/completions`, and Azure's path for them.

use super::{Row, Way, door, emitted, post};
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::Case;
use crate::same_everywhere::outcome::{self, Class, Refusal, TurnView};
use crate::well_formed;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct OpenAi;

impl Row for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move { read(&post(host, "/v1/chat/completions", way, &body(case, way)).await) })
    }
}

/// The same endpoint for Azure's clients: the path contains the model.
pub(super) struct Azure;

impl Row for Azure {
    fn name(&self) -> &'static str {
        "azure"
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let mut body = body(case, way);
            body.as_object_mut().unwrap().remove("model");
            let model = case.model(way);
            let path = format!("/openai/deployments/{model}/chat/completions?api-version=2024-10-21");
            read(&post(host, &path, way, &body).await)
        })
    }
}

/// Returns a case as the body of a chat.
pub(super) fn body(case: &Case, way: &Way) -> Value {
    let mut body = json!({
        "model": case.model(way), "messages": case.messages(),
        "max_completion_tokens": case.max_tokens,
    });
    if way.stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(temperature) = case.temperature {
        body["temperature"] = json!(temperature);
    }
    if case.has_door {
        body["tools"] = json!([door(case)]);
    }
    body
}

/// Reads the response of a chat, whole or streamed.
pub(super) fn read(answer: &Answer) -> TurnView {
    if !answer.is_stream() {
        return TurnView { events: Some(emitted(answer)), ..of_body(answer.status, &answer.json()) };
    }
    of_stream(&well_formed::lines_of(answer.body()))
}

/// Reads a whole response or an error.
pub(super) fn of_body(status: u16, body: &Value) -> TurnView {
    if status != 200 {
        let message = body["error"]["message"].as_str().unwrap_or_default();
        return TurnView {
            refusal: Some(Refusal::new(Class::of_status(status), message)),
            ..TurnView::default()
        };
    }
    TurnView { answer: Some(of_completion(body)), ..TurnView::default() }
}

/// Reads a `chat.completion`.
pub(super) fn of_completion(body: &Value) -> outcome::Answer {
    let choice = &body["choices"][0];
    let mut answer = outcome::Answer {
        refusal: Some(choice["message"]["refusal"].as_str().unwrap_or_default().to_owned()),
        text: outcome::text_of(&choice["message"]["content"]),
        thoughts: Some(outcome::text_of(&choice["message"]["reasoning_content"])),
        calls: outcome::calls_of(&choice["message"]),
        finish: choice["finish_reason"].as_str().map(str::to_owned),
        usage: Some(usage(&body["usage"])),
        ..outcome::Answer::default()
    };
    answer.cite(choice["message"]["annotations"].as_array().into_iter().flatten());
    answer
}

fn usage(usage: &Value) -> (u64, u64) {
    let count = |key: &str| usage[key].as_u64().unwrap_or(0);
    (count("prompt_tokens"), count("completion_tokens"))
}

/// Reads the events of a stream.
pub(super) fn of_stream(events: &[Value]) -> TurnView {
    let mut seen = TurnView::default();
    let mut emitted = Vec::new();
    let mut answer = outcome::Answer::default();
    let mut thoughts = String::new();
    let mut refusal = String::new();
    let mut calls: BTreeMap<u64, (String, String, bool)> = BTreeMap::new();
    for event in events {
        if let Some(event) = event.get("event") {
            emitted.push(event.clone());
        }
        if let Some(error) = event.get("error") {
            let word = error["type"].as_str().unwrap_or_default();
            let message = error["message"].as_str().unwrap_or_default();
            seen.refusal = Some(Refusal::new(Class::of_word(word), message));
        }
        if let Some(given) = event.get("usage").filter(|usage| !usage.is_null()) {
            answer.usage = Some(usage(given));
        }
        let choice = &event["choices"][0];
        let delta = &choice["delta"];
        answer.text += delta["content"].as_str().unwrap_or_default();
        thoughts += delta["reasoning_content"].as_str().unwrap_or_default();
        refusal += delta["refusal"].as_str().unwrap_or_default();
        answer.cite(delta["annotations"].as_array().into_iter().flatten());
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let call = calls.entry(piece["index"].as_u64().unwrap()).or_default();
            for (kind, key) in [("function", "arguments"), ("custom", "input")] {
                call.0 += piece[kind]["name"].as_str().unwrap_or_default();
                call.1 += piece[kind][key].as_str().unwrap_or_default();
            }
            call.2 |= piece.get("custom").is_some();
        }
        if let Some(finish) = choice["finish_reason"].as_str() {
            answer.finish = Some(finish.to_owned());
        }
    }
    seen.events = Some(emitted);
    let call = |(name, given, is_custom): (String, String, bool)| match is_custom {
        true => outcome::custom_call(&json!(name), &json!(given)),
        false => outcome::call_of(&json!(name), &json!(given)),
    };
    answer.calls = calls.into_values().map(call).collect();
    answer.refusal = Some(refusal);
    answer.thoughts = Some(thoughts);
    answer.usage.get_or_insert_default();
    seen.answer = seen.refusal.is_none().then_some(answer);
    seen
}
