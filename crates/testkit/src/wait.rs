//! Waiting for what a test expects.

use std::time::{Duration, Instant};

/// Nothing a test waits for may take longer. Generous: machines are slow at times.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Looks again and again until something is so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let end = Instant::now() + TIMEOUT / crate::slowness();
    while !is_so().await {
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
