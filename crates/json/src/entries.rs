//! Keys and values in order of insertion.
//!
//! Objects in chats have few keys: a linear search is faster than a hash, and one allocation holds all entries.
//! Large objects have an index in addition. Objects can also stay unread in their document, with a filter for
//! the keys that they may have.

use bytes::Bytes;
use compact_str::CompactString;
use std::collections::HashMap;
use wide::u8x16;

/// The number of keys above which an index is built.
const SMALL: usize = 16;

type Index = HashMap<CompactString, usize, foldhash::fast::RandomState>;

/// The entries of an object that was read, in order.
pub(super) struct Entries<V> {
    pub(super) list: Vec<(CompactString, V)>,
    /// One tag per key for objects without an index; different keys rarely have the same tag.
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

    #[inline]
    fn place(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => indexed(index, key),
            None => tagged(&self.tags, tag(key), self.list.len()).find(|place| self.list[*place].0 == key),
        }
    }

    #[inline]
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

    /// Appends a key that the object lacks.
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

#[cold]
#[inline(never)]
fn indexed(index: &Index, key: &str) -> Option<usize> {
    index.get(key).copied()
}

/// Returns a byte that differs for most keys of an object.
#[inline]
const fn tag(key: &str) -> u8 {
    let bytes = key.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return 0 };
    (bytes.len() as u8).wrapping_mul(5).wrapping_add(first.wrapping_mul(3)).wrapping_add(*last)
}

/// Returns the places among the first ones that have a tag.
#[inline]
fn tagged(tags: &[u8; SMALL], tag: u8, count: usize) -> impl Iterator<Item = usize> {
    let all = u8x16::new(*tags).simd_eq(u8x16::splat(tag)).to_bitmask();
    let mut left = all & !(u32::MAX << count.min(SMALL));
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let place = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(place)
    })
}

/// Returns the tags of a few entries if no key is repeated.
fn distinct_tags<V>(entries: &[(CompactString, V)]) -> Option<[u8; SMALL]> {
    if entries.len() > SMALL {
        return None;
    }
    let mut tags = [0; SMALL];
    for (place, (key, _)) in entries.iter().enumerate() {
        let tag = tag(key);
        if tagged(&tags, tag, place).any(|before| entries[before].0 == *key) {
            return None;
        }
        tags[place] = tag;
    }
    Some(tags)
}

/// An object of plain values, as a part of its document.
#[derive(Clone)]
pub(super) struct Unread {
    pub(super) spelling: Bytes,
    pub(super) keys: KeyFilter,
    /// Set if all values are strings that are not empty.
    pub(super) has_only_texts: bool,
}

impl Unread {
    pub(super) fn spelling(&self) -> &Bytes {
        &self.spelling
    }
}

/// A filter for the keys of an object. No two of the usual fields of a chat request share a bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyFilter(u64);

impl KeyFilter {
    #[inline]
    const fn bit(key: &[u8]) -> u64 {
        let (Some(first), Some(last)) = (key.first(), key.last()) else { return 1 };
        let ends = last.wrapping_add(key[key.len() / 2]).wrapping_mul(7).wrapping_add(*first);
        1 << ((key.len() as u8).wrapping_mul(3).wrapping_add(ends) % 64)
    }

    /// Creates a filter of these keys.
    pub const fn of(mut keys: &[&str]) -> Self {
        let mut bits = 0;
        while let [key, rest @ ..] = keys {
            bits |= Self::bit(key.as_bytes());
            keys = rest;
        }
        Self(bits)
    }

    /// Returns `true` if the object may have a key.
    #[inline]
    pub const fn may_have(self, key: &str) -> bool {
        self.0 & Self::bit(key.as_bytes()) != 0
    }

    /// Returns `true` if the object may have one of these keys.
    #[inline]
    pub const fn may_have_any(self, keys: Self) -> bool {
        self.0 & keys.0 != 0
    }

    /// Adds a key. Returns `true` if it is certainly new.
    #[inline]
    pub fn add(&mut self, key: &[u8]) -> bool {
        let before = self.0;
        self.0 |= Self::bit(key);
        self.0 != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_fields_of_a_chat_request_have_bits_of_their_own() {
        let usual =
            ["model", "messages", "stream", "temperature", "user", "max_tokens", "top_p", "tools", "stop"];
        let all = usual.iter().fold(0, |bits, key| bits | KeyFilter::bit(key.as_bytes()));
        assert_eq!(all.count_ones() as usize, usual.len());
        assert!(!KeyFilter::of(&usual).may_have("parallel_tool_calls"));
    }
}
