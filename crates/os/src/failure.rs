//! Why something on this machine was not done.

/// What was not done and why; and the grant that would allow it, where one would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What was not done, to what, and why.
    pub message: String,
    /// What an operator could grant, as the command line writes it: `files=FOLDER`.
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
