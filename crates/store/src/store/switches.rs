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
        let Switch { plugin, enabled, global, audit } = switch;
        self.work("store a switch", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let (own, own_global, own_audit) = of(&mut transaction, plugin).await?;
            let switches = (enabled.or(own), global.or(own_global), audit.or(own_audit));
            put(&mut transaction, plugin, switches).await?;
            guards::confirm_switch(&mut transaction, plugin, (*enabled, *global, *audit), by).await?;
            self.note(&mut transaction, plugin, by, Action::Toggle).await?;
            commit_raised(transaction).await
        })
        .await
    }
}

pub(super) async fn all(session: &mut Session) -> sqlx::Result<Vec<Switch>> {
    let switch = |row: Row| {
        let (enabled, global, audit) = read(&row)?;
        Ok(Switch { plugin: row.try_get("plugin")?, enabled, global, audit })
    };
    let text =
        "SELECT plugin, enabled, global, audit FROM switches WHERE plugin NOT LIKE '%@%' ORDER BY plugin";
    query(text).fetch_all(session).await?.into_iter().map(switch).collect()
}

/// The switches `enabled`, `global` and `audit` of a plugin.
pub(super) type Switches = (Option<bool>, Option<bool>, Option<bool>);

fn read(row: &Row) -> sqlx::Result<Switches> {
    Ok((row.try_get("enabled")?, row.try_get("global")?, row.try_get("audit")?))
}

/// Reads the switches of a plugin.
pub(super) async fn of(session: &mut Session, plugin: &str) -> sqlx::Result<Switches> {
    let query = query("SELECT enabled, global, audit FROM switches WHERE plugin = ?").bind(plugin);
    query.fetch_optional(session).await?.as_ref().map_or(Ok((None, None, None)), read)
}

/// Replaces the switches of a plugin; `None` unsets one.
pub(super) async fn put(transaction: &mut Session, plugin: &str, switches: Switches) -> sqlx::Result<()> {
    query("DELETE FROM switches WHERE plugin = ?").bind(plugin).execute(transaction).await?;
    if switches != (None, None, None) {
        let (enabled, global, audit) = switches;
        let insert = query("INSERT INTO switches (plugin, enabled, global, audit) VALUES (?, ?, ?, ?)");
        insert.bind_all(values![plugin, enabled, global, audit]).execute(transaction).await?;
    }
    Ok(())
}
