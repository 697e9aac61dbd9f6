//! The error of an operation on the operating system.

/// The failed operation with its reason, and the grant that would allow it, if any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The operation, its object, and the reason.
    pub message: String,
    /// The grant that would allow it, in the form of the command line: `files=FOLDER`.
    pub grant: Option<String>,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), grant: None }
    }

    pub(super) fn ungranted(message: impl Into<String>, grant: impl Into<String>) -> Self {
        Self { message: message.into(), grant: Some(grant.into()) }
    }

    /// Returns the message with the command that would allow the operation to this plugin.
    pub fn message_for(&self, plugin: &str) -> String {
        match &self.grant {
            Some(grant) => format!("{}; to allow it: valvehouse grant {plugin} {grant}", self.message),
            None => self.message.clone(),
        }
    }
}
