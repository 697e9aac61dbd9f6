//! Conversion of a chat request to the Responses API.

use crate::responses::tools::{AdditionalTools, Spaces, flat, to_response};
use compact_str::CompactString;
use std::collections::HashSet;
use valvehouse_core::chat::effort::effort_of_thinking;
use valvehouse_core::chat::event::REASONING;
use valvehouse_core::chat::items::ADDITIONAL_TOOLS;
use valvehouse_core::chat::{ONLY_ANTHROPIC, ONLY_OLLAMA, history, items, media, message, plain};
use valvehouse_core::error::Error;
use valvehouse_core::provider::ONLY_RESPONSES;
use valvehouse_json::{Json, Object};

/// The fields of a chat request that have no effect here or are converted to another field.
const TRANSLATED: [&str; 19] = [
    "messages",
    "tools",
    "tool_choice",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "reasoning_effort",
    "thinking",
    "verbosity",
    "logprobs",
    "top_logprobs",
    "stream",
    "stream_options",
    "n",
    "stop",
    "logit_bias",
    "seed",
    "store",
    ONLY_RESPONSES,
];
/// The fields with content that filters cannot read, or that make the service store it.
const UNSEEN: [&str; 6] =
    ["input", "instructions", "prompt", "previous_response_id", "conversation", "background"];
/// The encrypted reasoning, which the service needs back in the next request.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// Converts a request. Settings of a client of the Responses API are in the field `responses`.
///
/// # Errors
/// Returns a request error that names a field that would change the answer and that this API does not
/// support.
pub fn write(request: &Json, stream: bool) -> Result<Json, Error> {
    refuse_what_cannot_be(request)?;
    let thinking = request.given("thinking");
    let thinking = thinking.or_else(|| request.field(ONLY_ANTHROPIC).given("thinking"));
    let asks_to_think = match request.field(ONLY_OLLAMA).given("think") {
        Some(Json::Text(level)) => &*level != "none",
        Some(think) => think.as_bool() == Some(true),
        None => thinking.as_ref().and_then(effort_of_thinking).is_some_and(|effort| effort.name != "none"),
    };
    let messages = request.list("messages");
    let request = plain(request);
    let own_tools = request.list("tools");
    let mut additional = AdditionalTools::new(&own_tools);
    let blocks = own_items(&messages, &mut additional);
    let (tools, spaces) = additional.finish();
    let wishes = request.field(ONLY_RESPONSES);
    let wish = |key: &str| wishes.given(key);
    let mut fields: Vec<(&str, Json)> = vec![("model", request.field("model"))];
    fields.push(("input", input(&request.list("messages"), &blocks, &spaces).into()));
    if !tools.is_empty() {
        fields.push(("tools", tools.iter().map(to_response).collect::<Vec<_>>().into()));
    }
    fields.extend(request.given("tool_choice").map(|choice| ("tool_choice", choice_of(&choice))));
    let limit = ["max_completion_tokens", "max_tokens"].into_iter().find_map(|key| request.given(key));
    fields.extend(limit.map(|limit| ("max_output_tokens", limit)));
    fields.extend(text(&request).map(|text| ("text", text)));
    // Without a summary, the service returns no thinking that a client could show.
    let summary = asks_to_think.then(|| Json::from([("summary", "auto".into())]));
    let reasoning = reasoning(&request, wish("reasoning").or(summary));
    fields.extend(reasoning.map(|reasoning| ("reasoning", reasoning)));
    fields.extend(request.given("top_logprobs").map(|count| ("top_logprobs", count)));
    let mut include =
        wish("include").map(|include| include.items()).into_iter().flatten().collect::<Vec<_>>();
    let mut add = |word: &str| {
        if include.iter().all(|own| own.as_str() != Some(word)) {
            include.push(word.into());
        }
    };
    add(ENCRYPTED);
    if request.given("logprobs").and_then(|value| value.as_bool()) == Some(true) {
        add("message.output_text.logprobs");
    }
    fields.push(("include", include.into()));
    // The host stores conversations itself, in the form after its filters.
    fields.push(("store", false.into()));
    fields.push(("stream", stream.into()));
    let body: Object = fields.into_iter().map(|(key, value)| (key.into(), value)).collect();
    for (key, value) in request.entries() {
        if !TRANSLATED.contains(&key.as_str()) && !body.contains(&key) {
            body.put(&key, value);
        }
    }
    for (key, value) in wishes.entries() {
        // Tools and messages are always those that filters read.
        if !body.contains(&key) && !TRANSLATED.contains(&key.as_str()) {
            body.put(&key, value);
        }
    }
    Ok(body.into())
}

/// Returns the items in each message of the model, with the number of calls before each item. Other services do not
/// receive these blocks, but their items are for this one.
fn own_items(messages: &[Json], additional: &mut AdditionalTools<'_>) -> Vec<Vec<(usize, Json)>> {
    let own = messages.iter().filter(|message| history::is_role(message, "assistant"));
    let items = own.map(|message| {
        let items = items::of(message).into_iter();
        let items = items.filter_map(|(calls, item)| match item.text("type").as_deref() {
            Some(ADDITIONAL_TOOLS) => Some((calls, additional.item(&item)?)),
            _ => Some((calls, item)),
        });
        items.collect()
    });
    items.collect()
}

/// Converts a choice of tools.
fn choice_of(choice: &Json) -> Json {
    let choice = flat(choice);
    if choice.is_text("type", "allowed_tools") {
        let tools: Vec<Json> = choice.list("tools").iter().map(flat).collect();
        // `flat` returned a new object.
        choice.edit("tools", tools);
    }
    choice
}

/// Rejects fields that would change the answer if this API supported them.
fn refuse_what_cannot_be(request: &Json) -> Result<(), Error> {
    let cannot = |field: &'static str, why: &str| {
        Err(Error::invalid(
            format!("cannot send {field} to a service over its Responses API: {why}"),
            Some(field),
        ))
    };
    if request.given("n").is_some_and(|count| count.as_i64() != Some(1)) {
        return cannot("n", "it returns one choice; send several requests");
    }
    if request.given("logit_bias").is_some_and(|bias| !bias.is_empty()) {
        return cannot("logit_bias", "it does not support token weights; remove the field");
    }
    let wishes = request.field(ONLY_RESPONSES);
    for field in UNSEEN {
        if request.given(field).is_some() || wishes.given(field).is_some() {
            return cannot(field, "filters cannot see this field; send its content in messages");
        }
    }
    Ok(())
}

/// Converts the messages to items. `blocks` contains the items in each message of the model, with the number
/// of calls before each item.
fn input(messages: &[Json], blocks: &[Vec<(usize, Json)>], spaces: &Spaces) -> Vec<Json> {
    let mut out = Vec::new();
    let mut blocks = blocks.iter();
    // The ids of the calls of custom tools, whose results are a separate kind of item.
    let mut custom = HashSet::new();
    for message in messages {
        match &*message.text_or_empty("role") {
            "assistant" => {
                let blocks = blocks.next().map_or(&[][..], Vec::as_slice);
                assistant_items(message, blocks, spaces, &mut custom, &mut out);
            }
            "tool" | "function" => {
                let id = message.text_or_empty("tool_call_id");
                let kind = match custom.contains(&id) {
                    true => "custom_tool_call_output",
                    false => "function_call_output",
                };
                let output = match message.field("content") {
                    Json::Array(parts) => parts.items().iter().map(result_part).collect::<Vec<_>>().into(),
                    Json::Null => "".into(),
                    content => content,
                };
                out.push(Json::from([("type", kind.into()), ("call_id", id.into()), ("output", output)]));
            }
            role => {
                let content = match message.field("content") {
                    Json::Array(parts) => parts.items().iter().map(part).collect::<Vec<_>>().into(),
                    Json::Null => "".into(),
                    content => content,
                };
                out.push(Json::from([
                    ("type", "message".into()),
                    ("role", role.into()),
                    ("content", content),
                ]));
            }
        }
    }
    out
}

/// Converts a message of the model to items. Items that only the service can read keep their positions.
fn assistant_items(
    message: &Json,
    blocks: &[(usize, Json)],
    spaces: &Spaces,
    custom: &mut HashSet<CompactString>,
    out: &mut Vec<Json>,
) {
    let has_reasoning = blocks.iter().any(|(_, item)| item.is_text("type", "reasoning"));
    let thoughts = REASONING.iter().find_map(|key| message.text(key)).filter(|text| !text.is_empty());
    if let Some(thoughts) = thoughts.filter(|_| !has_reasoning) {
        let part = Json::from([("type", "reasoning_text".into()), ("text", thoughts.into())]);
        let none: Vec<Json> = Vec::new();
        out.push(Json::from([
            ("type", "reasoning".into()),
            ("summary", none.into()),
            ("content", vec![part].into()),
        ]));
    }
    let calls = message.list("tool_calls");
    let mut blocks = blocks.iter().peekable();
    let mut before = |count: usize, out: &mut Vec<Json>| {
        while let Some((_, item)) = blocks.next_if(|(before, _)| *before <= count) {
            out.push(item.clone());
        }
    };
    before(0, out);
    let mut parts = Vec::new();
    let text = message::text_of(message);
    if !text.is_empty() {
        let none: Vec<Json> = Vec::new();
        let fields = [("type", "output_text".into()), ("text", text.into()), ("annotations", none.into())];
        parts.push(Json::from(fields));
    }
    if let Some(refusal) = message.text("refusal").filter(|text| !text.is_empty()) {
        parts.push(Json::from([("type", "refusal".into()), ("refusal", refusal.into())]));
    }
    if !parts.is_empty() {
        let fields = [("type", "message".into()), ("role", "assistant".into()), ("content", parts.into())];
        out.push(Json::from(fields));
    }
    for (at, call) in calls.iter().enumerate() {
        before(at, out);
        let id = call.text_or_empty("id");
        let given = call.field("custom");
        let (kind, called, key) = match given.is_null() {
            true => ("function_call", call.field("function"), "arguments"),
            false => ("custom_tool_call", given, "input"),
        };
        if key == "input" {
            custom.insert(id.clone());
        }
        let input = match called.field(key) {
            Json::Text(text) => text.into(),
            Json::Null => "".into(),
            other => other.to_string().into(),
        };
        let mut fields = vec![("type", kind.into()), ("call_id", id.into())];
        match spaces.get(called.text_or_empty("name").as_str()) {
            Some((space, name)) => {
                fields.extend([("name", name.as_str().into()), ("namespace", space.as_str().into())]);
            }
            None => fields.push(("name", called.field("name"))),
        }
        fields.push((key, input));
        out.push(Json::from_fields(fields));
    }
    before(usize::MAX, out);
}

/// Converts a part of a tool's result. A sentence stands for a part that this API does not have there.
fn result_part(given: &Json) -> Json {
    match &*given.text_or_empty("type") {
        "text" | "image_url" | "file" | "input_text" | "input_image" | "input_file" => part(given),
        _ => part(&media::missing(given)),
    }
}

/// Converts a part of a message from another role than the model.
fn part(part: &Json) -> Json {
    let kind = part.text_or_empty("type");
    match &*kind {
        "text" => Json::from([("type", "input_text".into()), ("text", part.field("text"))]),
        "image_url" => {
            let image = part.field("image_url");
            let url = image.as_str().map(Json::from).or_else(|| image.given("url"));
            // The types of OpenAI's client require the default, too.
            let detail = image.given("detail").unwrap_or_else(|| "auto".into());
            let fields = [("image_url", url), ("file_id", image.given("file_id")), ("detail", Some(detail))];
            let fields = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
            Json::from_fields([("type", "input_image".into())].into_iter().chain(fields))
        }
        "file" => {
            let file = part.entries().into_iter().filter(|(key, _)| key == "file");
            let file = file.flat_map(|(_, file)| file.entries());
            let kind = [("type".into(), "input_file".into())];
            kind.into_iter().chain(file).collect::<Object>().into()
        }
        _ => part.clone(),
    }
}

/// Returns the format and verbosity of the answer's text.
fn text(request: &Json) -> Option<Json> {
    let format = request.given("response_format").map(|format| {
        let schema = format.field("json_schema");
        let kind = [("type".into(), format.field("type"))];
        Json::from(kind.into_iter().chain(schema.entries()).collect::<Object>())
    });
    let fields = [("format", format), ("verbosity", request.given("verbosity"))];
    let fields: Vec<_> = fields.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    (!fields.is_empty()).then(|| Json::from_fields(fields))
}

/// Returns the client's reasoning settings, with the effort of the chat request.
fn reasoning(request: &Json, wish: Option<Json>) -> Option<Json> {
    let of_thinking = || effort_of_thinking(&request.field("thinking")).map(|effort| effort.openai.into());
    let effort =
        request.given("reasoning_effort").or_else(of_thinking).map(|effort| ("effort".into(), effort));
    let others = wish.map(|wish| wish.entries()).into_iter().flatten().filter(|(key, _)| key != "effort");
    let reasoning: Object = effort.into_iter().chain(others).collect();
    (!reasoning.is_empty()).then(|| reasoning.into())
}
