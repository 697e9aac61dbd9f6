//! A future with a stack of its own: what runs in it waits by putting the stack aside.

// The one thing a coroutine cannot say safely: that a reference to it is good while its stack runs.
#![allow(unsafe_code)]

use super::error::AbandonedWork;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};
use tokio::runtime::Handle;

/// Scripts recurse on the stack of whoever compiles, runs or drops them: as deep as what they may allocate can be
/// linked. Only what is used is ever backed by memory.
pub const STACK: usize = 256 << 20;

/// The reason for which waiting ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// Nobody wants the result any more.
    Over,
    /// This thread is not a lane: it may not wait.
    Elsewhere,
}

/// The signal that a piece of work gets each time it goes on.
enum Signal {
    /// Go on, and say here when there is more to do.
    GoOn(Waker),
    /// Come to an end.
    End,
}

/// Work that runs on a stack of its own whenever it is polled.
pub(super) struct Stackful<T: 'static> {
    /// None once it is over or abandoned.
    coroutine: Option<Coroutine<Signal, (), T>>,
    /// The runtime whose timers and sockets the work uses.
    runtime: Option<Handle>,
}

impl<T> Stackful<T> {
    pub(super) fn new(runtime: Option<Handle>, work: impl FnOnce() -> T + 'static) -> std::io::Result<Self> {
        let stack = DefaultStack::new(STACK)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder, signal| {
            let _running = Running::enter(yielder, signal);
            work()
        });
        Ok(Self { coroutine: Some(coroutine), runtime })
    }
}

impl<T> Stackful<T> {
    /// Work within other work on a lane, whose timers and sockets it uses.
    ///
    /// # Safety
    ///
    /// The values that the work borrows must be there until this is dropped; for good if the work is abandoned.
    pub(super) unsafe fn borrowing<'a>(work: impl FnOnce() -> T + 'a) -> std::io::Result<Self> {
        let stack = DefaultStack::new(STACK)?;
        let run = move |yielder: &Yielder<Signal, ()>, signal: Signal| {
            let _running = Running::enter(yielder, signal);
            work()
        };
        // SAFETY: as the caller promises.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        Ok(Self { coroutine: Some(coroutine), runtime: None })
    }
}

// Nothing in it points into itself: the stack lies elsewhere.
impl<T> Unpin for Stackful<T> {}

impl<T> Future for Stackful<T> {
    type Output = Result<T, AbandonedWork>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let _runtime = this.runtime.as_ref().map(Handle::enter);
        let Some(coroutine) = &mut this.coroutine else { return Poll::Ready(Err(AbandonedWork)) };
        match coroutine.resume(Signal::GoOn(context.waker().clone())) {
            CoroutineResult::Yield(()) if was_abandoned() => {
                // Its stack is still in use by what must never run again.
                std::mem::forget(this.coroutine.take());
                Poll::Ready(Err(AbandonedWork))
            }
            CoroutineResult::Yield(()) => Poll::Pending,
            CoroutineResult::Return(value) => Poll::Ready(Ok(value)),
        }
    }
}

impl<T> Drop for Stackful<T> {
    /// Lets the work come to its end: what it holds is dropped by itself, in its own order.
    fn drop(&mut self) {
        let _runtime = self.runtime.as_ref().map(Handle::enter);
        let Some(coroutine) = &mut self.coroutine else { return };
        while coroutine.started() && !coroutine.done() {
            coroutine.resume(Signal::End);
            if was_abandoned() {
                std::mem::forget(self.coroutine.take());
                return;
            }
        }
    }
}

fn was_abandoned() -> bool {
    ABANDONED.replace(false)
}

/// Leaves the work that runs on this lane behind, and never returns; elsewhere returns at once.
pub(super) fn abandon() {
    let mut away = Away(HERE.take());
    let Ok(here) = away.here() else { return };
    ABANDONED.set(true);
    loop {
        here.suspend();
    }
}

thread_local! {
    /// Set if the work that has just been suspended is abandoned.
    static ABANDONED: Cell<bool> = const { Cell::new(false) };
    /// The work whose stack this thread is on.
    static HERE: Cell<Option<Here>> = const { Cell::new(None) };
}

/// The way from the running work to the one who polls it.
struct Here {
    yielder: NonNull<Yielder<Signal, ()>>,
    signal: Signal,
}

impl Here {
    /// Puts the stack aside until it is polled again.
    fn suspend(&mut self) {
        // SAFETY: `HERE` is set by `Running::enter` on the coroutine's own stack, for no longer than the
        // coroutine's function runs, and taken from it before the stack is left: only code on that stack
        // finds it. The yielder lives as long as that function. The coroutine never changes threads,
        // since neither it nor `Here` is `Send`.
        self.signal = unsafe { self.yielder.as_ref() }.suspend(());
    }
}

/// Names the running work until it ends.
struct Running;

impl Running {
    fn enter(yielder: &Yielder<Signal, ()>, signal: Signal) -> Self {
        HERE.set(Some(Here { yielder: NonNull::from(yielder), signal }));
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        HERE.set(None);
    }
}

/// The running work, taken out of the thread: what is polled or goes on meanwhile is somebody else.
pub(super) struct Away(Option<Here>);

impl Away {
    pub(super) fn take() -> Self {
        Self(HERE.take())
    }

    fn here(&mut self) -> Result<&mut Here, WaitEnd> {
        self.0.as_mut().ok_or(WaitEnd::Elsewhere)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        HERE.set(self.0.take());
    }
}

/// Returns `true` if this is work on a lane, which may wait.
pub fn is_here() -> bool {
    let here = HERE.take();
    let is = here.is_some();
    HERE.set(here);
    is
}

/// Waits for a future while the lane goes on with other work. `aside` is given what puts the stack aside,
/// and calls it: around that it can take from the thread what belongs to this work only.
pub fn wait<F: Future>(future: F, mut aside: impl FnMut(&mut dyn FnMut())) -> Result<F::Output, WaitEnd> {
    let mut away = Away(HERE.take());
    let here = away.here()?;
    let mut future = pin!(future);
    loop {
        let Signal::GoOn(waker) = &here.signal else { return Err(WaitEnd::Over) };
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
            return Ok(output);
        }
        aside(&mut || here.suspend());
    }
}

/// Lets the other work of this lane go on for a moment. Elsewhere nothing happens.
pub fn give_way() -> Result<(), WaitEnd> {
    let mut away = Away(HERE.take());
    let Ok(here) = away.here() else { return Ok(()) };
    if let Signal::GoOn(waker) = &here.signal {
        waker.wake_by_ref();
        here.suspend();
    }
    match here.signal {
        Signal::GoOn(_) => Ok(()),
        Signal::End => Err(WaitEnd::Over),
    }
}
