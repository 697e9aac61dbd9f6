//! Conversion of a chat request to the Responses API.

use crate::responses::order::{MESSAGE, phase_of};
use crate::responses::tools::{AdditionalTools, Spaces, flat, to_response};
use crate::service::KnownService;
use compact_str::CompactString;
use std::collections::{HashSet, VecDeque};
use valvehouse_core::chat::content_blocks::BlockTexts;
use valvehouse_core::chat::effort::effort_of_thinking;
use valvehouse_core::chat::event::REASONING;
use valvehouse_core::chat::items::ADDITIONAL_TOOLS;
use valvehouse_core::chat::{
    CONTENT_BLOCKS, ONLY_ANTHROPIC, ONLY_OLLAMA, history, items, media, message, plain,
};
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
pub fn write(request: &Json, stream: bool, service: &KnownService) -> Result<Json, Error> {
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
    let blocks = own_blocks(&messages, &mut additional);
    let (tools, spaces) = additional.finish();
    let wishes = request.field(ONLY_RESPONSES);
    let wish = |key: &str| wishes.given(key);
    let mut fields: Vec<(&str, Json)> = vec![("model", request.field("model"))];
    let mut input = Input {
        spaces: &spaces,
        takes_thoughts: service.takes_thoughts(),
        custom: HashSet::new(),
        items: Vec::new(),
    };
    input.add_messages(&request.list("messages"), &blocks);
    fields.push(("input", input.items.into()));
    if !tools.is_empty() {
        let of_chat = request.get(ONLY_RESPONSES).is_none();
        let tools: Vec<Json> = tools.iter().map(|tool| to_response(tool, of_chat)).collect();
        fields.push(("tools", tools.into()));
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

/// Returns the blocks of each message of the model. Other services do not receive them, but their items are for this one.
fn own_blocks(messages: &[Json], additional: &mut AdditionalTools<'_>) -> Vec<Vec<Json>> {
    let own = messages.iter().filter(|message| history::is_role(message, "assistant"));
    let mut block = |block: &Json| match items::of_block(block) {
        Some(item) if item.is_text("type", ADDITIONAL_TOOLS) => {
            let item = additional.item(&item)?;
            Some(items::block(item, items::calls_before(block)))
        }
        _ => Some(block.clone()),
    };
    own.map(|message| message.list(CONTENT_BLOCKS).iter().filter_map(&mut block).collect()).collect()
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

/// The items of a conversation.
struct Input<'a> {
    spaces: &'a Spaces,
    /// Set if the service reads thoughts that no service encrypted.
    takes_thoughts: bool,
    /// The ids of the calls of custom tools, whose results are a separate kind of item.
    custom: HashSet<CompactString>,
    items: Vec<Json>,
}

impl Input<'_> {
    /// Converts messages. `blocks` are those of each message of the model.
    fn add_messages(&mut self, messages: &[Json], blocks: &[Vec<Json>]) {
        let mut blocks = blocks.iter();
        for message in messages {
            match &*message.text_or_empty("role") {
                "assistant" => self.add_turn(message, blocks.next().map_or(&[], Vec::as_slice)),
                "tool" | "function" => self.add_result(message),
                role => {
                    let content = match message.field("content") {
                        Json::Array(parts) => parts.items().iter().map(part).collect::<Vec<_>>().into(),
                        Json::Null => "".into(),
                        content => content,
                    };
                    self.items.push(Json::from([
                        ("type", MESSAGE.into()),
                        ("role", role.into()),
                        ("content", content),
                    ]));
                }
            }
        }
    }

    fn add_result(&mut self, message: &Json) {
        let id = message.text_or_empty("tool_call_id");
        let kind = match self.custom.contains(&id) {
            true => "custom_tool_call_output",
            false => "function_call_output",
        };
        let output = match message.field("content") {
            Json::Array(parts) => parts.items().iter().map(result_part).collect::<Vec<_>>().into(),
            Json::Null => "".into(),
            content => content,
        };
        self.items.push(Json::from([("type", kind.into()), ("call_id", id.into()), ("output", output)]));
    }

    /// Converts a message of the model to items in the order of its blocks. Without blocks of texts and calls, items stand
    /// before the text or, by the number of calls before them, between the calls.
    fn add_turn(&mut self, message: &Json, blocks: &[Json]) {
        self.add_thoughts(message, blocks);
        let mut calls: VecDeque<Json> = message.list("tool_calls").into();
        let mut texts = BlockTexts::new("text", message, blocks);
        let is_ordered =
            blocks.iter().any(|block| matches!(&*block.text_or_empty("type"), "text" | "tool_use"));
        let (count, mut phase) = (calls.len(), None);
        for block in blocks {
            match (&*block.text_or_empty("type"), items::of_block(block)) {
                (_, Some(item)) if item.is_text("type", MESSAGE) => phase = phase_of(&item),
                (_, Some(item)) => {
                    let before = items::calls_before(block);
                    if !is_ordered && before > count - calls.len() {
                        self.add_text(&std::mem::take(&mut texts.rest), phase.take());
                        let more = before - (count - calls.len());
                        calls.drain(..more.min(calls.len())).for_each(|call| self.add_call(&call));
                    }
                    self.items.push(item);
                }
                ("text", _) => {
                    if let Some(added) = texts.added() {
                        self.add_text(&added, phase);
                    }
                    self.add_text(&texts.take_next().0, phase.take());
                }
                ("tool_use", _) => {
                    let own = calls.iter().position(|call| call.get("id") == block.get("id"));
                    own.and_then(|at| calls.remove(at)).inspect(|call| self.add_call(call));
                }
                _ => {}
            }
        }
        self.add_text(&texts.rest, phase);
        let refusal = message::refusal_of(message);
        if !refusal.is_empty() {
            let part = Json::from([("type", "refusal".into()), ("refusal", refusal.into())]);
            self.add_message(part, None);
        }
        calls.iter().for_each(|call| self.add_call(call));
    }

    fn add_thoughts(&mut self, message: &Json, blocks: &[Json]) {
        let is_reasoning =
            |block: &Json| items::of_block(block).is_some_and(|item| item.is_text("type", "reasoning"));
        if !self.takes_thoughts || blocks.iter().any(is_reasoning) {
            return;
        }
        let thoughts = REASONING.iter().find_map(|key| message.text(key)).filter(|text| !text.is_empty());
        let Some(thoughts) = thoughts else { return };
        let part = Json::from([("type", "reasoning_text".into()), ("text", thoughts.into())]);
        self.items.push(Json::from([
            ("type", "reasoning".into()),
            ("summary", Json::array()),
            ("content", vec![part].into()),
        ]));
    }

    fn add_text(&mut self, text: &str, phase: Option<&'static str>) {
        if !text.is_empty() {
            let fields =
                [("type", "output_text".into()), ("text", text.into()), ("annotations", Json::array())];
            self.add_message(Json::from(fields), phase);
        }
    }

    fn add_message(&mut self, part: Json, phase: Option<&'static str>) {
        let own = [("type", MESSAGE.into()), ("role", "assistant".into()), ("content", vec![part].into())];
        let phase = phase.map(|phase| ("phase", phase.into()));
        self.items.push(Json::from_fields(own.into_iter().chain(phase)));
    }

    fn add_call(&mut self, call: &Json) {
        let id = call.text_or_empty("id");
        let given = call.field("custom");
        let (kind, called, key) = match given.is_null() {
            true => ("function_call", call.field("function"), "arguments"),
            false => ("custom_tool_call", given, "input"),
        };
        if key == "input" {
            self.custom.insert(id.clone());
        }
        let input = match called.field(key) {
            Json::Text(text) => text.into(),
            Json::Null => "".into(),
            other => other.to_string().into(),
        };
        let mut fields = vec![("type", kind.into()), ("call_id", id.into())];
        match self.spaces.get(called.text_or_empty("name").as_str()) {
            Some((space, name)) => {
                fields.extend([("name", name.as_str().into()), ("namespace", space.as_str().into())]);
            }
            None => fields.push(("name", called.field("name"))),
        }
        fields.push((key, input));
        self.items.push(Json::from_fields(fields));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn written(body: &str) -> Json {
        write(&Json::parse(body.as_bytes()).unwrap(), false, KnownService::of("", "")).unwrap()
    }

    #[test]
    fn a_refusal_is_sent_whether_it_is_a_field_or_a_part() {
        for message in [
            r#""content":"a","refusal":"no""#,
            r#""content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]"#,
        ] {
            let body = format!(r#"{{"model":"m","messages":[{{"role":"assistant",{message}}}]}}"#);
            let parts: Vec<String> = written(&body)
                .list("input")
                .iter()
                .map(|item| item.at_path("content.0.type").to_string())
                .collect();
            assert_eq!(parts, [r#""output_text""#, r#""refusal""#], "{message}");
        }
    }

    #[test]
    fn only_clients_of_this_api_leave_its_default_to_the_service() {
        let strict = |client: &str| {
            let tool = r#"{"type":"function","function":{"name":"f","parameters":{}}}"#;
            let body = format!(r#"{{"model":"m","messages":[],"tools":[{tool}]{client}}}"#);
            written(&body).at_path("tools.0.strict")
        };
        assert_eq!(strict(""), Json::from(false));
        assert_eq!(strict(r#","responses":{}"#), Json::Null);
    }
}
