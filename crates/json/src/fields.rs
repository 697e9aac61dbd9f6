//! The entries of an object, which are read from their document on first access.

use crate::entries::{Entries, KeyFilter, Unread};
use crate::value::{Fields, Json};
use crate::{lazy_object, parse};
use compact_str::CompactString;
use valvehouse_memory as memory;

impl Unread {
    /// Reads one value without the others.
    fn value(&self, key: &str) -> Option<Json> {
        let spelling = lazy_object::raw_value(lazy_object::from_value_of(&self.spelling, key)?)?;
        parse::parse_shared(&self.spelling.slice_ref(spelling)).ok()
    }

    /// Returns the inside of a string without escapes.
    fn word(&self, key: &str) -> Option<&[u8]> {
        let [b'"', rest @ ..] = lazy_object::from_value_of(&self.spelling, key)? else { return None };
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        (rest[end] == b'"').then_some(&rest[..end])
    }

    #[cold]
    fn read(&self) -> Vec<(CompactString, Json)> {
        // The memory of a body's parts is charged to the body and not to the script that reads them.
        memory::uncounted(|| parse::entries(&self.spelling))
    }
}

/// An object of strings that are not empty, which was not read yet.
#[derive(Clone, Copy)]
pub struct UnreadTexts<'a>(pub(super) &'a Unread);

impl<'a> UnreadTexts<'a> {
    /// Returns the keys that the object may have.
    pub fn keys(self) -> KeyFilter {
        self.0.keys
    }

    /// Returns a string, `None` if it is not there or has escapes.
    pub fn word(self, key: &str) -> Option<&'a [u8]> {
        self.0.word(key)
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self::Read(Entries::default())
    }
}

impl Fields {
    /// Creates fields of these entries. A repeated key retains its first position and its last value.
    pub(super) fn of(entries: Vec<(CompactString, Json)>) -> Self {
        Self::Read(Entries::of(entries))
    }

    pub(super) fn as_unread(&self) -> Option<&Unread> {
        match self {
            Self::Read(_) => None,
            Self::Unread(unread) => Some(unread),
        }
    }

    #[inline]
    fn read(&mut self) -> &mut Entries<Json> {
        if let Self::Unread(unread) = self {
            *self = Self::of(unread.read());
        }
        match self {
            Self::Read(entries) => entries,
            Self::Unread(_) => unreachable!("it was read just now"),
        }
    }

    pub(super) fn len(&mut self) -> usize {
        self.read().list.len()
    }

    pub(super) fn contains(&mut self, key: &str) -> bool {
        self.as_unread().is_none_or(|unread| unread.keys.may_have(key)) && self.get(key).is_some()
    }

    #[inline]
    pub(super) fn get(&mut self, key: &str) -> Option<&Json> {
        self.read().get(key)
    }

    /// Returns `true` if the value of a key is a non-empty string, without reading an unread object.
    pub(super) fn has_text(&self, key: &str) -> bool {
        match self {
            Self::Read(entries) => {
                entries.get(key).is_some_and(|value| matches!(value, Json::Text(text) if !text.is_empty()))
            }
            Self::Unread(unread) if !unread.keys.may_have(key) => false,
            Self::Unread(unread) => lazy_object::from_value_of(&unread.spelling, key)
                .is_some_and(|spelling| spelling.starts_with(b"\"") && !spelling.starts_with(b"\"\"")),
        }
    }

    /// Calls a closure with the bytes of a short string, without reading an unread object.
    pub(super) fn with_word<R>(&self, key: &str, look: impl FnOnce(Option<&[u8]>) -> R) -> R {
        if let Self::Unread(unread) = self
            && unread.keys.may_have(key)
            && let Some(word) = unread.word(key)
        {
            return look(Some(word));
        }
        self.with(key, |value| look(value.and_then(Json::as_str).map(str::as_bytes)))
    }

    /// Calls a closure with one value, without reading the others.
    pub(super) fn with<R>(&self, key: &str, look: impl FnOnce(Option<&Json>) -> R) -> R {
        match self {
            Self::Read(entries) => look(entries.get(key)),
            Self::Unread(unread) if !unread.keys.may_have(key) => look(None),
            Self::Unread(unread) => look(unread.value(key).as_ref()),
        }
    }

    /// Sets a key and returns the previous value, null if there was none.
    pub(super) fn insert(&mut self, key: &str, value: Json) -> Json {
        self.read().insert(key, value)
    }

    /// Removes a key; the order of the others is preserved.
    pub(super) fn remove(&mut self, key: &str) -> Option<Json> {
        self.read().remove(key)
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = &(CompactString, Json)> {
        self.read().list.iter()
    }

    /// Returns the values that were read; unread values contain no containers.
    pub(super) fn values_read(&self) -> impl Iterator<Item = &Json> {
        let list = match self {
            Self::Read(entries) => entries.list.as_slice(),
            Self::Unread(_) => &[],
        };
        list.iter().map(|(_, value)| value)
    }

    /// Returns the values that were read for a change.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Json> {
        let list = match self {
            Self::Read(entries) => entries.list.as_mut_slice(),
            Self::Unread(_) => &mut [],
        };
        list.iter_mut().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_behave_like_an_ordered_map_at_every_size(steps in prop::collection::vec((0_u8..40, any::<bool>()), 0..120)) {
            let (mut fields, mut model) = (Fields::default(), indexmap::IndexMap::<String, i64>::new());
            for (step, (key, keep)) in steps.into_iter().enumerate() {
                let name = format!("k{key}");
                if keep {
                    fields.insert(&name, (step as i64).into());
                    model.insert(name, step as i64);
                } else {
                    prop_assert_eq!(fields.remove(&name).and_then(|old| old.as_i64()), model.shift_remove(&name));
                }
            }
            let ours: Vec<(String, i64)> =
                fields.iter().map(|(key, value)| (key.to_string(), value.as_i64().unwrap())).collect();
            prop_assert_eq!(ours, model.clone().into_iter().collect::<Vec<_>>());
            for (key, value) in model {
                prop_assert_eq!(fields.get(&key).and_then(Json::as_i64), Some(value));
            }
        }
    }
}
