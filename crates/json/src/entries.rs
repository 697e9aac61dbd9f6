//! Keys and values in the order of their arrival.
//!
//! Objects of chats have a handful of keys: a look at each is faster than a hash, and one
//! allocation holds them all. An object that grows large gets an index beside the order.
//!
//! Objects that stay in their document until they are read, and the keys that they may have.

use bytes::Bytes;
use compact_str::CompactString;
use std::collections::HashMap;

/// Above this many keys an index pays.
const SMALL: usize = 16;

type Index = HashMap<CompactString, usize, foldhash::fast::RandomState>;

/// Keys and values that are read, in their order.
pub(super) struct Entries<V> {
    pub(super) list: Vec<(CompactString, V)>,
    /// One of each key, without an index: few keys that differ have the same.
    tags: [u8; SMALL],
    index: Option<Box<Index>>,
}

impl<V> Default for Entries<V> {
    fn default() -> Self {
        Self { list: Vec::new(), tags: [0; SMALL], index: None }
    }
}

impl<V: Default> Entries<V> {
    pub(super) fn of(list: Vec<(CompactString, V)>) -> Self {
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

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.place(key).map(|place| &self.list[place].1)
    }

    pub(super) fn insert(&mut self, key: &str, value: V) -> V {
        if let Some(place) = self.place(key) {
            return std::mem::replace(&mut self.list[place].1, value);
        }
        self.append(key.into(), value);
        V::default()
    }

    /// Adds a key that is not there.
    fn append(&mut self, key: CompactString, value: V) {
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

    pub(super) fn remove(&mut self, key: &str) -> Option<V> {
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
#[inline]
pub(super) fn tag(key: &str) -> u8 {
    let bytes = key.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return 0 };
    (bytes.len() as u8).wrapping_mul(5).wrapping_add(first.wrapping_mul(3)).wrapping_add(*last)
}

/// Returns the tags of a few keys if each comes once.
fn distinct_tags<V>(entries: &[(CompactString, V)]) -> Option<[u8; SMALL]> {
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

/// An object of plain values, as it stands in the document that it came in.
#[derive(Clone)]
pub(super) struct Unread {
    pub(super) spelling: Bytes,
    pub(super) keys: Keys,
}

impl Unread {
    /// An object that was found to be of that kind, with these keys.
    pub(super) fn new(spelling: Bytes, keys: Keys) -> Self {
        Self { spelling, keys }
    }

    pub(super) fn spelling(&self) -> &Bytes {
        &self.spelling
    }
}

/// The keys there may be: few share length and both ends.
#[derive(Clone, Copy, Default)]
pub(super) struct Keys(u64);

impl Keys {
    #[inline]
    fn bit(key: &str) -> u64 {
        1 << (tag(key) % 64)
    }

    #[inline]
    pub(super) fn may_have(self, key: &str) -> bool {
        self.0 & Self::bit(key) != 0
    }

    /// Adds a key, and says whether it is a new one for sure.
    #[inline]
    pub(super) fn add(&mut self, key: &str) -> bool {
        let before = self.0;
        self.0 |= Self::bit(key);
        self.0 != before
    }
}
