//! The table of endpoints: each row sends a case to its endpoint and converts the result into a common form.

mod agents;
mod cli;
mod library;
mod messages;
mod ollama;
mod openai;
mod pipelines;
mod responses;

use super::case::{Case, Special};
use crate::generator::outcome::TurnView;
use crate::generator::services::Service;
use crate::host::{Answer, TestHost};
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// The form of a request.
#[derive(Debug, Clone)]
pub(super) struct Way {
    /// The API of the service behind the model.
    pub(super) service: Service,
    pub(super) stream: bool,
    /// The id of the conversation, for a model with a memory.
    pub(super) chat_id: Option<String>,
}

/// An endpoint.
pub(super) trait Row: Sync {
    fn name(&self) -> &'static str;

    /// Returns `true` if a client of this endpoint can send the case in this way.
    fn supports(&self, case: &Case, way: &Way) -> bool {
        let _ = (case, way);
        true
    }

    /// Returns the fields of a request to the service that clients of this endpoint cannot control.
    fn cannot_ask_for(&self) -> &'static [&'static str] {
        &[]
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView>;
}

/// All endpoints; the first is compared with the others. Add a row for each new endpoint.
pub(super) const ROWS: [&dyn Row; 11] = [
    &openai::OpenAi,
    &openai::Azure,
    &messages::Messages,
    &responses::Responses,
    &ollama::Ollama,
    &pipelines::Pipelines,
    &agents::Agents,
    &library::Turn { native: false },
    &library::Turn { native: true },
    &library::Chat,
    &cli::Cli,
];

/// Sends a body as a client that requests the emitted events.
async fn post(host: &TestHost, path: &str, way: &Way, body: &Value) -> Answer {
    let mut request = host.request("POST", path).header("content-type", "application/json");
    request = request.header("x-valvehouse-events", "1");
    if let Some(chat_id) = &way.chat_id {
        request = request.header("x-valvehouse-chat-id", chat_id);
    }
    Answer::of(request.body(body.to_string())).await
}

/// Returns the events in the header of a whole response.
fn emitted(answer: &Answer) -> Vec<Value> {
    let events = answer.header("x-valvehouse-events").map(|events| serde_json::from_str(events).unwrap());
    events.unwrap_or_default()
}

/// Returns a tool of the client in the format of OpenAI's chats.
fn door(case: &Case) -> Value {
    if case.special == Some(Special::Custom) {
        return json!({"type": "custom", "custom": {"name": crate::generator::DOOR, "description": "Opens."}});
    }
    let function = json!({"name": crate::generator::DOOR, "parameters": {"type": "object"}});
    json!({"type": "function", "function": function})
}
