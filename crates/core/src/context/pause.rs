//! A turn that stops for a person and goes on later, perhaps in another process.
//!
//! A question that nobody can answer now ends the step in which it is asked. When the step runs again,
//! the same question, asked by the same plugin at the same place, finds its answer. An answer belongs
//! to the exact words of its question: other arguments, and it is asked anew.

use super::host_calls::{HostCall, HostCalls, HostResult};
use crate::words::hex;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use valvehouse_json::Json;

/// The question that a paused turn waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The part that asks: a plugin, a tool, a middleware.
    pub by: String,
    /// The number of questions that it had asked in this step before.
    pub place: u32,
    /// The question, `{type, data}`.
    pub question: Json,
    /// The tool call within which it is asked, `{id, name, arguments}`, or null; null as well within a call that a
    /// script makes.
    pub call: Json,
    /// The calls of tools by scripts within which it is asked, "" where there are none.
    pub within: String,
}

impl Pending {
    /// The hash that an answer is bound to: SHA-256 over who asks, where, and the exact question, hex.
    pub fn hash(&self) -> String {
        let exact = Json::from([
            ("by", self.by.as_str().into()),
            ("place", i64::from(self.place).into()),
            ("question", self.question.clone()),
            ("call", self.call.field("id")),
        ]);
        if !self.within.is_empty() {
            // A new text in a new object: it fits.
            exact.edit("within", self.within.as_str());
        }
        hex(&Sha256::digest(exact.to_string()))
    }
}

/// The questions and answers of one step of a turn that may pause.
#[derive(Debug, Default)]
pub struct Pauses(Mutex<Step>);

#[derive(Debug, Default)]
struct Step {
    answers: BTreeMap<String, Json>,
    asked: HashMap<String, u32>,
    calls: HostCalls,
    call: Json,
    pending: Option<Pending>,
}

impl Step {
    /// Returns how often something was counted in this run of the step.
    fn count(&mut self, key: String) -> u32 {
        let count = self.asked.entry(key).or_default();
        *count += 1;
        *count - 1
    }
}

impl Pauses {
    /// The next step begins, or runs again: the same questions will be asked, and the answers are kept.
    pub fn begin(&self, call: Json) {
        let mut step = self.0.lock();
        (step.call, step.pending) = (call, None);
        step.asked.clear();
        step.calls.begin();
    }

    /// The step is done: nobody will ask its questions again.
    pub fn end(&self) {
        *self.0.lock() = Step::default();
    }

    /// The tool call that this step makes, `{id, name, arguments}`, or null.
    pub fn call(&self) -> Json {
        self.0.lock().call.clone()
    }

    /// Answers a question of this step by its hash.
    pub fn answer(&self, hash: impl Into<String>, answer: Json) {
        self.0.lock().answers.insert(hash.into(), answer);
    }

    /// The answers so far, by hash: what has to be kept with a paused turn.
    pub fn answers(&self) -> Json {
        let answers = self.0.lock().answers.clone();
        Json::Object(answers.into_iter().map(|(hash, answer)| (hash.into(), answer)).collect())
    }

    /// The host calls of this step with their results, null if there are none: what has to be kept with a paused turn.
    pub fn host_calls(&self) -> Json {
        self.0.lock().calls.to_json()
    }

    /// Gives the step the results of host calls that [`Pauses::host_calls`] returned.
    pub fn restore_host_calls(&self, calls: &Json) {
        self.0.lock().calls = HostCalls::from_json(calls);
    }

    /// A host call of a plugin is about to be made.
    pub fn host_call(&self, by: &str, name: &str, arguments: &Json) -> HostCall {
        self.0.lock().calls.call(by, name, arguments)
    }

    /// Notes the result of a new host call; `None` if it was ended before it had one.
    pub fn host_called(&self, by: &str, place: usize, result: Option<HostResult>) {
        self.0.lock().calls.end(by, place, result);
    }

    /// Counts a line of the log or an event of a plugin; returns `true` if it was written before the step paused.
    pub fn was_reported(&self, by: &str) -> bool {
        self.0.lock().calls.was_reported(by)
    }

    /// The question that the turn waits for.
    pub fn pending(&self) -> Option<Pending> {
        self.0.lock().pending.clone()
    }

    /// Returns `true` if the turn waits for a person.
    pub fn is_paused(&self) -> bool {
        self.0.lock().pending.is_some()
    }

    /// A question, with its answer where there is one already.
    pub(super) fn asked(&self, by: &str, within: &str, question: &Json) -> (Pending, Option<Json>) {
        let mut step = self.0.lock();
        let key = if within.is_empty() { by.to_owned() } else { format!("{by} in {within}") };
        let place = step.count(key);
        // A person may change the arguments of a model's call, and of no call beneath it.
        let call = if within.is_empty() { step.call.clone() } else { Json::Null };
        let pending =
            Pending { by: by.to_owned(), place, question: question.copy(), call, within: within.to_owned() };
        let answer = step.answers.get(&pending.hash()).map(Json::copy);
        (pending, answer)
    }

    /// Returns a name for the place in the host calls of a plugin, the same in each run of the step.
    pub(super) fn place_of(&self, by: &str) -> String {
        self.0.lock().calls.place_of(by)
    }

    /// Returns how often this was counted before in this run of the step.
    pub(super) fn count(&self, key: &str) -> u32 {
        self.0.lock().count(key.to_owned())
    }

    /// Waits for a person; the first question of a step is the one.
    pub(super) fn pause(&self, pending: Pending) {
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
    async fn a_question_nobody_can_answer_pauses_and_its_answer_is_found_when_it_is_asked_again() {
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
        // The same words a second time are a question of their own.
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::Paused));
        pauses.end();
        pauses.begin(Json::Null);
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::Paused));
    }

    #[tokio::test]
    async fn an_answer_belongs_to_the_exact_question_of_who_asked() {
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
    async fn a_question_that_the_person_leaves_open_pauses_too() {
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
    async fn a_turn_that_cannot_pause_says_that_nobody_answers() {
        let turn = Turn::default();
        assert_eq!(turn.ask("a", question("x"), SHORT).await, Err(NobodyAnswers::NoListener));
        assert!(!turn.is_paused());
    }
}
