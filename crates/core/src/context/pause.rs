//! Turns that pause for a person and resume later, possibly in another process.
//!
//! A question that cannot be answered now ends its step. When the step runs again, the same question by the
//! same plugin at the same position receives the stored answer. An answer is bound to the exact question: with
//! other arguments, the question is asked again.

use super::host_calls::{HostCall, HostCalls, HostResult};
use crate::text::hex;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use valvehouse_json::Json;

/// The question that a paused turn waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingQuestion {
    /// The source of the question: a plugin, a tool or a middleware.
    pub by: String,
    /// The number of earlier questions from this source in the step.
    pub place: u32,
    /// The question, `{type, data}`.
    pub question: Json,
    /// The tool call in which the question is asked, `{id, name, arguments}`. Null if there is none or if a
    /// script made the call.
    pub call: Json,
    /// The tool calls by scripts in which the question is asked; "" if there are none.
    pub within: String,
}

impl PendingQuestion {
    /// Returns the hash that an answer is bound to: SHA-256 of source, position and question, in hexadecimal.
    pub fn hash(&self) -> String {
        let exact = Json::from([
            ("by", self.by.as_str().into()),
            ("place", i64::from(self.place).into()),
            ("question", self.question.clone()),
            ("call", self.call.field("id")),
        ]);
        if !self.within.is_empty() {
            // The object is new and holds a new text, so the write cannot fail.
            exact.edit("within", self.within.as_str());
        }
        hex(&Sha256::digest(exact.to_string()))
    }
}

/// The questions and answers of one step of a turn that can pause.
#[derive(Debug, Default)]
pub struct Pauses(Mutex<Step>);

#[derive(Debug, Default)]
struct Step {
    answers: BTreeMap<String, Json>,
    counts: HashMap<String, u32>,
    calls: HostCalls,
    call: Json,
    pending: Option<PendingQuestion>,
}

impl Step {
    /// Counts a key and returns its previous count in this run of the step.
    fn count(&mut self, key: String) -> u32 {
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count - 1
    }
}

impl Pauses {
    /// Starts or restarts a step: its questions are asked again, and stored answers are preserved. `call` is
    /// its tool call, `{id, name, arguments}`, or null.
    pub fn begin(&self, call: Json) {
        let mut step = self.0.lock();
        (step.call, step.pending) = (call, None);
        step.counts.clear();
        step.calls.begin();
    }

    /// Ends the step and removes its questions and answers.
    pub fn end(&self) {
        *self.0.lock() = Step::default();
    }

    /// Returns the tool call of this step, `{id, name, arguments}`, or null.
    pub fn call(&self) -> Json {
        self.0.lock().call.clone()
    }

    /// Stores the answer to a question of this step, identified by its hash.
    pub fn answer(&self, hash: impl Into<String>, answer: Json) {
        self.0.lock().answers.insert(hash.into(), answer);
    }

    /// Returns the answers so far, an object by hash, to be stored with a paused turn.
    pub fn answers(&self) -> Json {
        let answers = self.0.lock().answers.clone();
        Json::Object(answers.into_iter().map(|(hash, answer)| (hash.into(), answer)).collect())
    }

    /// Returns the host calls of this step with their results, null if there are none, to be stored with a
    /// paused turn.
    pub fn host_calls(&self) -> Json {
        self.0.lock().calls.to_json()
    }

    /// Restores the results of host calls returned by [`Pauses::host_calls`].
    pub fn restore_host_calls(&self, calls: &Json) {
        self.0.lock().calls = HostCalls::from_json(calls);
    }

    /// Records a host call of a plugin and returns how to handle it.
    pub fn host_call(&self, by: &str, name: &str, arguments: &Json) -> HostCall {
        self.0.lock().calls.call(by, name, arguments)
    }

    /// Records the result of a new host call; `None` if it was interrupted.
    pub fn host_called(&self, by: &str, place: usize, result: Option<HostResult>) {
        self.0.lock().calls.end(by, place, result);
    }

    /// Counts a log line or an event of a plugin. Returns `true` if it was already written before the pause.
    pub fn was_reported(&self, by: &str) -> bool {
        self.0.lock().calls.was_reported(by)
    }

    /// Returns the question that the turn waits for.
    pub fn pending(&self) -> Option<PendingQuestion> {
        self.0.lock().pending.clone()
    }

    /// Returns `true` if the turn waits for a person.
    pub fn is_paused(&self) -> bool {
        self.0.lock().pending.is_some()
    }

    /// Returns a question with its answer, if already stored.
    pub(super) fn question_with_answer(
        &self,
        by: &str,
        within: &str,
        question: &Json,
    ) -> (PendingQuestion, Option<Json>) {
        let mut step = self.0.lock();
        let key = if within.is_empty() { by.to_owned() } else { format!("{by} in {within}") };
        let place = step.count(key);
        // A person can change the arguments of a model's tool call, but not of a nested call.
        let call = if within.is_empty() { step.call.clone() } else { Json::Null };
        let pending = PendingQuestion {
            by: by.to_owned(),
            place,
            question: question.deep_clone(),
            call,
            within: within.to_owned(),
        };
        let answer = step.answers.get(&pending.hash()).map(Json::deep_clone);
        (pending, answer)
    }

    /// Returns a name for the position in a plugin's host calls, the same in each run of the step.
    pub(super) fn place_of(&self, by: &str) -> String {
        self.0.lock().calls.place_of(by)
    }

    /// Counts a key and returns its previous count in this run of the step.
    pub(super) fn count(&self, key: &str) -> u32 {
        self.0.lock().count(key.to_owned())
    }

    /// Pauses the step for a person. Only the first question of a step is stored.
    pub(super) fn pause(&self, pending: PendingQuestion) {
        self.0.lock().pending.get_or_insert(pending);
    }
}

#[cfg(test)]
mod tests {
    use crate::context::{Context, EmittedEvent, Events, NobodyAnswers, Pauses, Questions, Turn, TurnFacts};
    use std::time::Duration;
    use valvehouse_json::Json;

    const SHORT: Duration = Duration::from_millis(50);

    fn question(text: &str) -> Json {
        Json::from([("type", "input".into()), ("data", text.into())])
    }

    #[tokio::test]
    async fn an_unanswerable_question_pauses_the_run_and_finds_its_answer_on_resume() {
        let turn = Turn::default().pausing(Pauses::default());
        let pauses = turn.pauses().unwrap();
        pauses.begin(Json::Null);
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::Paused));
        assert!(turn.is_paused());
        let pending = pauses.pending().unwrap();
        pauses.answer(pending.hash(), "yes".into());
        pauses.begin(Json::Null);
        assert!(!turn.is_paused());
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Ok("yes".into()));
        // A repeated question is a separate question.
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::Paused));
        pauses.end();
        pauses.begin(Json::Null);
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::Paused));
    }

    #[tokio::test]
    async fn an_answer_matches_only_the_same_question_of_the_same_plugin() {
        let turn = Turn::default().pausing(Pauses::default());
        let pauses = turn.pauses().unwrap();
        pauses.begin(Json::Null);
        let _ = turn.ask("a", question("pay 10"), SHORT).await;
        pauses.answer(pauses.pending().unwrap().hash(), "yes".into());
        for (by, text, place) in [("a", "pay 11", 0), ("b", "pay 10", 0)] {
            pauses.begin(Json::Null);
            assert_eq!(turn.ask(by, question(text), SHORT).await, Err(NobodyAnswers::Paused), "{by} {text}");
            assert_eq!(pauses.pending().unwrap().place, place);
        }
        pauses.begin(Json::from([("id", "call_2".into())]));
        assert_eq!(
            turn.ask("a", question("pay 10"), SHORT).await,
            Err(NobodyAnswers::Paused),
            "another call"
        );
    }

    #[tokio::test]
    async fn a_question_left_open_pauses_the_run() {
        let questions = Questions::default();
        let leave = questions.clone();
        let listener = move |event: &EmittedEvent| assert!(leave.dismiss(&event.0.text("id").unwrap()));
        let events = Events::listening(listener, Some(questions));
        let turn = Turn::new(TurnFacts::default(), Context::default(), events).pausing(Pauses::default());
        turn.pauses().unwrap().begin(Json::Null);
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::Paused));
        assert!(turn.is_paused());
    }

    #[tokio::test]
    async fn a_turn_that_cannot_pause_reports_that_nobody_answers() {
        let turn = Turn::default();
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::NoListener));
        assert!(!turn.is_paused());
    }
}
