//! The texts of a service's error, or of another value for clients, in the stream chain: a filter that removes a text from
//! answers removes it here, too.

use super::assembly::Kernel;
use super::stream;
use crate::chat::{event, message};
use crate::context::Turn;
use crate::error::Error;
use crate::error_code;
use crate::filter::Hook;
use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// The maximum number of texts in an error that filters read.
const MAX_TEXTS: usize = 64;
/// The text in place of one that a filter changed. What filters add to answers does not belong to an error.
const REMOVED: &str = "a filter of this host removed this text";

impl Kernel {
    /// Returns a value for the client of a turn without the texts that filters of the stream chain change or refuse.
    pub async fn judge_texts(&self, value: &Json, turn: &Turn) -> Json {
        seen(self, value, turn).await
    }
}

/// Runs each text of a service's error through the stream chain, as an answer of its own, and removes those that a
/// filter changes or refuses. Codes that services use are not texts.
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
        Json::Text(_) if error_code::is_known(value) => {}
        Json::Text(text) => texts.push(text.to_string()),
        Json::Array(_) => value.items().iter().for_each(|item| collect(item, texts)),
        Json::Object(_) => fields(value).for_each(|(_, value)| collect(&value, texts)),
        _ => {}
    }
}

/// Returns a copy of an error with the texts that no filter changed, in the order of [`collect`].
fn rebuilt(value: &Json, seen: &mut impl Iterator<Item = String>) -> Json {
    match value {
        Json::Text(_) if error_code::is_known(value) => value.clone(),
        Json::Text(text) => match seen.next() {
            Some(seen) if seen.contains(text.as_str()) => value.clone(),
            _ => REMOVED.into(),
        },
        Json::Array(_) => value.items().iter().map(|item| rebuilt(item, seen)).collect::<Vec<_>>().into(),
        Json::Object(_) => {
            fields(value).map(|(key, value)| (key, rebuilt(&value, seen))).collect::<Object>().into()
        }
        other => other.clone(),
    }
}

/// Returns the fields of an error whose keys are names.
fn fields(error: &Json) -> impl Iterator<Item = (CompactString, Json)> {
    error.entries().into_iter().filter(|(key, _)| event::is_key(key))
}
