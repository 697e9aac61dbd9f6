//! The rows of conversations of the Responses API.

use crate::clock::now;
use crate::responses::{MAX_CONVERSATION_SIZE, ResponseConversation, ResponseItem};
use crate::sql::{self, Session, query, query_scalar};

/// The maximum number of items per statement.
const AT_ONCE: usize = 100;

/// Stores a conversation, and deletes expired ones.
pub(crate) async fn save(session: &mut Session, conversation: &ResponseConversation) -> sqlx::Result<()> {
    let items = "DELETE FROM response_conversation_items WHERE conversation IN
        (SELECT id FROM response_conversations WHERE expires_ms <= ?)";
    for text in [items, "DELETE FROM response_conversations WHERE expires_ms <= ?"] {
        query(text).bind(now()).execute(session).await?;
    }
    query(
        "INSERT INTO response_conversations (id, owner, created_ms, expires_ms, metadata, size)
         VALUES (?, ?, ?, ?, ?, 0)",
    )
    .bind(&conversation.id)
    .bind(&conversation.owner)
    .bind(conversation.created_ms)
    .bind(conversation.expires_ms)
    .bind(&conversation.metadata)
    .execute(session)
    .await?;
    Ok(())
}

/// Returns a conversation that has not expired.
pub(crate) async fn find(session: &mut Session, id: &str) -> sqlx::Result<Option<ResponseConversation>> {
    let text = "SELECT id, owner, created_ms, expires_ms, metadata FROM response_conversations
        WHERE id = ? AND expires_ms > ?";
    let row = query(text).bind(id).bind(now()).fetch_optional(session).await?;
    row.map(|row| {
        Ok(ResponseConversation {
            id: row.try_get("id")?,
            owner: row.try_get("owner")?,
            created_ms: row.try_get("created_ms")?,
            expires_ms: row.try_get("expires_ms")?,
            metadata: row.try_get("metadata")?,
        })
    })
    .transpose()
}

/// Sets the metadata of a conversation.
pub(crate) async fn set_metadata(session: &mut Session, id: &str, metadata: &str) -> sqlx::Result<()> {
    let text = "UPDATE response_conversations SET metadata = ? WHERE id = ?";
    query(text).bind(metadata).bind(id).execute(session).await?;
    Ok(())
}

/// Deletes a conversation with its items.
pub(crate) async fn delete(session: &mut Session, id: &str) -> sqlx::Result<()> {
    for text in [
        "DELETE FROM response_conversation_items WHERE conversation = ?",
        "DELETE FROM response_conversations WHERE id = ?",
    ] {
        query(text).bind(id).execute(session).await?;
    }
    Ok(())
}

/// Appends items unless they exceed the limit.
pub(crate) async fn append(
    session: &mut Session,
    id: &str,
    items: &[ResponseItem],
    expires_ms: i64,
) -> sqlx::Result<bool> {
    let size: usize = items.iter().map(|item| item.item.len()).sum();
    let size = i64::try_from(size).unwrap_or(i64::MAX / 2);
    let grown = query(
        "UPDATE response_conversations SET size = size + ?, expires_ms = ?
         WHERE id = ? AND expires_ms > ? AND size + ? <= ?",
    )
    .bind(size)
    .bind(expires_ms)
    .bind(id)
    .bind(now())
    .bind(size)
    .bind(MAX_CONVERSATION_SIZE)
    .execute(session)
    .await?;
    if grown == 0 {
        return Ok(false);
    }
    let last = "SELECT coalesce(max(number), 0) FROM response_conversation_items WHERE conversation = ?";
    let mut number: i64 = query_scalar(last).bind(id).fetch_one(session).await?;
    for items in items.chunks(AT_ONCE) {
        let rows = items.iter().map(|item| {
            number += 1;
            [id.into(), number.into(), item.id.as_str().into(), item.item.as_str().into()]
        });
        let head = "INSERT INTO response_conversation_items (conversation, number, id, item)";
        sql::insert(head, rows, "").execute(session).await?;
    }
    Ok(true)
}

/// Returns the items in order.
pub(crate) async fn items(session: &mut Session, id: &str) -> sqlx::Result<Vec<ResponseItem>> {
    let text = "SELECT id, item FROM response_conversation_items WHERE conversation = ? ORDER BY number";
    let rows = query(text).bind(id).fetch_all(session).await?;
    rows.iter().map(|row| Ok(ResponseItem { id: row.try_get("id")?, item: row.try_get("item")? })).collect()
}

/// Returns an item of one of a caller's conversations, as a list with one element.
pub(crate) async fn item_of(session: &mut Session, owner: &str, id: &str) -> sqlx::Result<Option<String>> {
    let text = "SELECT items.item FROM response_conversation_items AS items
        JOIN response_conversations AS whole ON whole.id = items.conversation
        WHERE items.id = ? AND whole.owner = ? AND whole.expires_ms > ? LIMIT 1";
    let item: Option<String> =
        query_scalar(text).bind(id).bind(owner).bind(now()).fetch_optional(session).await?;
    Ok(item.map(|item| format!("[{item}]")))
}

/// Deletes an item. Returns `false` if it does not exist.
pub(crate) async fn delete_item(session: &mut Session, conversation: &str, id: &str) -> sqlx::Result<bool> {
    let text = "SELECT item FROM response_conversation_items WHERE conversation = ? AND id = ?";
    let found: Vec<String> = query_scalar(text).bind(conversation).bind(id).fetch_all(session).await?;
    if found.is_empty() {
        return Ok(false);
    }
    let size: usize = found.iter().map(String::len).sum();
    query("DELETE FROM response_conversation_items WHERE conversation = ? AND id = ?")
        .bind(conversation)
        .bind(id)
        .execute(session)
        .await?;
    query("UPDATE response_conversations SET size = size - ? WHERE id = ?")
        .bind(i64::try_from(size).unwrap_or(i64::MAX))
        .bind(conversation)
        .execute(session)
        .await?;
    Ok(true)
}
