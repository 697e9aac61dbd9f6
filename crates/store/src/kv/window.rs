//! Counts of hits within the last so many seconds: exact, in bounded space.
//!
//! The hits of each thousandth of the window are kept together, and count until the last of them is
//! over: no window of that length ever holds more than the limit.

use std::time::Duration;
use valvehouse_json::Json;

/// The answer of a window to one more hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// `true` if it is within the limit; only then it was counted.
    pub allowed: bool,
    /// Hits in the window, this one included when it was allowed.
    pub count: u64,
    /// Seconds until the next hit would be allowed; 0 when this one was.
    pub retry_after: u64,
}

/// Slots as they are kept: `[last hit, hits, last hit, hits, …]`, oldest first. None when they are not.
pub(super) fn count(before: &Json, now: i64, length: Duration, limit: u64) -> Option<(Window, Json)> {
    let length = i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 2).clamp(1, i64::MAX / 2);
    let grain = (length / 1_000).max(1);
    let mut slots: Vec<Slot> = read(before)?;
    slots.retain(|slot| slot.last.saturating_add(length) > now);
    let hits: u64 = slots.iter().map(|slot| slot.hits).sum();
    if hits >= limit {
        let retry_after = wait(&slots, hits, limit)
            .map_or(length, |slot| slot.last.saturating_add(length).saturating_sub(now));
        let retry_after = (retry_after.unsigned_abs()).div_ceil(1_000).max(1);
        return Some((Window { allowed: false, count: hits, retry_after }, Json::Null));
    }
    match slots.last_mut() {
        // Not `==`: a clock that was set back must not make room.
        Some(slot) if slot.last.div_euclid(grain) >= now.div_euclid(grain) => {
            *slot = Slot { last: slot.last.max(now), hits: slot.hits + 1 };
        }
        _ => slots.push(Slot { last: now, hits: 1 }),
    }
    let kept = slots.iter().flat_map(|slot| [slot.last.into(), slot.hits.into()]).collect::<Vec<Json>>();
    Some((Window { allowed: true, count: hits + 1, retry_after: 0 }, kept.into()))
}

struct Slot {
    last: i64,
    hits: u64,
}

fn read(kept: &Json) -> Option<Vec<Slot>> {
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

/// The slot with whose end there is room again; none when there never is.
fn wait(slots: &[Slot], hits: u64, limit: u64) -> Option<&Slot> {
    let mut left = hits;
    slots.iter().find(|slot| {
        left -= slot.hits;
        left < limit
    })
}
