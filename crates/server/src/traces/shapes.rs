//! The schemas of traces, whose fields `valvehouse_core` and `valvehouse_host` declare.
#![expect(dead_code, reason = "their JSON is put together elsewhere")]

use schemars::JsonSchema;
use valvehouse_core::trace::{TraceEvent, TraceFacts, TraceLine, TraceStep};
use valvehouse_host::traces::TraceSums;

/// A request in a list.
#[derive(JsonSchema)]
pub(crate) struct TraceSummary {
    #[serde(flatten)]
    facts: TraceFacts,
    #[serde(flatten)]
    sums: TraceSums,
    /// The number of steps.
    steps: u64,
}

/// A request with its steps, lines and events.
#[derive(JsonSchema)]
pub(crate) struct Trace {
    #[serde(flatten)]
    facts: TraceFacts,
    #[serde(flatten)]
    sums: TraceSums,
    steps: Vec<TraceStep>,
    lines: Vec<TraceLine>,
    events: Vec<TraceEvent>,
}
