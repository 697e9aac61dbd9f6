//! A filter: its hooks, what runs it and what it decides.

use super::hook::FilterContext;
use super::hook::{Hook, Hooks};
use crate::breaker::Breaker;
use crate::context::{FinishedChat, Turn};
use crate::fault::{BoxError, Breakage, Refusal, with_sources};
use crate::figures::{PromptCacheCount, PromptCacheTally};
use crate::lanes::{self, Pace, WaitEnd};
use std::sync::Arc;
use valvehouse_json::Json;

/// The answer of a hook.
#[derive(Debug)]
pub enum Verdict {
    /// Go on to the next filter with this.
    Continue(FilterContext),
    /// Stop the chain and use this value: as the answer, as the tool's result, as the final value.
    Skip(Json),
    /// Stop with an error.
    Error(Refusal),
}

/// The consequence of a breaking hook for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBreak {
    /// The request fails.
    #[default]
    Abort,
    /// The hook is skipped and the value stays as it was before it.
    Continue,
}

/// Runs when a hook's moment comes.
pub trait HookRunner: Send + Sync {
    /// One hook. `Err` is breakage; a decision is a [`Verdict`].
    fn run(&self, hook: Hook, ctx: FilterContext) -> Result<Verdict, Breakage>;

    /// The pace of this hook: one that may wait (for a person, a network) or take long runs where it holds up nobody
    /// else.
    fn pace(&self, hook: Hook, ctx: &FilterContext) -> Option<Pace> {
        let _ = (hook, ctx);
        None
    }

    /// It is not called, since it broke again and again and rests.
    fn rests(&self, hook: Hook) {
        let _ = hook;
    }

    /// The value that goes on when this filter is passed over, since it broke and is forgiven, or rests: the value as
    /// it is, with whatever of it the filter kept back earlier.
    fn bypass(&self, hook: Hook, ctx: FilterContext) -> Json {
        let _ = hook;
        ctx.value
    }

    /// Returns `true` if text of a stream may wait in this filter for its next events. Where a stream breaks,
    /// `stream_end` is then called with `broken_stream`, and returns what waited.
    fn withholds(&self) -> bool {
        false
    }

    /// Leaves the work for which the filter says that it [has some](Filter::leaving): it is called once, when a turn
    /// begins.
    fn leave(&self, conversation: &Arc<FinishedChat>, turn: &Turn) {
        let _ = (conversation, turn);
    }

    /// Returns an event to come ahead of this one, with nothing in it yet, where text waits that is over before
    /// this one: `stream` lets it out with that.
    fn ahead(&self, event: &Json, turn: &Turn) -> Option<Json> {
        let _ = (event, turn);
        None
    }
}

/// Returns the value that is passed to `stream_end` if a stream breaks.
pub(crate) fn broken_stream() -> Json {
    Json::from([("broken", true.into())])
}

/// Returns `true` if `stream_end` is called since a stream broke.
pub fn is_broken_stream(value: &Json) -> bool {
    value.get("broken").is_some_and(|broken| !broken.is_empty())
}

/// One filter of a chain; cheap to clone.
#[derive(Clone)]
pub struct Filter {
    pub(super) name: Arc<str>,
    pub(super) priority: f64,
    /// Runs after all others, whatever their priorities.
    pub(super) is_last: bool,
    pub(super) hooks: Hooks,
    /// The hooks whose pace depends on the size of their turn.
    pub(super) by_size: Hooks,
    pub(super) on_break: OnBreak,
    pub(super) sees_failures: bool,
    /// Has work for the time when the client has its answer.
    pub(super) leaves: bool,
    pub(super) breaker: Option<Arc<Breaker>>,
    pub(super) prompt_cache: Arc<PromptCacheTally>,
    pub(super) run: Arc<dyn HookRunner>,
}

impl Filter {
    /// A filter of these hooks.
    pub fn new(name: impl Into<Arc<str>>, hooks: Hooks, run: Arc<dyn HookRunner>) -> Self {
        Self {
            name: name.into(),
            priority: 0.0,
            is_last: false,
            hooks,
            by_size: Hooks::default(),
            on_break: OnBreak::Abort,
            sees_failures: false,
            leaves: false,
            breaker: None,
            prompt_cache: Arc::default(),
            run,
        }
    }

    /// A closure that runs before every model call.
    pub fn pre_chat(name: &str, run: impl HookClosure) -> Self {
        Self::closure(name, Hook::PreChat, run)
    }

    /// A closure that runs after every model call.
    pub fn post_chat(name: &str, run: impl HookClosure) -> Self {
        Self::closure(name, Hook::PostChat, run)
    }

    /// A closure that runs before every tool call.
    pub fn pre_invocation(name: &str, run: impl HookClosure) -> Self {
        Self::closure(name, Hook::PreInvocation, run)
    }

    /// A closure that runs after every tool call that succeeded.
    pub fn post_invocation(name: &str, run: impl HookClosure) -> Self {
        Self::closure(name, Hook::PostInvocation, run)
    }

    /// A closure for one moment.
    pub fn closure(name: &str, hook: Hook, run: impl HookClosure) -> Self {
        Self::new(name, Hooks::default().with(hook), Arc::new(Closure(run)))
    }

    /// An async closure for one moment.
    ///
    /// It may wait for as long as it likes: it runs on a stack of its own and holds up nobody meanwhile. `?` takes any
    /// error, which counts as breakage. A turn that ends early drops it.
    ///
    /// ```
    /// use valvehouse_core::filter::{Filter, Hook, Verdict::Continue};
    /// let polite = Filter::async_fn("polite", Hook::PreChat, |ctx| async move {
    ///     tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    ///     Ok(Continue(ctx))
    /// });
    /// ```
    pub fn async_fn<F>(
        name: &str,
        hook: Hook,
        run: impl Fn(FilterContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Verdict, BoxError>> + Send + 'static,
    {
        Self::new(name, Hooks::default().with(hook), Arc::new(AsyncClosure(run)))
    }

    /// The same filter, of which the pace of these hooks depends on [`Turn::size`](crate::context::Turn::size).
    #[must_use]
    pub fn by_size(mut self, hooks: Hooks) -> Self {
        self.by_size = hooks;
        self
    }

    /// The same filter at another place of the chain: lower runs first.
    #[must_use]
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = priority;
        self
    }

    /// The same filter behind all others, whatever their priorities.
    #[must_use]
    pub fn last(mut self) -> Self {
        (self.priority, self.is_last) = (f64::INFINITY, true);
        self
    }

    /// The same filter with another policy for breakage.
    #[must_use]
    pub fn on_break(mut self, on_break: OnBreak) -> Self {
        self.on_break = on_break;
        self
    }

    /// The same filter, whose `post_invocation` also runs after a tool that failed (`ctx.error`).
    #[must_use]
    pub fn seeing_failures(mut self, sees_failures: bool) -> Self {
        self.sees_failures = sees_failures;
        self
    }

    /// The same filter, with work for the time when the client has its answer: see [`HookRunner::leave`].
    #[must_use]
    pub fn leaving(mut self, leaves: bool) -> Self {
        self.leaves = leaves;
        self
    }

    /// The same filter, left alone for a while when it breaks again and again: skipped or, where it aborts,
    /// refusing at once.
    #[must_use]
    pub fn breaker(mut self, breaker: Arc<Breaker>) -> Self {
        self.breaker = Some(breaker);
        self
    }

    /// The same filter, which counts there in which requests it kept the prompt cache of the service.
    #[must_use]
    pub fn counting_prompt_cache(mut self, tally: Arc<PromptCacheTally>) -> Self {
        self.prompt_cache = tally;
        self
    }

    /// The requests in which it kept the prompt cache of the service, of those that were measured.
    pub fn prompt_cache(&self) -> PromptCacheCount {
        self.prompt_cache.count()
    }

    /// The same filter, which does not act at these moments.
    #[must_use]
    pub fn sparing(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.without(hooks);
        self
    }

    /// Its name, a script's id.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An event to come ahead of this one: see [`HookRunner::ahead`].
    pub(crate) fn ahead(&self, event: &Json, turn: &Turn) -> Option<Json> {
        self.run.ahead(event, turn)
    }

    /// Returns `true` if text of a stream may wait in it.
    pub(crate) fn withholds(&self) -> bool {
        self.run.withholds()
    }

    /// Its place in the chain.
    pub fn place(&self) -> f64 {
        self.priority
    }

    /// The moments it acts at.
    pub fn hooks(&self) -> Hooks {
        self.hooks
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.name, self.priority)
    }
}

/// The closure of a closure filter.
pub trait HookClosure: Fn(FilterContext) -> Result<Verdict, Breakage> + Send + Sync + 'static {}
impl<F: Fn(FilterContext) -> Result<Verdict, Breakage> + Send + Sync + 'static> HookClosure for F {}

struct Closure<F>(F);

impl<F: HookClosure> HookRunner for Closure<F> {
    fn run(&self, _: Hook, ctx: FilterContext) -> Result<Verdict, Breakage> {
        (self.0)(ctx)
    }
}

struct AsyncClosure<F>(F);

impl<F, A> HookRunner for AsyncClosure<F>
where
    F: Fn(FilterContext) -> A + Send + Sync,
    A: Future<Output = Result<Verdict, BoxError>> + Send + 'static,
{
    fn run(&self, _: Hook, ctx: FilterContext) -> Result<Verdict, Breakage> {
        match lanes::wait((self.0)(ctx), |aside| aside()) {
            Ok(verdict) => verdict.map_err(|error| Breakage::new(with_sources(&*error))),
            Err(WaitEnd::Over) => Err(Breakage::new("the turn ended while it waited")),
            Err(WaitEnd::Elsewhere) => {
                Err(Breakage::new("an async filter was called where nothing may wait"))
            }
        }
    }

    fn pace(&self, _: Hook, _: &FilterContext) -> Option<Pace> {
        Some(Pace::Waits)
    }
}
