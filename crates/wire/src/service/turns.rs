//! Messages without content, and the names of those who write them.

use super::draft::{Draft, Slot};
use super::kind::ServiceKind;
use super::limit::TextLimit;
use compact_str::CompactString;
use valvehouse_core::chat::content_blocks::reseal;
use valvehouse_core::chat::effort::claude;
use valvehouse_core::chat::message::{self, TEXT_BREAK, role_of};
use valvehouse_core::chat::{CONTENT_BLOCKS, LOST_THOUGHTS};
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// The text of a message or a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Text {
    Empty,
    /// White space alone.
    Blank,
    Some,
}

impl Text {
    fn of(text: &str) -> Self {
        match text {
            "" => Self::Empty,
            text if text.chars().all(char::is_whitespace) => Self::Blank,
            _ => Self::Some,
        }
    }

    /// Returns the text of a part, `None` for an image and the like.
    fn of_part(part: &Json) -> Option<Self> {
        match part {
            Json::Text(text) => Some(Self::of(text.as_str())),
            Json::Object(fields) => {
                let is_text = fields.with("type", |kind| match kind {
                    None => true,
                    Some(kind) => matches!(kind.as_str(), Some("text" | "input_text" | "output_text")),
                });
                is_text.then(|| {
                    fields.with("text", |text| text.map_or(Self::Empty, |text| Self::of(text.str_or_empty())))
                })
            }
            _ => Some(Self::Empty),
        }
    }

    fn of_message(fields: &Object) -> Self {
        fields.with("content", |content| match content {
            Some(Json::Text(text)) => Self::of(text.as_str()),
            Some(Json::Array(parts)) => {
                parts.with(|parts| parts.iter().filter_map(Self::of_part).max().unwrap_or(Self::Empty))
            }
            _ => Self::Empty,
        })
    }
}

/// Returns `true` if a message has calls, or parts that are not text.
fn has_more_than_text(fields: &Object) -> bool {
    let is_filled = |key: &str| fields.with(key, |value| value.is_some_and(|value| !value.is_empty()));
    is_filled("tool_calls")
        || is_filled(CONTENT_BLOCKS)
        || is_filled("refusal")
        || ["audio", "function_call"]
            .iter()
            .any(|key| fields.with(key, |own| own.is_some_and(|own| !own.is_null())))
        || fields.with("content", |content| match content {
            Some(Json::Array(parts)) => {
                parts.with(|parts| parts.iter().any(|part| Text::of_part(part).is_none()))
            }
            _ => false,
        })
}

/// Removes texts of white space alone where no other text stands beside them, and white space at the end of a
/// prefill.
pub(super) fn drop_blank_texts(draft: &mut Draft) -> Result<(), Error> {
    let last = last_turn(draft);
    let mut dropped = Vec::new();
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        if Text::of_message(fields) != Text::Blank {
            continue;
        }
        let has_more = has_more_than_text(fields);
        match &*role_of(draft.message(at)) {
            // A result may be blank.
            "tool" | "function" => {}
            _ if has_more => drop_text(draft, at),
            "user" if Some(at) == last => {
                let message = format!(
                    "cannot send messages[{at}] to Anthropic's models: its text is blank; write a text or leave the \
                     message out"
                );
                return Err(Error::invalid(message, Some("messages")));
            }
            _ => dropped.push(at),
        }
    }
    draft.drop_messages(&dropped, "messages");
    trim_prefill(draft);
    Ok(())
}

/// Returns the place of the last message beside instructions, which are sent apart.
fn last_turn(draft: &Draft) -> Option<usize> {
    (0..draft.len()).rev().find(|at| !matches!(&*role_of(draft.message(*at)), "system" | "developer"))
}

/// Removes the text of a message, and leaves its other parts.
fn drop_text(draft: &mut Draft, at: usize) {
    let message = draft.edit(at, "messages.content");
    let parts = message.field("content").items();
    let others: Vec<Json> = parts.into_iter().filter(|part| Text::of_part(part).is_none()).collect();
    message.put("content", if others.is_empty() { Json::Null } else { others.into() });
    reseal(&message);
}

fn trim_prefill(draft: &mut Draft) {
    let Some(at) = last_turn(draft) else { return };
    let Json::Object(fields) = draft.message(at) else { return };
    let ends_blank = |text: &str| text.ends_with(char::is_whitespace);
    let is_meant = fields.with("content", |content| match content {
        Some(Json::Text(text)) => ends_blank(text.as_str()),
        Some(Json::Array(parts)) => parts.with(|parts| match parts.last() {
            Some(Json::Text(text)) => ends_blank(text.as_str()),
            Some(part) => Text::of_part(part).is_some() && ends_blank(&part.text_or_empty("text")),
            None => false,
        }),
        _ => false,
    });
    let is_last_word =
        role_of(draft.message(at)) == "assistant" && draft.message(at).list("tool_calls").is_empty();
    // A message of white space alone is dropped.
    let Json::Object(fields) = draft.message(at) else { return };
    if !is_meant || !is_last_word || Text::of_message(fields) != Text::Some {
        return;
    }
    let message = draft.edit(at, "messages.content");
    let content: Json = match message.field("content") {
        Json::Text(text) => text.as_str().trim_end().into(),
        content => {
            let mut parts = content.items();
            while parts.last().and_then(Text::of_part).is_some_and(|text| text != Text::Some) {
                parts.pop();
            }
            if let Some(last) = parts.pop() {
                parts.push(trimmed(last));
            }
            parts.into()
        }
    };
    message.put("content", content);
    reseal(&message);
}

/// Returns a part without white space at the end of its text. The part may be changed.
fn trimmed(part: Json) -> Json {
    match part {
        Json::Text(text) => text.as_str().trim_end().into(),
        part => {
            if Text::of_part(&part).is_some() {
                part.edit("text", part.text_or_empty("text").trim_end());
            }
            part
        }
    }
}

fn is_empty_turn(draft: &Draft, at: usize) -> bool {
    match draft.message(at) {
        Json::Object(fields) => {
            !fields.has_text("content")
                && role_of(draft.message(at)) == "assistant"
                && Text::of_message(fields) == Text::Empty
                && !has_more_than_text(fields)
        }
        _ => false,
    }
}

/// Removes messages of the model without text and calls.
pub(super) fn drop_empty_turns(draft: &mut Draft) {
    let empty: Vec<usize> = (0..draft.len()).filter(|at| is_empty_turn(draft, *at)).collect();
    draft.drop_messages(&empty, "messages");
}

/// Rejects images that are named by the id of a file.
pub(super) fn refuse_image_files(draft: &mut Draft, kind: ServiceKind) -> Result<(), Error> {
    // Services know their own files only, by the names of their own protocols.
    let is_file = |part: &Json| match &*part.text_or_empty("type") {
        "image" => kind != ServiceKind::Anthropic && part.at_path("source.type").as_str() == Some("file"),
        _ => {
            let image = part.field("image_url");
            kind != ServiceKind::Responses && image.given("url").is_none() && image.given("file_id").is_some()
        }
    };
    for (at, message) in draft.messages().enumerate() {
        let Json::Object(fields) = message else { continue };
        let Some(Json::Array(parts)) = fields.has_containers().then(|| fields.field("content")) else {
            continue;
        };
        if let Some(part) = parts.with(|parts| parts.iter().position(is_file)) {
            let message = format!(
                "cannot send messages[{at}].content[{part}]: the service accepts an image as an address or as data, not as \
                 the id of a file; send `image_url`"
            );
            return Err(Error::invalid(message, Some("messages")));
        }
    }
    Ok(())
}

/// Gives messages with the role `developer` the role `system`.
pub(super) fn rename_developers(draft: &mut Draft) {
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        if fields.with("role", |role| role.is_some_and(|role| role.as_str() == Some("developer"))) {
            draft.edit(at, "messages.role").put("role", "system");
        }
    }
}

/// The answer of the model between results and a message of the user.
const BETWEEN: &str = "OK.";

/// Adds an answer of the model between results and the next message of another role, and gives instructions after a
/// message of the model to the user.
pub(super) fn order(draft: &mut Draft) {
    let mut slots = Vec::with_capacity(draft.len());
    let mut before = CompactString::default();
    for at in 0..draft.len() {
        let mut role = role_of(draft.message(at));
        if before == "tool" && !matches!(&*role, "tool" | "assistant") {
            slots.push(Slot::New(message::assistant(BETWEEN)));
            before = "assistant".into();
        }
        if before == "assistant" && matches!(&*role, "system" | "developer") {
            draft.edit(at, "messages.role").put("role", "user");
            role = "user".into();
        }
        slots.push(Slot::Old(at));
        before = role;
    }
    draft.arrange(slots, "messages");
}

fn is_system(draft: &Draft, at: usize) -> bool {
    matches!(&*role_of(draft.message(at)), "system" | "developer")
}

/// Joins the instructions at the beginning, and gives later ones to the user.
pub(super) fn merge_systems(draft: &mut Draft) {
    let first = (0..draft.len()).take_while(|at| is_system(draft, *at)).count();
    for at in first.max(1)..draft.len() {
        if is_system(draft, at) {
            draft.edit(at, "messages.role").put("role", "user");
        }
    }
    if first < 2 {
        return;
    }
    let content = joined((0..first).map(|at| draft.message(at).field("content")));
    draft.edit(0, "messages.content").put("content", content);
    draft.drop_messages(&(1..first).collect::<Vec<_>>(), "messages");
}

/// Returns the contents of several messages as that of one.
fn joined(contents: impl Iterator<Item = Json>) -> Json {
    let contents: Vec<Json> = contents.collect();
    match contents.iter().map(Json::as_str).collect::<Option<Vec<&str>>>() {
        Some(texts) => texts.join(TEXT_BREAK).into(),
        None => {
            let parts = contents.iter().flat_map(|content| match content {
                Json::Text(text) => vec![message::text_part(text)],
                parts => parts.items(),
            });
            parts.collect::<Vec<_>>().into()
        }
    }
}

/// Joins neighbors with the same role that have no calls.
pub(super) fn alternate(draft: &mut Draft) {
    let (mut at, mut dropped) = (0, Vec::new());
    while at < draft.len() {
        let role = role_of(draft.message(at));
        let is_same = |next: &usize| {
            let next = draft.message(*next);
            role_of(next) == role && role != "tool" && next.list("tool_calls").is_empty()
        };
        let is_plain = draft.message(at).list("tool_calls").is_empty();
        let more = (at + 1..draft.len()).take_while(|next| is_plain && is_same(next)).count();
        if more > 0 {
            let content = joined((at..=at + more).map(|at| draft.message(at).field("content")));
            draft.edit(at, "messages.content").put("content", content);
            dropped.extend(at + 1..=at + more);
        }
        at += more + 1;
    }
    draft.drop_messages(&dropped, "messages");
}

/// Gives all instructions to the user.
pub(super) fn give_instructions_to_user(draft: &mut Draft) {
    for at in 0..draft.len() {
        if is_system(draft, at) {
            draft.edit(at, "messages.role").put("role", "user");
        }
    }
    alternate(draft);
}

/// Gives the last instructions to the user if all messages are instructions.
pub(super) fn ask_instructions(draft: &mut Draft) {
    if let Some(last) = draft.len().checked_sub(1).filter(|last| (0..=*last).all(|at| is_system(draft, at))) {
        draft.edit(last, "messages.role").put("role", "user");
    }
}

/// The message of the user behind a message of the model that would be a prefill.
const CONTINUE: &str = "Continue.";

/// Adds a message of the user behind one of the model at the end. What the model's service runs itself goes on.
pub(super) fn end_with_user(draft: &mut Draft) {
    let Some(at) = last_turn(draft) else { return };
    let message = draft.message(at);
    let runs = |block: &Json| matches!(&*block.text_or_empty("type"), "server_tool_use" | "mcp_tool_use");
    if role_of(message) == "assistant"
        && message.list("tool_calls").is_empty()
        && !message.list(CONTENT_BLOCKS).iter().any(runs)
    {
        let slots = (0..draft.len()).map(Slot::Old).chain([Slot::New(message::user(CONTINUE))]);
        draft.arrange(slots.collect(), "messages");
    }
}

/// Does so for the models of Anthropic that accept no prefill.
pub(super) fn end_with_user_of_claude(draft: &mut Draft) {
    if claude(&draft.model()).is_some_and(|(_, version)| version >= (4, 6)) {
        end_with_user(draft);
    }
}

/// Removes messages of the model without text and calls at the end, which would be prefills.
pub(super) fn drop_empty_tail(draft: &mut Draft) {
    let tail = (0..draft.len()).rev().take_while(|at| is_empty_turn(draft, *at)).count();
    let empty: Vec<usize> = (draft.len() - tail..draft.len()).collect();
    draft.drop_messages(&empty, "messages");
}

/// Adds thoughts to messages whose thoughts are lost, with tools to all messages of the model: a service that thinks
/// refuses a conversation without.
pub(super) fn fill_thoughts(draft: &mut Draft) {
    const FIELD: &str = "reasoning_content";
    let is_off = draft.given("reasoning_effort").is_some_and(|effort| effort.as_str() == Some("none"))
        || draft.given("thinking").is_some_and(|thinking| thinking.is_text("type", "disabled"));
    if is_off {
        return;
    }
    let has_tools = !draft.list("tools").is_empty();
    for at in 0..draft.len() {
        let message = draft.message(at);
        let needs = has_tools || !message.list("tool_calls").is_empty();
        // Signed thinking is of another service, which alone reads it.
        let is_signed = message.list(CONTENT_BLOCKS).iter().any(|block| !block.field("signature").is_empty());
        if !needs || role_of(message) != "assistant" || !(is_signed || message.field(FIELD).is_empty()) {
            continue;
        }
        let thoughts = message.text("reasoning").filter(|text| !text.is_empty() && !is_signed);
        draft.edit(at, "messages.reasoning_content").put(FIELD, thoughts.as_deref().unwrap_or(LOST_THOUGHTS));
    }
}

/// Removes fields from messages of the model.
pub(super) fn drop_fields(draft: &mut Draft, names: &[&str]) {
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        let has = |name: &&&str| fields.with(name, |own| own.is_some());
        let present: Vec<&str> = names.iter().filter(has).copied().collect();
        if present.is_empty() || role_of(draft.message(at)) != "assistant" {
            continue;
        }
        if let Json::Object(fields) = draft.edit(at, "messages.reasoning") {
            present.iter().for_each(|name| drop(fields.remove(name)));
        }
    }
}

/// Sets a field of a prefill to true.
pub(super) fn mark_prefill(draft: &mut Draft, name: &str) {
    let Some(at) = draft.len().checked_sub(1) else { return };
    let message = draft.message(at);
    let is_prefill = role_of(message) == "assistant" && message.list("tool_calls").is_empty();
    if is_prefill && !message.is_true(name) {
        draft.edit(at, "messages.prefix").put(name, true);
    }
}

/// Writes an empty text where a message has no content.
pub(super) fn fill_content(draft: &mut Draft) {
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        if fields.has_text("content") {
            continue;
        }
        let content = fields.with("content", |content| content.cloned());
        let is_list = matches!(&content, Some(Json::Array(parts)) if parts.is_empty());
        let is_missing = content.is_none_or(|content| content.is_null());
        let has_more = has_more_than_text(fields);
        let content = match &*role_of(draft.message(at)) {
            "assistant" if has_more && is_list => Json::Null,
            "assistant" if has_more => continue,
            "assistant" | "tool" if is_missing => "".into(),
            _ if is_list => "".into(),
            _ => continue,
        };
        draft.edit(at, "messages.content").put("content", content);
    }
}

/// Shortens the names of those who write messages. Results have the name of a tool.
pub(super) fn shorten_participants(draft: &mut Draft, limit: &TextLimit) {
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        let fits = |name: Option<&Json>| name.is_none_or(|name| limit.fits(name.str_or_empty()));
        if fields.with("name", fits) || matches!(&*role_of(draft.message(at)), "tool" | "function") {
            continue;
        }
        let name = limit.shorten(&draft.message(at).text_or_empty("name"), 0);
        draft.edit(at, "messages.name").put("name", name);
    }
}
