//! The errors of lanes.

use super::health::{lost_now, max_stuck};
use std::fmt;

/// The maximum number of pieces of work at a time. Each has a stack, and systems limit the mappings of a
/// process.
pub(super) const MAX_WAITING: usize = 20_000;

/// The reason why a piece of work returned no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExecutorError {
    /// Too many pieces of work are waiting.
    Full,
    /// The system provided no stack.
    NoStack(std::io::Error),
    /// The work was abandoned because it far exceeded its memory limit.
    Abandoned,
    /// The work was abandoned with its thread because it computed for too long without yielding.
    Stuck,
    /// The thread was lost because other work on it was stuck, usually of the same owner.
    Lost,
    /// No thread can be started because too many were lost.
    NoLane,
    /// The work panicked; the panic was logged where it occurred.
    Panicked,
}

impl fmt::Display for ExecutorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => {
                write!(
                    f,
                    "cannot start the script: {MAX_WAITING} scripts are already waiting; try again later"
                )
            }
            Self::NoStack(error) => {
                write!(f, "cannot allocate a stack for the script: {error}")
            }
            Self::Abandoned => f.write_str("the call was abandoned: it far exceeded its memory limit"),
            Self::Stuck => {
                let most = max_stuck().as_secs();
                write!(f, "the call was abandoned: it computed for more than {most} s within one operation")
            }
            Self::Lost => f.write_str("the call was ended with its thread, which another call had blocked"),
            Self::NoLane => {
                let lost = lost_now();
                write!(f, "cannot start the script: plugins block {lost} threads; restart the host")
            }
            Self::Panicked => f.write_str("the work on a lane panicked"),
        }
    }
}

impl std::error::Error for ExecutorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoStack(error) => Some(error),
            _ => None,
        }
    }
}

impl ExecutorError {
    /// Returns `true` if the host was too busy to start the work, which is not the fault of its plugin.
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::Full | Self::NoStack(_) | Self::NoLane)
    }
}

impl From<std::io::Error> for ExecutorError {
    fn from(error: std::io::Error) -> Self {
        Self::NoStack(error)
    }
}

/// The cause recorded in the breaker of a plugin whose call ended with [`ExecutorError::Stuck`].
pub const STUCK: &str = "a call computed for too long within one operation";

/// The error of abandoned work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedWork;

impl fmt::Display for AbandonedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work was abandoned")
    }
}

impl std::error::Error for AbandonedWork {}
