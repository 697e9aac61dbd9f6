//! Tests of scripts: `turn_limit.test.rhai` beside `turn_limit.rhai`, with functions `test_…`.
//!
//! Every test has an environment of its own: a fresh script with its declared valves, empty kv, a clock that stands
//! still, and nothing outside: models, hosts, people and files answer what the test laid out (`canned::…`).
//! Hooks run through the same chain and turn as behind an endpoint. What tests may call is in `words`.

mod canned;
mod failure;
mod programs;
mod run;
mod environment;
mod suite;
mod turns;
mod functions;

pub use failure::TestFailure;
pub(crate) use functions::modules;
pub use suite::{Suite, SuiteOptions, Test, TestResult};
