//! A service asked with patience: again when it failed before it said anything, not at all while it
//! fails again and again, and never longer than allowed.
//!
//! Asking again is safe up to the first byte of an answer; this waits for that byte, so that what fails
//! with it is still a failure before the answer.

mod provider;
mod retry;
mod stream;

pub use provider::Patient;

#[cfg(test)]
mod tests;
