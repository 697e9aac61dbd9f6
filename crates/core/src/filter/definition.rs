//! Filters: their hooks, runner and verdicts.

use super::hook::FilterContext;
use super::hook::{Hook, Hooks};
use crate::breaker::Breaker;
use crate::context::{FinishedChat, Turn};
use crate::error::{BoxError, PluginError, Rejection};
use crate::metrics::{PromptCacheCount, PromptCacheCounter};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use valvehouse_executor::Workload;
use valvehouse_json::Json;

/// The verdict of a hook.
#[derive(Debug)]
pub enum Verdict {
    /// Passes the subject, with its changes, to the next filter.
    Continue,
    /// Ends the chain with this value: as the answer, the tool result or the final value of the hook.
    Respond(Json),
    /// Ends the chain with an error.
    Reject(Rejection),
}

impl Verdict {
    /// Ends the chain with this value; see [`Verdict::Respond`].
    pub fn respond(value: impl Into<Json>) -> Self {
        Self::Respond(value.into())
    }

    /// Ends the chain with an error: a text, or a [`Rejection`] with a status.
    pub fn reject(rejection: impl Into<Rejection>) -> Self {
        Self::Reject(rejection.into())
    }
}

/// The policy for failures of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailurePolicy {
    /// The request fails.
    #[default]
    FailClosed,
    /// The filter is skipped: the value stays as it was before the hook.
    FailOpen,
}

/// The implementation of a filter's hooks.
pub trait HookRunner: Send + Sync {
    /// Runs one hook, which may change the value of `ctx`.
    ///
    /// # Errors
    /// Returns a plugin error if the hook fails. A decision to reject is a [`Verdict`].
    fn run(&self, hook: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError>;

    /// Returns the executor of this hook: `Some` for a hook that may wait (for a person or the network) or
    /// compute for long, which runs on a separate stack.
    fn workload(&self, hook: Hook, ctx: &FilterContext) -> Option<Workload> {
        let _ = (hook, ctx);
        None
    }

    /// Records that the hook was skipped because its circuit breaker is open.
    fn record_skipped(&self, hook: Hook) {
        let _ = hook;
    }

    /// Returns the value for the next filter if this filter is skipped: the current value, including any stream
    /// text that the filter withheld earlier.
    fn bypass(&self, hook: Hook, ctx: FilterContext) -> Json {
        let _ = hook;
        ctx.value
    }

    /// Returns `true` if this filter can withhold stream text until its next events. If the stream breaks,
    /// `stream_end` is called with `broken_stream` and returns the withheld text.
    fn withholds(&self) -> bool {
        false
    }

    /// Schedules the filter's work for after the answer (see [`FilterEntry::leaving`]). It is called once, at the
    /// start of a turn.
    fn leave(&self, conversation: &Arc<FinishedChat>, turn: &Turn) {
        let _ = (conversation, turn);
    }

    /// Returns an empty event to be sent before this one if withheld text ends with this event. `stream` then
    /// adds the text to the empty event.
    fn ahead(&self, event: &Json, turn: &Turn) -> Option<Json> {
        let _ = (event, turn);
        None
    }
}

/// Returns the value passed to `stream_end` if a stream breaks.
pub(crate) fn broken_stream() -> Json {
    Json::from([("broken", true.into())])
}

/// Returns `true` if `stream_end` is called because the stream broke.
pub fn is_broken_stream(value: &Json) -> bool {
    value.get("broken").is_some_and(|broken| !broken.is_empty())
}

/// The hooks of a filter that run in the task of their turn.
pub(super) trait AsyncHooks: Send + Sync {
    /// Runs a hook, which may change the value of `ctx`.
    fn run<'a>(
        &'a self,
        hook: Hook,
        ctx: &'a mut FilterContext,
    ) -> BoxFuture<'a, Result<Verdict, PluginError>>;
}

/// The implementation of the hooks of a filter.
#[derive(Clone)]
pub(super) enum Run {
    /// Hooks that run on the caller's thread or, where they wait, on a separate stack.
    Sync(Arc<dyn HookRunner>),
    /// Hooks that run in the task of their turn.
    Async(Arc<dyn AsyncHooks>),
}

/// A filter of a chain: its name, its place and its policies. Cheap to clone.
///
/// Any [`Filter`](super::Filter) converts to an entry.
#[derive(Clone)]
pub struct FilterEntry {
    pub(super) name: Arc<str>,
    pub(super) priority: f64,
    /// Set if the filter runs after all others, regardless of priority.
    pub(super) is_last: bool,
    pub(super) hooks: Hooks,
    /// The hooks whose executor depends on the size of the turn.
    pub(super) by_size: Hooks,
    pub(super) failure_policy: FailurePolicy,
    pub(super) sees_failures: bool,
    /// Set if the filter schedules work for the time after the answer.
    pub(super) leaves: bool,
    /// Set if the filter reads the usage of answers.
    pub(super) reads_usage: bool,
    pub(super) breaker: Option<Arc<Breaker>>,
    pub(super) prompt_cache: Arc<PromptCacheCounter>,
    /// Set for a filter in audit mode, which runs on copies.
    pub(super) is_audited: bool,
    /// Set for a guard, which also runs if another filter routes to a model with it.
    pub(super) is_guard: bool,
    pub(super) run: Run,
}

impl FilterEntry {
    /// Creates a filter with these hooks.
    pub fn new(name: impl Into<Arc<str>>, hooks: Hooks, run: Arc<dyn HookRunner>) -> Self {
        Self::with_run(name.into(), hooks, Run::Sync(run))
    }

    /// Creates a filter with hooks that run in the task of their turn.
    pub(super) fn asynchronous(name: impl Into<Arc<str>>, hooks: Hooks, run: Arc<dyn AsyncHooks>) -> Self {
        Self::with_run(name.into(), hooks, Run::Async(run))
    }

    fn with_run(name: Arc<str>, hooks: Hooks, run: Run) -> Self {
        Self {
            name,
            priority: 0.0,
            is_last: false,
            hooks,
            by_size: Hooks::default(),
            failure_policy: FailurePolicy::FailClosed,
            sees_failures: false,
            leaves: false,
            reads_usage: false,
            breaker: None,
            prompt_cache: Arc::default(),
            is_audited: false,
            is_guard: false,
            run,
        }
    }

    /// Creates a filter from a closure for a hook that is known at run time only. The functions of
    /// [`filter`](super), such as [`pre_chat`](super::pre_chat), pass the type of their hook instead.
    pub fn closure(name: &str, hook: Hook, run: impl HookClosure) -> Self {
        Self::new(name, Hooks::default().with(hook), Arc::new(Closure(run)))
    }

    /// Marks hooks whose executor depends on [`Turn::size`](crate::context::Turn::size).
    #[must_use]
    pub fn by_size(mut self, hooks: Hooks) -> Self {
        self.by_size = hooks;
        self
    }

    /// Sets the priority, which is the position in the chain: lower values run first.
    #[must_use]
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = priority;
        self
    }

    /// Makes the filter run after all others, regardless of priority.
    #[must_use]
    pub fn last(mut self) -> Self {
        (self.priority, self.is_last) = (f64::INFINITY, true);
        self
    }

    /// Sets the policy for failures.
    #[must_use]
    pub fn failure_policy(mut self, failure_policy: FailurePolicy) -> Self {
        self.failure_policy = failure_policy;
        self
    }

    /// Sets whether `post_invocation` also runs after a failed tool call, with the error in `ctx.error`.
    #[must_use]
    pub fn seeing_failures(mut self, sees_failures: bool) -> Self {
        self.sees_failures = sees_failures;
        self
    }

    /// Sets whether the filter schedules work for the time after the answer; see [`HookRunner::leave`].
    #[must_use]
    pub fn leaving(mut self, leaves: bool) -> Self {
        self.leaves = leaves;
        self
    }

    /// Sets whether the filter reads the usage of answers. Services are asked for that of streamed answers then, and
    /// clients that did not ask do not receive it.
    #[must_use]
    pub fn reading_usage(mut self, reads_usage: bool) -> Self {
        self.reads_usage = reads_usage;
        self
    }

    /// Attaches a circuit breaker: after repeated failures the filter is skipped or, with [`FailurePolicy::FailClosed`],
    /// rejects at once until the cool-down ends.
    #[must_use]
    pub fn breaker(mut self, breaker: Arc<Breaker>) -> Self {
        self.breaker = Some(breaker);
        self
    }

    /// Counts the requests in which the filter preserves the provider's prompt cache in this call_metrics.
    #[must_use]
    pub fn counting_prompt_cache(mut self, call_metrics: Arc<PromptCacheCounter>) -> Self {
        self.prompt_cache = call_metrics;
        self
    }

    /// Sets whether the filter is in audit mode: it runs on copies, and its verdicts are counted and traced instead of
    /// applied.
    #[must_use]
    pub fn audited(mut self, is_audited: bool) -> Self {
        self.is_audited = is_audited;
        self
    }

    /// Sets whether the filter is a guard: it also runs in a turn that another filter routes to a model with it.
    #[must_use]
    pub fn guarding(mut self, is_guard: bool) -> Self {
        self.is_guard = is_guard;
        self
    }

    /// Returns the number of measured requests, and of those in which the filter changed the cached prefix.
    pub fn prompt_cache(&self) -> PromptCacheCount {
        self.prompt_cache.count()
    }

    /// Removes these hooks from the filter.
    #[must_use]
    pub fn sparing(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.without(hooks);
        self
    }

    /// Returns the name, for a script its id.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns an event to be sent before this one; see [`HookRunner::ahead`].
    pub(crate) fn ahead(&self, event: &Json, turn: &Turn) -> Option<Json> {
        self.applying_run()?.ahead(event, turn)
    }

    /// Returns `true` if the filter can withhold stream text.
    pub(crate) fn withholds(&self) -> bool {
        self.applying_run().is_some_and(|run| run.withholds())
    }

    /// Returns the hooks of a filter that does not run in the task of its turn, unless it is in audit mode.
    fn applying_run(&self) -> Option<&dyn HookRunner> {
        self.sync_run().filter(|_| !self.is_audited)
    }

    /// Returns the hooks of a filter that does not run in the task of its turn.
    pub(super) fn sync_run(&self) -> Option<&dyn HookRunner> {
        match &self.run {
            Run::Sync(run) => Some(&**run),
            Run::Async(_) => None,
        }
    }

    /// Returns the priority.
    pub fn place(&self) -> f64 {
        self.priority
    }

    /// Returns the hooks of the filter.
    pub fn hooks(&self) -> Hooks {
        self.hooks
    }
}

impl std::fmt::Debug for FilterEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.name, self.priority)
    }
}

/// A closure that implements a hook.
pub trait HookClosure: Fn(&mut FilterContext) -> Result<Verdict, BoxError> + Send + Sync + 'static {}
impl<F: Fn(&mut FilterContext) -> Result<Verdict, BoxError> + Send + Sync + 'static> HookClosure for F {}

struct Closure<F>(F);

impl<F: HookClosure> HookRunner for Closure<F> {
    fn run(&self, _: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        (self.0)(ctx).map_err(PluginError::of)
    }
}
