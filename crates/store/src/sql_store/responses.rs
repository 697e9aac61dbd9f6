//! [`Responses`] in an SQL database. Each method is one transaction.

use super::database::SqlStore;
use crate::error::StoreFuture;
use crate::responses::{ResponseConversation, ResponseItem, Responses, StoredResponse};
use crate::rows::{response_conversations as conversations, responses};
use crate::sql::Lock;

impl Responses for SqlStore {
    fn save_response<'a>(&'a self, stored: &'a StoredResponse) -> StoreFuture<'a, ()> {
        self.work("store a response", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            responses::save(&mut transaction, stored).await?;
            transaction.commit().await
        })
    }

    fn response<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<StoredResponse>> {
        self.work(
            "read a response",
            async move { responses::find(&mut self.swift.session().await?, id).await },
        )
    }

    fn response_items_with<'a>(&'a self, owner: &'a str, text: &'a str) -> StoreFuture<'a, Option<String>> {
        self.work("read the items of responses", async move {
            let mut session = self.swift.session().await?;
            match conversations::item_of(&mut session, owner, text.trim_matches('"')).await? {
                Some(item) => Ok(Some(item)),
                None => responses::items_with(&mut session, owner, text).await,
            }
        })
    }

    fn stored_size<'a>(&'a self, owner: &'a str) -> StoreFuture<'a, i64> {
        self.work("add up the responses of a caller", async move {
            responses::size_of(&mut self.swift.session().await?, owner).await
        })
    }

    fn delete_response<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()> {
        self.work("delete a response", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            responses::delete(&mut transaction, id).await?;
            transaction.commit().await
        })
    }

    fn response_runner<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<(String, i64)>> {
        self.work("read the runner of a response", async move {
            responses::runner(&mut self.swift.session().await?, id).await
        })
    }

    fn touch_response<'a>(&'a self, id: &'a str, runner: &'a str) -> StoreFuture<'a, bool> {
        self.work("record that a response is alive", async move {
            responses::touch(&mut self.swift.session().await?, id, runner).await
        })
    }

    fn change_response<'a>(
        &'a self,
        id: &'a str,
        runner: &'a str,
        response: &'a str,
        items: Option<&'a str>,
        is_over: bool,
    ) -> StoreFuture<'a, bool> {
        self.work("update a response", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let changed = responses::change(&mut transaction, id, runner, response, items, is_over).await?;
            transaction.commit().await?;
            Ok(changed)
        })
    }

    fn append_response_events<'a>(
        &'a self,
        id: &'a str,
        events: &'a [(i64, String)],
        expires_ms: i64,
    ) -> StoreFuture<'a, ()> {
        self.work("store the events of a response", async move {
            // Events are written continuously, so a power failure may lose the latest.
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            responses::append_events(&mut transaction, id, events, expires_ms).await?;
            transaction.commit().await
        })
    }

    fn response_events<'a>(
        &'a self,
        id: &'a str,
        after: i64,
        limit: i64,
    ) -> StoreFuture<'a, Vec<(i64, String)>> {
        self.work("read the events of a response", async move {
            responses::events(&mut self.swift.session().await?, id, after, limit).await
        })
    }

    fn save_response_conversation<'a>(
        &'a self,
        conversation: &'a ResponseConversation,
    ) -> StoreFuture<'a, ()> {
        self.work("store a conversation", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            conversations::save(&mut transaction, conversation).await?;
            transaction.commit().await
        })
    }

    fn response_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<ResponseConversation>> {
        self.work("read a conversation", async move {
            conversations::find(&mut self.swift.session().await?, id).await
        })
    }

    fn set_conversation_metadata<'a>(&'a self, id: &'a str, metadata: &'a str) -> StoreFuture<'a, ()> {
        self.work("update a conversation", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            conversations::set_metadata(&mut transaction, id, metadata).await?;
            transaction.commit().await
        })
    }

    fn delete_response_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()> {
        self.work("delete a conversation", async move {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            conversations::delete(&mut transaction, id).await?;
            transaction.commit().await
        })
    }

    fn append_conversation_items<'a>(
        &'a self,
        id: &'a str,
        items: &'a [ResponseItem],
        expires_ms: i64,
    ) -> StoreFuture<'a, bool> {
        self.work("add items to a conversation", async move {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            let added = conversations::append(&mut transaction, id, items, expires_ms).await?;
            transaction.commit().await?;
            Ok(added)
        })
    }

    fn conversation_items<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Vec<ResponseItem>> {
        self.work("read the items of a conversation", async move {
            conversations::items(&mut self.swift.session().await?, id).await
        })
    }

    fn delete_conversation_item<'a>(&'a self, conversation: &'a str, id: &'a str) -> StoreFuture<'a, bool> {
        self.work("delete an item of a conversation", async move {
            let mut transaction = self.begin(Lock::Conversation(conversation)).await?;
            let deleted = conversations::delete_item(&mut transaction, conversation, id).await?;
            transaction.commit().await?;
            Ok(deleted)
        })
    }
}
