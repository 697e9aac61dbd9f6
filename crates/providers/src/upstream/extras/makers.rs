//! The makers of signed and encrypted thoughts, by digests of these: services refuse those of another one.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};

/// The maximum number of thoughts whose makers are known.
const MAX: usize = 50_000;

#[derive(Debug, Default)]
pub(super) struct Makers(Mutex<MakerMap>);

#[derive(Debug, Default)]
struct MakerMap {
    makers: HashMap<u64, u64>,
    /// The oldest first.
    order: VecDeque<u64>,
}

impl Makers {
    pub(super) fn are_none(&self) -> bool {
        self.0.lock().order.is_empty()
    }

    pub(super) fn add(&self, secret: u64, maker: u64) {
        let mut known = self.0.lock();
        if known.makers.insert(secret, maker).is_none() {
            known.order.push_back(secret);
        }
        if known.order.len() > MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.makers.remove(&oldest);
        }
    }

    /// Returns `true` if another one made a thought.
    pub(super) fn is_foreign(&self, secret: u64, maker: u64) -> bool {
        self.0.lock().makers.get(&secret).is_some_and(|own| *own != maker)
    }
}
