//! A provider as turns use it: its credentials, retries, circuit breakers, time limits and metrics in one
//! place.
//!
//! A retry is safe until the first byte of an answer. [`Upstream`] waits for that byte, so that a failure
//! before it can still be retried.

mod breakers;
mod corrections;
mod credentials;
mod extras;
mod retry;
mod retrying;
mod stream;
mod provider;
mod watch;

pub use credentials::Credentials;
pub use extras::Extras;
pub use provider::Upstream;
pub use retrying::RetryingProvider;

#[cfg(test)]
mod tests;
