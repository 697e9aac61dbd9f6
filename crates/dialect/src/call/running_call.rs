//! The call that runs on this thread: its plugin and its turn.
//!
//! Host functions that belong to a turn (`emit`, `print`, `kv`) find it here.
//!
//! The call also records the variables that its closures capture. A closure and its captured variables may
//! reference each other, and reference counting never frees such cycles. Each call therefore records the variables
//! it shares and empties them at its end.

use crate::call::clock;
use crate::call::resources::{Clock, Resources};
use crate::crash::{self, Mark, RunVersion};
use rhai::{Dynamic, EvalAltResult, FnPtr};
use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};
use valvehouse_core::BoxError;
use valvehouse_core::breaker::Breaker;
use valvehouse_core::context::{Claim, LoadExceeded, Share, Turn};
use valvehouse_core::valve::Redactor;
use valvehouse_json::Json;

/// The caller; the same for all calls of a script.
pub struct ScriptCaller {
    /// The plugin's id.
    pub plugin: Arc<str>,
    /// The script; set once a host calls it.
    pub script: OnceLock<Weak<dyn Later>>,
    /// The circuit breaker of its calls.
    pub breaker: Arc<Breaker>,
    /// The version to which a crash is attributed.
    pub version: RunVersion,
    /// `true` for a guard, which must not pass what it misunderstands.
    pub is_guard: bool,
    /// Redacts the values of its secret valves in its output and errors.
    pub secrets: Redactor,
}

/// A script whose functions can be called after a turn has ended.
pub trait Later: Send + Sync {
    /// Schedules a function that holds this number of bytes for after the client has received the answer.
    ///
    /// # Errors
    /// Returns the reason why it cannot be scheduled.
    fn leave(self: Arc<Self>, function: FnPtr, bytes: usize, turn: &Turn) -> Result<(), BoxError>;
}

/// The running call of a plugin.
#[derive(Clone)]
pub struct Call {
    /// Its caller.
    pub caller: Arc<ScriptCaller>,
    /// Its turn.
    pub turn: Turn,
    /// The resources that the plugin may reach beyond its turn.
    pub resources: Arc<Resources>,
    /// The receiver of a pipe's answer.
    pub out: Option<Arc<dyn ChunkSink>>,
    printed: u32,
    /// The positions of the code that it has warned about.
    #[allow(clippy::box_collection)] // small, because few calls warn
    warned: Option<Box<Vec<rhai::Position>>>,
    captured: CapturedVariables,
    /// The positions of its latest `error(…)` and `skip(…)`.
    built: AnswerPositions,
}

/// Receives the chunks of a pipe's answer.
pub trait ChunkSink: Send + Sync {
    /// Sends a text or a map as the next chunk; waits for a slow reader.
    ///
    /// # Errors
    ///
    /// Returns an error if the chunk is neither, if the answer is too large, or if the stream is closed.
    fn chunk(&self, given: &Json) -> Result<(), Box<EvalAltResult>>;
}

/// The positions at which a hook built answers that it has to return.
#[derive(Clone, Copy, Default)]
pub(crate) struct AnswerPositions {
    pub(crate) error: Option<rhai::Position>,
    pub(crate) skip: Option<rhai::Position>,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Sets the running call of this thread; when dropped, restores the previous one.
pub struct RunningCall {
    before: Option<Box<Call>>,
    mark: Mark,
}

impl RunningCall {
    /// Enters a call with these resources.
    pub fn enter(caller: &Arc<ScriptCaller>, turn: &Turn, resources: Arc<Resources>) -> Self {
        let call = Call {
            caller: caller.clone(),
            turn: turn.clone(),
            resources,
            out: None,
            printed: 0,
            warned: None,
            captured: CapturedVariables::default(),
            built: AnswerPositions::default(),
        };
        let mark = crash::running(&call.caller.version, clock::now());
        // Nested calls are rare, so only they allocate.
        let before = CALL.with_borrow_mut(|running| {
            let before = if running.is_some() { running.take().map(Box::new) } else { None };
            *running = Some(call);
            before
        });
        Self { before, mark }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        match self.before.take() {
            None => drop(CALL.take()),
            Some(before) => drop(CALL.replace(Some(*before))),
        }
        crash::stopped(self.mark);
    }
}

/// Records a variable that the running call shares with a closure; the variable is emptied at the end of the call.
/// Does nothing outside of a call.
pub(crate) fn remember_captured(shared: &Dynamic) {
    CALL.with_borrow_mut(|call| {
        if let Some(call) = call {
            call.captured.add(shared.clone());
        }
    });
}

/// Stops the plugin of the running call permanently, and removes the call from the thread without freeing its
/// memory.
pub(crate) fn forget() {
    let call = CALL.try_with(|call| call.try_borrow_mut().ok().and_then(|mut call| call.take()));
    if let Ok(Some(call)) = call {
        call.caller.breaker.trip("a single operation exceeded its memory limit and could not be interrupted");
        std::mem::forget(call);
    }
}

/// Sets the receiver of the chunks that the running call of a pipe sends.
pub fn write_to(out: Arc<dyn ChunkSink>) {
    CALL.with_borrow_mut(|call| {
        if let Some(call) = call {
            call.out = Some(out);
        }
    });
}

/// Continues the running call in another turn.
pub fn in_turn(turn: Turn) {
    CALL.with_borrow_mut(|call| {
        if let Some(call) = call {
            call.turn = turn;
        }
    });
}

/// Records that the running call built an answer.
pub(crate) fn note_built(note: impl FnOnce(&mut AnswerPositions)) {
    CALL.with_borrow_mut(|call| {
        if let Some(call) = call {
            note(&mut call.built);
        }
    });
}

/// Returns the positions of the answers that the running call has built.
pub(crate) fn built() -> AnswerPositions {
    CALL.with_borrow(|call| call.as_ref().map(|call| call.built).unwrap_or_default())
}

/// Suspends the running call of this thread and returns it.
pub(crate) fn put_aside() -> Option<Call> {
    crash::stopped(Mark::default());
    CALL.take()
}

pub(crate) fn go_on(call: Option<Call>) {
    if let Some(call) = &call {
        crash::running(&call.caller.version, clock::now());
    }
    CALL.set(call);
}

/// Returns the id of the running plugin; "" outside of a call.
pub(crate) fn plugin() -> String {
    CALL.with_borrow(|call| call.as_ref().map(|call| call.caller.plugin.to_string()).unwrap_or_default())
}

/// Returns `true` if the running call is that of a guard.
pub(crate) fn is_of_guard() -> bool {
    CALL.with_borrow(|call| call.as_ref().is_some_and(|call| call.caller.is_guard))
}

/// Returns `true` if the turn of the running call has ended.
pub(crate) fn is_over() -> bool {
    CALL.with_borrow(|call| call.as_ref().is_some_and(|call| call.turn.is_over()))
}

/// Adds to the load of the running call's request. Does nothing outside of a call.
pub(crate) fn claim(share: Share, amount: usize, most: usize) -> Result<Option<Claim>, LoadExceeded> {
    CALL.with_borrow(|call| {
        let load = call.as_ref().map(|call| call.turn.load());
        load.map(|load| load.claim(share, amount, most)).transpose()
    })
}

/// Returns the time that the running call sees, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    CALL.with_borrow(|call| match call {
        Some(call) => call.resources.clock.now_ms(),
        None => Clock::Real.now_ms(),
    })
}

/// Passes the running call to a function; `None` outside of a call.
#[inline]
pub(crate) fn with<T>(look: impl FnOnce(Option<&Call>) -> T) -> T {
    CALL.with_borrow(|call| look(call.as_ref()))
}

/// Counts a printed line of the running call and returns its number; 1 outside of a call.
pub(crate) fn count_line() -> u32 {
    CALL.with_borrow_mut(|call| {
        call.as_mut().map_or(1, |call| {
            call.printed += 1;
            call.printed
        })
    })
}

/// Records that the running call warns about the code at this position. Returns `true` if it is the first time.
pub(crate) fn note_warning(at: rhai::Position) -> bool {
    CALL.with_borrow_mut(|call| {
        call.as_mut().is_none_or(|call| {
            let warned = call.warned.get_or_insert_default();
            let is_first = !warned.contains(&at);
            if is_first {
                warned.push(at);
            }
            is_first
        })
    })
}

/// Returns the running call.
pub fn current() -> Option<Call> {
    CALL.with_borrow(Clone::clone)
}

/// Returns the running call if its turn may pause for a person.
pub fn current_that_may_pause() -> Option<Call> {
    CALL.with_borrow(|call| call.as_ref().filter(|call| call.turn.pauses().is_some()).cloned())
}

/// Counts a log line or an event. Returns `true` if it was already reported before the running step paused.
pub fn was_reported() -> bool {
    CALL.with_borrow(|call| {
        let Some(call) = call else { return false };
        let by = || call.turn.recorded_by(&call.caller.plugin);
        call.turn.pauses().is_some_and(|pauses| pauses.was_reported(&by()))
    })
}

/// The variables that one call shares with closures.
#[derive(Default)]
pub(crate) struct CapturedVariables(Option<Box<Variables>>);

#[derive(Default)]
struct Variables(Vec<Dynamic>);

impl CapturedVariables {
    pub(crate) fn add(&mut self, shared: Dynamic) {
        self.0.get_or_insert_default().0.push(shared);
    }
}

/// A copy is empty: only the original call empties the variables.
impl Clone for CapturedVariables {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Variables {
    fn drop(&mut self) {
        for mut shared in self.0.drain(..) {
            let held = shared.write_lock::<Dynamic>().map(|mut place| std::mem::take(&mut *place));
            // The lock is released first, because the value may hold the last reference to other variables.
            drop(held);
        }
    }
}
