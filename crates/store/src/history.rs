//! History: the successive states of each plugin, with the author and time of each change.
//!
//! A version is a complete state: the text of the file, and the valves and switches of operators. Each
//! distinct text is stored once, by its hash. Valves that users set for themselves are not part of it.

use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use valvehouse_core::text::hex;
use valvehouse_json::Json;

/// The maximum number of stored versions of a plugin.
pub const MAX_VERSIONS: u64 = 200;

/// The author of changes to a file by hand, who is unknown.
pub const BY_FILE: &str = "file";

/// The kind of change to a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// An operator created its file.
    Create,
    /// An operator changed its file.
    Update,
    /// Its valves were set.
    Valves,
    /// It was enabled or disabled, or made global or not.
    Toggle,
    /// Its file was removed, possibly with its operators' settings.
    Delete,
    /// An earlier version was restored.
    Rollback,
    /// A grant was added or revoked, which is listed but not part of the state.
    Grant,
    /// Its file was changed by hand.
    File,
}

impl Action {
    const ALL: [Self; 8] = [
        Self::Create,
        Self::Update,
        Self::Valves,
        Self::Toggle,
        Self::Delete,
        Self::Rollback,
        Self::Grant,
        Self::File,
    ];

    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Valves => "valves",
            Self::Toggle => "toggle",
            Self::Delete => "delete",
            Self::Rollback => "rollback",
            Self::Grant => "grant",
            Self::File => "file",
        }
    }

    /// Returns the kind with this name.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

/// One version of a plugin, without its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its number, from 1.
    pub number: u64,
    /// The time of the change, in milliseconds since 1970.
    pub at: i64,
    /// Its author.
    pub by: String,
    /// The kind of change.
    pub action: Action,
    /// `filter` or `tool`.
    pub kind: String,
    /// The path of its file within the folder of its kind.
    pub place: String,
    /// The SHA-256 of its text in hexadecimal; `None` if the file is missing.
    pub hash: Option<String>,
    /// The values of operators, as an object.
    pub valves: Json,
    /// The switch that enables it; `None` if it was not set.
    pub enabled: Option<bool>,
    /// The switch that makes it global; `None` if it was not set.
    pub global: Option<bool>,
    /// The switch that puts it in audit mode; `None` if it was not set.
    pub audit: Option<bool>,
}

impl Version {
    /// Returns `true` if both are the same state, regardless of the author and the path.
    pub fn is_same_state(&self, other: &Self) -> bool {
        (&self.kind, &self.hash, self.enabled, self.global, self.audit)
            == (&other.kind, &other.hash, other.enabled, other.global, other.audit)
            && self.valves == other.valves
    }
}

/// A plugin's file and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `filter` or `tool`.
    pub kind: String,
    /// The path of its file within the folder of its kind.
    pub place: String,
    /// The SHA-256 of its text in hexadecimal.
    pub hash: String,
    /// Its text.
    pub text: Arc<str>,
}

impl Source {
    /// Creates a file with this text.
    pub fn new(kind: &str, place: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self { kind: kind.to_owned(), place: place.into(), hash: hash(&text), text }
    }
}

/// Returns the SHA-256 of a text in hexadecimal, which identifies it in the history.
pub fn hash(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// A plugin's file as a scan found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFile {
    /// The plugin.
    pub plugin: String,
    /// Its file; `None` if it is missing.
    pub source: Option<Source>,
    /// The start of the scan, in milliseconds since 1970.
    pub at: i64,
}

/// The change of a file in an [`Edit`]; the file is changed before the edit is recorded.
#[derive(Debug, Clone, Copy)]
pub enum FileEdit<'a> {
    /// The file has this content now.
    Becomes(&'a Source),
    /// The file was deleted on purpose, which also confirms the removal of a guard.
    Goes,
}

/// An operator's change of a plugin's file, together with the rest of its state.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// The plugin.
    pub plugin: &'a str,
    /// The author.
    pub by: &'a str,
    /// The kind of change.
    pub action: Action,
    /// The start of the change, in milliseconds since 1970. If a host has recorded the new file as changed by
    /// hand since then, that version gets the author of this change.
    pub since: i64,
    /// The change of the file.
    pub file: FileEdit<'a>,
    /// The new valves and switches; `None` leaves them unchanged.
    pub settings: Option<SettingsEdit<'a>>,
}

/// All settings that operators made for a plugin.
#[derive(Debug, Clone, Copy)]
pub struct SettingsEdit<'a> {
    /// The valves, as an object.
    pub valves: &'a Json,
    /// The switch that enables it; `None` follows the configuration.
    pub enabled: Option<bool>,
    /// The switch that makes it global; `None` follows the script.
    pub global: Option<bool>,
    /// The switch that puts it in audit mode; `None` follows the configuration and the script.
    pub audit: Option<bool>,
}

/// The period that a plugin's history covers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// The plugin.
    pub plugin: String,
    /// The time of its oldest stored version, in milliseconds since 1970.
    pub first_at: i64,
    /// The time of its newest version, in milliseconds since 1970.
    pub last_at: i64,
    /// The number of its newest version.
    pub last: u64,
    /// `true` if its file is removed in the newest version.
    pub is_gone: bool,
}
