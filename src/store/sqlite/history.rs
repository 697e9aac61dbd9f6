//! The rows of histories, read and written.

use super::valves::{self, Change};
use super::{Sqlite, Transaction, begin, raise, sealing, switches};
use crate::json::Json;
use crate::seal::SealKey;
use crate::store::history::{
    Action, BY_FILE, Edit, FileEdit, History, MOST_VERSIONS, Seen, Source, Span, Version,
};
use crate::store::{Answer, now};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

impl History for Sqlite {
    fn history<'a>(&'a self, plugin: &'a str) -> Answer<'a, Vec<Version>> {
        self.work("read the history", async move {
            let query = sqlx::query("SELECT * FROM versions WHERE plugin = ? ORDER BY version DESC");
            let rows = query.bind(plugin).fetch_all(&self.swift).await?;
            rows.iter().map(|row| version(&self.key, plugin, row)).collect()
        })
    }

    fn source<'a>(&'a self, hash: &'a str) -> Answer<'a, Option<String>> {
        self.work("read a source of the history", async move {
            let query = sqlx::query_scalar("SELECT text FROM sources WHERE hash = ?");
            query.bind(hash).fetch_optional(&self.swift).await
        })
    }

    fn spans(&self) -> Answer<'_, Vec<Span>> {
        self.work("read the histories", async {
            let rows = sqlx::query(
                "SELECT plugin, min(at) AS first_at, max(at) AS last_at, max(version) AS last,
                 (SELECT source FROM versions WHERE plugin = one.plugin ORDER BY version DESC LIMIT 1) IS NULL
                 AS is_gone FROM versions AS one GROUP BY plugin ORDER BY plugin",
            )
            .fetch_all(&self.swift)
            .await?;
            let span = |row: &SqliteRow| {
                Ok(Span {
                    plugin: row.try_get("plugin")?,
                    first_at: row.try_get("first_at")?,
                    last_at: row.try_get("last_at")?,
                    last: row.try_get::<i64, _>("last")?.unsigned_abs(),
                    is_gone: row.try_get("is_gone")?,
                })
            };
            rows.iter().map(span).collect()
        })
    }

    fn record<'a>(&'a self, seen: &'a [Seen]) -> Answer<'a, ()> {
        self.work("write the history", async move {
            if seen.is_empty() {
                return Ok(());
            }
            // Whoever saved a file has it on disk; what is lost here is found again by the next look.
            let mut transaction = begin(&self.swift).await?;
            for Seen { plugin, source } in seen {
                let before = newest(&mut transaction, &self.key, plugin).await?;
                let settings = Settings::now(&mut transaction, &self.key, plugin).await?;
                let action = if source.is_some() { Action::File } else { Action::Delete };
                let new =
                    New { key: &self.key, plugin, by: BY_FILE, action, source: source.as_ref(), settings };
                new.write_after(before, i64::MAX, &mut transaction).await?;
            }
            transaction.commit().await
        })
    }

    fn edit<'a>(&'a self, edit: &'a Edit<'a>) -> Answer<'a, u64> {
        self.work("write the history", async move {
            let mut transaction = begin(&self.durable).await?;
            let Edit { plugin, by, action, .. } = *edit;
            if let Some(set) = edit.settings {
                valves::change(&mut transaction, &self.key, plugin, None, Change::Replace(set.valves))
                    .await?;
                switches::put(&mut transaction, plugin, set.enabled, set.global).await?;
            }
            let source = match edit.file {
                FileEdit::Becomes(source) => Some(source),
                FileEdit::Goes => {
                    super::forget_last_good(&mut transaction, plugin).await?;
                    None
                }
            };
            let before = newest(&mut transaction, &self.key, plugin).await?;
            let settings = Settings::now(&mut transaction, &self.key, plugin).await?;
            let new = New { key: &self.key, plugin, by, action, source, settings };
            new.write_after(before, edit.since, &mut transaction).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }
}

/// Writes down that operators changed valves, switches or grants, within the change. Of a plugin that no host
/// has seen yet nothing is known to write down.
pub(super) async fn note(
    transaction: &mut Transaction,
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
    // The text is there already, and is not written again.
    let source = Source { kind, place, hash, text: "".into() };
    let settings = Settings::now(transaction, key, plugin).await?;
    let new = New { key, plugin, by, action, source: Some(&source), settings };
    new.write_after(Some(before), i64::MAX, transaction).await
}

/// What operators have set for a plugin.
struct Settings {
    valves: Json,
    enabled: Option<bool>,
    global: Option<bool>,
}

impl Settings {
    async fn now(transaction: &mut Transaction, key: &SealKey, plugin: &str) -> Result<Self, sqlx::Error> {
        let valves = valves::of(transaction, key, plugin, None).await?;
        let (enabled, global) = switches::of(transaction, plugin).await?;
        Ok(Self { valves, enabled, global })
    }
}

/// A version that is about to be written.
struct New<'a> {
    key: &'a SealKey,
    plugin: &'a str,
    by: &'a str,
    action: Action,
    source: Option<&'a Source>,
    settings: Settings,
}

impl New<'_> {
    /// Writes it, unless nothing is new. What a host found since then and could not name is named.
    async fn write_after(
        self,
        before: Option<Version>,
        since: i64,
        transaction: &mut Transaction,
    ) -> Result<(), sqlx::Error> {
        let Self { key, plugin, by, action, source, settings } = self;
        let (kind, place) = match (source, &before) {
            (Some(source), _) => (source.kind.clone(), source.place.clone()),
            (None, Some(before)) => (before.kind.clone(), before.place.clone()),
            // What never was cannot go.
            (None, None) => return Ok(()),
        };
        let number = before.as_ref().map_or(1, |before| before.number + 1);
        let Settings { valves, enabled, global } = settings;
        let hash = source.map(|source| source.hash.clone());
        let new =
            Version { number, at: now(), by: by.into(), action, kind, place, hash, valves, enabled, global };
        let is_news = action == Action::Grant;
        if let Some(before) = before.filter(|before| !is_news && before.is_same_state(&new)) {
            if before.by == BY_FILE && before.at >= since {
                name(transaction, plugin, before.number, by, action).await?;
            }
            return Ok(());
        }
        if let Some(source) = source {
            sqlx::query("INSERT OR IGNORE INTO sources (hash, text) VALUES (?, ?)")
                .bind(&source.hash)
                .bind(&*source.text)
                .execute(&mut **transaction)
                .await?;
        }
        insert(transaction, key, plugin, &new).await?;
        prune(transaction, plugin, number).await
    }
}

async fn insert(
    transaction: &mut Transaction,
    key: &SealKey,
    plugin: &str,
    new: &Version,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO versions (plugin, version, at, author, action, kind, place, source, valves, enabled, global)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(plugin)
    .bind(signed(new.number))
    .bind(new.at)
    .bind(&new.by)
    .bind(new.action.word())
    .bind(&new.kind)
    .bind(&new.place)
    .bind(&new.hash)
    .bind(sealing::seal(key, &new.valves, &sealing::version_of(plugin, signed(new.number)))?)
    .bind(new.enabled)
    .bind(new.global)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

async fn name(
    transaction: &mut Transaction,
    plugin: &str,
    number: u64,
    by: &str,
    action: Action,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE versions SET author = ?, action = ? WHERE plugin = ? AND version = ?")
        .bind(by)
        .bind(action.word())
        .bind(plugin)
        .bind(signed(number))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Drops what is too old, and texts that nobody names any more.
async fn prune(transaction: &mut Transaction, plugin: &str, newest: u64) -> Result<(), sqlx::Error> {
    if newest <= MOST_VERSIONS {
        return Ok(());
    }
    let dropped: Vec<Option<String>> =
        sqlx::query_scalar("DELETE FROM versions WHERE plugin = ? AND version <= ? RETURNING source")
            .bind(plugin)
            .bind(signed(newest - MOST_VERSIONS))
            .fetch_all(&mut **transaction)
            .await?;
    for hash in dropped.into_iter().flatten() {
        sqlx::query(
            "DELETE FROM sources WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM versions WHERE source = ?1)",
        )
        .bind(hash)
        .execute(&mut **transaction)
        .await?;
    }
    Ok(())
}

async fn newest(
    connection: &mut SqliteConnection,
    key: &SealKey,
    plugin: &str,
) -> Result<Option<Version>, sqlx::Error> {
    let query = sqlx::query("SELECT * FROM versions WHERE plugin = ? ORDER BY version DESC LIMIT 1");
    let row = query.bind(plugin).fetch_optional(connection).await?;
    row.as_ref().map(|row| version(key, plugin, row)).transpose()
}

fn version(key: &SealKey, plugin: &str, row: &SqliteRow) -> Result<Version, sqlx::Error> {
    let action: String = row.try_get("action")?;
    let number: i64 = row.try_get("version")?;
    let valves = sealing::unseal(key, row.try_get("valves")?, &sealing::version_of(plugin, number));
    Ok(Version {
        number: number.unsigned_abs(),
        at: row.try_get("at")?,
        by: row.try_get("author")?,
        // A later version of us may know further ones: somebody did something.
        action: Action::of_word(&action).unwrap_or(Action::Update),
        kind: row.try_get("kind")?,
        place: row.try_get("place")?,
        hash: row.try_get("source")?,
        // What nobody can read any more must not hide the others; such a version cannot be put back.
        valves: valves.unwrap_or_default(),
        enabled: row.try_get("enabled")?,
        global: row.try_get("global")?,
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
