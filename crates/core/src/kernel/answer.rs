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
    let said = message_from(value);
    let why = value.text("finish_reason").unwrap_or_else(|| response::natural_finish(&said).into());
    head.completion(said, &why)
}

fn message_from(value: &Json) -> Json {
    match value {
        Json::Object(_) if value.get("choices").is_some() => message_from(&response::message_of(value)),
        Json::Object(_) if value.get("message").is_some() => message_from(&value.field("message")),
        Json::Object(fields) => {
            let said =
                fields.entries().into_iter().filter(|(key, _)| !BESIDE_THE_MESSAGE.contains(&key.as_str()));
            let said: Json = said.collect::<Object>().into();
            let said = said.deep_clone();
            if said.get("role").is_none() {
                said.edit("role", "assistant");
            }
            if said.get("content").is_none() {
                let text = value.text("text").map_or(Json::Null, Json::from);
                said.edit("content", text);
            }
            said
        }
        Json::Text(text) => message::assistant(text.clone()),
        Json::Null => message::assistant(""),
        other => message::assistant(other.to_string()),
    }
}

/// Returns `ctx.result`: the fields of the message, plus finish reason and usage.
pub(super) fn shown_to_post_chat(choice: &Json, said: &Json, response: &Json) -> Json {
    shown(said, choice, response, &BESIDE_THE_MESSAGE)
}

/// Returns the last message of the outlet's body.
pub(super) fn shown_to_outlet(choice: &Json, said: &Json, response: &Json) -> Json {
    shown(said, choice, response, &["finish_reason", "usage"])
}

fn shown(said: &Json, choice: &Json, response: &Json, beside: &[&str]) -> Json {
    let fields = said.entries();
    let beside = beside.iter().filter_map(|key| {
        let value = if *key == "finish_reason" { choice.get(key) } else { response.get(key) };
        value.map(|value| ((*key).into(), value))
    });
    fields.into_iter().chain(beside).collect::<Object>().into()
}

/// Writes a filter's changes back to the answer.
pub(super) fn take_edits(choice: &Json, said: &Json, edited: &Json) {
    let Json::Object(fields) = edited else { return take_value(choice, said, edited) };
    for (key, value) in fields.entries() {
        match key.as_str() {
            "finish_reason" => choice.edit(&key, value),
            "usage" | "model" | "id" => {}
            _ if said.get(&key).as_ref() == Some(&value) => {}
            _ => said.edit(&key, value),
        }
    }
    for key in said.keys() {
        if !fields.contains(&key) && key != "role" {
            said.remove(&key);
        }
    }
}

/// Replaces an answer with a value.
pub(super) fn take_value(choice: &Json, said: &Json, value: &Json) {
    let new = message_from(value);
    if let (Json::Object(said), Json::Object(fields)) = (said, &new) {
        let _ = said.replace(fields.entries());
    } else {
        choice.edit("message", new.clone());
    }
    choice.edit("finish_reason", response::natural_finish(&new));
}
