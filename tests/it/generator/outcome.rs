//! The result of a turn, in a common form for all endpoints.

use serde_json::{Map, Value, json};

/// The data that the client, the service and the store received in a turn. A field is absent if the endpoint does not
/// show it.
#[derive(Debug, Default, Clone)]
pub(crate) struct TurnView {
    pub(crate) answer: Option<Answer>,
    pub(crate) refusal: Option<Refusal>,
    /// The events that plugins emitted.
    pub(crate) events: Option<Vec<Value>>,
    /// The conversations that the service received, call by call.
    pub(crate) sent: Vec<Value>,
    /// The stored conversation.
    pub(crate) stored: Option<Value>,
}

/// A response, with the fields that the endpoint shows.
#[derive(Debug, Default, Clone)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The reason of a refusal; absent if the endpoint makes it a part of the text.
    pub(crate) refusal: Option<String>,
    /// The URLs and titles of the pages that the text cites.
    pub(crate) sources: Option<Vec<(String, String)>>,
    /// The range of the text for each citation, in characters.
    pub(crate) places: Option<Vec<(u64, u64)>>,
    /// The thinking of the last model call.
    pub(crate) thoughts: Option<String>,
    /// The names and arguments.
    pub(crate) calls: Vec<(String, Value)>,
    /// `stop`, `length`, `tool_calls` or `content_filter`.
    pub(crate) finish: Option<String>,
    /// The input and output tokens.
    pub(crate) usage: Option<(u64, u64)>,
}

/// The error of a turn that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) class: Class,
    /// The error message, if it is the same at all endpoints.
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The request is wrong.
    Client,
    /// The request came too early.
    Rate,
    /// The host or the service failed.
    Server,
    /// The endpoint does not show it.
    Unknown,
}

impl Class {
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            429 => Self::Rate,
            400..=499 => Self::Client,
            _ => Self::Server,
        }
    }

    /// Returns the class of an error type or code, for errors after the status was sent.
    pub(crate) fn of_word(word: &str) -> Self {
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
    pub(crate) fn new(class: Class, message: &str) -> Self {
        Self { class, message: message.to_owned() }
    }
}

impl TurnView {
    /// Returns a description of the first difference.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<String> {
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
                // Anthropic's clients recognise a refusal by its stop reason only.
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
                    .or_else(|| both("the usage", &counted(one.usage), &counted(two.usage)))
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

    /// Returns the text without the refusal that the other shows separately. A refusal may occur at several
    /// places.
    fn text_beside(&self, other: &Self) -> String {
        let Some(refusal) = other.refusal.as_ref().filter(|_| self.refusal.is_none()) else {
            return self.text.clone();
        };
        let without = |(at, found): (usize, &str)| {
            let (before, after) = (&self.text[..at], &self.text[at + found.len()..]);
            // Where a protocol has one text for both, the refusal is a paragraph.
            let apart = (before.strip_suffix("\n\n"), after.strip_prefix("\n\n"));
            let (first, last) = (apart.0.unwrap_or(before), apart.1.unwrap_or(after));
            [[before, after], [first, after], [before, last], [first, last]].map(|texts| texts.concat())
        };
        let mut texts = self.text.match_indices(refusal.as_str()).flat_map(without);
        texts.find(|text| *text == other.text).unwrap_or_else(|| format!("{} (with the refusal)", self.text))
    }

    /// Adds the sources in a text of a chat or Responses service.
    pub(crate) fn cite<'a>(&mut self, sources: impl Iterator<Item = &'a Value>) {
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

/// Compares a field if both endpoints show it.
fn both<T: PartialEq + std::fmt::Debug>(what: &str, one: &Option<T>, two: &Option<T>) -> Option<String> {
    let (one, two) = (one.as_ref()?, two.as_ref()?);
    (one != two).then(|| format!("{what}:\n  {one:?}\n  {two:?}"))
}

/// Returns a message in the common form: role, text and calls.
pub(crate) fn plain_message(message: &Value) -> Value {
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

pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Returns the calls of a message in OpenAI's format.
pub(crate) fn calls_of(message: &Value) -> Vec<(String, Value)> {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let call = |call: &Value| match call.get("custom") {
        Some(custom) => custom_call(&custom["name"], &custom["input"]),
        None => call_of(&call["function"]["name"], &call["function"]["arguments"]),
    };
    calls.map(call).collect()
}

/// Returns a call of a free-text tool.
pub(crate) fn custom_call(name: &Value, input: &Value) -> (String, Value) {
    (format!("{} (custom)", name.as_str().unwrap_or_default()), input.clone())
}

/// Returns a call; its arguments are compared as JSON values.
pub(crate) fn call_of(name: &Value, arguments: &Value) -> (String, Value) {
    let arguments = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        other => other.clone(),
    };
    (name.as_str().unwrap_or_default().to_owned(), arguments)
}

/// Returns the usage of an answer; that of a service that counts no tokens is an estimate of the input in messages.
fn counted(usage: Option<(u64, u64)>) -> Option<(u64, u64)> {
    usage.map(|(input, output)| if output == 0 { (0, 0) } else { (input, output) })
}
