//! The rows of switches, read and changed within a transaction.

use super::transaction::Transaction;
use crate::record::Switch;
use sqlx::{Row as _, SqliteConnection};

pub(super) async fn all(connection: &mut SqliteConnection) -> Result<Vec<Switch>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT plugin, enabled, global FROM switches WHERE plugin NOT LIKE '%@%' ORDER BY plugin",
    )
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

/// Whether a plugin runs, and for all models, as far as anybody said.
pub(super) async fn of(
    connection: &mut SqliteConnection,
    plugin: &str,
) -> Result<(Option<bool>, Option<bool>), sqlx::Error> {
    let query = sqlx::query_as("SELECT enabled, global FROM switches WHERE plugin = ?");
    Ok(query.bind(plugin).fetch_optional(connection).await?.unwrap_or_default())
}

/// What is none stays as it was.
pub(super) async fn set(transaction: &mut Transaction, switch: &Switch) -> Result<(), sqlx::Error> {
    let (enabled, global) = of(transaction, &switch.plugin).await?;
    put(transaction, &switch.plugin, switch.enabled.or(enabled), switch.global.or(global)).await
}

/// What is none is said by nobody from now on.
pub(super) async fn put(
    transaction: &mut Transaction,
    plugin: &str,
    enabled: Option<bool>,
    global: Option<bool>,
) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM switches WHERE plugin = ?").bind(plugin).execute(&mut **transaction).await?;
    if enabled.is_some() || global.is_some() {
        sqlx::query("INSERT INTO switches (plugin, enabled, global) VALUES (?, ?, ?)")
            .bind(plugin)
            .bind(enabled)
            .bind(global)
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}
