//! Remarks on a draft for its author.

use std::collections::BTreeSet;

/// The kind of a remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NoteKind {
    /// A Python package, or a function of one, without a counterpart.
    Package,
    /// Code of Open WebUI.
    HostCode,
    /// Files, programs and the environment of the machine.
    Os,
    /// Threads, tasks and locks.
    Concurrency,
    /// A pattern with look-around or a reference to a group.
    Pattern,
    /// HTTP beyond requests and answers.
    Http,
    /// Bytes and their encodings.
    Bytes,
    /// A construct of Python without a counterpart.
    Python,
    /// A method of a value whose type is unknown.
    Method,
    /// Settings that the plugin changes or computes.
    Settings,
    /// Data that the plugin keeps between calls.
    State,
}

impl NoteKind {
    /// The kind in a few words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Package => "Python packages",
            Self::HostCode => "code of Open WebUI",
            Self::Os => "files, programs and environment",
            Self::Concurrency => "threads and tasks",
            Self::Pattern => "patterns with look-around",
            Self::Http => "HTTP",
            Self::Bytes => "bytes",
            Self::Python => "constructs of Python",
            Self::Method => "methods of values of unknown type",
            Self::Settings => "settings",
            Self::State => "data between calls",
        }
    }

    /// The page of the documentation that has the counterparts.
    pub fn page(self) -> &'static str {
        match self {
            Self::Package | Self::HostCode | Self::Python | Self::Method => {
                "docs/guide/from-open-webui.md#counterparts"
            }
            Self::Os => "docs/scripts.md#what-a-script-may-reach",
            Self::Concurrency => "docs/guide/waiting.md",
            Self::Pattern => "docs/reference.md#regex",
            Self::Http => "docs/guide/http.md",
            Self::Bytes => "docs/guide/bytes.md",
            Self::Settings => "docs/guide/valves.md",
            Self::State => "docs/guide/state.md",
        }
    }
}

/// A remark on the draft.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The kind.
    pub kind: NoteKind,
    /// The part of the line without a translation, or the difference to look at.
    pub text: String,
    /// The line of the Python file, counted from 1.
    pub line: usize,
    /// `true` if the line was left as `// TODO`.
    pub is_todo: bool,
}

/// The lines of code of a plugin, without blank lines, comments and documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineCount {
    /// All lines.
    pub all: usize,
    /// The lines that were left as `// TODO`.
    pub left: usize,
}

impl LineCount {
    /// The lines that were translated.
    pub fn translated(&self) -> usize {
        self.all.saturating_sub(self.left)
    }

    /// The share of lines that were translated, in percent.
    pub fn percent(&self) -> usize {
        (self.translated() * 100).checked_div(self.all).unwrap_or(100)
    }
}

/// The lines by number, so that a line counts once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count {
    all: BTreeSet<usize>,
    left: BTreeSet<usize>,
}

impl Count {
    pub(crate) fn seen(&mut self, first: usize, last: usize) {
        self.all.extend(first..=last.max(first));
    }

    pub(crate) fn left(&mut self, first: usize, last: usize) {
        self.seen(first, last);
        self.left.extend(first..=last.max(first));
    }

    pub(crate) fn lines(&self) -> LineCount {
        LineCount { all: self.all.len(), left: self.left.len() }
    }
}
