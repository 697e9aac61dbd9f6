//! Conversations of the Responses API.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::responses::{MAX_CONVERSATION_SIZE, ResponseConversation, ResponseItem};
use crate::sql::{self, Lock, Row, columns, query, values};

/// The maximum number of items per statement.
const AT_ONCE: usize = 100;

/// Conversations of the Responses API. Expired ones are not returned, and are deleted by later writes.
impl Store {
    /// Stores a new conversation.
    pub async fn save_response_conversation(&self, conversation: &ResponseConversation) -> StoreResult<()> {
        self.work("store a conversation", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let items = "DELETE FROM response_conversation_items WHERE conversation IN
                 (SELECT id FROM response_conversations WHERE expires_ms <= ?)";
            for text in [items, "DELETE FROM response_conversations WHERE expires_ms <= ?"] {
                query(text).bind(now()).execute(&mut transaction).await?;
            }
            let insert = "INSERT INTO response_conversations
                 (id, owner, created_ms, expires_ms, metadata, size) VALUES (?, ?, ?, ?, ?, 0)";
            let ResponseConversation { id, owner, created_ms, expires_ms, metadata } = conversation;
            let values = values![id, owner, *created_ms, *expires_ms, metadata];
            query(insert).bind_all(values).execute(&mut transaction).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the conversation with this id unless it has expired.
    pub async fn response_conversation(&self, id: &str) -> StoreResult<Option<ResponseConversation>> {
        let conversation = |row: &Row| {
            Ok(columns!(row => ResponseConversation { id, owner, created_ms, expires_ms, metadata }))
        };
        let text = "SELECT id, owner, created_ms, expires_ms, metadata FROM response_conversations
             WHERE id = ? AND expires_ms > ?";
        let query = query(text).bind_all(values![id, now()]);
        Ok(self.fetch("read a conversation", query, conversation).await?.pop())
    }

    /// Replaces the metadata of a conversation.
    pub async fn set_conversation_metadata(&self, id: &str, metadata: &str) -> StoreResult<()> {
        let update = query("UPDATE response_conversations SET metadata = ? WHERE id = ?");
        let update = update.bind_all(values![metadata, id]);
        self.execute_durably("update a conversation", update).await.map(drop)
    }

    /// Deletes a conversation with its items.
    pub async fn delete_response_conversation(&self, id: &str) -> StoreResult<()> {
        self.work("delete a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            for text in [
                "DELETE FROM response_conversation_items WHERE conversation = ?",
                "DELETE FROM response_conversations WHERE id = ?",
            ] {
                query(text).bind(id).execute(&mut transaction).await?;
            }
            transaction.commit().await
        })
        .await
    }

    /// Appends items to a conversation, and sets its expiry. Returns `false` and adds none if the
    /// conversation does not exist or would exceed [`MAX_CONVERSATION_SIZE`].
    pub async fn append_conversation_items(
        &self,
        id: &str,
        items: &[ResponseItem],
        expires_ms: i64,
    ) -> StoreResult<bool> {
        self.work("add items to a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            let size: usize = items.iter().map(|item| item.item.len()).sum();
            let size = i64::try_from(size).unwrap_or(i64::MAX / 2);
            let grow = "UPDATE response_conversations SET size = size + ?, expires_ms = ?
                 WHERE id = ? AND expires_ms > ? AND size + ? <= ?";
            let values = values![size, expires_ms, id, now(), size, MAX_CONVERSATION_SIZE];
            if query(grow).bind_all(values).execute(&mut transaction).await? == 0 {
                return Ok(false);
            }
            let last =
                "SELECT coalesce(max(number), 0) FROM response_conversation_items WHERE conversation = ?";
            let mut number: i64 = query(last).bind(id).fetch_scalar(&mut transaction).await?;
            for items in items.chunks(AT_ONCE) {
                let rows = items.iter().map(|item| {
                    number += 1;
                    values![id, number, &item.id, &item.item]
                });
                let head = "INSERT INTO response_conversation_items (conversation, number, id, item)";
                sql::insert(head, rows, "").execute(&mut transaction).await?;
            }
            transaction.commit_with(true).await
        })
        .await
    }

    /// Returns the items of a conversation in order.
    pub async fn conversation_items(&self, id: &str) -> StoreResult<Vec<ResponseItem>> {
        let item = |row: &Row| Ok(ResponseItem { id: row.try_get("id")?, item: row.try_get("item")? });
        let text = "SELECT id, item FROM response_conversation_items WHERE conversation = ? ORDER BY number";
        self.fetch("read the items of a conversation", query(text).bind(id), item).await
    }

    /// Deletes an item of a conversation. Returns `false` if the item does not exist.
    pub async fn delete_conversation_item(&self, conversation: &str, id: &str) -> StoreResult<bool> {
        self.work("delete an item of a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(conversation)).await?;
            let delete = query(
                "DELETE FROM response_conversation_items WHERE conversation = ? AND id = ? RETURNING item",
            );
            let delete = delete.bind_all(values![conversation, id]);
            let deleted: Vec<String> = delete.fetch_scalars(&mut transaction).await?;
            if deleted.is_empty() {
                return Ok(false);
            }
            let size: usize = deleted.iter().map(String::len).sum();
            let shrink = query("UPDATE response_conversations SET size = size - ? WHERE id = ?");
            shrink.bind_all(values![size as u64, conversation]).execute(&mut transaction).await?;
            transaction.commit_with(true).await
        })
        .await
    }
}
