//! Ollama's chats: `/api/chat`.

use super::{Row, Way, door, emitted, post};
use crate::generator::outcome::{self, Class, Refusal, TurnView};
use crate::host::TestHost;
use crate::same_everywhere::case::{Case, Special};
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub(super) struct Ollama;

impl Row for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn supports(&self, case: &Case, _: &Way) -> bool {
        case.special != Some(Special::Custom)
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let answer = post(host, "/api/chat", way, &body(case, way)).await;
            if !way.stream || answer.status != 200 {
                return TurnView {
                    events: Some(emitted(&answer)),
                    ..of_lines(&[answer.json()], answer.status)
                };
            }
            let lines = answer.body().lines().map(|line| serde_json::from_str(line).unwrap());
            of_lines(&lines.collect::<Vec<Value>>(), answer.status)
        })
    }
}

fn body(case: &Case, way: &Way) -> Value {
    let mut body = json!({
        "model": case.model(way), "messages": case.messages(), "stream": way.stream,
        "options": {"num_predict": case.max_tokens},
    });
    if let Some(temperature) = case.temperature {
        body["options"]["temperature"] = json!(temperature);
    }
    if case.has_door {
        body["tools"] = json!([door(case)]);
    }
    body
}

fn of_lines(lines: &[Value], status: u16) -> TurnView {
    let (mut seen, mut answer) = (TurnView::default(), outcome::Answer::default());
    let (mut events, mut thoughts) = (Vec::new(), String::new());
    for line in lines {
        if let Some(event) = line.get("event") {
            events.push(event.clone());
            continue;
        }
        if let Some(message) = line["error"].as_str() {
            // A later line of a stream has no status, and the format has no error class.
            let class = if status == 200 { Class::Unknown } else { Class::of_status(status) };
            seen.refusal = Some(Refusal::new(class, message));
            continue;
        }
        let message = &line["message"];
        answer.text += message["content"].as_str().unwrap_or_default();
        thoughts += message["thinking"].as_str().unwrap_or_default();
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        answer.calls.extend(
            calls.map(|call| outcome::call_of(&call["function"]["name"], &call["function"]["arguments"])),
        );
        if line["done"] == true {
            let count = |key: &str| line[key].as_u64().unwrap_or(0);
            answer.usage = Some((count("prompt_eval_count"), count("eval_count")));
            // Ollama has no finish reason for withheld responses.
            answer.finish = line["done_reason"].as_str().map(str::to_owned).filter(|word| word == "length");
        }
    }
    answer.thoughts = Some(thoughts);
    seen.events = Some(events);
    seen.answer = seen.refusal.is_none().then_some(answer);
    seen
}
