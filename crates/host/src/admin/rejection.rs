//! The error of a rejected change.

use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_os::Failure;
use valvehouse_script::{Diagnostic, Severity};
use valvehouse_store::StoreError;

/// The error of a rejected change; no part of it was applied.
#[derive(Debug, Clone)]
pub struct AdminError {
    /// The error.
    pub error: Error,
    /// The diagnostics of the script, if the script is the reason.
    pub problems: Vec<Diagnostic>,
}

impl std::fmt::Display for AdminError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for AdminError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl AdminError {
    pub(super) fn invalid(message: impl Into<String>, param: &'static str) -> Self {
        Error::invalid(message, Some(param)).into()
    }

    pub(super) fn missing(message: impl Into<String>, code: &'static str) -> Self {
        Self::request(message, code, RequestErrorKind::NotFound)
    }

    pub(super) fn conflict(message: impl Into<String>, code: &'static str) -> Self {
        Self::request(message, code, RequestErrorKind::Conflict)
    }

    pub(super) fn request(message: impl Into<String>, code: &'static str, kind: RequestErrorKind) -> Self {
        Error::Request { message: message.into(), param: None, code: Some(code), kind }.into()
    }

    /// Creates the error for a script that does not load, with all its diagnostics.
    pub(super) fn unfit(doing: &str, problems: Vec<Diagnostic>) -> Self {
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        let lines: Vec<String> = errors.map(ToString::to_string).collect();
        let message = format!("{doing}; nothing was changed\n{}", lines.join("\n"));
        let refused = Self::request(message, "does_not_load", RequestErrorKind::Unusable);
        Self { problems, ..refused }
    }
}

impl From<Error> for AdminError {
    fn from(error: Error) -> Self {
        Self { error, problems: Vec::new() }
    }
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<Failure> for AdminError {
    fn from(failure: Failure) -> Self {
        Self::conflict(failure.message, "file_not_changed")
    }
}
