//! What came back to a plugin.

use bytes::Bytes;

/// An answer's body may be this large, unpacked.
pub const MAX_ANSWER: usize = 2 * 1024 * 1024;

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status; every one is an answer.
    pub status: u16,
    /// Headers by their names in lower case, as often as they came.
    pub headers: Vec<(String, String)>,
    /// The body, unpacked.
    pub body: Bytes,
}
