//! The texts of a service's error in the stream chain: a filter that removes a text from answers removes it here, too.

use super::assembly::Kernel;
use super::stream;
use crate::chat::message;
use crate::context::Turn;
use crate::error::Error;
use crate::filter::Hook;
use valvehouse_json::{Json, Object};

/// The maximum number of texts in an error that filters read.
const MAX_TEXTS: usize = 64;
/// The maximum length of a code, in bytes.
const MAX_CODE: usize = 64;

/// Runs each text of a service's error through the stream chain, as an answer of its own. If a filter refuses one, or
/// there are too many, only the status is left.
pub(super) async fn filtered(kernel: &Kernel, error: Error, turn: &Turn) -> Error {
    let has_hooks = || [Hook::Stream, Hook::StreamEnd].into_iter().any(|hook| kernel.chain().has(hook));
    let Error::Answered { provider, status, body, retry_after } = error else { return error };
    let body = if has_hooks() { seen(kernel, &body, turn, &provider, status).await } else { body };
    Error::Answered { provider, status, body, retry_after }
}

async fn seen(kernel: &Kernel, body: &Json, turn: &Turn, provider: &str, status: u16) -> Json {
    let mut texts = Vec::new();
    collect(body, &mut texts);
    let answer = if texts.len() > MAX_TEXTS {
        Err(Error::Host(format!("the error has more than {MAX_TEXTS} texts")))
    } else {
        stream::whole(kernel, as_answer(&texts), turn).await
    };
    match answer {
        Ok(answer) => {
            let choices = answer.list("choices").into_iter();
            let mut seen = choices.map(|choice| message::text_of(&choice.field("message")).to_string());
            rebuilt(body, &mut seen)
        }
        Err(error) => {
            tracing::debug!("the error of provider {provider} is not shown to the client: {error}");
            let message = format!("provider {provider} answered {status}; the host's log has the reason");
            Json::from([("error", Json::from([("message", message.into())]))])
        }
    }
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
        Json::Object(_) => value.entries().iter().for_each(|(_, value)| collect(value, texts)),
        _ => {}
    }
}

/// Returns a copy of an error with the texts that filters returned, in the order of [`collect`]. A code stays as it is
/// unless a filter removed it.
fn rebuilt(value: &Json, seen: &mut impl Iterator<Item = String>) -> Json {
    match value {
        Json::Text(text) => {
            let seen = seen.next().unwrap_or_default();
            if is_code(text) && seen.contains(text.as_str()) { value.clone() } else { seen.into() }
        }
        Json::Array(_) => value.items().iter().map(|item| rebuilt(item, seen)).collect::<Vec<_>>().into(),
        Json::Object(_) => {
            let entries = value.entries().into_iter();
            entries.map(|(key, value)| (key, rebuilt(&value, seen))).collect::<Object>().into()
        }
        other => other.clone(),
    }
}

/// Returns `true` for a code or a type, which programs read.
fn is_code(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    text.len() <= MAX_CODE && text.bytes().all(is_sign)
}
