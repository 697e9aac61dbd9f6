//! Schemas are the client's: what one costs is not known beforehand. They are worked with on threads
//! of their own, a few at a time, and nobody waits for one for long.

use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

/// As long a client's schema may take.
const MAX_TIME: Duration = Duration::from_secs(2);

/// As many that take too long may go on at a time: a thread cannot be ended.
static PLACES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(4)));

/// Does some work with a schema, or says why it was not done.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    run_within(MAX_TIME, work).await
}

async fn run_within<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let deadline = Instant::now() + longest;
    let too_long = |_| format!("its check exceeded the limit of {} s; simplify it", longest.as_secs_f64());
    let place = timeout_at(deadline, PLACES.clone().acquire_owned()).await.map_err(too_long)?;
    let place = place.map_err(|error| error.to_string())?;
    let (done, result) = oneshot::channel();
    // Not one of the runtime's: its end would wait for it.
    let started = std::thread::Builder::new().name("schema".into()).spawn(move || {
        let _place = place;
        // The value is dropped if nobody waits any more.
        let _ = done.send(work());
    });
    started.map_err(|error| format!("it cannot be checked now: {error}"))?;
    timeout_at(deadline, result).await.map_err(too_long)?.map_err(|_| "checking it failed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn schema_checks_have_a_time_limit_and_fail_in_isolation() {
        let short = Duration::from_millis(20);
        let long = run_within(short, || std::thread::sleep(Duration::from_millis(200))).await;
        assert!(long.unwrap_err().starts_with("its check exceeded the limit of 0.02 s"));
        // Without the message of `panic!`, whose backtrace may take longer than the limit.
        let failing = || std::panic::resume_unwind(Box::new("on purpose"));
        assert_eq!(run(failing).await.map(|()| 0), Err("checking it failed".to_owned()));
        assert_eq!(run(|| 7).await, Ok(7));
    }
}
