//! Removal of the fields of one protocol from a request, because other providers reject unknown fields.

use super::content_blocks::CONTENT_BLOCKS;
use super::effort::{Effort, effort_of_thinking, has_no_levels, level_for, levels};
use super::media::missing;
use super::message::text_part;
use crate::text::optional;
use valvehouse_json::{Json, Object};

/// The request field that holds settings only Anthropic supports.
pub const ONLY_ANTHROPIC: &str = "anthropic";

/// The thoughts of a message whose own are lost or of another service, for services that expect some.
pub const LOST_THOUGHTS: &str = " ";

/// The request field that holds settings only Ollama supports.
pub const ONLY_OLLAMA: &str = "ollama";

/// Returns the request for providers other than Anthropic, without Ollama's settings, without signed thinking and Anthropic's blocks, and with
/// its thinking as a level that its model knows. Fields that an OpenAI client sent itself are preserved. The given
/// request is not changed; if there is nothing to change, the same value is returned.
pub fn plain(request: &Json) -> Json {
    let Json::Object(fields) = request else { return request.clone() };
    let marks = if fields.contains(ONLY_ANTHROPIC) { Marks::All } else { Marks::Blocks };
    let messages = request.field("messages");
    let any_marked = || {
        let messages = messages.as_array();
        messages.is_some_and(|all| all.with(|all| all.iter().any(|message| marks.are_on(message))))
    };
    let effort = effort(request);
    let has_others = effort.is_some() || fields.contains(ONLY_OLLAMA);
    if marks == Marks::Blocks && !has_others && !any_marked() {
        return request.clone();
    }
    let messages = messages.items();
    let kept = fields.entries().into_iter().filter(|(key, _)| key != ONLY_ANTHROPIC && key != ONLY_OLLAMA);
    let kept = kept.map(|(key, value)| {
        let value = match &*key {
            "messages" => {
                let off = |message: &Json| {
                    let plain = marks.off(message);
                    let is_error = message.get("is_error").and_then(|own| own.as_bool()) == Some(true);
                    if marks == Marks::All { with_plain_parts(plain, is_error) } else { Some(plain) }
                };
                let messages = if marks == Marks::All { compacted(&messages) } else { messages.clone() };
                messages.iter().filter_map(off).collect::<Vec<_>>().into()
            }
            "tools" if marks == Marks::All => {
                value.items().iter().filter_map(tool).collect::<Vec<_>>().into()
            }
            _ => value,
        };
        (key, value)
    });
    let plain: Object = kept.collect();
    match effort {
        // The object was created above, so the writes cannot fail.
        Some(Some(effort)) => plain.edit("reasoning_effort", effort.into()),
        Some(None) => drop(plain.remove("reasoning_effort")),
        None => {}
    }
    if plain.with("tools", |tools| tools.is_some_and(|tools| tools.is_empty())) {
        ["tools", "tool_choice", "parallel_tool_calls"].iter().for_each(|key| drop(plain.remove(key)));
    }
    plain.into()
}

/// Returns the `reasoning_effort` to send instead of the one in a request, `Some(None)` for no such field; `None`
/// if it stays as it is.
fn effort(request: &Json) -> Option<Option<&'static str>> {
    let given = request.text("reasoning_effort");
    let (model, asked) = (request.text_or_empty("model"), asked_effort(request)?);
    // A level that no protocol changed is for an unknown model to judge.
    if levels(&model).is_none() && given.as_deref() == Some(asked.name) {
        return None;
    }
    let sent = level_for(&model, asked);
    (sent != given.as_deref()).then_some(sent)
}

/// Returns the level of thinking that a client of any protocol asks for; `None` if it asks for none that is known.
pub fn asked_effort(request: &Json) -> Option<&'static Effort> {
    let only = request.field(ONLY_ANTHROPIC);
    let thinking = effort_of_thinking(&only.field("thinking"));
    match (thinking.filter(|effort| effort.name == "none"), request.text("reasoning_effort")) {
        (Some(none), _) => Some(none),
        (None, Some(given)) => Effort::of(&given),
        (None, None) => only.at_path("output_config.effort").as_str().and_then(Effort::of).or(thinking),
    }
}

/// Returns the names of the Anthropic settings in a request that its provider does not support: thinking, if its
/// model knows no levels of it, and tools that Anthropic runs itself.
pub fn left_out(request: &Json) -> Vec<String> {
    let only = request.field(ONLY_ANTHROPIC);
    let thinks = only.at_path("thinking.type");
    let thinks = thinks.as_str().is_some_and(|kind| kind != "disabled");
    let is_unknown =
        thinks && request.get("reasoning_effort").is_none() && has_no_levels(&request.text_or_empty("model"));
    let thinking = is_unknown.then(|| "thinking".to_owned());
    let tools = request.list("tools").into_iter().filter(is_hosted);
    let parts = request.list("messages").into_iter().flat_map(|message| message.list("content"));
    let parts = parts.filter(|part| CHANGES.contains(&&*part.text_or_empty("type")));
    let mut names: Vec<String> =
        thinking.into_iter().chain(tools.chain(parts).map(|own| own.string("type"))).collect();
    names.dedup();
    names
}

/// The fields that are removed from messages and their parts.
#[derive(Clone, Copy, PartialEq)]
enum Marks {
    /// The fields that this host adds.
    Blocks,
    /// The fields above, and those that an Anthropic client adds.
    All,
}

impl Marks {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Blocks => &[CONTENT_BLOCKS],
            Self::All => &[CONTENT_BLOCKS, "cache_control", "is_error"],
        }
    }

    fn are_on(self, message: &Json) -> bool {
        let own = |value: &Json| {
            value.as_object().is_some_and(|own| self.names().iter().any(|name| own.contains(name)))
        };
        let in_parts = |content: Option<&Json>| match content {
            Some(Json::Array(parts)) => parts.with(|parts| parts.iter().any(own)),
            _ => false,
        };
        let Json::Object(fields) = message else { return false };
        let has_containers = fields.has_containers();
        // This host's own field is a list, so a message of texts alone has none.
        (has_containers || self == Self::All) && own(message)
            || has_containers && fields.with("content", in_parts)
    }

    fn off(self, message: &Json) -> Json {
        let Json::Object(fields) = message else { return message.clone() };
        if !self.are_on(message) {
            return message.clone();
        }
        let blocks = message.list(CONTENT_BLOCKS);
        let is_signed = blocks.iter().any(|block| block.get("signature").is_some_and(|own| !own.is_empty()));
        let goes = |key: &str, value: &Json| {
            let is_thought = is_signed && key == "reasoning_content" && value.as_str() != Some(LOST_THOUGHTS);
            self.names().contains(&key) || is_thought
        };
        let entries = fields.entries().into_iter().filter(|(key, value)| !goes(key, value));
        let content = |key: &str, value: Json| if key == "content" { self.off_parts(value) } else { value };
        let plain: Object = entries.map(|(key, value)| (key.clone(), content(&key, value))).collect();
        let is_assistant = message.is_text("role", "assistant");
        let says_nothing = plain.with("content", |content| content.is_none_or(Json::is_null));
        if is_assistant && says_nothing && !plain.contains("tool_calls") {
            // The message had only thinking. It was created above, so the write cannot fail.
            plain.edit("content", "".into());
        }
        plain.into()
    }

    /// Returns parts without Anthropic's fields; a single text part becomes a string.
    fn off_parts(self, content: Json) -> Json {
        let Json::Array(parts) = &content else { return content };
        let parts: Vec<Json> = parts.items().iter().map(|part| self.off(part)).collect();
        match parts.as_slice() {
            [only] if only.is_text("type", "text") => only.field("text"),
            _ => parts.into(),
        }
    }
}

/// Returns the function of a tool without other fields.
fn tool(tool: &Json) -> Option<Json> {
    match tool.get("function") {
        Some(function) => Some(Json::from([("type", "function".into()), ("function", function)])),
        None => Some(tool.clone()).filter(|tool| !is_hosted(tool)),
    }
}

/// Returns `true` if Anthropic runs a tool itself: it has a type and no function.
fn is_hosted(tool: &Json) -> bool {
    tool.get("function").is_none() && tool.text("type").is_some_and(|kind| kind != "custom")
}

/// The blocks with which a client of Anthropic changes its tools during a conversation; all tools are listed anyway.
const CHANGES: [&str; 2] = ["tool_addition", "tool_removal"];
/// The text before the summary of a compacted conversation.
const COMPACTED: &str = "The conversation so far was compacted. Its summary:\n\n";

/// Returns messages whose beginning Anthropic compacted with the summary in its place.
fn compacted(messages: &[Json]) -> Vec<Json> {
    let summary = |message: &Json| {
        let blocks = message.list(CONTENT_BLOCKS).into_iter();
        let mut summaries = blocks.filter(|block| block.is_text("type", "compaction"));
        summaries.next_back()?.text("content").filter(|text| !text.is_empty())
    };
    let last = messages.iter().enumerate().rev().find_map(|(at, message)| Some((at, summary(message)?)));
    let Some((at, summary)) = last else { return messages.to_vec() };
    let instructions = messages[..at].iter().take_while(|message| message.is_text("role", "system")).cloned();
    let text = format!("{COMPACTED}{summary}");
    let summary = Json::from([("role", "user".into()), ("content", text.into())]);
    instructions.chain([summary]).chain(messages[at..].iter().cloned()).collect()
}

/// Converts a part of a message of an Anthropic client to parts that other services know.
fn parts(own: &Json) -> Vec<Json> {
    let plain = part(own);
    let kind = plain.text_or_empty("type");
    match &*kind {
        kind if CHANGES.contains(&kind) => Vec::new(),
        "tool_reference" => vec![missing(own)],
        "container_upload" => {
            vec![text_part("[A file is missing here: only the service of its container has it.]")]
        }
        "text" | "image_url" | "file" => {
            let is_own = |key: &str| key == "type" || key == kind;
            let about = own.text("context").filter(|_| kind == "file");
            let about = about.map(|about| text_part(&about));
            let plain = match plain.entries().iter().all(|(key, _)| is_own(key)) {
                true => plain,
                false => Json::from([("type", kind.clone().into()), (&*kind, plain.field(&kind))]),
            };
            about.into_iter().chain([plain]).collect()
        }
        _ => vec![plain],
    }
}

/// Converts a part for other providers: a text document and a search result become text, and a file gets a name.
pub(crate) fn part(part: &Json) -> Json {
    let is = |kind: &str| part.is_text("type", kind);
    if is("search_result") {
        let head = ["title", "source"].into_iter().filter_map(|key| part.text(key));
        let texts = part.list("content").into_iter().filter_map(|block| block.text("text"));
        let text = head.chain(texts).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        return text_part(&text);
    }
    let source = part.field("source");
    let texts = match source.text("type").as_deref() {
        Some("text") if is("document") => source.get("data"),
        Some("content") if is("document") => {
            let texts = source.field("content");
            let joined: Vec<_> = texts.items().iter().filter_map(|block| block.text("text")).collect();
            Some(if texts.as_str().is_some() { texts } else { joined.join("\n\n").into() })
        }
        _ => None,
    };
    if let Some(text) = texts {
        let about = ["title", "context"].map(|key| optional(part.text(key), |text| format!("{text}\n\n")));
        let text = format!("{}{}", about.concat(), text.str_or_empty());
        return text_part(&text);
    }
    match part.get("file") {
        Some(file @ Json::Object(_)) if file.get("file_data").is_some() && file.get("filename").is_none() => {
            let named = file.deep_clone();
            // The part is a copy, so the write cannot fail.
            named.edit("filename", "document.pdf");
            Json::from([("type", "file".into()), ("file", named)])
        }
        _ => part.clone(),
    }
}

/// Returns a message with its parts converted for other providers; `None` for instructions of which nothing is left. A
/// failed tool result starts with [`ERROR`].
fn with_plain_parts(message: Json, is_error: bool) -> Option<Json> {
    let content = match message.get("content") {
        Some(Json::Array(own)) => {
            let own = own.items();
            let plain: Vec<Json> = own.iter().flat_map(parts).collect();
            let is_same =
                plain.len() == own.len() && plain.iter().zip(&own).all(|(new, old)| new.ptr_eq(old));
            if !is_error && is_same {
                return Some(message);
            }
            if plain.is_empty() && message.is_text("role", "system") {
                return None;
            }
            let note = is_error.then(|| text_part(ERROR.trim_end()));
            Json::from(note.into_iter().chain(plain).collect::<Vec<_>>())
        }
        Some(Json::Text(text)) if is_error => format!("{ERROR}{text}").into(),
        _ => return Some(message),
    };
    let entries = message.entries().into_iter();
    let entries =
        entries.map(|(key, value)| if key == "content" { (key, content.clone()) } else { (key, value) });
    Some(entries.collect::<Object>().into())
}

/// The prefix of a failed tool's result for providers without a field for the failure.
const ERROR: &str = "Error: ";
