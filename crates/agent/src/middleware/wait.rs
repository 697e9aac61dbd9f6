//! Waiting within a filter that runs on a lane.

use valvehouse_core::context::Turn;
use valvehouse_executor::{self as executor, WaitEnd};

/// The error of a wait whose turn ended.
const OVER: &str = "the turn has ended";

/// Waits for a future until the turn ends. The filter must declare a matching workload.
pub(crate) fn wait<F: Future>(future: F, turn: &Turn) -> Result<F::Output, &'static str> {
    let awaited = async {
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = turn.over() => Err(OVER),
        }
    };
    match executor::wait(awaited, |put_aside| put_aside()) {
        Ok(output) => output,
        Err(WaitEnd::Over) => Err(OVER),
        Err(WaitEnd::Elsewhere) => Err("cannot wait here: only a running call may wait"),
    }
}
