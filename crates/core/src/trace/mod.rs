//! Traces: records of current and recent requests, with the caller, the steps, their costs and, on demand,
//! their values.
//!
//! A [`Trace`] belongs to the facts of its turn. Without contents, it records names, numbers and failure
//! reasons, as the log does, and nothing of the conversation.

mod access_line;
mod guard_coverage;
mod facts;
mod json;
mod prompt_cache;
mod queue;
mod record;
mod request_scope;
pub(crate) mod spans;
mod step;
#[cfg(test)]
mod tests;
mod totals;
#[expect(clippy::module_inception, reason = "a trace is what this folder is about")]
mod trace;
mod traces;

pub use access_line::{ACCESS, AccessLine, AccessLog};
pub use facts::{Contents, EventRecord, Line, RequestEnd, RequestFacts};
pub use guard_coverage::{GuardCoverage, GuardCoverageRow};
#[cfg(feature = "typed")]
pub use json::{
    TraceDetail, TraceEvent, TraceFacts, TraceLine, TraceStep, TraceSummary, TraceValue, ValueChange,
};
pub(crate) use prompt_cache::PromptCacheWatch;
pub use queue::{TraceBatch, TraceQueue};
pub use record::{Cost, Details, StepRecord, Tokens, What};
pub use request_scope::RequestScope;
pub use spans::SPANS;
pub use step::{End, Step};
pub use totals::Totals;
pub use trace::{CalledModel, News, Pricing, Trace};
pub use traces::{Counting, TraceGuard, Traces};
