//! Concurrent pieces of work within a piece that runs on a lane: while one waits, another runs.
//!
//! Each piece has its own stack and runs only while its parent does: its costs count as the parent's, and it
//! may borrow from the parent.

// As in `stackful`: a coroutine that borrows is run to its end, or dropped, before the borrowed data.
#![allow(unsafe_code)]

use super::error::{AbandonedWork, ExecutorError};
use super::stackful::{self, Away, Stackful};
use super::work::Place;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// A piece of work that borrows from its caller.
pub type Job<'a, T> = Box<dyn FnOnce() -> T + 'a>;

/// The reason why the pieces ended before all had a value.
#[derive(Debug)]
pub enum TogetherError<E> {
    /// A piece could not start.
    Lane(ExecutorError),
    /// The wait for the pieces ended with this error.
    Rest(E),
}

/// A waker that any of the pieces wakes.
#[derive(Default)]
struct Bell {
    rings: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rings.store(true, SeqCst);
        if let Some(sleeper) = self.sleeper.lock().take() {
            sleeper.wake();
        }
    }
}

impl Bell {
    /// Waits until a piece can continue, yielding to other work on this lane at least once.
    fn rung(&self) -> impl Future<Output = ()> + Unpin + '_ {
        let mut has_given_way = false;
        poll_fn(move |context| {
            *self.sleeper.lock() = Some(context.waker().clone());
            if !self.rings.load(SeqCst) {
                has_given_way = true;
                return Poll::Pending;
            }
            if !std::mem::replace(&mut has_given_way, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.rings.store(false, SeqCst);
            Poll::Ready(())
        })
    }
}

/// The started pieces; dropping this value ends those that remain.
struct Siblings<'f, T: 'static> {
    pieces: Vec<(usize, Stackful<T>, Place)>,
    inside: &'f mut dyn FnMut(bool),
}

impl<T> Siblings<'_, T> {
    /// Runs each piece until it waits or ends. Returns the values of finished pieces, and `true` if one was
    /// abandoned.
    fn go_on(&mut self, waker: &Waker) -> (Vec<(usize, T)>, bool) {
        let _away = Away::take();
        (self.inside)(true);
        let (mut values, mut is_abandoned) = (Vec::new(), false);
        let mut context = Context::from_waker(waker);
        self.pieces.retain_mut(|(index, piece, _)| {
            if is_abandoned {
                return true;
            }
            match Pin::new(piece).poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(Ok(value)) => {
                    values.push((*index, value));
                    false
                }
                Poll::Ready(Err(AbandonedWork)) => {
                    is_abandoned = true;
                    true
                }
            }
        });
        (self.inside)(false);
        (values, is_abandoned)
    }
}

impl<T> Drop for Siblings<'_, T> {
    fn drop(&mut self) {
        if self.pieces.is_empty() {
            return;
        }
        let _away = Away::take();
        (self.inside)(true);
        self.pieces.clear();
        (self.inside)(false);
    }
}

/// Runs pieces of work concurrently, at most `limit` at a time, and returns their values in order. Once
/// `is_enough` returns `true` for a value, the other pieces are ended and have no value. `inside` is called
/// with `true` when pieces start to run on this thread and with `false` when they stop. `rest` waits for the
/// future passed to it, as [`wait`](super::wait) does.
///
/// # Errors
///
/// Returns the error of `rest`, or that of a piece that could not start; all pieces are ended then.
pub fn together<'a, T: 'static, E>(
    works: Vec<Job<'a, T>>,
    limit: usize,
    mut inside: impl FnMut(bool),
    mut is_enough: impl FnMut(&T) -> bool,
    mut rest: impl FnMut(&mut (dyn Future<Output = ()> + Unpin)) -> Result<(), E>,
) -> Result<Vec<Option<T>>, TogetherError<E>> {
    let mut values: Vec<Option<T>> = works.iter().map(|_| None).collect();
    let mut waiting: VecDeque<(usize, Job<'a, T>)> = works.into_iter().enumerate().collect();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut siblings = Siblings { pieces: Vec::new(), inside: &mut inside };
    loop {
        while siblings.pieces.len() < limit.max(1)
            && let Some((index, work)) = waiting.pop_front()
        {
            let place = Place::take_for_part().map_err(TogetherError::Lane)?;
            // SAFETY: `siblings` is dropped in this function, and drives what has begun to its end; if a piece is
            // abandoned, so is the stack of this function, which then never returns.
            let piece = unsafe { Stackful::borrowing(work) };
            let piece = piece.map_err(|error| TogetherError::Lane(ExecutorError::NoStack(error)))?;
            siblings.pieces.push((index, piece, place));
        }
        if siblings.pieces.is_empty() {
            return Ok(values);
        }
        let (ended, is_abandoned) = siblings.go_on(&waker);
        if is_abandoned {
            stackful::abandon();
            return Err(TogetherError::Lane(ExecutorError::Abandoned));
        }
        let mut is_over = false;
        let has_ended = !ended.is_empty();
        for (index, value) in ended {
            is_over |= is_enough(&value);
            values[index] = Some(value);
        }
        if is_over {
            return Ok(values);
        }
        if has_ended && (!waiting.is_empty() || siblings.pieces.is_empty()) {
            continue;
        }
        rest(&mut bell.rung()).map_err(TogetherError::Rest)?;
    }
}
