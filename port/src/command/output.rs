//! The streams of results and messages, and the end of the command.

use std::io::{self, Write};
use std::process::ExitCode;

/// The codes that the command ends with; those of `valvehouse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// The draft was made.
    Done,
    /// The draft was made, and `valvehouse check` reports an error in it.
    Findings,
    /// The command line is wrong.
    Usage,
    /// A file is not what it should be.
    Data,
    /// We failed.
    Internal,
    /// The exit code of `valvehouse`.
    Of(u8),
}

impl Exit {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::Data => 65,
            Self::Internal => 70,
            Self::Of(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The reason why the command failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    /// The message; empty where everything was shown already.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    pub(super) fn data(message: impl Into<String>) -> Self {
        Self { exit: Exit::Data, message: message.into() }
    }
}

/// A reader that has seen enough, such as `head`, is not a failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { exit: Exit::Done, message: String::new() },
            _ => Self { exit: Exit::Internal, message: format!("cannot write the output: {error}") },
        }
    }
}

/// Writes a part of the result.
pub(super) fn piece(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes lines of the result.
pub(super) fn line(text: &str) -> io::Result<()> {
    piece(&format!("{text}\n"))
}

/// Writes a message to stderr. Errors are ignored.
pub(super) fn message(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(text));
}

/// Text of plugins and paths, without what would steer a terminal.
fn clean(text: &str) -> String {
    let is_harmless = |letter: char| !letter.is_control() || letter == '\n' || letter == '\t';
    text.chars().map(|letter| if is_harmless(letter) { letter } else { '\u{fffd}' }).collect()
}
