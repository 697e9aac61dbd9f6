//! What plugins emit for the people on the other side, and the questions they ask them.

use crate::json::Json;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// One emitted event: `{type, data}`, and `{id}` beside it when an answer is awaited.
#[derive(Debug, Clone)]
pub struct Event(pub Json);

/// Nobody answered a question in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NobodyAnswers {
    /// The client takes no events, so it can never answer.
    #[error("nobody can answer: the client of this request takes no events")]
    NoListener,
    /// The time is up.
    #[error("nobody answered within {0} ms")]
    Timeout(u64),
}

type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// The events of one turn. Kept in order for a door that delivers them at the end, handed on at
/// once to a listener for a door that streams.
#[derive(Clone, Default)]
pub struct Events(Arc<Inner>);

#[derive(Default)]
struct Inner {
    emitted: Mutex<Vec<Event>>,
    listener: Option<Listener>,
    questions: Option<Questions>,
}

impl Events {
    /// Events that are handed on as they come; questions can be answered through `questions`.
    pub fn listening(
        listener: impl Fn(&Event) + Send + Sync + 'static,
        questions: Option<Questions>,
    ) -> Self {
        Self(Arc::new(Inner { emitted: Mutex::default(), listener: Some(Box::new(listener)), questions }))
    }

    /// Sends one event. What was emitted stays emitted, also when the hook then fails.
    pub fn emit(&self, event: Json) {
        let event = Event(event.copy());
        if let Some(listener) = &self.0.listener {
            listener(&event);
        }
        self.0.emitted.lock().push(event);
    }

    /// What was emitted since this was last asked.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.emitted.lock())
    }

    /// Sends a question and waits for its answer; blocks the calling thread.
    pub fn ask(&self, event: Json, timeout: Duration) -> Result<Json, NobodyAnswers> {
        let questions = self.0.questions.as_ref().ok_or(NobodyAnswers::NoListener)?;
        let (id, answer) = questions.open();
        let event = event.copy();
        let _ = event.set("id", id.clone());
        self.emit(event);
        let result = answer.recv_timeout(timeout);
        questions.close(&id);
        result.map_err(|error| match error {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => {
                NobodyAnswers::Timeout(timeout.as_millis() as u64)
            }
        })
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.emitted.lock())
    }
}

/// Open questions of all turns, by id, so that a door can hand an answer in.
#[derive(Clone, Default)]
pub struct Questions(Arc<Mutex<HashMap<String, SyncSender<Json>>>>);

impl Questions {
    fn open(&self) -> (String, std::sync::mpsc::Receiver<Json>) {
        let id = uuid::Uuid::new_v4().to_string();
        let (sender, receiver) = sync_channel(1);
        self.0.lock().insert(id.clone(), sender);
        (id, receiver)
    }

    fn close(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// Answers a question; false when there is none of that id (any more).
    pub fn answer(&self, id: &str, answer: Json) -> bool {
        self.0.lock().remove(id).is_some_and(|sender| sender.send(answer).is_ok())
    }
}
