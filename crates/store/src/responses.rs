//! The contract of stores for the Responses API: responses, the events of those in the background, conversations.

use crate::error::StoreFuture;
use std::time::Duration;

/// The number of a caller's latest responses among which a single item is found.
pub const RECENT_RESPONSES: i64 = 100;
/// A response whose runner was not heard of for this long has lost it.
pub const RUNNER_SILENCE: Duration = Duration::from_secs(15);
/// The most bytes of all items of a conversation.
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
    /// The number of items that are its input.
    pub input_items: usize,
    /// The items of the conversation up to it as a JSON list: input, then output.
    pub items: String,
    /// The response as JSON.
    pub response: String,
    /// The process that still works on it; empty once it is over.
    pub runner: String,
    /// The time when its runner was heard of, in milliseconds since 1970.
    pub seen_ms: i64,
}

/// A conversation of the Responses API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseConversation {
    /// Its id, `conv_…`.
    pub id: String,
    /// The caller that it belongs to; other callers cannot find it.
    pub owner: String,
    /// The time when it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// The time when it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// The words that its client attached to it, a JSON object.
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

/// Responses and conversations of the Responses API. What has expired is not found, and is dropped when something is
/// stored.
pub trait Responses: Send + Sync {
    /// Stores a response that its client may continue, whole or with a runner.
    fn save_response<'a>(&'a self, stored: &'a StoredResponse) -> StoreFuture<'a, ()>;

    /// Returns a response of this id that has not expired.
    fn response<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<StoredResponse>>;

    /// Returns the items of a conversation of this caller that hold this text, an item's id: of the latest
    /// [`RECENT_RESPONSES`] and of the conversations.
    fn response_items_with<'a>(&'a self, owner: &'a str, text: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Deletes a response, if there is one of this id, and its events.
    fn delete_response<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;

    /// Returns the runner of a response and the time when it was heard of; `None` if there is no such response.
    fn response_runner<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<(String, i64)>>;

    /// A runner says that it still works on a response. Returns `false` if it is not its own any more: canceled,
    /// deleted, or given up for lost.
    fn touch_response<'a>(&'a self, id: &'a str, runner: &'a str) -> StoreFuture<'a, bool>;

    /// Changes the response of a runner that still works on it, which is over if `is_over`. Returns `false`, and changes
    /// nothing, if it is not its own any more. `items` are those of the conversation, where they are others.
    fn change_response<'a>(
        &'a self,
        id: &'a str,
        runner: &'a str,
        response: &'a str,
        items: Option<&'a str>,
        is_over: bool,
    ) -> StoreFuture<'a, bool>;

    /// Stores events of a response by their numbers, until a time in milliseconds since 1970.
    fn append_response_events<'a>(
        &'a self,
        id: &'a str,
        events: &'a [(i64, String)],
        expires_ms: i64,
    ) -> StoreFuture<'a, ()>;

    /// Returns the events of a response after the one of a number, at most so many.
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

    /// Returns a conversation of this id that has not expired.
    fn response_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<ResponseConversation>>;

    /// Puts other metadata in place of those of a conversation.
    fn set_conversation_metadata<'a>(&'a self, id: &'a str, metadata: &'a str) -> StoreFuture<'a, ()>;

    /// Deletes a conversation with its items.
    fn delete_response_conversation<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;

    /// Adds items at the end of a conversation, which expires at this time from then on. Returns `false`, and adds none,
    /// if it is gone or would be larger than [`MAX_CONVERSATION_SIZE`].
    fn append_conversation_items<'a>(
        &'a self,
        id: &'a str,
        items: &'a [ResponseItem],
        expires_ms: i64,
    ) -> StoreFuture<'a, bool>;

    /// Returns the items of a conversation in their order.
    fn conversation_items<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Vec<ResponseItem>>;

    /// Deletes an item of a conversation. Returns `false` if it has none of this id.
    fn delete_conversation_item<'a>(&'a self, conversation: &'a str, id: &'a str) -> StoreFuture<'a, bool>;
}
