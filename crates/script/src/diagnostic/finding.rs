//! A problem of a script: its kind, its place, its text, and its fix.

use super::codes::Code;
use std::path::{Path, PathBuf};

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The script does not load.
    Error,
    /// It loads, and something about it is surely not meant.
    Warning,
}

/// The maximum number of problems of one kind that are reported for a file.
pub(crate) const MAX_PROBLEMS: usize = 50;

/// Something wrong with a script file.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: Code,
    /// The plugin's id, the file's stem.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// 1-based, where the place is known.
    pub line: Option<usize>,
    /// 1-based, in characters.
    pub column: Option<usize>,
    /// The line itself.
    pub excerpt: String,
    /// The problem in words.
    pub message: String,
    /// The hint that says how to fix it.
    pub help: Option<String>,
    /// Its severity.
    pub severity: Severity,
    /// The command that grants what is missing, where that is all that is wrong.
    pub grant: Option<String>,
}

impl Diagnostic {
    /// A problem with a file as a whole.
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
            severity: Severity::Error,
            grant: None,
        }
    }

    /// The same, with its fix.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same, for want of what this command grants.
    #[must_use]
    pub fn granted_by(mut self, command: impl Into<String>) -> Self {
        self.grant = Some(command.into());
        self
    }

    /// The same as a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// `filters/x.rhai:3:12`
    pub fn place(&self) -> String {
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", self.path.display()),
            (Some(line), None) => format!("{}:{line}", self.path.display()),
            _ => self.path.display().to_string(),
        }
    }

    /// Returns the number of characters of the word at the place.
    pub fn width(&self) -> usize {
        let Some(column) = self.column else { return 1 };
        let rest = self.excerpt.chars().skip(column - 1);
        rest.take_while(|letter| letter.is_alphanumeric() || *letter == '_').count().max(1)
    }
}

/// Place, message, the line, a caret, the help.
impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {word}[{}]: {}", self.place(), self.code, self.message)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            // Long lines are shown around the place.
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

/// Returns `true` if any of these keeps a script from running.
pub(crate) fn has_errors(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

pub(super) fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}
