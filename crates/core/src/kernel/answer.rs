//! Conversion of an answer to and from its form for filters.

use crate::chat::response::Head;
use crate::chat::{message, response};
use crate::context::Turn;
use valvehouse_json::{Json, Object};

/// The fields of an answer in this form that do not belong to the message.
const BESIDE_THE_MESSAGE: [&str; 4] = ["finish_reason", "usage", "model", "id"];

/// Creates an answer from a filter's value.
pub(super) fn from_value(value: &Json, turn: &Turn) -> Json {
    let model = turn.facts().model.text("id").unwrap_or_else(|| "valvehouse".into());
    answer_of(value, &model)
}

/// Creates a `chat.completion` from the return value of a script that serves a model: a text, a message or a
/// `chat.completion`.
pub fn answer_of(value: &Json, model: &str) -> Json {
    if value.get("choices").is_some() {
        return value.deep_clone();
    }
    let head = Head::new(model);
    let message = message_from(value);
    let why = value.text("finish_reason").unwrap_or_else(|| response::natural_finish(&message).into());
    head.completion(message, &why)
}

fn message_from(value: &Json) -> Json {
    match value {
        Json::Object(_) if value.get("choices").is_some() => message_from(&response::message_of(value)),
        Json::Object(_) if value.get("message").is_some() => message_from(&value.field("message")),
        Json::Object(fields) => {
            let message =
                fields.entries().into_iter().filter(|(key, _)| !BESIDE_THE_MESSAGE.contains(&key.as_str()));
            let message: Json = message.collect::<Object>().into();
            let message = message.deep_clone();
            if message.get("role").is_none() {
                message.edit("role", "assistant");
            }
            if message.get("content").is_none() {
                let text = value.text("text").map_or(Json::Null, Json::from);
                message.edit("content", text);
            }
            message
        }
        Json::Text(text) => message::assistant(text.clone()),
        Json::Null => message::assistant(""),
        other => message::assistant(other.to_string()),
    }
}

/// Returns `ctx.result`: the fields of the message, plus finish reason and usage.
pub(super) fn shown_to_post_chat(choice: &Json, message: &Json, response: &Json) -> Json {
    shown(message, choice, response, &BESIDE_THE_MESSAGE)
}

/// Returns the last message of the outlet's body.
pub(super) fn shown_to_outlet(choice: &Json, message: &Json, response: &Json) -> Json {
    shown(message, choice, response, &["finish_reason", "usage"])
}

fn shown(message: &Json, choice: &Json, response: &Json, beside: &[&str]) -> Json {
    let fields = message.entries();
    let beside = beside.iter().filter_map(|key| {
        let value = if *key == "finish_reason" { choice.get(key) } else { response.get(key) };
        value.map(|value| ((*key).into(), value))
    });
    fields.into_iter().chain(beside).collect::<Object>().into()
}

/// Writes a filter's changes back to the answer.
pub(super) fn take_edits(choice: &Json, message: &Json, edited: &Json) {
    let Json::Object(fields) = edited else { return take_value(choice, message, edited) };
    for (key, value) in fields.entries() {
        match key.as_str() {
            "finish_reason" => choice.edit(&key, value),
            "usage" | "model" | "id" => {}
            _ if message.get(&key).as_ref() == Some(&value) => {}
            _ => {
                if matches!(key.as_str(), "content" | "refusal") {
                    // They spell the text before the change.
                    choice.remove("logprobs");
                }
                message.edit(&key, value);
            }
        }
    }
    for key in message.keys() {
        if !fields.contains(&key) && key != "role" {
            message.remove(&key);
        }
    }
}

/// Replaces an answer with a value.
pub(super) fn take_value(choice: &Json, message: &Json, value: &Json) {
    let new = message_from(value);
    if let (Json::Object(message), Json::Object(fields)) = (message, &new) {
        let _ = message.replace(fields.entries());
    } else {
        choice.edit("message", new.clone());
    }
    choice.edit("finish_reason", response::natural_finish(&new));
    choice.remove("logprobs");
}
