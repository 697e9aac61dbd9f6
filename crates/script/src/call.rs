//! The call that runs on this thread: for which plugin, in which turn.
//!
//! Host functions that belong to a turn (`emit`, `print`, `kv`) find it here.

use super::budget;
use super::compile::Script;
use super::instrument::Captured;
use super::reach::{Clock, Reach};
use crate::crash::{self, Mark, Version};
use parking_lot::Mutex;
use rhai::Dynamic;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use valvehouse_core::breaker::Breaker;
use valvehouse_core::context::Turn;
use valvehouse_core::valve::{Redactor, Schema};
use valvehouse_json::Json;

/// Lines a single call may print.
const PRINTED_LINES: u32 = 100;
/// Characters of one printed line.
const PRINTED_CHARACTERS: usize = 4_000;
/// Bytes that are enough for them, and for seeing that there are more.
pub(super) const PRINTED_BYTES: usize = 64 * 1024;

/// Who calls: the same for all calls of a script.
pub(crate) struct Caller {
    pub(crate) plugin: Arc<str>,
    pub(super) breaker: Arc<Breaker>,
    /// Which version of it, as a crash is laid to it.
    pub(super) version: Version,
    /// Takes what its secret valves are set to out of what it prints or breaks with.
    pub(super) secrets: Redactor,
}

/// Whose call it is.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) caller: Arc<Caller>,
    pub(crate) turn: Turn,
    /// What the plugin may reach beyond its turn.
    pub(crate) reach: Arc<Reach>,
    printed: u32,
    captured: Captured,
    /// The positions of its last `error(…)` and `skip(…)`.
    built: Built,
}

/// The positions at which answers were built that a hook has to return.
#[derive(Clone, Copy, Default)]
pub(super) struct Built {
    pub(super) error: Option<rhai::Position>,
    pub(super) skip: Option<rhai::Position>,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Names the running call until it is dropped; the one before comes back then.
pub(crate) struct Running {
    before: Option<Call>,
    mark: Mark,
}

impl Running {
    pub(super) fn enter(script: &Script, turn: &Turn) -> Self {
        Self::reaching(script, turn, script.reach.clone())
    }

    /// A call that reaches something else than its script does.
    pub(super) fn reaching(script: &Script, turn: &Turn, reach: Arc<Reach>) -> Self {
        let call = Call {
            caller: script.caller.clone(),
            turn: turn.clone(),
            reach,
            printed: 0,
            captured: Captured::default(),
            built: Built::default(),
        };
        let mark = crash::running(&call.caller.version, budget::ticks());
        Self { before: CALL.replace(Some(call)), mark }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(CALL.replace(self.before.take()));
        crash::stopped(self.mark);
    }
}

/// Remembers a variable that the running call began to share with a closure, to be emptied at its end. Nothing is
/// remembered outside of a call.
pub(super) fn remember_captured(shared: &Dynamic) {
    CALL.with_borrow_mut(|call| {
        if let Some(call) = call {
            call.captured.add(shared.clone());
        }
    });
}

/// Stops the plugin of the running call for good, and takes the call from the thread without freeing what it holds.
pub(super) fn forget() {
    let call = CALL.try_with(|call| call.try_borrow_mut().ok().and_then(|mut call| call.take()));
    if let Ok(Some(call)) = call {
        call.caller.breaker.trip("it took far more memory than it may within one operation");
        std::mem::forget(call);
    }
}

/// Goes on with the running call in another turn.
pub(super) fn in_turn(turn: Turn) {
    CALL.with_borrow_mut(|call| {
        if let Some(call) = call {
            call.turn = turn;
        }
    });
}

/// Notes that the running call built an answer.
pub(super) fn note_built(note: impl FnOnce(&mut Built)) {
    CALL.with_borrow_mut(|call| {
        if let Some(call) = call {
            note(&mut call.built);
        }
    });
}

/// Returns the positions of the answers that the running call has built.
pub(super) fn built() -> Built {
    CALL.with_borrow(|call| call.as_ref().map(|call| call.built).unwrap_or_default())
}

/// Takes the running call from the thread, to be gone on with later.
pub(super) fn put_aside() -> Option<Call> {
    crash::stopped(Mark::default());
    CALL.take()
}

pub(super) fn go_on(call: Option<Call>) {
    if let Some(call) = &call {
        crash::running(&call.caller.version, budget::ticks());
    }
    CALL.set(call);
}

/// The plugin that runs, "" outside of a call.
pub(crate) fn plugin() -> String {
    CALL.with_borrow(|call| call.as_ref().map(|call| call.caller.plugin.to_string()).unwrap_or_default())
}

/// Whether nobody waits for the running call any more.
pub(super) fn is_over() -> bool {
    CALL.with_borrow(|call| call.as_ref().is_some_and(|call| call.turn.is_over()))
}

/// The time as the running call is told it, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    CALL.with_borrow(|call| match call {
        Some(call) => call.reach.clock.now_ms(),
        None => Clock::Real.now_ms(),
    })
}

/// The running call.
pub(crate) fn current() -> Option<Call> {
    CALL.with_borrow(Clone::clone)
}

/// The secret user valves that scripts of a turn were handed.
#[derive(Default)]
struct UserSecrets(Mutex<Vec<(Arc<str>, Json, Redactor)>>);

/// Redacts the secret ones of these user valves for the rest of a turn: a script is about to read them.
pub(super) fn redact_for_user(turn: &Turn, plugin: &Arc<str>, schema: &Schema, values: &Json) {
    if !schema.fields().iter().any(|field| field.secret) {
        return;
    }
    let known = turn.local::<UserSecrets>();
    let mut known = known.0.lock();
    let is_same = |known: &Json| match (known.as_object(), values.as_object()) {
        (Some(known), Some(values)) => known.is_same(values),
        _ => false,
    };
    if !known.iter().any(|(id, known, _)| id == plugin && is_same(known)) {
        known.push((plugin.clone(), values.clone(), Redactor::of(schema, values)));
    }
}

/// A text of the running call without its secrets: those of its valves and of the user it runs for.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    CALL.with_borrow(|call| {
        let Some(call) = call else { return text.into() };
        let users = call.turn.local::<UserSecrets>();
        let users = users.0.lock();
        let all = || std::iter::once(&call.caller.secrets).chain(users.iter().map(|(_, _, secrets)| secrets));
        let work = all().fold(0, |work: usize, secrets| work.saturating_add(secrets.work(text)));
        if work > 0
            && let Err(exceeded) = budget::charge((work / REDACTED_BYTES) as u64)
        {
            budget::doom(exceeded);
            return WITHHELD.into();
        }
        all().fold(text.into(), |text: Cow<'_, str>, secrets| match secrets.redact(&text) {
            Cow::Owned(redacted) => redacted.into(),
            Cow::Borrowed(_) => text,
        })
    })
}

/// Bytes compared with secrets that are worth an operation.
const REDACTED_BYTES: usize = 512;
/// Stands in place of a text in which there is no time to look for secrets.
const WITHHELD: &str = "*** (more secrets than there is time to look for)";

/// The beginning of a text of the running call in a sentence, without secrets.
pub(crate) fn excerpt(text: &str) -> String {
    valvehouse_core::limits::shortened(&redacted(text))
}

/// The running call, if its turn may stop for a person.
pub(crate) fn current_that_may_pause() -> Option<Call> {
    CALL.with_borrow(|call| call.as_ref().filter(|call| call.turn.pauses().is_some()).cloned())
}

/// Counts a line of the log or an event; returns `true` if it was written before the running step paused.
pub(crate) fn was_reported() -> bool {
    CALL.with_borrow(|call| {
        let Some(call) = call else { return false };
        call.turn.pauses().is_some_and(|pauses| pauses.was_reported(&call.caller.plugin))
    })
}

/// Writes one line of a script to the log, cut where it is too much. A step that runs again after a pause does not
/// repeat its lines.
pub(crate) fn log(level: tracing::Level, text: &str) {
    if was_reported() {
        return;
    }
    let printed = CALL.with_borrow_mut(|call| {
        call.as_mut().map_or(1, |call| {
            call.printed += 1;
            call.printed
        })
    });
    if printed > PRINTED_LINES + 1 {
        return;
    }
    let plugin = plugin();
    let text = &*redacted(text);
    let text: Cow<'_, str> = if printed > PRINTED_LINES {
        format!("… more than {PRINTED_LINES} lines in one call, the rest is left out").into()
    } else {
        match text.char_indices().nth(PRINTED_CHARACTERS) {
            Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], text.len()).into(),
            None => text.into(),
        }
    };
    CALL.with_borrow(|call| {
        if let Some((call, trace)) = call.as_ref().and_then(|call| Some((call, call.turn.trace()?))) {
            let word = match level {
                tracing::Level::ERROR => "error",
                tracing::Level::WARN => "warn",
                tracing::Level::DEBUG => "debug",
                _ => "info",
            };
            trace.line(&call.caller.plugin, word, &text);
        }
    });
    match level {
        tracing::Level::ERROR => tracing::error!(target: "script", plugin, "{text}"),
        tracing::Level::WARN => tracing::warn!(target: "script", plugin, "{text}"),
        tracing::Level::DEBUG => tracing::debug!(target: "script", plugin, "{text}"),
        _ => tracing::info!(target: "script", plugin, "{text}"),
    }
}
