//! Parts that the tests of several packages share: recorded answers of providers, a server on loopback, a server of
//! Postgres. Not published.

// Code of tests: it panics where a test fails and reports on the standard output.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

pub mod loopback;
#[cfg(all(unix, feature = "postgres"))]
pub mod postgres;
pub mod recordings;
