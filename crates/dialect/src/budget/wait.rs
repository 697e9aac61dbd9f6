//! Waiting within a call: for the network, another program or a person.

use super::limits::{ExceededLimit, ended};
use super::meter;
use crate::call::clock;
use crate::value::error;
use rhai::EvalAltResult;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use valvehouse_core::context::Turn;
use valvehouse_executor::{self as executor, WaitEnd};

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// Waits for a future without counting the running time. Ends at the wall-clock limit of the call or with its turn.
///
/// # Errors
/// Returns an error if a limit is reached or the turn ends before the future.
pub fn wait<F: Future>(turn: &Turn, future: F) -> Answer<F::Output> {
    clock::want();
    let (wall, budget) = meter::limits();
    let until_wall = Duration::from_millis(wall.saturating_sub(clock::now()));
    let mut future = pin!(future);
    // The received value already counts toward the memory of this call.
    let coming = poll_fn(|context| match meter::passed_memory() {
        Some(exceeded) => Poll::Ready(Err(exceeded)),
        None => future.as_mut().poll(context).map(Ok),
    });
    let awaited = async {
        tokio::select! {
            biased;
            output = coming => output,
            () = turn.over() => Err(ExceededLimit::Over),
            () = tokio::time::sleep(until_wall) => Err(ExceededLimit::Wall(budget.wall)),
        }
    };
    let result = if meter::is_branch() {
        // Only this part is suspended; the call continues with its other parts.
        executor::wait(awaited, |put_aside| put_aside())
    } else {
        let _held = meter::claim_held().map_err(ended)?;
        let wait = || {
            let waited = executor::wait(awaited, |put_aside| meter::aside(put_aside));
            // The clock may have stopped meanwhile: the waited time still counts.
            clock::want();
            waited
        };
        meter::with_clock_stopped(wait)
    };
    let result = match result {
        Ok(result) => result,
        Err(WaitEnd::Over) => Err(ExceededLimit::Over),
        Err(WaitEnd::Elsewhere) => return Err(error("cannot wait here: only a running call may wait")),
    };
    result.map_err(ended)
}

/// Waits for a person: like [`wait`], but the time does not count unless the budget sets `hurries_people`.
///
/// # Errors
/// Returns an error if the call ends meanwhile.
pub fn wait_for_person<F: Future>(turn: &Turn, future: F) -> Answer<F::Output> {
    if meter::is_branch() {
        return Err(error("cannot ask a person within `parallel`; call `ask` before or after it"));
    }
    let (wall, budget) = meter::limits();
    if budget.hurries_people {
        return wait(turn, future);
    }
    clock::want();
    let began = clock::now();
    meter::set_wall(u64::MAX);
    let result = wait(turn, future);
    meter::set_wall(wall.saturating_add(clock::now().saturating_sub(began)));
    result
}
