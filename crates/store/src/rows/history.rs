//! The rows of histories.

use super::json::AT_ONCE;
use super::valves::{self, Change};
use super::{guards, sealed_value, switches};
use crate::clock::now;
use crate::history::{Action, BY_FILE, Edit, FileEdit, MAX_VERSIONS, SeenFile, Source, Span, Version};
use crate::record::GuardChange;
use crate::seal::SealKey;
use crate::sql::{self, Row, Session, query, query_scalar};
use std::collections::HashMap;
use valvehouse_json::Json;

/// Reads the versions of a plugin, newest first.
pub(crate) async fn of(
    session: &mut Session,
    key: &SealKey,
    plugin: &str,
) -> Result<Vec<Version>, sqlx::Error> {
    let query = query("SELECT * FROM versions WHERE plugin = ? ORDER BY version DESC");
    let rows = query.bind(plugin).fetch_all(session).await?;
    rows.iter().map(|row| version(key, plugin, row)).collect()
}

/// Reads the text with this hash.
pub(crate) async fn source(session: &mut Session, hash: &str) -> Result<Option<String>, sqlx::Error> {
    query_scalar("SELECT text FROM sources WHERE hash = ?").bind(hash).fetch_optional(session).await
}

/// Reads the periods that the histories of all plugins cover.
pub(crate) async fn spans(session: &mut Session) -> Result<Vec<Span>, sqlx::Error> {
    let rows = query(
        "SELECT plugin, min(at) AS first_at, max(at) AS last_at, max(version) AS last,
         (SELECT source FROM versions WHERE plugin = one.plugin ORDER BY version DESC LIMIT 1) IS NULL
         AS is_gone FROM versions AS one GROUP BY plugin ORDER BY plugin",
    )
    .fetch_all(session)
    .await?;
    let span = |row: &Row| {
        Ok(Span {
            plugin: row.try_get("plugin")?,
            first_at: row.try_get("first_at")?,
            last_at: row.try_get("last_at")?,
            last: row.try_get::<i64>("last")?.unsigned_abs(),
            is_gone: row.try_get("is_gone")?,
        })
    };
    rows.iter().map(span).collect()
}

/// Records files that a host found. Returns the plugins that have newer versions than the scan.
pub(crate) async fn record(
    transaction: &mut Session,
    key: &SealKey,
    seen: &[SeenFile],
) -> Result<Vec<String>, sqlx::Error> {
    let mut late = Vec::new();
    let mut known = Facts::of(seen, transaction, key).await?;
    let mut versions = Vec::new();
    // A version with a time in the future is due to a wrong clock, and is ignored here.
    let now = now();
    for SeenFile { plugin, source, at } in seen {
        let before = known.newest.get(plugin).cloned();
        let is_late = before.as_ref().is_some_and(|before| (*at..=now).contains(&before.at));
        let settings = known.settings.get(plugin).cloned().unwrap_or_default();
        let action = if source.is_some() { Action::File } else { Action::Delete };
        let new = New { key, plugin, by: BY_FILE, action, source: source.as_ref(), settings };
        match new.after(before, i64::MAX) {
            Some(Next::Version(_)) if is_late => late.push(plugin.clone()),
            Some(Next::Version(version)) => {
                known.newest.insert(plugin.clone(), version.clone());
                versions.push((plugin.as_str(), source.as_ref(), version));
            }
            // Changes of operators have an author.
            Some(Next::Named(_)) | None => {}
        }
    }
    write(transaction, key, &versions).await?;
    Ok(late)
}

/// Records an operator's change of a file and of the plugin's settings.
pub(crate) async fn edit(
    transaction: &mut Session,
    key: &SealKey,
    edit: &Edit<'_>,
) -> Result<(), sqlx::Error> {
    let Edit { plugin, by, action, .. } = *edit;
    if let Some(set) = edit.settings {
        valves::change(transaction, key, plugin, None, Change::Replace(set.valves)).await?;
        switches::put(transaction, plugin, set.enabled, set.global).await?;
        guards::confirm_switch(transaction, plugin, set.enabled, set.global, by).await?;
    }
    let source = match edit.file {
        FileEdit::Becomes(source) => Some(source),
        FileEdit::Goes => {
            guards::forget_last_good(transaction, plugin).await?;
            guards::confirm(transaction, plugin, &GuardChange::Gone, by).await?;
            None
        }
    };
    let before = newest(transaction, key, plugin).await?;
    let settings = Settings::now(transaction, key, plugin).await?;
    let new = New { key, plugin, by, action, source, settings };
    new.write_after(before, edit.since, transaction).await
}

/// Records an operator's change of valves, switches or grants in the same transaction. Nothing is recorded
/// for a plugin without a history.
pub(crate) async fn note(
    transaction: &mut Session,
    key: &SealKey,
    plugin: &str,
    by: &str,
    action: Action,
) -> Result<(), sqlx::Error> {
    let Some(before) = newest(transaction, key, plugin).await? else { return Ok(()) };
    let Some(hash) = before.hash.clone().filter(|_| action != Action::Delete) else {
        if before.hash.is_some() {
            let settings = Settings::now(transaction, key, plugin).await?;
            let new = New { key, plugin, by, action, source: None, settings };
            new.write_after(Some(before), i64::MAX, transaction).await?;
        }
        return Ok(());
    };
    let (kind, place) = (before.kind.clone(), before.place.clone());
    // The text is stored already, and is not written again.
    let source = Source { kind, place, hash, text: "".into() };
    let settings = Settings::now(transaction, key, plugin).await?;
    let new = New { key, plugin, by, action, source: Some(&source), settings };
    new.write_after(Some(before), i64::MAX, transaction).await
}

/// The settings that operators made for a plugin.
#[derive(Clone)]
struct Settings {
    valves: Json,
    enabled: Option<bool>,
    global: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { valves: Json::object(), enabled: None, global: None }
    }
}

impl Settings {
    async fn now(transaction: &mut Session, key: &SealKey, plugin: &str) -> Result<Self, sqlx::Error> {
        let valves = valves::of(transaction, key, plugin, None).await?;
        let (enabled, global) = switches::of(transaction, plugin).await?;
        Ok(Self { valves, enabled, global })
    }
}

/// A version to write.
struct New<'a> {
    key: &'a SealKey,
    plugin: &'a str,
    by: &'a str,
    action: Action,
    source: Option<&'a Source>,
    settings: Settings,
}

/// The change that follows a version.
enum Next {
    /// A new version.
    Version(Version),
    /// No new version, but the version with this number gets an author.
    Named(u64),
}

impl New<'_> {
    /// Writes the version if it differs. A version without an author that was recorded after `since` gets
    /// this author.
    async fn write_after(
        self,
        before: Option<Version>,
        since: i64,
        transaction: &mut Session,
    ) -> Result<(), sqlx::Error> {
        let Self { key, plugin, by, action, source, .. } = self;
        match self.after(before, since) {
            Some(Next::Version(version)) => write(transaction, key, &[(plugin, source, version)]).await,
            Some(Next::Named(number)) => name(transaction, plugin, number, by, action).await,
            None => Ok(()),
        }
    }

    /// Returns the change that follows a version; `None` if nothing changed.
    fn after(self, before: Option<Version>, since: i64) -> Option<Next> {
        let Self { by, action, source, settings, .. } = self;
        let (kind, place) = match (source, &before) {
            (Some(source), _) => (source.kind.clone(), source.place.clone()),
            (None, Some(before)) => (before.kind.clone(), before.place.clone()),
            // A plugin without a history cannot be removed.
            (None, None) => return None,
        };
        let number = before.as_ref().map_or(1, |before| before.number + 1);
        let Settings { valves, enabled, global } = settings;
        let hash = source.map(|source| source.hash.clone());
        let new =
            Version { number, at: now(), by: by.into(), action, kind, place, hash, valves, enabled, global };
        let is_news = action == Action::Grant;
        match before.filter(|before| !is_news && before.is_same_state(&new)) {
            Some(before) if before.by == BY_FILE && before.at >= since => Some(Next::Named(before.number)),
            Some(_) => None,
            None => Some(Next::Version(new)),
        }
    }
}

/// The latest versions and settings of plugins; those of many plugins are read at once.
struct Facts {
    newest: HashMap<String, Version>,
    settings: HashMap<String, Settings>,
}

impl Facts {
    async fn of(seen: &[SeenFile], transaction: &mut Session, key: &SealKey) -> Result<Self, sqlx::Error> {
        let mut known = Self { newest: HashMap::new(), settings: HashMap::new() };
        if seen.len() > AT_ONCE {
            known.read_all(transaction, key).await?;
            return Ok(known);
        }
        for SeenFile { plugin, .. } in seen {
            let newest = newest(transaction, key, plugin).await?;
            known.newest.extend(newest.map(|newest| (plugin.clone(), newest)));
            known.settings.insert(plugin.clone(), Settings::now(transaction, key, plugin).await?);
        }
        Ok(known)
    }

    async fn read_all(&mut self, transaction: &mut Session, key: &SealKey) -> Result<(), sqlx::Error> {
        let rows = query(
            "SELECT versions.* FROM (SELECT plugin, max(version) AS version FROM versions GROUP BY plugin)
             AS newest JOIN versions USING (plugin, version)",
        );
        for row in rows.fetch_all(transaction).await? {
            let plugin: String = row.try_get("plugin")?;
            let newest = version(key, &plugin, &row)?;
            self.newest.insert(plugin, newest);
        }
        for (plugin, valves) in valves::of_operators(transaction, key).await? {
            self.settings.entry(plugin).or_default().valves = valves;
        }
        for switch in switches::all(transaction).await? {
            let settings = self.settings.entry(switch.plugin).or_default();
            (settings.enabled, settings.global) = (switch.enabled, switch.global);
        }
        Ok(())
    }
}

/// Writes new versions and their texts, and deletes old versions.
async fn write(
    transaction: &mut Session,
    key: &SealKey,
    new: &[(&str, Option<&Source>, Version)],
) -> Result<(), sqlx::Error> {
    for new in new.chunks(AT_ONCE) {
        let sources: Vec<&Source> = new.iter().filter_map(|(_, source, _)| *source).collect();
        if !sources.is_empty() {
            let rows = sources.into_iter().map(|source| [(&source.hash).into(), (&*source.text).into()]);
            let new = sql::insert("INSERT INTO sources (hash, text)", rows, "ON CONFLICT DO NOTHING");
            new.execute(transaction).await?;
        }
        insert(transaction, key, new).await?;
        for (plugin, _, version) in new {
            prune(transaction, plugin, version.number).await?;
        }
    }
    Ok(())
}

async fn insert(
    transaction: &mut Session,
    key: &SealKey,
    new: &[(&str, Option<&Source>, Version)],
) -> Result<(), sqlx::Error> {
    let sealed = |(plugin, _, new): &(&str, _, Version)| {
        sealed_value::seal(key, &new.valves, &sealed_value::version_of(plugin, signed(new.number)))
    };
    let sealed = new.iter().map(sealed).collect::<Result<Vec<_>, _>>()?;
    let rows = new.iter().zip(sealed).map(|((plugin, _, new), sealed)| {
        [
            (*plugin).into(),
            signed(new.number).into(),
            new.at.into(),
            (&new.by).into(),
            new.action.as_str().into(),
            (&new.kind).into(),
            (&new.place).into(),
            (&new.hash).into(),
            sealed.into(),
            new.enabled.into(),
            new.global.into(),
        ]
    });
    let head = "INSERT INTO versions
         (plugin, version, at, author, action, kind, place, source, valves, enabled, global)";
    sql::insert(head, rows, "").execute(transaction).await?;
    Ok(())
}

async fn name(
    transaction: &mut Session,
    plugin: &str,
    number: u64,
    by: &str,
    action: Action,
) -> Result<(), sqlx::Error> {
    query("UPDATE versions SET author = ?, action = ? WHERE plugin = ? AND version = ?")
        .bind(by)
        .bind(action.as_str())
        .bind(plugin)
        .bind(signed(number))
        .execute(transaction)
        .await?;
    Ok(())
}

/// Deletes old versions, and texts without references.
async fn prune(transaction: &mut Session, plugin: &str, newest: u64) -> Result<(), sqlx::Error> {
    if newest <= MAX_VERSIONS {
        return Ok(());
    }
    let dropped: Vec<Option<String>> =
        query_scalar("DELETE FROM versions WHERE plugin = ? AND version <= ? RETURNING source")
            .bind(plugin)
            .bind(signed(newest - MAX_VERSIONS))
            .fetch_all(transaction)
            .await?;
    for hash in dropped.into_iter().flatten() {
        query(
            "DELETE FROM sources WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM versions WHERE source = ?1)",
        )
        .bind(hash)
        .execute(transaction)
        .await?;
    }
    Ok(())
}

async fn newest(
    connection: &mut Session,
    key: &SealKey,
    plugin: &str,
) -> Result<Option<Version>, sqlx::Error> {
    let query = query("SELECT * FROM versions WHERE plugin = ? ORDER BY version DESC LIMIT 1");
    let row = query.bind(plugin).fetch_optional(connection).await?;
    row.as_ref().map(|row| version(key, plugin, row)).transpose()
}

fn version(key: &SealKey, plugin: &str, row: &Row) -> Result<Version, sqlx::Error> {
    let action: String = row.try_get("action")?;
    let number: i64 = row.try_get("version")?;
    let valves = sealed_value::unseal(key, row.try_get("valves")?, &sealed_value::version_of(plugin, number));
    Ok(Version {
        number: number.unsigned_abs(),
        at: row.try_get("at")?,
        by: row.try_get("author")?,
        // A newer host may have written a kind that is unknown here.
        action: Action::of_word(&action).unwrap_or(Action::Update),
        kind: row.try_get("kind")?,
        place: row.try_get("place")?,
        hash: row.try_get("source")?,
        // Unreadable values must not hide the other versions; such a version cannot be restored.
        valves: valves.ok().into(),
        enabled: row.try_get("enabled")?,
        global: row.try_get("global")?,
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
