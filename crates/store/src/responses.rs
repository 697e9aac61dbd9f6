//! Responses of the Responses API as rows.

/// The number of a caller's latest responses among which a single item is found.
pub const RECENT_RESPONSES: i64 = 100;

/// A response that its client may continue, read and delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// Its id, `resp_…`.
    pub id: String,
    /// The caller whose it is: nobody else finds it.
    pub owner: String,
    /// The time when it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// The number of items that are its input.
    pub input_items: usize,
    /// The items of the conversation up to it as a JSON list: input, then output.
    pub items: String,
    /// The response as JSON.
    pub response: String,
}
