//! Responses and conversations of the Responses API. Each method is one transaction.

use super::database::Store;
use crate::error::StoreResult;
use crate::responses::{ResponseConversation, ResponseItem, StoredResponse};
use crate::rows::{response_conversations as conversations, responses};
use crate::sql::Lock;

/// Responses and conversations of the Responses API. Expired rows are not returned, and are deleted by later
/// writes.
impl Store {
    /// Stores a response that its client may continue, finished or with a runner.
    pub async fn save_response(&self, stored: &StoredResponse) -> StoreResult<()> {
        self.work("store a response", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            responses::save(&mut transaction, stored).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the response with this id unless it has expired.
    pub async fn response(&self, id: &str) -> StoreResult<Option<StoredResponse>> {
        self.work("read a response", async { responses::find(&mut self.swift.session().await?, id).await })
            .await
    }

    /// Returns the items of a conversation of this caller that contains an item's id, given as a text. The
    /// latest [`RECENT_RESPONSES`](crate::RECENT_RESPONSES) and the stored conversations are searched.
    pub async fn response_items_with(&self, owner: &str, text: &str) -> StoreResult<Option<String>> {
        self.work("read the items of responses", async {
            let mut session = self.swift.session().await?;
            match conversations::item_of(&mut session, owner, text.trim_matches('"')).await? {
                Some(item) => Ok(Some(item)),
                None => responses::items_with(&mut session, owner, text).await,
            }
        })
        .await
    }

    /// Returns the bytes of the stored responses and conversations of a caller.
    pub async fn stored_size(&self, owner: &str) -> StoreResult<i64> {
        self.work("add up the responses of a caller", async {
            responses::size_of(&mut self.swift.session().await?, owner).await
        })
        .await
    }

    /// Deletes the response with this id, if any, and its events.
    pub async fn delete_response(&self, id: &str) -> StoreResult<()> {
        self.work("delete a response", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            responses::delete(&mut transaction, id).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the runner of a response and the time of its last heartbeat; `None` if the response does not
    /// exist.
    pub async fn response_runner(&self, id: &str) -> StoreResult<Option<(String, i64)>> {
        self.work("read the runner of a response", async {
            responses::runner(&mut self.swift.session().await?, id).await
        })
        .await
    }

    /// Records a heartbeat of a runner. Returns `false` if the runner no longer owns the response: it was
    /// canceled, deleted, or taken for lost.
    pub async fn touch_response(&self, id: &str, runner: &str) -> StoreResult<bool> {
        self.work("record that a response is alive", async {
            responses::touch(&mut self.swift.session().await?, id, runner).await
        })
        .await
    }

    /// Updates the response of its runner, and finishes it if `is_over` is set. Returns `false` and changes
    /// nothing if the runner no longer owns it. `items` replaces the items of the conversation.
    pub async fn change_response(
        &self,
        id: &str,
        runner: &str,
        response: &str,
        items: Option<&str>,
        is_over: bool,
    ) -> StoreResult<bool> {
        self.work("update a response", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let changed = responses::change(&mut transaction, id, runner, response, items, is_over).await?;
            transaction.commit().await?;
            Ok(changed)
        })
        .await
    }

    /// Stores numbered events of a response, which expire at a time in milliseconds since 1970.
    pub async fn append_response_events(
        &self,
        id: &str,
        events: &[(i64, String)],
        expires_ms: i64,
    ) -> StoreResult<()> {
        self.work("store the events of a response", async {
            // Events are written continuously, so a power failure may lose the latest.
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            responses::append_events(&mut transaction, id, events, expires_ms).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns at most `limit` events of a response that follow the given number.
    pub async fn response_events(&self, id: &str, after: i64, limit: i64) -> StoreResult<Vec<(i64, String)>> {
        self.work("read the events of a response", async {
            responses::events(&mut self.swift.session().await?, id, after, limit).await
        })
        .await
    }

    /// Stores a new conversation.
    pub async fn save_response_conversation(&self, conversation: &ResponseConversation) -> StoreResult<()> {
        self.work("store a conversation", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            conversations::save(&mut transaction, conversation).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the conversation with this id unless it has expired.
    pub async fn response_conversation(&self, id: &str) -> StoreResult<Option<ResponseConversation>> {
        self.work("read a conversation", async {
            conversations::find(&mut self.swift.session().await?, id).await
        })
        .await
    }

    /// Replaces the metadata of a conversation.
    pub async fn set_conversation_metadata(&self, id: &str, metadata: &str) -> StoreResult<()> {
        self.work("update a conversation", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            conversations::set_metadata(&mut transaction, id, metadata).await?;
            transaction.commit().await
        })
        .await
    }

    /// Deletes a conversation with its items.
    pub async fn delete_response_conversation(&self, id: &str) -> StoreResult<()> {
        self.work("delete a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            conversations::delete(&mut transaction, id).await?;
            transaction.commit().await
        })
        .await
    }

    /// Appends items to a conversation, and sets its expiry. Returns `false` and adds none if the
    /// conversation does not exist or would exceed [`MAX_CONVERSATION_SIZE`](crate::MAX_CONVERSATION_SIZE).
    pub async fn append_conversation_items(
        &self,
        id: &str,
        items: &[ResponseItem],
        expires_ms: i64,
    ) -> StoreResult<bool> {
        self.work("add items to a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            let added = conversations::append(&mut transaction, id, items, expires_ms).await?;
            transaction.commit().await?;
            Ok(added)
        })
        .await
    }

    /// Returns the items of a conversation in order.
    pub async fn conversation_items(&self, id: &str) -> StoreResult<Vec<ResponseItem>> {
        self.work("read the items of a conversation", async {
            conversations::items(&mut self.swift.session().await?, id).await
        })
        .await
    }

    /// Deletes an item of a conversation. Returns `false` if the item does not exist.
    pub async fn delete_conversation_item(&self, conversation: &str, id: &str) -> StoreResult<bool> {
        self.work("delete an item of a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(conversation)).await?;
            let deleted = conversations::delete_item(&mut transaction, conversation, id).await?;
            transaction.commit().await?;
            Ok(deleted)
        })
        .await
    }
}
