//! Thrown values, as every `catch` and the host see them.

use crate::{call, redaction};
use rhai::{Dynamic, EvalAltResult, Position};
use valvehouse_core::error::Rejection;
use valvehouse_core::text::shortened;
use valvehouse_json::Json;

/// Bytes of a message that are kept.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024;

/// A thrown value, in the one form in which `catch` sees every error. Its text is the message.
#[derive(Debug, Clone)]
pub(crate) struct ThrownError {
    pub(crate) rejection: Rejection,
    pub(crate) line: Option<usize>,
    /// The keys of a thrown map that are not words of ours.
    pub(crate) value: Json,
    /// A bug rather than a decision, when it was caught and thrown again.
    pub(crate) bug: bool,
}

impl ThrownError {
    /// An unintended failure.
    pub(crate) fn bug(message: String, line: Option<usize>) -> Self {
        let rejection =
            Rejection { plugin: call::plugin(), ..Rejection::new(readable(&message)) }.with_status(500);
        Self { rejection, line, value: Json::Null, bug: true }
    }

    /// The failure of a call that the script may make and that this client or person leaves without an answer: a failure
    /// of the run as [`ThrownError::bug`] is, but no fault of the script.
    pub(crate) fn unanswered(message: String, status: u16) -> Self {
        let mut thrown = Self::bug(message, None);
        thrown.rejection.status = status;
        thrown
    }

    /// Returns the reason if the client caused the failure.
    pub(crate) fn client_error(&self) -> Option<&Rejection> {
        (self.bug && self.rejection.status < 500).then_some(&self.rejection)
    }

    pub(crate) fn into_error(self, position: Position) -> Box<EvalAltResult> {
        EvalAltResult::ErrorRuntime(Dynamic::from(self), position).into()
    }

    /// Turns an error that was returned into a thrown one.
    pub(crate) fn refused(rejection: Rejection) -> Box<EvalAltResult> {
        Self { rejection, line: None, value: Json::Null, bug: false }.into_error(Position::NONE)
    }
}

/// A message as far as anybody would read it, without secrets.
pub(crate) fn readable(message: &str) -> String {
    shortened(redaction::redacted(message).into_owned(), MAX_MESSAGE)
}
