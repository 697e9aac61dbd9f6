//! Conversion of conversation items to chat messages.

use super::tools::Tools;
use crate::responses::id::new_id;
use crate::responses::order::{ItemOrder, phase_of};
use crate::responses::tools::joined;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use compact_str::CompactString;
use std::collections::HashSet;
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// The prefix of `encrypted_content` that this host wrote: thoughts with the signed blocks of their provider.
const OWN: &str = "vh1.";
/// The type of the last item of a request to compact the conversation.
pub(super) const COMPACTION_TRIGGER: &str = "compaction_trigger";
/// The instruction to write the summary of a conversation.
pub const COMPACT: &str = "The conversation above will be replaced by a summary that you write now, for yourself: you will go on \
    with nothing else. Write down the user's goals and constraints, what was decided and done, facts, names, paths and \
    results that will be needed, and what is to be done next. Answer with the summary alone.";
/// The text before the summary of a compacted conversation.
const COMPACTED: &str = "The conversation so far was compacted. Its summary:\n\n";

/// Returns the items of an `input`, as they are stored. A text becomes a user message.
///
/// # Errors
/// Returns a request error if the input is neither a text nor a list of objects.
pub fn items(input: &Json) -> Result<Vec<Json>, Error> {
    Ok(sent_items(input)?.iter().map(whole).collect())
}

/// Returns the items of an `input` as they were sent.
pub(super) fn sent_items(input: &Json) -> Result<Vec<Json>, Error> {
    match input {
        Json::Text(text) => Ok(vec![message("user", text.clone().into())]),
        Json::Array(items) => {
            let items = items.items();
            match items.iter().position(|item| item.as_object().is_none()) {
                Some(at) => {
                    Err(Error::invalid(format!("invalid input[{at}]: expected an object"), Some("input")))
                }
                None => Ok(items),
            }
        }
        Json::Null => Ok(Vec::new()),
        _ => Err(Error::invalid("invalid input: expected a string or a list of items", Some("input"))),
    }
}

/// Completes an item as it is listed later: with an id and a type, and with a text as a part of its message.
pub(super) fn whole(item: &Json) -> Json {
    let kind = item.text("type").unwrap_or_else(|| "message".into());
    let mut fields = vec![("type".into(), kind.clone().into())];
    if item.get("id").is_none_or(|id| id.is_null()) {
        let prefix = if kind == "message" { "msg" } else { "item" };
        fields.push(("id".into(), new_id(prefix).into()));
    }
    let is_assistant = item.is_text("role", "assistant");
    for (key, value) in item.entries() {
        match (key.as_str(), &value) {
            ("type", _) => {}
            ("id", Json::Null) => {}
            ("content", Json::Text(text)) if kind == "message" => {
                let kind = if is_assistant { "output_text" } else { "input_text" };
                let part = Json::from([("type", kind.into()), ("text", text.clone().into())]);
                fields.push((key, vec![part].into()));
            }
            _ => fields.push((key, value.deep_clone())),
        }
    }
    fields.into_iter().collect::<Object>().into()
}

/// Returns the instructions of a request as a system message.
pub(super) fn instructions(sent: &Json) -> Vec<Json> {
    match sent.given("instructions") {
        Some(Json::Text(text)) if !text.is_empty() => vec![message("system", text.into())],
        _ => Vec::new(),
    }
}

/// Returns `true` for reasoning that its provider encrypted.
fn is_encrypted(item: &Json) -> bool {
    let is_reasoning = item.is_text("type", "reasoning");
    is_reasoning
        && item.text("encrypted_content").is_some_and(|text| !text.is_empty() && !text.starts_with(OWN))
}

/// Converts items to messages. The text, reasoning and calls of a model between two other messages become one
/// message.
///
/// # Errors
/// Returns a request error that names the item if its role or `call_id` is missing, or if the input contains no
/// message to send.
pub(super) fn messages(items: &[Json], tools: &Tools) -> Result<Vec<Json>, Error> {
    let mut out = Vec::new();
    let mut turn = Turn::default();
    let mut called = HashSet::new();
    for (at, item) in items.iter().enumerate() {
        let kind = item.text("type").unwrap_or_else(|| "message".into());
        match &*kind {
            "message" => match item.text("role").as_deref() {
                Some("assistant") => turn.add_message(item),
                Some(role @ ("user" | "system" | "developer")) => {
                    turn.end(&mut out);
                    check_content(&item.field("content"), at, "content")?;
                    // Some providers support `system` but not `developer`.
                    let role = if role == "developer" { "system" } else { role };
                    out.push(message(role, content(&item.field("content"))));
                }
                _ => {
                    let text =
                        format!("invalid input[{at}].role: expected user, assistant, system or developer");
                    return Err(Error::invalid(text, Some("input")));
                }
            },
            "reasoning" => turn.think(item),
            "compaction" | "compaction_summary" => {
                turn.end(&mut out);
                match item.text("encrypted_content").and_then(|text| opened(&text)) {
                    Some((summary, _)) => out.push(message("user", format!("{COMPACTED}{summary}").into())),
                    // The service that made it reads it.
                    None => turn.keep(item.deep_clone()),
                }
            }
            COMPACTION_TRIGGER if at + 1 == items.len() => {
                turn.end(&mut out);
                out.push(message("user", COMPACT.into()));
            }
            COMPACTION_TRIGGER => {}
            "function_call" | "custom_tool_call" => {
                called.extend(item.text("call_id"));
                turn.call(item, at, tools)?;
            }
            "function_call_output" | "custom_tool_call_output" => {
                turn.end(&mut out);
                let result = result(item, at)?;
                check_called(item, at, &called)?;
                out.push(result);
            }
            _ => turn.keep(item.deep_clone()),
        }
    }
    turn.end(&mut out);
    if out.is_empty() {
        return Err(Error::invalid("missing input: send a string or at least one item", Some("input")));
    }
    Ok(out)
}

/// Rejects the result of a call that is missing from the conversation, because no provider accepts it.
fn check_called(item: &Json, at: usize, called: &HashSet<CompactString>) -> Result<(), Error> {
    let id = item.text_or_empty("call_id");
    if called.contains(&id) {
        return Ok(());
    }
    let text = format!(
        "no tool call found for input[{at}] with call_id `{id}`: send the call before it, or the previous_response_id of its response"
    );
    Err(Error::invalid(text, Some("input")))
}

/// The text, thoughts and calls of a model between two messages of others.
#[derive(Default)]
struct Turn {
    text: Vec<Json>,
    refusal: Option<Json>,
    thoughts: String,
    blocks: Option<Json>,
    order: ItemOrder,
    has_hosted: bool,
    calls: Vec<Json>,
}

impl Turn {
    /// Stores an item of a hosted tool at its position.
    fn keep(&mut self, item: Json) {
        self.has_hosted = true;
        self.order.item(item);
    }

    fn add_message(&mut self, item: &Json) {
        let parts = item.field("content");
        let mut texts = Vec::new();
        if matches!(parts, Json::Text(_)) {
            texts.push(parts.clone());
        }
        for part in parts.items() {
            match part.get("text") {
                Some(text @ Json::Text(_)) => texts.push(text),
                _ => self.refusal = part.get("refusal").or(self.refusal.take()),
            }
        }
        let text = concat(&texts);
        if !text.is_empty() {
            self.order.text(text, phase_of(item));
        }
        self.text.extend(texts);
    }

    fn think(&mut self, item: &Json) {
        if is_encrypted(item) {
            // Its texts become the thoughts of the message, where filters can read them. The id may be one of this host,
            // and the service refuses encrypted content under another id than its own.
            let none: Vec<Json> = Vec::new();
            let bare = item
                .entries()
                .into_iter()
                .filter(|(key, _)| !matches!(key.as_str(), "id" | "content" | "status"));
            let bare = bare.map(|(key, value)| match key == "summary" {
                true => (key, none.clone().into()),
                false => (key, value),
            });
            self.order.item(bare.collect::<Object>().into());
        }
        if let Some((thoughts, blocks)) = item.text("encrypted_content").and_then(|text| opened(&text)) {
            self.thoughts.push_str(&thoughts);
            self.blocks = blocks;
            return;
        }
        let parts = [item.get("content"), item.get("summary")];
        let parts = Json::from(parts.into_iter().flatten().find(|parts| !parts.is_empty()));
        parts
            .items()
            .iter()
            .filter_map(|part| part.text("text"))
            .for_each(|text| self.thoughts.push_str(&text));
    }

    fn call(&mut self, item: &Json, at: usize, tools: &Tools) -> Result<(), Error> {
        let field = |key: &str| {
            item.text(key).filter(|text| !text.is_empty()).ok_or_else(|| {
                Error::invalid(format!("missing input[{at}].{key}: a tool call needs it"), Some("input"))
            })
        };
        let (id, name) = (field("call_id")?, field("name")?);
        let name = match item.text("namespace").filter(|space| !space.is_empty()) {
            Some(space) => joined(&space, &name),
            None => name.into(),
        };
        let is_custom = tools.is_custom(&name) || item.is_text("type", "custom_tool_call");
        let (kind, key) = if is_custom { ("custom", "input") } else { ("function", "arguments") };
        let given = match item.get(key).unwrap_or_else(|| item.field("arguments")) {
            Json::Text(text) => text.into(),
            Json::Null => Json::from(""),
            // Arguments may be sent as an object instead of its text.
            other => other.to_string().into(),
        };
        let called = Json::from([("name", name.into()), (key, given)]);
        self.order.call(id.clone());
        self.calls.push(Json::from([("id", id.into()), ("type", kind.into()), (kind, called)]));
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<Json>) {
        let turn = std::mem::take(self);
        // Providers reject a message that contains only thoughts.
        if turn.text.is_empty() && turn.calls.is_empty() && turn.refusal.is_none() && !turn.has_hosted {
            return;
        }
        let text = concat(&turn.text);
        let content = if text.is_empty() && !turn.calls.is_empty() { Json::Null } else { text };
        let mut fields = vec![("role", "assistant".into()), ("content", content)];
        if !turn.thoughts.is_empty() {
            fields.push(("reasoning_content", turn.thoughts.into()));
        }
        let own = turn.order.blocks(turn.blocks.is_some());
        let blocks: Vec<Json> = turn.blocks.iter().flat_map(Json::items).chain(own).collect();
        if !blocks.is_empty() {
            fields.push((CONTENT_BLOCKS, blocks.into()));
        }
        fields.extend(turn.refusal.map(|refusal| ("refusal", refusal)));
        if !turn.calls.is_empty() {
            fields.push(("tool_calls", turn.calls.into()));
        }
        out.push(Json::from_fields(fields));
    }
}

/// Returns texts as one; a single one keeps its spelling.
fn concat(texts: &[Json]) -> Json {
    match texts {
        [text] => text.clone(),
        texts => texts.iter().map(Json::str_or_empty).collect::<String>().into(),
    }
}

fn result(item: &Json, at: usize) -> Result<Json, Error> {
    let id = item.text("call_id").filter(|id| !id.is_empty()).ok_or_else(|| {
        Error::invalid(format!("missing input[{at}].call_id: name the call of this output"), Some("input"))
    })?;
    let output = item.field("output");
    let content = match &output {
        Json::Text(_) | Json::Array(_) => {
            check_content(&output, at, "output")?;
            content(&output)
        }
        _ => {
            let text = format!("invalid input[{at}].output: expected a string or a list of parts");
            return Err(Error::invalid(text, Some("input")));
        }
    };
    Ok(Json::from([("role", "tool".into()), ("tool_call_id", id.into()), ("content", content)]))
}

fn message(role: &str, content: Json) -> Json {
    Json::from([("role", role.into()), ("content", content)])
}

/// Converts content to the chat format. A single text part becomes a text.
fn content(content: &Json) -> Json {
    let Json::Array(parts) = content else { return content.clone() };
    let parts: Vec<Json> = parts.items().iter().map(part).collect();
    match parts.as_slice() {
        [only] if only.is_text("type", "text") => only.field("text"),
        _ => parts.into(),
    }
}

fn part(part: &Json) -> Json {
    let field = |key: &str| part.given(key);
    match part.text("type").as_deref() {
        Some("input_text" | "output_text" | "text") => {
            Json::from([("type", "text".into()), ("text", part.field("text"))])
        }
        Some("input_image") => {
            let keys = [("url", "image_url"), ("file_id", "file_id"), ("detail", "detail")];
            let image = keys.into_iter().filter_map(|(key, own)| Some((key, field(own)?)));
            Json::from([("type", "image_url".into()), ("image_url", Json::from_fields(image))])
        }
        Some("input_file") => {
            let file = ["file_id", "file_data", "filename", "file_url"];
            let file = file.into_iter().filter_map(|key| Some((key, field(key)?)));
            Json::from([("type", "file".into()), ("file", Json::from_fields(file))])
        }
        _ => part.deep_clone(),
    }
}

/// Rejects the content in a field of an item if it has a text that filters could not read.
fn check_content(content: &Json, at: usize, field: &str) -> Result<(), Error> {
    let invalid = |what: String| Err(Error::invalid(what, Some("input")));
    let parts = match content {
        Json::Text(_) => return Ok(()),
        Json::Array(parts) => parts.items(),
        _ => return invalid(format!("invalid input[{at}].{field}: expected a string or a list of parts")),
    };
    for (index, part) in parts.iter().enumerate() {
        let has_text = |key: &str| matches!(part.get(key), Some(Json::Text(_)));
        let place = || format!("input[{at}].{field}[{index}]");
        match &*part.text_or_empty("type") {
            "input_text" | "output_text" | "text" if !has_text("text") => {
                return invalid(format!("invalid {}.text: expected a string", place()));
            }
            "input_image" if !has_text("image_url") && !has_text("file_id") => {
                return invalid(format!("missing {}.image_url or file_id: expected a string", place()));
            }
            "" => return invalid(format!("missing {}.type", place())),
            _ => {}
        }
    }
    Ok(())
}

/// Encodes thoughts with the signed blocks of their provider, or a summary, for a client that stores its own
/// state.
pub fn sealed(thoughts: &str, blocks: Option<&Json>) -> String {
    let packed = Json::from([("text", thoughts.into()), ("blocks", blocks.cloned().into())]);
    format!("{OWN}{}", URL_SAFE_NO_PAD.encode(packed.to_string()))
}

/// Decodes the output of [`sealed`]; `None` if another service encrypted it.
fn opened(text: &str) -> Option<(String, Option<Json>)> {
    let packed = URL_SAFE_NO_PAD.decode(text.strip_prefix(OWN)?).ok()?;
    let packed = Json::parse(&packed).ok()?;
    Some((packed.string("text"), packed.given("blocks")))
}
