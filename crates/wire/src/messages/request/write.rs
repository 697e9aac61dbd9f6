//! Conversion of a chat request to a request for the Anthropic Messages API.
//!
//! Anthropic expects the system prompt in a field of its own, alternating roles, and tool results directly
//! after their calls.

use super::thinking;
use crate::messages::part::{self, others};
use crate::messages::{blocks, tools};
use compact_str::CompactString;
use valvehouse_core::chat::effort::Effort;
use valvehouse_core::chat::{ONLY_ANTHROPIC, ONLY_OLLAMA, message};
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// The `max_tokens` of a request that names no limit; Anthropic requires one.
pub(crate) const MAX_TOKENS: i64 = 8192;

/// The field of a chat request with the values of the `anthropic-beta` header that its service refuses.
pub(crate) const REFUSED_BETAS: &str = "refused_betas";

/// The instruction for a `response_format` without a schema, which Anthropic's API lacks.
const ANY_OBJECT: &str =
    "Answer with JSON only: no other text around it, no code block. The JSON must be an object.";

/// A request for the Anthropic Messages API.
#[derive(Debug, Clone)]
pub struct MessagesRequest {
    /// The body of `POST /v1/messages`.
    pub body: Json,
    /// The value of the `anthropic-beta` header, if any.
    pub beta: Option<String>,
    /// The values of this header that the service refused earlier.
    pub refused_betas: Vec<Json>,
    /// The settings that are not sent, because the conversation or other settings exclude them.
    pub left_out: Vec<&'static str>,
}

/// Fields of a chat request that are translated, or that are hints Anthropic ignores.
const KNOWN: [&str; 41] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "stream",
    "stream_options",
    "user",
    "metadata",
    "response_format",
    "reasoning_effort",
    "reasoning",
    "service_tier",
    "n",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "frequency_penalty",
    "presence_penalty",
    "functions",
    "function_call",
    "audio",
    "modalities",
    "prediction",
    "web_search_options",
    "temperature",
    "seed",
    "store",
    "verbosity",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "anthropic_beta",
    "betas",
    "output_config",
    ONLY_ANTHROPIC,
    ONLY_OLLAMA,
    REFUSED_BETAS,
];

/// Translates a chat request for the Anthropic Messages API.
///
/// # Errors
/// Returns a request error that names the field if the request has a setting that Anthropic does not support
/// and whose absence would change the response.
pub fn write(request: &Json, stream: bool) -> Result<MessagesRequest, Error> {
    refuse_what_cannot_be(request)?;
    let body = Json::object();
    // The object is new, and its values are new or copied, so the write cannot fail.
    let set = |key: &str, value: Json| {
        body.put(key, value);
    };
    set("model", request.field("model"));
    let only = request.field(ONLY_ANTHROPIC);
    set("max_tokens", max_tokens(request, &only));
    let mut talk = Talk::read(&request.list("messages"), !only.is_null())?;
    let format = response_format(request)?;
    if matches!(format, ResponseFormat::AnyObject) {
        talk.system.push(message::text_part(ANY_OBJECT));
    }
    if let Some(system) = talk.system() {
        set("system", system);
    }
    set("messages", talk.messages().into());
    let list = request.list("tools");
    if !list.is_empty() {
        let list = list.iter().enumerate().map(|(at, tool)| tools::tool(tool, at));
        set("tools", list.collect::<Result<Vec<_>, _>>()?.into());
    }
    let choice = tools::choice(request)?;
    let is_forced =
        choice.as_ref().is_some_and(|own| own.is_text("type", "any") || own.is_text("type", "tool"));
    let is_freed = is_forced && thinking::always_chooses(&request.text_or_empty("model"));
    if let Some(choice) = choice.filter(|_| !is_freed) {
        set("tool_choice", choice);
    }
    if let Some(temperature) = request.given("temperature") {
        set("temperature", temperature);
    }
    if let Some(stop) = request.given("stop") {
        let list = if stop.as_array().is_some() { stop.items() } else { vec![stop] };
        set("stop_sequences", list.into());
    }
    if let Some(metadata) = metadata(request) {
        set("metadata", metadata);
    }
    let tier = service_tier(request);
    if let Some(Ok(tier)) = tier {
        set("service_tier", tier.into());
    }
    for (key, value) in others(&only, &["beta", "output_config"]).into_iter().chain(others(request, &KNOWN)) {
        set(&key, value);
    }
    if let Some(config) = output_config(request, &only, &format) {
        set("output_config", config);
    }
    let mut thinks = thinking::set(&body, request, !only.is_null());
    let is_enabled = body.at_path("thinking.type").as_str() == Some("enabled");
    if is_enabled && has_forgotten_thoughts(&body.at_path("messages").items()) {
        set("thinking", thinking::disabled());
        thinks = false;
    }
    set("stream", stream.into());
    let left_out =
        [("thinking", !thinks), ("service_tier", tier == Some(Err(()))), ("tool_choice", is_freed)];
    let left_out = left_out.into_iter().filter_map(|(name, is_left)| is_left.then_some(name)).collect();
    let refused_betas = request.list(REFUSED_BETAS);
    Ok(MessagesRequest { body, beta: beta(request, &only), refused_betas, left_out })
}

/// Rejects fields that would change the response and that Anthropic does not support.
fn refuse_what_cannot_be(request: &Json) -> Result<(), Error> {
    let number = |key: &str| request.get(key).and_then(|value| value.as_f64());
    let cannot = |field: &'static str, why: &str| {
        Err(Error::invalid(format!("cannot send {field} to Anthropic's models: {why}"), Some(field)))
    };
    if number("n").is_some_and(|n| n != 1.0) {
        return cannot("n", "they return one choice; send several requests");
    }
    if request.get("logprobs").and_then(|value| value.as_bool()) == Some(true)
        || number("top_logprobs").is_some_and(|count| count > 0.0)
    {
        return cannot("logprobs", "they do not return log probabilities; leave it out");
    }
    if request.given("logit_bias").is_some_and(|bias| !bias.is_empty()) {
        return cannot("logit_bias", "they have no token weights; leave it out");
    }
    for field in ["frequency_penalty", "presence_penalty"] {
        if number(field).is_some_and(|penalty| penalty != 0.0) {
            return cannot(field, "they have no such setting; leave it out");
        }
    }
    if let Some(temperature) = number("temperature").filter(|value| !(0.0..=1.0).contains(value)) {
        return cannot("temperature", &format!("expected a number from 0 to 1, got {temperature}"));
    }
    for field in ["functions", "function_call"] {
        if request.given(field).is_some_and(|value| !value.is_empty() && value.as_str() != Some("none")) {
            return cannot(field, "they have no such field; send `tools` and `tool_choice`");
        }
    }
    if request.given("system").is_some() {
        return cannot("system", "send a message with the role system, which filters check");
    }
    let speaks = request.list("modalities").iter().any(|kind| kind.as_str() != Some("text"));
    if speaks || request.given("audio").is_some() {
        return cannot("modalities", "they return text only; leave it out");
    }
    if request.given("web_search_options").is_some() {
        return cannot(
            "web_search_options",
            "they have no such field; add the tool {\"type\": \"web_search_20250305\", \"name\": \"web_search\"}",
        );
    }
    Ok(())
}

/// Returns the requested token limit, or a default that leaves room for the thinking budget.
fn max_tokens(request: &Json, only: &Json) -> Json {
    let limit = request.given("max_completion_tokens").or_else(|| request.given("max_tokens"));
    let own = |of: &Json| of.at_path("thinking.budget_tokens").as_i64();
    let budget = own(request).or_else(|| own(only));
    let budget = budget.unwrap_or_else(|| thinking::budget(request, !only.is_null()));
    limit.unwrap_or_else(|| MAX_TOKENS.saturating_add(budget).into())
}

fn metadata(request: &Json) -> Option<Json> {
    let user = ["user", "safety_identifier"].into_iter().find_map(|key| request.text(key));
    let user = user.or_else(|| request.at_path("metadata.user_id").as_str().map(Into::into))?;
    Some(Json::from([("user_id", user.into())]))
}

/// Returns Anthropic's tier for that of a request; an error for a tier that Anthropic lacks. A tier is about the price and
/// the speed of an answer, so the request is sent without it.
fn service_tier(request: &Json) -> Option<Result<&'static str, ()>> {
    Some(match request.given("service_tier")?.as_str() {
        Some("auto") => Ok("auto"),
        Some("standard_only" | "default") => Ok("standard_only"),
        _ => Err(()),
    })
}

/// The `response_format` of a chat request, as Anthropic's models receive it.
enum ResponseFormat {
    Text,
    /// Any JSON object, which is described in the system prompt.
    AnyObject,
    Schema(Json),
}

fn response_format(request: &Json) -> Result<ResponseFormat, Error> {
    let format = request.field("response_format");
    let schema = match format.text("type").as_deref() {
        None | Some("text") => return Ok(ResponseFormat::Text),
        Some("json_schema") => format.at_path("json_schema.schema"),
        // Some services accept a schema for this type as well.
        Some("json_object") => match format.given("schema") {
            Some(schema) => schema,
            None => return Ok(ResponseFormat::AnyObject),
        },
        Some(kind) => {
            let message = format!(
                "invalid response_format: expected json_schema or json_object for Anthropic's models, got {kind}; send a JSON schema"
            );
            return Err(Error::invalid(message, Some("response_format")));
        }
    };
    if schema.as_object().is_none() {
        let message = "missing response_format.json_schema.schema; send a JSON schema";
        return Err(Error::invalid(message, Some("response_format")));
    }
    Ok(ResponseFormat::Schema(schema))
}

/// Returns Anthropic's `output_config`: the response format and effort of the chat request, over the
/// Anthropic-only settings.
fn output_config(request: &Json, only: &Json, format: &ResponseFormat) -> Option<Json> {
    let own = request.given("output_config").or_else(|| only.given("output_config"));
    let config = own.as_ref().map_or_else(Json::object, Json::deep_clone);
    let asked = request.text("reasoning_effort").or_else(|| config.text("effort"));
    config.remove("effort");
    let effort = match asked.as_deref().map(|asked| (asked, Effort::of(asked))) {
        // An unknown level is for the service to judge.
        Some((asked, None)) => Some(asked),
        Some((_, Some(effort))) => thinking::fitting(request, effort),
        None => thinking::effort(request).filter(|_| only.is_null()),
    };
    effort.into_iter().for_each(|effort| config.edit("effort", effort));
    if let ResponseFormat::Schema(schema) = format {
        let format = [("type", "json_schema".into()), ("schema", schema.deep_clone())];
        config.edit("format", Json::from(format));
    }
    Some(config).filter(|config| !config.is_empty())
}

fn beta(request: &Json, only: &Json) -> Option<String> {
    let all = [request.get("anthropic_beta"), request.get("betas"), only.get("beta")];
    let words = all.into_iter().flatten().flat_map(|value| match value {
        Json::Text(text) => vec![text.to_string()],
        list => list.items().iter().filter_map(|word| word.as_str().map(str::to_owned)).collect(),
    });
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(","))
}

/// The conversation in Anthropic's format.
#[derive(Default)]
struct Talk {
    /// Set if system messages stay at their position in the conversation.
    keeps_places: bool,
    system: Vec<Json>,
    sides: Vec<Side>,
}

/// Consecutive content of one role.
struct Side {
    role: &'static str,
    results: Vec<Json>,
    others: Vec<Json>,
}

impl Talk {
    fn read(messages: &[Json], keeps_places: bool) -> Result<Self, Error> {
        let mut talk = Self { keeps_places, ..Self::default() };
        for (at, message) in messages.iter().enumerate() {
            talk.add(message, at)?;
        }
        if talk.sides.is_empty() {
            let message = "missing user message: messages is empty or has only instructions; add a message with \
                           the role user";
            return Err(Error::invalid(message, Some("messages")));
        }
        Ok(talk)
    }

    fn add(&mut self, message: &Json, at: usize) -> Result<(), Error> {
        let content = message.field("content");
        let place = format!("messages[{at}].content");
        match &*message::role_of(message) {
            "system" | "developer" if self.keeps_places && !self.sides.is_empty() => {
                self.push_message("system", part::blocks(&content, &place)?);
            }
            "system" | "developer" => self.system.extend(part::blocks(&content, &place)?),
            "assistant" => self.push_message("assistant", assistant(message, &place)?),
            "tool" => {
                self.push_message("user", vec![result(message, part::result_blocks(&content, &place)?)])
            }
            "user" => self.push_message("user", part::blocks(&content, &place)?),
            role => {
                let message = format!(
                    "invalid messages[{at}].role: expected system, developer, user, assistant or tool, got \
                     \"{role}\""
                );
                return Err(Error::invalid(message, Some("messages")));
            }
        }
        Ok(())
    }

    /// Adds blocks to the last message if it has the same role; otherwise, starts a message.
    fn push_message(&mut self, role: &'static str, blocks: Vec<Json>) {
        if blocks.is_empty() {
            return;
        }
        if self.sides.last().is_none_or(|last| last.role != role) {
            self.sides.push(Side { role, results: Vec::new(), others: Vec::new() });
        }
        let Some(last) = self.sides.last_mut() else { return };
        for block in blocks {
            let is_result = block.is_text("type", "tool_result");
            if is_result { &mut last.results } else { &mut last.others }.push(block);
        }
    }

    /// Returns the messages with alternating roles and with tool results first, as Anthropic requires.
    fn messages(self) -> Vec<Json> {
        let message = |side: Side| {
            let content = [side.results, side.others].concat();
            // A single plain text stays a string.
            if let ("system", [only]) = (side.role, content.as_slice())
                && only.as_object().is_some_and(|block| block.len() == 2)
                && let Some(text) = only.get("text")
            {
                return Json::from([("role", side.role.into()), ("content", text)]);
            }
            Json::from([("role", side.role.into()), ("content", content.into())])
        };
        self.sides.into_iter().map(message).collect()
    }

    /// Returns the system prompt: a string if it is one plain text, otherwise blocks, which can carry cache
    /// marks.
    fn system(&self) -> Option<Json> {
        let is_plain =
            |block: &Json| block.as_object().is_some_and(|block| block.len() == 2 && block.contains("text"));
        if self.system.is_empty() {
            return None;
        }
        if !self.system.iter().all(is_plain) {
            return Some(self.system.clone().into());
        }
        let texts: Vec<_> = self.system.iter().filter_map(|block| block.text("text")).collect();
        Some(texts.join("\n\n").into())
    }
}

/// Returns `true` if tool calls since the last user message lack their signed thinking, because a client or a
/// filter removed it. Anthropic rejects thinking in this case, but still answers.
fn has_forgotten_thoughts(messages: &[Json]) -> bool {
    let kinds = |message: &Json| -> Vec<CompactString> {
        let blocks = message.list("content");
        blocks.iter().filter_map(|block| block.text("type")).collect()
    };
    let is_question = |message: &&Json| {
        message::role_of(message) == "user" && !kinds(message).iter().any(|kind| kind == "tool_result")
    };
    let since_question = messages.iter().rev().take_while(|message| !is_question(message));
    let answers: Vec<_> =
        since_question.filter(|message| message::role_of(message) == "assistant").map(kinds).collect();
    let calls = answers.iter().flatten().any(|kind| kind == "tool_use");
    // Some models emit thinking only before the first of several calls.
    calls && !answers.iter().any(|kinds| kinds.first().is_some_and(|kind| kind.ends_with("thinking")))
}

/// Converts an assistant message to blocks. Thinking without a signature comes from another model or was
/// changed; it is omitted, because Anthropic would reject it.
fn assistant(message: &Json, place: &str) -> Result<Vec<Json>, Error> {
    let content = message.field("content");
    let has_signature = |block: &Json| block.text("signature").is_some_and(|signature| !signature.is_empty());
    let is_thinking = |block: &Json| block.is_text("type", "thinking");
    let mut all = blocks::of_message(message);
    if let Json::Array(_) = content {
        // Parts have fields that the joined text lacks.
        let parts = part::blocks(&content, place)?;
        let is_text = |block: &Json| block.is_text("type", "text");
        let is_call = |block: &Json| block.is_text("type", "tool_use");
        let at = all.iter().position(|block| is_text(block) || is_call(block)).unwrap_or(all.len());
        all.retain(|block| !is_text(block));
        all.splice(at..at, parts.into_iter().filter(|part| !is_thinking(part) || has_signature(part)));
    }
    all.retain(|block| !is_thinking(block) || has_signature(block));
    Ok(all)
}

fn result(message: &Json, content: Vec<Json>) -> Json {
    let id = message.text_or_empty("tool_call_id");
    let content: Json = match message.get("content") {
        Some(Json::Text(text)) => text.into(),
        _ => content.into(),
    };
    let is_blank = match &content {
        Json::Text(text) => text.trim().is_empty(),
        blocks => blocks
            .items()
            .iter()
            .all(|block| block.is_text("type", "text") && block.text_or_empty("text").trim().is_empty()),
    };
    // Anthropic refuses a failure without a text.
    let content = if is_blank && message.is_true("is_error") { "Error".into() } else { content };
    let fields =
        [("type", "tool_result".into()), ("tool_use_id", blocks::id(&id).into()), ("content", content)];
    let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
    let beside = others(message, &["role", "tool_call_id", "content", "name"]);
    fields.chain(beside).collect::<Object>().into()
}
