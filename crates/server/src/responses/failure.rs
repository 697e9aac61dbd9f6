//! Errors in the middle of a stream.

use crate::reply;
use valvehouse_core::fault::Fault;

/// Codes of services that clients act on: they shorten the conversation, wait, or give up.
const KNOWN: [&str; 3] = ["context_length_exceeded", "insufficient_quota", "rate_limit_exceeded"];

/// The code of an error in the middle of a stream, in the words that clients of this API read.
pub(super) fn code_of(fault: &Fault) -> &'static str {
    let error = reply::body(fault).field("error");
    let named = ["code", "type"].iter().find_map(|key| {
        let given = error.text(key)?;
        KNOWN.into_iter().find(|known| *known == given)
    });
    named.unwrap_or_else(|| match reply::status(fault) {
        429 => "rate_limit_exceeded",
        400 | 413 if told(fault).contains("context") => "context_length_exceeded",
        400..=499 => "invalid_prompt",
        _ => "server_error",
    })
}

/// The message of an error, without what only operators are told. A limit that ends says when, in the words that Codex reads.
pub(super) fn message_of(fault: &Fault) -> String {
    let message = told(fault);
    let seconds = reply::retry_after(fault).and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
    match seconds.filter(|_| code_of(fault) == "rate_limit_exceeded" && !message.contains("try again in")) {
        Some(seconds) => format!("{message}; try again in {seconds}s"),
        None => message,
    }
}

fn told(fault: &Fault) -> String {
    reply::body(fault).at_path("error.message").str_or_empty().to_owned()
}
