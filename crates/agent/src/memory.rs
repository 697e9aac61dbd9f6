//! The memory of a conversation, and the part of it that the model sees.
//!
//! The store holds each message once. A request contains the new messages, or the entire conversation as its
//! client knows it; repeated messages at its beginning are recognized and not added again. Messages covered by
//! the summary are not read, so the cost of a turn does not depend on the length of the conversation.

use super::pending::{cancelled, is_waiting};
use super::saved::RunSnapshot;
use super::summary::NAME as SUMMARIZATION;
use sha2::{Digest, Sha256};
use valvehouse_core::chat::history::{is_role, keep_last};
use valvehouse_core::chat::{ModelCall, message};
use valvehouse_core::context::TurnFacts;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::hex;
use valvehouse_json::Json;
use valvehouse_store::{Conversation, OWNER, Store, StoreError};

/// The number of final messages searched for a call without a result.
const TAIL: u64 = 64;

/// A conversation at the start of a new turn.
pub(super) struct LoadedConversation {
    /// The id: the requested one or that of a branch.
    pub(super) id: String,
    /// The number of messages.
    pub(super) length: u64,
    /// The new messages.
    pub(super) new: Vec<Json>,
    /// The messages passed to the model's filters: the latest stored ones and the new ones.
    pub(super) working: Vec<Json>,
    /// The values that persist between runs, including the new messages.
    pub(super) kept: Json,
    /// The initial states of the plugins.
    pub(super) states: Json,
}

/// Finds the conversation that a request continues.
pub(super) async fn recall(
    store: &Store,
    id: &str,
    facts: &TurnFacts,
    messages: Vec<Json>,
) -> Result<LoadedConversation, Error> {
    let lines = lines(store, id).await?;
    let user = facts.user.field("id");
    let is_own = |line: &&Conversation| is_of(&line.kept, &user) && is_proven(&line.kept, facts);
    let own: Vec<&Conversation> = lines.iter().filter(is_own).collect();
    if own.is_empty() && !lines.is_empty() {
        return Err(Error::Request {
            message: "this conversation belongs to another user; use another chat_id".into(),
            param: Some("chat_id"),
            code: Some("not_your_conversation"),
            kind: RequestErrorKind::Forbidden,
        });
    }
    let repeats =
        own.iter().rev().find_map(|line| Some((*line, Watermark::of(&line.kept).rest_of(&messages)?)));
    let knows_answers = messages.iter().any(|message| is_role(message, "assistant"));
    let messages: Vec<Json> = messages.into_iter().filter(|message| !is_pause_text(message)).collect();
    let (line, rest, systems) = match repeats {
        Some((line, rest)) => (Some(line), rest, systems_in(&messages)),
        // The client's history differs: it edited a message or requests another answer.
        None if knows_answers && !lines.is_empty() => {
            return Ok(begin(format!("{id}~{}", lines.len()), &user, messages));
        }
        None => (own.last().copied(), messages, Vec::new()),
    };
    match line {
        None => Ok(begin(id.to_owned(), &user, rest)),
        Some(line) => go_on(store, line, rest, systems).await.map_err(Error::from),
    }
}

/// Returns `true` if a request may continue a conversation by its proof of identity: one that a verified user started
/// needs the same verified user, since anybody can write an id into a body.
fn is_proven(kept: &Json, facts: &TurnFacts) -> bool {
    kept.text(OWNER).is_none_or(|owner| facts.verified_user.as_deref() == Some(owner.as_str()))
}

/// Returns `true` if a conversation belongs to a user. A conversation that started without a user belongs
/// to all users.
fn is_of(kept: &Json, user: &Json) -> bool {
    kept.get("user").is_none_or(|owner| owner == *user)
}

/// Continues exactly this conversation; all messages are new.
pub(super) async fn goes_on(
    store: &Store,
    id: &str,
    messages: Vec<Json>,
) -> Result<LoadedConversation, Error> {
    match store.conversation(id).await? {
        None => Ok(begin(id.to_owned(), &Json::Null, messages)),
        Some(line) => {
            let past = Past::of(store, &line).await?;
            let mut new = cancelled(&past.tail);
            new.extend(messages);
            Ok(past.with(&line, new, Vec::new()))
        }
    }
}

/// Returns the messages with which a run starts, limited by the window of `buffer_config`.
pub(super) fn through(window: Option<usize>, messages: Vec<Json>, summary: &Json) -> Vec<Json> {
    let Some(window) = window else { return messages };
    let kept = keep_last(&messages, window);
    let left_out = (messages.len() - kept.len()) as u64;
    summary.edit("offset", summary.count("offset") + left_out);
    kept
}

/// Returns a conversation and its branches, in order of creation.
async fn lines(store: &Store, id: &str) -> Result<Vec<Conversation>, StoreError> {
    let mut lines = Vec::new();
    let mut next = id.to_owned();
    while let Some(line) = store.conversation(&next).await? {
        lines.push(line);
        next = format!("{id}~{}", lines.len());
    }
    Ok(lines)
}

fn begin(id: String, user: &Json, new: Vec<Json>) -> LoadedConversation {
    let kept = remembering(&Json::object(), &new);
    // The object has no other handles, so the write cannot fail.
    kept.edit("user", user.deep_clone());
    let states = Json::from([(SUMMARIZATION, Json::object())]);
    LoadedConversation { id, length: 0, working: new.clone(), new, kept, states }
}

/// Continues a branch. `systems` are the current system messages if the client sent the entire conversation.
/// They replace earlier ones, so that a clock in a system message is not repeated for each turn.
async fn go_on(
    store: &Store,
    line: &Conversation,
    rest: Vec<Json>,
    systems: Vec<Json>,
) -> Result<LoadedConversation, StoreError> {
    let past = Past::of(store, line).await?;
    let known = past.system(line);
    let rest = rest.into_iter().filter(|message| !(is_system(message) && known.contains(message)));
    let rest: Vec<Json> = rest.filter(|message| !is_known(message, &past.tail)).collect();
    let mut new = cancelled(&[past.tail.clone(), rest.clone()].concat());
    new.extend(rest);
    Ok(past.with(line, new, systems))
}

/// The part of a conversation that is read to continue it.
struct Past {
    /// The state of the summary.
    summary: Json,
    /// The number of messages that the summary covers; without a summary, of those left out of every model call.
    /// System messages are not counted.
    covered: u64,
    /// The latest messages, some of which may be covered.
    tail: Vec<Json>,
    /// The index in `tail` of the first message that is not covered.
    first: usize,
}

impl Past {
    async fn of(store: &Store, line: &Conversation) -> Result<Self, StoreError> {
        let summary = line.kept.get(SUMMARIZATION).unwrap_or_else(Json::object).deep_clone();
        let place = |name: &str| summary.get(name).and_then(|place| u64::try_from(place.as_i64()?).ok());
        let covered = place("shown_from").or_else(|| place("covers")).unwrap_or(0);
        // A conversation of an earlier version does not count its messages.
        let talk = line.kept.get("talk").map_or(line.length, |_| line.kept.count("talk"));
        let needed = talk.saturating_sub(covered);
        let mut count = TAIL.max(needed);
        loop {
            // Without covered messages, all are needed.
            let from = if covered == 0 { 0 } else { line.length.saturating_sub(count) };
            let tail = store.messages(&line.id, from, line.length).await?;
            let places = tail.iter().enumerate().filter(|(_, message)| !is_system(message));
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            if from > 0 && (places.len() as u64) < needed {
                // There are system messages among them.
                count *= 2;
                continue;
            }
            let first = match places.len().checked_sub(needed as usize) {
                _ if covered == 0 => 0,
                Some(passed) => places.get(passed).copied().unwrap_or(tail.len()),
                None => 0,
            };
            return Ok(Self { summary, covered, tail, first });
        }
    }

    fn system(&self, line: &Conversation) -> Vec<Json> {
        line.kept.list("system")
    }

    /// Returns the conversation with the new messages, and with the current system messages if known.
    fn with(self, line: &Conversation, new: Vec<Json>, systems: Vec<Json>) -> LoadedConversation {
        let recent = &self.tail[self.first..];
        let all = [recent, new.as_slice()].concat();
        let kept = remembering(&line.kept, &new);
        let working = if !systems.is_empty() && (self.covered > 0 || systems_in(&all) != systems) {
            [systems.clone(), talk_in(&all)].concat()
        } else if self.covered == 0 {
            all
        } else {
            let earlier = self.system(line).into_iter().filter(|system| !recent.contains(system));
            [earlier.collect(), all].concat()
        };
        if !systems.is_empty() {
            // The object has no other handles and the values are copies, so the write cannot fail.
            kept.edit("system", systems.iter().map(Json::deep_clone).collect::<Vec<_>>());
        }
        self.summary.edit("offset", self.covered);
        match self.summary.get("left_out").filter(|_| self.covered > 0) {
            Some(left_out) => self.summary.edit("before", left_out.deep_clone()),
            None => drop(self.summary.remove("before")),
        }
        let states = Json::from([(SUMMARIZATION, self.summary)]);
        LoadedConversation { id: line.id.clone(), length: line.length, new, working, kept, states }
    }
}

/// Returns the persistent values after a run has added messages.
pub(super) fn remembering(kept: &Json, new: &[Json]) -> Json {
    let kept = if kept.as_object().is_some() { kept.deep_clone() } else { Json::object() };
    let seen = new.iter().fold(Watermark::of(&kept), Watermark::and);
    let systems = new.iter().filter(|message| is_system(message)).cloned();
    let systems: Vec<Json> = kept.list("system").into_iter().chain(systems).collect();
    // The object has no other handles, so the write cannot fail.
    kept.edit("system", systems.iter().map(Json::deep_clone).collect::<Vec<_>>());
    if kept.get("talk").is_some() || kept.get("seen").is_none() {
        kept.edit("talk", kept.count("talk") + talk_in(new).len() as u64);
    }
    kept.edit("seen", seen.to_json());
    kept
}

/// Returns the persistent values with those that a run leaves for the next.
pub(super) fn leaving(kept: &Json, saved: &RunSnapshot) -> Json {
    let kept = kept.deep_clone();
    if let Some(summary) = saved.states.get(SUMMARIZATION) {
        kept.edit(SUMMARIZATION, summary.deep_clone());
    }
    kept.edit("variables", saved.variables.deep_clone());
    let configured = saved.facts.field("configured_variables");
    let names = configured.entries();
    let names: Vec<Json> = names.into_iter().map(|(name, _)| (*name).into()).collect();
    kept.edit("configured", names);
    kept
}

/// Returns the variables of earlier runs, overridden by those of the request. Variables that the configuration
/// set for an earlier run are removed, because they may have changed.
pub(super) fn variables(kept: &Json, given: &Json) -> Json {
    let entries = |of: &Json| of.entries();
    let all = Json::object();
    let configured = kept.list("configured");
    let is_configured = |key: &str| configured.iter().any(|name| name.as_str() == Some(key));
    let kept = entries(&kept.field("variables")).into_iter();
    let kept = kept.filter(|(key, _)| !is_configured(key));
    for (key, value) in kept.chain(entries(given)) {
        all.edit(&key, value.deep_clone());
    }
    all
}

/// The fingerprint by which a conversation is recognized: the number of its user messages and a hash of them.
/// Answers are excluded: a streamed answer has more text than the stored one, and clients may never have
/// received the answer after a pause.
#[derive(Clone, Default)]
struct Watermark {
    count: usize,
    hash: String,
    /// Set if the last user message has an answer.
    answered: bool,
}

impl Watermark {
    fn of(kept: &Json) -> Self {
        let seen = kept.field("seen");
        Self {
            count: seen.count("count") as usize,
            hash: seen.text_or_empty("hash").into(),
            answered: seen.is_true("answered"),
        }
    }

    fn to_json(&self) -> Json {
        Json::from([
            ("count", self.count.into()),
            ("hash", self.hash.as_str().into()),
            ("answered", self.answered.into()),
        ])
    }

    fn and(self, message: &Json) -> Self {
        if is_answer(message) {
            return Self { answered: true, ..self };
        }
        if !is_role(message, "user") {
            return self;
        }
        // Images are compared exactly; texts are trimmed, because clients tend to drop surrounding spaces.
        let content = match message.get("content") {
            Some(parts @ Json::Array(_)) => parts.to_string(),
            _ => message::text_of(message).trim().to_owned(),
        };
        let hash = Sha256::digest(format!("{}\n{content}", self.hash));
        Self { count: self.count + 1, hash: hex(&hash), answered: false }
    }

    /// Returns the new messages if the others match this fingerprint, otherwise `None`. Includes the system
    /// messages at the beginning, which may have changed.
    fn rest_of(&self, messages: &[Json]) -> Option<Vec<Json>> {
        let users = messages.iter().enumerate().filter(|(_, message)| is_role(message, "user"));
        let (place, _) = users.take(self.count).last().filter(|_| self.count > 0)?;
        let (before, after) = messages.split_at(place + 1);
        let seen = before.iter().filter(|message| is_role(message, "user")).fold(Self::default(), Self::and);
        let is_repeated = seen.count == self.count && seen.hash == self.hash;
        // Without the stored answer, the messages are not a repetition: the user sent the same text again or
        // requests another answer.
        let knows_the_last = after.iter().any(|message| is_role(message, "assistant"));
        if !is_repeated || (self.answered && !knows_the_last) {
            return None;
        }
        let next = after.iter().position(|message| is_role(message, "user")).unwrap_or(after.len());
        let (answers, new) = after.split_at(next);
        let systems = before.iter().filter(|message| is_system(message));
        let answers = answers.iter().filter(|message| !is_answer(message));
        Some(systems.chain(answers).chain(new).filter(|message| !is_pause_text(message)).cloned().collect())
    }
}

/// Returns `true` for a message from the model to the user; tool calls are internal to the host.
fn is_answer(message: &Json) -> bool {
    is_role(message, "assistant") && ModelCall::all(message).is_empty()
}

fn is_system(message: &Json) -> bool {
    is_role(message, "system") || is_role(message, "developer")
}

fn systems_in(messages: &[Json]) -> Vec<Json> {
    messages.iter().filter(|message| is_system(message)).cloned().collect()
}

fn talk_in(messages: &[Json]) -> Vec<Json> {
    messages.iter().filter(|message| !is_system(message)).cloned().collect()
}

/// Returns `true` for the text that a client received instead of an answer while the run was paused.
fn is_pause_text(message: &Json) -> bool {
    is_role(message, "assistant") && is_waiting(message)
}

/// Returns `true` for a call or a result that the conversation already contains.
fn is_known(message: &Json, tail: &[Json]) -> bool {
    let calls = ModelCall::all(message);
    let is_answer_to = |own: &Json| {
        let id = message.text("tool_call_id");
        is_role(message, "tool") && is_role(own, "tool") && id.is_some() && own.text("tool_call_id") == id
    };
    let has_calls =
        |own: &Json| ModelCall::all(own).iter().any(|call| calls.iter().any(|mine| mine.id == call.id));
    tail.iter().any(|own| is_answer_to(own) || (!calls.is_empty() && has_calls(own)))
}
