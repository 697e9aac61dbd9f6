//! Parts that the tests of several packages share: recorded answers of providers, a server on loopback, a server of
//! Postgres, a scripted upstream, a whole host, the command line. Not published.

// Code of tests: it panics where a test fails and reports on the standard output.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[cfg(feature = "command")]
pub mod command;
#[cfg(feature = "host")]
pub mod host;
pub mod loopback;
#[cfg(all(unix, feature = "postgres"))]
pub mod postgres;
pub mod recordings;
#[cfg(feature = "tracing")]
pub mod subscriber;
#[cfg(feature = "host")]
pub mod upstream;
#[cfg(feature = "host")]
pub mod well_formed;
#[cfg(feature = "host")]
mod wait;
mod slow;
mod tiers;

pub use slow::{slow_variables, slowness};
pub use tiers::{by_length, cases, is_long, sampled};
