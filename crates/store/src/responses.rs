//! The data of the Responses API: responses, the events of background responses, and conversations.

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
