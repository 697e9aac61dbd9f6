//! Open WebUI around a chat: the inlet of each filter, the chat, the outlet of each filter.

use super::{Row, Way, emitted, openai};
use crate::generator::outcome::{Class, Refusal, TurnView};
use crate::host::{Answer, TestHost};
use crate::same_everywhere::case::Case;
use crate::same_everywhere::filters::RandomFilter;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use valvehouse::filter::Hook;

pub(super) struct Pipelines;

impl Row for Pipelines {
    fn name(&self) -> &'static str {
        "pipelines"
    }

    fn supports(&self, case: &Case, way: &Way) -> bool {
        // Open WebUI's outlets receive the displayed text, which joins the texts of all model calls, and
        // append to the last one.
        way.chat_id.is_none() && !(way.stream && case.ends_silently())
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(around(host, case, way))
    }
}

async fn around(host: &TestHost, case: &Case, way: &Way) -> TurnView {
    // The page shows the events of inlets with the chat.
    let mut of_inlets = Vec::new();
    // Open WebUI calls both hooks of every plugin that has one of them.
    let is_listed = |filter: &&RandomFilter| filter.has(Hook::Inlet) || filter.has(Hook::Outlet);
    let ids: Vec<&String> = case.filters.iter().filter(is_listed).map(|filter| &filter.id).collect();
    let model = case.model(way);
    let message = format!("{model}-{}", way.stream);
    let user = json!({"id": "ann", "name": "Ann", "email": "ann@example.com", "role": "user"});
    let mut body = openai::body(case, way);
    body["metadata"] = json!({"chat_id": "chat", "message_id": message,
        "model": {"id": model, "pipeline": {"type": "pipe", "valves": false}}});
    for id in ids.iter().copied().chain([&model]) {
        match hook(host, id, "inlet", &body, &user, &mut of_inlets).await {
            Ok(changed) => body = changed,
            Err(refusal) => return refused(refusal, of_inlets),
        }
    }
    // Open WebUI does not forward its metadata, but it sends the user to a pipe.
    body.as_object_mut().unwrap().remove("metadata");
    body["user"] = user.clone();
    let mut seen =
        openai::read(&Answer::of(host.request("POST", "/chat/completions").body(body.to_string())).await);
    let mut events = seen.events.take().unwrap_or_default();
    seen.events = Some(events.clone());
    let Some(answer) = &mut seen.answer else { return seen };
    let mut messages = body["messages"].as_array().cloned().unwrap_or_default();
    messages.push(json!({"id": message, "role": "assistant", "content": answer.text}));
    let mut after = json!({"model": model, "messages": messages, "chat_id": "chat", "id": message});
    for id in ids {
        match hook(host, id, "outlet", &after, &user, &mut events).await {
            Ok(changed) => after = changed,
            Err(refusal) => return refused(refusal, events),
        }
    }
    let last = after["messages"].as_array().and_then(|messages| messages.last());
    answer.text = last.and_then(|last| last["content"].as_str()).unwrap_or_default().to_owned();
    seen.events = Some(events);
    seen
}

fn refused(refusal: Refusal, events: Vec<Value>) -> TurnView {
    TurnView { refusal: Some(refusal), events: Some(events), ..TurnView::default() }
}

async fn hook(
    host: &TestHost,
    id: &str,
    hook: &str,
    body: &Value,
    user: &Value,
    events: &mut Vec<Value>,
) -> Result<Value, Refusal> {
    let sent = json!({"body": body, "user": user}).to_string();
    let answer = Answer::of(host.request("POST", &format!("/{id}/filter/{hook}")).body(sent)).await;
    events.extend(emitted(&answer));
    match answer.status {
        200 => Ok(answer.json()),
        status => {
            let body = answer.json();
            Err(Refusal::new(Class::of_status(status), body["detail"].as_str().unwrap_or_default()))
        }
    }
}
