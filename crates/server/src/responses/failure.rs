//! Errors in the middle of a stream.

use crate::reply;
use valvehouse_core::fault::Fault;

/// The code of an error in the middle of a stream, in the words that clients of this API read.
pub(super) fn code_of(fault: &Fault) -> &'static str {
    match reply::status(fault) {
        429 => "rate_limit_exceeded",
        400 | 413 if message_of(fault).contains("context") => "context_length_exceeded",
        400..=499 => "invalid_prompt",
        _ => "server_error",
    }
}

/// The message of an error, without what only operators are told.
pub(super) fn message_of(fault: &Fault) -> String {
    reply::body(fault).at_path("error.message").as_str().unwrap_or_default().to_owned()
}
