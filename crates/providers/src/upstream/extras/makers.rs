//! The makers of signed and encrypted thoughts, by digests of these: services refuse those of another one.

use parking_lot::Mutex;
use std::collections::HashMap;
use valvehouse_core::shared_queue::SharedQueue;

/// The maximum number of thoughts whose makers are known, which clients share.
const MAX: usize = 50_000;

#[derive(Debug, Default)]
pub(super) struct Makers(Mutex<MakerMap>);

#[derive(Debug, Default)]
struct MakerMap {
    makers: HashMap<u64, u64>,
    /// The thoughts by the clients that received them.
    secrets: SharedQueue<Option<u64>, u64>,
}

impl Makers {
    pub(super) fn are_none(&self) -> bool {
        self.0.lock().makers.is_empty()
    }

    pub(super) fn add(&self, client: Option<u64>, secret: u64, maker: u64) {
        let mut known = self.0.lock();
        if known.makers.insert(secret, maker).is_none() {
            known.secrets.push(client, 0, secret);
        }
        for (_, oldest) in known.secrets.fit(MAX, 0) {
            known.makers.remove(&oldest);
        }
    }

    /// Returns `true` if another one made a thought.
    pub(super) fn is_foreign(&self, secret: u64, maker: u64) -> bool {
        self.0.lock().makers.get(&secret).is_some_and(|own| *own != maker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_push_out_the_makers_that_another_one_needs() {
        let makers = Makers::default();
        makers.add(Some(1), 7, 70);
        (0..2 * MAX as u64).for_each(|secret| makers.add(Some(2), 100 + secret, 70));
        assert!(makers.is_foreign(7, 71) && !makers.is_foreign(7, 70));
        assert!(!makers.is_foreign(100, 71), "the oldest one of the other client is gone");
        assert_eq!(makers.0.lock().makers.len(), MAX);
    }
}
