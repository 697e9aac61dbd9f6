//! The result of a turn, in the same words for every endpoint.

use serde_json::{Map, Value, json};

/// The events of a turn that a client, the service and the store saw. An endpoint that does not show
/// something leaves it out.
#[derive(Debug, Default, Clone)]
pub(super) struct TurnView {
    pub(super) answer: Option<Answer>,
    pub(super) refusal: Option<Refusal>,
    /// The events that plugins emitted.
    pub(super) events: Option<Vec<Value>>,
    /// The conversations that the service received, call by call.
    pub(super) sent: Vec<Value>,
    /// The conversation as it is stored.
    pub(super) stored: Option<Value>,
}

/// An answer as far as an endpoint shows it.
#[derive(Debug, Default, Clone)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The reason for which the model does not answer; where there is none, it is a part of the text.
    pub(super) refusal: Option<String>,
    /// Addresses and titles of the pages that the text cites.
    pub(super) sources: Option<Vec<(String, String)>>,
    /// The letters of the text that cite each.
    pub(super) places: Option<Vec<(u64, u64)>>,
    /// The thoughts of the last model call.
    pub(super) thoughts: Option<String>,
    /// Names and arguments.
    pub(super) calls: Vec<(String, Value)>,
    /// `stop`, `length`, `tool_calls`, `content_filter`.
    pub(super) finish: Option<String>,
    /// Tokens in and out.
    pub(super) usage: Option<(u64, u64)>,
}

/// A turn that did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) class: Class,
    /// The error that the client reads, where all endpoints say the same.
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// It was the request.
    Client,
    /// It was too early.
    Rate,
    /// It was the host, or the service.
    Server,
    /// The endpoint does not say.
    Unknown,
}

impl Class {
    pub(super) fn of_status(status: u16) -> Self {
        match status {
            429 => Self::Rate,
            400..=499 => Self::Client,
            _ => Self::Server,
        }
    }

    /// The same of a type or code, where the status has gone out before.
    pub(super) fn of_word(word: &str) -> Self {
        match word {
            "rate_limit_error" | "rate_limit_exceeded" => Self::Rate,
            "policy_violation" | "invalid_request_error" | "permission_error" | "invalid_prompt" => {
                Self::Client
            }
            _ => Self::Server,
        }
    }
}

impl Refusal {
    pub(super) fn new(class: Class, message: &str) -> Self {
        Self { class, message: message.to_owned() }
    }
}

impl TurnView {
    /// The first thing that is not the same, in words.
    pub(super) fn differs_from(&self, other: &Self) -> Option<String> {
        let differs =
            |what: &str, one: &Value, two: &Value| (one != two).then(|| format!("{what}:\n  {one}\n  {two}"));
        let is_known = |seen: &Self| seen.refusal.as_ref().is_none_or(|it| it.class != Class::Unknown);
        let are_known = is_known(self) && is_known(other);
        let refusal = |seen: &Self| {
            let known = |it: &Refusal| if are_known { format!("{it:?}") } else { it.message.clone() };
            json!(seen.refusal.as_ref().map(known))
        };
        differs("the refusal", &refusal(self), &refusal(other))
            .or_else(|| {
                let (one, two) = (self.answer.as_ref()?, other.answer.as_ref()?);
                let calls = |answer: &Answer| json!(answer.calls);
                // Anthropic's clients see that an answer refuses by its end alone.
                let is_merged = one.shows_refusal() != two.shows_refusal()
                    && [one, two]
                        .iter()
                        .any(|answer| answer.refusal.as_ref().is_some_and(|it| !it.is_empty()));
                differs("the text", &json!(one.text_beside(two)), &json!(two.text_beside(one)))
                    .or_else(|| both("the model's refusal", &one.refusal, &two.refusal))
                    .or_else(|| both("the sources", &one.sources, &two.sources))
                    .or_else(|| both("the places of sources", &one.places, &two.places))
                    .or_else(|| differs("the calls", &calls(one), &calls(two)))
                    .or_else(|| both("the thoughts", &one.thoughts, &two.thoughts))
                    .or_else(|| if is_merged { None } else { both("the end", &one.finish, &two.finish) })
                    .or_else(|| both("the usage", &one.usage, &two.usage))
            })
            .or_else(|| differs("the requests of the service", &json!(self.sent), &json!(other.sent)))
            .or_else(|| both("the events", &self.events, &other.events))
            .or_else(|| both("the stored conversation", &self.stored, &other.stored))
    }
}

impl Answer {
    fn shows_refusal(&self) -> bool {
        self.refusal.is_some()
    }

    /// The text without the refusal that the other shows apart from it. A refusal may stand at several places.
    fn text_beside(&self, other: &Self) -> String {
        let Some(refusal) = other.refusal.as_ref().filter(|_| self.refusal.is_none()) else {
            return self.text.clone();
        };
        let without =
            |(at, found): (usize, &str)| [&self.text[..at], &self.text[at + found.len()..]].concat();
        let mut texts = self.text.match_indices(refusal.as_str()).map(without);
        texts.find(|text| *text == other.text).unwrap_or_else(|| format!("{} (with the refusal)", self.text))
    }

    /// Adds the sources that a text of a service over chats or Responses names.
    pub(super) fn cite<'a>(&mut self, sources: impl Iterator<Item = &'a Value>) {
        for source in sources {
            let source = source.get("url_citation").unwrap_or(source);
            let text = |key: &str| source[key].as_str().expect("a text").to_owned();
            let number = |key: &str| source[key].as_u64().expect("a number");
            self.sources.get_or_insert_default().push((text("url"), text("title")));
            self.places.get_or_insert_default().push((number("start_index"), number("end_index")));
        }
        self.sources.get_or_insert_default();
        self.places.get_or_insert_default();
    }
}

/// Compares what both endpoints show.
fn both<T: PartialEq + std::fmt::Debug>(what: &str, one: &Option<T>, two: &Option<T>) -> Option<String> {
    let (one, two) = (one.as_ref()?, two.as_ref()?);
    (one != two).then(|| format!("{what}:\n  {one:?}\n  {two:?}"))
}

/// A message as every endpoint means it: role, text, calls.
pub(super) fn plain_message(message: &Value) -> Value {
    let mut plain = Map::new();
    plain.insert("role".into(), message["role"].clone());
    plain.insert("text".into(), json!(text_of(&message["content"])));
    let refusal = message["refusal"].as_str().unwrap_or_default();
    if !refusal.is_empty() {
        plain.insert("refusal".into(), json!(refusal));
    }
    let calls = calls_of(message);
    if !calls.is_empty() {
        plain.insert("calls".into(), json!(calls));
    }
    plain.into()
}

pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The calls of a message of OpenAI's.
pub(super) fn calls_of(message: &Value) -> Vec<(String, Value)> {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let call = |call: &Value| match call.get("custom") {
        Some(custom) => custom_call(&custom["name"], &custom["input"]),
        None => call_of(&call["function"]["name"], &call["function"]["arguments"]),
    };
    calls.map(call).collect()
}

/// A call of a tool that takes a text of any form.
pub(super) fn custom_call(name: &Value, input: &Value) -> (String, Value) {
    (format!("{} (custom)", name.as_str().unwrap_or_default()), input.clone())
}

/// A call; arguments are compared as what they mean.
pub(super) fn call_of(name: &Value, arguments: &Value) -> (String, Value) {
    let arguments = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        other => other.clone(),
    };
    (name.as_str().unwrap_or_default().to_owned(), arguments)
}
