//! The memory that the providers of a host share.

use super::extra::{CallPlace, Extra};
use super::kept::{Entry, ExtraCache, ExtraOwner, MAX_ENTRY};
use super::makers::Makers;
use compact_str::CompactString;
use parking_lot::Mutex;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;
use valvehouse_core::chat::{message, secrets};
use valvehouse_core::context::{MemoryLimit, TurnFacts};
use valvehouse_core::provider::Request;
use valvehouse_json::{Json, Object};

/// The length from which an answer is taken for that of one conversation only, in bytes.
const MIN_OWN_TEXT: usize = 200;

/// The extras of all answers, which the providers of a host share.
#[derive(Debug, Default)]
pub struct Extras {
    hashes: RandomState,
    memory: MemoryLimit,
    pub(super) kept: Mutex<ExtraCache>,
    makers: Makers,
}

/// A call in a conversation: digests of its owner, of what was said before it, of its id and of its content.
#[derive(Clone, Copy)]
pub(super) struct CallKey {
    owner: u64,
    said: ConversationDigest,
    id: u64,
    content: u64,
}

impl Extras {
    /// Creates an empty memory. Its size counts with that of the requests.
    pub fn new(memory: MemoryLimit) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Returns a request whose messages have the extras that its client did not return, and no thoughts that another
    /// service signed or encrypted; the same request if there are none.
    pub(in crate::upstream) fn restore(&self, provider: &str, request: Request) -> Request {
        if self.kept.lock().owners.is_empty() && self.makers.are_none() {
            return request;
        }
        let owner = self.owner(provider, &request);
        let has_own = self.kept.lock().owners.contains_key(&owner.whole);
        if !has_own && self.makers.are_none() {
            return request;
        }
        let maker = self.maker(provider, &request);
        let is_foreign = |secret: &str| self.makers.is_foreign(self.hashes.hash_one(secret), maker);
        let (mut said, mut is_changed) = (ConversationDigest::default(), false);
        let messages = request.body.list("messages").into_iter().map(|message| {
            // Only this service's own extras are found by what was said.
            let is_models = match has_own {
                true => said.add(&message, self),
                false => message::role_of(&message) == "assistant",
            };
            if !is_models {
                return message;
            }
            let plain = secrets::without(&message, &is_foreign);
            is_changed |= plain.is_some();
            let message = plain.unwrap_or(message);
            let restored = if has_own { self.restored(&message, owner.whole, said) } else { None };
            is_changed |= restored.is_some();
            restored.unwrap_or(message)
        });
        let messages: Vec<Json> = messages.collect();
        if !is_changed {
            return request;
        }
        tracing::debug!(
            provider,
            "restored what the service sent with earlier answers, without that of others"
        );
        let entries = request.body.entries().into_iter();
        let body: Object = entries
            .map(|(key, value)| match key == "messages" {
                true => (key, messages.clone().into()),
                false => (key, value),
            })
            .collect();
        Request { body: body.into(), ..request }
    }

    pub(super) fn owner(&self, provider: &str, request: &Request) -> ExtraOwner {
        let facts = request.turn.as_ref().map(|turn| turn.facts());
        let client = facts.and_then(TurnFacts::client_digest);
        // One key may be that of many users.
        let user = facts.map(|facts| facts.user.text_or_empty("id"));
        let model = request.body.text_or_empty("model");
        ExtraOwner { client, whole: self.hashes.hash_one((client, user.as_deref(), provider, &*model)) }
    }

    /// Returns the maker of thoughts: Anthropic for each of its models, or a provider.
    pub(super) fn maker(&self, provider: &str, request: &Request) -> u64 {
        let is_claude = request.body.text_or_empty("model").contains("claude");
        self.hashes.hash_one(if is_claude { None } else { Some(provider) })
    }

    /// Records the maker of the secrets in an answer to a client.
    pub(super) fn record_maker(&self, client: Option<u64>, maker: u64, secrets: &[CompactString]) {
        for secret in secrets {
            self.makers.add(client, self.hashes.hash_one(secret.as_str()), maker);
        }
    }

    /// Returns a message with the missing extras; `None` if there are none.
    fn restored(&self, message: &Json, owner: u64, said: ConversationDigest) -> Option<Json> {
        let calls = message.list("tool_calls");
        let found: Vec<_> = calls.iter().map(|call| self.find(self.call_key(owner, said, call))).collect();
        let extra = match calls.is_empty() {
            true => self.find_text(owner, said, &message::text_of(message))?,
            false => found.iter().flatten().next()?.0.clone(),
        };
        extra.put_on(message, &calls, &found)
    }

    pub(super) fn call_key(&self, owner: u64, said: ConversationDigest, call: &Json) -> CallKey {
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
        CallKey { owner, said, id: self.hashes.hash_one(id), content: content.finish() }
    }

    /// Returns the keys of a call, the most precise first. One is for clients that do not return its id, within the same
    /// conversation. The last one does without the conversation: filters may change the user's message from one model call
    /// to the next.
    pub(super) fn keys(&self, call: CallKey) -> [u64; 4] {
        let CallKey { owner, said: ConversationDigest { user, all }, id, content } = call;
        [(1, user, id, content), (2, user, id, 0), (3, all, 0, content), (4, 0, id, content)]
            .map(|key| self.hashes.hash_one((owner, key)))
    }

    /// Returns the key of an answer without calls. Many conversations have the same short answers.
    pub(super) fn text_key(&self, owner: u64, said: ConversationDigest, length: usize) -> u64 {
        let context = if length < MIN_OWN_TEXT { said.all } else { said.user };
        self.hashes.hash_one((owner, (5, context, length)))
    }

    /// Returns a hasher for the parts of the text of an answer.
    pub(super) fn text_hasher(&self) -> DefaultHasher {
        self.hashes.build_hasher()
    }

    pub(super) fn text_digest(&self, text: &str) -> u64 {
        let mut hasher = self.text_hasher();
        hasher.write(text.as_bytes());
        hasher.finish()
    }

    fn find(&self, call: CallKey) -> CallPlace {
        let kept = self.kept.lock();
        self.keys(call).into_iter().find_map(|key| kept.find(key))
    }

    /// Returns the extras of an answer without calls. Its text is read only if another one has its length.
    fn find_text(&self, owner: u64, said: ConversationDigest, text: &str) -> Option<Arc<Extra>> {
        let key = self.text_key(owner, said, text.len());
        let (extra, _) = self.kept.lock().find(key)?;
        (extra.text == self.text_digest(text)).then_some(extra)
    }

    /// Stores the extras of an answer.
    pub(super) fn record(&self, owner: ExtraOwner, context: u64, extra: Extra, keys: Vec<(u64, usize)>) {
        let size = extra.size() + 128 * keys.len();
        let held = self.memory.share();
        if size > MAX_ENTRY || held.grow(size).is_err() {
            tracing::debug!(size, "the extras of an answer are not kept: no room for them");
            return;
        }
        let all = keys.iter().map(|(key, _)| *key).collect();
        let entry = Entry { extra: Arc::new(extra), owner, keys: all, since: Instant::now(), _held: held };
        self.kept.lock().add(entry, size, keys, context);
    }
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

/// Digests of a conversation up to a place: of the messages of the user, and of these with the instructions, which filters
/// may change from one model call to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConversationDigest {
    user: u64,
    all: u64,
}

impl ConversationDigest {
    /// Adds a message. Returns `true` for a message of the model.
    pub(super) fn add(&mut self, message: &Json, extras: &Extras) -> bool {
        let role = message::role_of(message);
        let is_user = role == "user";
        if is_user || matches!(&*role, "system" | "developer") {
            let text = extras.hashes.hash_one(message::text_of(message).as_str());
            self.all = extras.hashes.hash_one((self.all, text));
            self.user = if is_user { extras.hashes.hash_one((self.user, text)) } else { self.user };
        }
        role == "assistant"
    }

    pub(super) fn user(self) -> u64 {
        self.user
    }
}
