//! Conversion of a request to Ollama's API.

use crate::calls;
use compact_str::CompactString;
use std::collections::HashMap;
use valvehouse_core::chat::effort::{Effort, effort_of_thinking};
use valvehouse_core::chat::{ModelCall, ONLY_ANTHROPIC, ONLY_OLLAMA, media, message, plain, tool_results};
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// The fields that are options in Ollama's API. If two fields are the same option, the later one in this list
/// applies.
const OPTIONS: [(&str, &str); 12] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
    ("seed", "seed"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("repeat_penalty", "repeat_penalty"),
    ("num_ctx", "num_ctx"),
    ("max_tokens", "num_predict"),
    ("max_completion_tokens", "num_predict"),
    ("num_predict", "num_predict"),
];

/// Fields of Ollama's API, which are sent unchanged.
const OWN: [&str; 7] = ["think", "format", "keep_alive", "truncate", "shift", "logprobs", "top_logprobs"];

/// Writes the body of `POST /api/chat`.
///
/// # Errors
/// Returns a request error that names a part of a message that Ollama does not support.
pub fn write(body: &Json, stream: bool) -> Result<Json, Error> {
    let plain = plain(body);
    let mut out: Vec<(CompactString, Json)> = vec![
        ("model".into(), body.field("model")),
        ("messages".into(), messages(&plain)?),
        ("stream".into(), stream.into()),
    ];
    if plain.text("tool_choice").is_none_or(|choice| choice != "none")
        && let Some(tools) = plain.get("tools").filter(|tools| !tools.is_empty())
    {
        out.push(("tools".into(), tools));
    }
    if let Some(format) = format(body) {
        out.push(("format".into(), format));
    }
    if let Some(think) = think(body) {
        out.push(("think".into(), think));
    }
    let options = options(body);
    if !options.is_empty() {
        out.push(("options".into(), options));
    }
    for key in OWN {
        // Filters see the client's `think` as `reasoning_effort`.
        let of_client = || body.field(ONLY_OLLAMA).given(key).filter(|_| key != "think");
        if let Some(value) = body.given(key).or_else(of_client) {
            out.retain(|(known, _)| known != key);
            out.push((key.into(), value));
        }
    }
    Ok(out.into_iter().collect::<Object>().into())
}

fn messages(body: &Json) -> Result<Json, Error> {
    let all = body.list("messages");
    // Results refer to calls by their ids, but Ollama expects the names of the tools.
    let mut names = HashMap::new();
    let mut out = Vec::with_capacity(all.len());
    for (place, message) in all.iter().enumerate() {
        names.extend(ModelCall::all(message).into_iter().map(|call| (call.id, call.name)));
        out.push(one(message, place, &names)?);
    }
    Ok(out.into())
}

fn one(message: &Json, place: usize, names: &HashMap<CompactString, CompactString>) -> Result<Json, Error> {
    let role = match message::role_of(message) {
        role if role == "developer" => "system".into(),
        role if role == "function" => "tool".into(),
        role => role,
    };
    let result = (role == "tool").then(|| result(message));
    let message = result.as_ref().unwrap_or(message);
    let text = match result.is_some() {
        true => tool_results::text_of(message),
        // Ollama's format has no field for a refusal.
        false => message::text_with_refusal(message).into(),
    };
    let out = Json::from([("role", role.into()), ("content", text.into())]);
    // A new object accepts any value.
    let add = |key: &str, value: Json| {
        out.put(key, value);
    };
    let images = images(message, place)?;
    if !images.is_empty() {
        add("images", images.into());
    }
    let thinking = ["reasoning_content", "reasoning", "thinking"].iter().find_map(|key| message.text(key));
    if let Some(thinking) = thinking.filter(|thinking| !thinking.is_empty()) {
        add("thinking", thinking.into());
    }
    let calls = calls::with_objects(message);
    if !calls.is_empty() {
        let calls = calls.into_iter().map(|(own, input, _)| call(&own, input));
        add("tool_calls", calls.collect::<Vec<_>>().into());
    }
    if let Some(id) = message.text("tool_call_id") {
        if let Some(name) = message.text("name").or_else(|| names.get(&id).cloned()) {
            add("tool_name", name.into());
        }
        add("tool_call_id", id.into());
    }
    Ok(out)
}

/// Returns a tool message with its texts and images only. A sentence stands for each other part.
fn result(message: &Json) -> Json {
    let Some(Json::Array(parts)) = message.get("content") else { return message.clone() };
    let part = |part: &Json| match part.text("type").as_deref() {
        None | Some("text") => part.clone(),
        Some("image_url") if base64_of(part).is_some() => part.clone(),
        Some("file") if media::file_text(part).text("text").is_some() => media::file_text(part),
        Some(_) => media::missing(part),
    };
    let parts: Vec<Json> = parts.items().iter().map(part).collect();
    let entries = message.entries().into_iter();
    let entries =
        entries.map(|(key, value)| if key == "content" { (key, parts.clone().into()) } else { (key, value) });
    entries.collect::<Object>().into()
}

/// Returns the data of an image that is in the request itself.
fn base64_of(part: &Json) -> Option<String> {
    let url = part.field("image_url");
    let url = url.text("url").unwrap_or_else(|| url.str_or_empty().into());
    let (_, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(data.into())
}

/// Writes a call.
pub(in crate::ollama) fn call(call: &ModelCall, arguments: Json) -> Json {
    let function = Json::from([("name", call.name.clone().into()), ("arguments", arguments)]);
    let id = (!call.id.is_empty()).then(|| ("id", call.id.clone().into()));
    Json::from_fields(id.into_iter().chain([("function", function)]))
}

/// Returns the images of a message as base64.
fn images(chat_message: &Json, place: usize) -> Result<Vec<Json>, Error> {
    let Some(Json::Array(parts)) = chat_message.get("content") else { return Ok(Vec::new()) };
    let mut images = Vec::new();
    for (number, part) in parts.items().iter().enumerate() {
        let refused = |why: &str| {
            let message = format!("messages[{place}].content[{number}] {why}");
            Err(Error::invalid(message, Some("messages")))
        };
        match part.text("type").as_deref() {
            None | Some("text" | "input_text" | "output_text" | "refusal") => {}
            Some("image_url" | "input_image") => match base64_of(part) {
                Some(data) => images.push(data.into()),
                None => {
                    return refused(
                        "is the URL of an image; Ollama needs the image itself: data:image/png;base64,…",
                    );
                }
            },
            Some(other) => return refused(&format!("has the type {other}; Ollama supports text and images")),
        }
    }
    Ok(images)
}

fn format(body: &Json) -> Option<Json> {
    let format = body.get("response_format")?;
    match format.text("type")?.as_str() {
        "json_object" => Some("json".into()),
        "json_schema" => Some(format.at_path("json_schema.schema")).filter(|schema| !schema.is_null()),
        _ => None,
    }
}

/// The part of the names of models that take levels of thinking; Ollama rejects a level for any other model.
/// Source: "Thinking" of Ollama's documentation, ollama/ollama#12561.
const TAKES_LEVELS: &str = "gpt-oss";

/// Returns the effort of thinking. Values that Ollama does not support are converted. Without an effort, its models
/// think if they can.
fn think(body: &Json) -> Option<Json> {
    let thinking = body.given("thinking").or_else(|| body.field(ONLY_ANTHROPIC).given("thinking"));
    let of_thinking = thinking.as_ref().and_then(effort_of_thinking);
    if of_thinking.is_some_and(|effort| effort.ollama.is_empty()) {
        return Some(false.into());
    }
    let effort = body.text("reasoning_effort").or_else(|| body.get("reasoning")?.text("effort"));
    let effort = effort.or_else(|| of_thinking.map(|effort| effort.name.into()))?;
    Some(match Effort::of(&effort) {
        Some(effort) if effort.ollama.is_empty() => false.into(),
        _ if !body.text_or_empty("model").contains(TAKES_LEVELS) => true.into(),
        Some(effort) => effort.ollama.into(),
        None => effort.into(),
    })
}

fn options(body: &Json) -> Json {
    let options = Json::object();
    // A new object accepts any value.
    let set = |key: &str, value: Json| {
        options.put(key, value);
    };
    for (name, option) in OPTIONS {
        if let Some(value) = body.get(name).filter(|value| !value.is_null()) {
            set(option, value);
        }
    }
    match body.get("stop") {
        Some(stop @ Json::Text(_)) => set("stop", vec![stop].into()),
        Some(stops @ Json::Array(_)) => set("stop", stops),
        _ => {}
    }
    // Ollama's own options take precedence.
    for own in [body.field(ONLY_OLLAMA).field("options"), body.field("options")] {
        own.entries().into_iter().for_each(|(key, value)| set(&key, value));
    }
    options
}
