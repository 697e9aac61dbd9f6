//! The work of one request that is under way in its scripts, with the questions, tools and parts that they start.
//!
//! Each call has budgets of its own. What one request starts multiplies: a tool that asks a model, whose tools ask
//! models. So the sums are bounded as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A kind of work that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Questions of scripts to models.
    Questions,
    /// Parts of calls that wait beside each other.
    Parts,
    /// Bytes that waiting calls hold.
    Bytes,
}

/// The work of one request that is under way.
#[derive(Debug, Default)]
pub struct Load([AtomicUsize; 3]);

/// A part of the load of a request, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    load: Arc<Load>,
    share: Share,
    amount: usize,
}

/// The load of a request would be larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

impl Load {
    /// Adds to one share of the load, which may be `most` in all.
    ///
    /// # Errors
    ///
    /// Returns an error if it would be more; nothing is added then.
    pub fn claim(self: &Arc<Self>, share: Share, amount: usize, most: usize) -> Result<Claim, Refused> {
        let sum = &self.0[share as usize];
        let add = |sum: usize| sum.checked_add(amount).filter(|sum| *sum <= most);
        sum.fetch_update(Relaxed, Relaxed, add).map_err(|_| Refused)?;
        Ok(Claim { load: self.clone(), share, amount })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.load.0[self.share as usize].fetch_sub(self.amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_counts_until_it_is_dropped_and_each_share_by_itself() {
        let load = Arc::new(Load::default());
        let first = load.claim(Share::Parts, 6, 10).unwrap();
        assert!(load.claim(Share::Parts, 5, 10).is_err());
        assert!(load.claim(Share::Bytes, usize::MAX, usize::MAX).is_ok());
        let second = load.claim(Share::Parts, 4, 10).unwrap();
        drop(first);
        assert!(load.claim(Share::Parts, 6, 10).is_ok());
        drop(second);
        assert!(load.claim(Share::Parts, 10, 10).is_ok());
    }
}
