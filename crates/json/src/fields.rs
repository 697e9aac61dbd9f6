//! Keys and values in the order of their arrival.
//!
//! Objects of chats have a handful of keys: a look at each is faster than a hash, and one
//! allocation holds them all. An object that grows large gets an index beside the order.

use super::{Json, parse, skim};
use bytes::Bytes;
use compact_str::CompactString;
use std::collections::HashMap;
use valvehouse_memory as memory;

/// Above this many keys an index pays.
const SMALL: usize = 16;

type Index = HashMap<CompactString, usize, foldhash::fast::RandomState>;

pub(super) enum Fields {
    Read(Entries),
    /// As long as nobody has asked for them.
    Unread(Unread),
}

impl Default for Fields {
    fn default() -> Self {
        Self::Read(Entries::default())
    }
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
        1 << (tag(key) % 64)
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
        Self::Read(Entries::of(entries))
    }

    pub(super) fn as_unread(&self) -> Option<&Unread> {
        match self {
            Self::Read(_) => None,
            Self::Unread(unread) => Some(unread),
        }
    }

    fn read(&mut self) -> &mut Entries {
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

    pub(super) fn get(&mut self, key: &str) -> Option<&Json> {
        self.read().get(key)
    }

    /// Whether a key's value is a text that says something. Of what is unread, nothing is read for it.
    pub(super) fn has_text(&self, key: &str) -> bool {
        match self {
            Self::Read(entries) => {
                entries.get(key).is_some_and(|value| matches!(value, Json::Text(text) if !text.is_empty()))
            }
            Self::Unread(unread) => skim::from_value_of(&unread.spelling, key)
                .is_some_and(|spelling| spelling.starts_with(b"\"") && !spelling.starts_with(b"\"\"")),
        }
    }

    /// Looks at one value. Of what is unread, nothing else is read for it.
    pub(super) fn with<R>(&self, key: &str, look: impl FnOnce(Option<&Json>) -> R) -> R {
        match self {
            Self::Read(entries) => look(entries.get(key)),
            Self::Unread(unread) if !unread.keys.may_have(key) => look(None),
            Self::Unread(unread) => look(unread.value(key).as_ref()),
        }
    }

    /// Sets a key; the value that was there before, null where none was.
    pub(super) fn insert(&mut self, key: &str, value: Json) -> Json {
        self.read().insert(key, value)
    }

    /// Takes a key out; the order of the others stays.
    pub(super) fn remove(&mut self, key: &str) -> Option<Json> {
        self.read().remove(key)
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = &(CompactString, Json)> {
        self.read().list.iter()
    }

    /// Those that are read: in what is not, there are no containers.
    pub(super) fn values_read(&self) -> impl Iterator<Item = &Json> {
        let list = match self {
            Self::Read(entries) => entries.list.as_slice(),
            Self::Unread(_) => &[],
        };
        list.iter().map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Json> {
        let list = match self {
            Self::Read(entries) => entries.list.as_mut_slice(),
            Self::Unread(_) => &mut [],
        };
        list.iter_mut().map(|(_, value)| value)
    }
}

/// Keys and values that are read, in their order.
#[derive(Default)]
pub(super) struct Entries {
    list: Vec<(CompactString, Json)>,
    /// One of each key, without an index: few keys that differ have the same.
    tags: [u8; SMALL],
    index: Option<Box<Index>>,
}

impl Entries {
    fn of(list: Vec<(CompactString, Json)>) -> Self {
        if let Some(tags) = distinct_tags(&list) {
            return Self { list, tags, index: None };
        }
        let mut entries = Self::default();
        for (key, value) in list {
            match entries.place(&key) {
                Some(place) => entries.list[place].1 = value,
                None => entries.append(key, value),
            }
        }
        entries
    }

    fn place(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => {
                let tag = tag(key);
                for (place, (name, _)) in self.list.iter().enumerate() {
                    if self.tags[place % SMALL] == tag && name == key {
                        return Some(place);
                    }
                }
                None
            }
        }
    }

    fn get(&self, key: &str) -> Option<&Json> {
        self.place(key).map(|place| &self.list[place].1)
    }

    fn insert(&mut self, key: &str, value: Json) -> Json {
        if let Some(place) = self.place(key) {
            return std::mem::replace(&mut self.list[place].1, value);
        }
        self.append(key.into(), value);
        Json::Null
    }

    /// Adds a key that is not there.
    fn append(&mut self, key: CompactString, value: Json) {
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.list.len());
        }
        if self.list.is_empty() {
            self.list.reserve(4);
        }
        if let Some(place) = self.tags.get_mut(self.list.len()) {
            *place = tag(&key);
        }
        self.list.push((key, value));
        if self.index.is_none() && self.list.len() > SMALL {
            self.make_index();
        }
    }

    fn remove(&mut self, key: &str) -> Option<Json> {
        let place = self.place(key)?;
        let (_, value) = self.list.remove(place);
        if place < SMALL {
            self.tags.copy_within(place + 1.., place);
        }
        if self.index.is_some() {
            self.make_index();
        }
        Some(value)
    }

    fn make_index(&mut self) {
        let places = self.list.iter().enumerate().map(|(place, (key, _))| (key.clone(), place));
        self.index = Some(Box::new(places.collect()));
    }
}

/// A byte in which most keys of an object differ.
fn tag(key: &str) -> u8 {
    let bytes = key.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return 0 };
    (bytes.len() as u8).wrapping_mul(5).wrapping_add(first.wrapping_mul(3)).wrapping_add(*last)
}

/// Returns the tags of a few keys if each comes once.
fn distinct_tags(entries: &[(CompactString, Json)]) -> Option<[u8; SMALL]> {
    if entries.len() > SMALL {
        return None;
    }
    let mut tags = [0; SMALL];
    for (place, (key, _)) in entries.iter().enumerate() {
        let tag = tag(key);
        let mut before = tags[..place].iter().zip(entries);
        if before.any(|(own, (name, _))| *own == tag && name == key) {
            return None;
        }
        tags[place] = tag;
    }
    Some(tags)
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
