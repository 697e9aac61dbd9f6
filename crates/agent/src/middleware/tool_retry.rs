//! `tool_retry`: tools that failed for a while are tried again.
//!
//! Only failures that may pass, and only tools that may run twice: those that say they are idempotent, or
//! are listed. A tool that declares a `retry` of its own keeps that. As there, all attempts and the pauses between them
//! take at most the tool's timeout times the number of attempts, and the pauses of all tools in one turn at most two
//! minutes.

use super::definition::{Middleware, Parts};
use super::options::Options;
use super::transient::is_transient;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use valvehouse_core::context::{Notice, Turn};
use valvehouse_core::tool::{Handler, Retry, Tool, ToolError, ToolResult};
use valvehouse_json::Json;

pub(super) const NAME: &str = "tool_retry";

struct Settings {
    max_retries: u32,
    initial_delay: Duration,
    max_delay: Duration,
    factor: f64,
    tools: Vec<String>,
}

pub(super) fn middleware(options: &Json, _: &Parts) -> Result<Middleware, String> {
    const DAY: u64 = 86_400_000;
    let mut options = Options::of(NAME, options);
    let settings = Arc::new(Settings {
        max_retries: options.number("max_retries", 3, 0..=100) as u32,
        initial_delay: Duration::from_millis(options.number("initial_delay_ms", 1_000, 0..=DAY)),
        max_delay: Duration::from_millis(options.number("max_delay_ms", 30_000, 0..=DAY)),
        factor: options.decimal("factor", 2.0, 1.0..=100.0),
        tools: options.texts("tools").unwrap_or_default(),
    });
    options.done()?;
    Ok(Middleware::of_tools(NAME, move |tool| wrapped(tool, &settings)))
}

fn wrapped(tool: Tool, settings: &Arc<Settings>) -> Tool {
    let spec = &tool.spec;
    let may_run_twice = spec.idempotent || settings.tools.iter().any(|word| spec.is_meant_by(word));
    if !may_run_twice || spec.retry != Retry::default() || settings.max_retries == 0 {
        return tool;
    }
    // All tries and the pauses between them together; the last try may end in its own time.
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
    settings: Arc<Settings>,
}

impl Handler for Again {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            let mut retries = 0;
            let tries = self.settings.max_retries + 1;
            let end = Instant::now() + self.tool.spec.timeout.saturating_mul(tries);
            loop {
                let error = match self.tool.run(args.copy(), &turn).await {
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
                turn.tell(|| self.retried(retries, &error, delay));
                tracing::info!(tool = self.tool.name(), retries, "trying again in {delay:?}: {error}");
                tokio::time::sleep(delay).await;
            }
        })
    }
}

impl Settings {
    /// The pause before a further try. Chance shortens it by up to a quarter, so that those who failed
    /// together do not come back together.
    fn delay(&self, retries: u32) -> Duration {
        let grown = self.initial_delay.as_secs_f64() * self.factor.powi(retries.min(1_000) as i32);
        let delay = grown.min(self.max_delay.as_secs_f64());
        Duration::from_secs_f64(delay * (1.0 - fastrand::f64() / 4.0))
    }
}

impl Again {
    fn retried(&self, attempt: u32, error: &ToolError, delay: Duration) -> Notice {
        Notice::Retry {
            what: format!("tool {}", self.tool.name()),
            attempt,
            most: self.settings.max_retries,
            error: error.message.clone(),
            delay,
        }
    }
}
