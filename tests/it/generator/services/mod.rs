//! The services behind a host: the same canned response in the format of each API.

mod messages;
mod responses;

use super::answer::{self, Chunk, Failure, ModelTurn, Round, Source};
use super::outcome::plain_message;
use crate::upstream::{Reply, UpstreamRequest};
use serde_json::{Value, json};

/// The API of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Chat,
    Messages,
    Responses,
}

/// All APIs; the first is compared with the others.
pub(crate) const SERVICES: [Service; 3] = [Service::Chat, Service::Messages, Service::Responses];

/// A request to a service, in a common form.
pub(crate) struct Request {
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) plain: Value,
}

impl Service {
    /// Returns the provider of the service.
    pub(crate) fn provider(self) -> &'static str {
        match self {
            Self::Chat => "mock",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// Returns the configuration of the provider; the one for chats exists already.
    pub(crate) fn config(self, url: &str) -> String {
        let kind = match self {
            Self::Chat => return String::new(),
            Self::Messages => "kind = \"anthropic\"",
            Self::Responses => "kind = \"openai\"\napi = \"responses\"",
        };
        format!(
            "[[providers]]\nname = \"{}\"\n{kind}\nbase_url = \"{url}\"\napi_key = \"sk-upstream\"\n\
             models = [\"{}\"]\nretry = {{ max_attempts = 1 }}\nbreaker = {{ failure_threshold = 0 }}\n",
            self.provider(),
            self.provider()
        )
    }

    /// Reads a request to one of the services.
    pub(crate) fn read(request: &UpstreamRequest) -> (Self, Request) {
        let body = request.json();
        let (service, messages, limit, tools) = match request.path.rsplit('/').next().unwrap_or_default() {
            "messages" => {
                (Self::Messages, messages::conversation(&body), &body["max_tokens"], tools(&body, &["/name"]))
            }
            "responses" => (
                Self::Responses,
                responses::conversation(&body),
                &body["max_output_tokens"],
                tools(&body, &["/name"]),
            ),
            _ => {
                let limit = body.get("max_completion_tokens").unwrap_or(&body["max_tokens"]);
                let messages = body["messages"].as_array().into_iter().flatten();
                let tools = tools(&body, &["/function/name", "/custom/name"]);
                (Self::Chat, messages.map(plain_message).collect(), limit, tools)
            }
        };
        let plain = json!({
            "messages": messages, "temperature": body["temperature"], "limit": limit, "tools": tools,
        });
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        (service, Request { model, stream: body["stream"] == true, plain })
    }

    /// Returns the model's answer after so many others of its turn.
    pub(crate) fn reply(self, model: &ModelTurn, before: usize, stream: bool) -> Reply {
        let text = match model.answer(before) {
            (round, None) => self.text(model.number, round, stream),
            (round, Some(Failure { after: Some(after), body, .. })) if stream => {
                self.broken_off(model.number, round, *after, body)
            }
            (_, Some(failure)) => return self.refusal(failure),
        };
        Reply::raw(if stream { "text/event-stream" } else { "application/json" }, text)
    }

    fn text(self, number: usize, round: &Round, stream: bool) -> String {
        let events = match (self, stream) {
            (Self::Chat, stream) => return answer::text(number, round, stream),
            (Self::Messages, false) => return messages::whole(number, round).to_string(),
            (Self::Responses, false) => return responses::whole(number, round).to_string(),
            (Self::Messages, true) => messages::events(number, round),
            (Self::Responses, true) => responses::events(number, round),
        };
        named(&events)
    }

    /// Returns a streamed response that ends with an error after `after` events.
    fn broken_off(self, number: usize, round: &Round, after: usize, body: &Value) -> String {
        let stream = self.text(number, round, true);
        let begun: String = stream.split_inclusive("\n\n").take(after).collect();
        let error = match self {
            Self::Chat => return format!("{begun}data: {body}\n\n"),
            Self::Messages => messages::error(body),
            Self::Responses => responses::failed(number, body),
        };
        format!("{begun}{}", named(&[error]))
    }

    fn refusal(self, failure: &Failure) -> Reply {
        let body = match self {
            Self::Messages => messages::error(&failure.body),
            Self::Chat | Self::Responses => failure.body.clone(),
        };
        Reply::json(&body).status(failure.status)
    }
}

/// Returns events as text, each named after its type.
pub(crate) fn named(events: &[Value]) -> String {
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

/// Returns the names of a request's tools.
fn tools(body: &Value, names: &[&str]) -> Option<Vec<Value>> {
    let tools = body["tools"].as_array()?;
    let name = |tool: &Value| names.iter().find_map(|name| tool.pointer(name).cloned());
    Some(tools.iter().map(|tool| name(tool).unwrap_or_default()).collect())
}

/// A part of a response: a text, thinking, a refusal or a call.
#[derive(Debug)]
enum Part {
    Text(String, Vec<Source>),
    Thought(String),
    Refusal(String),
    Call { id: String, name: &'static str, arguments: String, is_custom: bool },
}

/// A piece of a response: a delta of the last part, or the start of a new one.
enum Step<'a> {
    Begins(Part),
    Text(&'a str),
    Source(Source),
    Thought(&'a str),
    Refusal(&'a str),
    Arguments(&'a str),
}

/// Returns the pieces of a response in order; a new part starts without its text.
fn steps(round: &Round) -> Vec<Step<'_>> {
    #[derive(PartialEq)]
    enum Open {
        Nothing,
        Text,
        Thought,
        Refusal,
        Call,
    }
    let mut open = Open::Nothing;
    let mut steps = Vec::new();
    for Chunk { text, thought, refusal, sources, calls, .. } in round.iter().flatten() {
        if !thought.is_empty() {
            if std::mem::replace(&mut open, Open::Thought) != Open::Thought {
                steps.push(Step::Begins(Part::Thought(String::new())));
            }
            steps.push(Step::Thought(thought));
        }
        if !text.is_empty() {
            if std::mem::replace(&mut open, Open::Text) != Open::Text {
                steps.push(Step::Begins(Part::Text(String::new(), Vec::new())));
            }
            steps.push(Step::Text(text));
        }
        steps.extend(sources.iter().cloned().map(Step::Source));
        if !refusal.is_empty() {
            if std::mem::replace(&mut open, Open::Refusal) != Open::Refusal {
                steps.push(Step::Begins(Part::Refusal(String::new())));
            }
            steps.push(Step::Refusal(refusal));
        }
        for call in calls {
            if let Some((id, name)) = &call.head {
                open = Open::Call;
                let call =
                    Part::Call { id: id.clone(), name, arguments: String::new(), is_custom: call.is_custom };
                steps.push(Step::Begins(call));
            }
            steps.push(Step::Arguments(&call.arguments));
        }
    }
    steps
}

/// Returns the complete parts of a response.
fn parts(round: &Round) -> Vec<Part> {
    let mut parts = Vec::new();
    for step in steps(round) {
        match (step, parts.last_mut()) {
            (Step::Begins(part), _) => parts.push(part),
            (Step::Text(more), Some(Part::Text(text, _))) => *text += more,
            (Step::Source(source), Some(Part::Text(_, sources))) => sources.push(source),
            (Step::Refusal(more), Some(Part::Refusal(text))) => *text += more,
            (Step::Thought(more), Some(Part::Thought(text))) => *text += more,
            (Step::Arguments(more), Some(Part::Call { arguments, .. })) => *arguments += more,
            _ => unreachable!("a part begins before it grows"),
        }
    }
    parts
}

fn finish(round: &Round) -> &'static str {
    round.iter().flatten().find_map(|chunk| chunk.finish).expect("each answer has an end")
}
