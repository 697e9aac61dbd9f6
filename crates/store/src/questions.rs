//! Questions that wait for a user. Hosts list the questions of each other, and send answers to the host of a
//! question, which accepts one of them.

use valvehouse_json::Json;

/// A question that waits at one host.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredQuestion {
    /// Its id.
    pub id: String,
    /// The id of its host.
    pub host_id: String,
    /// The user whom it is addressed to.
    pub whose: String,
    /// The question for operators; `None` if it is not listed for them.
    pub held: Option<Json>,
    /// The time at which it was asked, in milliseconds since 1970.
    pub since_ms: i64,
    /// The time at which it expires, in milliseconds since 1970.
    pub ends_ms: i64,
}

/// An answer that is sent to the host of the question.
#[derive(Debug, Clone, PartialEq)]
pub struct SentAnswer {
    /// The id of the answer.
    pub id: String,
    /// The id of the question.
    pub question: String,
    /// The user who answers; `None` for an operator.
    pub by: Option<String>,
    /// The answer.
    pub answer: Json,
}

/// The state of a sent answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    /// The host of the question has not read it.
    Waiting,
    /// The host accepted it, and the turn continues with it.
    Taken,
    /// The question was answered or ended before, or the answer was deleted.
    Refused,
}
