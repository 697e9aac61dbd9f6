//! Last good versions of scripts, confirmed changes of guards, and the models that list them.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::history::Action;
use crate::record::{GuardChange, LastGood};
use crate::rows::generation::commit_raised;
use crate::rows::json::{AT_ONCE, encode};
use crate::sql::{Lock, Row, Session, columns, insert, query, values};
use valvehouse_json::Json;

/// Last good versions of scripts, confirmed changes of guards, and the models that list them.
impl Store {
    /// Returns the last good version of every script.
    pub async fn last_good(&self) -> StoreResult<Vec<LastGood>> {
        self.read("read the last good scripts", |snapshot| snapshot.settings.last_good.clone(), async {
            last_good(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Stores versions that loaded, each in place of the previous one; all of them or none.
    pub async fn save_last_good(&self, versions: &[LastGood]) -> StoreResult<()> {
        self.work("save the last good scripts", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            for versions in versions.chunks(AT_ONCE) {
                let mut rows = Vec::with_capacity(versions.len());
                for LastGood { id, path, hash, source, imports, security, saved_at } in versions {
                    let imports = encode(imports)?;
                    rows.push(values![id, path, hash, source, imports, *security, *saved_at]);
                }
                let head = "INSERT INTO last_good (id, path, hash, source, imports, security, saved_at)";
                let tail = "ON CONFLICT (id) DO UPDATE SET path = excluded.path, hash = excluded.hash,
                     source = excluded.source, imports = excluded.imports, security = excluded.security,
                     saved_at = excluded.saved_at";
                insert(head, rows, tail).execute(&mut transaction).await?;
            }
            // Confirmations of an earlier version do not apply to this one.
            for version in versions.iter().filter(|version| version.security) {
                let outdated = "DELETE FROM confirmed
                     WHERE plugin = ? AND what NOT IN ('off', 'audit', 'narrow', 'configured')";
                query(outdated).bind(&version.id).execute(&mut transaction).await?;
            }
            self.commit_quietly(transaction, ()).await
        })
        .await
    }

    /// Deletes the last good version of a script that was removed on purpose.
    pub async fn forget_last_good(&self, id: &str) -> StoreResult<()> {
        self.work("delete a last good script", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            forget_last_good(&mut transaction, id).await?;
            self.commit_quietly(transaction, ()).await
        })
        .await
    }

    /// Confirms the removal of a guard's file: deletes its last good version, and notifies the hosts.
    pub async fn confirm_removal(&self, id: &str, by: &str) -> StoreResult<u64> {
        self.work("store a confirmed removal", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            forget_last_good(&mut transaction, id).await?;
            confirm(&mut transaction, id, &GuardChange::Gone, by).await?;
            self.note(&mut transaction, id, by, Action::Delete).await?;
            commit_raised(transaction).await
        })
        .await
    }

    /// Stores an operator's confirmation of a guard's change. Those of a file, [`GuardChange::Gone`] and
    /// [`GuardChange::Change`], end when a version of the guard is saved.
    pub async fn confirm(&self, id: &str, what: &GuardChange, by: &str) -> StoreResult<u64> {
        self.work("store a confirmed change of a guard", async {
            let mut transaction = self.durable.begin(Lock::Settings).await?;
            confirm(&mut transaction, id, what, by).await?;
            commit_raised(transaction).await
        })
        .await
    }

    /// Deletes the confirmation of a guard's change.
    pub async fn forget_confirmed(&self, id: &str, what: &GuardChange) -> StoreResult<()> {
        self.work("delete the confirmations of a guard", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            forget_confirmed(&mut transaction, id, what).await?;
            self.commit_quietly(transaction, ()).await
        })
        .await
    }

    /// Returns the guards of the histories whose last good versions are missing or not part of their
    /// histories, as id, path and text. Texts that are not guards may be included.
    pub async fn doubted_guards(&self) -> StoreResult<Vec<(String, String, String)>> {
        self.read("compare guards with their histories", |snapshot| snapshot.doubted.clone(), async {
            doubted(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Replaces the models that list a guard. The generation is unchanged.
    pub async fn save_guarded_models(&self, plugin: &str, models: &[String]) -> StoreResult<()> {
        self.work("store the models of a guard", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let delete = query("DELETE FROM guarded_models WHERE plugin = ?").bind(plugin);
            delete.execute(&mut transaction).await?;
            for model in models {
                let insert =
                    "INSERT INTO guarded_models (plugin, model) VALUES (?, ?) ON CONFLICT DO NOTHING";
                query(insert).bind_all(values![plugin, model]).execute(&mut transaction).await?;
            }
            self.commit_quietly(transaction, ()).await
        })
        .await
    }
}

pub(super) async fn last_good(session: &mut Session) -> sqlx::Result<Vec<LastGood>> {
    let version = |row: Row| {
        // Without its imports it does not load, which is reported.
        let imports = Json::parse(row.try_get::<String>("imports")?.as_bytes()).unwrap_or_default();
        Ok(columns!(row => LastGood { id, path, hash, source, security, saved_at; imports }))
    };
    let query =
        query("SELECT id, path, hash, source, imports, security, saved_at FROM last_good ORDER BY id");
    query.fetch_all(session).await?.into_iter().map(version).collect()
}

pub(super) async fn forget_last_good(transaction: &mut Session, id: &str) -> sqlx::Result<()> {
    query("DELETE FROM last_good WHERE id = ?").bind(id).execute(transaction).await?;
    Ok(())
}

/// Reads the confirmed changes of guards, each with the id of its guard.
pub(super) async fn confirmed(session: &mut Session) -> sqlx::Result<Vec<(String, GuardChange)>> {
    let rows = query("SELECT plugin, what FROM confirmed").fetch_all(session).await?;
    let read = |row: Row| Ok((row.try_get("plugin")?, GuardChange::from(row.try_get::<String>("what")?)));
    rows.into_iter().map(read).collect()
}

/// Stores an operator's confirmation of a guard's change.
pub(super) async fn confirm(
    transaction: &mut Session,
    id: &str,
    what: &GuardChange,
    by: &str,
) -> sqlx::Result<()> {
    let text = "INSERT INTO confirmed (plugin, what, author, at) VALUES (?, ?, ?, ?)
         ON CONFLICT (plugin, what) DO UPDATE SET author = excluded.author, at = excluded.at";
    query(text).bind_all(values![id, what.as_str(), by, now()]).execute(transaction).await?;
    Ok(())
}

/// Stores that an operator weakened a guard by a switch, or deletes that confirmation.
pub(super) async fn confirm_switch(
    transaction: &mut Session,
    id: &str,
    (enabled, global, audit): (Option<bool>, Option<bool>, Option<bool>),
    by: &str,
) -> sqlx::Result<()> {
    let enforces = audit.map(|audit| !audit);
    for (is_on, what) in
        [(enabled, GuardChange::Off), (global, GuardChange::Narrow), (enforces, GuardChange::Audit)]
    {
        match is_on {
            Some(false) => confirm(transaction, id, &what, by).await?,
            Some(true) => forget_confirmed(transaction, id, &what).await?,
            None => {}
        }
    }
    Ok(())
}

async fn forget_confirmed(session: &mut Session, id: &str, what: &GuardChange) -> sqlx::Result<()> {
    let delete = query("DELETE FROM confirmed WHERE plugin = ? AND what = ?");
    delete.bind_all(values![id, what.as_str()]).execute(session).await?;
    Ok(())
}

/// Reads the guards of the histories whose last good versions are missing or not part of their histories.
pub(super) async fn doubted(session: &mut Session) -> sqlx::Result<Vec<(String, String, String)>> {
    let text = "SELECT own.plugin, own.place, sources.text, last_good.id AS good, last_good.imports, EXISTS (
             SELECT 1 FROM versions AS other JOIN sources AS known ON known.hash = other.source
             WHERE other.plugin = own.plugin AND known.text = last_good.source) AS is_known
         FROM versions AS own JOIN sources ON sources.hash = own.source
         LEFT JOIN last_good ON last_good.id = own.plugin
         WHERE own.kind = 'filter'
         AND own.version = (SELECT max(version) FROM versions WHERE plugin = own.plugin)
         AND lower(sources.text) LIKE '%secur%'";
    let mut doubted = Vec::new();
    for row in query(text).fetch_all(session).await? {
        let imports: Option<String> = row.try_get("imports")?;
        let is_whole =
            imports.is_some_and(|text| Json::parse(text.as_bytes()).is_ok_and(|imports| !imports.is_null()));
        let is_good = row.try_get::<Option<String>>("good")?.is_some();
        if !is_good || !is_whole || !row.try_get::<bool>("is_known")? {
            doubted.push((row.try_get("plugin")?, row.try_get("place")?, row.try_get("text")?));
        }
    }
    Ok(doubted)
}

/// Reads the models that list a guard which runs only for listed models, as pairs of guard and model.
pub(super) async fn models(session: &mut Session) -> sqlx::Result<Vec<(String, String)>> {
    let rows = query("SELECT plugin, model FROM guarded_models").fetch_all(session).await?;
    rows.iter().map(|row| Ok((row.try_get("plugin")?, row.try_get("model")?))).collect()
}
