//! The rows of responses, and the events of background responses.

use crate::clock::now;
use crate::responses::{RECENT_RESPONSES, StoredResponse};
use crate::sql::{self, Session, query, query_scalar};

/// The maximum number of events per statement.
const AT_ONCE: usize = 100;

/// Stores a response, and deletes expired ones.
pub(crate) async fn save(connection: &mut Session, stored: &StoredResponse) -> sqlx::Result<()> {
    for text in
        ["DELETE FROM responses WHERE expires_ms <= ?", "DELETE FROM response_events WHERE expires_ms <= ?"]
    {
        query(text).bind(now()).execute(connection).await?;
    }
    query(
        "INSERT INTO responses (id, owner, expires_ms, input_items, items, response, runner, seen_ms, size)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&stored.id)
    .bind(&stored.owner)
    .bind(stored.expires_ms)
    .bind(i64::try_from(stored.input_items).unwrap_or(i64::MAX))
    .bind(&stored.items)
    .bind(&stored.response)
    .bind(&stored.runner)
    .bind(stored.seen_ms)
    .bind(i64::try_from(stored.size()).unwrap_or(i64::MAX))
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the bytes of the responses and conversations of a caller.
pub(crate) async fn size_of(session: &mut Session, owner: &str) -> sqlx::Result<i64> {
    let mut size = 0;
    for text in [
        "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM responses WHERE owner = ? AND expires_ms > ?",
        "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM response_conversations
         WHERE owner = ? AND expires_ms > ?",
    ] {
        let part: i64 = query_scalar(text).bind(owner).bind(now()).fetch_one(session).await?;
        size += part;
    }
    Ok(size)
}

/// Returns a response that has not expired.
pub(crate) async fn find(session: &mut Session, id: &str) -> sqlx::Result<Option<StoredResponse>> {
    let text = "SELECT id, owner, expires_ms, input_items, items, response, runner, seen_ms FROM responses
        WHERE id = ? AND expires_ms > ?";
    let row = query(text).bind(id).bind(now()).fetch_optional(session).await?;
    row.map(|row| {
        Ok(StoredResponse {
            id: row.try_get("id")?,
            owner: row.try_get("owner")?,
            expires_ms: row.try_get("expires_ms")?,
            input_items: usize::try_from(row.try_get::<i64>("input_items")?).unwrap_or_default(),
            items: row.try_get("items")?,
            response: row.try_get("response")?,
            runner: row.try_get("runner")?,
            seen_ms: row.try_get("seen_ms")?,
        })
    })
    .transpose()
}

/// Returns the items of the latest response of a caller that contain a text.
pub(crate) async fn items_with(
    session: &mut Session,
    owner: &str,
    text: &str,
) -> sqlx::Result<Option<String>> {
    let recent = "SELECT items FROM (SELECT items FROM responses WHERE owner = ? AND expires_ms > ? \
                  ORDER BY expires_ms DESC LIMIT ?) AS recent WHERE replace(items, ?, '') <> items LIMIT 1";
    query_scalar(recent)
        .bind(owner)
        .bind(now())
        .bind(RECENT_RESPONSES)
        .bind(text)
        .fetch_optional(session)
        .await
}

/// Deletes a response and its events.
pub(crate) async fn delete(connection: &mut Session, id: &str) -> sqlx::Result<()> {
    for text in ["DELETE FROM responses WHERE id = ?", "DELETE FROM response_events WHERE response = ?"] {
        query(text).bind(id).execute(connection).await?;
    }
    Ok(())
}

/// Returns the runner of a response, and the time of its last heartbeat.
pub(crate) async fn runner(session: &mut Session, id: &str) -> sqlx::Result<Option<(String, i64)>> {
    let text = "SELECT runner, seen_ms FROM responses WHERE id = ? AND expires_ms > ?";
    let row = query(text).bind(id).bind(now()).fetch_optional(session).await?;
    row.map(|row| Ok((row.try_get("runner")?, row.try_get("seen_ms")?))).transpose()
}

/// Records a heartbeat of a runner. Returns `false` if the runner does not own the response.
pub(crate) async fn touch(session: &mut Session, id: &str, runner: &str) -> sqlx::Result<bool> {
    let text = "UPDATE responses SET seen_ms = ? WHERE id = ? AND runner = ?";
    Ok(query(text).bind(now()).bind(id).bind(runner).execute(session).await? > 0)
}

/// Updates the response of a runner. Returns `false` if the runner does not own it.
pub(crate) async fn change(
    connection: &mut Session,
    id: &str,
    runner: &str,
    response: &str,
    items: Option<&str>,
    is_over: bool,
) -> sqlx::Result<bool> {
    let text = "UPDATE responses SET response = ?, items = coalesce(?, items), runner = ?, seen_ms = ?
        WHERE id = ? AND runner = ?";
    let next = if is_over { "" } else { runner };
    let changed = query(text)
        .bind(response)
        .bind(items)
        .bind(next)
        .bind(now())
        .bind(id)
        .bind(runner)
        .execute(connection)
        .await?;
    let text = "UPDATE responses SET size = octet_length(items) + octet_length(response) WHERE id = ?";
    query(text).bind(id).execute(connection).await?;
    Ok(changed > 0)
}

/// Stores events of a response; events with existing numbers are unchanged.
pub(crate) async fn append_events(
    connection: &mut Session,
    id: &str,
    events: &[(i64, String)],
    expires_ms: i64,
) -> sqlx::Result<()> {
    for events in events.chunks(AT_ONCE) {
        let rows = events
            .iter()
            .map(|(number, event)| [id.into(), (*number).into(), expires_ms.into(), event.as_str().into()]);
        let head = "INSERT INTO response_events (response, number, expires_ms, event)";
        sql::insert(head, rows, "ON CONFLICT DO NOTHING").execute(connection).await?;
    }
    Ok(())
}

/// Returns events of a response in order.
pub(crate) async fn events(
    session: &mut Session,
    id: &str,
    after: i64,
    limit: i64,
) -> sqlx::Result<Vec<(i64, String)>> {
    let text =
        "SELECT number, event FROM response_events WHERE response = ? AND number > ? AND expires_ms > ?
        ORDER BY number LIMIT ?";
    let rows = query(text).bind(id).bind(after).bind(now()).bind(limit).fetch_all(session).await?;
    rows.iter().map(|row| Ok((row.try_get("number")?, row.try_get("event")?))).collect()
}
