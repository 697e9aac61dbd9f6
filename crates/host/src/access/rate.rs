//! How often one may ask: so many a minute, at once or spread over it.

use super::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// So many askers are remembered; of more, the one that asked least is forgotten.
const MOST: usize = 16_384;

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asker {
    /// Whoever has this key.
    Key(Digest),
    /// Whoever is at this address.
    Address(IpAddr),
}

/// Returns the address that stands for a client: an IPv4 address itself, or the /64 network of an IPv6 address, in
/// which one client has as many addresses as it likes.
pub(super) fn of_one(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// A limit for each asker.
pub struct Rate {
    /// The requests of each asker, in one minute.
    pub requests: u32,
    /// The part of the minute that each request takes.
    share: Duration,
    /// The time at which the requests of each sender so far are made up for.
    paid: Mutex<HashMap<Asker, Instant>>,
}

impl Rate {
    /// So many requests a minute; none with 0.
    pub fn per_minute(requests: u32) -> Option<Self> {
        let share = MINUTE.checked_div(requests)?;
        Some(Self { requests, share, paid: Mutex::default() })
    }

    /// One more request, or how long this asker has to wait for it.
    pub fn take(&self, asker: Asker) -> Result<(), Duration> {
        self.take_at(Instant::now(), asker)
    }

    fn take_at(&self, now: Instant, asker: Asker) -> Result<(), Duration> {
        let asker = match asker {
            Asker::Address(address) => Asker::Address(of_one(address)),
            key @ Asker::Key(_) => key,
        };
        let mut paid = self.paid.lock();
        let from = paid.get(&asker).copied().map_or(now, |until| until.max(now));
        let until = from + self.share;
        if let Some(too_much) = until.saturating_duration_since(now).checked_sub(MINUTE)
            && !too_much.is_zero()
        {
            return Err(too_much);
        }
        if paid.len() >= MOST && !paid.contains_key(&asker) {
            paid.retain(|_, until| *until > now);
        }
        if paid.len() >= MOST && !paid.contains_key(&asker) {
            let least = paid.iter().min_by_key(|(_, until)| **until).map(|(asker, _)| *asker);
            least.and_then(|asker| paid.remove(&asker));
        }
        paid.insert(asker, until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_minute_and_then_one_at_a_time() {
        let (rate, now) = (Rate::per_minute(6).unwrap(), Instant::now());
        let (ann, bob) = (Asker::Key(Digest::of("ann")), Asker::Address(IpAddr::from([10, 0, 0, 1])));
        assert!((0..6).all(|_| rate.take_at(now, ann).is_ok()));
        assert_eq!(rate.take_at(now, ann), Err(Duration::from_secs(10)));
        assert_eq!(rate.take_at(now, bob), Ok(()), "others are not held up");
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(rate.take_at(later(9), ann), Err(Duration::from_secs(1)), "a refusal costs nothing");
        assert_eq!(rate.take_at(later(10), ann), Ok(()));
        assert!(rate.take_at(later(10), ann).is_err());
        assert!((0..6).all(|_| rate.take_at(later(80), ann).is_ok()));
        assert!(Rate::per_minute(0).is_none());
    }

    #[test]
    fn askers_without_number_do_not_fill_the_memory() {
        let (rate, now) = (Rate::per_minute(1).unwrap(), Instant::now());
        for address in 0..17_000_u32 {
            let asker = Asker::Address(std::net::Ipv4Addr::from_bits(address).into());
            assert_eq!(rate.take_at(now + Duration::from_millis(address.into()), asker), Ok(()));
        }
        assert!(rate.paid.lock().len() <= MOST);
    }
}
