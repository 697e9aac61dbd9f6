//! The rows of responses that clients may continue.

use crate::clock::now;
use crate::responses::{RECENT_RESPONSES, StoredResponse};
use crate::sql::{Session, query, query_scalar};

/// Stores a response, and drops those that have expired.
pub(crate) async fn save(connection: &mut Session, stored: &StoredResponse) -> sqlx::Result<()> {
    query("DELETE FROM responses WHERE expires_ms <= ?").bind(now()).execute(connection).await?;
    query("INSERT INTO responses (id, owner, expires_ms, input_items, items, response) VALUES (?, ?, ?, ?, ?, ?)")
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
pub(crate) async fn find(session: &mut Session, id: &str) -> sqlx::Result<Option<StoredResponse>> {
    let text = "SELECT id, owner, expires_ms, input_items, items, response FROM responses WHERE id = ? AND expires_ms > ?";
    let row = query(text).bind(id).bind(now()).fetch_optional(session).await?;
    row.map(|row| {
        Ok(StoredResponse {
            id: row.try_get("id")?,
            owner: row.try_get("owner")?,
            expires_ms: row.try_get("expires_ms")?,
            input_items: usize::try_from(row.try_get::<i64>("input_items")?).unwrap_or_default(),
            items: row.try_get("items")?,
            response: row.try_get("response")?,
        })
    })
    .transpose()
}

/// Returns the items of the latest conversation of a caller that hold a text.
pub(crate) async fn items_with(
    session: &mut Session,
    owner: &str,
    text: &str,
) -> sqlx::Result<Option<String>> {
    let query = "SELECT items FROM (SELECT items FROM responses WHERE owner = ? AND expires_ms > ? \
                 ORDER BY expires_ms DESC LIMIT ?) AS recent WHERE replace(items, ?, '') <> items LIMIT 1";
    query_scalar(query)
        .bind(owner)
        .bind(now())
        .bind(RECENT_RESPONSES)
        .bind(text)
        .fetch_optional(session)
        .await
}

/// Deletes a response.
pub(crate) async fn delete(connection: &mut Session, id: &str) -> sqlx::Result<()> {
    query("DELETE FROM responses WHERE id = ?").bind(id).execute(connection).await?;
    Ok(())
}
