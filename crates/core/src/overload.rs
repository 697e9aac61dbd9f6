//! Conversion of the errors of lanes into those of plugins and turns.

use crate::error::{Error, PluginError, Rejection};
use std::time::Duration;
use valvehouse_executor::ExecutorError;

/// The time after which a client of an overloaded host should try again, in seconds.
const RETRY_AFTER: u32 = 1;

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
