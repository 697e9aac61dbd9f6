//! The switches that operators set for plugins.

use super::database::Store;
use super::guards;
use crate::error::StoreResult;
use crate::history::Action;
use crate::record::Switch;
use crate::rows::generation::commit_raised;
use crate::sql::{Lock, Row, Session, query, values};

/// The switches that operators set for plugins.
impl Store {
    /// Sets the switches of a plugin; `None` leaves one unchanged. The change is confirmed at the same time:
    /// without a confirmation, a switch does not apply to a guard.
    pub async fn set_switch(&self, switch: &Switch, by: &str) -> StoreResult<u64> {
        let Switch { plugin, enabled, global } = switch;
        self.work("store a switch", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let (own, own_global) = of(&mut transaction, plugin).await?;
            put(&mut transaction, plugin, enabled.or(own), global.or(own_global)).await?;
            guards::confirm_switch(&mut transaction, plugin, *enabled, *global, by).await?;
            self.note(&mut transaction, plugin, by, Action::Toggle).await?;
            commit_raised(transaction).await
        })
        .await
    }
}

pub(super) async fn all(session: &mut Session) -> sqlx::Result<Vec<Switch>> {
    let switch = |row: Row| {
        let (enabled, global) = (row.try_get("enabled")?, row.try_get("global")?);
        Ok(Switch { plugin: row.try_get("plugin")?, enabled, global })
    };
    let text = "SELECT plugin, enabled, global FROM switches WHERE plugin NOT LIKE '%@%' ORDER BY plugin";
    query(text).fetch_all(session).await?.into_iter().map(switch).collect()
}

/// Reads the switches `enabled` and `global` of a plugin.
pub(super) async fn of(session: &mut Session, plugin: &str) -> sqlx::Result<(Option<bool>, Option<bool>)> {
    let query = query("SELECT enabled, global FROM switches WHERE plugin = ?").bind(plugin);
    let row = query.fetch_optional(session).await?;
    row.map_or(Ok((None, None)), |row| Ok((row.try_get("enabled")?, row.try_get("global")?)))
}

/// Replaces the switches of a plugin; `None` unsets one.
pub(super) async fn put(
    transaction: &mut Session,
    plugin: &str,
    enabled: Option<bool>,
    global: Option<bool>,
) -> sqlx::Result<()> {
    query("DELETE FROM switches WHERE plugin = ?").bind(plugin).execute(transaction).await?;
    if enabled.is_some() || global.is_some() {
        let insert = query("INSERT INTO switches (plugin, enabled, global) VALUES (?, ?, ?)");
        insert.bind_all(values![plugin, enabled, global]).execute(transaction).await?;
    }
    Ok(())
}
