//! Runs of agents: `/api/v1/agents/{id}/runs`.

use super::{Row, Way, emitted, openai, post};
use crate::generator::outcome::TurnView;
use crate::host::TestHost;
use crate::same_everywhere::case::Case;
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub(super) struct Agents;

impl Row for Agents {
    fn name(&self) -> &'static str {
        "agents"
    }

    fn supports(&self, _: &Case, way: &Way) -> bool {
        way.chat_id.is_some()
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let mut body = openai::body(case, way);
            let fields = body.as_object_mut().unwrap();
            fields.remove("model");
            let mut messages = fields.remove("messages").unwrap();
            messages.as_array_mut().unwrap().pop();
            body["messages"] = messages;
            body["input"] = json!(case.says);
            body["chat_id"] = json!(way.chat_id);
            let answer = post(host, &format!("/api/v1/agents/{}/runs", case.model(way)), way, &body).await;
            if !answer.is_stream() {
                let body = answer.json();
                let events = Some(emitted(&answer));
                let response = if answer.status == 200 { &body["response"] } else { &body };
                return TurnView { events, ..openai::of_body(answer.status, response) };
            }
            let of_chat: Vec<Value> = answer
                .named_events()
                .into_iter()
                .filter(|(name, _)| name != "run")
                .map(|(_, event)| event)
                .collect();
            openai::of_stream(&of_chat)
        })
    }
}
