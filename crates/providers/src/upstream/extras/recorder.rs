//! The recording of the extras of one answer.

use super::extra::{Extra, OPAQUE, further};
use super::kept::{ExtraOwner, MAX_ENTRY};
use super::memory::{ConversationDigest, Extras};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::chat::event::{self, REASONING};
use valvehouse_core::chat::{Fold, message, response};
use valvehouse_core::provider::Request;
use valvehouse_json::{Json, Object};

/// Records the extras of one answer as it arrives. Only choice 0 counts, because no other one continues.
pub(in crate::upstream) struct Recorder {
    extras: Arc<Extras>,
    owner: ExtraOwner,
    /// The maker of its thoughts.
    maker: u64,
    /// The messages of the request, which are read only for an answer with extras.
    messages: Json,
    /// The thinking and the calls, from the first extra on.
    fold: Option<Fold>,
    text: DefaultHasher,
    length: usize,
    is_over: bool,
}

impl Extras {
    /// Starts to record the answer to a request.
    pub(in crate::upstream) fn recorder(self: &Arc<Self>, provider: &str, request: &Request) -> Recorder {
        Recorder {
            extras: self.clone(),
            owner: self.owner(provider, request),
            maker: self.maker(provider, request),
            messages: request.body.field("messages"),
            fold: None,
            text: self.text_hasher(),
            length: 0,
            is_over: false,
        }
    }
}

impl Recorder {
    /// Records a complete answer.
    pub(in crate::upstream) fn whole(&self, answer: &Json) {
        let message = response::message_of(answer);
        self.record(&message, || {
            let text = message::text_of(&message);
            (text.len(), self.extras.text_digest(&text))
        });
    }

    /// Stores the extras of a message. Its text is its key if it has no calls.
    fn record(&self, message: &Json, text: impl FnOnce() -> (usize, u64)) {
        self.extras.record_maker(self.maker, message);
        let calls = message.list("tool_calls");
        let Some(mut extra) = Extra::of(message, &calls) else { return };
        let mut said = ConversationDigest::default();
        for message in self.messages.items() {
            said.add(&message, &self.extras);
        }
        let mut keys = Vec::with_capacity(4 * calls.len());
        for (at, call) in calls.iter().enumerate() {
            let key = self.extras.call_key(self.owner.whole, said, call);
            keys.extend(self.extras.keys(key).map(|key| (key, at)));
        }
        if calls.is_empty() {
            let (length, digest) = text();
            extra.text = digest;
            keys.push((self.extras.text_key(self.owner.whole, said, length), 0));
        }
        self.extras.record(self.owner, said.user(), extra, keys);
    }

    /// Reads an event of a streamed answer.
    pub(in crate::upstream) fn see(&mut self, event: &Json) {
        let Some(Json::Object(delta)) = event::delta(event).filter(|_| !self.is_over) else { return };
        let mut has_extra = false;
        delta.for_each(|key, value| match (key, value) {
            ("content", Json::Text(text)) => {
                self.text.write(text.as_bytes());
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
    pub(in crate::upstream) fn end(&mut self) {
        if let Some(fold) = self.fold.take() {
            self.record(&response::message_of(&fold.finish()), || (self.length, self.text.finish()));
        }
    }
}
