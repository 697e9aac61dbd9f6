//! Keys and values in the order of their arrival.
//!
//! Objects of chats have a handful of keys: a look at each is faster than a hash, and one
//! allocation holds them all. An object that grows large gets an index beside the order.

use super::{Json, parse, skim};
use crate::memory;
use bytes::Bytes;
use compact_str::CompactString;
use std::collections::HashMap;

/// Above this many keys an index pays.
const SMALL: usize = 16;

type Index = HashMap<CompactString, usize, foldhash::fast::RandomState>;

#[derive(Default)]
pub(super) struct Fields {
    entries: Vec<(CompactString, Json)>,
    index: Option<Box<Index>>,
    /// All of them, as long as nobody has asked for them.
    unread: Option<Box<Unread>>,
}

/// An object of plain values, as it stands in the document that it came in.
#[derive(Clone)]
pub(super) struct Unread {
    spelling: Bytes,
    keys: Keys,
}

impl Unread {
    /// An object that was found to be of that kind, with these keys.
    pub(super) fn new(spelling: Bytes, keys: Keys) -> Self {
        Self { spelling, keys }
    }

    pub(super) fn spelling(&self) -> &Bytes {
        &self.spelling
    }

    /// One value, read by itself.
    fn value(&self, key: &str) -> Option<Json> {
        let spelling = skim::value_of(skim::from_value_of(&self.spelling, key)?)?;
        parse::parse_shared(&self.spelling.slice_ref(spelling)).ok()
    }

    fn read(&self) -> Vec<(CompactString, Json)> {
        // What a script reads of a body is the body's, and no memory of the script's.
        memory::uncounted(|| parse::entries(&self.spelling))
    }
}

/// Which keys there may be: few share length and both ends.
#[derive(Clone, Copy, Default)]
pub(super) struct Keys(u64);

impl Keys {
    fn bit(key: &str) -> u64 {
        let ends = [key.as_bytes().first(), key.as_bytes().last()];
        let [first, last] = ends.map(|end| usize::from(end.copied().unwrap_or_default()));
        1 << ((key.len() * 5 + first * 3 + last) % 64)
    }

    fn may_have(self, key: &str) -> bool {
        self.0 & Self::bit(key) != 0
    }

    /// Adds a key, and says whether it is a new one for sure.
    pub(super) fn add(&mut self, key: &str) -> bool {
        let before = self.0;
        self.0 |= Self::bit(key);
        self.0 != before
    }
}

impl Fields {
    /// These entries; of a key that comes twice, the first place and the last value count.
    pub(super) fn of(entries: Vec<(CompactString, Json)>) -> Self {
        if entries.len() <= SMALL && are_distinct(&entries) {
            return Self { entries, ..Self::default() };
        }
        let mut fields = Self::default();
        for (key, value) in entries {
            match fields.place(&key) {
                Some(place) => fields.entries[place].1 = value,
                None => fields.append(key, value),
            }
        }
        fields
    }

    /// Those of an object that nobody has asked for yet.
    pub(super) fn unread(unread: Unread) -> Self {
        Self { unread: Some(Box::new(unread)), ..Self::default() }
    }

    pub(super) fn as_unread(&self) -> Option<&Unread> {
        self.unread.as_deref()
    }

    fn read(&mut self) -> &mut Self {
        if let Some(unread) = self.unread.take() {
            *self = Self::of(unread.read());
        }
        self
    }

    pub(super) fn len(&mut self) -> usize {
        self.read().entries.len()
    }

    fn place(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(own, _)| own == key),
        }
    }

    pub(super) fn contains(&mut self, key: &str) -> bool {
        self.unread.as_ref().is_none_or(|unread| unread.keys.may_have(key))
            && self.read().place(key).is_some()
    }

    pub(super) fn get(&mut self, key: &str) -> Option<&Json> {
        let own = self.read();
        own.place(key).map(|place| &own.entries[place].1)
    }

    /// Whether a key's value is a text that says something. Of what is unread, nothing is read for it.
    pub(super) fn has_text(&self, key: &str) -> bool {
        match &self.unread {
            None => self
                .place(key)
                .is_some_and(|place| matches!(&self.entries[place].1, Json::Text(text) if !text.is_empty())),
            Some(unread) => skim::from_value_of(&unread.spelling, key)
                .is_some_and(|spelling| spelling.starts_with(b"\"") && !spelling.starts_with(b"\"\"")),
        }
    }

    /// Looks at one value. Of what is unread, nothing else is read for it.
    pub(super) fn with<R>(&mut self, key: &str, look: impl FnOnce(Option<&Json>) -> R) -> R {
        match &self.unread {
            None => look(self.place(key).map(|place| &self.entries[place].1)),
            Some(unread) if !unread.keys.may_have(key) => look(None),
            Some(unread) => look(unread.value(key).as_ref()),
        }
    }

    /// Sets a key; the value that was there before, null where none was.
    pub(super) fn insert(&mut self, key: &str, value: Json) -> Json {
        let own = self.read();
        if let Some(place) = own.place(key) {
            return std::mem::replace(&mut own.entries[place].1, value);
        }
        own.append(key.into(), value);
        Json::Null
    }

    /// Adds a key that is not there.
    fn append(&mut self, key: CompactString, value: Json) {
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        if self.entries.is_empty() {
            self.entries.reserve(4);
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > SMALL {
            self.make_index();
        }
    }

    /// Takes a key out; the order of the others stays.
    pub(super) fn remove(&mut self, key: &str) -> Option<Json> {
        let own = self.read();
        let place = own.place(key)?;
        let (_, value) = own.entries.remove(place);
        if own.index.is_some() {
            own.make_index();
        }
        Some(value)
    }

    fn make_index(&mut self) {
        let places = self.entries.iter().enumerate().map(|(place, (key, _))| (key.clone(), place));
        self.index = Some(Box::new(places.collect()));
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = &(CompactString, Json)> {
        self.read().entries.iter()
    }

    /// Those that are read: in what is not, there are no containers.
    pub(super) fn values_read(&self) -> impl Iterator<Item = &Json> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Json> {
        self.entries.iter_mut().map(|(_, value)| value)
    }
}

/// Whether every key comes once.
fn are_distinct(entries: &[(CompactString, Json)]) -> bool {
    let mut keys = Keys::default();
    entries
        .iter()
        .enumerate()
        .all(|(place, (key, _))| keys.add(key) || entries[..place].iter().all(|(other, _)| other != key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_an_ordered_map_at_every_size(steps in prop::collection::vec((0_u8..40, any::<bool>()), 0..120)) {
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
