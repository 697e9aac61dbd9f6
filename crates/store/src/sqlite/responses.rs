//! Responses in SQLite.

use crate::clock::now;
use crate::responses::{RECENT_RESPONSES, StoredResponse};
use sqlx::{Row as _, SqliteConnection, SqlitePool};

/// Stores a response, and drops those that have expired.
pub(super) async fn save(connection: &mut SqliteConnection, stored: &StoredResponse) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM responses WHERE expires_ms <= ?").bind(now()).execute(&mut *connection).await?;
    sqlx::query("INSERT INTO responses (id, owner, expires_ms, input_items, items, response) VALUES (?, ?, ?, ?, ?, ?)")
        .bind(&stored.id)
        .bind(&stored.owner)
        .bind(stored.expires_ms)
        .bind(i64::try_from(stored.input_items).unwrap_or(i64::MAX))
        .bind(&stored.items)
        .bind(&stored.response)
        .execute(connection)
        .await?;
    Ok(())
}

/// Returns a response that has not expired.
pub(super) async fn find(pool: &SqlitePool, id: &str) -> sqlx::Result<Option<StoredResponse>> {
    let query = "SELECT id, owner, expires_ms, input_items, items, response FROM responses WHERE id = ? AND expires_ms > ?";
    let row = sqlx::query(query).bind(id).bind(now()).fetch_optional(pool).await?;
    row.map(|row| {
        Ok(StoredResponse {
            id: row.try_get(0)?,
            owner: row.try_get(1)?,
            expires_ms: row.try_get(2)?,
            input_items: usize::try_from(row.try_get::<i64, _>(3)?).unwrap_or_default(),
            items: row.try_get(4)?,
            response: row.try_get(5)?,
        })
    })
    .transpose()
}

/// Returns the items of the latest conversation of a caller that hold a text.
pub(super) async fn items_with(pool: &SqlitePool, owner: &str, text: &str) -> sqlx::Result<Option<String>> {
    let query = "SELECT items FROM (SELECT items FROM responses WHERE owner = ? AND expires_ms > ? \
                 ORDER BY expires_ms DESC LIMIT ?) WHERE instr(items, ?) > 0 LIMIT 1";
    sqlx::query_scalar(query)
        .bind(owner)
        .bind(now())
        .bind(RECENT_RESPONSES)
        .bind(text)
        .fetch_optional(pool)
        .await
}

/// Deletes a response.
pub(super) async fn delete(connection: &mut SqliteConnection, id: &str) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM responses WHERE id = ?").bind(id).execute(connection).await?;
    Ok(())
}
