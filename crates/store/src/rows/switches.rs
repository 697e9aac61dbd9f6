//! The rows of switches.

use crate::record::Switch;
use crate::sql::{Session, query};

pub(crate) async fn all(connection: &mut Session) -> Result<Vec<Switch>, sqlx::Error> {
    let rows =
        query("SELECT plugin, enabled, global FROM switches WHERE plugin NOT LIKE '%@%' ORDER BY plugin")
            .fetch_all(connection)
            .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Switch {
                plugin: row.try_get("plugin")?,
                enabled: row.try_get("enabled")?,
                global: row.try_get("global")?,
            })
        })
        .collect()
}

/// Reads the switches `enabled` and `global` of a plugin.
pub(crate) async fn of(
    connection: &mut Session,
    plugin: &str,
) -> Result<(Option<bool>, Option<bool>), sqlx::Error> {
    let query = query("SELECT enabled, global FROM switches WHERE plugin = ?").bind(plugin);
    let row = query.fetch_optional(connection).await?;
    row.map_or(Ok((None, None)), |row| Ok((row.try_get("enabled")?, row.try_get("global")?)))
}

/// Sets the switches of a plugin; `None` leaves one unchanged.
pub(crate) async fn set(transaction: &mut Session, switch: &Switch) -> Result<(), sqlx::Error> {
    let (enabled, global) = of(transaction, &switch.plugin).await?;
    put(transaction, &switch.plugin, switch.enabled.or(enabled), switch.global.or(global)).await
}

/// Replaces the switches of a plugin; `None` unsets one.
pub(crate) async fn put(
    transaction: &mut Session,
    plugin: &str,
    enabled: Option<bool>,
    global: Option<bool>,
) -> Result<(), sqlx::Error> {
    query("DELETE FROM switches WHERE plugin = ?").bind(plugin).execute(transaction).await?;
    if enabled.is_some() || global.is_some() {
        query("INSERT INTO switches (plugin, enabled, global) VALUES (?, ?, ?)")
            .bind(plugin)
            .bind(enabled)
            .bind(global)
            .execute(transaction)
            .await?;
    }
    Ok(())
}
