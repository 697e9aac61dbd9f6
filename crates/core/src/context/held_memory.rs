//! The memory that all requests of a host hold together, and its limit.

use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The time after which a refused client should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The memory up to which a request is small, in bytes. All requests together may exceed their limit by a quarter for
/// small ones, so that these are answered while large ones are refused.
const SMALL: usize = 512 << 10;

/// The limit of the memory that the bodies and answers of all running requests hold together. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryLimit(Option<Arc<Total>>);

#[derive(Debug)]
struct Total {
    most: usize,
    held: AtomicUsize,
}

impl MemoryLimit {
    /// Creates a limit in bytes.
    pub fn new(most: usize) -> Self {
        Self(Some(Arc::new(Total { most, held: AtomicUsize::new(0) })))
    }

    /// Returns the number of bytes held now; 0 without a limit.
    pub fn held(&self) -> usize {
        self.0.as_ref().map_or(0, |total| total.held.load(Relaxed))
    }

    /// Starts counting the memory of one request, which holds nothing yet.
    pub fn share(&self) -> HeldMemory {
        HeldMemory { limit: self.clone(), own: AtomicUsize::new(0) }
    }
}

/// The memory that one request holds, released when dropped.
#[derive(Debug, Default)]
pub struct HeldMemory {
    limit: MemoryLimit,
    own: AtomicUsize,
}

impl HeldMemory {
    /// Returns `true` if nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.own.load(Relaxed) == 0
    }

    /// Counts more bytes.
    ///
    /// # Errors
    /// Returns an error if all requests together would exceed their limit; these bytes are not counted then.
    pub fn grow(&self, bytes: usize) -> Result<(), Error> {
        let Some(total) = &self.limit.0 else { return Ok(()) };
        let is_small = self.own.load(Relaxed).saturating_add(bytes) <= SMALL;
        let most = total.most.saturating_add(if is_small { total.most / 4 } else { 0 });
        let add = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        if total.held.fetch_update(Relaxed, Relaxed, add).is_err() {
            return Err(Error::TooBusy {
                message: format!(
                    "the requests of this host exceed their memory limit of {} MB ([server] max_memory_mb); try again later",
                    total.most >> 20
                ),
                wait: RETRY_AFTER,
            });
        }
        self.own.fetch_add(bytes, Relaxed);
        Ok(())
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if let Some(total) = &self.limit.0 {
            total.held.fetch_sub(*self.own.get_mut(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_share_the_limit_and_release_what_they_held() {
        const MB: usize = 1 << 20;
        let limit = MemoryLimit::new(10 * MB);
        let (first, second) = (limit.share(), limit.share());
        first.grow(6 * MB).unwrap();
        let refused = second.grow(5 * MB).unwrap_err();
        assert!(matches!(refused, Error::TooBusy { .. }) && refused.is_retryable(), "{refused}");
        second.grow(4 * MB).unwrap();
        assert!(second.grow(usize::MAX).is_err());
        assert_eq!(limit.held(), 10 * MB);
        // Large requests leave a reserve to small ones.
        let small: Vec<_> = (0..5).map(|_| limit.share()).collect();
        for small in &small {
            assert!(second.grow(1).is_err() && small.grow(SMALL + 1).is_err());
            small.grow(SMALL).unwrap();
            assert!(small.grow(1).is_err());
        }
        assert!(limit.share().grow(1).is_err());
        drop((first, small));
        assert_eq!(limit.held(), 4 * MB);
        drop(second);
        assert_eq!(limit.held(), 0);
    }

    #[test]
    fn without_a_limit_nothing_is_refused() {
        assert!(HeldMemory::default().grow(usize::MAX).is_ok());
    }
}
