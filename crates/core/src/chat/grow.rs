//! Values that grow piece by piece, without copying what is already there.

use super::message::text_part;
use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// A value of which more may come.
#[derive(Debug, Clone)]
pub(super) enum Growing {
    Plain(Json),
    Text(String),
    List(Vec<Growing>),
    Map(Fields),
}

/// Keys and values in the order of their arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(CompactString, Growing)>);

/// Returns `true` if what comes under a key continues what came before; anything else replaces it.
fn grows(key: &str) -> bool {
    matches!(
        key,
        // text
        "content" | "reasoning_content" | "reasoning" | "refusal" | "thinking" | "text" | "summary"
        | "arguments" | "input" | "transcript" | "data"
        // what holds text
        | "function" | "custom" | "function_call" | "audio" | "logprobs"
        // lists
        | "reasoning_details" | "content_blocks" | "annotations" | "images" | "token_ids"
    )
}

/// Returns `true` if two parts next to each other are one part that was cut.
fn is_same_part(last: &Fields, next: &Json) -> bool {
    let kind = next.text_or_empty("type");
    matches!(&*kind, "text" | "thinking" | "reasoning.text" | "reasoning.summary")
        && last.is("type", &kind.into())
        && last.is("index", &next.field("index"))
}

impl Fields {
    /// Takes in what came under a key. Null and "" never replace anything: they are how services
    /// say that this piece has nothing new.
    pub(super) fn absorb(&mut self, key: &str, value: &Json) {
        match self.slot(key) {
            None => self.0.push((key.into(), Growing::of(key, value))),
            Some(slot) if grows(key) => slot.grow(value),
            Some(_) if value.is_null() || value.as_str() == Some("") => {}
            Some(slot) => *slot = Growing::Plain(value.copy()),
        }
    }

    /// Takes in what came under a key, unless there is already something.
    pub(super) fn absorb_first(&mut self, key: &str, value: &Json) {
        match self.slot(key) {
            Some(Growing::Plain(known)) if known.is_empty() => *known = value.copy(),
            Some(_) => {}
            None => self.0.push((key.into(), Growing::Plain(value.copy()))),
        }
    }

    /// Returns `true` if a plain value stands under a key; null where there is none.
    pub(super) fn is(&self, key: &str, value: &Json) -> bool {
        match self.0.iter().find(|(own, _)| own == key) {
            Some((_, Growing::Plain(known))) => known == value,
            Some(_) => false,
            None => value.is_null(),
        }
    }

    pub(super) fn map(&self, key: &str) -> Option<&Self> {
        match self.0.iter().find(|(own, _)| own == key) {
            Some((_, Growing::Map(fields))) => Some(fields),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.0.iter().find(|(own, _)| own == key) {
            Some((_, Growing::Plain(Json::Text(text)))) => Some(text),
            Some((_, Growing::Text(text))) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_json(self) -> Json {
        let entries = self.0.into_iter().map(|(key, value)| (key, value.into_json()));
        entries.collect::<Object>().into()
    }

    fn slot(&mut self, key: &str) -> Option<&mut Growing> {
        self.0.iter_mut().find(|(own, _)| own == key).map(|(_, value)| value)
    }
}

impl Growing {
    fn of(key: &str, value: &Json) -> Self {
        match value {
            value if !grows(key) => Self::Plain(value.copy()),
            Json::Text(text) => Self::Text(text.to_string()),
            Json::Array(items) => Self::List(items.items().iter().map(Self::item).collect()),
            Json::Object(_) => Self::map_of(value),
            other => Self::Plain(other.clone()),
        }
    }

    fn item(value: &Json) -> Self {
        match value {
            Json::Object(_) => Self::map_of(value),
            other => Self::Plain(other.copy()),
        }
    }

    fn map_of(object: &Json) -> Self {
        let mut map = Self::Map(Fields::default());
        map.grow(object);
        map
    }

    fn grow(&mut self, more: &Json) {
        match (&mut *self, more) {
            (_, Json::Null) => {}
            (Self::Text(text), Json::Text(more)) => text.push_str(more),
            (Self::List(items), Json::Text(more)) => add_items(items, &[text_part(more)]),
            (Self::List(items), Json::Array(more)) => add_items(items, &more.items()),
            // From here on the content is a list: what there was becomes its first part.
            (Self::Text(text), Json::Array(more)) => {
                let mut items = Vec::new();
                if !text.is_empty() {
                    items.push(Self::map_of(&text_part(text)));
                }
                add_items(&mut items, &more.items());
                *self = Self::List(items);
            }
            (Self::Map(fields), Json::Object(more)) => {
                for (key, value) in more.entries() {
                    fields.absorb(&key, &value);
                }
            }
            (_, more) => *self = Self::of("content", more),
        }
    }

    fn into_json(self) -> Json {
        match self {
            Self::Plain(value) => value,
            Self::Text(text) => text.into(),
            Self::List(items) => items.into_iter().map(Self::into_json).collect::<Vec<_>>().into(),
            Self::Map(fields) => fields.into_json(),
        }
    }
}

/// Only the first new item can continue the last known one: what came together was never one.
fn add_items(items: &mut Vec<Growing>, more: &[Json]) {
    let Some((first, others)) = more.split_first() else { return };
    let continued = match items.last() {
        Some(Growing::Map(last)) => is_same_part(last, first),
        _ => false,
    };
    match items.last_mut() {
        Some(last) if continued => last.grow(first),
        _ => items.push(Growing::item(first)),
    }
    items.extend(others.iter().map(Growing::item));
}
