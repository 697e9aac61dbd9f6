//! Windows: the number of hits within the last seconds, exact and in bounded memory.
//!
//! The hits within one thousandth of a window share a slot, which counts until its last hit expires. So the
//! limit is never exceeded within the length of a window.

use std::time::Duration;
use valvehouse_json::Json;

/// The decision on one more hit in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// `true` if the hit is within the limit and was counted.
    pub allowed: bool,
    /// The number of hits in the window, including this one if it is allowed.
    pub count: u64,
    /// The number of seconds until the next hit is allowed; 0 if this one is.
    pub retry_after: u64,
}

/// Returns the length of a window in milliseconds.
pub(super) fn ms(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 2).clamp(1, i64::MAX / 2)
}

/// Counts a hit in stored slots, `[last hit, hits, last hit, hits, …]`, oldest first. Returns `None` if the
/// value is not a window.
pub(super) fn count(before: &Json, now: i64, length: i64, limit: u64) -> Option<(Window, Json)> {
    let mut slots: Vec<Slot> = read(before)?;
    slots.retain(|slot| slot.last.saturating_add(length) > now);
    let hits: u64 = slots.iter().map(|slot| slot.hits).sum();
    if hits >= limit {
        let retry_after = wait(&slots, hits, limit)
            .map_or(length, |slot| slot.last.saturating_add(length).saturating_sub(now));
        let retry_after = (retry_after.unsigned_abs()).div_ceil(1_000).max(1);
        return Some((Window { allowed: false, count: hits, retry_after }, Json::Null));
    }
    add(&mut slots, Slot { last: now, hits: 1 }, length);
    Some((Window { allowed: true, count: hits + 1, retry_after: 0 }, written(&slots)))
}

/// Adds a slot that is not older than the others. It is merged with the last one if both are within one
/// thousandth of the window.
pub(super) fn add(slots: &mut Vec<Slot>, new: Slot, length: i64) {
    let grain = (length / 1_000).max(1);
    match slots.last_mut() {
        // Not `==`: a clock that was set back must not free capacity.
        Some(slot) if slot.last.div_euclid(grain) >= new.last.div_euclid(grain) => {
            *slot = Slot { last: slot.last.max(new.last), hits: slot.hits + new.hits };
        }
        _ => slots.push(new),
    }
}

/// Merges the slots of this host and the stored ones, without expired slots.
pub(crate) fn merge(stored: &Json, own: &Json, length: i64, now: i64) -> Option<Json> {
    let mut all = read(stored)?;
    all.extend(read(own)?);
    all.retain(|slot| slot.last.saturating_add(length) > now);
    all.sort_by_key(|slot| slot.last);
    let mut merged = Vec::with_capacity(all.len());
    all.into_iter().for_each(|slot| add(&mut merged, slot, length));
    Some(written(&merged))
}

/// Returns the number of hits in slots that have not expired.
pub(super) fn hits(slots: &[Slot], length: i64, now: i64) -> u64 {
    slots.iter().filter(|slot| slot.last.saturating_add(length) > now).map(|slot| slot.hits).sum()
}

/// Returns slots in the stored form.
pub(super) fn written(slots: &[Slot]) -> Json {
    slots.iter().flat_map(|slot| [slot.last.into(), slot.hits.into()]).collect::<Vec<Json>>().into()
}

/// The hits of one thousandth of a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) last: i64,
    pub(super) hits: u64,
}

pub(super) fn read(kept: &Json) -> Option<Vec<Slot>> {
    if kept.is_null() {
        return Some(Vec::new());
    }
    let numbers: Option<Vec<i64>> = kept.as_array()?.items().iter().map(Json::as_i64).collect();
    let numbers = numbers.filter(|numbers| numbers.len() % 2 == 0)?;
    let slots = numbers
        .chunks_exact(2)
        .map(|pair| Some(Slot { last: *pair.first()?, hits: u64::try_from(*pair.last()?).ok()? }));
    slots.collect()
}

/// Returns the slot whose expiry brings the hits below the limit; `None` if that never happens.
fn wait(slots: &[Slot], hits: u64, limit: u64) -> Option<&Slot> {
    let mut left = hits;
    slots.iter().find(|slot| {
        left -= slot.hits;
        left < limit
    })
}
