//! The versions of plugins that may run, by their numbers in the mapped file.

use super::layout::{HASH, ID, VERSION, VERSIONS, WORDS_OF_PROCESS, place_of};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static NUMBERS: Mutex<Option<Numbers>> = Mutex::new(None);

/// A version of a plugin that may run, known to the record as long as this lives.
#[derive(Debug, Default)]
pub struct Version(pub(super) u32);

#[derive(Default)]
struct Numbers {
    known: HashMap<(String, String), u32>,
    /// For each number its version, and how many hold it.
    held: Vec<Option<((String, String), u32)>>,
    free: Vec<u32>,
}

impl Version {
    /// The version of a plugin with this hash, which is SHA-256 in hexadecimal digits.
    pub fn of(id: &str, hash: &str) -> Self {
        let Some(words) = WORDS_OF_PROCESS.get() else { return Self(0) };
        let mut numbers = NUMBERS.lock();
        let numbers = numbers.get_or_insert_default();
        let key = (id.to_owned(), hash.to_owned());
        if let Some(number) = numbers.known.get(&key).copied() {
            if let Some((_, holders)) = &mut numbers.held[number as usize - 1] {
                *holders += 1;
            }
            return Self(number);
        }
        let number = match numbers.free.pop() {
            Some(number) => number,
            None if numbers.held.len() < VERSIONS => {
                numbers.held.push(None);
                numbers.held.len() as u32
            }
            None => return Self(0),
        };
        write_version(&words[place_of(number)..][..VERSION], id, hash);
        numbers.known.insert(key.clone(), number);
        numbers.held[number as usize - 1] = Some((key, 1));
        Self(number)
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        if self.0 == 0 {
            return;
        }
        let mut numbers = NUMBERS.lock();
        let Some(numbers) = numbers.as_mut() else { return };
        let place = &mut numbers.held[self.0 as usize - 1];
        if let Some((_, holders)) = place {
            *holders -= 1;
            if *holders == 0 {
                let key = place.take().map(|(key, _)| key);
                key.and_then(|key| numbers.known.remove(&key));
                numbers.free.push(self.0);
            }
        }
    }
}

fn write_version(words: &[AtomicU64], id: &str, hash: &str) {
    let mut bytes = [0; VERSION * 8];
    let length = id.len().min(ID * 8);
    bytes[..length].copy_from_slice(&id.as_bytes()[..length]);
    let digits = hash.as_bytes().chunks_exact(2).take(HASH * 8);
    for (byte, digits) in bytes[ID * 8..].iter_mut().zip(digits) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or(0);
    }
    for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}
