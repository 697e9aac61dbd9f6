//! History: every state a plugin was in, who made it so, and when.
//!
//! A version is a whole state: the text of the file, the operators' valves and switches. Texts are kept
//! once each, by their hash. What users set for themselves is theirs and is not part of it.

use crate::error::StoreFuture;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use valvehouse_core::text::hex;
use valvehouse_json::Json;

/// The number of stored versions of a plugin.
pub const MAX_VERSIONS: u64 = 200;

/// The author of changes to a file by hand, as far as anybody can tell.
pub const BY_FILE: &str = "file";

/// The kind of change to a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// An operator made its file.
    Create,
    /// An operator wrote another text into its file.
    Update,
    /// Its valves were set.
    Valves,
    /// It was switched.
    Toggle,
    /// Its file was removed, and perhaps its operators' settings.
    Delete,
    /// An earlier version was put back.
    Rollback,
    /// A grant was added or revoked, which is listed but not part of the state.
    Grant,
    /// Its file was found to be another one.
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

    /// In one word.
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

    /// Returns the value of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

/// One version of a plugin, without its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its number: the first is 1.
    pub number: u64,
    /// The time when it came to be, in milliseconds since 1970.
    pub at: i64,
    /// Its author.
    pub by: String,
    /// The kind of change.
    pub action: Action,
    /// `filter` or `tool`.
    pub kind: String,
    /// Its file, within the folder of its kind.
    pub place: String,
    /// The hash of its text, hex SHA-256; `None` if the file is missing.
    pub hash: Option<String>,
    /// The operators' values, an object.
    pub valves: Json,
    /// `true` if it ran at all; none where it was not set.
    pub enabled: Option<bool>,
    /// `true` if it ran for models that do not list it; none where it was not set.
    pub global: Option<bool>,
}

impl Version {
    /// Returns `true` if both are the same state, regardless of its author and of the file's path.
    pub fn is_same_state(&self, other: &Self) -> bool {
        (&self.kind, &self.hash, self.enabled, self.global)
            == (&other.kind, &other.hash, other.enabled, other.global)
            && self.valves == other.valves
    }
}

/// A plugin's file and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `filter` or `tool`.
    pub kind: String,
    /// Its file, within the folder of its kind.
    pub place: String,
    /// The hash of its text, hex SHA-256.
    pub hash: String,
    /// Its text.
    pub text: Arc<str>,
}

impl Source {
    /// A file of this text.
    pub fn new(kind: &str, place: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self { kind: kind.to_owned(), place: place.into(), hash: hash(&text), text }
    }
}

/// Returns the name of a text in a history.
pub fn hash(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// A plugin's file as it was found; `None` if it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFile {
    /// The plugin.
    pub plugin: String,
    /// Its file.
    pub source: Option<Source>,
    /// The time when the look that found it began, in milliseconds since 1970.
    pub at: i64,
}

/// The change of a file in an [`Edit`]; it was done before the edit is recorded.
#[derive(Debug, Clone, Copy)]
pub enum FileEdit<'a> {
    /// This is in it now.
    Becomes(&'a Source),
    /// It was taken away on purpose, which confirms the removal of a guard as well.
    Goes,
}

/// One change by an operator of a plugin's file, and of everything else that is part of its state.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// The plugin.
    pub plugin: &'a str,
    /// The author.
    pub by: &'a str,
    /// The kind of change.
    pub action: Action,
    /// The time when they began, in milliseconds since 1970: a host that saw the new file since then, without
    /// its author, is notified.
    pub since: i64,
    /// The file.
    pub file: FileEdit<'a>,
    /// Valves and switches in place of those that are set; none: they stay as they are.
    pub settings: Option<SettingsEdit<'a>>,
}

/// All values that operators set for a plugin.
#[derive(Debug, Clone, Copy)]
pub struct SettingsEdit<'a> {
    /// Their valves, an object.
    pub valves: &'a Json,
    /// `true` if it is enabled; `None` follows the configuration.
    pub enabled: Option<bool>,
    /// `true` if it runs for models that do not list it; `None` follows the script.
    pub global: Option<bool>,
}

/// From when to when a plugin's history goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The plugin.
    pub plugin: String,
    /// The time when its oldest stored version came to be, in milliseconds since 1970.
    pub first_at: i64,
    /// The time when its newest version came to be.
    pub last_at: i64,
    /// The number of its newest version.
    pub last: u64,
    /// `true` if its file was removed since then.
    pub is_gone: bool,
}

/// The past versions of plugins. Of each the last [`MAX_VERSIONS`] are stored.
pub trait History: Send + Sync {
    /// The versions of a plugin, the newest first.
    fn history<'a>(&'a self, plugin: &'a str) -> StoreFuture<'a, Vec<Version>>;

    /// The text of that hash.
    fn source<'a>(&'a self, hash: &'a str) -> StoreFuture<'a, Option<String>>;

    /// From when to when the histories of all plugins go.
    fn spans(&self) -> StoreFuture<'_, Vec<Span>>;

    /// Writes down what files were found to be, each where it is not what the newest version says; raises no
    /// generation. A version that came to be after somebody began to look may say more than they found: that
    /// is left out, and answered. Look at these plugins again.
    fn record<'a>(&'a self, seen: &'a [SeenFile]) -> StoreFuture<'a, Vec<String>>;

    /// Writes down what an operator did to a file, and sets what else belongs to it: one version, whole.
    /// Answers the generation it raised.
    fn edit<'a>(&'a self, edit: &'a Edit<'a>) -> StoreFuture<'a, u64>;
}
