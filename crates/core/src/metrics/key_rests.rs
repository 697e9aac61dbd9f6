//! The keys of a provider that take turns, and the time for which a refused one rests.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The keys of a provider by their position; can be used from any thread.
#[derive(Debug, Default)]
pub struct KeyRests {
    /// The end of each key's rest.
    until: Vec<Mutex<Option<Instant>>>,
    turn: AtomicUsize,
}

impl KeyRests {
    /// Creates the state of this number of keys, none of which rests.
    pub fn new(count: usize) -> Self {
        Self {
            until: std::iter::repeat_with(Mutex::default).take(count).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Returns the next key that does not rest; if all do, the one whose rest ends first.
    pub fn next(&self) -> usize {
        let (now, count) = (Instant::now(), self.until.len().max(1));
        let first = self.turn.fetch_add(1, Relaxed) % count;
        let rest = |place: usize| {
            let until = self.until.get(place).and_then(|until| *until.lock());
            until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
        };
        // Of equal keys, the first in turn is taken.
        (0..count).map(|step| (first + step) % count).min_by_key(|place| rest(*place)).unwrap_or(0)
    }

    /// Lets a key rest.
    pub fn rest(&self, key: usize, time: Duration) {
        if let Some(until) = self.until.get(key) {
            *until.lock() = Instant::now().checked_add(time);
        }
    }

    /// Returns the number of keys that do not rest.
    pub fn ready(&self) -> usize {
        let now = Instant::now();
        self.until.iter().filter(|until| until.lock().is_none_or(|until| until <= now)).count()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Returns `true` if the provider does not have several keys.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_turns_and_a_resting_one_is_passed_over() {
        let keys = KeyRests::new(3);
        let turns = |keys: &KeyRests| std::array::from_fn::<usize, 6, _>(|_| keys.next());
        assert_eq!(turns(&keys), [0, 1, 2, 0, 1, 2]);
        keys.rest(1, Duration::from_secs(60));
        assert_eq!((keys.ready(), keys.len()), (2, 3));
        assert!(turns(&keys).iter().all(|key| *key != 1));
        keys.rest(0, Duration::from_secs(10));
        keys.rest(2, Duration::from_secs(30));
        assert_eq!((keys.ready(), turns(&keys)), (0, [0; 6]));
        keys.rest(2, Duration::ZERO);
        assert_eq!((keys.ready(), turns(&keys)), (1, [2; 6]));
    }
}
