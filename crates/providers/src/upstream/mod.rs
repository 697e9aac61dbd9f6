//! A service as turns use it: its credentials, retries, breakers, time limits and metrics in one place.
//!
//! A retry is safe up to the first byte of an answer; [`Upstream`] waits for that byte, so that what fails with it is
//! still a failure before the answer.

mod breakers;
mod credentials;
mod retry;
mod retrying;
mod stream;
mod provider;
mod watch;

pub use credentials::Credentials;
pub use provider::Upstream;
pub use retrying::RetryingProvider;

#[cfg(test)]
mod tests;
