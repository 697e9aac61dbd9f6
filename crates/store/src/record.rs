//! The types of the rows of a store.

use crate::clock::now;
use crate::rows::json::as_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::time::Duration;
use valvehouse_json::Json;

/// The stored valves of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredValves {
    /// The plugin.
    pub plugin: String,
    /// The user who set the values; `None` for the values of operators.
    pub user: Option<String>,
    /// The values as an object. They are not validated, because the script may have changed.
    #[serde(with = "as_text")]
    pub values: Json,
    /// `true` if the row is not sealed, because it was written by hand.
    #[serde(rename = "plain")]
    pub is_plain: bool,
}

/// The switches that operators set for a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// The plugin.
    pub plugin: String,
    /// The switch that enables it; `None` if it was not set.
    pub enabled: Option<bool>,
    /// The switch that makes it global; `None` if it was not set.
    pub global: Option<bool>,
    /// The switch that puts a filter in audit mode; `None` if it was not set.
    #[serde(default)]
    pub audit: Option<bool>,
}

/// A key that operators handed out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredKey {
    /// The name, by which operators select it.
    pub name: String,
    /// The digest of the key, `sha256:` and hexadecimal digits.
    pub digest: String,
    /// The rights of the key, not validated.
    #[serde(with = "as_text")]
    pub rights: Json,
    /// The time of its last use, in milliseconds since 1970; `None` if it was not used.
    #[serde(skip)]
    pub used_at: Option<i64>,
}

/// The last version of a script that loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastGood {
    /// The plugin.
    pub id: String,
    /// The path of its file.
    pub path: String,
    /// The hash of its content.
    pub hash: String,
    /// Its content.
    pub source: String,
    /// Its imports with their texts.
    #[serde(with = "as_text")]
    pub imports: Json,
    /// `true` if it is a guard.
    pub security: bool,
    /// The time at which it loaded, in milliseconds since 1970.
    pub saved_at: i64,
}

/// A change of a guard that operators may confirm, or a fact about a guard that hosts record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "String")]
pub enum GuardChange {
    /// Its file is removed.
    Gone,
    /// The settings disable it.
    Off,
    /// The settings or a switch put it in audit mode.
    Audit,
    /// A switch removes it from the models that do not list it.
    Narrow,
    /// One of the valves that it needs has a value. Hosts record this themselves, to tell the removal of the value
    /// from a guard that was never configured.
    Configured,
    /// A change weakens it; the text is a hash of the change.
    Change(String),
}

impl GuardChange {
    /// Returns `true` for a change of a guard's file, which is confirmed for one version of it.
    pub fn is_of_file(&self) -> bool {
        matches!(self, Self::Gone | Self::Change(_))
    }

    /// Returns the stored form.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gone => "gone",
            Self::Off => "off",
            Self::Audit => "audit",
            Self::Narrow => "narrow",
            Self::Configured => "configured",
            Self::Change(hash) => hash,
        }
    }
}

impl Serialize for GuardChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Reads the stored form.
impl From<String> for GuardChange {
    fn from(stored: String) -> Self {
        match stored.as_str() {
            "gone" => Self::Gone,
            "off" => Self::Off,
            "audit" => Self::Audit,
            "narrow" => Self::Narrow,
            "configured" => Self::Configured,
            _ => Self::Change(stored),
        }
    }
}

/// The stored data of a removed plugin, set aside when another plugin got its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aside {
    /// The id.
    pub plugin: String,
    /// The number of the version that removed the plugin.
    pub number: u64,
    /// Their current state.
    pub fate: Fate,
    /// `true` if there are rows.
    pub has_rows: bool,
}

impl Aside {
    /// Returns the owner under which the data is stored, which is not a valid id.
    pub fn key(plugin: &str, number: u64) -> String {
        format!("{plugin}@{number}")
    }
}

/// The state of data that was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "i64", into = "i64")]
pub enum Fate {
    /// The data is set aside.
    Aside,
    /// The data was assigned to the plugin that has the id now.
    Adopted,
    /// The data was deleted.
    Dropped,
}

impl From<Fate> for i64 {
    fn from(fate: Fate) -> Self {
        fate as Self
    }
}

/// Reads the stored number.
impl From<i64> for Fate {
    fn from(stored: i64) -> Self {
        match stored {
            1 => Self::Adopted,
            2 => Self::Dropped,
            _ => Self::Aside,
        }
    }
}

/// An entry of a script's kv map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KvRow {
    /// The id of the script.
    pub plugin: String,
    /// The scope of the map: for all users, for a user, or for a chat.
    pub scope: String,
    /// The key.
    pub key: String,
    /// The value.
    #[serde(with = "as_text")]
    pub value: Json,
    /// The time at which it expires, in milliseconds since 1970; `None` if it does not expire.
    pub expires_at: Option<i64>,
}

/// A change of a script's kv map.
#[derive(Debug, Clone, PartialEq)]
pub enum KvChange {
    /// Sets an entry.
    Set(KvRow),
    /// Adds a number to the stored one. The expiry of an existing entry is unchanged.
    Add(KvRow),
    /// Adds hits to a window; the second value is its length in milliseconds.
    Hits(KvRow, i64),
    /// Deletes an entry.
    Delete {
        /// The id of the script.
        plugin: String,
        /// The scope of the map.
        scope: String,
        /// The key.
        key: String,
    },
}

impl KvChange {
    /// Returns the script, the scope and the key of the entry.
    pub(crate) fn place(&self) -> [&str; 3] {
        let (Self::Set(KvRow { plugin, scope, key, .. })
        | Self::Add(KvRow { plugin, scope, key, .. })
        | Self::Hits(KvRow { plugin, scope, key, .. }, _)
        | Self::Delete { plugin, scope, key }) = self;
        [plugin, scope, key]
    }
}

/// The entries that hosts changed since a mark.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KvNews {
    /// The generation of the store at that time.
    pub generation: u64,
    /// The changed entries; the value of a deleted one is null.
    pub rows: Vec<KvRow>,
    /// The mark to pass to the next call.
    pub mark: u64,
    /// The number of hosts that share the store.
    pub hosts: u64,
}

/// The time without a heartbeat after which a host counts as gone.
pub const HOST_SILENCE: Duration = Duration::from_secs(5);

/// Returns the earliest heartbeat of a running host, in milliseconds since 1970.
pub(crate) fn alive() -> i64 {
    now() - HOST_SILENCE.as_millis() as i64
}

/// A host of this store.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSeen {
    /// Its random id.
    pub host_id: String,
    /// Its process id.
    pub pid: u32,
    /// The generation that it has applied.
    pub applied_generation: u64,
    /// The status that it reports, as JSON.
    pub tells: Json,
    /// The time of its last heartbeat, in milliseconds since 1970.
    pub seen_at: i64,
}

/// The numbers of stored records of a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Records")]
pub struct UserRecords {
    /// The number of memories, which scripts share.
    pub memories: u64,
    /// The number of vectors that scripts stored for the user.
    pub vectors: u64,
    /// The number of conversations that the verified user started, and of those without a verified user whose
    /// requests named this user.
    pub conversations: u64,
    /// The number of plugins for which the user set valves.
    pub valves: u64,
    /// The number of entries of scripts in `kv::user`, and in `kv::chat` of these conversations.
    pub entries: u64,
    /// The number of stored responses, and of conversations of the Responses API.
    pub responses: u64,
    /// The number of stored requests.
    pub requests: u64,
}

/// Returns the scope of a chat's kv entries. A verified user has entries of its own, because anyone can send its chat
/// ids.
pub fn scope_of_chat(chat: &str, verified_user: Option<&str>) -> String {
    match verified_user {
        None => format!("chat/{chat}"),
        Some(user) => format!("{}{}]", scopes_of_chats(user), Json::from(chat)),
    }
}

/// Returns the beginning of the scopes of a verified user's chats.
pub(crate) fn scopes_of_chats(user: &str) -> String {
    format!("own-chat/[{},", Json::from(user))
}

/// Returns the scope of a user's kv entries and vectors.
pub(crate) fn scope_of(user: &str) -> String {
    format!("user/{user}")
}
