//! A future with its own stack: code that runs in it waits by suspending the stack.

// The one unsafe promise about a coroutine: a reference to its yielder is valid while its stack runs.
#![allow(unsafe_code)]

use super::error::AbandonedWork;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};
use tokio::runtime::Handle;

/// The stack size in bytes. Scripts recurse on the stack of the code that compiles, runs or drops them, up to
/// the nesting depth that their memory limit permits. Only used pages take memory.
pub const STACK: usize = 256 << 20;

/// The reason why a wait ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The result is no longer needed.
    Over,
    /// The thread is not a lane and must not wait.
    Elsewhere,
}

/// The signal with which a piece of work is resumed.
enum Signal {
    /// Continue, and wake this waker when there is more to do.
    GoOn(Waker),
    /// End the work.
    End,
}

/// Work that runs on its own stack each time it is polled.
pub(super) struct Stackful<T: 'static> {
    /// `None` once the work is finished or abandoned.
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
    /// Creates work within other work on a lane, whose timers and sockets it uses.
    ///
    /// # Safety
    ///
    /// The values that the work borrows must outlive this value, and must never be dropped if the work is
    /// abandoned.
    pub(super) unsafe fn borrowing<'a>(work: impl FnOnce() -> T + 'a) -> std::io::Result<Self> {
        let stack = DefaultStack::new(STACK)?;
        let run = move |yielder: &Yielder<Signal, ()>, signal: Signal| {
            let _running = Running::enter(yielder, signal);
            work()
        };
        // SAFETY: guaranteed by the caller.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        Ok(Self { coroutine: Some(coroutine), runtime: None })
    }
}

// The value has no pointers into itself: the stack is allocated elsewhere.
impl<T> Unpin for Stackful<T> {}

impl<T> Future for Stackful<T> {
    type Output = Result<T, AbandonedWork>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let _runtime = this.runtime.as_ref().map(Handle::enter);
        let Some(coroutine) = &mut this.coroutine else { return Poll::Ready(Err(AbandonedWork)) };
        match coroutine.resume(Signal::GoOn(context.waker().clone())) {
            CoroutineResult::Yield(()) if was_abandoned() => {
                // The stack is still borrowed by work that must never run again.
                std::mem::forget(this.coroutine.take());
                Poll::Ready(Err(AbandonedWork))
            }
            CoroutineResult::Yield(()) => Poll::Pending,
            CoroutineResult::Return(value) => Poll::Ready(Ok(value)),
        }
    }
}

impl<T> Drop for Stackful<T> {
    /// Runs the work to its end, so that its values are dropped in order.
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

/// Abandons the work that runs on this lane and never returns. Returns at once on other threads.
pub(super) fn abandon() {
    let mut away = Away(HERE.take());
    let Ok(here) = away.here() else { return };
    ABANDONED.set(true);
    loop {
        here.suspend();
    }
}

thread_local! {
    /// Set if the work just suspended is abandoned.
    static ABANDONED: Cell<bool> = const { Cell::new(false) };
    /// The work whose stack this thread is running on.
    static HERE: Cell<Option<Here>> = const { Cell::new(None) };
}

/// The handle with which running work returns to the code that polls it.
struct Here {
    yielder: NonNull<Yielder<Signal, ()>>,
    signal: Signal,
}

impl Here {
    /// Suspends the stack until it is polled again.
    fn suspend(&mut self) {
        // SAFETY: `HERE` is set by `Running::enter` on the coroutine's own stack, for no longer than the
        // coroutine's function runs, and taken from it before the stack is left: only code on that stack
        // finds it. The yielder lives as long as that function. The coroutine never changes threads,
        // since neither it nor `Here` is `Send`.
        self.signal = unsafe { self.yielder.as_ref() }.suspend(());
    }
}

/// A guard that registers the running work until it ends.
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

/// The running work, removed from the thread while other work is polled or resumed.
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

/// Returns `true` on a lane, where work may wait.
pub fn is_here() -> bool {
    let here = HERE.take();
    let is = here.is_some();
    HERE.set(here);
    is
}

/// Waits for a future while the lane runs other work. `aside` receives the function that suspends the stack and
/// must call it; it can save and restore thread-local state around that call.
///
/// # Errors
/// Returns an error if the work must end or this thread is not a lane.
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

/// Yields to the other work of this lane; does nothing on other threads.
///
/// # Errors
/// Returns an error if the work must end.
pub fn yield_now() -> Result<(), WaitEnd> {
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
