//! Work that a turn leaves for the time when its client has the last byte.

use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_json::{Json, Object};

/// The most pieces of work that one request may leave.
const MAX_LEFT: usize = 64;
/// The bytes that all of them may keep while the request runs.
const MAX_BYTES: usize = 16 << 20;

/// Hands a piece of work on to whoever does it.
type HandOn = Box<dyn FnOnce() + Send>;

/// The work that a request leaves behind. A clone is the same: the work is handed on when the last clone is dropped, which
/// whoever sends the answer does when the client has it, or is gone.
///
/// Work that is left must not hold a clone: it would wait for itself.
#[derive(Clone, Default)]
pub struct Afterwards(Arc<Queue>);

#[derive(Default)]
struct Queue {
    work: Mutex<Waiting>,
    /// Takes none.
    is_closed: bool,
}

#[derive(Default)]
struct Waiting {
    work: Vec<HandOn>,
    bytes: usize,
}

/// The reason for which a piece of work was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLeft {
    /// The turn is itself such work.
    Nested,
    /// There are too many already.
    TooMany,
    /// They keep too much.
    TooLarge,
}

impl std::fmt::Display for NotLeft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nested => f.write_str("this runs after the answer already; do it here"),
            Self::TooMany => write!(f, "one request may leave {MAX_LEFT} pieces of work"),
            Self::TooLarge => {
                write!(f, "the work that one request leaves may keep {} MiB in all", MAX_BYTES >> 20)
            }
        }
    }
}

impl std::error::Error for NotLeft {}

impl Afterwards {
    /// One that takes no work.
    pub fn closed() -> Self {
        Self(Arc::new(Queue { work: Mutex::default(), is_closed: true }))
    }

    /// Leaves a piece of work, which keeps so many bytes until then: `hand_on` is called once, when the client has the
    /// answer.
    ///
    /// # Errors
    /// Returns an error if this turn is such work itself, or if there is too much.
    pub fn leave(&self, bytes: usize, hand_on: impl FnOnce() + Send + 'static) -> Result<(), NotLeft> {
        if self.0.is_closed {
            return Err(NotLeft::Nested);
        }
        let mut waiting = self.0.work.lock();
        if waiting.work.len() >= MAX_LEFT {
            return Err(NotLeft::TooMany);
        }
        if waiting.bytes + bytes > MAX_BYTES {
            return Err(NotLeft::TooLarge);
        }
        waiting.bytes += bytes;
        waiting.work.push(Box::new(hand_on));
        Ok(())
    }

    /// Returns `true` if no work is left.
    pub fn is_empty(&self) -> bool {
        self.0.work.lock().work.is_empty()
    }

    /// Hands on what is left so far, for whoever knows that the client has the answer.
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

/// The conversation of a turn as `done` is given it, filled in while the turn runs.
#[derive(Debug, Default)]
pub struct FinishedChat(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    body: Json,
    messages: Option<Vec<Json>>,
    usage: Json,
    error: Option<String>,
    /// The turn waits for a person, and ends another time.
    is_unfinished: bool,
}

impl FinishedChat {
    /// Sets the body of the request; what filters write into it is seen.
    pub fn asked(&self, body: &Json) {
        self.0.lock().body = body.clone();
    }

    /// Sets all messages, the answer last, and the tokens that the answer took.
    pub fn answered(&self, messages: Vec<Json>, usage: Json) {
        let mut told = self.0.lock();
        (told.messages, told.usage) = (Some(messages), usage);
    }

    /// Sets why there is no answer.
    pub fn failed(&self, why: String) {
        self.0.lock().error = Some(why);
    }

    /// The turn goes on another time, and that is its end.
    pub fn pauses(&self) {
        self.0.lock().is_unfinished = true;
    }

    /// A copy as `done` is given it: `model messages chat_id id`, `usage` where it is known, and `error` where the turn
    /// failed. `None` where the turn has not ended.
    pub fn body(&self, chat_id: &str, message_id: &str) -> Option<Json> {
        let told = self.0.lock();
        if told.is_unfinished {
            return None;
        }
        let part = |name: &str| told.body.field(name).copy();
        let messages = match &told.messages {
            Some(messages) => messages.iter().map(Json::copy).collect::<Vec<_>>().into(),
            None => part("messages"),
        };
        let parts = [
            ("model", part("model")),
            ("messages", messages),
            ("chat_id", chat_id.into()),
            ("session_id", part("session_id")),
            ("id", message_id.into()),
        ];
        let own =
            [("usage", told.usage.copy()), ("error", told.error.as_deref().map_or(Json::Null, Json::from))];
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
    fn work_is_handed_on_once_when_nobody_holds_the_request_any_more() {
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
    fn there_is_a_most_and_work_leaves_no_work() {
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
        conversation.asked(&body);
        assert!(conversation.body("c", "m").is_some());
        conversation.pauses();
        assert!(conversation.body("c", "m").is_none());
    }
}
