//! The rows of a store, in our words.

use crate::json::Json;

/// What somebody set for a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredValves {
    /// The plugin.
    pub plugin: String,
    /// Whose own values these are; none for the operators' values for everybody.
    pub user: Option<String>,
    /// An object of what was set, unchecked: the script may have changed since.
    pub values: Json,
}

/// What operators switched about a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switch {
    /// The plugin.
    pub plugin: String,
    /// Whether it runs at all; none when nobody said.
    pub enabled: Option<bool>,
    /// Whether it runs for models that do not list it; none when nobody said.
    pub global: Option<bool>,
}

/// The last version of a script that loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct LastGood {
    /// The plugin.
    pub id: String,
    /// Its file.
    pub path: String,
    /// The hash of its content.
    pub hash: String,
    /// Its content.
    pub source: String,
    /// What it imports, with the text of it.
    pub imports: Json,
    /// Whether it is a guard, which must not drop out silently.
    pub security: bool,
    /// When it was seen to load, in milliseconds since 1970.
    pub saved_at: i64,
}

/// A change of a guard that operators may confirm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Confirmed {
    /// Its file may be gone.
    Gone,
    /// The settings may switch it off.
    Off,
    /// This change may weaken it: a hash over the change.
    Change(String),
}

impl Confirmed {
    /// Returns the form in which it is stored.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gone => "gone",
            Self::Off => "off",
            Self::Change(hash) => hash,
        }
    }
}

/// From how it is stored.
impl From<String> for Confirmed {
    fn from(stored: String) -> Self {
        match stored.as_str() {
            "gone" => Self::Gone,
            "off" => Self::Off,
            _ => Self::Change(stored),
        }
    }
}

/// One entry of a script's own map.
#[derive(Debug, Clone, PartialEq)]
pub struct KvRow {
    /// The script.
    pub plugin: String,
    /// Which of its maps: the script's own, a user's, a chat's.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: Json,
    /// When it ends, in milliseconds since 1970; none: never.
    pub expires_at: Option<i64>,
}

/// One change of a script's own map.
#[derive(Debug, Clone, PartialEq)]
pub enum KvChange {
    /// Sets an entry.
    Set(KvRow),
    /// Takes an entry out.
    Delete {
        /// The script.
        plugin: String,
        /// Which of its maps.
        scope: String,
        /// The key.
        key: String,
    },
}

/// A host that lives on this store.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSeen {
    /// Its own random name.
    pub host_id: String,
    /// Its process.
    pub pid: u32,
    /// The latest generation it serves.
    pub applied_generation: u64,
    /// What it tells of its plugins; whoever reads it knows the shape.
    pub tells: Json,
    /// When it was last heard of, in milliseconds since 1970.
    pub seen_at: i64,
}
