//! Why something on this machine was not done.

/// The action that failed and the reason; and the grant that would allow it, where one would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The action that failed, its object, and the reason.
    pub message: String,
    /// The grant that an operator could give, as the command line writes it: `files=FOLDER`.
    pub grant: Option<String>,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), grant: None }
    }

    pub(super) fn ungranted(message: impl Into<String>, grant: impl Into<String>) -> Self {
        Self { message: message.into(), grant: Some(grant.into()) }
    }

    /// The message with the command that would allow it to this plugin.
    pub fn told_to(&self, plugin: &str) -> String {
        match &self.grant {
            Some(grant) => format!("{}; to allow it: valvehouse grant {plugin} {grant}", self.message),
            None => self.message.clone(),
        }
    }
}
