//! A bounded queue whose owners share its room, so that none of them can push out the entries of others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// The entries of several owners, the oldest first. If they exceed a limit, the owner that uses the most loses its
/// oldest entry.
#[derive(Debug)]
pub struct SharedQueue<O, T> {
    entries: BTreeMap<u64, (O, usize, T)>,
    /// The numbers of the entries of each owner in ascending order, and their size together.
    owners: HashMap<O, (VecDeque<u64>, usize)>,
    next: u64,
    size: usize,
}

impl<O, T> Default for SharedQueue<O, T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), owners: HashMap::new(), next: 0, size: 0 }
    }
}

impl<O: Clone + Eq + Hash, T> SharedQueue<O, T> {
    /// Adds an entry of this size as the newest one. Returns its number.
    pub fn push(&mut self, owner: O, size: usize, entry: T) -> u64 {
        let number = self.next;
        self.insert(number, owner, size, entry);
        number
    }

    /// Adds an entry at the place of a number that is free.
    pub fn insert(&mut self, number: u64, owner: O, size: usize, entry: T) {
        let (numbers, own) = self.owners.entry(owner.clone()).or_default();
        match numbers.back() {
            Some(last) if *last > number => {
                numbers.insert(numbers.partition_point(|own| *own < number), number)
            }
            _ => numbers.push_back(number),
        }
        *own += size;
        self.size += size;
        self.next = self.next.max(number + 1);
        self.entries.insert(number, (owner, size, entry));
    }

    /// Returns the entry with this number.
    pub fn get(&self, number: u64) -> Option<&T> {
        self.entries.get(&number).map(|(.., entry)| entry)
    }

    /// Returns the oldest entry with its number.
    pub fn first(&self) -> Option<(u64, &T)> {
        self.entries.first_key_value().map(|(number, (.., entry))| (*number, entry))
    }

    /// Removes the entry with this number.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let (owner, size, entry) = self.entries.remove(&number)?;
        self.size -= size;
        if let Some((numbers, own)) = self.owners.get_mut(&owner) {
            if let Ok(at) = numbers.binary_search(&number) {
                numbers.remove(at);
            }
            *own -= size;
            if numbers.is_empty() {
                self.owners.remove(&owner);
            }
        }
        Some(entry)
    }

    /// Removes entries until at most this number of this size together remain. Returns them with their numbers.
    pub fn fit(&mut self, max_len: usize, max_size: usize) -> Vec<(u64, T)> {
        let mut removed = Vec::new();
        while let Some(number) = self.surplus(max_len, max_size) {
            removed.extend(self.remove(number).map(|entry| (number, entry)));
        }
        removed
    }

    fn surplus(&self, max_len: usize, max_size: usize) -> Option<u64> {
        let is_large = self.size > max_size;
        if !is_large && self.entries.len() <= max_len {
            return None;
        }
        let use_of = |(numbers, size): &&(VecDeque<u64>, usize)| {
            (if is_large { *size } else { numbers.len() }, Reverse(numbers.front().copied()))
        };
        self.owners.values().max_by_key(use_of)?.0.front().copied()
    }

    /// Returns the entries, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.entries.values().map(|(.., entry)| entry)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the size of all entries.
    pub fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_that_uses_the_most_loses_its_oldest_entries() {
        let mut queue = SharedQueue::default();
        let all = |queue: &SharedQueue<_, _>| queue.iter().copied().collect::<Vec<_>>();
        for (owner, size, entry) in [("ann", 1, "a1"), ("bob", 1, "b1"), ("bob", 1, "b2"), ("bob", 1, "b3")] {
            queue.push(owner, size, entry);
        }
        assert_eq!(queue.fit(3, 9), [(1, "b1")]);
        assert_eq!(all(&queue), ["a1", "b2", "b3"]);
        queue.push("ann", 8, "a2");
        assert_eq!(queue.fit(9, 9), [(0, "a1"), (4, "a2")], "by their size");
        assert_eq!((queue.len(), queue.size()), (2, 2));
        queue.push("eve", 1, "e1");
        assert_eq!(queue.fit(1, 9), [(2, "b2"), (3, "b3")], "the oldest of owners that use as much");
        // What was taken out returns to its place.
        queue.insert(3, "bob", 1, "b3");
        assert_eq!(all(&queue), ["b3", "e1"]);
        assert_eq!(queue.push("eve", 0, "e2"), 6);
    }
}
