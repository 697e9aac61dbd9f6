//! Conversion of stop reasons and token counts between the Anthropic and the OpenAI format, and Anthropic's
//! error types with their HTTP statuses.

use super::part::{others, with_others};
use valvehouse_json::Json;

/// The stop reasons of the Anthropic API. Reasons of other providers are translated.
const STOP_REASONS: [&str; 7] = [
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
];

/// Returns the `finish_reason` for an Anthropic stop reason.
pub(super) fn finish_reason(stop_reason: &str) -> &'static str {
    match stop_reason {
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        _ => "stop",
    }
}

/// Writes the stop reason of a message or `message_delta` to a choice. Anthropic's fields stay next to
/// OpenAI's.
pub(super) fn put_on_choice(choice: &Json, source: &Json) {
    let Some(reason) = source.text("stop_reason") else { return };
    // The object was created by the caller, so this write and those below cannot fail.
    choice.edit("finish_reason", finish_reason(&reason));
    choice.edit("native_finish_reason", reason);
    for key in ["stop_sequence", "stop_details"] {
        if let Some(value) = source.given(key) {
            choice.edit(key, value.deep_clone());
        }
    }
}

/// Returns `stop_reason`, `stop_sequence` and `stop_details` for a choice. A missing reason stays null.
pub(super) fn stop(choice: &Json, has_calls: bool, refuses: bool) -> Json {
    let finish = choice.text("finish_reason").filter(|reason| !reason.is_empty());
    let native = choice.text("native_finish_reason").filter(|reason| STOP_REASONS.contains(&&**reason));
    let reason = match (finish.as_deref(), native) {
        (None, _) => Json::Null,
        (Some(finish), Some(native)) if finish_reason(&native) == finish => native.into(),
        (Some("length"), _) => "max_tokens".into(),
        (Some("tool_calls" | "function_call"), _) => "tool_use".into(),
        (Some("content_filter"), _) => "refusal".into(),
        (Some(_), _) if refuses => "refusal".into(),
        // Some servers send `stop` with tool calls.
        (Some(_), _) if has_calls => "tool_use".into(),
        (Some(_), _) => "end_turn".into(),
    };
    let stop = Json::from([("stop_reason", reason), ("stop_sequence", choice.field("stop_sequence"))]);
    if let Some(details) = choice.given("stop_details") {
        stop.put("stop_details", details);
    }
    stop
}

/// Converts Anthropic's token counts to OpenAI's: cached tokens and tokens written to the cache are part of the
/// prompt. Further Anthropic counts are preserved.
pub(super) fn usage(counts: &Json) -> Json {
    let count = |key: &str| counts.get(key).and_then(|count| count.as_i64()).unwrap_or(0);
    let (read, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let prompt = count("input_tokens").saturating_add(read).saturating_add(written);
    let completion = count("output_tokens");
    let usage = with_others(
        [
            ("prompt_tokens", prompt.into()),
            ("completion_tokens", completion.into()),
            ("total_tokens", prompt.saturating_add(completion).into()),
        ],
        others(counts, &["input_tokens", "output_tokens", "output_tokens_details"]),
    );
    if read > 0 || written > 0 {
        let details = [("cached_tokens", read.into()), ("cache_write_tokens", written.into())];
        usage.put("prompt_tokens_details", Json::from(details));
    }
    if let Some(details) = counts.given("output_tokens_details") {
        let thinking = details.field("thinking_tokens");
        let details = with_others([("reasoning_tokens", thinking)], others(&details, &["thinking_tokens"]));
        usage.put("completion_tokens_details", details);
    }
    usage
}

/// Converts OpenAI's token counts to Anthropic's; a missing count is 0.
pub(super) fn counts(usage: &Json) -> Json {
    let count = |path: &str| usage.at_path(path).as_i64();
    let read = count("cache_read_input_tokens").or(count("prompt_tokens_details.cached_tokens")).unwrap_or(0);
    let written = count("cache_creation_input_tokens").unwrap_or(0);
    let prompt = count("prompt_tokens").unwrap_or(0);
    let input = prompt.saturating_sub(read).saturating_sub(written).max(0);
    let counts = Json::from([
        ("input_tokens", input.into()),
        ("cache_creation_input_tokens", written.into()),
        ("cache_read_input_tokens", read.into()),
        ("output_tokens", count("completion_tokens").unwrap_or(0).into()),
    ]);
    let known = ["cache_creation", "inference_geo", "server_tool_use", "service_tier", "speed", "iterations"];
    for key in known {
        if let Some(value) = usage.given(key) {
            counts.put(key, value.deep_clone());
        }
    }
    if let Some(thinking) = count("completion_tokens_details.reasoning_tokens") {
        counts.put("output_tokens_details", Json::from([("thinking_tokens", thinking.into())]));
    }
    counts
}

/// Updates token counts with those of a later event. Each count is a total; an omitted count is unchanged.
pub(super) fn update(counts: &Json, later: &Json) {
    for (key, value) in others(later, &[]) {
        counts.put(&key, value);
    }
}

/// Anthropic's error types with their HTTP statuses.
const KINDS: [(&str, u16); 10] = [
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// Returns the HTTP status of an Anthropic error type. An error within a stream has no other status.
pub fn status_of(kind: &str) -> Option<u16> {
    KINDS.iter().find(|(own, _)| *own == kind).map(|(_, status)| *status)
}

/// Returns the Anthropic error type of an HTTP status.
pub fn kind_of_status(status: u16) -> &'static str {
    let own = KINDS.iter().find(|(_, own)| *own == status);
    own.map_or(if status < 500 { "invalid_request_error" } else { "api_error" }, |(kind, _)| kind)
}
