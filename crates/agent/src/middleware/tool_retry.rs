//! The `tool_retry` middleware, which retries tools after transient failures.
//!
//! Only tools that may run twice are retried: those declared idempotent and those listed in the options. A tool
//! with its own `retry` retains it. As there, all attempts and their delays take at most the tool's timeout
//! times the number of attempts, and the delays of all tools in one turn at most two minutes.

use super::definition::{Middleware, Parts};
use super::options::Options;
use super::typed::ToolRetry;
use futures::future::BoxFuture;
use regex::Regex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use valvehouse_core::context::{NoticeKind, Turn};
use valvehouse_core::tool::{Handler, Retry, Tool, ToolError, ToolResult};
use valvehouse_json::Json;

pub(super) const NAME: &str = ToolRetry::NAME;

pub(super) fn middleware(options: &Json, _: &Parts) -> Result<Middleware, String> {
    const DAY: u64 = 86_400_000;
    let (mut options, default) = (Options::of(NAME, options), ToolRetry::default());
    let mut delay = |key, default: Duration| {
        Duration::from_millis(options.number(key, default.as_millis() as u64, 0..=DAY))
    };
    let initial_delay = delay("initial_delay_ms", default.initial_delay);
    let max_delay = delay("max_delay_ms", default.max_delay);
    let settings = Arc::new(ToolRetry {
        max_retries: options.number("max_retries", default.max_retries.into(), 0..=100) as u32,
        initial_delay,
        max_delay,
        factor: options.decimal("factor", default.factor, 1.0..=100.0),
        tools: options.texts("tools").unwrap_or(default.tools),
    });
    options.done()?;
    Ok(Middleware::of_tools(NAME, move |tool| wrapped(tool, &settings)))
}

fn wrapped(tool: Tool, settings: &Arc<ToolRetry>) -> Tool {
    let spec = &tool.spec;
    let may_run_twice = spec.idempotent || settings.tools.iter().any(|word| spec.is_meant_by(word));
    if !may_run_twice || spec.retry != Retry::default() || settings.max_retries == 0 {
        return tool;
    }
    // The limit covers all attempts and delays; the last attempt may use its full timeout.
    let tries = spec.timeout.saturating_mul(settings.max_retries + 1);
    let timeout = tries.saturating_add(spec.timeout).saturating_add(Duration::from_secs(1));
    let (mut spec, filters) = ((*tool.spec).clone(), tool.filters.clone());
    spec.timeout = timeout;
    let mut again = Tool::new(spec, Again { tool, settings: settings.clone() });
    again.filters = filters;
    again
}

struct Again {
    tool: Tool,
    settings: Arc<ToolRetry>,
}

impl Handler for Again {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            let mut retries = 0;
            let tries = self.settings.max_retries + 1;
            let end = Instant::now() + self.tool.spec.timeout.saturating_mul(tries);
            loop {
                let error = match self.tool.run(args.deep_clone(), &turn).await {
                    Err(error) if is_transient(&error) && !turn.is_paused() => error,
                    result => return result,
                };
                if retries == self.settings.max_retries {
                    return Err(error);
                }
                let delay = self.settings.delay(retries);
                if !self.tool.may_delay(delay, end, &turn) {
                    return Err(error);
                }
                retries += 1;
                let most = self.settings.max_retries;
                turn.notify(NoticeKind::Retry, || self.tool.retry_notice(retries, most, &error, delay));
                tracing::info!(tool = self.tool.name(), retries, "retrying the tool in {delay:?}: {error}");
                tokio::time::sleep(delay).await;
            }
        })
    }
}

impl ToolRetry {
    /// Returns the delay before a retry, reduced by up to a quarter at random, so that calls that failed
    /// together are not retried together.
    fn delay(&self, retries: u32) -> Duration {
        let grown = self.initial_delay.as_secs_f64() * self.factor.powi(retries.min(1_000) as i32);
        let delay = grown.min(self.max_delay.as_secs_f64());
        Duration::from_secs_f64(delay * (1.0 - fastrand::f64() / 4.0))
    }
}

/// The statuses of transient failures.
const NOT_NOW: [u16; 8] = [408, 425, 429, 502, 503, 504, 522, 529];

/// The phrases with which programs report a failed connection, an unavailable service or a timeout.
const WORDS: &str = r"(?ix)
    timed?[\ -]?out | did\ not\ end\ within | deadline\ exceeded | temporar(y|ily) | try\ again | too\ many\ requests
    | rate[\ -]?limit | overloaded | unavailable | bad\ gateway
    | connection\ (was\ )?(refused|reset|closed|aborted|lost) | connection\ error | broken\ pipe
    | (cannot|could\ not|failed\ to)\ (connect|reach) | unreachable | name\ resolution
    | \b(status|http|answered|code)\W{0,3}(408|425|429|500|502|503|504|522|529)\b";

/// Returns `true` if a failure may be transient. Most failures have no status of their own and count as 500, so
/// their text decides.
pub(super) fn is_transient(error: &ToolError) -> bool {
    static PATTERN: OnceLock<Regex> = OnceLock::new();
    let pattern =
        PATTERN.get_or_init(|| Regex::new(WORDS).expect("the pattern is a constant that a test reads"));
    match error {
        ToolError { fatal: true, .. } => false,
        ToolError { status, .. } if NOT_NOW.contains(status) => true,
        ToolError { status: 400..500, .. } | ToolError { is_answer: true, .. } => false,
        ToolError { message, .. } => pattern.is_match(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_errors_are_distinguished_from_permanent_ones() {
        let with = |status, message: &str| ToolError { status, ..ToolError::from(message) };
        for message in [
            "tool weather did not end within 30000 ms",
            "request timed out",
            "connection refused (os error 111)",
            "https://x.example answered 503",
            "HTTP 429",
            "status: 502",
            "cannot reach db.example",
            "Try again later",
        ] {
            assert!(is_transient(&with(500, message)), "{message}");
        }
        for message in
            ["no such city", "division by zero", "row 503 is missing", "tool x panicked", "answered 404"]
        {
            assert!(!is_transient(&with(500, message)), "{message}");
        }
        assert!(is_transient(&with(429, "no")) && is_transient(&with(503, "no")));
        assert!(!is_transient(&with(400, "request timed out")) && !is_transient(&with(404, "timeout")));
        assert!(!is_transient(&with(503, "no").fatal()));
    }
}
