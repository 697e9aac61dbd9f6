//! Questions that wait for a user. Hosts list the questions of each other, and send answers to the host of a
//! question, which accepts one of them.

use crate::error::StoreFuture;
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

/// Questions that wait for a user, and the answers that hosts send each other. Questions of a host without a
/// heartbeat within [`HOST_SILENCE`](crate::HOST_SILENCE) are not returned.
pub trait QuestionExchange: Send + Sync {
    /// Stores questions of a host; stored ones are unchanged. Deletes rows of questions that ended long ago.
    fn add_questions<'a>(&'a self, questions: &'a [StoredQuestion]) -> StoreFuture<'a, ()>;

    /// Deletes questions. Answers to them that were not accepted count as rejected.
    fn remove_questions<'a>(&'a self, ids: &'a [String]) -> StoreFuture<'a, ()>;

    /// Returns the questions for operators.
    fn held_questions(&self) -> StoreFuture<'_, Vec<StoredQuestion>>;

    /// Returns the question with this id.
    fn question<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<StoredQuestion>>;

    /// Sends an answer to the host of the question, and wakes it. Returns `false` if the question does not
    /// exist.
    fn send_answer<'a>(&'a self, sent: &'a SentAnswer) -> StoreFuture<'a, bool>;

    /// Returns the answers that wait for a host, in the order in which they were sent.
    fn waiting_answers<'a>(&'a self, host_id: &'a str) -> StoreFuture<'a, Vec<SentAnswer>>;

    /// Records that the host of the question accepted or rejected an answer, and wakes the host that sent it.
    fn settle_answer<'a>(&'a self, id: &'a str, is_taken: bool) -> StoreFuture<'a, ()>;

    /// Returns the state of a sent answer.
    fn answer_state<'a>(&'a self, id: &'a str) -> StoreFuture<'a, AnswerState>;

    /// Deletes a sent answer, and returns its last state; one that was still waiting is undeliverable.
    fn remove_answer<'a>(&'a self, id: &'a str) -> StoreFuture<'a, AnswerState>;
}
