//! The histories of plugins.

use super::database::Store;
use super::guards;
use super::switches::{self, Switches};
use super::valves::Change;
use crate::clock::now;
use crate::error::StoreResult;
use crate::history::{Action, BY_FILE, Edit, FileEdit, MAX_VERSIONS, SeenFile, Source, Span, Version};
use crate::record::GuardChange;
use crate::rows::generation::commit_raised;
use crate::rows::json::AT_ONCE;
use crate::rows::sealed_value;
use crate::sql::{self, Lock, Row, Session, columns, query, values};
use std::collections::HashMap;
use valvehouse_json::Json;

/// The history of plugins. The last [`MAX_VERSIONS`] versions of each plugin are stored.
impl Store {
    /// Returns the versions of a plugin, newest first.
    pub async fn history(&self, plugin: &str) -> StoreResult<Vec<Version>> {
        let query = query("SELECT * FROM versions WHERE plugin = ? ORDER BY version DESC").bind(plugin);
        self.fetch("read the history", query, |row| self.version(plugin, row)).await
    }

    /// Returns the text with this hash.
    pub async fn source(&self, hash: &str) -> StoreResult<Option<String>> {
        let query = query("SELECT text FROM sources WHERE hash = ?").bind(hash);
        Ok(self.fetch("read a source of the history", query, |row| row.first()).await?.pop())
    }

    /// Returns the periods that the histories of all plugins cover.
    pub async fn spans(&self) -> StoreResult<Vec<Span>> {
        self.read("read the histories", |snapshot| snapshot.spans.clone(), async {
            spans(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Records the files that a scan found if they differ from the newest versions; the generation is
    /// unchanged. A file is left out if a newer version was recorded after the scan started, which may know
    /// more. Returns the plugins of those files, which have to be scanned again.
    pub async fn record(&self, seen: &[SeenFile]) -> StoreResult<Vec<String>> {
        self.work("write the history", async {
            if seen.is_empty() {
                return Ok(Vec::new());
            }
            // The file is on disk already; the next scan finds a change that is lost here.
            let mut transaction = self.swift.begin(Lock::Settings).await?;
            let (mut newest, settings) = self.facts(seen, &mut transaction).await?;
            let (mut late, mut versions) = (Vec::new(), Vec::new());
            // A version with a time in the future is due to a wrong clock, and is ignored here.
            let now = now();
            for SeenFile { plugin, source, at } in seen {
                let before = newest.get(plugin).cloned();
                let is_late = before.as_ref().is_some_and(|before| (*at..=now).contains(&before.at));
                let settings = settings.get(plugin).cloned().unwrap_or_default();
                let action = if source.is_some() { Action::File } else { Action::Delete };
                let new = New { plugin, by: BY_FILE, action, source: source.as_ref(), settings };
                match new.after(before, i64::MAX) {
                    Some(Next::Version(_)) if is_late => late.push(plugin.clone()),
                    Some(Next::Version(version)) => {
                        newest.insert(plugin.clone(), version.clone());
                        versions.push((plugin.as_str(), source.as_ref(), version));
                    }
                    // Changes of operators have an author.
                    Some(Next::Named(_)) | None => {}
                }
            }
            self.write_versions(&mut transaction, &versions).await?;
            self.commit_quietly(transaction, late).await
        })
        .await
    }

    /// Records an operator's change of a file as one version, together with the settings that belong to it.
    /// Returns the new generation.
    pub async fn edit(&self, edit: &Edit<'_>) -> StoreResult<u64> {
        let Edit { plugin, by, action, .. } = *edit;
        self.work("write the history", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            if let Some(set) = edit.settings {
                self.write_valves(&mut transaction, plugin, None, Change::Replace(set.valves)).await?;
                let switches = (set.enabled, set.global, set.audit);
                switches::put(&mut transaction, plugin, switches).await?;
                guards::confirm_switch(&mut transaction, plugin, switches, by).await?;
            }
            let source = match edit.file {
                FileEdit::Becomes(source) => Some(source),
                FileEdit::Goes => {
                    guards::forget_last_good(&mut transaction, plugin).await?;
                    guards::confirm(&mut transaction, plugin, &GuardChange::Gone, by).await?;
                    None
                }
            };
            let before = self.newest(&mut transaction, plugin).await?;
            let settings = self.settings_of(&mut transaction, plugin).await?;
            let new = New { plugin, by, action, source, settings };
            self.write_after(&mut transaction, new, before, edit.since).await?;
            commit_raised(transaction).await
        })
        .await
    }

    /// Records an operator's change of valves, switches or grants in the same transaction. Nothing is recorded
    /// for a plugin without a history, or without a file.
    pub(super) async fn note(
        &self,
        transaction: &mut Session,
        plugin: &str,
        by: &str,
        action: Action,
    ) -> sqlx::Result<()> {
        let Some(before) = self.newest(transaction, plugin).await? else { return Ok(()) };
        let Some(hash) = before.hash.clone() else { return Ok(()) };
        let (kind, place) = (before.kind.clone(), before.place.clone());
        // The text is stored already, and is not written again.
        let source = Source { kind, place, hash, text: "".into() };
        let source = Some(&source).filter(|_| action != Action::Delete);
        let settings = self.settings_of(transaction, plugin).await?;
        let new = New { plugin, by, action, source, settings };
        self.write_after(transaction, new, Some(before), i64::MAX).await
    }

    async fn settings_of(&self, transaction: &mut Session, plugin: &str) -> sqlx::Result<Settings> {
        let valves = self.read_valves(transaction, plugin, None).await?;
        let switches = switches::of(transaction, plugin).await?;
        Ok(Settings { valves, switches })
    }

    /// Reads the latest versions and settings of plugins; those of many plugins are read at once.
    async fn facts(
        &self,
        seen: &[SeenFile],
        transaction: &mut Session,
    ) -> sqlx::Result<(HashMap<String, Version>, HashMap<String, Settings>)> {
        let mut newest = HashMap::new();
        let mut settings: HashMap<String, Settings> = HashMap::new();
        if seen.len() <= AT_ONCE {
            for SeenFile { plugin, .. } in seen {
                let version = self.newest(transaction, plugin).await?;
                newest.extend(version.map(|version| (plugin.clone(), version)));
                settings.insert(plugin.clone(), self.settings_of(transaction, plugin).await?);
            }
            return Ok((newest, settings));
        }
        let text = "SELECT versions.* FROM
             (SELECT plugin, max(version) AS version FROM versions GROUP BY plugin) AS newest
             JOIN versions USING (plugin, version)";
        for row in query(text).fetch_all(transaction).await? {
            let plugin: String = row.try_get("plugin")?;
            let version = self.version(&plugin, &row)?;
            newest.insert(plugin, version);
        }
        for stored in self.all_valves(transaction, false).await? {
            settings.entry(stored.plugin).or_default().valves = stored.values;
        }
        for switch in switches::all(transaction).await? {
            let settings = settings.entry(switch.plugin).or_default();
            settings.switches = (switch.enabled, switch.global, switch.audit);
        }
        Ok((newest, settings))
    }

    /// Writes a version if it differs. A version without an author that was recorded after `since` gets this
    /// author.
    async fn write_after(
        &self,
        transaction: &mut Session,
        new: New<'_>,
        before: Option<Version>,
        since: i64,
    ) -> sqlx::Result<()> {
        let New { plugin, by, action, source, .. } = new;
        match new.after(before, since) {
            Some(Next::Version(version)) => {
                self.write_versions(transaction, &[(plugin, source, version)]).await
            }
            Some(Next::Named(number)) => {
                let name =
                    query("UPDATE versions SET author = ?, action = ? WHERE plugin = ? AND version = ?");
                let values = values![by, action.as_str(), plugin, number];
                name.bind_all(values).execute(transaction).await?;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes new versions and their texts, and deletes old versions.
    async fn write_versions(
        &self,
        transaction: &mut Session,
        new: &[(&str, Option<&Source>, Version)],
    ) -> sqlx::Result<()> {
        for new in new.chunks(AT_ONCE) {
            let sources: Vec<_> = new
                .iter()
                .filter_map(|(_, source, _)| source.map(|source| values![&source.hash, &*source.text]))
                .collect();
            if !sources.is_empty() {
                let insert =
                    sql::insert("INSERT INTO sources (hash, text)", sources, "ON CONFLICT DO NOTHING");
                insert.execute(transaction).await?;
            }
            let mut rows = Vec::with_capacity(new.len());
            for (plugin, _, new) in new {
                let about = sealed_value::version_of(plugin, signed(new.number));
                let valves = sealed_value::seal(&self.key, &new.valves, &about)?;
                let Version { number, at, by, kind, place, hash, enabled, global, audit, .. } = new;
                let action = new.action.as_str();
                rows.push(values![
                    *plugin, *number, *at, by, action, kind, place, hash, valves, *enabled, *global, *audit
                ]);
            }
            let head = "INSERT INTO versions
                 (plugin, version, at, author, action, kind, place, source, valves, enabled, global, audit)";
            sql::insert(head, rows, "").execute(transaction).await?;
            for (plugin, _, version) in new {
                prune(transaction, plugin, version.number).await?;
            }
        }
        Ok(())
    }

    async fn newest(&self, session: &mut Session, plugin: &str) -> sqlx::Result<Option<Version>> {
        let query = query("SELECT * FROM versions WHERE plugin = ? ORDER BY version DESC LIMIT 1");
        let row = query.bind(plugin).fetch_optional(session).await?;
        row.as_ref().map(|row| self.version(plugin, row)).transpose()
    }

    fn version(&self, plugin: &str, row: &Row) -> sqlx::Result<Version> {
        let action: String = row.try_get("action")?;
        let number: i64 = row.try_get("version")?;
        let about = sealed_value::version_of(plugin, number);
        let valves = sealed_value::unseal(&self.key, row.try_get("valves")?, &about);
        Ok(columns!(row => Version { at, kind, place, enabled, global, audit;
            number: number.unsigned_abs(),
            by: row.try_get("author")?,
            hash: row.try_get("source")?,
            // A newer host may have written a kind that is unknown here.
            action: Action::of_word(&action).unwrap_or(Action::Update),
            // Unreadable values must not hide the other versions; such a version cannot be restored.
            valves: valves.ok().into(),
        }))
    }
}

/// Reads the periods that the histories of all plugins cover.
pub(super) async fn spans(session: &mut Session) -> sqlx::Result<Vec<Span>> {
    let span = |row: Row| {
        let last = row.count("last")?;
        Ok(columns!(row => Span { plugin, first_at, last_at, is_gone; last }))
    };
    let text = "SELECT plugin, min(at) AS first_at, max(at) AS last_at, max(version) AS last,
         (SELECT source FROM versions WHERE plugin = one.plugin ORDER BY version DESC LIMIT 1) IS NULL
         AS is_gone FROM versions AS one GROUP BY plugin ORDER BY plugin";
    query(text).fetch_all(session).await?.into_iter().map(span).collect()
}

/// The settings that operators made for a plugin.
#[derive(Clone)]
struct Settings {
    valves: Json,
    switches: Switches,
}

impl Default for Settings {
    fn default() -> Self {
        Self { valves: Json::object(), switches: Switches::default() }
    }
}

/// A version to write.
struct New<'a> {
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
        let Settings { valves, switches: (enabled, global, audit) } = settings;
        let hash = source.map(|source| source.hash.clone());
        let new = Version {
            number,
            at: now(),
            by: by.into(),
            action,
            kind,
            place,
            hash,
            valves,
            enabled,
            global,
            audit,
        };
        let is_news = action == Action::Grant;
        match before.filter(|before| !is_news && before.is_same_state(&new)) {
            Some(before) if before.by == BY_FILE && before.at >= since => Some(Next::Named(before.number)),
            Some(_) => None,
            None => Some(Next::Version(new)),
        }
    }
}

/// Deletes old versions, and texts without references.
async fn prune(transaction: &mut Session, plugin: &str, newest: u64) -> sqlx::Result<()> {
    if newest <= MAX_VERSIONS {
        return Ok(());
    }
    let delete = query("DELETE FROM versions WHERE plugin = ? AND version <= ? RETURNING source");
    let delete = delete.bind_all(values![plugin, newest - MAX_VERSIONS]);
    let deleted: Vec<Option<String>> = delete.fetch_scalars(transaction).await?;
    for hash in deleted.into_iter().flatten() {
        let unused =
            "DELETE FROM sources WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM versions WHERE source = ?1)";
        query(unused).bind(hash).execute(transaction).await?;
    }
    Ok(())
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
