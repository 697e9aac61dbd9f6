//! Keys that operators hand out. Commands change the store directly; running hosts follow.

use super::rejection::AdminError;
use crate::access::{Digest, GROUP, KeyRecord, KeyRights, KeyUse, check_key_name};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;
use valvehouse_store::seal::random_word;
use valvehouse_store::{Kv, Store, StoredKey};

/// The maximum number of keys that are valid, so that there is room for the sums of all of them.
const MAX_KEYS: usize = 1_000;

/// A key that operators handed out, without the key itself.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KeyEntry {
    /// The name.
    pub name: String,
    #[serde(flatten)]
    record: KeyRecord,
    /// The state of the key.
    pub state: KeyState,
    /// The time of its last use, up to a minute late.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub used_at: Option<Timestamp>,
    /// The use of the key in the current day and month.
    #[serde(rename = "use")]
    pub spent: KeyUse,
}

/// The state of a key, which is also that of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// It is accepted.
    Valid,
    /// It was revoked.
    Revoked,
    /// It has expired.
    Expired,
}

impl KeyState {
    fn of(record: &KeyRecord) -> Self {
        let is_over = record.rights.expires_at.is_some_and(|at| at <= Timestamp::now());
        match record.revoked_at {
            Some(_) => Self::Revoked,
            None if is_over => Self::Expired,
            None => Self::Valid,
        }
    }

    /// Returns the word for it: `valid`, `revoked` or `expired`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
        }
    }
}

/// A new key.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NewKey {
    /// The name.
    pub name: String,
    /// The key, which is not stored and shown only now; groups have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The generation of the store that contains it.
    #[serde(skip)]
    pub generation: u64,
}

impl KeyEntry {
    fn of(row: &StoredKey, rows: &[StoredKey], kv: &Kv) -> Option<Self> {
        let record = KeyRecord::read(&row.name, &row.rights)?;
        let is_group = |row: &&StoredKey| {
            row.name.strip_prefix(GROUP).is_some_and(|group| Some(group) == record.rights.group.as_deref())
        };
        let group = rows.iter().find(is_group).map(|row| KeyRecord::read(&row.name, &row.rights));
        let state = match (KeyState::of(&record), group) {
            (KeyState::Valid, Some(group)) => group.map_or(KeyState::Revoked, |group| KeyState::of(&group)),
            (own, _) => own,
        };
        let used_at = row.used_at.and_then(|at| Timestamp::from_millisecond(at).ok());
        Some(Self { name: row.name.clone(), record, state, used_at, spent: KeyUse::of(&row.name, kv) })
    }

    /// Returns what the key allows, and its history.
    pub fn record(&self) -> &KeyRecord {
        &self.record
    }

    /// Converts it to JSON.
    pub fn to_json(&self) -> Json {
        as_json(self)
    }
}

/// Lists the keys by name, revoked ones included.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn key_entries(store: &Store, kv: &Kv) -> Result<Vec<KeyEntry>, AdminError> {
    let rows = store.keys().await?;
    Ok(rows.iter().filter_map(|row| KeyEntry::of(row, &rows, kv)).collect())
}

/// Returns one key.
///
/// # Errors
/// Returns a refusal for an unknown name, and an error if the store cannot be read.
pub async fn key_entry(store: &Store, kv: &Kv, name: &str) -> Result<KeyEntry, AdminError> {
    let rows = store.keys().await?;
    KeyEntry::of(find(&rows, name)?, &rows, kv).ok_or_else(|| unreadable(name))
}

/// Creates a key, or a group of keys that share its limits (`@research`).
///
/// # Errors
/// Returns a refusal for invalid rights, a name in use, or too many keys, and an error if the store cannot be written.
pub async fn create_key(
    store: &Store,
    name: &str,
    rights: KeyRights,
    by: &str,
) -> Result<NewKey, AdminError> {
    check_key_name(name).map_err(|why| AdminError::invalid(why.to_string(), "name"))?;
    check(name, &rights)?;
    let rows = store.keys().await?;
    check_group(&rows, &rights)?;
    let valid = rows.iter().filter_map(|row| KeyRecord::read(&row.name, &row.rights));
    if valid.filter(|record| record.revoked_at.is_none()).count() >= MAX_KEYS {
        let message =
            format!("cannot create another key: there are {MAX_KEYS} valid ones; revoke some first");
        return Err(AdminError::conflict(message, "too_many_keys"));
    }
    let record =
        KeyRecord { rights, created_at: Timestamp::now(), created_by: by.to_owned(), revoked_at: None };
    let replaced = rows.iter().find(|row| row.name == name);
    let is_revoked =
        |row: &StoredKey| KeyRecord::read(name, &row.rights).is_none_or(|record| record.revoked_at.is_some());
    if replaced.is_some_and(|row| !is_revoked(row)) {
        return Err(taken(name));
    }
    let members = name.strip_prefix(GROUP).map_or_else(Vec::new, |group| members(&rows, group));
    if replaced.is_some() && !members.is_empty() {
        let message = format!(
            "cannot create `{name}` again: its keys {} would be valid again; revoke them, or give them another group, first",
            members.join(", ")
        );
        return Err(AdminError::conflict(message, "group_has_keys"));
    }
    put(store, name, &record, replaced.map(|row| &*row.digest)).await?.ok_or_else(|| taken(name))
}

/// Returns the keys of a group that are not revoked.
fn members<'a>(rows: &'a [StoredKey], group: &str) -> Vec<&'a str> {
    let is_member = |row: &&StoredKey| {
        let record = KeyRecord::read(&row.name, &row.rights);
        record.is_some_and(|record| {
            record.revoked_at.is_none() && record.rights.group.as_deref() == Some(group)
        })
    };
    rows.iter().filter(is_member).map(|row| &*row.name).collect()
}

/// Refuses a group that differs from an existing one only in the case of its letters.
fn check_group(rows: &[StoredKey], rights: &KeyRights) -> Result<(), AdminError> {
    let Some(group) = &rights.group else { return Ok(()) };
    let mut groups = rows.iter().filter_map(|row| row.name.strip_prefix(GROUP));
    if groups.clone().any(|known| known == group) {
        return Ok(());
    }
    match groups.find(|known| known.eq_ignore_ascii_case(group)) {
        Some(known) => {
            let message = format!("unknown group `{group}`: did you mean `{known}`?");
            Err(AdminError::invalid(message, "rights"))
        }
        None => Ok(()),
    }
}

fn check(name: &str, rights: &KeyRights) -> Result<(), AdminError> {
    rights.check(name.starts_with(GROUP)).map_err(|why| AdminError::invalid(why.to_string(), "rights"))?;
    match rights.expires_at.is_some_and(|at| at <= Timestamp::now()) {
        true => Err(AdminError::invalid("invalid expires_at: the time is past", "rights")),
        false => Ok(()),
    }
}

/// Replaces the rights of a key or of a group, which keeps what it has used. Returns the generation of the store that
/// contains them.
///
/// # Errors
/// Returns a refusal for invalid rights and an unknown or revoked key, and an error if the store cannot be written.
pub async fn change_key(store: &Store, name: &str, rights: KeyRights) -> Result<u64, AdminError> {
    let (row, record) = valid(store, name).await?;
    check(name, &rights)?;
    check_group(&store.keys().await?, &rights)?;
    if rights.role != record.rights.role {
        let message = "cannot change the role of a key: revoke it and create another".to_owned();
        return Err(AdminError::conflict(message, "key_role"));
    }
    let changed_row = StoredKey { rights: as_json(&KeyRecord { rights, ..record }), ..row.clone() };
    store.put_key(&changed_row, Some(&row.digest)).await?.ok_or_else(|| changed(name))
}

fn taken(name: &str) -> AdminError {
    let message = format!(
        "the key `{name}` exists: choose another name, or replace it with `valvehouse key rotate {name}`"
    );
    AdminError::conflict(message, "key_exists")
}

/// Replaces a key by a new one with the same rights; the old one is rejected from now on.
///
/// # Errors
/// Returns a refusal for an unknown or revoked key, and an error if the store cannot be written.
pub async fn rotate_key(store: &Store, name: &str) -> Result<NewKey, AdminError> {
    if name.starts_with(GROUP) {
        let message = format!("cannot rotate `{name}`: a group has no secret; rotate its keys");
        return Err(AdminError::conflict(message, "group_without_key"));
    }
    let (row, record) = valid(store, name).await?;
    put(store, name, &record, Some(&row.digest)).await?.ok_or_else(|| changed(name))
}

/// Revokes a key and returns the generation of the store that contains the change. A revoked key stays in the list.
///
/// # Errors
/// Returns a refusal for an unknown key, and an error if the store cannot be written.
pub async fn revoke_key(store: &Store, name: &str) -> Result<u64, AdminError> {
    let (row, record) = existing(store, name).await?;
    let now = Timestamp::now();
    // A key whose record cannot be read is rejected already.
    let Some(record) = record else { return Ok(store.generation().await?) };
    let record = KeyRecord { revoked_at: record.revoked_at.or(Some(now)), ..record };
    let revoked = StoredKey { rights: as_json(&record), ..row.clone() };
    store.put_key(&revoked, Some(&row.digest)).await?.ok_or_else(|| changed(name))
}

async fn put(
    store: &Store,
    name: &str,
    record: &KeyRecord,
    expected: Option<&str>,
) -> Result<Option<NewKey>, AdminError> {
    // A group has the digest of a key that nobody knows.
    let key = format!("vh-{}", random_word());
    let digest = Digest::of(&key).to_string();
    let key = (!name.starts_with(GROUP)).then_some(key);
    let row = StoredKey { name: name.to_owned(), digest, rights: as_json(record), used_at: None };
    let generation = store.put_key(&row, expected).await?;
    Ok(generation.map(|generation| NewKey { name: name.to_owned(), key, generation }))
}

/// Returns a key that is not revoked.
async fn valid(store: &Store, name: &str) -> Result<(StoredKey, KeyRecord), AdminError> {
    let (row, record) = existing(store, name).await?;
    let record = record.ok_or_else(|| unreadable(name))?;
    if record.revoked_at.is_some() {
        let message = format!("the key `{name}` is revoked: create it again");
        return Err(AdminError::conflict(message, "key_revoked"));
    }
    Ok((row, record))
}

async fn existing(store: &Store, name: &str) -> Result<(StoredKey, Option<KeyRecord>), AdminError> {
    let row = find(&store.keys().await?, name)?.clone();
    let record = KeyRecord::read(name, &row.rights);
    Ok((row, record))
}

fn find<'a>(rows: &'a [StoredKey], name: &str) -> Result<&'a StoredKey, AdminError> {
    rows.iter().find(|row| row.name == name).ok_or_else(|| {
        let hint = did_you_mean(name, rows.iter().map(|row| &*row.name));
        let message = format!("unknown key `{name}`{hint}; `valvehouse key list` lists them");
        AdminError::missing(message, "key_not_found")
    })
}

fn changed(name: &str) -> AdminError {
    let message =
        format!("another operator has changed the key `{name}` meanwhile; nothing was changed: try again");
    AdminError::conflict(message, "key_changed")
}

fn unreadable(name: &str) -> AdminError {
    let message =
        format!("the stored rights of the key `{name}` cannot be read: revoke it and create it again");
    AdminError::conflict(message, "key_unreadable")
}

fn as_json(value: &impl Serialize) -> Json {
    let text = serde_json::to_vec(value).expect("keys have only texts, numbers and lists");
    Json::parse(&text).expect("serde writes JSON")
}
