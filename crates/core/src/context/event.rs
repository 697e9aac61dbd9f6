//! Events that plugins emit for users, and questions that they ask users.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, oneshot};
use valvehouse_json::{Json, Unwritable};

/// An emitted event: `{type, data}`, with an `id` if it is a question.
#[derive(Debug, Clone)]
pub struct EmittedEvent(pub Json);

/// A question was not answered in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NobodyAnswers {
    /// The client does not accept events, or only shows them as Open WebUI does, so it cannot answer.
    NoListener,
    /// The question timed out after this number of milliseconds.
    Timeout(u64),
    /// The question was dismissed.
    Gone,
    /// No client can answer now, so the turn pauses until an answer arrives.
    Paused,
    /// The question could not be sent.
    Unsent(UnsentEvent),
}

impl fmt::Display for NobodyAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoListener => {
                f.write_str(
                    "nobody can answer: the client of this request cannot answer questions, as is the case in Open WebUI; \
                     send it from a client that streams with the header `x-valvehouse-events: 1`",
                )
            }
            Self::Timeout(ms) => write!(f, "no answer within {ms} ms"),
            Self::Gone => f.write_str("no user can answer"),
            Self::Paused => f.write_str("the turn pauses until somebody answers"),
            Self::Unsent(unsent) => unsent.fmt(f),
        }
    }
}

impl std::error::Error for NobodyAnswers {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unsent(unsent) => unsent.source(),
            _ => None,
        }
    }
}

impl From<UnsentEvent> for NobodyAnswers {
    fn from(unsent: UnsentEvent) -> Self {
        Self::Unsent(unsent)
    }
}

/// The maximum size of an event, in bytes of its JSON.
const LARGEST_EVENT: usize = 1 << 20;
/// The maximum size of all events of one turn, in bytes, since clients may read them slowly.
const ALL_EVENTS: usize = 8 << 20;

/// The maximum delay of a question until other hosts list it.
const LISTING_DEADLINE: Duration = Duration::from_secs(1);

/// The maximum number of events that a turn without a listener stores.
const MAX_KEPT: usize = 2_000;

/// The error of an event that was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsentEvent {
    /// The event cannot be serialized.
    Unwritable(Unwritable),
    /// The turn has reached its limit of event bytes.
    TooMany,
}

impl fmt::Display for UnsentEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwritable(unwritable) => write!(f, "an event is {unwritable}"),
            Self::TooMany => {
                write!(f, "the events of a turn may take {} MiB together, and they do", ALL_EVENTS >> 20)
            }
        }
    }
}

impl std::error::Error for UnsentEvent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unwritable(unwritable) => Some(unwritable),
            Self::TooMany => None,
        }
    }
}

impl From<Unwritable> for UnsentEvent {
    fn from(unwritable: Unwritable) -> Self {
        Self::Unwritable(unwritable)
    }
}

/// A function that receives an event and the number of answer chunks that were sent before it.
type Listener = Box<dyn Fn(&EmittedEvent, usize) + Send + Sync>;

/// The events of one turn. A listener receives them at once; without one they are stored in order until the end of the
/// turn.
#[derive(Clone, Default)]
pub struct Events(Arc<Inner>);

#[derive(Default)]
struct Inner {
    emitted: Mutex<Vec<EmittedEvent>>,
    /// The number of bytes of all events so far.
    sent: AtomicUsize,
    listener: Option<Listener>,
    questions: Option<Questions>,
    /// The board for approvals that the client cannot answer.
    held: Option<Questions>,
    /// The number of chunks of the answer that were sent so far.
    chunks: AtomicUsize,
}

/// The receiving end of [`Events::channel`].
pub struct EmittedEvents {
    /// The events, each with the number of chunks that were sent before it.
    receiver: UnboundedReceiver<(usize, Json)>,
    next: Option<(usize, Json)>,
}

impl EmittedEvents {
    /// Returns the next event; `None` if there is none yet.
    pub fn take_ready(&mut self) -> Option<Json> {
        self.peek()?;
        self.next.take().map(|(_, event)| event)
    }

    /// Returns the next event if at most `taken` chunks of the answer were sent before it; `None` if there is none yet.
    pub fn take_after(&mut self, taken: usize) -> Option<Json> {
        if self.peek()? > taken {
            return None;
        }
        self.take_ready()
    }

    /// Polls for the next event; `None` after the last one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Json>> {
        match self.next.take() {
            Some((_, event)) => Poll::Ready(Some(event)),
            None => self.receiver.poll_recv(context).map(|received| received.map(|(_, event)| event)),
        }
    }

    fn peek(&mut self) -> Option<usize> {
        if self.next.is_none() {
            self.next = self.receiver.try_recv().ok();
        }
        self.next.as_ref().map(|(before, _)| *before)
    }
}

impl Events {
    /// Creates events and a channel that receives them. Questions can be answered through `questions`.
    pub fn channel(questions: Option<Questions>) -> (Self, EmittedEvents) {
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver may be dropped.
        let send = move |event: &EmittedEvent, before: usize| drop(sender.send((before, event.0.clone())));
        (Self::of(Box::new(send), questions), EmittedEvents { receiver, next: None })
    }

    /// Creates events that are passed to a listener at once. Questions can be answered through `questions`.
    pub fn listening(
        listener: impl Fn(&EmittedEvent) + Send + Sync + 'static,
        questions: Option<Questions>,
    ) -> Self {
        Self::of(Box::new(move |event, _| listener(event)), questions)
    }

    fn of(listener: Listener, questions: Option<Questions>) -> Self {
        Self(Arc::new(Inner { listener: Some(listener), questions, ..Inner::default() }))
    }

    /// Sets the board on which approvals wait ([`Events::hold`]) if the client cannot answer them. Has no effect once
    /// the events are shared.
    #[must_use]
    pub fn holding(mut self, board: Questions) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.held = Some(board);
        }
        self
    }

    /// Returns `true` if approvals wait on a board.
    pub fn holds(&self) -> bool {
        self.0.held.is_some()
    }

    /// Counts a sent chunk of the answer, so that the events of a channel keep their position among the chunks.
    pub(crate) fn count_chunk(&self) {
        self.0.chunks.fetch_add(1, Release);
    }

    /// Sends an event. It stays sent if the hook fails later. Without a listener, the first 2,000 events are stored.
    ///
    /// # Errors
    /// Returns an error if the event has no `type`, cannot be serialized, or exceeds a limit of the turn.
    pub fn emit(&self, event: Json) -> Result<(), UnsentEvent> {
        let length = event.encode_within(LARGEST_EVENT)?.len();
        if self.0.sent.fetch_add(length, Relaxed) > ALL_EVENTS {
            return Err(UnsentEvent::TooMany);
        }
        let event = EmittedEvent(event.deep_clone());
        match &self.0.listener {
            Some(listener) => listener(&event, self.0.chunks.load(Acquire)),
            None => {
                let mut kept = self.0.emitted.lock();
                if kept.len() < MAX_KEPT {
                    kept.push(event);
                }
            }
        }
        Ok(())
    }

    /// Waits for an operator to answer a question that the client cannot answer. No event is sent; the board lists the
    /// question ([`Questions::held`]) until the timeout.
    ///
    /// # Errors
    /// Returns the reason for the missing answer: [`NobodyAnswers::NoListener`] without a board.
    pub async fn hold(&self, question: Json, timeout: Duration) -> Result<Json, NobodyAnswers> {
        let board = self.0.held.as_ref().ok_or(NobodyAnswers::NoListener)?.of(OPERATORS);
        let hold = Hold { question: question.deep_clone(), since: Instant::now(), timeout };
        let (open, answer, _) = board.open(Some(hold), timeout);
        tracing::warn!(
            question = open.id,
            "a call waits for an approval: answer it on the page, or with POST /api/v1/questions/{}",
            open.id
        );
        answered(answer, timeout).await
    }

    /// Returns the events that were emitted since the last call.
    pub fn take(&self) -> Vec<EmittedEvent> {
        std::mem::take(&mut self.0.emitted.lock())
    }

    /// Sends a question and waits for its answer.
    ///
    /// # Errors
    /// Returns an error if nobody can answer, or after the timeout.
    pub async fn ask(&self, event: Json, timeout: Duration) -> Result<Json, NobodyAnswers> {
        let questions = self.0.questions.as_ref().ok_or(NobodyAnswers::NoListener)?;
        let (open, answer, listed) = questions.open(None, timeout);
        let event = event.deep_clone();
        event.edit("id", open.id.clone());
        if let Some(listed) = listed {
            // Waits until other hosts can accept the answer, or until listing has failed.
            let _ = tokio::time::timeout(LISTING_DEADLINE, listed).await;
        }
        self.emit(event)?;
        answered(answer, timeout).await
    }
}

async fn answered(answer: oneshot::Receiver<Json>, timeout: Duration) -> Result<Json, NobodyAnswers> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(NobodyAnswers::Gone),
        Err(_) => Err(NobodyAnswers::Timeout(timeout.as_millis() as u64)),
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.emitted.lock())
    }
}

/// The open questions of all turns, by id, which endpoints answer. Clones share one board.
#[derive(Clone, Default)]
pub struct Questions {
    board: Arc<Board>,
    /// The user who may answer questions of this clone.
    whose: Arc<str>,
    /// `true` if other hosts may also answer questions of this clone.
    is_shared: bool,
}

/// A change of a board, for the task that shares questions with other hosts.
#[derive(Debug)]
pub enum QuestionChange {
    /// A question was opened.
    Opened(NewQuestion),
    /// The question with this id was closed.
    Closed(String),
}

/// A newly opened question.
#[derive(Debug)]
pub struct NewQuestion {
    /// The id that an answer names.
    pub id: String,
    /// The user who may answer.
    pub whose: String,
    /// The question as shown to operators; `None` if only the client can answer.
    pub held: Option<Json>,
    /// The timeout of the answer.
    pub timeout: Duration,
    /// Notifies that other hosts can answer the question; dropped if they cannot.
    pub listed: oneshot::Sender<()>,
}

/// The owner of a held question. It is not the id of a user.
const OPERATORS: &str = "operators";

struct OpenQuestion {
    /// The user who may answer.
    whose: Arc<str>,
    answer: oneshot::Sender<Json>,
    held: Option<Hold>,
}

/// A question that was not sent to a client.
struct Hold {
    question: Json,
    since: Instant,
    timeout: Duration,
}

/// A question that waits for an operator.
#[derive(Debug, Clone)]
pub struct HeldQuestion {
    /// The id that an answer names.
    pub id: String,
    /// The question: `{type, data}`, with the model, the user and the trace of its turn.
    pub question: Json,
    /// The time since the question was opened.
    pub waited: Duration,
    /// The remaining time for an answer.
    pub left: Duration,
}

#[derive(Default)]
struct Board {
    open: Mutex<HashMap<String, OpenQuestion>>,
    /// Notifies of every closed question.
    closed: Notify,
    /// The follower that shares questions with other hosts.
    follower: Mutex<Option<UnboundedSender<QuestionChange>>>,
}

impl Board {
    /// Notifies the follower, if there is one.
    fn notify(&self, change: impl FnOnce() -> QuestionChange) {
        if let Some(follower) = &*self.follower.lock() {
            // The follower may be dropped.
            let _ = follower.send(change());
        }
    }
}

/// An open question, which is closed on drop, when the waiting hook has ended.
struct Open {
    id: String,
    questions: Questions,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.questions.dismiss(&self.id);
        self.questions.board.closed.notify_waiters();
        if self.questions.is_shared {
            self.questions.board.notify(|| QuestionChange::Closed(self.id.clone()));
        }
    }
}

impl Questions {
    /// Returns the same board for a turn whose questions only this user may answer, at any host.
    #[must_use]
    pub fn of(&self, whose: &str) -> Self {
        Self { board: self.board.clone(), whose: whose.into(), is_shared: true }
    }

    /// Returns the future changes of questions with an owner ([`Questions::of`]), for the task that shares them with
    /// other hosts. Replaces an earlier follower.
    pub fn changes(&self) -> UnboundedReceiver<QuestionChange> {
        let (sender, changes) = mpsc::unbounded_channel();
        *self.board.follower.lock() = Some(sender);
        changes
    }

    /// Answers a question as a user. Returns `false` if the question belongs to another user or does not exist.
    pub fn answer_as(&self, who: &str, id: &str, answer: Json) -> bool {
        let is_theirs = self.board.open.lock().get(id).is_some_and(|open| *open.whose == *who);
        is_theirs && self.answer(id, answer)
    }

    /// Opens a question. Also returns a receiver that is notified when other hosts can answer it, if they may.
    fn open(
        &self,
        held: Option<Hold>,
        timeout: Duration,
    ) -> (Open, oneshot::Receiver<Json>, Option<oneshot::Receiver<()>>) {
        let id = uuid::Uuid::new_v4().to_string();
        let (sender, receiver) = oneshot::channel();
        let text = held.as_ref().map(|held| held.question.deep_clone());
        let question = OpenQuestion { whose: self.whose.clone(), answer: sender, held };
        self.board.open.lock().insert(id.clone(), question);
        let open = Open { id, questions: self.clone() };
        let listed = self.is_shared.then(|| {
            let (sender, listed) = oneshot::channel();
            self.board.notify(|| {
                let (id, whose) = (open.id.clone(), self.whose.to_string());
                QuestionChange::Opened(NewQuestion { id, whose, held: text, timeout, listed: sender })
            });
            listed
        });
        (open, receiver, listed)
    }

    /// Answers a question. Returns `false` if there is none with this id.
    pub fn answer(&self, id: &str, answer: Json) -> bool {
        let sender = self.board.open.lock().remove(id);
        sender.is_some_and(|open| open.answer.send(answer).is_ok())
    }

    /// Returns the questions that wait for an operator, oldest first.
    pub fn held(&self) -> Vec<HeldQuestion> {
        let open = self.board.open.lock();
        let held = open.iter().filter_map(|(id, open)| {
            let Hold { question, since, timeout } = open.held.as_ref()?;
            let waited = since.elapsed();
            let left = timeout.saturating_sub(waited);
            Some(HeldQuestion { id: id.clone(), question: question.deep_clone(), waited, left })
        });
        let mut held: Vec<_> = held.collect();
        held.sort_by_key(|question| std::cmp::Reverse(question.waited));
        held
    }

    /// Ends a question without an answer. Returns `false` if there is none with this id.
    pub fn dismiss(&self, id: &str) -> bool {
        self.board.open.lock().remove(id).is_some()
    }

    /// Returns `true` if a hook waits for the answer.
    pub fn is_open(&self, id: &str) -> bool {
        self.board.open.lock().contains_key(id)
    }

    /// Waits until the answer is no longer needed.
    pub async fn until_closed(&self, id: &str) {
        loop {
            let mut closed = std::pin::pin!(self.board.closed.notified());
            // Subscribes before the check, so that a question that closes in between is not missed.
            closed.as_mut().enable();
            if !self.is_open(id) {
                return;
            }
            closed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Creates events whose questions are sent to the channel.
    fn channel_of_questions() -> (Events, Questions, tokio::sync::mpsc::UnboundedReceiver<Json>) {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let questions = Questions::default();
        let send = move |event: &EmittedEvent| drop(sender.send(event.0.clone()));
        (Events::listening(send, Some(questions.clone())), questions, receiver)
    }

    fn question() -> Json {
        Json::from([("type", "input".into())])
    }

    fn id_of(question: Option<Json>) -> String {
        question.unwrap().text("id").unwrap().into()
    }

    #[test]
    fn a_flood_of_unread_events_keeps_the_first_ones() {
        let events = Events::default();
        for number in 0..3_000_i64 {
            events.emit(Json::from([("number", number.into())])).unwrap();
        }
        let kept = events.take();
        assert_eq!(kept.len(), MAX_KEPT);
        assert_eq!(kept[MAX_KEPT - 1].0.integer("number"), Some(1_999));
    }

    #[tokio::test]
    async fn an_answer_reaches_its_question() {
        let (events, questions, mut receiver) = channel_of_questions();
        let answer = async {
            let id = id_of(receiver.recv().await);
            assert!(questions.is_open(&id));
            assert!(questions.answer(&id, "blue".into()));
            assert!(!questions.answer(&id, "red".into()), "a question is answered once");
        };
        let (got, ()) = tokio::join!(events.ask(question(), LONG), answer);
        assert_eq!(got, Ok("blue".into()));
    }

    #[tokio::test]
    async fn an_unanswered_question_times_out_and_is_closed() {
        let (events, questions, mut receiver) = channel_of_questions();
        let got = events.ask(question(), Duration::from_millis(10)).await;
        assert_eq!(got, Err(NobodyAnswers::Timeout(10)));
        assert!(!questions.answer(&id_of(receiver.recv().await), Json::Null));
    }

    #[tokio::test]
    async fn a_question_whose_turn_is_dropped_is_closed() {
        let (events, questions, mut receiver) = channel_of_questions();
        let asking = tokio::spawn(async move { events.ask(question(), LONG).await });
        let id = id_of(receiver.recv().await);
        let closed = questions.until_closed(&id);
        asking.abort();
        tokio::time::timeout(LONG, closed).await.unwrap();
        assert!(!questions.is_open(&id) && !questions.answer(&id, Json::Null));
    }

    #[tokio::test]
    async fn a_dismissed_question_fails_at_once() {
        let (events, questions, mut receiver) = channel_of_questions();
        let dismiss = async { assert!(questions.dismiss(&id_of(receiver.recv().await))) };
        let (got, ()) = tokio::join!(events.ask(question(), LONG), dismiss);
        assert_eq!(got, Err(NobodyAnswers::Gone));
    }

    #[tokio::test]
    async fn a_held_question_is_listed_until_it_is_answered_or_times_out() {
        let board = Questions::default();
        let events = Events::default().holding(board.clone());
        assert_eq!(events.ask(question(), LONG).await, Err(NobodyAnswers::NoListener));
        let asking = tokio::spawn({
            let events = events.clone();
            async move { events.hold(question(), LONG).await }
        });
        while board.held().is_empty() {
            tokio::task::yield_now().await;
        }
        let held = board.held().remove(0);
        assert_eq!((held.question, held.left <= LONG), (question(), true));
        assert!(!board.answer_as("", &held.id, true.into()), "no caller's");
        assert!(board.answer(&held.id, true.into()));
        assert_eq!(asking.await.unwrap(), Ok(true.into()));
        assert!(board.held().is_empty() && events.take().is_empty());
        let late = events.hold(question(), Duration::from_millis(10)).await;
        assert_eq!((late, board.held().len()), (Err(NobodyAnswers::Timeout(10)), 0));
        assert_eq!(Events::default().hold(question(), LONG).await, Err(NobodyAnswers::NoListener));
    }

    #[tokio::test]
    async fn a_follower_receives_questions_that_have_an_owner_and_their_end() {
        let (events, receiver) = Events::channel(Some(Questions::default()));
        assert!(events.ask(question(), Duration::from_millis(1)).await.is_err(), "nobody follows");
        drop(receiver);
        let board = Questions::default();
        let mut changes = board.changes();
        let (private, _receiver) = Events::channel(Some(board.clone()));
        assert!(private.ask(question(), Duration::from_millis(1)).await.is_err());
        assert!(changes.try_recv().is_err(), "a question at a terminal is not shared");

        let (events, mut receiver) = Events::channel(Some(board.of("user ann")));
        let asking = tokio::spawn(async move { events.ask(question(), LONG).await });
        let Some(QuestionChange::Opened(new)) = changes.recv().await else { panic!("no question is open") };
        assert_eq!((&*new.whose, &new.held, new.timeout), ("user ann", &None, LONG));
        assert!(receiver.take_ready().is_none(), "the client receives the question once other hosts know it");
        new.listed.send(()).unwrap();
        let event = std::future::poll_fn(|context| receiver.poll_next(context)).await;
        assert_eq!(id_of(event), new.id);
        assert!(!board.answer_as("user bob", &new.id, "red".into()));
        assert!(board.answer_as("user ann", &new.id, "blue".into()));
        assert_eq!(asking.await.unwrap(), Ok("blue".into()));
        let closed = changes.recv().await;
        assert!(matches!(&closed, Some(QuestionChange::Closed(id)) if *id == new.id), "{closed:?}");

        let events = Events::default().holding(board);
        let late = events.hold(question(), Duration::from_millis(1)).await;
        assert_eq!(
            late,
            Err(NobodyAnswers::Timeout(1)),
            "an operator's question waits for nobody to list it"
        );
        let Some(QuestionChange::Opened(held)) = changes.recv().await else { panic!("nothing is held") };
        assert_eq!((&*held.whose, held.held), (OPERATORS, Some(question())));
        assert!(matches!(changes.recv().await, Some(QuestionChange::Closed(id)) if id == held.id));
    }

    #[tokio::test]
    async fn a_question_needs_a_listener_and_an_id() {
        let got = Events::default().ask(question(), LONG).await;
        assert_eq!(got, Err(NobodyAnswers::NoListener));
        assert!(!Questions::default().answer("none", Json::Null));
        assert!(!Questions::default().dismiss("none"));
        Questions::default().until_closed("none").await;
    }
}
