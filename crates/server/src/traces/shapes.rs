//! The schemas of traces, whose JSON `valvehouse_core::trace` writes.
#![expect(dead_code, reason = "they describe JSON that is written elsewhere; a test compares both")]

use schemars::JsonSchema;
use serde_json::Value;

/// The fields of a trace that are also in a list.
#[derive(JsonSchema)]
pub(crate) struct TraceFacts {
    /// The id, which is also in the header `x-valvehouse-trace`.
    id: String,
    /// The start time in RFC 3339.
    begun: String,
    /// The endpoint.
    endpoint: String,
    model: String,
    stream: bool,
    /// The id of the user; empty if unknown.
    user: String,
    /// The id of the conversation; empty if there is none.
    chat_id: String,
    /// The generation of plugins that handled the request.
    generation: u64,
    /// Set while the request is in progress.
    running: bool,
    /// The HTTP status; null while the request is in progress.
    status: Option<u16>,
    /// `succeeded`, `disconnected`, `failed`, or the way in which a plugin ended the request: `refused`, `failed` or
    /// `breaker_open`; null while it runs.
    outcome: Option<String>,
    error: Option<String>,
    /// Set if the client received the whole answer.
    whole: bool,
    took_ms: f64,
    /// The number of values that plugins changed.
    changed: u64,
    /// Set if values of any step are recorded.
    contents: bool,
    /// The id of the host.
    host: String,
    /// The name of the key that pays for the request; null if it is not one that operators handed out.
    key: Option<String>,
    /// The provider of the last model call.
    provider: Option<String>,
    /// The prompt tokens of all model calls so far.
    prompt_tokens: u64,
    /// The completion tokens of all model calls so far.
    completion_tokens: u64,
    /// The time to the first part of a streamed answer of the model, in milliseconds.
    first_ms: Option<f64>,
    /// The cost of the tokens so far in the currency of the prices; null if the model has no prices.
    cost: Option<f64>,
    /// The plugin that rejected or failed the request.
    ended_by: Option<String>,
}

/// A request in a list.
#[derive(JsonSchema)]
pub(crate) struct TraceSummary {
    #[serde(flatten)]
    facts: TraceFacts,
    /// The number of steps.
    steps: u64,
}

/// A request with its steps, lines and events.
#[derive(JsonSchema)]
pub(crate) struct Trace {
    #[serde(flatten)]
    facts: TraceFacts,
    steps: Vec<TraceStep>,
    lines: Vec<TraceLine>,
    events: Vec<TraceEvent>,
}

/// A call of a hook, a tool or a model, or several calls of a hook for events.
#[derive(JsonSchema)]
pub(crate) struct TraceStep {
    name: String,
    plugin: Option<String>,
    /// The hook, `tool` or `model`.
    hook: String,
    /// The time since the start of the request, in milliseconds.
    at_ms: f64,
    calls: u64,
    took_us: u64,
    waited_us: u64,
    operations: u64,
    /// The allocated memory in bytes.
    memory: u64,
    outcome: String,
    /// The reason for a failure or rejection.
    cause: Option<String>,
    /// The time to the first byte of a model's answer, in microseconds.
    first_us: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    contents: bool,
    changed: u64,
    /// The recorded values, one for each call.
    values: Vec<TraceValue>,
}

/// A value before and after a call.
#[derive(JsonSchema)]
pub(crate) struct TraceValue {
    before: Value,
    after: Value,
    diff: Vec<DiffOperation>,
}

/// A change, as in JSON Patch (RFC 6902) with the values on both sides.
#[derive(JsonSchema)]
pub(crate) struct DiffOperation {
    op: String,
    /// A JSON Pointer.
    path: String,
    #[serde(default)]
    #[serde(skip_serializing_if = "Value::is_null")]
    before: Value,
    #[serde(default)]
    #[serde(skip_serializing_if = "Value::is_null")]
    after: Value,
}

/// A line that a script logged.
#[derive(JsonSchema)]
pub(crate) struct TraceLine {
    at_ms: f64,
    plugin: String,
    level: String,
    /// Null unless values are recorded.
    text: Option<String>,
}

/// An event that a script emitted.
#[derive(JsonSchema)]
pub(crate) struct TraceEvent {
    at_ms: f64,
    plugin: String,
    r#type: String,
    /// Null unless values are recorded.
    event: Value,
}
