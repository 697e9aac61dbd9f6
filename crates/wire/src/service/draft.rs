//! A request while rules are applied: values are shared with the original until they are changed.

use compact_str::CompactString;
use std::cell::OnceCell;
use std::collections::HashMap;
use valvehouse_core::chat::MessageTraits;
use valvehouse_json::{Json, KeyFilter, Object};

/// A request while rules are applied. The original is never changed.
pub(super) struct Draft {
    body: Object,
    /// The fields that the request has or had.
    pub(super) keys: KeyFilter,
    is_copied: bool,
    /// The messages, once a rule looks at them.
    messages: OnceCell<Vec<Message>>,
    /// The traits of the messages before any change.
    traits: MessageTraits,
    are_messages_changed: bool,
    tool_parts: Option<Vec<(usize, Part)>>,
    /// The names of the changed fields, without duplicates.
    pub(super) changed: Vec<CompactString>,
    /// The client's names of tools, by those that the service receives.
    pub(super) renamed: HashMap<CompactString, CompactString>,
}

struct Message {
    value: Json,
    is_copied: bool,
}

/// A message in a new order.
pub(super) enum Slot {
    /// The message that is at this place.
    Old(usize),
    New(Json),
}

/// The part of a message in a conversation with tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Calls,
    Result,
}

impl Part {
    fn of(message: &Json) -> Option<Self> {
        let Json::Object(fields) = message else { return None };
        if fields.with("tool_calls", |calls| calls.is_some_and(|calls| !calls.is_empty())) {
            return Some(Self::Calls);
        }
        let is_result = fields.with_word("role", |role| role == Some(b"tool"));
        is_result.then_some(Self::Result)
    }
}

impl Draft {
    pub(super) fn new(body: &Object) -> Self {
        let traits = body.with("messages", |messages| match messages {
            Some(Json::Array(list)) => list.with(|list| MessageTraits::of(list.iter())),
            _ => MessageTraits::default(),
        });
        let mut keys = KeyFilter::default();
        body.for_each(|key, _| _ = keys.add(key.as_bytes()));
        Self {
            body: body.clone(),
            keys,
            is_copied: false,
            messages: OnceCell::new(),
            traits,
            are_messages_changed: false,
            tool_parts: (!traits.is_rich).then(Vec::new),
            changed: Vec::new(),
            renamed: HashMap::new(),
        }
    }

    /// Returns the value of a field unless it is missing or null.
    pub(super) fn given(&self, key: &str) -> Option<Json> {
        self.body.get(key).filter(|value| !value.is_null())
    }

    /// Returns the fields of the request. Changed messages are not in it.
    pub(super) fn to_json(&self) -> Json {
        Json::Object(self.body.clone())
    }

    pub(super) fn model(&self) -> CompactString {
        self.given("model").map_or_else(CompactString::default, |model| model.str_or_empty().into())
    }

    /// Returns the elements of a list, none for any other value.
    pub(super) fn list(&self, key: &str) -> Vec<Json> {
        items(&self.body, key)
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.body.contains(key)
    }

    fn own(&mut self) -> &Object {
        if !self.is_copied {
            self.body = self.body.entries().into_iter().collect();
            self.is_copied = true;
        }
        &self.body
    }

    /// Sets a field. `changed` is its name for the operator.
    pub(super) fn set(&mut self, key: &str, value: Json, changed: &str) {
        // The object is a copy of the outermost level, and the value is new.
        self.own().put(key, value);
        self.keys.add(key.as_bytes());
        self.note(changed);
    }

    /// Changes copies of the tools that a function finds. `changed` is the name for the operator.
    pub(super) fn edit_tools(
        &mut self,
        is_wrong: impl Fn(&Json) -> bool,
        change: impl Fn(&Json),
        changed: &str,
    ) {
        let tools = self.list("tools");
        if !tools.iter().any(&is_wrong) {
            return;
        }
        let tools = tools.into_iter().map(|tool| {
            if !is_wrong(&tool) {
                return tool;
            }
            let tool = tool.deep_clone();
            change(&tool);
            tool
        });
        self.set("tools", tools.collect::<Vec<_>>().into(), changed);
    }

    /// Removes a field, if there is one.
    pub(super) fn remove(&mut self, key: &str) {
        if self.body.contains(key) {
            self.own().remove(key);
            self.note(key);
        }
    }

    pub(super) fn note(&mut self, changed: &str) {
        if !self.changed.iter().any(|known| known == changed) {
            self.changed.push(changed.into());
        }
    }

    /// Returns what the messages have; `None` once they were changed.
    pub(super) fn traits(&self) -> Option<&MessageTraits> {
        (!self.are_messages_changed).then_some(&self.traits)
    }

    fn loaded(&self) -> &Vec<Message> {
        self.messages.get_or_init(|| unchanged(items(&self.body, "messages")))
    }

    fn loaded_mut(&mut self) -> &mut Vec<Message> {
        self.loaded();
        self.messages.get_mut().expect("they were loaded just now")
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.loaded().len()
    }

    pub(super) fn message(&self, at: usize) -> &Json {
        &self.loaded()[at].value
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = &Json> + Clone {
        self.loaded().iter().map(|message| &message.value)
    }

    /// Replaces all messages. Those that differ are new, and may share values with the old ones.
    pub(super) fn replace(&mut self, messages: Vec<Json>, changed: &str) {
        *self.loaded_mut() = unchanged(messages);
        self.are_messages_changed = true;
        self.tool_parts = None;
        self.note(changed);
    }

    /// Returns the places of messages with calls and of results, in order.
    pub(super) fn tool_parts(&mut self) -> Vec<(usize, Part)> {
        if let Some(known) = &self.tool_parts {
            return known.clone();
        }
        let places = self.messages().enumerate();
        let found: Vec<_> = places.filter_map(|(at, own)| Some((at, Part::of(own)?))).collect();
        self.tool_parts = Some(found.clone());
        found
    }

    /// Returns a copy of a message that may be changed.
    pub(super) fn edit(&mut self, at: usize, changed: &str) -> Json {
        self.note(changed);
        self.are_messages_changed = true;
        let message = &mut self.loaded_mut()[at];
        if !message.is_copied {
            message.value = message.value.deep_clone();
            message.is_copied = true;
        }
        message.value.clone()
    }

    /// Arranges the messages in another order. Those that are not in it are removed.
    pub(super) fn arrange(&mut self, slots: Vec<Slot>, changed: &str) {
        let is_same = |(at, slot): (usize, &Slot)| matches!(slot, Slot::Old(old) if *old == at);
        if slots.len() == self.len() && slots.iter().enumerate().all(is_same) {
            return;
        }
        let mut old: Vec<Option<Message>> = std::mem::take(self.loaded_mut()).into_iter().map(Some).collect();
        *self.loaded_mut() = slots
            .into_iter()
            .filter_map(|slot| match slot {
                Slot::Old(at) => old[at].take(),
                Slot::New(value) => Some(Message { value, is_copied: true }),
            })
            .collect();
        self.are_messages_changed = true;
        self.tool_parts = None;
        self.note(changed);
    }

    /// Removes the messages at these places, which are in ascending order.
    pub(super) fn drop_messages(&mut self, places: &[usize], changed: &str) {
        let is_left = |at: &usize| places.binary_search(at).is_err();
        self.arrange((0..self.len()).filter(is_left).map(Slot::Old).collect(), changed);
    }

    /// Returns the request, `None` if nothing was changed.
    pub(super) fn finish(
        mut self,
    ) -> Option<(Json, Vec<CompactString>, HashMap<CompactString, CompactString>)> {
        if self.are_messages_changed {
            let messages: Vec<Json> =
                std::mem::take(self.loaded_mut()).into_iter().map(|message| message.value).collect();
            self.own().put("messages", messages.into());
        }
        self.is_copied.then_some((Json::Object(self.body), self.changed, self.renamed))
    }
}

fn unchanged(messages: Vec<Json>) -> Vec<Message> {
    messages.into_iter().map(|value| Message { value, is_copied: false }).collect()
}

fn items(body: &Object, key: &str) -> Vec<Json> {
    body.with(key, |value| value.map_or_else(Vec::new, Json::items))
}
