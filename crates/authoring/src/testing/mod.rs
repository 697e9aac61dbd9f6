//! Tests of scripts: `turn_limit.test.rhai` next to `turn_limit.rhai`, with functions `test_…`.
//!
//! Every test has its own environment: a fresh script with its declared valves, an empty store, a clock that does
//! not advance, and no access to the outside: models, hosts, people and files are those that the test defines
//! (`canned::…`). Hooks run through the same chain and turn as behind an endpoint. The functions of tests are in
//! `functions`.

mod canned;
mod failure;
mod places;
mod programs;
mod run;
mod environment;
mod suite;
mod turns;
mod functions;

pub use failure::TestFailure;
pub use functions::test_functions;
pub use suite::{Suite, SuiteOptions, Test, TestResult};
