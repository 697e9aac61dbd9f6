//! The spans of a request: one for the whole request, and a child span for each step.

use std::time::{Duration, UNIX_EPOCH};
use valvehouse_core::chat::{message, response};
use valvehouse_core::trace::{StepRecord, Trace};
use valvehouse_json::Json;

const INTERNAL: i64 = 1;
const SERVER: i64 = 2;
const CLIENT: i64 = 3;
/// The status code of a failed span.
const FAILED: i64 = 2;

/// Returns the spans of a request that has ended.
pub(super) fn of(trace: &Trace) -> Vec<Json> {
    let begun = trace.begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (id, parent) = match trace.parent() {
        Some((id, parent)) => (id.to_owned(), Some(parent.to_owned())),
        None => (uuid::Uuid::new_v4().simple().to_string(), None),
    };
    let family = Family { id, root: span_id(), begun };
    let root = family.root(trace, parent);
    let steps = trace.records();
    [vec![root], steps.iter().map(|step| family.step(step)).collect()].concat()
}

/// Returns attributes in the form of OTLP, without those that have no value.
pub(super) fn attributes<const N: usize>(given: [(&str, Json); N]) -> Json {
    let value = |value: Json| match value {
        Json::Null => None,
        Json::Text(ref text) if text.is_empty() => None,
        Json::Text(_) => Some(("stringValue", value)),
        Json::Bool(_) => Some(("boolValue", value)),
        // The JSON encoding of protobuf writes 64-bit integers as strings.
        Json::Number(_) if value.as_i64().is_some() => Some(("intValue", value.to_string().into())),
        Json::Number(_) => Some(("doubleValue", value)),
        other => Some(("stringValue", other.to_string().into())),
    };
    let written = given.into_iter().filter_map(|(key, given)| {
        let (kind, value) = value(given)?;
        Some(Json::from([("key", key.into()), ("value", Json::from([(kind, value)]))]))
    });
    written.collect::<Vec<_>>().into()
}

/// The data that the spans of a request share.
struct Family {
    id: String,
    root: String,
    begun: Duration,
}

/// The contents of one span.
struct Contents {
    name: String,
    kind: i64,
    from: Duration,
    took: Duration,
    error: Option<String>,
    attributes: Json,
}

impl Family {
    fn root(&self, trace: &Trace, parent: Option<String>) -> Json {
        let (request, ended) = (&trace.request, trace.ended());
        let status = ended.map_or(0, |ended| ended.status);
        let error = ended.and_then(|ended| ended.error.clone()).filter(|_| !(400..500).contains(&status));
        let kind = match (&error, status) {
            (_, 400..) => Json::from(status.to_string()),
            (Some(_), _) => "_OTHER".into(),
            _ => Json::Null,
        };
        let attributes = attributes([
            ("gen_ai.operation.name", "chat".into()),
            ("gen_ai.request.model", request.model.as_str().into()),
            ("gen_ai.conversation.id", request.chat_id.as_str().into()),
            ("user.id", request.user.as_str().into()),
            ("http.response.status_code", u64::from(status).into()),
            ("error.type", kind),
            ("valvehouse.trace", trace.id.as_str().into()),
            ("valvehouse.endpoint", request.endpoint.into()),
            ("valvehouse.stream", request.stream.into()),
            ("valvehouse.generation", request.generation.into()),
            ("valvehouse.whole", ended.is_some_and(|ended| ended.whole).into()),
        ]);
        let took = ended.map_or(Duration::ZERO, |ended| ended.took);
        let name = format!("chat {}", request.model);
        let contents = Contents { name, kind: SERVER, from: Duration::ZERO, took, error, attributes };
        self.span(&self.root, parent.as_deref(), contents)
    }

    fn step(&self, step: &StepRecord) -> Json {
        let failed = step.word == "failed";
        let error = failed.then(|| step.details().cause.clone().unwrap_or_default());
        let (name, kind, attributes) = match step.hook {
            "model" => (format!("chat {}", model(step).1), CLIENT, of_model(step)),
            "tool" => (format!("execute_tool {}", tool(step)), INTERNAL, of_tool(step)),
            hook => (format!("{hook} {}", step.name), INTERNAL, of_hook(step)),
        };
        let contents = Contents { name, kind, from: step.at, took: step.cost.took, error, attributes };
        self.span(&span_id(), Some(&self.root), contents)
    }

    fn span(&self, id: &str, parent: Option<&str>, contents: Contents) -> Json {
        let at = |time: Duration| Json::from((self.begun + time).as_nanos().to_string());
        let status = match contents.error {
            Some(error) => Json::from([("code", FAILED.into()), ("message", error.into())]),
            None => Json::object(),
        };
        Json::from([
            ("traceId", self.id.as_str().into()),
            ("spanId", id.into()),
            ("parentSpanId", parent.unwrap_or("").into()),
            ("name", contents.name.into()),
            ("kind", contents.kind.into()),
            ("startTimeUnixNano", at(contents.from)),
            ("endTimeUnixNano", at(contents.from + contents.took)),
            ("attributes", contents.attributes),
            ("status", status),
        ])
    }
}

fn of_model(step: &StepRecord) -> Json {
    let (provider, model) = model(step);
    let kept = step.details().values.first();
    let input = kept.map(|(request, _)| messages(&request.list("messages")));
    let answered = kept.and_then(|(_, answer)| answer.as_ref());
    let answered = answered.map(|answer| messages(&[response::message_of(answer)]));
    attributes([
        ("gen_ai.operation.name", "chat".into()),
        ("gen_ai.provider.name", provider.into()),
        ("gen_ai.request.model", model.into()),
        ("gen_ai.usage.input_tokens", step.details().tokens.map(|tokens| tokens.prompt).into()),
        ("gen_ai.usage.output_tokens", step.details().tokens.map(|tokens| tokens.completion).into()),
        ("error.type", (step.word == "failed").then_some("_OTHER").into()),
        ("valvehouse.outcome", step.word.into()),
        ("valvehouse.first_piece_s", step.details().first.map(|time| time.as_secs_f64()).into()),
        ("gen_ai.input.messages", input.into()),
        ("gen_ai.output.messages", answered.into()),
    ])
}

fn of_tool(step: &StepRecord) -> Json {
    let kept = step.details().values.first();
    let text = |value: &Json| Json::from(value.to_string());
    attributes([
        ("gen_ai.operation.name", "execute_tool".into()),
        ("gen_ai.tool.name", tool(step).into()),
        ("gen_ai.tool.type", "function".into()),
        ("error.type", (step.word == "failed").then_some("_OTHER").into()),
        ("valvehouse.plugin", step.plugin().into()),
        ("valvehouse.outcome", step.word.into()),
        ("gen_ai.tool.call.arguments", kept.map(|(args, _)| text(args)).into()),
        ("gen_ai.tool.call.result", kept.and_then(|(_, result)| result.as_ref()).map(text).into()),
    ])
}

fn of_hook(step: &StepRecord) -> Json {
    attributes([
        ("valvehouse.plugin", step.plugin().into()),
        ("valvehouse.hook", step.hook.into()),
        ("valvehouse.outcome", step.word.into()),
        ("error.type", (step.word == "failed").then_some("_OTHER").into()),
        ("valvehouse.calls", step.calls.into()),
        ("valvehouse.operations", step.cost.operations.into()),
        ("valvehouse.memory", step.cost.memory.into()),
        ("valvehouse.waited_s", step.cost.waited.as_secs_f64().into()),
    ])
}

/// Returns the names of the provider and of its model.
pub(super) fn model(step: &StepRecord) -> (&str, &str) {
    step.name.split_once('/').unwrap_or(("", &step.name))
}

/// Returns the name of a tool without its module.
fn tool(step: &StepRecord) -> &str {
    step.name.rsplit_once('/').map_or(&step.name, |(_, tool)| tool)
}

/// Returns messages in the form of the conventions: roles and parts.
fn messages(all: &[Json]) -> Json {
    let written = all.iter().map(|one| {
        let part = [("type", "text".into()), ("content", message::text_of(one).as_str().into())];
        let parts = vec![Json::from(part)];
        Json::from([("role", one.field("role")), ("parts", parts.into())])
    });
    written.collect::<Vec<_>>().into()
}

fn span_id() -> String {
    format!("{:016x}", fastrand::u64(1..))
}
