//! The contract of stores for questions that wait for a person: hosts list those of each other and send answers to the host
//! that asked, which takes one.

use crate::error::StoreFuture;
use valvehouse_json::Json;

/// A question that waits for a person at one host.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredQuestion {
    /// Its id.
    pub id: String,
    /// The id of the host that asked.
    pub host_id: String,
    /// The one whom it is for.
    pub whose: String,
    /// The question as an operator reads it; `None` where only its client was asked.
    pub held: Option<Json>,
    /// The time when it was asked, in milliseconds since 1970.
    pub since_ms: i64,
    /// The time when it ends without an answer, in milliseconds since 1970.
    pub ends_ms: i64,
}

/// An answer on its way to the host that asked.
#[derive(Debug, Clone, PartialEq)]
pub struct SentAnswer {
    /// An id of its own.
    pub id: String,
    /// The id of the question.
    pub question: String,
    /// The one who answers, of those whom questions are for; `None` for an operator.
    pub by: Option<String>,
    /// The answer.
    pub answer: Json,
}

/// The state of a sent answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    /// The host that asked has not read it.
    Waiting,
    /// The turn goes on with it.
    Taken,
    /// The question was answered or ended before, or the answer is deleted.
    Refused,
}

/// Questions that wait for a person, and the answers that hosts send each other. Those of a host that was not heard of within
/// [`HOST_SILENCE`](crate::HOST_SILENCE) are not found.
pub trait QuestionExchange: Send + Sync {
    /// Lists questions of a host; those that are listed already stay. Drops what is left of questions that ended long ago.
    fn add_questions<'a>(&'a self, questions: &'a [StoredQuestion]) -> StoreFuture<'a, ()>;

    /// Removes questions from the list. Answers that were sent and not taken are rejected from then on.
    fn remove_questions<'a>(&'a self, ids: &'a [String]) -> StoreFuture<'a, ()>;

    /// Returns the questions that operators find in a list.
    fn held_questions(&self) -> StoreFuture<'_, Vec<StoredQuestion>>;

    /// Returns the question of this id.
    fn question<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<StoredQuestion>>;

    /// Sends an answer to the host that asked, and wakes it. Returns `false` if there is no such question.
    fn send_answer<'a>(&'a self, sent: &'a SentAnswer) -> StoreFuture<'a, bool>;

    /// Returns the answers that wait for a host, in the order in which they were sent.
    fn waiting_answers<'a>(&'a self, host_id: &'a str) -> StoreFuture<'a, Vec<SentAnswer>>;

    /// The host that asked took an answer, or refused it: wakes the host that sent it.
    fn settle_answer<'a>(&'a self, id: &'a str, is_taken: bool) -> StoreFuture<'a, ()>;

    /// Returns the state of a sent answer.
    fn answer_state<'a>(&'a self, id: &'a str) -> StoreFuture<'a, AnswerState>;

    /// Removes a sent answer, and returns its last state: one that was still waiting is undeliverable.
    fn remove_answer<'a>(&'a self, id: &'a str) -> StoreFuture<'a, AnswerState>;
}
