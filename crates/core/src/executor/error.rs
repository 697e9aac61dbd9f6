//! The errors of lanes.

use super::health::{lost_now, max_stuck};
use crate::error::{Error, PluginError, Rejection};
use std::fmt;
use std::time::Duration;

/// The maximum number of pieces of work at a time. Each has a stack, and systems limit the mappings of a
/// process.
pub(super) const MAX_WAITING: usize = 20_000;
/// The time after which a client of an overloaded host should try again, in seconds.
const RETRY_AFTER: u32 = 1;

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
    fn is_overload(&self) -> bool {
        matches!(self, Self::Full | Self::NoStack(_) | Self::NoLane)
    }
}

/// An overload of the host does not count for the circuit breaker of the plugin, and clients receive 503.
impl From<ExecutorError> for PluginError {
    fn from(error: ExecutorError) -> Self {
        let message = error.to_string();
        let rejection = error.is_overload().then(|| {
            let rejection = Rejection::new(message.clone()).with_status(503);
            Box::new(Rejection { retry_after: Some(RETRY_AFTER.into()), ..rejection })
        });
        Self { is_by_request: rejection.is_some(), rejection, ..Self::new(message) }
    }
}

impl From<ExecutorError> for Error {
    fn from(error: ExecutorError) -> Self {
        let message = error.to_string();
        match error.is_overload() {
            true => Self::TooBusy { message, wait: Duration::from_secs(RETRY_AFTER.into()) },
            false => Self::Host(message),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::{Breaker, BreakerSettings, BreakerState};

    #[test]
    fn an_overload_of_the_host_is_a_503_and_does_not_open_the_breaker_of_a_plugin() {
        let settings = BreakerSettings { failure_threshold: 1, ..BreakerSettings::default() };
        let breaker = Breaker::new("filter", settings);
        let no_stack = || ExecutorError::NoStack(std::io::Error::other("out of memory"));
        for overload in [|| ExecutorError::Full, || ExecutorError::NoLane, no_stack] {
            breaker.record(BreakerState::Closed, Some(&overload().into()), || None);
            assert!(matches!(breaker.admit(|| None), BreakerState::Closed));
            let Error::Rejected(rejection) = Error::Broken(overload().into()).into_rejection() else {
                panic!("no rejection: {}", overload())
            };
            assert_eq!((rejection.status, rejection.retry_after), (503, Some(1.0)));
            assert!(matches!(Error::from(overload()), Error::TooBusy { .. }));
        }
        assert!(matches!(Error::from(ExecutorError::Stuck), Error::Host(_)));
        breaker.record(BreakerState::Closed, Some(&ExecutorError::Panicked.into()), || None);
        assert!(matches!(breaker.admit(|| None), BreakerState::Open(_)));
    }
}
