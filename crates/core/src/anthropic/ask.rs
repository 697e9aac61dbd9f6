//! A chat request as a request for Anthropic's Messages.

use super::extra::{ONLY_ANTHROPIC, others};
use super::talk::{self, Talk};
use super::tools;
use crate::fault::Fault;
use valvehouse_json::Json;

/// The longest answer where nobody names a limit: Anthropic wants a number.
const MAX_TOKENS: i64 = 8192;

/// A request for Anthropic.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The body of `POST /v1/messages`.
    pub body: Json,
    /// The value of the header `anthropic-beta`, where there is one.
    pub beta: Option<String>,
}

/// Fields of a chat request that are translated, or only hints that Anthropic has no use for.
const KNOWN: [&str; 38] = [
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
];

/// Translates a request. What cannot be said to Anthropic, and would be missed in the answer, is an
/// error that names the field.
pub fn ask(request: &Json, stream: bool) -> Result<Asked, Fault> {
    refuse_what_cannot_be(request)?;
    let body = Json::object();
    // Fields of a new object, all of them copies or new: they fit.
    let set = |key: &str, value: Json| {
        body.put(key, value);
    };
    set("model", request.field("model"));
    let only = request.field(ONLY_ANTHROPIC);
    set("max_tokens", max_tokens(request, &only));
    let talk = Talk::read(&request.list("messages"), !only.is_null())?;
    if let Some(system) = talk.system() {
        set("system", system);
    }
    set("messages", talk.messages().into());
    let list = request.list("tools");
    if !list.is_empty() {
        let list = list.iter().enumerate().map(|(at, tool)| tools::tool(tool, at));
        set("tools", list.collect::<Result<Vec<_>, _>>()?.into());
    }
    if let Some(choice) = tools::choice(request)? {
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
    if let Some(tier) = service_tier(request)? {
        set("service_tier", tier);
    }
    for (key, value) in others(&only, &["beta", "output_config"]).into_iter().chain(others(request, &KNOWN)) {
        set(&key, value);
    }
    if let Some(config) = output_config(request, &only)? {
        set("output_config", config);
    }
    let thinks = body.at_path("thinking.type").as_str() == Some("enabled");
    let no_effort = request.text("reasoning_effort").is_some_and(|effort| effort == "none");
    if no_effort || (thinks && talk::has_forgotten_thoughts(&body.at_path("messages").items())) {
        set("thinking", Json::from([("type", "disabled".into())]));
    }
    set("stream", stream.into());
    Ok(Asked { body, beta: beta(request, &only) })
}

/// Fields that would change the answer, if only Anthropic knew them.
fn refuse_what_cannot_be(request: &Json) -> Result<(), Fault> {
    let number = |key: &str| request.get(key).and_then(|value| value.as_f64());
    let cannot = |field: &'static str, why: &str| {
        Err(Fault::invalid(format!("{field} cannot be sent to Anthropic's models: {why}"), Some(field)))
    };
    if number("n").is_some_and(|n| n != 1.0) {
        return cannot("n", "they give one answer; ask several times");
    }
    if request.get("logprobs").and_then(|wanted| wanted.as_bool()) == Some(true)
        || number("top_logprobs").is_some_and(|count| count > 0.0)
    {
        return cannot("logprobs", "they do not tell their probabilities");
    }
    if request.given("logit_bias").is_some_and(|bias| !bias.is_empty()) {
        return cannot("logit_bias", "tokens cannot be weighted");
    }
    for field in ["frequency_penalty", "presence_penalty"] {
        if number(field).is_some_and(|penalty| penalty != 0.0) {
            return cannot(field, "they have no such setting; leave it out");
        }
    }
    if let Some(temperature) = number("temperature").filter(|value| !(0.0..=1.0).contains(value)) {
        return cannot("temperature", &format!("it is {temperature}, and must be between 0 and 1"));
    }
    for field in ["functions", "function_call"] {
        if request.given(field).is_some_and(|value| !value.is_empty() && value.as_str() != Some("none")) {
            return cannot(field, "send `tools` and `tool_choice` instead");
        }
    }
    let speaks = request.list("modalities").iter().any(|kind| kind.as_str() != Some("text"));
    if speaks || request.given("audio").is_some() {
        return cannot("modalities", "they answer in text");
    }
    if request.given("web_search_options").is_some() {
        return cannot(
            "web_search_options",
            "add the tool {\"type\": \"web_search_20250305\", \"name\": \"web_search\"}",
        );
    }
    Ok(())
}

/// The limit that was asked for; else as much as there is room for beside the thinking.
fn max_tokens(request: &Json, only: &Json) -> Json {
    let asked = request.given("max_completion_tokens").or_else(|| request.given("max_tokens"));
    let thinking = |of: &Json| of.at_path("thinking.budget_tokens").as_i64();
    let budget = thinking(request).or(thinking(only)).unwrap_or(0);
    asked.unwrap_or_else(|| MAX_TOKENS.saturating_add(budget).into())
}

fn metadata(request: &Json) -> Option<Json> {
    let user = ["user", "safety_identifier"].into_iter().find_map(|key| request.text(key));
    let user = user.or_else(|| request.at_path("metadata.user_id").as_str().map(Into::into))?;
    Some(Json::from([("user_id", user.into())]))
}

fn service_tier(request: &Json) -> Result<Option<Json>, Fault> {
    let Some(tier) = request.given("service_tier") else { return Ok(None) };
    match tier.as_str() {
        Some("auto" | "standard_only") => Ok(Some(tier)),
        Some("default") => Ok(Some("standard_only".into())),
        _ => {
            let message = format!("service_tier is {tier}; Anthropic has auto and standard_only");
            Err(Fault::invalid(message, Some("service_tier")))
        }
    }
}

/// The form of the answer and the effort put into it, over what was said in Anthropic's own words.
fn output_config(request: &Json, only: &Json) -> Result<Option<Json>, Fault> {
    let own = request.given("output_config").or_else(|| only.given("output_config"));
    let config = own.as_ref().map_or_else(Json::object, Json::copy);
    match request.text("reasoning_effort").as_deref() {
        None | Some("none") => {}
        Some("minimal") => config.edit("effort", "low"),
        Some(effort) => config.edit("effort", effort),
    }
    let format = request.field("response_format");
    match format.text("type").as_deref() {
        None | Some("text") => {}
        Some("json_schema") => {
            let schema = format.at_path("json_schema.schema");
            if schema.as_object().is_none() {
                let message = "response_format.json_schema.schema is missing; it must be a JSON schema";
                return Err(Fault::invalid(message, Some("response_format")));
            }
            let format = [("type", "json_schema".into()), ("schema", schema.copy())];
            config.edit("format", Json::from(format));
        }
        Some(kind) => {
            let message = format!(
                "response_format is {kind}, which Anthropic's models do not know; send a json_schema with it"
            );
            return Err(Fault::invalid(message, Some("response_format")));
        }
    }
    Ok(Some(config).filter(|config| !config.is_empty()))
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
