//! The rows of a store, in our words.

use std::time::Duration;
use valvehouse_json::Json;

/// The valve values that are set for a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredValves {
    /// The plugin.
    pub plugin: String,
    /// The user whose own values these are; none for the operators' values for everybody.
    pub user: Option<String>,
    /// An object of the set values, unchecked: the script may have changed since.
    pub values: Json,
    /// Set if the row is not sealed, because it was written by hand.
    pub is_plain: bool,
}

/// The switches that operators set for a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switch {
    /// The plugin.
    pub plugin: String,
    /// `true` if it runs at all; none where it was not set.
    pub enabled: Option<bool>,
    /// `true` if it runs for models that do not list it; none where it was not set.
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
    /// Its imports, with their text.
    pub imports: Json,
    /// `true` if it is a guard, which must not drop out silently.
    pub security: bool,
    /// The time when it was seen to load, in milliseconds since 1970.
    pub saved_at: i64,
}

/// A change of a guard that operators may confirm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GuardChange {
    /// Its file may be gone.
    Gone,
    /// The settings may switch it off.
    Off,
    /// An operator's switch may take it from the models that do not list it.
    Narrow,
    /// This change may weaken it: a hash over the change.
    Change(String),
}

impl GuardChange {
    /// Returns the form in which it is stored.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gone => "gone",
            Self::Off => "off",
            Self::Narrow => "narrow",
            Self::Change(hash) => hash,
        }
    }
}

/// From how it is stored.
impl From<String> for GuardChange {
    fn from(stored: String) -> Self {
        match stored.as_str() {
            "gone" => Self::Gone,
            "off" => Self::Off,
            "narrow" => Self::Narrow,
            _ => Self::Change(stored),
        }
    }
}

/// The values stored for a plugin that was removed, when another one came under its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// The id.
    pub plugin: String,
    /// The number of the version by which the plugin was removed.
    pub number: u64,
    /// Their current state.
    pub fate: Fate,
    /// Set if rows are set aside.
    pub has_rows: bool,
}

impl Aside {
    /// Returns the owner under which the values are stored; it is not an id.
    pub fn key(plugin: &str, number: u64) -> String {
        format!("{plugin}@{number}")
    }
}

/// The state of values that were set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// They are set aside.
    Aside,
    /// They belong to the plugin that has the id now.
    Adopted,
    /// They were dropped.
    Dropped,
}

impl Fate {
    /// From the number under which it is stored.
    pub(super) fn of(stored: i64) -> Self {
        match stored {
            1 => Self::Adopted,
            2 => Self::Dropped,
            _ => Self::Aside,
        }
    }
}

/// One entry of a script's own map.
#[derive(Debug, Clone, PartialEq)]
pub struct KvRow {
    /// The script.
    pub plugin: String,
    /// The kind of map: the script's own, a user's, a chat's.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: Json,
    /// The time when it expires, in milliseconds since 1970; none: never.
    pub expires_at: Option<i64>,
}

/// One change of a script's own map.
#[derive(Debug, Clone, PartialEq)]
pub enum KvChange {
    /// Sets an entry.
    Set(KvRow),
    /// Adds its value to the number that is stored; the entry ends as the stored one does, if there is one.
    Add(KvRow),
    /// Adds the hits in its value to a window of this many milliseconds.
    Hits(KvRow, i64),
    /// Takes an entry out.
    Delete {
        /// The script.
        plugin: String,
        /// The kind of map.
        scope: String,
        /// The key.
        key: String,
    },
}

impl KvChange {
    /// Returns the script, the kind of map and the key of the entry.
    pub(crate) fn place(&self) -> [&str; 3] {
        let (Self::Set(KvRow { plugin, scope, key, .. })
        | Self::Add(KvRow { plugin, scope, key, .. })
        | Self::Hits(KvRow { plugin, scope, key, .. }, _)
        | Self::Delete { plugin, scope, key }) = self;
        [plugin, scope, key]
    }
}

/// The entries that hosts have written lately.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KvNews {
    /// The store's generation at that moment.
    pub generation: u64,
    /// The stored entries; the value of a deleted one is null.
    pub rows: Vec<KvRow>,
    /// The mark from which the next news are to be asked for.
    pub mark: u64,
    /// The number of hosts on the store.
    pub hosts: u64,
}

/// A host that was not heard of for this long counts as gone.
pub const HOST_SILENCE: Duration = Duration::from_secs(5);

/// A host that lives on this store.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSeen {
    /// Its own random name.
    pub host_id: String,
    /// Its process.
    pub pid: u32,
    /// The latest generation it serves.
    pub applied_generation: u64,
    /// Its report about its plugins, in the reader's format.
    pub tells: Json,
    /// The time when it was last heard of, in milliseconds since 1970.
    pub seen_at: i64,
}

/// The numbers of stored things of one user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserRecords {
    /// Memories, shared by scripts.
    pub memories: u64,
    /// Vectors of scripts for the user.
    pub vectors: u64,
    /// Conversations that the user began, verified.
    pub conversations: u64,
    /// Plugins for which the user set valves.
    pub valves: u64,
    /// Entries of scripts in `kv::user`.
    pub entries: u64,
    /// Stored responses, and conversations of the Responses API.
    pub responses: u64,
}

impl UserRecords {
    /// Returns the numbers with their names, in the order in which they are shown.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("memories", self.memories),
            ("vectors", self.vectors),
            ("conversations", self.conversations),
            ("valves", self.valves),
            ("entries", self.entries),
            ("responses", self.responses),
        ]
    }

    /// Returns the numbers as an object.
    pub fn to_json(&self) -> Json {
        Json::from(self.named().map(|(name, count)| (name, Json::from(count))))
    }
}

/// Returns the scope of a user's entries and vectors.
pub(crate) fn scope_of(user: &str) -> String {
    format!("user/{user}")
}
