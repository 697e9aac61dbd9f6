//! The end of a command: its exit code, and its error.

use std::io;
use std::process::{ExitCode, Termination};
use valvehouse_config::ConfigError;
use valvehouse_core::error::{Blame, Error, RequestErrorKind};
use valvehouse_host::app::OpenError;
use valvehouse_store::StoreError;

/// The end of a command, as scripts around it read it; the numbers are those of `sysexits.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command has done its work.
    Done = 0,
    /// Done, and something was found or refused.
    Findings = 1,
    /// The command line asks for something there is not.
    Usage = 2,
    /// A script or a value is bad.
    Data = 65,
    /// A service, a port or the store cannot be had.
    Unavailable = 69,
    /// We failed.
    Internal = 70,
    /// The settings are wrong.
    Configuration = 78,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

/// The reason why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// The code that the process ends with.
    pub exit: Exit,
    /// The message; empty where everything was shown already.
    pub message: String,
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

impl CommandError {
    /// Returns an end with this code and message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// The command line asks for something there is not.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A script or a value is bad.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Exit::Data, message)
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
        Self::new(Exit::Configuration, problems.join("\n"))
    }
}

impl From<OpenError> for CommandError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Config(message) => Self::new(Exit::Configuration, message),
            OpenError::Store(error) => error.into(),
            other => Self::new(Exit::Configuration, other.to_string()),
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::new(Exit::Unavailable, format!("cannot {error}"))
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        let exit = match (&error, error.blame()) {
            (Error::Rejected(_) | Error::Unguarded { .. }, _) => Exit::Findings,
            (Error::Request { kind: RequestErrorKind::Unusable, .. }, _) => Exit::Data,
            (_, Blame::Caller) => Exit::Usage,
            (_, Blame::Plugin) => Exit::Data,
            (_, Blame::Provider) => Exit::Unavailable,
            (_, Blame::Host) => Exit::Internal,
        };
        let message = match &error {
            Error::Rejected(rejection) => {
                format!("refused ({}) by {}: {}", rejection.status, rejection.plugin, rejection.message)
            }
            Error::Unguarded { plugin, message } => format!("refused (503) by {plugin}: {message}"),
            Error::Answered { body, .. } => format!("{error}: {}", message_of(body)),
            _ => error.to_string(),
        };
        Self::new(exit, message)
    }
}

/// The message of a service's error.
fn message_of(body: &valvehouse_json::Json) -> String {
    let message = body.at_path("error.message");
    match message.as_str() {
        Some(text) => text.to_owned(),
        None => body.to_string(),
    }
}

/// A reader that has seen enough, such as `head`, is not a failure.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Done, ""),
            _ => Self::new(Exit::Internal, format!("cannot write the output: {error}")),
        }
    }
}
