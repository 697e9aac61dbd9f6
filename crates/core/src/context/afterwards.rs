//! Background work that a turn schedules for the time after its client has received the last byte.

use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_json::{Json, Object};

/// The maximum number of tasks that one request can schedule.
const MAX_LEFT: usize = 64;
/// The maximum number of bytes that these tasks can hold while the request runs.
const MAX_BYTES: usize = 16 << 20;

/// A function that starts a task.
type HandOn = Box<dyn FnOnce() + Send>;

/// The tasks that a request schedules for the time after its answer. Clones share one queue. The tasks start
/// when the last clone is dropped; the sender of the answer drops its clone once the client has the answer or
/// is gone.
///
/// A task must not hold a clone, because it would then never start.
#[derive(Clone, Default)]
pub struct Afterwards(Arc<Queue>);

#[derive(Default)]
struct Queue {
    work: Mutex<Waiting>,
    /// Set if the queue accepts no tasks.
    is_closed: bool,
}

#[derive(Default)]
struct Waiting {
    work: Vec<HandOn>,
    /// The number of hooks among them, which do not count for the limit of a request.
    hooks: usize,
    bytes: usize,
}

/// The reason why a task was not scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLeft {
    /// The turn is itself a scheduled task.
    Nested,
    /// The request has scheduled too many tasks.
    TooMany,
    /// The tasks of the request hold too many bytes.
    TooLarge,
}

impl std::fmt::Display for NotLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nested => f.write_str(
                "cannot schedule work: this code already runs after the answer; run the work here",
            ),
            Self::TooMany => {
                write!(f, "cannot schedule work: one request may schedule at most {MAX_LEFT} functions")
            }
            Self::TooLarge => {
                write!(
                    f,
                    "cannot schedule work: the functions of one request may hold at most {} MiB",
                    MAX_BYTES >> 20
                )
            }
        }
    }
}

impl std::error::Error for NotLeft {}

impl Afterwards {
    /// Creates a queue that accepts no tasks.
    pub fn closed() -> Self {
        Self(Arc::new(Queue { work: Mutex::default(), is_closed: true }))
    }

    /// Schedules a task that holds this many bytes until it starts: `hand_on` is called once, when the client
    /// has the answer.
    ///
    /// # Errors
    /// Returns an error if this turn is itself a scheduled task or a limit is exceeded.
    pub fn leave(&self, bytes: usize, hand_on: impl FnOnce() + Send + 'static) -> Result<(), NotLeft> {
        if self.0.is_closed {
            return Err(NotLeft::Nested);
        }
        let mut waiting = self.0.work.lock();
        if waiting.work.len() - waiting.hooks >= MAX_LEFT {
            return Err(NotLeft::TooMany);
        }
        if waiting.bytes + bytes > MAX_BYTES {
            return Err(NotLeft::TooLarge);
        }
        waiting.bytes += bytes;
        waiting.work.push(Box::new(hand_on));
        Ok(())
    }

    /// Schedules a hook of a plugin, as [`Afterwards::leave`] does. Hooks do not count for the limits of the request.
    ///
    /// # Errors
    /// Returns an error if this turn is itself a scheduled task.
    pub fn leave_hook(&self, hand_on: impl FnOnce() + Send + 'static) -> Result<(), NotLeft> {
        if self.0.is_closed {
            return Err(NotLeft::Nested);
        }
        let mut waiting = self.0.work.lock();
        waiting.hooks += 1;
        waiting.work.push(Box::new(hand_on));
        Ok(())
    }

    /// Returns `true` if no task is scheduled.
    pub fn is_empty(&self) -> bool {
        self.0.work.lock().work.is_empty()
    }

    /// Starts the tasks scheduled so far, for callers that know that the client has the answer.
    pub fn hand_on(&self) {
        self.0.hand_on();
    }
}

impl Queue {
    fn hand_on(&self) {
        let waiting = std::mem::take(&mut *self.work.lock());
        waiting.work.into_iter().for_each(|hand_on| hand_on());
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.hand_on();
    }
}

impl std::fmt::Debug for Afterwards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Afterwards")
    }
}

/// The conversation of a turn as the `done` hook receives it, filled in while the turn runs.
#[derive(Debug, Default)]
pub struct FinishedChat(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    body: Json,
    messages: Option<Vec<Json>>,
    usage: Json,
    error: Option<String>,
    /// Set if the turn pauses for a person and ends later.
    is_unfinished: bool,
}

impl FinishedChat {
    /// Sets the body of the request. The body is live: later changes by filters are included.
    pub fn set_body(&self, body: &Json) {
        self.0.lock().body = body.clone();
    }

    /// Sets all messages, with the answer last, and the token usage of the answer.
    pub fn answered(&self, messages: Vec<Json>, usage: Json) {
        let mut state = self.0.lock();
        (state.messages, state.usage) = (Some(messages), usage);
    }

    /// Sets the error of a turn without an answer.
    pub fn failed(&self, why: String) {
        self.0.lock().error = Some(why);
    }

    /// Records that the turn pauses, which postpones its end.
    pub fn pauses(&self) {
        self.0.lock().is_unfinished = true;
    }

    /// Returns a copy for the `done` hook: `{model, messages, chat_id, id}`, with `usage` if known and `error`
    /// if the turn failed. `None` if the turn has not ended.
    pub fn body(&self, chat_id: &str, message_id: &str) -> Option<Json> {
        let state = self.0.lock();
        if state.is_unfinished {
            return None;
        }
        let part = |name: &str| state.body.field(name).deep_clone();
        let messages = match &state.messages {
            Some(messages) => messages.iter().map(Json::deep_clone).collect::<Vec<_>>().into(),
            None => part("messages"),
        };
        let parts = [
            ("model", part("model")),
            ("messages", messages),
            ("chat_id", chat_id.into()),
            ("session_id", part("session_id")),
            ("id", message_id.into()),
        ];
        let own = [
            ("usage", state.usage.deep_clone()),
            ("error", state.error.as_deref().map_or(Json::Null, Json::from)),
        ];
        let own = own.into_iter().filter(|(_, value)| !value.is_null());
        let all = parts.into_iter().chain(own).map(|(name, value)| (name.into(), value));
        Some(Json::Object(all.collect::<Object>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn deferred_work_runs_once_after_the_last_reference_to_the_request_is_dropped() {
        let count = Arc::new(AtomicUsize::new(0));
        let afterwards = Afterwards::default();
        let (one, other) = (afterwards.clone(), count.clone());
        let hand_on = move || {
            other.fetch_add(1, SeqCst);
        };
        afterwards.leave(0, hand_on).unwrap();
        drop(afterwards);
        assert_eq!(count.load(SeqCst), 0);
        drop(one);
        assert_eq!(count.load(SeqCst), 1);
    }

    #[test]
    fn deferred_functions_are_limited_and_cannot_defer_more() {
        let afterwards = Afterwards::default();
        for _ in 0..MAX_LEFT {
            afterwards.leave(1, || {}).unwrap();
        }
        assert_eq!(afterwards.leave(1, || {}), Err(NotLeft::TooMany));
        assert_eq!(Afterwards::closed().leave(1, || {}), Err(NotLeft::Nested));
        assert_eq!(Afterwards::default().leave(MAX_BYTES + 1, || {}), Err(NotLeft::TooLarge));
    }

    #[test]
    fn a_turn_that_waits_for_a_person_has_not_ended() {
        let conversation = FinishedChat::default();
        let body = Json::from([("messages", vec![Json::from("x")].into())]);
        conversation.set_body(&body);
        assert!(conversation.body("c", "m").is_some());
        conversation.pauses();
        assert!(conversation.body("c", "m").is_none());
    }
}
