//! The `tracing` spans of a turn, of its model calls and of its tool calls, with the field names of
//! OpenTelemetry's conventions for generative AI.
//!
//! A subscriber that does not enable the target [`SPANS`] costs a turn one comparison per span.

use super::record::Tokens;
use std::fmt::Display;
use tracing::field::Empty;
use tracing::{Span, info_span};
use valvehouse_json::Json;

/// The target of the spans, for filters of `tracing-subscriber`.
pub const SPANS: &str = "valvehouse::turn";

/// Returns the span of a turn.
pub(crate) fn turn(body: &Json, conversation: &str) -> Span {
    // The fields are evaluated only if the span is enabled.
    let model = || body.text_or_empty("model");
    info_span!(
        target: SPANS,
        "turn",
        otel.name = format!("chat {}", model()),
        otel.status_code = Empty,
        otel.status_description = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.request.model = &*model(),
        gen_ai.conversation.id = (!conversation.is_empty()).then_some(conversation),
        "error.type" = Empty,
    )
}

/// Returns the span of a model call.
pub(crate) fn model_call(provider: &str, model: &str) -> Span {
    info_span!(
        target: SPANS,
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        "error.type" = Empty,
    )
}

/// Returns the span of a tool call.
pub(crate) fn tool_call(tool: &str, plugin: Option<&str>) -> Span {
    info_span!(
        target: SPANS,
        "execute_tool",
        otel.name = format!("execute_tool {tool}"),
        otel.status_code = Empty,
        otel.status_description = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        "gen_ai.tool.type" = "function",
        valvehouse.plugin = plugin,
        "error.type" = Empty,
    )
}

/// Records the tokens of a model's answer.
pub(crate) fn used(span: &Span, tokens: Tokens) {
    span.record("gen_ai.usage.input_tokens", tokens.prompt);
    span.record("gen_ai.usage.output_tokens", tokens.completion);
}

/// Records a failure.
pub(crate) fn failed(span: &Span, cause: &dyn Display) {
    if !span.is_disabled() {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", tracing::field::display(cause));
        span.record("error.type", "_OTHER");
    }
}
