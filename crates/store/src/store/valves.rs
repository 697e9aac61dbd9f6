//! The stored valves of plugins.

use super::database::Store;
use crate::error::StoreResult;
use crate::history::Action;
use crate::record::StoredValves;
use crate::rows::generation::commit_raised;
use crate::rows::sealed_value;
use crate::seal::is_sealed;
use crate::sql::{Lock, Row, Session, query, query_text, values};
use valvehouse_json::Json;

/// A change of stored valves.
pub(super) enum Change<'a> {
    Replace(&'a Json),
    Merge(&'a Json),
    Reset(&'a [String]),
}

/// The stored valves of plugins.
impl Store {
    /// Returns the values of a plugin that operators, or one user, set; empty if there are none.
    pub async fn valves(&self, plugin: &str, user: Option<&str>) -> StoreResult<Json> {
        self.work("read the stored valves", async {
            self.read_valves(&mut self.swift.session().await?, plugin, user).await
        })
        .await
    }

    /// Replaces the stored values with these.
    pub async fn replace_valves(
        &self,
        plugin: &str,
        user: Option<&str>,
        values: &Json,
        by: &str,
    ) -> StoreResult<u64> {
        self.change_valves("store valves", plugin, user, Change::Replace(values), by).await
    }

    /// Merges these values into the stored ones; a null removes its key. Concurrent merges of different keys
    /// are all kept.
    pub async fn merge_valves(
        &self,
        plugin: &str,
        user: Option<&str>,
        values: &Json,
        by: &str,
    ) -> StoreResult<u64> {
        self.change_valves("store valves", plugin, user, Change::Merge(values), by).await
    }

    /// Removes these keys, or all of them if the list is empty.
    pub async fn reset_valves(
        &self,
        plugin: &str,
        user: Option<&str>,
        keys: &[String],
        by: &str,
    ) -> StoreResult<u64> {
        self.change_valves("reset valves", plugin, user, Change::Reset(keys), by).await
    }

    async fn change_valves(
        &self,
        doing: &'static str,
        plugin: &str,
        user: Option<&str>,
        change: Change<'_>,
        by: &str,
    ) -> StoreResult<u64> {
        self.work(doing, async {
            let mut transaction = self.begin(Lock::Settings).await?;
            self.write_valves(&mut transaction, plugin, user, change).await?;
            if user.is_none() {
                self.note(&mut transaction, plugin, by, Action::Valves).await?;
            }
            commit_raised(transaction).await
        })
        .await
    }

    /// Reads the valves of all plugins, of operators and users or only those of operators.
    pub(super) async fn all_valves(
        &self,
        session: &mut Session,
        of_users: bool,
    ) -> sqlx::Result<Vec<StoredValves>> {
        let which = match of_users {
            true => "WHERE plugin NOT LIKE '%@%'",
            false => "WHERE plugin NOT LIKE '%@%' AND user_id IS NULL",
        };
        let text = format!(
            "SELECT plugin, user_id, content FROM valves {which} ORDER BY plugin, user_id NULLS FIRST"
        );
        let valves = |row: Row| {
            let plugin: String = row.try_get("plugin")?;
            let user: Option<String> = row.try_get("user_id")?;
            let content: &str = row.try_get("content")?;
            let values = self.open_valves(&plugin, user.as_deref(), content)?;
            Ok(StoredValves { plugin, user, values, is_plain: !is_sealed(content) })
        };
        query_text(text).fetch_all(session).await?.into_iter().map(valves).collect()
    }

    pub(super) async fn read_valves(
        &self,
        session: &mut Session,
        plugin: &str,
        user: Option<&str>,
    ) -> sqlx::Result<Json> {
        let query = query("SELECT content FROM valves WHERE plugin = ? AND user_id IS NOT DISTINCT FROM ?");
        let content: Option<String> =
            query.bind_all(values![plugin, user]).fetch_scalar_optional(session).await?;
        content.map_or_else(|| Ok(Json::object()), |content| self.open_valves(plugin, user, &content))
    }

    pub(super) async fn write_valves(
        &self,
        transaction: &mut Session,
        plugin: &str,
        user: Option<&str>,
        change: Change<'_>,
    ) -> sqlx::Result<()> {
        let values = match change {
            Change::Replace(values) => merged(Json::object(), values)?,
            Change::Merge(values) => merged(self.read_valves(transaction, plugin, user).await?, values)?,
            // The stored values are not read, so that an unreadable row can be reset.
            Change::Reset([]) => Json::object(),
            Change::Reset(keys) => {
                let stored = self.read_valves(transaction, plugin, user).await?;
                for key in keys {
                    stored.remove(key);
                }
                stored
            }
        };
        let delete = query("DELETE FROM valves WHERE plugin = ? AND user_id IS NOT DISTINCT FROM ?");
        delete.bind_all(values![plugin, user]).execute(transaction).await?;
        if !values.is_empty() {
            let sealed = sealed_value::seal(&self.key, &values, &sealed_value::valves_of(plugin, user))?;
            let insert = query("INSERT INTO valves (plugin, user_id, content) VALUES (?, ?, ?)");
            insert.bind_all(values![plugin, user, sealed]).execute(transaction).await?;
        }
        Ok(())
    }

    fn open_valves(&self, plugin: &str, user: Option<&str>, content: &str) -> sqlx::Result<Json> {
        let about = sealed_value::valves_of(plugin, user);
        sealed_value::unseal(&self.key, content, &about).map_err(|why| {
            let what = format!("the stored valves of {plugin} {why}");
            sqlx::Error::Decode(format!("{what}; delete them with `valvehouse valves reset {plugin}`").into())
        })
    }
}

/// Returns the stored values with the given ones merged in; a null removes its key.
fn merged(stored: Json, given: &Json) -> sqlx::Result<Json> {
    let Some(given) = given.as_object() else {
        return Err(sqlx::Error::Encode("invalid valves: expected an object of names and values".into()));
    };
    for (key, value) in given.entries() {
        if value.is_null() {
            stored.remove(&key);
        } else {
            stored.set(&key, value.deep_clone()).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        }
    }
    Ok(stored)
}
