//! Tools that can be called: a specification and a handler.

use super::parameters::Parameters;
use super::result::{ToolError, ToolResult};
use super::spec::{Retry, ToolSpec};
use super::task;
use crate::context::{Context, Notice, NoticeKind, Turn};
use crate::error::{DeclarationError, Rejection};
use crate::filter::FilterEntry;
use crate::metrics::{ToolOutcome, Uses};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use valvehouse_json::Json;

/// The maximum total of the delays before retries in one turn, over all tools.
const MAX_DELAYS: Duration = Duration::from_secs(120);

/// The time that the host itself may spend between the attempts of a tool call, in total.
const GRACE: Duration = Duration::from_millis(250);

/// The total of the delays before retries in one turn.
#[derive(Default)]
struct Delays(Mutex<Duration>);

impl Delays {
    /// Adds a delay; returns `false` if the total would exceed its limit.
    fn add(&self, delay: Duration) -> bool {
        let mut all = self.0.lock();
        let sum = all.saturating_add(delay);
        let fits = sum <= MAX_DELAYS;
        if fits {
            *all = sum;
        }
        fits
    }
}

/// The implementation of a tool.
pub trait Handler: Send + Sync {
    /// Runs one attempt of a call within the tool's timeout. `turn.context()` holds variables of this attempt.
    ///
    /// # Errors
    /// Returns a tool error, which is retried as the specification permits and otherwise returned to the model.
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>>;
}

impl<F, A> Handler for F
where
    F: Fn(Json, Context) -> A + Send + Sync,
    A: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
{
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(self(args, turn.context().clone()))
    }
}

/// A tool: its specification, its handler and its own filters. Cheap to clone.
#[derive(Clone)]
pub struct Tool {
    /// The specification.
    pub spec: Arc<ToolSpec>,
    /// The filters for this tool, in addition to the kernel's.
    pub filters: Vec<FilterEntry>,
    handler: Arc<dyn Handler>,
    metrics: Arc<Uses>,
}

impl Tool {
    /// Creates a tool from a specification and a handler.
    pub fn new(spec: ToolSpec, handler: impl Handler + 'static) -> Self {
        let metrics = Arc::default();
        Self { spec: Arc::new(spec), filters: Vec::new(), handler: Arc::new(handler), metrics }
    }

    /// Creates a tool from a function of its arguments as JSON. The function may block: it runs on a blocking
    /// thread, and its timeout ends only the wait for it.
    pub fn from_json_fn(
        name: &str,
        run: impl Fn(Json) -> Result<ToolResult, ToolError> + Send + Sync + 'static,
    ) -> Self {
        Self::from_json_fn_with_context(name, move |args, _| run(args))
    }

    /// Creates a tool from a function of its arguments as JSON and the context of the turn; see
    /// [`Tool::from_json_fn`].
    pub fn from_json_fn_with_context(
        name: &str,
        run: impl Fn(Json, Context) -> Result<ToolResult, ToolError> + Send + Sync + 'static,
    ) -> Self {
        let run = Arc::new(run);
        Self::new(ToolSpec::new(name), move |args: Json, context: Context| {
            let run = run.clone();
            task::blocking(move || run(args, context))
        })
    }

    /// Changes the specification.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        let mut spec = (*self.spec).clone();
        change(&mut spec);
        self.spec = Arc::new(spec);
        self
    }

    /// Sets the parameters from a declaration; see [`Parameters::declare`].
    ///
    /// # Errors
    /// Returns every problem with the declaration.
    pub fn parameters(self, declared: &Json) -> Result<Self, DeclarationError> {
        let parameters = Parameters::declare(declared)?;
        Ok(self.with_spec(|spec| spec.parameters = parameters))
    }

    /// Sets the description, from which a model decides when to use the tool.
    #[must_use]
    pub fn description(self, text: &str) -> Self {
        self.with_spec(|spec| spec.description = text.to_owned())
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(self, tag: &str) -> Self {
        self.with_spec(|spec| spec.tags.push(tag.to_owned()))
    }

    /// Sets the timeout of one attempt.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with_spec(|spec| spec.timeout = timeout)
    }

    /// Sets the maximum number of retries after a failure, and the delay before each.
    #[must_use]
    pub fn retry(self, max: u32, delay: Duration) -> Self {
        self.with_spec(|spec| spec.retry = Retry { max, delay })
    }

    /// Marks the tool as idempotent: it may run again if it is unknown whether it ran.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.with_spec(|spec| spec.idempotent = true)
    }

    /// Counts the tool's calls in these metrics.
    #[must_use]
    pub fn counting(mut self, metrics: Arc<Uses>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the description that filters receive: that of the specification with its settings, `{…, timeout, retry,
    /// filters}`, in milliseconds. The handler is not a value of scripts.
    pub fn describe(&self) -> Json {
        let about = self.spec.describe();
        let milliseconds = |time: Duration| Json::from(time.as_millis() as u64);
        about.put("tag", about.field("tags").deep_clone());
        about.put("timeout", milliseconds(self.spec.timeout));
        let Retry { max, delay } = self.spec.retry;
        about.put("retry", Json::from([("max", u64::from(max).into()), ("delay", milliseconds(delay))]));
        let filters = self.filters.iter().map(|filter| filter.name().into());
        about.put("filters", filters.collect::<Vec<Json>>());
        about
    }

    /// Returns the metrics of the tool's calls.
    pub fn metrics(&self) -> &Uses {
        &self.metrics
    }

    /// Checks the arguments and runs the tool without filters, with the timeout and retries of its
    /// specification.
    ///
    /// # Errors
    /// Returns an error if the arguments are invalid or the last attempt fails.
    pub async fn invoke(&self, args: Json, turn: &Turn) -> Result<ToolResult, ToolError> {
        self.run(self.check(&args)?, turn).await
    }

    /// Returns the arguments in their declared types.
    ///
    /// # Errors
    /// Returns an error for the model that lists every problem with the arguments.
    pub fn check(&self, args: &Json) -> Result<Json, ToolError> {
        let checked = self.spec.parameters.check(args);
        checked.map_err(|error| Rejection::new(format!("cannot run {}: {error}", self.spec.name)).into())
    }

    /// Runs the tool with checked arguments, with the timeout and retries of its specification. All attempts
    /// and their delays take at most the timeout times the number of attempts, and the delays of all tools in
    /// one turn at most two minutes. A retry that would exceed either limit is omitted.
    ///
    /// # Errors
    /// Returns the error of the last attempt.
    pub async fn run(&self, args: Json, turn: &Turn) -> Result<ToolResult, ToolError> {
        let using = self.metrics.begin();
        let end = Instant::now() + self.spec.timeout.saturating_mul(self.spec.retry.max.saturating_add(1));
        let mut tries = 0;
        loop {
            let (result, ending) = self.try_once(&args, turn, end).await;
            match result {
                Err(error)
                    if !error.fatal
                        && !error.is_answer
                        && tries < self.spec.retry.max
                        && !turn.is_paused()
                        && self.may_delay(self.spec.retry.delay, end, turn) =>
                {
                    tries += 1;
                    let Retry { max, delay } = self.spec.retry;
                    turn.notify(NoticeKind::Retry, || self.retry_notice(tries, max, &error, delay));
                    tracing::info!(tool = self.spec.name, tries, "retrying the tool: {error}");
                    tokio::time::sleep(self.spec.retry.delay).await;
                }
                result => {
                    using.ends(if turn.is_paused() { ToolOutcome::Paused } else { ending });
                    return result;
                }
            }
        }
    }

    /// Returns `true` if a retry after this delay is within both limits, and adds the delay to the turn's
    /// total.
    pub fn may_delay(&self, delay: Duration, end: Instant, turn: &Turn) -> bool {
        let is_allowed = Instant::now() + delay < end && turn.local::<Delays>().add(delay);
        if !is_allowed {
            tracing::info!(
                tool = self.spec.name,
                ?delay,
                "cannot retry the tool: the delay exceeds the time limit"
            );
        }
        is_allowed
    }

    async fn try_once(
        &self,
        args: &Json,
        turn: &Turn,
        end: Instant,
    ) -> (Result<ToolResult, ToolError>, ToolOutcome) {
        // A panic ends only this call.
        let fork = turn.context().fork();
        let known = fork.trace().items().len();
        let own = turn.in_context(fork.clone());
        let call = async { self.handler.call(args.deep_clone(), own).await };
        let call = AssertUnwindSafe(call).catch_unwind();
        let name = &self.spec.name;
        let left = end.saturating_duration_since(Instant::now()) + GRACE;
        let timeout = self.spec.timeout.min(left);
        let end = tokio::time::timeout(timeout, call).await;
        // A paused call runs again and then makes its calls again.
        if !turn.is_paused() {
            turn.context().take_trace(&fork, known);
        }
        match end {
            Ok(Ok(result)) => {
                let ending = if result.is_ok() { ToolOutcome::Well } else { ToolOutcome::Failed };
                (result, ending)
            }
            Ok(Err(_)) => (Err(format!("tool {name} panicked").into()), ToolOutcome::Panicked),
            Err(_) => {
                let limit = timeout.as_millis();
                tracing::warn!(
                    tool = name,
                    "the tool did not end within {limit} ms; its `timeout` sets the limit of one attempt"
                );
                (Err(format!("tool {name} did not end within {limit} ms").into()), ToolOutcome::TooSlow)
            }
        }
    }
}

impl Tool {
    /// Returns the notice of a retry of this tool.
    pub fn retry_notice(&self, attempt: u32, most: u32, error: &ToolError, delay: Duration) -> Notice {
        let (what, error) = (format!("tool {}", self.spec.name), error.message.clone());
        Notice::Retry { what, attempt, most, error, delay }
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tool({})", self.spec.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a tool that always fails, and a counter of its attempts.
    fn failing(retry: u32, delay: Duration, timeout: Duration) -> (Tool, Arc<Mutex<u32>>) {
        let tries = Arc::new(Mutex::new(0));
        let counted = tries.clone();
        let fail = move |_: Json| {
            *counted.lock() += 1;
            Err("no".into())
        };
        (Tool::from_json_fn("fails", fail).retry(retry, delay).timeout(timeout), tries)
    }

    #[tokio::test(start_paused = true)]
    async fn retries_end_with_the_timeout_times_the_attempts() {
        let (tool, tries) = failing(10, Duration::from_secs(60), Duration::from_secs(5));
        let began = Instant::now();
        tool.invoke(Json::object(), &Turn::default()).await.unwrap_err();
        assert!(began.elapsed() <= Duration::from_secs(55), "{:?}", began.elapsed());
        assert_eq!(*tries.lock(), 1);
        let (tool, tries) = failing(10, Duration::from_millis(900), Duration::from_secs(1));
        tool.invoke(Json::object(), &Turn::default()).await.unwrap_err();
        assert_eq!(*tries.lock(), 11);
    }

    #[tokio::test(start_paused = true)]
    async fn the_delays_of_all_tools_of_a_turn_are_bounded() {
        let turn = Turn::default();
        let began = Instant::now();
        for _ in 0..5 {
            let (tool, _) = failing(10, Duration::from_secs(60), Duration::from_secs(3_600));
            tool.invoke(Json::object(), &turn).await.unwrap_err();
        }
        assert_eq!(began.elapsed().as_secs(), MAX_DELAYS.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_attempt_has_only_the_remaining_time() {
        let hang = |_: Json, _: Context| std::future::pending::<Result<ToolResult, ToolError>>();
        let tool = Tool::new(ToolSpec::new("hangs"), hang).retry(1, Duration::from_millis(500));
        let tool = tool.timeout(Duration::from_secs(1));
        let began = Instant::now();
        let error = tool.invoke(Json::object(), &Turn::default()).await.unwrap_err();
        assert_eq!(began.elapsed(), Duration::from_secs(2) + GRACE);
        assert!(error.message.contains("did not end within 750 ms"), "{error}");
    }
}
