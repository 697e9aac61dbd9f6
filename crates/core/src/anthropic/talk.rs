//! A conversation as Anthropic wants it: instructions apart, roles that take turns, results right
//! after their calls.

use super::extra::others;
use super::{blocks, part};
use crate::chat::message;
use crate::fault::Fault;
use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// The conversation as Anthropic reads it.
#[derive(Default)]
pub(super) struct Talk {
    /// Is `true` if instructions in the middle stay there: their client knows that they may.
    keeps_places: bool,
    system: Vec<Json>,
    said: Vec<Side>,
}

/// The contents of one side before it is the other's turn.
struct Side {
    role: &'static str,
    results: Vec<Json>,
    others: Vec<Json>,
}

impl Talk {
    pub(super) fn read(messages: &[Json], keeps_places: bool) -> Result<Self, Fault> {
        let mut talk = Self { keeps_places, ..Self::default() };
        for (at, message) in messages.iter().enumerate() {
            talk.add(message, at)?;
        }
        if talk.said.is_empty() {
            let message = "messages holds nothing but instructions or nothing at all; Anthropic's models need a message of the user";
            return Err(Fault::invalid(message, Some("messages")));
        }
        Ok(talk)
    }

    fn add(&mut self, said: &Json, at: usize) -> Result<(), Fault> {
        let content = said.field("content");
        let place = format!("messages[{at}].content");
        match &*message::role_of(said) {
            "system" | "developer" if self.keeps_places && !self.said.is_empty() => {
                self.say("system", part::blocks(&content, &place)?);
            }
            "system" | "developer" => self.system.extend(part::blocks(&content, &place)?),
            "assistant" => self.say("assistant", assistant(said, &place)?),
            "tool" => self.say("user", vec![result(said, part::blocks(&content, &place)?)]),
            "user" => self.say("user", part::blocks(&content, &place)?),
            role => {
                let message = format!(
                    "messages[{at}].role is \"{role}\"; Anthropic's models know system, developer, user, \
                     assistant and tool"
                );
                return Err(Fault::invalid(message, Some("messages")));
            }
        }
        Ok(())
    }

    /// Adds blocks to the last message if it has the same role.
    fn say(&mut self, role: &'static str, blocks: Vec<Json>) {
        if blocks.is_empty() {
            return;
        }
        if self.said.last().is_none_or(|last| last.role != role) {
            self.said.push(Side { role, results: Vec::new(), others: Vec::new() });
        }
        let Some(last) = self.said.last_mut() else { return };
        for block in blocks {
            let is_result = block.text("type").is_some_and(|kind| kind == "tool_result");
            if is_result { &mut last.results } else { &mut last.others }.push(block);
        }
    }

    /// The messages, roles taking turns. Results stand before anything else, as Anthropic wants them.
    pub(super) fn messages(self) -> Vec<Json> {
        let message = |said: Side| {
            let content = [said.results, said.others].concat();
            // As it mostly came: one plain text is not a list.
            if let ("system", [only]) = (said.role, content.as_slice())
                && only.as_object().is_some_and(|block| block.len() == 2)
                && let Some(text) = only.get("text")
            {
                return Json::from([("role", said.role.into()), ("content", text)]);
            }
            Json::from([("role", said.role.into()), ("content", content.into())])
        };
        self.said.into_iter().map(message).collect()
    }

    /// One text, where it is all plain; else blocks, which may say what is cached.
    pub(super) fn system(&self) -> Option<Json> {
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

/// Returns `true` if calls since the last question have lost the thoughts that led to them: clients forget them,
/// filters change them. Anthropic would refuse to think on; it can still answer.
pub(super) fn has_forgotten_thoughts(messages: &[Json]) -> bool {
    let kinds = |message: &Json| -> Vec<CompactString> {
        let blocks = message.list("content");
        blocks.iter().filter_map(|block| block.text("type")).collect()
    };
    let is_question = |message: &&Json| {
        message::role_of(message) == "user" && !kinds(message).iter().any(|kind| kind == "tool_result")
    };
    let since_question = messages.iter().rev().take_while(|message| !is_question(message));
    let said: Vec<_> =
        since_question.filter(|message| message::role_of(message) == "assistant").map(kinds).collect();
    let calls = said.iter().flatten().any(|kind| kind == "tool_use");
    // Some models think only before the first of several calls.
    calls && !said.iter().any(|kinds| kinds.first().is_some_and(|kind| kind.ends_with("thinking")))
}

/// Thoughts without a signature are another model's, or no longer what the model thought: Anthropic
/// would refuse them.
fn assistant(said: &Json, place: &str) -> Result<Vec<Json>, Fault> {
    let content = said.field("content");
    let has_signature = |block: &Json| block.text("signature").is_some_and(|signature| !signature.is_empty());
    let is_thinking = |block: &Json| block.text("type").is_some_and(|kind| kind == "thinking");
    let mut all = blocks::of_message(said);
    if let Json::Array(_) = content {
        // Parts have fields of their own, which the joined text has not.
        let parts = part::blocks(&content, place)?;
        let is_text = |block: &Json| block.text("type").is_some_and(|kind| kind == "text");
        let is_call = |block: &Json| block.text("type").is_some_and(|kind| kind == "tool_use");
        let at = all.iter().position(|block| is_text(block) || is_call(block)).unwrap_or(all.len());
        all.retain(|block| !is_text(block));
        all.splice(at..at, parts.into_iter().filter(|part| !is_thinking(part) || has_signature(part)));
    }
    all.retain(|block| !is_thinking(block) || has_signature(block));
    Ok(all)
}

fn result(said: &Json, content: Vec<Json>) -> Json {
    let id = said.text_or_empty("tool_call_id");
    let content = match said.get("content") {
        Some(Json::Text(text)) => text.into(),
        _ => content.into(),
    };
    let fields =
        [("type", "tool_result".into()), ("tool_use_id", blocks::id(&id).into()), ("content", content)];
    let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
    let beside = others(said, &["role", "tool_call_id", "content", "name"]);
    fields.chain(beside).collect::<Object>().into()
}
