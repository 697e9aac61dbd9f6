//! The data of the Responses API: responses, the events of background responses, and conversations.

use crate::error::StoreFuture;
use std::time::Duration;

/// The number of a caller's latest responses that are searched for an item.
pub const RECENT_RESPONSES: i64 = 100;
/// The time without a heartbeat after which a runner has lost its response.
pub const RUNNER_SILENCE: Duration = Duration::from_secs(15);
/// The maximum size of all items of a conversation, in bytes.
pub const MAX_CONVERSATION_SIZE: i64 = 16 << 20;

/// A response that its client may continue, read and delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// Its id, `resp_…`.
    pub id: String,
    /// The caller that it belongs to; other callers cannot find it.
    pub owner: String,
    /// The time when it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// The number of input items.
    pub input_items: usize,
    /// The items of the conversation so far as a JSON list: input, then output.
    pub items: String,
    /// The response as JSON.
    pub response: String,
    /// The process that is creating it; empty when it is finished.
    pub runner: String,
    /// The time of its runner's last heartbeat, in milliseconds since 1970.
    pub seen_ms: i64,
}

impl StoredResponse {
    /// Returns the size of its items and its JSON together, in bytes.
    pub fn size(&self) -> usize {
        self.items.len() + self.response.len()
    }
}

/// A conversation of the Responses API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseConversation {
    /// Its id, `conv_…`.
    pub id: String,
    /// The caller that it belongs to; other callers cannot find it.
    pub owner: String,
    /// The time of creation, in milliseconds since 1970.
    pub created_ms: i64,
    /// The time when it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// The metadata set by its client, as a JSON object.
    pub metadata: String,
}

/// An item of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseItem {
    /// Its id.
    pub id: String,
    /// The item as JSON.
    pub item: String,
}

/// Responses and conversations of the Responses API. Expired rows are not returned, and are deleted by later
/// writes.
pub trait Responses: Send + Sync {
    /// Stores a response that its client may continue, finished or with a runner.
    fn save_response<'a>(&'a self, stored: &'a StoredResponse) -> StoreFuture<'a, ()>;

    /// Returns the response with this id unless it has expired.
    fn response<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<StoredResponse>>;

    /// Returns the items of a conversation of this caller that contains an item's id, given as a text. The
    /// latest [`RECENT_RESPONSES`] and the stored conversations are searched.
    fn response_items_with<'a>(&'a self, owner: &'a str, text: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Returns the bytes of the stored responses and conversations of a caller.
    fn stored_size<'a>(&'a self, owner: &'a str) -> StoreFuture<'a, i64>;

    /// Deletes the response with this id, if any, and its events.
    fn delete_response<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;

    /// Returns the runner of a response and the time of its last heartbeat; `None` if the response does not
    /// exist.
    fn response_runner<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<(String, i64)>>;

    /// Records a heartbeat of a runner. Returns `false` if the runner no longer owns the response: it was
    /// canceled, deleted, or taken for lost.
    fn touch_response<'a>(&'a self, id: &'a str, runner: &'a str) -> StoreFuture<'a, bool>;

    /// Updates the response of its runner, and finishes it if `is_over` is set. Returns `false` and changes
    /// nothing if the runner no longer owns it. `items` replaces the items of the conversation.
    fn change_response<'a>(
        &'a self,
        id: &'a str,
        runner: &'a str,
        response: &'a str,
        items: Option<&'a str>,
        is_over: bool,
    ) -> StoreFuture<'a, bool>;

    /// Stores numbered events of a response, which expire at a time in milliseconds since 1970.
    fn append_response_events<'a>(
        &'a self,
        id: &'a str,
        events: &'a [(i64, String)],
        expires_ms: i64,
    ) -> StoreFuture<'a, ()>;

    /// Returns at most `limit` events of a response that follow the given number.
    fn response_events<'a>(
        &'a self,
        id: &'a str,
        after: i64,
        limit: i64,
    ) -> StoreFuture<'a, Vec<(i64, String)>>;

    /// Stores a new conversation.
    fn save_response_conversation<'a>(
        &'a self,
        conversation: &'a ResponseConversation,
    ) -> StoreFuture<'a, ()>;

    /// Returns the conversation with this id unless it has expired.
    fn response_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<ResponseConversation>>;

    /// Replaces the metadata of a conversation.
    fn set_conversation_metadata<'a>(&'a self, id: &'a str, metadata: &'a str) -> StoreFuture<'a, ()>;

    /// Deletes a conversation with its items.
    fn delete_response_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;

    /// Appends items to a conversation, and sets its expiry. Returns `false` and adds none if the
    /// conversation does not exist or would exceed [`MAX_CONVERSATION_SIZE`].
    fn append_conversation_items<'a>(
        &'a self,
        id: &'a str,
        items: &'a [ResponseItem],
        expires_ms: i64,
    ) -> StoreFuture<'a, bool>;

    /// Returns the items of a conversation in order.
    fn conversation_items<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Vec<ResponseItem>>;

    /// Deletes an item of a conversation. Returns `false` if the item does not exist.
    fn delete_conversation_item<'a>(&'a self, conversation: &'a str, id: &'a str) -> StoreFuture<'a, bool>;
}
