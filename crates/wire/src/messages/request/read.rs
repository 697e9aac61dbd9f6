//! Conversion of a request for the Anthropic Messages API to a chat request.

use crate::messages::part::others;
use crate::messages::{answer, cite, part, tools};
use valvehouse_core::chat::{ONLY_ANTHROPIC, response};
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// Fields that are copied unchanged: they mean the same in both formats or belong to the host.
const SAME: [&str; 13] = [
    "model",
    "temperature",
    "top_p",
    "stream",
    "metadata",
    "features",
    "files",
    "tool_ids",
    "filter_ids",
    "chat_id",
    "session_id",
    "id",
    "user",
];

/// Fields that are translated.
const TRANSLATED: [&str; 8] = [
    "system",
    "messages",
    "max_tokens",
    "stop_sequences",
    "tools",
    "tool_choice",
    "output_config",
    "output_format",
];

/// Translates an Anthropic request to a chat request. Settings that only Anthropic supports are stored together
/// for Anthropic providers; `beta` is the value of the `anthropic-beta` header.
///
/// # Errors
/// Returns a request error that names the field if a required field is missing or has the wrong type.
pub fn read(request: &Json, beta: Option<&str>) -> Result<Json, Error> {
    check(request)?;
    let body = Json::object();
    // The object is new, and its values are new or copied, so the write cannot fail.
    let set = |key: &str, value: Json| {
        body.put(key, value);
    };
    for key in SAME {
        if let Some(value) = request.given(key) {
            set(key, value.deep_clone());
        }
    }
    // The user is in a field of its own.
    if body.get("metadata").is_some_and(|metadata| metadata.contains_key("user_id")) {
        body.field("metadata").remove("user_id");
        if body.field("metadata").is_empty() {
            body.remove("metadata");
        }
    }
    set("messages", messages(request)?.into());
    // Both limits include thinking tokens.
    set("max_completion_tokens", request.field("max_tokens"));
    if let Some(stop) = request.given("stop_sequences").filter(|stop| !stop.is_empty()) {
        set("stop", stop.deep_clone());
    }
    let list = request.list("tools");
    if !list.is_empty() {
        set("tools", list.iter().map(tools::function).collect::<Vec<_>>().into());
    }
    if let Some(choice) = request.given("tool_choice") {
        let (choice, parallel) = tools::openai_choice(&choice);
        set("tool_choice", choice);
        if let Some(parallel) = parallel {
            set("parallel_tool_calls", parallel.into());
        }
    }
    if let Some(user) = request.at_path("metadata.user_id").as_str() {
        set("user", user.into());
    }
    if body.get("stream").and_then(|stream| stream.as_bool()) == Some(true) {
        set("stream_options", Json::from([("include_usage", true.into())]));
    }
    // The field is set even if it is empty: it marks a request in Anthropic's format.
    set(ONLY_ANTHROPIC, wishes(request, &body, beta));
    Ok(body)
}

fn check(request: &Json) -> Result<(), Error> {
    let wrong = |field: &'static str, what: &str| {
        Err(Error::invalid(format!("invalid {field}: {what}"), Some(field)))
    };
    if request.as_object().is_none() {
        return Err(Error::invalid("invalid request body: expected a JSON object", None));
    }
    if request.text("model").is_none_or(|model| model.is_empty()) {
        return wrong("model", "expected the name of a model");
    }
    if request.integer("max_tokens").is_none_or(|most| most < 1) {
        return wrong("max_tokens", "expected a number of tokens, at least 1");
    }
    match request.get("messages") {
        Some(Json::Array(messages)) if !messages.is_empty() => Ok(()),
        _ => wrong("messages", "expected a list of at least one message"),
    }
}

/// Returns the Anthropic-only settings. The response format and effort are translated to OpenAI fields of
/// `body`.
fn wishes(request: &Json, body: &Json, beta: Option<&str>) -> Json {
    let rest: Json =
        others(request, &[&SAME[..], &TRANSLATED].concat()).into_iter().collect::<Object>().into();
    let config = request.field("output_config");
    let format = config.given("format").or_else(|| request.given("output_format"));
    if let Some(format) = format {
        let schema = [
            ("name", "answer".into()),
            ("schema", format.field("schema").deep_clone()),
            ("strict", true.into()),
        ];
        let response_format = [("type", "json_schema".into()), ("json_schema", Json::from(schema))];
        // The object is new, so this write and those below cannot fail.
        body.put("response_format", Json::from(response_format));
    }
    let effort = config.text("effort");
    let is_known =
        effort.as_deref().is_some_and(|effort| matches!(effort, "low" | "medium" | "high" | "xhigh"));
    if let Some(effort) = effort.filter(|_| is_known) {
        body.put("reasoning_effort", effort);
    }
    let known: &[&str] = if is_known { &["format", "effort"] } else { &["format"] };
    let config: Json = others(&config, known).into_iter().collect::<Object>().into();
    if !config.is_empty() {
        rest.put("output_config", config);
    }
    let beta: Vec<Json> = beta
        .into_iter()
        .flat_map(|beta| beta.split(','))
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(Json::from)
        .collect();
    if !beta.is_empty() {
        rest.put("beta", beta);
    }
    rest
}

fn messages(request: &Json) -> Result<Vec<Json>, Error> {
    let mut out = Vec::new();
    if let Some(system) = request.given("system").filter(|system| !system.is_empty()) {
        out.push(message("system", content(&system)));
    }
    for (at, source) in request.list("messages").iter().enumerate() {
        let given = source.field("content");
        if !matches!(given, Json::Text(_) | Json::Array(_)) {
            let what = format!("invalid messages[{at}].content: expected a text or a list of blocks");
            return Err(Error::invalid(what, Some("messages")));
        }
        match source.text("role").as_deref() {
            Some("user") => out.extend(user(&given)),
            Some("assistant") => out.push(assistant(&given)),
            Some("system") => out.push(message("system", content(&given))),
            _ => {
                let what = format!("invalid messages[{at}].role: expected user, assistant or system");
                return Err(Error::invalid(what, Some("messages")));
            }
        }
    }
    Ok(out)
}

fn message(role: &str, content: Json) -> Json {
    Json::from([("role", role.into()), ("content", content)])
}

/// Converts a user message: each tool result becomes a message, followed by the other content.
fn user(content: &Json) -> Vec<Json> {
    let Json::Array(blocks) = content else { return vec![message("user", content.clone())] };
    let is_result = |block: &Json| block.is_text("type", "tool_result");
    let (results, others): (Vec<Json>, Vec<Json>) = blocks.items().into_iter().partition(is_result);
    let mut out: Vec<Json> = results.iter().map(result).collect();
    if !others.is_empty() || out.is_empty() {
        out.push(message("user", self::content(&others.into())));
    }
    out
}

fn result(block: &Json) -> Json {
    let tool_message =
        message("tool", block.given("content").map_or_else(|| "".into(), |content| self::content(&content)));
    // The object was created above, so the writes cannot fail.
    tool_message.edit("tool_call_id", block.field("tool_use_id"));
    for (key, value) in others(block, &["type", "tool_use_id", "content"]) {
        tool_message.edit(&key, value);
    }
    tool_message
}

/// Converts a content to a string if it is one plain text, otherwise to parts.
fn content(content: &Json) -> Json {
    let Json::Array(blocks) = content else { return content.clone() };
    let parts: Vec<Json> = blocks.items().iter().map(part::part).collect();
    match parts.as_slice() {
        [only] if only.is_text("type", "text") && others(only, &["type", "text"]).is_empty() => {
            only.field("text")
        }
        _ => parts.into(),
    }
}

/// Converts an earlier assistant message to the format in which the host returned it.
fn assistant(content: &Json) -> Json {
    if let Json::Text(text) = content {
        return message("assistant", text.clone().into());
    }
    let answer = Json::from([("content", cite::without_foreign(content))]);
    let chat_message = response::message_of(&answer::completion(&answer));
    // The blocks hold the citations; chat requests have no annotations.
    chat_message.remove("annotations");
    chat_message
}
