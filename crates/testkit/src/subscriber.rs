//! The log and the spans of one thread, while other tests run on other threads.

use std::sync::OnceLock;
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Subscriber};

/// Makes `subscriber` the subscriber of this thread until the guard is dropped.
///
/// With a single subscriber in the process, `tracing` asks only the thread that reaches a span first whether
/// the span is enabled, and remembers the answer for all threads. A thread of another test has no subscriber,
/// and its answer is no. A second subscriber, which receives nothing, prevents that.
pub fn subscribe(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(tracing_subscriber::registry()));
    tracing::subscriber::set_default(subscriber)
}
