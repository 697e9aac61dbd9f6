//! Notes for the author of a draft.

use std::collections::BTreeSet;

/// The kind of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NoteKind {
    /// A Python package, or a function of one, that has no counterpart.
    Package,
    /// Internal code of Open WebUI.
    HostCode,
    /// Files, programs and environment variables.
    Os,
    /// Threads, tasks and locks.
    Concurrency,
    /// A regular expression with look-around or a reference to a group.
    Pattern,
    /// HTTP features beyond requests and responses.
    Http,
    /// Bytes and their encodings.
    Bytes,
    /// A Python construct that has no counterpart.
    Python,
    /// A method of a value whose type is unknown.
    Method,
    /// Settings that the plugin changes or computes.
    Settings,
    /// Data that the plugin keeps between calls.
    State,
}

impl NoteKind {
    /// Returns a label of a few words.
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

    /// Returns the page of the documentation that describes the counterparts.
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

/// A note on a line of the draft.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The kind.
    pub kind: NoteKind,
    /// The part of the line that has no translation, or the difference that the author must check.
    pub text: String,
    /// The line of the Python file, counted from 1.
    pub line: usize,
    /// `true` if the line was left as `// TODO`.
    pub is_todo: bool,
}

/// The number of code lines of a plugin, without blank lines, comments and docstrings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineCount {
    /// The number of all lines.
    pub all: usize,
    /// The number of lines that were left as `// TODO`.
    pub left: usize,
}

impl LineCount {
    /// Returns the number of translated lines.
    pub fn translated(&self) -> usize {
        self.all.saturating_sub(self.left)
    }

    /// Returns the share of translated lines in percent; 100 for an empty file.
    pub fn percent(&self) -> usize {
        (self.translated() * 100).checked_div(self.all).unwrap_or(100)
    }
}

/// The numbers of the lines, so that each line counts once.
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
