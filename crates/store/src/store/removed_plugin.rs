//! The data of removed plugins, which is set aside when another plugin gets the id, and adopted.

use super::database::Store;
use super::switches;
use super::valves::Change;
use crate::clock::now;
use crate::error::StoreResult;
use crate::history::Action;
use crate::record::{Aside, Fate};
use crate::rows::generation::commit_raised;
use crate::rows::json::encode;
use crate::sql::{Lock, Row, Session, query, values};
use valvehouse_json::Json;

/// Statements that delete the rows of an owner.
const DROP: [&str; 6] = [
    "DELETE FROM valves WHERE plugin = ?",
    "DELETE FROM switches WHERE plugin = ?",
    "DELETE FROM grants WHERE id = ?",
    "DELETE FROM kv WHERE plugin = ?",
    "DELETE FROM vectors WHERE plugin = ?",
    "DELETE FROM vector_spaces WHERE plugin = ?",
];
/// Statements that move the rows of an owner to another one, whose own rows take precedence.
const MOVE: [(&str, &str); 4] = [
    ("UPDATE grants SET id = ?1 WHERE id = ?2 AND NOT EXISTS (SELECT 1 FROM grants WHERE id = ?1)", DROP[2]),
    (
        "UPDATE kv SET plugin = ?1 WHERE plugin = ?2 AND NOT EXISTS (
            SELECT 1 FROM kv AS own WHERE own.plugin = ?1 AND own.scope = kv.scope AND own.key = kv.key)",
        DROP[3],
    ),
    // Vector spaces are moved as a whole, because vectors of different models cannot share one.
    (
        "UPDATE vectors SET plugin = ?1 WHERE plugin = ?2 AND NOT EXISTS (
            SELECT 1 FROM vector_spaces AS own WHERE own.plugin = ?1 AND own.scope = vectors.scope)",
        DROP[4],
    ),
    (
        "UPDATE vector_spaces SET plugin = ?1 WHERE plugin = ?2 AND NOT EXISTS (
            SELECT 1 FROM vector_spaces AS own WHERE own.plugin = ?1 AND own.scope = vector_spaces.scope)",
        DROP[5],
    ),
];

/// The data of removed plugins.
impl Store {
    /// Returns the data set aside for removed plugins, including data that was adopted or deleted since.
    pub async fn set_aside(&self) -> StoreResult<Vec<Aside>> {
        self.work("read the data that is set aside", async { all(&mut self.swift.session().await?).await })
            .await
    }

    /// Sets aside the data of a plugin that was removed by the version with this number. Repeated calls have
    /// no effect.
    pub async fn put_aside(&self, plugin: &str, number: u64) -> StoreResult<u64> {
        self.work("set aside the data of a plugin", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            if mark(&mut transaction, plugin, number, Fate::Aside).await? {
                self.take_over(&mut transaction, plugin, &Aside::key(plugin, number)).await?;
            }
            commit_raised(transaction).await
        })
        .await
    }

    /// Assigns the set-aside data to the plugin that has this id now; its current data takes precedence.
    pub async fn adopt(&self, plugin: &str, number: u64, by: &str) -> StoreResult<u64> {
        self.work("adopt the data that is set aside", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            decide(&mut transaction, plugin, number, Fate::Adopted).await?;
            self.take_over(&mut transaction, &Aside::key(plugin, number), plugin).await?;
            self.note(&mut transaction, plugin, by, Action::Valves).await?;
            commit_raised(transaction).await
        })
        .await
    }

    /// Deletes the set-aside data.
    pub async fn drop_aside(&self, plugin: &str, number: u64, by: &str) -> StoreResult<u64> {
        self.work("delete the data that is set aside", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            decide(&mut transaction, plugin, number, Fate::Dropped).await?;
            for delete in DROP {
                query(delete).bind(Aside::key(plugin, number)).execute(&mut transaction).await?;
            }
            tracing::info!(plugin, by, "the data that was set aside is deleted");
            commit_raised(transaction).await
        })
        .await
    }

    /// Moves the rows of one owner to another, whose own rows take precedence.
    async fn take_over(&self, transaction: &mut Session, from: &str, to: &str) -> sqlx::Result<()> {
        let users = query("SELECT user_id FROM valves WHERE plugin = ?").bind(from);
        let users: Vec<Option<String>> = users.fetch_scalars(transaction).await?;
        for user in users {
            let user = user.as_deref();
            // Values are sealed for their owner, so they are sealed again.
            let values = self.read_valves(transaction, from, user).await?;
            let own = self.read_valves(transaction, to, user).await?;
            for (name, value) in own.entries() {
                values.set(&name, value).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
            }
            self.write_valves(transaction, to, user, Change::Replace(&values)).await?;
            self.write_valves(transaction, from, user, Change::Reset(&[])).await?;
        }
        let (enabled, global, audit) = switches::of(transaction, from).await?;
        let own = switches::of(transaction, to).await?;
        switches::put(transaction, to, (own.0.or(enabled), own.1.or(global), own.2.or(audit))).await?;
        switches::put(transaction, from, (None, None, None)).await?;
        move_states(transaction, from, to).await?;
        for (update, delete) in MOVE {
            query(update).bind_all(values![to, from]).execute(transaction).await?;
            query(delete).bind(from).execute(transaction).await?;
        }
        Ok(())
    }
}

pub(super) async fn all(session: &mut Session) -> sqlx::Result<Vec<Aside>> {
    let aside = |row: Row| {
        Ok(Aside {
            plugin: row.try_get("plugin")?,
            number: row.count("number")?,
            fate: Fate::from(row.try_get::<i64>("fate")?),
            has_rows: row.try_get("has_rows")?,
        })
    };
    let text = "SELECT plugin, number, fate, (
        EXISTS (SELECT 1 FROM valves WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM switches WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM grants WHERE id = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM kv WHERE plugin = one.plugin || '@' || one.number)
        OR EXISTS (SELECT 1 FROM vectors WHERE plugin = one.plugin || '@' || one.number)) AS has_rows
        FROM set_aside AS one ORDER BY plugin, number";
    query(text).fetch_all(session).await?.into_iter().map(aside).collect()
}

async fn decide(transaction: &mut Session, plugin: &str, number: u64, fate: Fate) -> sqlx::Result<()> {
    if !mark(transaction, plugin, number, fate).await? {
        let update = query("UPDATE set_aside SET fate = ? WHERE plugin = ? AND number = ?");
        update.bind_all(values![fate as i64, plugin, number]).execute(transaction).await?;
    }
    Ok(())
}

/// Inserts the row. Returns `false` if it already exists.
async fn mark(transaction: &mut Session, plugin: &str, number: u64, fate: Fate) -> sqlx::Result<bool> {
    let insert =
        "INSERT INTO set_aside (plugin, number, fate, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING";
    let values = values![plugin, number, fate as i64, now()];
    Ok(query(insert).bind_all(values).execute(transaction).await? > 0)
}

/// Moves the scratch map of one owner to another that has none, in the checkpoints of resumable runs.
async fn move_states(transaction: &mut Session, from: &str, to: &str) -> sqlx::Result<()> {
    let text = "SELECT id, state FROM checkpoints
         WHERE run IN (SELECT number FROM runs WHERE status IN ('running', 'paused', 'failed'))
         AND replace(state, ?, '') <> state";
    for row in query(text).bind(encode(&Json::from(from))?).fetch_all(transaction).await? {
        // Rows that are not valid JSON are unchanged.
        let Ok(state) = Json::parse(row.try_get::<&str>("state")?.as_bytes()) else { continue };
        let Some(states) = state.get("states").filter(|states| states.get(to).is_none()) else { continue };
        let Some(own) = states.remove(from) else { continue };
        states.set(to, own).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        let update = query("UPDATE checkpoints SET state = ? WHERE id = ?");
        let values = values![encode(&state)?, row.try_get::<String>("id")?];
        update.bind_all(values).execute(transaction).await?;
    }
    Ok(())
}
