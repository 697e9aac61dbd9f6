//! Work on a separate stack of the same thread, so that it can be abandoned.
//!
//! Work that must stop, but can neither return nor unwind, is abandoned: its stack never runs again, and the
//! thread continues as if the work had ended. The resources held by the stack leak.

// As in `stackful`: a reference to a coroutine's yielder is valid while its stack runs, and a job ends, or
// never runs again, before the data that it borrows is dropped.
#![allow(unsafe_code)]

use super::error::AbandonedWork;
use super::stackful::{self, STACK};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

/// A job for a runner; its closure lives on the stack of the caller.
struct Job(NonNull<dyn FnMut()>);

/// A stack that runs one job after another.
struct Runner(ManuallyDrop<Coroutine<Job, (), ()>>);

impl Runner {
    fn new() -> std::io::Result<Self> {
        let stack = DefaultStack::new(STACK)?;
        let coroutine = Coroutine::with_stack(stack, |yielder: &Yielder<Job, ()>, mut job: Job| {
            loop {
                HERE.set(Some(NonNull::from(yielder)));
                // SAFETY: `run` waits until the job is over, or abandons this stack, which then never runs again.
                unsafe { job.0.as_mut()() };
                HERE.set(None);
                job = yielder.suspend(());
            }
        });
        Ok(Self(ManuallyDrop::new(coroutine)))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // SAFETY: dropped once, here; an abandoned runner is forgotten instead.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

thread_local! {
    /// The yielder with which the running job returns to its caller.
    static HERE: Cell<Option<NonNull<Yielder<Job, ()>>>> = const { Cell::new(None) };
    static WAS_ABANDONED: Cell<bool> = const { Cell::new(false) };
    /// The idle stack for the next job.
    static RUNNER: Cell<Option<Runner>> = const { Cell::new(None) };
}

/// Runs work so that [`abandon`] can end it. Within such work, and on a lane, the work is called directly.
///
/// # Errors
///
/// Returns [`AbandonedWork`] if the work was abandoned.
pub fn run_apart<T>(work: impl FnOnce() -> T) -> Result<T, AbandonedWork> {
    if HERE.get().is_some() || stackful::is_here() {
        return Ok(work());
    }
    let Some(mut runner) = RUNNER.take().or_else(|| Runner::new().ok()) else { return Ok(work()) };
    let (mut work, mut result) = (Some(work), None);
    let mut job = || result = work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
    let job: &mut dyn FnMut() = &mut job;
    // SAFETY: only the lifetime changes; the job is not run after this function has returned (see `Runner::new`).
    let job = Job(NonNull::from(unsafe {
        std::mem::transmute::<&mut dyn FnMut(), &mut (dyn FnMut() + 'static)>(job)
    }));
    match runner.0.resume(job) {
        CoroutineResult::Yield(()) if !WAS_ABANDONED.replace(false) => drop(RUNNER.replace(Some(runner))),
        // The stack is still borrowed by work that must never run again.
        CoroutineResult::Yield(()) => std::mem::forget(runner),
        CoroutineResult::Return(()) => {}
    }
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(panic)) => resume_unwind(panic),
        None => Err(AbandonedWork),
    }
}

/// Abandons the work that runs on this thread and never returns. Returns at once on the thread's own stack,
/// which cannot be abandoned.
pub fn abandon() {
    if let Some(yielder) = HERE.take() {
        WAS_ABANDONED.set(true);
        // SAFETY: `HERE` is set only while the coroutine's function runs, on whose stack this is.
        let yielder = unsafe { yielder.as_ref() };
        loop {
            yielder.suspend(());
        }
    }
    stackful::abandon();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_work_is_never_resumed_or_unwound() {
        struct Never;
        impl Drop for Never {
            fn drop(&mut self) {
                panic!("an abandoned stack was unwound");
            }
        }
        for _ in 0..3 {
            let ended = run_apart(|| {
                let _never = Never;
                abandon();
                unreachable!("it went on");
            });
            assert_eq!(ended, Err::<(), _>(AbandonedWork));
            assert_eq!(run_apart(|| 1 + 1), Ok(2));
        }
    }

    #[test]
    fn work_within_work_shares_its_stack() {
        assert_eq!(run_apart(|| run_apart(|| 7)), Ok(Ok(7)));
        let ended = run_apart(|| run_apart(abandon));
        assert!(ended.is_err());
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let caught = catch_unwind(|| run_apart(|| panic!("no")));
        assert!(caught.is_err());
        assert_eq!(run_apart(|| 3), Ok(3));
    }

    #[test]
    fn work_on_the_threads_own_stack_is_not_abandoned() {
        abandon();
    }
}
