//! The state that an ended process left behind.

use super::layout::{BEAT, FAULT, HEADER, ID, LOADING, MAGIC, SLOT, SLOTS, VERSION, WORDS, place_of};
use std::time::Duration;

/// The work of a thread when its process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastRun {
    pub(super) id: String,
    pub(super) hash: String,
    /// Its file was being loaded; otherwise it was called.
    pub(super) is_loading: bool,
    /// Since when, before the last sign of life.
    pub(super) age: Duration,
}

/// The state that an ended process left behind in its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LeftOver {
    /// The signal of its own fault, and what ran on that thread.
    pub(super) fault: Option<(i32, Option<LastRun>)>,
    /// The versions that ran on its threads.
    pub(super) running: Vec<LastRun>,
}

/// Parses the bytes of a record; returns `None` if they are not a whole record.
pub(super) fn left_over(bytes: &[u8]) -> Option<LeftOver> {
    let (words, _) = bytes.as_chunks();
    let words: Vec<u64> = words.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    if words.len() != WORDS || words[0] != MAGIC {
        return None;
    }
    let ran = |slot: usize| {
        let slot = words.get(HEADER + slot * SLOT..)?;
        let number = u32::try_from(slot[0] & (LOADING - 1)).ok().filter(|number| *number > 0)?;
        let version = words.get(place_of(number)..)?.get(..VERSION)?;
        let bytes: Vec<u8> = version.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (id, hash) = bytes.split_at(ID * 8);
        let id = String::from_utf8_lossy(id).trim_end_matches('\0').to_owned();
        let age = Duration::from_millis(words[BEAT].saturating_sub(slot[1]));
        Some(LastRun { id, hash: valvehouse_core::words::hex(hash), is_loading: slot[0] & LOADING != 0, age })
    };
    let (signal, thread) = ((words[FAULT] & 0xff) as i32, (words[FAULT] >> 8) as usize);
    let fault = (signal != 0).then(|| (signal, thread.checked_sub(1).and_then(ran)));
    Some(LeftOver { fault, running: (0..SLOTS).filter_map(ran).collect() })
}
