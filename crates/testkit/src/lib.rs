//! Parts that the tests of several packages share: recorded answers of providers and a server on loopback. Not
//! published.

// Code of tests: it panics where a test fails and reports on the standard output.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

pub mod loopback;
#[cfg(all(unix, feature = "postgres"))]
pub mod postgres;
pub mod recordings;
