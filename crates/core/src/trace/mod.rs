//! The records of requests while they run and for a while after: the caller, each step that was taken for
//! them, its cost and, where somebody asked for that, its change of the value.
//!
//! A [`Trace`] travels along with the facts of its turn. Without contents it keeps names and numbers, and
//! why something failed, as the log does; nothing of what anybody said.

mod guard_coverage;
mod facts;
mod json;
mod prompt_cache;
mod record;
mod step;
#[cfg(test)]
mod tests;
#[expect(clippy::module_inception, reason = "a trace is what this folder is about")]
mod trace;
mod traces;

pub use facts::{Contents, EventRecord, Line, RequestEnd, RequestFacts};
pub use guard_coverage::{GuardCoverage, GuardCoverageRow};
pub(crate) use prompt_cache::PromptCacheWatch;
pub use record::{Cost, Details, StepRecord, Tokens, What};
pub use step::{End, Step};
pub use trace::{News, Trace};
pub use traces::{Recording, Traces};
