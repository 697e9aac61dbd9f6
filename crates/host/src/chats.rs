//! The stored conversations of users, for scripts.

use futures::future::{BoxFuture, FutureExt};
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_dialect::call::resources::{ChatRecord, Chats};
use valvehouse_json::Json;
use valvehouse_store::{Conversation, Store};

/// The conversations of a store.
pub(crate) struct StoredChats(pub(crate) Arc<Store>);

impl std::fmt::Debug for StoredChats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredChats")
    }
}

impl Chats for StoredChats {
    fn list(
        &self,
        user: String,
        before: Option<i64>,
        limit: u64,
    ) -> BoxFuture<'static, Result<Vec<ChatRecord>, Error>> {
        let store = self.0.clone();
        async move {
            let own = store.conversations_of(&user, before, limit).await?;
            Ok(own.into_iter().map(record).collect())
        }
        .boxed()
    }

    fn messages(
        &self,
        user: String,
        id: String,
        from: u64,
        to: u64,
    ) -> BoxFuture<'static, Result<Option<Vec<Json>>, Error>> {
        let store = self.0.clone();
        async move {
            if store.conversation_of(&user, &id).await?.is_none() {
                return Ok(None);
            }
            Ok(Some(store.messages(&id, from, to).await?))
        }
        .boxed()
    }
}

fn record(conversation: Conversation) -> ChatRecord {
    let summary = conversation.kept.at_path("summarization.summary");
    ChatRecord {
        id: conversation.id,
        model: conversation.agent,
        length: conversation.length,
        summary: summary.as_str().filter(|text| !text.is_empty()).map(str::to_owned),
        created_at: conversation.created_at,
        updated_at: conversation.updated_at,
    }
}
