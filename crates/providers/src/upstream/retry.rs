//! Retries: the errors to retry, the delays, and the number over all layers.

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use valvehouse_core::ErrorCode;
use valvehouse_core::context::{Exchange, Notice, NoticeKind, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::metrics::Service;
use valvehouse_grants::RetrySettings;

/// The retry policy of one request.
pub(super) struct Retries<'a> {
    /// The name of the provider.
    pub(super) name: &'a str,
    pub(super) retry: &'a RetrySettings,
    /// The exchange, which counts the retries of all layers.
    pub(super) exchange: &'a Exchange,
    pub(super) turn: Option<&'a Turn>,
    /// The metrics in which retries are counted.
    pub(super) metrics: Option<&'a Service>,
}

impl Retries<'_> {
    /// Runs attempts until one succeeds or a retry cannot help.
    pub(super) async fn run<T, F: Future<Output = Result<T, Error>>>(
        &self,
        deadline: Option<Instant>,
        mut once: impl FnMut() -> F,
    ) -> Result<T, Error> {
        let mut own = 0;
        let mut last = match once().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        while let Some(delay) = wait(&last, self.retry, own)
            && deadline.is_none_or(|deadline| Instant::now() + delay < deadline)
            && let Some(number) = self.exchange.retry(self.retry.max_retries)
        {
            own += 1;
            self.report(number, &last, delay);
            sleep(delay).await;
            last = match once().await {
                Ok(answer) => return Ok(answer),
                // The breaker opened because of the earlier failure, which is the more helpful error.
                Err(Error::BreakerOpen { .. }) => break,
                Err(error) => error,
            };
        }
        Err(last)
    }

    /// Reports a retry to the metrics, the log and the observers of the turn.
    fn report(&self, attempt: u32, error: &Error, delay: Duration) {
        let (provider, most) = (self.name, self.retry.max_retries);
        if let Some(metrics) = self.metrics {
            metrics.record_retry();
        }
        tracing::warn!(provider, "retrying in {} ms ({attempt} of {most}): {error}", delay.as_millis());
        if let Some(turn) = self.turn {
            let (what, error) = (format!("provider {provider}"), error.to_string());
            turn.notify(NoticeKind::Retry, || Notice::Retry { what, attempt, most, error, delay });
        }
    }
}

/// The statuses of temporary errors.
///
/// Services use 409 for a lock that they could not acquire, and their own clients retry it. 529 is
/// Anthropic's "overloaded".
const NOT_NOW: [u16; 9] = [408, 409, 425, 429, 500, 502, 503, 504, 529];

/// Returns the delay before the next attempt; `None` if a retry cannot help.
pub(super) fn wait(error: &Error, retry: &RetrySettings, retries: u32) -> Option<Duration> {
    if !may_repeat(error, retry) {
        return None;
    }
    match announced_wait(error) {
        Some(wait) if wait > retry.max_delay => None,
        // A random addition separates clients that received the same time.
        Some(wait) => Some(wait + up_to(retry.initial_delay / 4)),
        None => {
            let longest = retry.initial_delay.saturating_mul(2_u32.saturating_pow(retries));
            Some(up_to(longest.min(retry.max_delay)))
        }
    }
}

/// Returns `true` if a request that failed with this error can be sent again.
pub(super) fn may_repeat(error: &Error, retry: &RetrySettings) -> bool {
    match error {
        // A service that was sent the request may have handled it, so the operator has to allow the retry.
        Error::Unanswered { sent, timeout, .. } => !sent || retry.after_send && !timeout,
        Error::Answered { status, .. } => NOT_NOW.contains(status) && !is_lasting(error),
        _ => false,
    }
}

/// Returns the time that a service demands before the next attempt.
fn announced_wait(error: &Error) -> Option<Duration> {
    let Error::Answered { retry_after, .. } = error else { return None };
    retry_after.as_deref().and_then(requested_wait)
}

/// Returns `true` if the service itself failed. A caller's mistake does not count, and neither does "too many
/// requests", which a working service returns.
pub(super) fn is_failure(error: &Error) -> bool {
    match error {
        Error::Answered { status, .. } => *status >= 500,
        Error::Unanswered { .. } | Error::Provider { .. } => true,
        _ => false,
    }
}

/// The time for which a key rests if the service does not announce one.
const REST: Duration = Duration::from_secs(30);
const MAX_REST: Duration = Duration::from_secs(60 * 60);

/// Returns the time for which a key rests after this error, with the status if the service announced it; `None` if the
/// error is not about the key.
pub(super) fn rest_of_key(error: &Error) -> Option<(Duration, Option<u16>)> {
    let Error::Answered { status: status @ (401 | 403 | 429), body, .. } = error else { return None };
    let is_about_content = ErrorCode::of_service(*status, body) == Some(ErrorCode::ContentPolicy);
    (!is_about_content).then(|| rest(error, REST))
}

/// Returns the time for which a deployment rests after this error; `None` if the deployment did not fail.
pub(super) fn rest_of_deployment(
    error: &Error,
    retry: &RetrySettings,
    usual: Duration,
) -> Option<(Duration, Option<u16>)> {
    let is_away = matches!(error, Error::Unanswered { .. });
    (is_away || is_failure(error) && may_repeat(error, retry)).then(|| rest(error, usual))
}

fn rest(error: &Error, usual: Duration) -> (Duration, Option<u16>) {
    match (announced_wait(error), error) {
        (Some(wait), Error::Answered { status, .. }) => (wait.min(MAX_REST), Some(*status)),
        _ => (usual, None),
    }
}

/// Returns `true` for a used-up quota and a refused key, which seconds do not change.
fn is_lasting(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::QuotaExceeded | ErrorCode::UpstreamAuth))
}

/// Parses `Retry-After`: a number of seconds, or a date.
fn requested_wait(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
    }
    let moment = rfc2822::parse(text).ok()?.timestamp();
    let wait = moment.duration_since(Timestamp::now());
    // A date in the past means no delay.
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

/// Returns a random time up to this one, so that clients that failed together do not retry together.
fn up_to(longest: Duration) -> Duration {
    longest.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_json::Json;

    const SECOND: Duration = Duration::from_secs(1);

    fn answered(status: u16, retry_after: Option<&str>) -> Error {
        let retry_after = retry_after.map(str::to_owned);
        Error::Answered { provider: "lab".into(), status, body: Json::Null, retry_after }
    }

    fn wait_for(error: &Error) -> Option<Duration> {
        wait(error, &RetrySettings::default(), 0)
    }

    #[test]
    fn only_temporary_errors_are_retried() {
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
            assert!(wait_for(&answered(status, None)).is_some(), "{status}");
        }
        for status in [400, 401, 402, 403, 404, 413, 422, 501] {
            assert!(wait_for(&answered(status, None)).is_none(), "{status}");
        }
        let spent = Json::parse(br#"{"error":{"code":"insufficient_quota"}}"#).unwrap();
        let spent = Error::Answered { provider: "lab".into(), status: 429, body: spent, retry_after: None };
        assert!(wait_for(&spent).is_none());
    }

    #[test]
    fn a_lost_request_that_was_sent_is_retried_only_with_after_send() {
        let lost = |sent, timeout| Error::Unanswered { message: "gone".into(), sent, timeout };
        assert!(wait_for(&lost(false, false)).is_some() && wait_for(&lost(false, true)).is_some());
        assert!(wait_for(&lost(true, false)).is_none());
        let by_order = RetrySettings { after_send: true, ..RetrySettings::default() };
        assert!(wait(&lost(true, false), &by_order, 0).is_some());
        let interrupted = Error::Provider { message: "ended early".into(), timeout: false };
        assert!(wait(&interrupted, &by_order, 0).is_none());
    }

    #[test]
    fn retry_delays_double_up_to_the_maximum_with_jitter() {
        let retry =
            RetrySettings { initial_delay: SECOND, max_delay: 3 * SECOND, ..RetrySettings::default() };
        for (retries, longest) in [(0, 1), (1, 2), (2, 3), (30, 3), (40, 3)] {
            let waits: Vec<_> =
                (0..200).map(|_| wait(&answered(503, None), &retry, retries).unwrap()).collect();
            let most = *waits.iter().max().unwrap();
            assert!(most <= longest * SECOND && most > longest * SECOND / 2, "{retries}: {most:?}");
            assert!(*waits.iter().min().unwrap() < longest * SECOND / 4);
        }
    }

    #[test]
    fn retry_after_is_respected_up_to_the_limit() {
        let date = |seconds| {
            let moment = Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
            moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
        };
        for (text, least, most) in
            [("2", 2.0, 2.2), ("0.25", 0.25, 0.4), (" 0 ", 0.0, 0.2), ("-1", 0.0, 0.2), (&date(5), 3.5, 5.2)]
        {
            let wait = wait_for(&answered(429, Some(text))).unwrap().as_secs_f64();
            assert!((least..most).contains(&wait), "{text}: {wait}");
        }
        let past = wait_for(&answered(503, Some("Wed, 21 Oct 2015 07:28:00 GMT"))).unwrap();
        assert!(past < SECOND);
        for too_late in ["11", "3600", "1e300", &date(4_000_000)] {
            assert!(wait_for(&answered(429, Some(too_late))).is_none(), "{too_late}");
        }
        for nonsense in ["soon", "", "NaN"] {
            let wait = wait_for(&answered(503, Some(nonsense))).unwrap();
            assert!(wait <= RetrySettings::default().initial_delay, "{nonsense}");
        }
    }

    #[test]
    fn a_key_rests_unless_the_service_refused_the_content() {
        let refused = |code: &str| {
            let body = Json::parse(format!(r#"{{"error":{{"code":"{code}"}}}}"#).as_bytes()).unwrap();
            rest_of_key(&Error::Answered { provider: "lab".into(), status: 403, body, retry_after: None })
        };
        assert_eq!([refused("content_policy_violation"), refused("no")], [None, Some((REST, None))]);
        let rest = |error| rest_of_deployment(&error, &RetrySettings::default(), SECOND);
        assert_eq!(rest_of_key(&answered(429, Some("7200"))), Some((MAX_REST, Some(429))));
        assert_eq!(rest(answered(503, Some("5"))), Some((5 * SECOND, Some(503))));
        assert_eq!(rest(answered(500, None)), Some((SECOND, None)));
        assert_eq!([400, 409, 501].map(|status| rest(answered(status, None))), [None; 3]);
    }

    #[test]
    fn client_errors_and_rate_limits_are_not_provider_failures() {
        assert!([400, 401, 404, 429].iter().all(|status| !is_failure(&answered(*status, None))));
        assert!([500, 503, 529].iter().all(|status| is_failure(&answered(*status, None))));
    }
}
