//! A delay for clients that try many wrong keys.

use super::digest::Digest;
use super::rate::of_one;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The maximum number of different wrong keys from one address within [`WITHIN`].
const MAX: usize = 10;
/// The window in which wrong keys are counted.
const WITHIN: Duration = Duration::from_secs(60);
/// The maximum number of addresses in memory; the address with the oldest window is dropped first.
const MAX_ADDRESSES: usize = 4096;

/// The recent wrong keys of each address.
///
/// A repeated wrong key is counted once: a client with an outdated key is not guessing, and other clients at
/// its address must not be blocked for it.
#[derive(Default)]
pub struct Attempts(Mutex<HashMap<IpAddr, Guesses>>);

struct Guesses {
    since: Instant,
    keys: HashSet<Digest>,
}

impl Attempts {
    /// Returns the time for which keys from an address are not checked; `None` if they are checked.
    pub fn wait(&self, from: IpAddr) -> Option<Duration> {
        self.wait_at(Instant::now, from)
    }

    /// Like [`Attempts::wait`]. The clock is read only if the address is over the limit, which is rare.
    fn wait_at(&self, now: impl FnOnce() -> Instant, from: IpAddr) -> Option<Duration> {
        let all = self.0.lock();
        let tried = all.get(&of_one(from)).filter(|tried| tried.keys.len() >= MAX)?;
        WITHIN.checked_sub(now().saturating_duration_since(tried.since)).filter(|wait| !wait.is_zero())
    }

    /// Records a wrong key.
    pub fn failed(&self, from: IpAddr, key: &str) {
        self.failed_at(Instant::now(), from, key);
    }

    fn failed_at(&self, now: Instant, from: IpAddr, key: &str) {
        let mut all = self.0.lock();
        let is_over = |tried: &Guesses| now.saturating_duration_since(tried.since) >= WITHIN;
        if all.len() >= MAX_ADDRESSES {
            all.retain(|_, tried| !is_over(tried));
        }
        if all.len() >= MAX_ADDRESSES {
            let oldest = all.iter().min_by_key(|(_, tried)| tried.since).map(|(address, _)| *address);
            oldest.and_then(|address| all.remove(&address));
        }
        let tried = all.entry(of_one(from)).or_insert_with(|| Guesses { since: now, keys: HashSet::new() });
        if is_over(tried) {
            *tried = Guesses { since: now, keys: HashSet::new() };
        }
        tried.keys.insert(Digest::of(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn repeated_wrong_keys_are_rejected_for_the_rest_of_the_minute() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for guess in 0..MAX {
            assert_eq!(attempts.wait_at(|| now, HERE), None, "{guess}");
            attempts.failed_at(now, HERE, &guess.to_string());
        }
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(attempts.wait_at(|| later(20), HERE), Some(Duration::from_secs(40)));
        assert_eq!(attempts.wait_at(|| later(20), IpAddr::from([10, 0, 0, 2])), None);
        assert_eq!(attempts.wait_at(|| later(60), HERE), None);
        attempts.failed_at(later(60), HERE, "again");
        assert_eq!(attempts.wait_at(|| later(60), HERE), None, "it begins anew");
    }

    #[test]
    fn repeating_one_old_key_does_not_count_as_guessing() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        (0..100).for_each(|_| attempts.failed_at(now, HERE, "old"));
        assert_eq!(attempts.wait_at(|| now, HERE), None);
    }

    #[test]
    fn addresses_of_one_network_count_together_and_the_table_is_bounded() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let address = |net: u16, own: u16| IpAddr::from([0x2001, 0xdb8, 0, net, 0, 0, 0, own]);
        (0..20).for_each(|own| attempts.failed_at(now, address(0, own), &own.to_string()));
        assert!(attempts.wait_at(|| now, address(0, 99)).is_some());
        (0..5_000).for_each(|net| attempts.failed_at(now, address(net, 0), "x"));
        assert!(attempts.0.lock().len() <= MAX_ADDRESSES);
    }
}
