//! Keys and values in the order of their arrival.
//!
//! Objects of chats have a handful of keys: a look at each is faster than a hash, and one
//! allocation holds them all. An object that grows large gets an index beside the order.

use super::Json;
use compact_str::CompactString;
use std::collections::HashMap;

/// Above this many keys an index pays.
const SMALL: usize = 16;

type Index = HashMap<CompactString, usize, foldhash::fast::RandomState>;

#[derive(Default)]
pub(super) struct Fields {
    entries: Vec<(CompactString, Json)>,
    index: Option<Box<Index>>,
}

impl Fields {
    /// These entries; of a key that comes twice, the first place and the last value count.
    pub(super) fn of(entries: Vec<(CompactString, Json)>) -> Self {
        if entries.len() <= SMALL && are_distinct(&entries) {
            return Self { entries, index: None };
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

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn place(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(own, _)| own == key),
        }
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.place(key).map(|place| &self.entries[place].1)
    }

    /// Sets a key; the value that was there before, null where none was.
    pub(super) fn insert(&mut self, key: &str, value: Json) -> Json {
        if let Some(place) = self.place(key) {
            return std::mem::replace(&mut self.entries[place].1, value);
        }
        self.append(key.into(), value);
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
        let place = self.place(key)?;
        let (_, value) = self.entries.remove(place);
        if self.index.is_some() {
            self.make_index();
        }
        Some(value)
    }

    fn make_index(&mut self) {
        let places = self.entries.iter().enumerate().map(|(place, (key, _))| (key.clone(), place));
        self.index = Some(Box::new(places.collect()));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(CompactString, Json)> {
        self.entries.iter()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Json> {
        self.entries.iter_mut().map(|(_, value)| value)
    }
}

/// Whether every key comes once. Few keys share length and both ends: only those are compared.
fn are_distinct(entries: &[(CompactString, Json)]) -> bool {
    let mut seen = 0_u64;
    entries.iter().enumerate().all(|(place, (key, _))| {
        let ends = [key.as_bytes().first(), key.as_bytes().last()];
        let [first, last] = ends.map(|end| usize::from(end.copied().unwrap_or_default()));
        let bit = 1 << ((key.len() * 5 + first * 3 + last) % 64);
        let is_new = seen & bit == 0;
        seen |= bit;
        is_new || entries[..place].iter().all(|(other, _)| other != key)
    })
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
