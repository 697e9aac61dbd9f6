//! The errors of lanes.

use super::health::{lost_now, max_stuck};
use std::fmt;

/// Pieces of work at a time. Each has a stack, and a system gives a process only so many mappings.
pub(super) const MAX_WAITING: usize = 20_000;
/// The reason for which a piece of work gave no value.
#[derive(Debug)]
pub enum LaneError {
    /// Too much of it already waits.
    Full,
    /// The system gave no stack.
    NoStack(std::io::Error),
    /// It was left behind: it went far beyond what it may take.
    Abandoned,
    /// It computed for too long without giving way, and was left behind with its thread.
    Stuck,
    /// The thread was left behind since other work on it was stuck, mostly of the same owner.
    Lost,
    /// Too many threads were left behind.
    NoLane,
    /// It panicked, which was told where it happened.
    Panicked,
}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => {
                write!(f, "{MAX_WAITING} scripts wait already, which is as many as there may be at once")
            }
            Self::NoStack(error) => {
                write!(f, "there is no memory for the stack of one more script that waits: {error}")
            }
            Self::Abandoned => f.write_str("the call took far more memory than it may, and was abandoned"),
            Self::Stuck => {
                let most = max_stuck().as_secs();
                write!(f, "the call computed for more than {most} s within one operation, and was abandoned")
            }
            Self::Lost => f.write_str("the call was ended with its thread, which another call held up"),
            Self::NoLane => {
                let lost = lost_now();
                write!(
                    f,
                    "no thread is left for this script: {lost} are held up by plugins; restart the host"
                )
            }
            Self::Panicked => f.write_str("the work on a lane panicked"),
        }
    }
}

impl std::error::Error for LaneError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoStack(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for LaneError {
    fn from(error: std::io::Error) -> Self {
        Self::NoStack(error)
    }
}

/// The cause with which the breaker of a plugin is tripped whose call ended with [`LaneError::Stuck`].
pub const STUCK: &str = "it computed for far too long within one operation";

/// The work was left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedWork;

impl fmt::Display for AbandonedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work was abandoned")
    }
}

impl std::error::Error for AbandonedWork {}
