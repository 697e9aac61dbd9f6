//! The limit of requests per minute and client.
//!
//! Hosts that share a store also count requests in shared windows of one minute, in which each host has a
//! share (`Kv`).

use super::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};
use valvehouse_store::Kv;

const MINUTE: Duration = Duration::from_secs(60);
/// The owner of the windows. A script cannot have this id, because ids contain no colon.
const OWNER: &str = "builtin:rate";
/// The maximum number of clients in memory; the one with the fewest recent requests is dropped first.
const MAX: usize = 16_384;

/// The client that a limit applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asker {
    /// The holder of this key.
    Key(Digest),
    /// The clients at this address.
    Address(IpAddr),
}

impl Asker {
    /// Returns the client with the address that identifies it.
    pub(super) fn identified(self) -> Self {
        match self {
            Self::Address(address) => Self::Address(of_one(address)),
            key @ Self::Key(_) => key,
        }
    }
}

/// Returns the address that identifies a client: an IPv4 address itself, or the /64 network of an IPv6
/// address, in which one client can have any number of addresses.
pub(super) fn of_one(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// A limit of requests for each client.
pub struct Rate {
    /// The number of requests per client and minute.
    pub requests: u32,
    /// A minute divided by the number of requests.
    share: Duration,
    /// The time until which each client has used its requests; it advances by `share` with each request.
    paid: Mutex<HashMap<Asker, Instant>>,
}

impl Rate {
    /// Creates a limit of requests per minute; `None` for 0, which disables it.
    pub fn per_minute(requests: u32) -> Option<Self> {
        let share = MINUTE.checked_div(requests)?;
        Some(Self { requests, share, paid: Mutex::default() })
    }

    /// Counts a request of a client. Hosts that share these maps share the limit.
    ///
    /// # Errors
    /// Returns the time to wait if the limit is exceeded.
    pub fn take(&self, asker: Asker, shared: &Kv) -> Result<(), Duration> {
        self.take_at(Instant::now(), asker, shared)
    }

    /// Returns the number of requests that a client may send at once on this host, and the time until it is the limit
    /// again.
    pub fn left(&self, asker: Asker) -> (u32, Duration) {
        let paid = self.paid.lock().get(&asker.identified()).copied();
        let used = paid.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        let left = MINUTE.saturating_sub(used).as_nanos() / self.share.as_nanos().max(1);
        (u32::try_from(left).unwrap_or(self.requests).min(self.requests), used)
    }

    fn take_at(&self, now: Instant, asker: Asker, shared: &Kv) -> Result<(), Duration> {
        let asker = asker.identified();
        if shared.hosts() > 1 {
            self.take_share(asker, shared)?;
        }
        // A request that the shared window allows is checked here too: this is the only limit of a host that
        // is alone.
        let mut paid = self.paid.lock();
        let from = paid.get(&asker).copied().map_or(now, |until| until.max(now));
        let until = from + self.share;
        if let Some(too_much) = until.saturating_duration_since(now).checked_sub(MINUTE)
            && !too_much.is_zero()
        {
            return Err(too_much);
        }
        if paid.len() >= MAX && !paid.contains_key(&asker) {
            paid.retain(|_, until| *until > now);
        }
        if paid.len() >= MAX && !paid.contains_key(&asker) {
            let least = paid.iter().min_by_key(|(_, until)| **until).map(|(asker, _)| *asker);
            least.and_then(|asker| paid.remove(&asker));
        }
        paid.insert(asker, until);
        Ok(())
    }

    /// Counts one more request in the window that all hosts share.
    fn take_share(&self, asker: Asker, shared: &Kv) -> Result<(), Duration> {
        let key = match asker {
            Asker::Key(digest) => digest,
            Asker::Address(address) => Digest::of(&address.to_string()),
        };
        match shared.map(OWNER, "minute").window(&key.to_string(), MINUTE, self.requests.into()) {
            Ok(window) if !window.allowed => Err(Duration::from_secs(window.retry_after)),
            Ok(_) => Ok(()),
            Err(error) => {
                // There are more clients than a map can have keys: each host counts this one alone.
                tracing::debug!("a request is counted only by this host: {error}");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_store::{KvNews, StoreError};

    #[test]
    fn a_client_may_burst_to_the_limit_and_then_waits_for_each_request() {
        let (rate, now, kv) = (Rate::per_minute(6).unwrap(), Instant::now(), Kv::default());
        let (ann, bob) = (Asker::Key(Digest::of("ann")), Asker::Address(IpAddr::from([10, 0, 0, 1])));
        assert!((0..6).all(|_| rate.take_at(now, ann, &kv).is_ok()));
        assert_eq!(rate.take_at(now, ann, &kv), Err(Duration::from_secs(10)));
        assert_eq!(rate.take_at(now, bob, &kv), Ok(()), "others are not held up");
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(
            rate.take_at(later(9), ann, &kv),
            Err(Duration::from_secs(1)),
            "a rejection costs nothing"
        );
        assert_eq!(rate.take_at(later(10), ann, &kv), Ok(()));
        assert!(rate.take_at(later(10), ann, &kv).is_err());
        assert!((0..6).all(|_| rate.take_at(later(80), ann, &kv).is_ok()));
        assert!(Rate::per_minute(0).is_none());
    }

    #[test]
    fn the_rate_limit_table_is_bounded() {
        let (rate, now, kv) = (Rate::per_minute(1).unwrap(), Instant::now(), Kv::default());
        for address in 0..17_000_u32 {
            let asker = Asker::Address(std::net::Ipv4Addr::from_bits(address).into());
            assert_eq!(rate.take_at(now + Duration::from_millis(address.into()), asker, &kv), Ok(()));
        }
        assert!(rate.paid.lock().len() <= MAX);
    }

    #[tokio::test]
    async fn hosts_divide_the_rate_limit() {
        let news = |_| -> futures::future::BoxFuture<'static, Result<KvNews, StoreError>> {
            Box::pin(std::future::ready(Ok(KvNews { hosts: 3, mark: 1, ..KvNews::default() })))
        };
        let kv = Kv::default().written_by(|_| Box::pin(std::future::ready(Ok(())))).shared(1, news);
        let (rate, now) = (Rate::per_minute(60).unwrap(), Instant::now());
        let (ann, bob) = (Asker::Key(Digest::of("ann")), Asker::Address(IpAddr::from([10, 0, 0, 1])));
        let burst = async |asker, most: usize| {
            kv.exchange().await.unwrap();
            (0..most).take_while(|_| rate.take_at(now, asker, &kv).is_ok()).count()
        };
        // Each host grants half of a third of the rest, because the other hosts may have granted their
        // shares.
        assert_eq!([burst(ann, 60).await, burst(ann, 60).await, burst(ann, 60).await], [10, 9, 7]);
        assert_eq!(rate.take_at(now, ann, &kv), Err(Duration::from_secs(1)), "until the next exchange");
        assert_eq!(burst(bob, 60).await, 10, "others are not held up");
        let mut rest = 0;
        for _ in 0..60 {
            rest += burst(ann, 60).await;
        }
        assert_eq!(rest, 34);
        let wait = rate.take_at(now, ann, &kv).unwrap_err();
        assert!(
            (Duration::from_secs(50)..=MINUTE).contains(&wait),
            "until the first is a minute old: {wait:?}"
        );
    }
}
