//! The texts of a service's error in the stream chain: a filter that removes a text from answers removes it here, too.

use super::assembly::Kernel;
use super::stream;
use crate::chat::message;
use crate::context::Turn;
use crate::error::Error;
use crate::filter::Hook;
use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// The maximum number of texts in an error that filters read.
const MAX_TEXTS: usize = 64;
/// The text in place of one that a filter changed. What filters add to answers does not belong to an error.
const REMOVED: &str = "a filter of this host removed the text of this error; the host's log has its status";
/// The keys of codes, which programs read and filters do not.
const CODES: [&str; 5] = ["type", "code", "status", "reason", "object"];

/// Runs each text of a service's error through the stream chain, as an answer of its own, and removes those that a
/// filter changes or refuses.
pub(super) async fn filtered(kernel: &Kernel, error: Error, turn: &Turn) -> Error {
    let has_hooks = || [Hook::Stream, Hook::StreamEnd].into_iter().any(|hook| kernel.chain().has(hook));
    let Error::Answered { provider, status, body, retry_after } = error else { return error };
    let body = if has_hooks() { seen(kernel, &body, turn).await } else { body };
    Error::Answered { provider, status, body, retry_after }
}

async fn seen(kernel: &Kernel, body: &Json, turn: &Turn) -> Json {
    let mut texts = Vec::new();
    collect(body, &mut texts);
    let answer = match texts.len() {
        0..=MAX_TEXTS => stream::whole(kernel, as_answer(&texts), turn).await.ok(),
        _ => None,
    };
    let choices = answer.map(|answer| answer.list("choices")).into_iter().flatten();
    let mut seen = choices.map(|choice| message::text_of(&choice.field("message")).to_string());
    rebuilt(body, &mut seen)
}

fn as_answer(texts: &[String]) -> Json {
    let choice = |(index, text): (usize, &String)| {
        Json::from([
            ("index", index.into()),
            ("message", message::assistant(text)),
            ("finish_reason", "error".into()),
        ])
    };
    Json::from([("choices", texts.iter().enumerate().map(choice).collect::<Vec<_>>().into())])
}

fn collect(value: &Json, texts: &mut Vec<String>) {
    match value {
        Json::Text(text) => texts.push(text.to_string()),
        Json::Array(_) => value.items().iter().for_each(|item| collect(item, texts)),
        Json::Object(_) => value
            .entries()
            .iter()
            .filter(|(key, value)| !is_code(key, value))
            .for_each(|(_, value)| collect(value, texts)),
        _ => {}
    }
}

/// Returns a copy of an error with the texts that no filter changed, in the order of [`collect`].
fn rebuilt(value: &Json, seen: &mut impl Iterator<Item = String>) -> Json {
    match value {
        Json::Text(text) => match seen.next() {
            Some(seen) if seen.contains(text.as_str()) => value.clone(),
            _ => REMOVED.into(),
        },
        Json::Array(_) => value.items().iter().map(|item| rebuilt(item, seen)).collect::<Vec<_>>().into(),
        Json::Object(_) => {
            let own = |(key, value): (CompactString, Json)| match is_code(&key, &value) {
                true => (key, value),
                false => (key, rebuilt(&value, seen)),
            };
            value.entries().into_iter().map(own).collect::<Object>().into()
        }
        other => other.clone(),
    }
}

/// Returns `true` for a code of letters, digits and some signs under a key of one.
fn is_code(key: &str, value: &Json) -> bool {
    const MAX_LENGTH: usize = 64;
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-[]".contains(&byte);
    let is_short = |text: &str| text.len() <= MAX_LENGTH && text.bytes().all(is_sign);
    CODES.contains(&key) && matches!(value, Json::Text(text) if is_short(text))
}
