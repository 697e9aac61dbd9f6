//! Waiting within a filter that runs on a lane.

use valvehouse_core::context::Turn;
use valvehouse_core::lanes::{self, WaitEnd};

/// The reason for which a wait ended early.
const OVER: &str = "nobody waits for the answer any more";

/// Waits as long as somebody waits for the turn. A filter that may wait says so as its pace.
pub(crate) fn wait<F: Future>(future: F, turn: &Turn) -> Result<F::Output, &'static str> {
    let awaited = async {
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = turn.over() => Err(OVER),
        }
    };
    match lanes::wait(awaited, |put_aside| put_aside()) {
        Ok(output) => output,
        Err(WaitEnd::Over) => Err(OVER),
        Err(WaitEnd::Elsewhere) => Err("cannot wait here: only a running call may wait"),
    }
}
