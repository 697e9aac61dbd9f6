//! Token counts.

use valvehouse_core::chat::response::{cached_tokens, completion_tokens};
use valvehouse_json::Json;

/// Reads the token counts of a response, in the format of chats.
pub fn read(response: &Json) -> Option<Json> {
    let usage = response.given("usage")?;
    let count = |path: &str| usage.at_path(path).as_i64().unwrap_or(0);
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    let cached = Json::from([("cached_tokens", count("input_tokens_details.cached_tokens").into())]);
    if let written @ 1.. = count("input_tokens_details.cache_write_tokens") {
        cached.put("cache_write_tokens", written);
    }
    let reasoning =
        Json::from([("reasoning_tokens", count("output_tokens_details.reasoning_tokens").into())]);
    Some(Json::from([
        ("prompt_tokens", input.into()),
        ("completion_tokens", output.into()),
        ("total_tokens", usage.get("total_tokens").unwrap_or_else(|| (input + output).into())),
        ("prompt_tokens_details", cached),
        ("completion_tokens_details", reasoning),
    ]))
}

/// Converts the token counts of a chat to those of a response.
pub fn write(chat: &Json) -> Json {
    if chat.as_object().is_none() {
        return Json::Null;
    }
    let count = |path: &str| chat.at_path(path).as_i64().unwrap_or(0);
    let (input, output) = (count("prompt_tokens"), completion_tokens(chat));
    let cached = Json::from([
        ("cached_tokens", cached_tokens(chat).unwrap_or(0).into()),
        ("cache_write_tokens", count("prompt_tokens_details.cache_write_tokens").into()),
    ]);
    let reasoning = count("completion_tokens_details.reasoning_tokens");
    Json::from([
        ("input_tokens", input.into()),
        ("input_tokens_details", cached),
        ("output_tokens", output.into()),
        ("output_tokens_details", Json::from([("reasoning_tokens", reasoning.into())])),
        ("total_tokens", chat.integer("total_tokens").unwrap_or(input + output).into()),
    ])
}
