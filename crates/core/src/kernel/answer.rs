//! An answer as filters see it, and back.

use crate::chat::response::Head;
use crate::chat::{message, response};
use crate::context::Turn;
use valvehouse_json::{Json, Object};

/// Fields of a shown answer that are not the message's.
const BESIDE_THE_MESSAGE: [&str; 4] = ["finish_reason", "usage", "model", "id"];

/// An answer from what a filter gave instead of one.
pub(super) fn from_value(value: &Json, turn: &Turn) -> Json {
    let model = turn.facts().model.text("id").unwrap_or_else(|| "valvehouse".into());
    answer_of(value, &model)
}

/// The answer of a model that is a script: of a text, a message, a whole completion.
pub fn answer_of(value: &Json, model: &str) -> Json {
    if value.get("choices").is_some() {
        return value.copy();
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
            let said = said.copy();
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

/// `ctx.result`: the message's fields, and beside them how the answer ended.
pub(super) fn shown_to_post_chat(choice: &Json, said: &Json, response: &Json) -> Json {
    shown(said, choice, response, &BESIDE_THE_MESSAGE)
}

/// The last message of the outlet's body.
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

/// Writes what a filter made of a shown answer back into the answer.
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

/// Puts a value in place of an answer.
pub(super) fn take_value(choice: &Json, said: &Json, value: &Json) {
    let new = message_from(value);
    if let (Json::Object(said), Json::Object(fields)) = (said, &new) {
        let _ = said.replace(fields.entries());
    } else {
        choice.edit("message", new.clone());
    }
    choice.edit("finish_reason", response::natural_finish(&new));
}
