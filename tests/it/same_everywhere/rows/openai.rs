//! OpenAI's chats: `/v1/chat/completions`, and Azure's path for them.

use super::{Row, Way, door, emitted, post};
use crate::generator::outcome::{self, Class, Refusal, TurnView};
use crate::generator::received::choices_of;
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::Case;
use crate::well_formed;
use futures::future::BoxFuture;
use serde_json::{Value, json};

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
    let of =
        |key: &str| events.iter().filter_map(|event| event.get(key).filter(|it| !it.is_null())).collect();
    let (errors, usages, emitted): (Vec<&Value>, Vec<&Value>, Vec<&Value>) =
        (of("error"), of("usage"), of("event"));
    let refusal = errors.first().map(|error| {
        let text = |key: &str| error[key].as_str().unwrap_or_default();
        Refusal::new(Class::of_word(text("type")), text("message"))
    });
    let choice = choices_of(events).remove(&0).unwrap_or_default();
    let calls = choice.calls.into_values().map(|call| match call.is_custom {
        true => outcome::custom_call(&json!(call.name), &json!(call.input)),
        false => outcome::call_of(&json!(call.name), &json!(call.input)),
    });
    let mut answer = outcome::Answer {
        text: choice.content,
        refusal: Some(choice.refusal),
        thoughts: Some(choice.reasoning_content),
        calls: calls.collect(),
        finish: choice.ends.last().cloned(),
        usage: Some(usages.last().map(|given| usage(given)).unwrap_or_default()),
        ..outcome::Answer::default()
    };
    answer.cite(choice.annotations.iter());
    TurnView {
        answer: refusal.is_none().then_some(answer),
        refusal,
        events: Some(emitted.into_iter().cloned().collect()),
        ..TurnView::default()
    }
}
