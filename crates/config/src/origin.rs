//! The origin of a setting.

use std::fmt;

/// The origin of a setting, for the sentence that tells people what to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    #[default]
    Default,
    /// The file, with the place counted from 1.
    File {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// The environment variable of this name.
    Env(String),
    /// The command line; the key it set.
    Flag(String),
}

impl Origin {
    /// Returns the name of the source: a variable, `--set` or the file.
    pub fn source(self) -> String {
        match self {
            Self::Env(name) => name,
            Self::Flag(_) => "--set".to_owned(),
            Self::File { .. } | Self::Default => "valvehouse.toml".to_owned(),
        }
    }

    /// Returns `true` if it came as bare text, which says nothing of its type.
    pub(super) fn is_untyped(&self) -> bool {
        matches!(self, Self::Env(_) | Self::Flag(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("by default"),
            Self::File { file, line, column } => write!(f, "in {file}:{line}:{column}"),
            Self::Env(name) => write!(f, "from {name}"),
            Self::Flag(key) => write!(f, "from the command line ({key})"),
        }
    }
}
