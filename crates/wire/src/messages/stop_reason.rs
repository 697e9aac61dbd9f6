//! Conversion of stop reasons and token counts between the Anthropic and the OpenAI format.

use super::part::{others, with_others};
use valvehouse_core::chat::Ending;
use valvehouse_core::chat::ending::matched_stop;
use valvehouse_core::chat::response::{cached_tokens, completion_tokens};
use valvehouse_json::Json;

/// The stop reasons of the Anthropic API. Reasons of other providers are translated.
const STOP_REASONS: [&str; 8] = [
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
];

/// Writes the stop reason of a message or `message_delta` to a choice. Anthropic's fields stay next to
/// OpenAI's.
pub(super) fn put_on_choice(choice: &Json, source: &Json) {
    let Some(reason) = source.text("stop_reason") else { return };
    // The object was created by the caller, so this write and those below cannot fail.
    choice.edit("finish_reason", Ending::of(&reason).finish_reason());
    choice.edit("native_finish_reason", reason);
    for key in ["stop_sequence", "stop_details"] {
        if let Some(value) = source.given(key) {
            choice.edit(key, value.deep_clone());
        }
    }
}

/// Returns `stop_reason`, `stop_sequence` and `stop_details` for a choice. A missing reason stays null.
pub(super) fn stop(choice: &Json, has_calls: bool, refuses: bool) -> Json {
    let ending = Ending::of_choice(choice);
    let native = choice.text("native_finish_reason").filter(|reason| {
        // Some services end an answer with tool calls naturally.
        let is_known = STOP_REASONS.contains(&&**reason) && !(has_calls && reason == "end_turn");
        is_known && ending.is_some_and(|ending| Ending::of(reason).finish_reason() == ending.finish_reason())
    });
    let matched = matched_stop(choice);
    let reason = match (ending, native) {
        (None, _) => Json::Null,
        (Some(_), Some(native)) => native.into(),
        (Some(Ending::Length), _) => "max_tokens".into(),
        (Some(Ending::ToolCalls), _) => "tool_use".into(),
        (Some(Ending::ContentFilter), _) => "refusal".into(),
        (Some(_), _) if refuses => "refusal".into(),
        (Some(_), _) if has_calls => "tool_use".into(),
        (Some(Ending::StopSequence), _) => "stop_sequence".into(),
        (Some(_), _) if matched.is_some() => "stop_sequence".into(),
        (Some(_), _) => "end_turn".into(),
    };
    let is_matched = reason.as_str() == Some("stop_sequence");
    let sequence = choice.given("stop_sequence").or(matched.filter(|_| is_matched));
    let stop = Json::from([("stop_reason", reason), ("stop_sequence", sequence.into())]);
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
    let read = count("cache_read_input_tokens").or_else(|| cached_tokens(usage)).unwrap_or(0);
    let written = count("cache_creation_input_tokens").or(count("prompt_tokens_details.cache_write_tokens"));
    let written = written.unwrap_or(0);
    let prompt = count("prompt_tokens").unwrap_or(0);
    let input = prompt.saturating_sub(read).saturating_sub(written).max(0);
    let counts = Json::from([
        ("input_tokens", input.into()),
        ("cache_creation_input_tokens", written.into()),
        ("cache_read_input_tokens", read.into()),
        ("output_tokens", completion_tokens(usage).into()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_counted_by_the_names_of_each_service() {
        for usage in [
            r#"{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":60}}"#,
            r#"{"prompt_tokens":100,"prompt_cache_hit_tokens":60,"prompt_cache_miss_tokens":40}"#,
            r#"{"prompt_tokens":100,"cached_tokens":60}"#,
            r#"{"prompt_tokens":110,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10}}"#,
        ] {
            let counts = counts(&Json::parse(usage.as_bytes()).unwrap());
            let read = counts.field("cache_read_input_tokens").as_i64();
            assert_eq!((counts.field("input_tokens").as_i64(), read), (Some(40), Some(60)), "{usage}");
        }
    }
}
