//! The memory of what services send with their answers and expect back, but clients do not return: signatures of
//! calls, thinking and encrypted reasoning.
//!
//! An entry belongs to a client, a provider and a model. It is found by a call (its id, its name and arguments, and
//! the user's message before it) or, for an answer without calls, by its text. It holds what the service sent before
//! the filters ran, and goes back to this service only; what the client sees is not affected.

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::anthropic::{self, CONTENT_BLOCKS};
use valvehouse_core::chat::event::{self, REASONING};
use valvehouse_core::chat::{Fold, items, message, response};
use valvehouse_core::context::{HeldMemory, MemoryLimit};
use valvehouse_core::provider::Request;
use valvehouse_json::{Json, Object};

/// The maximum size of all entries, in bytes.
const MAX_BYTES: usize = 32 << 20;
/// The maximum size of one entry, in bytes; larger ones are not stored.
const MAX_ENTRY: usize = 1 << 20;
/// The maximum number of entries.
const MAX_ENTRIES: usize = 20_000;
/// The time after which an entry is dropped.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The fields of a message besides its thinking that services expect back: those of Gemini and of OpenRouter.
const OPAQUE: [&str; 2] = ["extra_content", "reasoning_details"];
/// The fields of a call that each client returns.
const OF_CALLS: [&str; 5] = ["id", "type", "function", "custom", "index"];

/// Fields with their names.
type Fields = Vec<(String, Json)>;

/// The extras of all answers, which the providers of a host share.
#[derive(Debug, Default)]
pub struct Extras {
    hashes: RandomState,
    memory: MemoryLimit,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    bytes: usize,
    slots: HashMap<u64, Slot>,
    /// The number of entries of each owner.
    owners: HashMap<u64, usize>,
}

#[derive(Debug)]
struct Entry {
    extra: Arc<Extra>,
    owner: u64,
    keys: Vec<u64>,
    size: usize,
    since: Instant,
    _held: HeldMemory,
}

/// The place of a call.
#[derive(Debug, Clone, Copy)]
struct Slot {
    entry: u64,
    call: usize,
    context: u64,
    /// Set if calls of several conversations have the key.
    is_ambiguous: bool,
}

/// What a service sent with one answer.
#[derive(Debug, Default)]
struct Extra {
    fields: Fields,
    /// The further fields of each call.
    calls: Vec<Fields>,
    /// The number of blocks that the service signed or encrypted.
    signed: usize,
    /// The digest of the text, for an answer without calls.
    text: Vec<u8>,
}

/// A call in a conversation: digests of its owner, of the user's message before it, of its id and of its content.
#[derive(Clone, Copy)]
struct CallKey {
    owner: u64,
    context: u64,
    id: u64,
    content: u64,
}

impl Extras {
    /// Creates an empty memory. Its size counts with that of the requests.
    pub fn new(memory: MemoryLimit) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Returns a request whose messages have the extras that its client did not return; the same request if there
    /// are none.
    pub(super) fn restore(&self, provider: &str, request: Request) -> Request {
        let owner = self.owner(provider, &request);
        if !self.kept.lock().owners.contains_key(&owner) {
            return request;
        }
        let (mut asked, mut is_changed) = (Asked::default(), false);
        let messages = request.body.list("messages").into_iter().map(|message| {
            if asked.is_question(&message) || message::role_of(&message) != "assistant" {
                return message;
            }
            let restored = self.restored(&message, owner, asked.context(self));
            is_changed |= restored.is_some();
            restored.unwrap_or(message)
        });
        let messages: Vec<Json> = messages.collect();
        if !is_changed {
            return request;
        }
        tracing::debug!(provider, "restored what the service sent with earlier answers");
        let entries = request.body.entries().into_iter();
        let body: Object = entries
            .map(|(key, value)| match key == "messages" {
                true => (key, messages.clone().into()),
                false => (key, value),
            })
            .collect();
        Request { body: body.into(), ..request }
    }

    /// Starts to record the answer to a request.
    pub(super) fn recorder(self: &Arc<Self>, provider: &str, request: &Request) -> Recorder {
        Recorder {
            owner: self.owner(provider, request),
            messages: request.body.field("messages"),
            extras: self.clone(),
            fold: None,
            text: Sha256::new(),
            length: 0,
            is_over: false,
        }
    }

    fn owner(&self, provider: &str, request: &Request) -> u64 {
        let client = request.turn.as_ref().and_then(|turn| turn.facts().client_digest());
        self.hashes.hash_one((client, provider, request.body.text_or_empty("model").as_str()))
    }

    /// Returns a message with the missing extras; `None` if there are none.
    fn restored(&self, message: &Json, owner: u64, context: u64) -> Option<Json> {
        let calls = message.list("tool_calls");
        let found: Vec<_> = calls.iter().map(|call| self.find(self.call_key(owner, context, call))).collect();
        let extra = match calls.is_empty() {
            true => self.find_text(owner, context, &message::text_of(message))?,
            false => found.iter().flatten().next()?.0.clone(),
        };
        let mut is_changed = false;
        let mut fields = message.entries();
        let is_signed = extra.signed > signed(message);
        if is_signed {
            fields.retain(|(key, _)| key != CONTENT_BLOCKS && !REASONING.contains(&key.as_str()));
        }
        let has_thinking = REASONING.iter().any(|key| message.get(key).is_some_and(|own| !own.is_empty()));
        for (key, value) in &extra.fields {
            let is_missing = match key.as_str() {
                CONTENT_BLOCKS => is_signed,
                key if REASONING.contains(&key) => is_signed || !(has_thinking || calls.is_empty()),
                key => message.get(key).is_none_or(|own| own.is_empty()),
            };
            if is_missing {
                is_changed = true;
                let value = match key == CONTENT_BLOCKS {
                    true => merged(value, message.list(CONTENT_BLOCKS)),
                    false => value.deep_clone(),
                };
                fields.retain(|(own, _)| own != key);
                fields.push((key.into(), value));
            }
        }
        let calls: Vec<Json> =
            calls.iter().zip(&found).map(|(call, found)| with_fields(call, found)).collect();
        if calls.iter().zip(message.list("tool_calls")).any(|(new, old)| !new.ptr_eq(&old)) {
            is_changed = true;
            fields
                .iter_mut()
                .filter(|(key, _)| key == "tool_calls")
                .for_each(|(_, own)| *own = calls.clone().into());
        }
        is_changed.then(|| fields.into_iter().collect::<Object>().into())
    }

    fn call_key(&self, owner: u64, context: u64, call: &Json) -> CallKey {
        let (called, input) = match call.get("custom").filter(|custom| custom.as_object().is_some()) {
            Some(custom) => (custom, "input"),
            None => (call.field("function"), "arguments"),
        };
        // Some protocols have ids with fewer characters.
        let id = call.text_or_empty("id").replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        let arguments = match called.field(input) {
            Json::Text(text) if text.trim().is_empty() => Json::object(),
            Json::Text(text) => Json::parse(text.as_bytes()).unwrap_or_else(|_| Json::Text(text)),
            other => other,
        };
        let mut content = self.hashes.build_hasher();
        called.text_or_empty("name").hash(&mut content);
        hash(&arguments, &mut content, &self.hashes);
        CallKey { owner, context, id: self.hashes.hash_one(id), content: content.finish() }
    }

    /// Returns the keys of a call, the most precise first. The last one does without the conversation: filters may
    /// change the user's message from one model call to the next.
    fn keys(&self, call: CallKey) -> [u64; 4] {
        let CallKey { owner, context, id, content } = call;
        [(1, context, id, content), (2, context, id, 0), (3, context, 0, content), (4, 0, id, content)]
            .map(|key| self.hashes.hash_one((owner, key)))
    }

    fn text_key(&self, owner: u64, context: u64, length: usize) -> u64 {
        self.hashes.hash_one((owner, (5, context, length)))
    }

    fn find(&self, call: CallKey) -> Option<(Arc<Extra>, usize)> {
        let kept = self.kept.lock();
        self.keys(call).into_iter().find_map(|key| kept.find(key))
    }

    /// Returns the extras of an answer without calls. Its text is read only if another one has its length.
    fn find_text(&self, owner: u64, context: u64, text: &str) -> Option<Arc<Extra>> {
        let key = self.text_key(owner, context, text.len());
        let (extra, _) = self.kept.lock().find(key)?;
        (extra.text == Sha256::digest(text).as_slice()).then_some(extra)
    }

    /// Stores the extras of an answer.
    fn record(&self, owner: u64, context: u64, extra: Extra, keys: Vec<(u64, usize)>) {
        let size = extra.size() + 128 * keys.len();
        let held = self.memory.share();
        if size > MAX_ENTRY || held.grow(size).is_err() {
            tracing::debug!(size, "the extras of an answer are not kept: no room for them");
            return;
        }
        let all = keys.iter().map(|(key, _)| *key).collect();
        let entry =
            Entry { extra: Arc::new(extra), owner, keys: all, size, since: Instant::now(), _held: held };
        self.kept.lock().add(entry, keys, context);
    }
}

impl Kept {
    fn find(&self, key: u64) -> Option<(Arc<Extra>, usize)> {
        let slot = self.slots.get(&key).filter(|slot| !slot.is_ambiguous)?;
        let at = usize::try_from(slot.entry.checked_sub(self.first)?).ok()?;
        let entry = self.entries.get(at).filter(|entry| entry.since.elapsed() < MAX_AGE)?;
        Some((entry.extra.clone(), slot.call))
    }

    fn add(&mut self, entry: Entry, keys: Vec<(u64, usize)>, context: u64) {
        let number = self.first + self.entries.len() as u64;
        for (key, call) in keys {
            let slot =
                self.slots.entry(key).or_insert(Slot { entry: number, call, context, is_ambiguous: false });
            // Only a key without the conversation can have another one.
            let is_ambiguous = slot.is_ambiguous || slot.context != context;
            *slot = Slot { entry: number, call, context, is_ambiguous };
        }
        *self.owners.entry(entry.owner).or_default() += 1;
        self.bytes += entry.size;
        self.entries.push_back(entry);
        while self.bytes > MAX_BYTES || self.entries.len() > MAX_ENTRIES || self.is_first_old() {
            self.drop_first();
        }
    }

    fn is_first_old(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.since.elapsed() >= MAX_AGE)
    }

    fn drop_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        for key in &entry.keys {
            if self.slots.get(key).is_some_and(|slot| slot.entry == self.first) {
                self.slots.remove(key);
            }
        }
        if let Some(count) = self.owners.get_mut(&entry.owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&entry.owner);
            }
        }
        self.bytes -= entry.size;
        self.first += 1;
    }
}

impl Extra {
    /// Returns the extras of a message; `None` if it has none that its service expects back.
    fn of(message: &Json, calls: &[Json]) -> Option<Self> {
        let signed = signed(message);
        let is_opaque = |key: &str| signed > 0 || OPAQUE.contains(&key);
        let names = REASONING.into_iter().chain(OPAQUE).chain([CONTENT_BLOCKS]);
        // Services expect the plain thinking of calls only.
        let names = names.filter(|key| !calls.is_empty() || is_opaque(key));
        let fields = names.filter_map(|key| {
            let value = message.get(key).filter(|value| !value.is_empty())?;
            let value = if key == CONTENT_BLOCKS { thinking_blocks(&value) } else { value.deep_clone() };
            Some((key.to_owned(), value)).filter(|(_, value)| !value.is_empty())
        });
        let fields = fields.collect();
        let extra = Self { fields, calls: calls.iter().map(further).collect(), signed, text: Vec::new() };
        let is_empty = extra.fields.is_empty() && extra.calls.iter().all(Vec::is_empty);
        (!is_empty).then_some(extra)
    }

    fn size(&self) -> usize {
        let fields = self.fields.iter().chain(self.calls.iter().flatten());
        fields.map(|(key, value)| key.len() + value.size_estimate()).sum()
    }
}

/// Returns the fields of a call that clients may not return.
fn further(call: &Json) -> Fields {
    let others = call.entries().into_iter();
    let others = others.filter(|(key, value)| !OF_CALLS.contains(&key.as_str()) && !value.is_empty());
    others.map(|(key, value)| (key.into(), value.deep_clone())).collect()
}

/// Returns a call with its missing fields; the same call if there are none.
fn with_fields(call: &Json, found: &Option<(Arc<Extra>, usize)>) -> Json {
    let missing = found.iter().flat_map(|(extra, at)| extra.calls.get(*at)).flatten();
    let missing: Vec<_> = missing.filter(|(key, _)| call.get(key).is_none_or(|own| own.is_empty())).collect();
    if missing.is_empty() {
        return call.clone();
    }
    let own = call.entries().into_iter().filter(|(key, _)| missing.iter().all(|(name, _)| name != key));
    own.chain(missing.iter().map(|(key, value)| (key.into(), value.deep_clone()))).collect::<Object>().into()
}

/// Returns the number of blocks of a message that its service signed or encrypted.
fn signed(message: &Json) -> usize {
    if message.get(CONTENT_BLOCKS).is_none() {
        return 0;
    }
    let is_reasoning = |item: &Json| item.text("type").is_some_and(|kind| kind == "reasoning");
    let items = items::of(message);
    anthropic::signed_blocks(message) + items.iter().filter(|(_, item)| is_reasoning(item)).count()
}

/// Returns `true` for a block of thinking.
fn is_thinking(block: &Json) -> bool {
    match &*block.text_or_empty("type") {
        "thinking" | "redacted_thinking" => true,
        items::ITEM => block.at_path("item.type").as_str() == Some("reasoning"),
        _ => false,
    }
}

/// Returns the blocks of the thinking, with the places and seals of the others: what a service ran or cited is for
/// the client and its filters to return.
fn thinking_blocks(blocks: &Json) -> Json {
    let blocks = blocks.items().into_iter().map(|block| {
        if is_thinking(&block) {
            return block.deep_clone();
        }
        let seal = ["type", "index", "length", "digest", "id"];
        let own = block.entries().into_iter().filter(|(key, _)| seal.contains(&key.as_str()));
        own.collect::<Object>().into()
    });
    blocks.collect::<Vec<_>>().into()
}

/// Returns the blocks of a message with the thinking that its service sent, at its places between the others.
fn merged(sent: &Json, own: Vec<Json>) -> Json {
    let mut own = own.into_iter().filter(|block| !is_thinking(block)).peekable();
    let has_own = own.peek().is_some();
    let mut all = Vec::new();
    for block in sent.items() {
        match &*block.text_or_empty("type") {
            _ if is_thinking(&block) => all.push(block.deep_clone()),
            _ if has_own => all.extend(own.next()),
            "text" | "tool_use" => all.push(block.deep_clone()),
            _ => {}
        }
    }
    all.extend(own);
    all.into()
}

/// Hashes a value independently of the order of its keys and of the notation of its numbers.
fn hash(value: &Json, state: &mut impl Hasher, hashes: &RandomState) {
    value.kind().hash(state);
    match value {
        Json::Object(fields) => {
            let mut sum = 0_u64;
            for (key, value) in fields.entries() {
                let mut own = hashes.build_hasher();
                key.hash(&mut own);
                hash(&value, &mut own, hashes);
                sum = sum.wrapping_add(own.finish());
            }
            sum.hash(state);
        }
        Json::Array(items) => items.items().iter().for_each(|item| hash(item, state, hashes)),
        Json::Text(text) => text.hash(state),
        other => match other.as_f64() {
            Some(number) => number.to_bits().hash(state),
            None => other.as_bool().hash(state),
        },
    }
}

/// The user's last message at a place of a conversation, with its digest once it is needed.
#[derive(Default)]
struct Asked {
    question: Option<Json>,
    context: Option<u64>,
}

impl Asked {
    /// Returns `true` for a message of the user, which is the last one from now on.
    fn is_question(&mut self, message: &Json) -> bool {
        let is_question = message::role_of(message) == "user";
        if is_question {
            *self = Self { question: Some(message.clone()), context: None };
        }
        is_question
    }

    fn context(&mut self, extras: &Extras) -> u64 {
        let question = &self.question;
        let digest =
            || question.as_ref().map_or(0, |last| extras.hashes.hash_one(message::text_of(last).as_str()));
        *self.context.get_or_insert_with(digest)
    }
}

/// Records the extras of one answer as it arrives. Only choice 0 counts, because no other one continues.
pub(super) struct Recorder {
    extras: Arc<Extras>,
    owner: u64,
    /// The messages of the request, which are read only for an answer with extras.
    messages: Json,
    /// The thinking and the calls, from the first extra on.
    fold: Option<Fold>,
    text: Sha256,
    length: usize,
    is_over: bool,
}

impl Recorder {
    /// Records a complete answer.
    pub(super) fn whole(&self, answer: &Json) {
        let message = response::message_of(answer);
        self.record(&message, || {
            let text = message::text_of(&message);
            (text.len(), Sha256::digest(text.as_str()).to_vec())
        });
    }

    /// Stores the extras of a message. Its text is its key if it has no calls.
    fn record(&self, message: &Json, text: impl FnOnce() -> (usize, Vec<u8>)) {
        let calls = message.list("tool_calls");
        let Some(mut extra) = Extra::of(message, &calls) else { return };
        let is_question = |message: &Json| message::role_of(message) == "user";
        let question = self.messages.as_array().and_then(|all| {
            all.with(|messages| messages.iter().rfind(|message| is_question(message)).cloned())
        });
        let context = Asked { question, context: None }.context(&self.extras);
        let mut keys = Vec::with_capacity(4 * calls.len());
        for (at, call) in calls.iter().enumerate() {
            let key = self.extras.call_key(self.owner, context, call);
            keys.extend(self.extras.keys(key).map(|key| (key, at)));
        }
        if calls.is_empty() {
            let (length, digest) = text();
            extra.text = digest;
            keys.push((self.extras.text_key(self.owner, context, length), 0));
        }
        self.extras.record(self.owner, context, extra, keys);
    }

    /// Reads an event of a streamed answer.
    pub(super) fn see(&mut self, event: &Json) {
        let Some(Json::Object(delta)) = event::delta(event).filter(|_| !self.is_over) else { return };
        let mut has_extra = false;
        delta.for_each(|key, value| match (key, value) {
            ("content", Json::Text(text)) => {
                self.text.update(text.as_bytes());
                self.length += text.len();
            }
            ("tool_calls", calls) => {
                has_extra |=
                    self.fold.is_some() || calls.items().iter().any(|call| !further(call).is_empty());
            }
            (CONTENT_BLOCKS, value) => has_extra |= !value.is_empty(),
            (key, value) => {
                has_extra |= (REASONING.contains(&key) || OPAQUE.contains(&key)) && !value.is_empty();
            }
        });
        if !has_extra || event::choice_index(event) != 0 {
            return;
        }
        let own = delta.entries().into_iter().filter(|(key, _)| key != "content");
        let choice = Json::from([("index", 0_i64.into()), ("delta", own.collect::<Object>().into())]);
        let fold = self.fold.get_or_insert_default();
        fold.push(&Json::from([("choices", vec![choice].into())]));
        if fold.size() > MAX_ENTRY {
            (self.fold, self.is_over) = (None, true);
        }
    }

    /// Stores the extras at the end of a streamed answer.
    pub(super) fn end(&mut self) {
        if let Some(fold) = self.fold.take() {
            let text = std::mem::take(&mut self.text);
            self.record(&response::message_of(&fold.finish()), || (self.length, text.finalize().to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn request(messages: &str) -> Request {
        Request::new(json(&format!(r#"{{"model":"m","messages":[{messages}]}}"#)), false)
    }

    fn question(text: &str) -> String {
        format!(r#"{{"role":"user","content":"{text}"}}"#)
    }

    fn call(id: &str, more: &str) -> String {
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{\"a\":1,\"b\":2}}"}}{more}}}]}}"#
        )
    }

    fn answer(message: &str) -> Json {
        json(&format!(r#"{{"choices":[{{"index":0,"message":{message}}}]}}"#))
    }

    fn record(extras: &Arc<Extras>, text: &str, message: &str) {
        extras.recorder("p", &request(&question(text))).whole(&answer(message));
    }

    /// Returns the thinking that a call gets back.
    fn thinking(extras: &Extras, text: &str, id: &str) -> Json {
        let talk = format!("{},{}", question(text), call(id, ""));
        extras.restore("p", request(&talk)).body.at_path("messages.1.reasoning_content")
    }

    fn thought(text: &str, id: &str) -> String {
        call(id, "").replacen('{', &format!(r#"{{"reasoning_content":"{text}","#), 1)
    }

    #[test]
    fn counted_ids_are_told_apart_by_their_conversations() {
        let extras = Arc::new(Extras::default());
        record(&extras, "one", &thought("first", "f:0"));
        // A filter changed the question meanwhile.
        assert_eq!(thinking(&extras, "one, at noon", "f:0"), Json::from("first"));
        record(&extras, "two", &thought("second", "f:0"));
        assert_eq!(thinking(&extras, "one", "f_0"), Json::from("first"), "the protocol replaced a character");
        assert_eq!(thinking(&extras, "two", ""), Json::from("second"), "the protocol has no ids");
        assert_eq!(thinking(&extras, "three", "f:0"), Json::Null, "it may be either");
    }

    #[test]
    fn what_the_client_returns_stays_and_another_model_gets_nothing() {
        let extras = Arc::new(Extras::default());
        let signed = call("c", r#","extra_content":{"google":{"thought_signature":"s"}}"#);
        record(&extras, "q", &signed);
        let talk = |message: &str| request(&format!("{},{message}", question("q")));
        let restored = extras.restore("p", talk(&call("c", "")));
        let call_now = restored.body.at_path("messages.1.tool_calls.0");
        assert_eq!(call_now, json(&signed).at_path("tool_calls.0"));
        let own = talk(&signed);
        assert!(extras.restore("p", own.clone()).body.ptr_eq(&own.body));
        let mut other = talk(&call("c", ""));
        assert!(extras.restore("other", other.clone()).body.ptr_eq(&other.body));
        other.body = json(&other.body.to_string().replace(r#""model":"m""#, r#""model":"n""#));
        assert!(extras.restore("p", other.clone()).body.ptr_eq(&other.body));
    }

    #[test]
    fn signed_thinking_replaces_changed_thinking_and_leaves_other_blocks() {
        let service = json(
            r#"{"content":[{"type":"thinking","thinking":"I think","signature":"s"},{"type":"text","text":"Hm."},
            {"type":"thinking","thinking":" again","signature":"t"},{"type":"tool_use","id":"c","name":"f","input":{"b":2,"a":1}}]}"#,
        );
        let sent = anthropic::completion(&service);
        let extras = Arc::new(Extras::default());
        extras.recorder("p", &request(&question("q"))).whole(&sent);
        let message = sent.at_path("choices.0.message").deep_clone();
        message.set("reasoning_content", "I *****").unwrap();
        let talk = Json::from([("role", "user".into()), ("content", "q".into())]);
        let body = Json::from([("model", "m".into()), ("messages", vec![talk, message].into())]);
        let restored = extras.restore("p", Request::new(body, false)).body.at_path("messages.1");
        assert_eq!(signed(&restored), 2);
        assert_eq!(restored, sent.at_path("choices.0.message"));
        let own = vec![json(r#"{"type":"server_tool_use","id":"v"}"#), json(r#"{"type":"text","length":1}"#)];
        let all = merged(&json(r#"[{"type":"thinking","signature":"s"},{"type":"text"}]"#), own.clone());
        assert_eq!(all.items()[1..], own);
    }

    #[test]
    fn answers_without_calls_are_found_by_their_text() {
        let extras = Arc::new(Extras::default());
        let mut recorder = extras.recorder("p", &request(&question("q")));
        for delta in [
            r#"{"content":"It is "}"#,
            r#"{"content":"mild."}"#,
            r#"{"content":"","extra_content":{"google":1}}"#,
        ] {
            recorder.see(&json(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)));
        }
        recorder.end();
        for (text, is_found) in [("It is mild.", true), ("It is cold.", false), ("It is", false)] {
            let talk = format!(r#"{},{{"role":"assistant","content":"{text}"}}"#, question("q"));
            let restored = extras.restore("p", request(&talk)).body;
            assert_eq!(restored.at_path("messages.1.extra_content.google").is_null(), !is_found, "{text}");
        }
        // Plain thinking without a call is not expected back.
        record(&extras, "r", r#"{"role":"assistant","content":"a","reasoning_content":"b"}"#);
        assert_eq!(extras.kept.lock().entries.len(), 1);
    }

    #[test]
    fn the_memory_is_bounded_and_counted() {
        let limit = MemoryLimit::new(64 << 20);
        let extras = Arc::new(Extras::new(limit.clone()));
        let long = "x".repeat(MAX_ENTRY / 2);
        for number in 0..100 {
            record(&extras, &format!("q{number}"), &thought(&long, "c"));
        }
        let kept = extras.kept.lock();
        assert!(kept.bytes <= MAX_BYTES && kept.entries.len() > 30, "{}", kept.entries.len());
        assert_eq!(limit.held(), kept.bytes);
        assert!(kept.slots.len() <= 4 * kept.entries.len());
        drop(kept);
        assert_eq!(thinking(&extras, "q0", "c"), Json::Null);
        assert!(!thinking(&extras, "q99", "c").is_null());
        record(&extras, "huge", &thought(&"x".repeat(MAX_ENTRY + 1), "d"));
        assert_eq!(thinking(&extras, "huge", "d"), Json::Null);
    }
}
