//! A script's file before its content is parsed.

use super::imports::{Imports, MAX_SOURCE};
use crate::diagnostic::{Code, Diagnostic};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use valvehouse_core::text::hex;
use valvehouse_dialect::crash::QuarantineEntry;
use valvehouse_dialect::syntax::spans::{self, SpanKind};

/// The maximum number of lines of a file.
pub(crate) const MAX_LINES: usize = 60_000;

/// The maximum nesting of brackets; the parser accepts half as many levels.
const MAX_NESTING: u32 = 256;

/// The kind of a script, determined by its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A filter, whose hooks run in the chain.
    Filter,
    /// A tool or a module of tools.
    Tool,
    /// An action, whose buttons people press.
    Action,
}

impl Kind {
    /// Guesses the kind of a script outside of these folders.
    pub fn guess(text: &str) -> Self {
        let defines = |name: &str| text.contains(&format!("fn {name}("));
        let is_filter = valvehouse_core::filter::Hook::ALL.into_iter().any(|hook| defines(hook.name()));
        match is_filter {
            false if defines("handler") || defines("tools") => Self::Tool,
            false if defines("action") => Self::Action,
            _ => Self::Filter,
        }
    }

    /// All kinds, in the order of their folders.
    pub const ALL: [Self; 3] = [Self::Filter, Self::Tool, Self::Action];

    /// Returns the kind of this name.
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the name of its folder, which is also that of its section in the settings.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Filter => "filters",
            Self::Tool => "tools",
            Self::Action => "actions",
        }
    }

    /// Returns the display name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Tool => "tool",
            Self::Action => "action",
        }
    }
}

/// A script file with its text.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Its kind.
    pub kind: Kind,
    /// The plugin's id.
    pub id: Arc<str>,
    /// The path it was read from.
    pub path: PathBuf,
    /// Its text.
    pub text: Arc<str>,
    /// Its imports.
    pub imports: Imports,
}

impl SourceFile {
    /// Creates a file with this text.
    pub fn new(
        kind: Kind,
        id: impl Into<Arc<str>>,
        path: impl Into<PathBuf>,
        text: impl Into<Arc<str>>,
    ) -> Self {
        Self { kind, id: id.into(), path: path.into(), text: text.into(), imports: Imports::default() }
    }

    /// Returns the hash of its text and of everything it imports: SHA-256 in hexadecimal digits.
    pub fn hash(&self) -> String {
        let own = hex(&Sha256::digest(self.text.as_bytes()));
        if self.imports.is_empty() { own } else { self.imports.hash_with(&own) }
    }

    /// Sets the imports.
    #[must_use]
    pub fn importing(self, imports: Imports) -> Self {
        Self { imports, ..self }
    }
}

impl Diagnostic {
    /// Creates a problem of a script's file as a whole.
    pub fn of(code: Code, file: &SourceFile, message: impl Into<String>) -> Self {
        Self::new(code, &file.id, &file.path, message)
    }

    /// Returns the problem of a file whose version is quarantined because it ended the process.
    pub fn of_quarantine(file: &SourceFile, quarantined: &[QuarantineEntry]) -> Option<Self> {
        let hash = (!quarantined.is_empty()).then(|| file.hash())?;
        let version = quarantined.iter().find(|version| *version.id == *file.id && version.hash == hash)?;
        let what = format!("cannot run this version: it is quarantined because {}", version.why);
        let help = format!("save a changed version, or release this one: valvehouse release {}", file.id);
        Some(Self::of(Code::Quarantined, file, what).help(help))
    }
}

/// Checks the limits of a text that the parser can process in time.
pub(crate) fn check_text(file: &SourceFile) -> Result<(), Diagnostic> {
    let problem = |message: String| Diagnostic::of(Code::TooLong, file, message);
    if file.text.len() > MAX_SOURCE {
        return Err(problem(format!(
            "the script has {} KB; it exceeded its limit of {} KB",
            file.text.len() / 1024,
            MAX_SOURCE / 1024
        ))
        .help("split it, or move data into valves or the store"));
    }
    // Rhai does not count lines beyond this limit, and positions are identified by their line.
    if file.text.lines().count() > MAX_LINES {
        return Err(problem(format!("the script exceeded its limit of {MAX_LINES} lines")).help("split it"));
    }
    match too_deep(&file.text) {
        Some(at) => Err(Diagnostic::of(
            Code::TooComplex,
            file,
            format!("cannot read the script: its brackets exceeded their limit of {MAX_NESTING} levels"),
        )
        .at_byte(&file.text, at)
        .help("split the expression, or move the inner blocks into functions")),
        None => Ok(()),
    }
}

/// Returns the position of the first bracket that is nested too deep.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (_, range) in spans::of(text).into_iter().filter(|(piece, _)| *piece == SpanKind::Code) {
        for (at, byte) in range.clone().zip(text[range].bytes()) {
            match byte {
                b'(' | b'[' | b'{' if depth == MAX_NESTING => return Some(at),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    None
}
