//! A problem of a script: its kind, its position, its message and its fix.

use super::cause::Cause;
use super::codes::Code;
use std::path::{Path, PathBuf};
use valvehouse_core::text::suggested;

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The script is not loaded.
    Error,
    /// The script is loaded but is probably wrong.
    Warning,
}

/// The maximum number of problems of one kind that are reported for a file.
pub(crate) const MAX_PROBLEMS: usize = 50;

/// A problem of a script file.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: Code,
    /// The plugin's id, the file's stem.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// The line, from 1; `None` if the position is unknown.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// The text of the line.
    pub excerpt: String,
    /// The message.
    pub message: String,
    /// The hint how to fix it.
    pub help: Option<String>,
    /// The cause, for code that fixes it.
    pub cause: Box<Cause>,
    /// Its severity.
    pub severity: Severity,
    /// The command that grants the missing capability, if that is the only problem.
    pub grant: Option<String>,
}

impl Diagnostic {
    /// Creates a problem of a whole file.
    pub fn new(code: Code, id: &str, path: &Path, message: impl Into<String>) -> Self {
        Self {
            code,
            id: id.into(),
            path: path.into(),
            line: None,
            column: None,
            excerpt: String::new(),
            message: message.into(),
            help: None,
            cause: Box::default(),
            severity: Severity::Error,
            grant: None,
        }
    }

    /// Sets the hint how to fix it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        *self.cause = cause;
        self
    }

    /// Sets the name that is meant, and the hint.
    #[must_use]
    pub fn meant(self, name: &str) -> Self {
        self.help(format!("did you mean `{name}`?")).because(Cause::Name(name.into()))
    }

    /// Sets the name that may be meant, and the hint with what else is possible.
    #[must_use]
    pub(crate) fn meant_one_of(self, near: Option<&str>, known: &str) -> Self {
        let problem = self.help(format!("{}{known}", suggested(near)));
        match near {
            Some(near) => problem.because(Cause::Name(near.into())),
            None => problem,
        }
    }

    /// Sets the capability that is not declared, and the hint.
    #[must_use]
    pub(crate) fn undeclared(self, capability: &str) -> Self {
        self.help(format!("add a line to the opening comment of the file: requirements: {capability}"))
            .because(Cause::Capability(capability.into()))
    }

    /// Sets the command that grants the missing capability.
    #[must_use]
    pub fn granted_by(mut self, command: impl Into<String>) -> Self {
        self.grant = Some(command.into());
        self
    }

    /// Turns the problem into a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// Turns a warning into an error.
    #[must_use]
    pub fn error(mut self) -> Self {
        self.severity = Severity::Error;
        self
    }

    /// Returns the position, such as `filters/x.rhai:3:12`.
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.path.display()),
            (Some(line), None) => format!("{}:{line}", self.path.display()),
            _ => self.path.display().to_string(),
        }
    }

    /// Returns the number of characters of the word at the position.
    pub fn width(&self) -> usize {
        let Some(column) = self.column else { return 1 };
        let rest = self.excerpt.chars().skip(column - 1);
        rest.take_while(|letter| letter.is_alphanumeric() || *letter == '_').count().max(1)
    }
}

/// Writes the position, the message, the line with a caret, and the hint.
impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {word}[{}]: {}", self.place(), self.code, self.message)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            // Of a long line, only the part around the position is shown.
            let from = column.saturating_sub(60);
            let shown: String = self.excerpt.chars().skip(from).take(100).collect();
            let shown = shown.replace('\t', " ");
            let gutter = line.to_string();
            let blank = " ".repeat(gutter.len());
            let indent = " ".repeat(column - 1 - from.min(column - 1));
            write!(f, "\n {blank} |\n {gutter} | {shown}\n {blank} | {indent}{}", "^".repeat(self.width()))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n   = help: {help}")?;
        }
        Ok(())
    }
}

/// Returns `true` if any problem prevents a script from being loaded.
pub(crate) fn has_errors(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}
