//! Thrown values, as every `catch` and the host see them.

use crate::call::{self, redaction};
use rhai::{Dynamic, EvalAltResult, Position};
use valvehouse_core::error::Rejection;
use valvehouse_core::text::shortened;
use valvehouse_json::Json;

/// The maximum length of a message, in bytes.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024;

/// A thrown value. Every `catch` receives errors in this form. Its text is the message.
#[derive(Debug, Clone)]
pub struct ThrownError {
    /// The rejection that it becomes if no `catch` receives it.
    pub rejection: Rejection,
    pub(crate) line: Option<usize>,
    /// The other keys of a thrown map.
    pub(crate) value: Json,
    /// `true` for an unintended failure, also after it was caught and thrown again.
    pub bug: bool,
    /// The operand of a comparison that failed because it is `()`.
    pub absent: Option<Operand>,
}

/// A side of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// The one before the operator.
    Left,
    /// The one after the operator.
    Right,
}

impl ThrownError {
    /// Creates an unintended failure.
    pub fn bug(message: String, line: Option<usize>) -> Self {
        let rejection =
            Rejection { plugin: call::plugin(), ..Rejection::new(readable(&message)) }.with_status(500);
        Self { rejection, line, value: Json::Null, bug: true, absent: None }
    }

    /// Creates the failure of a valid call that this client or person leaves unanswered. The run fails as with
    /// [`ThrownError::bug`], but the script is not at fault.
    pub fn unanswered(message: String, status: u16) -> Self {
        let mut thrown = Self::bug(message, None);
        thrown.rejection.status = status;
        thrown
    }

    /// Returns the reason if the client caused the failure.
    pub fn client_error(&self) -> Option<&Rejection> {
        (self.bug && self.rejection.status < 500).then_some(&self.rejection)
    }

    /// Returns the error of the interpreter at this position.
    pub fn into_error(self, position: Position) -> Box<EvalAltResult> {
        EvalAltResult::ErrorRuntime(Dynamic::from(self), position).into()
    }

    /// Converts a rejection into a thrown error.
    pub fn refused(rejection: Rejection) -> Box<EvalAltResult> {
        Self { rejection, line: None, value: Json::Null, bug: false, absent: None }.into_error(Position::NONE)
    }
}

/// Redacts and shortens a message.
pub(crate) fn readable(message: &str) -> String {
    shortened(redaction::redacted(message).into_owned(), MAX_MESSAGE)
}
