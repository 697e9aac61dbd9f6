//! The recording of the extras of one answer.

use super::extra::{Extra, OPAQUE, further};
use super::kept::MAX_ENTRY;
use super::memory::{ConversationDigest, Extras};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::chat::event::{self, REASONING};
use valvehouse_core::chat::{Fold, message, secrets};
use valvehouse_core::provider::Request;
use valvehouse_json::{Json, Object};

/// Records the extras of one answer as it arrives. A client may continue any of its choices.
pub(in crate::upstream) struct Recorder {
    extras: Arc<Extras>,
    provider: String,
    /// The request, which is read only for an answer with extras.
    request: Request,
    /// Set if the service expects the thinking of answers without calls, too.
    keeps_thoughts: bool,
    /// The thinking and the calls, from the first extra on.
    fold: Option<Fold>,
    /// The digest and the length of the text of each choice.
    texts: Vec<(DefaultHasher, usize)>,
    is_over: bool,
}

/// The number of choices of a streamed answer that are recorded.
const MAX_CHOICES: usize = 8;

impl Extras {
    /// Starts to record the answer to a request. `expects_thoughts` is set for a service that expects the thinking of
    /// all answers back if there are tools.
    pub(in crate::upstream) fn recorder(
        self: &Arc<Self>,
        provider: &str,
        request: &Request,
        expects_thoughts: bool,
    ) -> Recorder {
        Recorder {
            extras: self.clone(),
            provider: provider.to_owned(),
            request: request.clone(),
            keeps_thoughts: expects_thoughts && !request.body.field("tools").is_empty(),
            fold: None,
            texts: Vec::new(),
            is_over: false,
        }
    }
}

impl Recorder {
    /// Records a complete answer.
    pub(in crate::upstream) fn whole(&self, answer: &Json) {
        for choice in answer.list("choices") {
            let message = choice.field("message");
            self.record(&message, || {
                let text = message::text_of(&message);
                (text.len(), self.extras.text_digest(&text))
            });
        }
    }

    /// Stores the extras of a message. Its text is its key if it has no calls.
    fn record(&self, message: &Json, text: impl FnOnce() -> (usize, u64)) {
        let (secrets, calls) = (secrets::of_message(message), message.list("tool_calls"));
        let extra = Extra::of(message, &calls, self.keeps_thoughts);
        if secrets.is_empty() && extra.is_none() {
            return;
        }
        let owner = self.extras.owner(&self.provider, &self.request);
        self.extras.record_maker(owner.client, self.extras.maker(&self.provider, &self.request), &secrets);
        let Some(mut extra) = extra else { return };
        let mut said = ConversationDigest::default();
        for message in self.request.body.list("messages") {
            said.add(&message, &self.extras);
        }
        let mut keys = Vec::with_capacity(4 * calls.len());
        for (at, call) in calls.iter().enumerate() {
            let key = self.extras.call_key(owner.whole, said, call);
            keys.extend(self.extras.keys(key).map(|key| (key, at)));
        }
        if calls.is_empty() {
            let (length, digest) = text();
            extra.text = digest;
            keys.push((self.extras.text_key(owner.whole, said, length), 0));
        }
        self.extras.record(owner, said.user(), extra, keys);
    }

    /// Reads an event of a streamed answer.
    pub(in crate::upstream) fn see(&mut self, event: &Json) {
        let Some(choice) = event::choice(event).filter(|_| !self.is_over) else { return };
        let (index, Json::Object(delta)) = (choice.integer("index").unwrap_or(0), choice.field("delta"))
        else {
            return;
        };
        let Some(at) = usize::try_from(index).ok().filter(|at| *at < MAX_CHOICES) else { return };
        while self.texts.len() <= at {
            self.texts.push((self.extras.text_hasher(), 0));
        }
        let (digest, length) = &mut self.texts[at];
        let mut has_extra = false;
        delta.for_each(|key, value| match (key, value) {
            ("content", Json::Text(text)) => {
                digest.write(text.as_bytes());
                *length += text.len();
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
        if !has_extra {
            return;
        }
        let own = delta.entries().into_iter().filter(|(key, _)| key != "content");
        let choice = Json::from([("index", index.into()), ("delta", own.collect::<Object>().into())]);
        let fold = self.fold.get_or_insert_default();
        fold.push(&Json::from([("choices", vec![choice].into())]));
        if fold.size() > MAX_ENTRY {
            (self.fold, self.is_over) = (None, true);
        }
    }

    /// Stores the extras at the end of a streamed answer.
    pub(in crate::upstream) fn end(&mut self) {
        let Some(fold) = self.fold.take() else { return };
        for choice in fold.finish().list("choices") {
            let index = choice.integer("index").and_then(|index| usize::try_from(index).ok());
            if let Some((digest, length)) = index.and_then(|at| self.texts.get(at)) {
                self.record(&choice.field("message"), || (*length, digest.finish()));
            }
        }
    }
}
