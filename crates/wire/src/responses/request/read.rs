//! Conversion of a Responses API request to a chat request.

use super::input;
use super::tools::Tools;
use crate::responses::tools::Spaces;
use valvehouse_core::error::Error;
use valvehouse_core::provider::ONLY_RESPONSES;
use valvehouse_json::{Json, Object};

/// The fields with the same meaning in a chat request, and those of this host.
const SAME: [&str; 17] = [
    "model",
    "temperature",
    "top_p",
    "stream",
    "parallel_tool_calls",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
    "user",
    "presence_penalty",
    "frequency_penalty",
    "filter_ids",
    "chat_id",
    "session_id",
    "features",
    "files",
    "tool_ids",
];
/// The fields that are converted, or that concern only the client and this host.
const SAID: [&str; 18] = [
    "type",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "verbosity",
    "max_output_tokens",
    "top_logprobs",
    "metadata",
    "previous_response_id",
    "conversation",
    "store",
    "background",
    "stream_options",
    "generate",
    "prompt",
    // A field of Codex that the API of OpenAI does not describe, so that services may refuse it.
    "client_metadata",
];
/// The keys of `metadata` that the host reads.
const HOST_METADATA: [&str; 6] = ["chat_id", "message_id", "features", "files", "filter_ids", "variables"];

/// A converted request.
pub struct ResponsesRequest {
    /// The chat request.
    pub chat: Json,
    /// The original request.
    pub sent: Json,
    /// The items of the conversation, ending with those of this request as they were sent. A text is a message.
    conversation: Vec<Json>,
    /// The id of the stored conversation that the request continues.
    pub conversation_id: Option<String>,
    /// The number of items before those of this request.
    pub earlier: usize,
    /// The functions of namespaces, by their names in the chat.
    pub spaces: Spaces,
    /// Set if the answer is a summary that replaces the conversation.
    pub compacts: bool,
}

impl ResponsesRequest {
    /// Returns the items of the conversation, those of this request completed as they are stored.
    pub fn items(&self) -> Vec<Json> {
        let (before, sent) = self.conversation.split_at(self.earlier);
        before.iter().cloned().chain(sent.iter().map(input::whole)).collect()
    }
}

/// Returns the fields without an equivalent in chats, for a provider that is called over this API.
fn wishes(sent: &Json) -> Json {
    let other = sent.entries().into_iter().filter(|(key, value)| {
        !SAME.contains(&key.as_str()) && !SAID.contains(&key.as_str()) && !value.is_null()
    });
    other.map(|(key, value)| (key, value.deep_clone())).collect::<Object>().into()
}

/// Converts a checked request. `before` contains the items of the conversation that it continues.
///
/// # Errors
/// Returns a request error that names the field if an item or a tool is invalid.
pub fn read(sent: Json, before: Vec<Json>) -> Result<ResponsesRequest, Error> {
    let items = input::sent_items(&sent.field("input"))?;
    let earlier = before.len();
    let mut conversation = before;
    conversation.extend(items);
    let tools = Tools::read(&sent, &conversation)?;
    let mut messages = input::instructions(&sent);
    messages.extend(input::messages(&conversation, &tools)?);
    let mut fields: Vec<(&str, Json)> = Vec::new();
    for key in SAME {
        if let Some(value) = sent.given(key) {
            fields.push((key, value.deep_clone()));
        }
    }
    fields.push(("messages", messages.into()));
    for (key, field) in [("max_output_tokens", "max_completion_tokens"), ("verbosity", "verbosity")] {
        let value = sent.given(key).or_else(|| sent.field("text").given(key));
        fields.extend(value.map(|value| (field, value)));
    }
    fields.extend(sent.field("reasoning").given("effort").map(|effort| ("reasoning_effort", effort)));
    let count = sent.given("top_logprobs").filter(|count| count.as_i64() != Some(0));
    let include = sent.list("include");
    if count.is_some() || include.iter().any(|word| word.as_str() == Some("message.output_text.logprobs")) {
        fields.push(("logprobs", true.into()));
        fields.extend(count.map(|count| ("top_logprobs", count)));
    }
    fields.extend(response_format(&sent).map(|format| ("response_format", format)));
    fields.extend(host_metadata(&sent).map(|metadata| ("metadata", metadata)));
    let compacts = conversation.last().is_some_and(|item| item.is_text("type", input::COMPACTION_TRIGGER));
    fields.extend(tools.fields().into_iter().filter(|(key, _)| !compacts || *key != "tool_choice"));
    if compacts && fields.iter().any(|(key, _)| *key == "tools") {
        fields.push(("tool_choice", "none".into()));
    }
    // The field is set even if it is empty, because it marks a request of this API.
    fields.push((ONLY_RESPONSES, wishes(&sent)));
    if sent.get("stream").and_then(|stream| stream.as_bool()) == Some(true) {
        fields.push(("stream_options", Json::from([("include_usage", true.into())])));
    }
    let spaces = tools.spaces().clone();
    let conversation_id = sent.given("conversation").and_then(|given| conversation_id(&given));
    Ok(ResponsesRequest {
        chat: Json::from_fields(fields),
        sent,
        conversation,
        conversation_id,
        earlier,
        spaces,
        compacts,
    })
}

/// A field with one type: its name, the expectation in the error message, and the check.
type Check = (&'static str, &'static str, fn(&Json) -> bool);
const FIELDS: [Check; 14] = [
    ("instructions", "a text", is_text),
    ("previous_response_id", "a text", is_text),
    ("store", "true or false", is_bool),
    ("parallel_tool_calls", "true or false", is_bool),
    ("background", "true or false", is_bool),
    ("temperature", "a number", is_number),
    ("top_p", "a number", is_number),
    ("max_output_tokens", "a number, at least 1", |value| value.as_i64().is_some_and(|count| count > 0)),
    ("top_logprobs", "a number", is_number),
    ("tools", "a list of tools", |value| value.as_array().is_some()),
    ("text", "an object", |value| value.as_object().is_some()),
    ("reasoning", "an object", |value| value.as_object().is_some()),
    ("metadata", "an object", |value| value.as_object().is_some()),
    ("tool_choice", "auto, none, required or a tool", |value| {
        value.as_object().is_some() || matches!(value.as_str(), Some("auto" | "none" | "required"))
    }),
];

fn is_text(value: &Json) -> bool {
    value.as_str().is_some()
}

fn is_bool(value: &Json) -> bool {
    value.as_bool().is_some()
}

fn is_number(value: &Json) -> bool {
    value.as_f64().is_some()
}

/// Checks the fields of a request except its items and tools.
///
/// # Errors
/// Returns a request error that names the field if one is missing, has another type or is not supported.
pub fn check(sent: &Json) -> Result<(), Error> {
    let invalid = |field: &'static str, expected: &str| {
        Err(Error::invalid(format!("invalid {field}: expected {expected}"), Some(field)))
    };
    if sent.as_object().is_none() {
        return Err(Error::invalid("the request body must be a JSON object", None));
    }
    match sent.get("model") {
        Some(Json::Text(model)) if !model.is_empty() => {}
        Some(_) => return invalid("model", "the name of a model"),
        None => return Err(Error::invalid("missing model: name a model", Some("model"))),
    }
    if !matches!(sent.get("stream"), None | Some(Json::Null | Json::Bool(_))) {
        return invalid("stream", "true or false");
    }
    for (field, expected, is_such) in FIELDS {
        if sent.given(field).is_some_and(|value| !is_such(&value)) {
            return invalid(field, expected);
        }
    }
    let format = sent.at_path("text.format");
    let kind = format.text("type").unwrap_or_else(|| "text".into());
    if !matches!(&*kind, "text" | "json_object" | "json_schema") {
        return invalid("text.format.type", "text, json_object or json_schema");
    }
    if kind == "json_schema" && (format.text("name").is_none() || format.given("schema").is_none()) {
        return invalid("text.format", "a name and a schema");
    }
    let is = |field: &str, value: bool| sent.get(field).and_then(|given| given.as_bool()) == Some(value);
    if is("background", true) && is("store", false) {
        return Err(Error::invalid(
            "cannot answer in the background with `store: false`: the response could not be fetched",
            Some("background"),
        ));
    }
    if sent.given("prompt").is_some() {
        return Err(Error::invalid(
            "cannot use `prompt`: this host does not store prompts; send the items in `input`",
            Some("prompt"),
        ));
    }
    if let Some(conversation) = sent.given("conversation") {
        if conversation_id(&conversation).is_none() {
            return invalid("conversation", "the id of a conversation, or an object with one");
        }
        if sent.given("previous_response_id").is_some() {
            return Err(Error::invalid(
                "cannot use `conversation` together with `previous_response_id`: send one of them",
                Some("conversation"),
            ));
        }
    }
    Ok(())
}

/// Returns the id in the field `conversation`, which is a text or an object with an `id`.
pub fn conversation_id(given: &Json) -> Option<String> {
    let id = given.as_str().map(str::to_owned).or_else(|| given.text("id").map(String::from));
    id.filter(|id| !id.is_empty())
}

/// Converts `text.format` to the `response_format` of a chat.
fn response_format(sent: &Json) -> Option<Json> {
    let format = sent.at_path("text.format");
    match &*format.text("type")? {
        "json_schema" => {
            let keys = ["name", "description", "schema", "strict"];
            let schema = keys.into_iter().filter_map(|key| Some((key, format.given(key)?.deep_clone())));
            Some(Json::from([("type", "json_schema".into()), ("json_schema", Json::from_fields(schema))]))
        }
        "json_object" => Some(Json::from([("type", "json_object".into())])),
        _ => None,
    }
}

/// Returns the keys of `metadata` that the host reads. A chat provider accepts the others only with `store`.
fn host_metadata(sent: &Json) -> Option<Json> {
    let metadata = sent.get("metadata")?;
    let own = HOST_METADATA.into_iter().filter_map(|key| Some((key, metadata.given(key)?.deep_clone())));
    let own = Json::from_fields(own);
    (!own.is_empty()).then_some(own)
}
