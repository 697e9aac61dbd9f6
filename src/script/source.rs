//! A script's file, as far as it is known before anybody reads what it says.

use super::problem::Problem;
use std::path::PathBuf;
use std::sync::Arc;

/// Longest source that is read.
pub(super) const MAX_SOURCE: usize = 256 * 1024;
/// Most parameters of one function: Rhai compares each with each.
const MAX_PARAMETERS: usize = 32;

/// What a script is for: the folder it lies in decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Its hooks run in the chain.
    Filter,
    /// Models may call it.
    Tool,
}

impl Kind {
    /// What a script looks like that lies in neither folder.
    pub fn guess(text: &str) -> Self {
        let defines = |name: &str| text.contains(&format!("fn {name}("));
        let is_filter = crate::filter::Hook::ALL.into_iter().any(|hook| defines(hook.name()));
        if !is_filter && (defines("handler") || defines("tools")) { Self::Tool } else { Self::Filter }
    }

    /// As people are told.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Tool => "tool",
        }
    }
}

/// A script file as it was read.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// What it is for.
    pub kind: Kind,
    /// The plugin's id.
    pub id: Arc<str>,
    /// Where it was read.
    pub path: PathBuf,
    /// Its text.
    pub text: Arc<str>,
}

impl SourceFile {
    /// A file of this text.
    pub fn new(
        kind: Kind,
        id: impl Into<Arc<str>>,
        path: impl Into<PathBuf>,
        text: impl Into<Arc<str>>,
    ) -> Self {
        Self { kind, id: id.into(), path: path.into(), text: text.into() }
    }
}

/// Refuses what would take the parser too long.
pub(super) fn check_size(file: &SourceFile) -> Result<(), Problem> {
    let problem = |message: String| Problem::new(&file.id, &file.path, message);
    if file.text.len() > MAX_SOURCE {
        return Err(problem(format!(
            "the script has {} KB; at most {} KB are read",
            file.text.len() / 1024,
            MAX_SOURCE / 1024
        ))
        .help("split it, or move data into valves or the store"));
    }
    for (at, _) in file.text.match_indices("fn ") {
        let signature = file.text[at..].split_once(')').map_or("", |(signature, _)| signature);
        if signature.contains('(') && signature.matches(',').count() >= MAX_PARAMETERS {
            return Err(problem(format!("a function has more than {MAX_PARAMETERS} parameters"))
                .help("hand in one map instead"));
        }
    }
    Ok(())
}
