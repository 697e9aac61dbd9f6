//! The history of plugins: the changes of each version, and the differences between versions.

use super::rejection::AdminError;
use super::valves::shown;
use crate::snapshot::Snapshot;
use crate::spelled_json::SpelledJson;
use schemars::JsonSchema;
use serde::Serialize;
use similar::TextDiff;
use std::time::Duration;
use valvehouse_core::valve::ValveSchema;
use valvehouse_json::Json;
use valvehouse_script::declared_valves;
use valvehouse_store::{Store, Version};

/// The time limit for computing the shortest diff.
const TIMEOUT: Duration = Duration::from_millis(200);
/// The number of lines shown around a change.
const CONTEXT: usize = 3;

/// A version of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Version")]
pub struct Entry {
    /// The number of the version, counted from 1.
    pub version: u64,
    /// The time in seconds since 1970.
    pub at: i64,
    /// The author of the change.
    pub by: String,
    /// The kind of change.
    pub action: &'static str,
    /// The hash of the previous text; null if there was none.
    pub before: Option<String>,
    /// The hash of the new text; null if there is none.
    pub after: Option<String>,
    /// The switch that enables the plugin; null if it was not set.
    pub enabled: Option<bool>,
    /// The switch that makes the plugin global; null if it was not set.
    pub global: Option<bool>,
    /// The switch that puts the plugin in audit mode; null if it was not set.
    pub audit: Option<bool>,
    /// The names of the changed valves.
    pub valves_changed: Vec<String>,
}

/// The other side of a comparison with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The version before it.
    Before,
    /// The current text of the file and the current effective values.
    Current,
}

/// A version of a plugin with its text and valves.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "VersionDetail")]
pub struct Detail {
    /// The version.
    #[serde(flatten)]
    pub entry: Entry,
    /// The text; null if the file was deleted.
    pub content: Option<String>,
    /// The stored values, with secrets masked.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub valves: SpelledJson,
    /// The difference of the texts, in the unified format.
    pub diff: String,
    /// The changed valves, masked.
    pub valves_diff: Vec<ValveChange>,
}

/// The stored values of a valve before and after a change; null if there is none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ValveChange {
    /// The name of the valve.
    pub key: String,
    /// The value before the change.
    pub before: SpelledJson,
    /// The value after the change.
    pub after: SpelledJson,
}

/// Returns the history of a plugin, newest version first. The plugin may have been deleted or may never have
/// loaded.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn entries(store: &Store, snapshot: &Snapshot, id: &str) -> Result<Vec<Entry>, AdminError> {
    let versions = store.history(id).await?;
    if versions.is_empty() && !snapshot.plugins.contains_key(id) {
        let message =
            format!("`{}` has no history: no plugin of that id has ever loaded here", id.escape_debug());
        return Err(AdminError::missing(message, "plugin_not_found"));
    }
    let before = versions.iter().skip(1).map(Some).chain([None]);
    Ok(versions.iter().zip(before).map(|(version, before)| Entry::new(version, before)).collect())
}

/// Returns a version with its text and its differences from another version.
///
/// # Errors
/// Returns a refusal for an unknown version, and if the store cannot be read.
pub async fn detail(
    store: &Store,
    snapshot: &Snapshot,
    id: &str,
    number: u64,
    against: Against,
) -> Result<Detail, AdminError> {
    let versions = store.history(id).await?;
    let version = find(id, &versions, number)?;
    let before = versions.iter().find(|older| older.number < number);
    let content = text_of(store, version.hash.as_deref()).await?;
    let script = snapshot.plugins.get(id).and_then(|plugin| plugin.script.as_ref());
    let today = script.map(|script| &script.manifest.valves);
    let own = State::new(content.clone(), version.valves.clone());
    let (from, name) = match against {
        Against::Before => {
            let text = text_of(store, before.and_then(|before| before.hash.as_deref())).await?;
            let valves = before.map_or_else(Json::object, |before| before.valves.clone());
            let name = before.map_or_else(|| "nothing".to_owned(), |before| called(before.number));
            (State::new(text, valves), name)
        }
        Against::Current => {
            let path = snapshot.plugins.get(id).map(|plugin| plugin.path.clone());
            let text = path.map(|path| valvehouse_script::beginning(&path)).filter(|text| !text.is_empty());
            (State::new(text, store.valves(id, None).await?), "now".to_owned())
        }
    };
    Ok(Detail {
        entry: Entry::new(version, before),
        content,
        valves: own.shown(today).into(),
        diff: diff(from.text(), own.text(), [&name, &called(number)]),
        valves_diff: differing(&from, &own, today),
    })
}

/// Returns the version with this number.
pub(super) fn find<'a>(id: &str, versions: &'a [Version], number: u64) -> Result<&'a Version, AdminError> {
    versions.iter().find(|version| version.number == number).ok_or_else(|| {
        let kept = match (versions.last(), versions.first()) {
            (Some(oldest), Some(newest)) => {
                format!("; stored versions: {} to {}", oldest.number, newest.number)
            }
            _ => String::new(),
        };
        let message = format!("unknown version {number} of `{}`{kept}", id.escape_debug());
        AdminError::missing(message, "version_not_found")
    })
}

async fn text_of(store: &Store, hash: Option<&str>) -> Result<Option<String>, AdminError> {
    match hash {
        Some(hash) => Ok(store.source(hash).await?),
        None => Ok(None),
    }
}

fn called(number: u64) -> String {
    format!("version {number}")
}

impl Entry {
    fn new(version: &Version, before: Option<&Version>) -> Self {
        let nothing = Json::object();
        let old = before.map_or(&nothing, |before| &before.valves);
        Self {
            version: version.number,
            at: version.at / 1000,
            by: version.by.clone(),
            action: version.action.as_str(),
            before: before.and_then(|before| before.hash.clone()),
            after: version.hash.clone(),
            enabled: version.enabled,
            global: version.global,
            audit: version.audit,
            valves_changed: changed_keys(old, &version.valves),
        }
    }
}

/// A text and its settings in one version.
struct State {
    content: Option<String>,
    valves: Json,
    /// The valves that the text declares, which tell secrets from other values; `None` if the text cannot be
    /// read.
    schema: Option<ValveSchema>,
}

impl State {
    fn new(content: Option<String>, valves: Json) -> Self {
        let schema = content.as_deref().and_then(declared_valves);
        Self { content, valves, schema }
    }

    fn text(&self) -> &str {
        self.content.as_deref().unwrap_or("")
    }

    /// Returns the values with secrets masked, including those that only today's schema marks as secret.
    fn shown(&self, today: Option<&ValveSchema>) -> Json {
        let then = shown(self.schema.as_ref(), &self.valves);
        today.map_or_else(|| then.clone(), |today| today.mask(&then))
    }
}

/// Returns the values that differ. Of a secret, only the fact that it differs is shown.
fn differing(from: &State, to: &State, today: Option<&ValveSchema>) -> Vec<ValveChange> {
    let (before, after) = (from.shown(today), to.shown(today));
    let both = |key: String| {
        let (before, after) = (before.field(&key).into(), after.field(&key).into());
        ValveChange { key, before, after }
    };
    changed_keys(&from.valves, &to.valves).into_iter().map(both).collect()
}

fn changed_keys(before: &Json, after: &Json) -> Vec<String> {
    let keys = |values: &Json| values.keys();
    let gone = keys(before).into_iter().filter(|key| after.get(key).is_none());
    let set = keys(after).into_iter().filter(|key| before.get(key) != after.get(key));
    gone.chain(set).filter(|key| !valvehouse_core::valve::is_mark(key)).map(String::from).collect()
}

/// Returns the unified diff of two texts, as `diff -u` writes it.
pub fn diff(before: &str, after: &str, names: [&str; 2]) -> String {
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(before, after);
    diff.unified_diff().context_radius(CONTEXT).header(names[0], names[1]).to_string()
}
