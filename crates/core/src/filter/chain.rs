//! A chain of filters: each filter receives the value that the previous one returned.

use super::definition::{AsyncHooks, FailurePolicy, FilterEntry, HookRunner, Run, Verdict};
use super::hook::FilterContext;
use super::hook::{Hook, Hooks};
use crate::breaker::BreakerState;
use crate::context::{FinishedChat, Turn};
use crate::error::{Error, PluginError, Rejection};
use crate::trace::{End, PromptCacheWatch, What};
use compact_str::CompactString;
use futures_util::FutureExt;
use parking_lot::Mutex;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use valvehouse_executor::{self as executor, ExecutorError, STUCK, Workload};
use valvehouse_json::Json;

/// The maximum number of events that a hook can return for one event.
const MAX_EVENTS: usize = 1_000;
/// The maximum memory of these events, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The filter that ended a chain last.
#[derive(Default)]
struct AnsweredBy(Mutex<Arc<str>>);

/// Filters in running order, indexed by hook. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Chain(Arc<FilterOrder>);

#[derive(Debug, Default)]
struct FilterOrder {
    filters: Vec<FilterEntry>,
    at: [Vec<usize>; Hook::ALL.len()],
    hooks: Hooks,
    /// The hooks whose executor any filter chooses by the size of the turn.
    by_size: Hooks,
    /// Set if any filter schedules work for the time after the answer.
    leaves: bool,
    /// Set if any filter reads the usage of answers.
    reads_usage: bool,
}

/// The outcome of a chain.
#[derive(Debug)]
pub enum ChainOutcome {
    /// All filters continued; this is the final value.
    Done(Json),
    /// A filter ended the chain with this value.
    Skipped(Json),
}

impl Chain {
    /// Creates a chain of filters in ascending priority; filters of equal priority stay in order.
    pub fn new(mut filters: Vec<FilterEntry>) -> Self {
        filters.sort_by(|a, b| a.is_last.cmp(&b.is_last).then(a.priority.total_cmp(&b.priority)));
        let mut sorted = FilterOrder::default();
        for (index, filter) in filters.iter().enumerate() {
            for hook in filter.hooks.iter() {
                sorted.at[hook as usize].push(index);
                sorted.hooks = sorted.hooks.with(hook);
                if filter.by_size.contains(hook) {
                    sorted.by_size = sorted.by_size.with(hook);
                }
            }
        }
        sorted.leaves = filters.iter().any(|filter| filter.leaves);
        sorted.reads_usage = filters.iter().any(|filter| filter.reads_usage);
        sorted.filters = filters;
        Self(Arc::new(sorted))
    }

    /// Returns the filters in running order.
    pub fn filters(&self) -> &[FilterEntry] {
        &self.0.filters
    }

    /// Returns the guards whose verdicts count, which those in audit mode do not.
    pub fn guards(&self) -> impl Iterator<Item = &FilterEntry> {
        self.filters().iter().filter(|filter| filter.is_guard && !filter.is_audited)
    }

    /// Returns the filters that are missing in another chain.
    fn beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a FilterEntry> {
        self.filters().iter().filter(|filter| !other.filters().iter().any(|own| own.name == filter.name))
    }

    /// Returns the guards that are missing in another chain.
    pub(crate) fn guards_beside(&self, other: &Self) -> Self {
        Self::new(self.beside(other).filter(|filter| filter.is_guard).cloned().collect())
    }

    /// Returns the guards that check an answer which a filter of this turn has given: all but that filter.
    pub(crate) fn guards_of_given(&self, turn: &Turn) -> Self {
        let by = turn.local::<AnsweredBy>().0.lock().clone();
        let guards = self.filters().iter().filter(|filter| filter.is_guard && filter.name != by);
        Self::new(guards.cloned().collect())
    }

    /// Returns this chain with the filters of another one that it does not have.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        Self::new(self.filters().iter().chain(other.beside(self)).cloned().collect())
    }

    /// Returns `true` if any filter has this hook.
    pub fn has(&self, hook: Hook) -> bool {
        self.0.hooks.contains(hook)
    }

    /// Returns the filters with this hook, in running order.
    pub fn at(&self, hook: Hook) -> impl Iterator<Item = &FilterEntry> {
        self.at_from(hook, 0).map(|(_, filter)| filter)
    }

    /// Returns the filters with this hook from a position in the chain on, each with its position.
    pub(crate) fn at_from(&self, hook: Hook, place: usize) -> impl Iterator<Item = (usize, &FilterEntry)> {
        let places = self.0.at[hook as usize].iter().copied();
        places.filter(move |own| *own >= place).map(|own| (own, &self.0.filters[own]))
    }

    /// Returns `true` if any filter schedules work for the time after the answer.
    pub fn leaves_work(&self) -> bool {
        self.0.leaves
    }

    /// Returns `true` if any filter reads the usage of answers.
    pub fn reads_usage(&self) -> bool {
        self.0.reads_usage
    }

    /// Lets the filters schedule work for the time after the answer.
    pub(crate) fn leave(&self, conversation: &Arc<FinishedChat>, turn: &Turn) {
        self.0
            .filters
            .iter()
            .filter(|filter| filter.leaves)
            .filter_map(|filter| filter.sync_run())
            .for_each(|run| run.leave(conversation, turn));
    }

    /// Returns `true` if any filter handles failed tool calls.
    pub(crate) fn sees_failures(&self) -> bool {
        self.at(Hook::PostInvocation).any(|filter| filter.sees_failures)
    }

    /// Runs the filters of a hook in ascending priority until one of them does not continue.
    ///
    /// # Errors
    /// Returns the error of a filter that refused or failed.
    pub async fn run(&self, hook: Hook, value: Json, turn: &Turn) -> Result<ChainOutcome, Error> {
        self.run_those(hook, value, turn, |_| true).await
    }

    /// Runs `post_invocation` after a failed tool call, for the filters that handle failures.
    pub(crate) async fn run_after_failure(&self, value: Json, turn: &Turn) -> Result<ChainOutcome, Error> {
        self.run_those(Hook::PostInvocation, value, turn, |filter| filter.sees_failures).await
    }

    /// Measures the effect on the prompt cache of a model call, for a sample of the traced requests.
    fn watch(&self, hook: Hook, value: &Json, turn: &Turn) -> Option<Box<PromptCacheWatch>> {
        match hook {
            Hook::Inlet | Hook::PreChat if self.has(hook) => {
                turn.trace()?.watch_prompt_cache(hook.name(), value)
            }
            _ => None,
        }
    }

    async fn run_those(
        &self,
        hook: Hook,
        value: Json,
        turn: &Turn,
        those: impl Fn(&FilterEntry) -> bool,
    ) -> Result<ChainOutcome, Error> {
        if self.0.by_size.contains(hook) {
            note_size(hook, &value, turn);
        }
        let (mut value, mut end) = (value, None);
        let mut watch = self.watch(hook, &value, turn);
        for filter in self.at(hook).filter(|filter| those(filter)) {
            match step(filter, hook, value, turn, &mut end).await? {
                ChainOutcome::Done(next) => {
                    value = next;
                    if let Some(watch) = &mut watch {
                        watch.after(&filter.prompt_cache, &value);
                    }
                }
                skipped @ ChainOutcome::Skipped(_) => {
                    *turn.local::<AnsweredBy>().0.lock() = filter.name.clone();
                    return Ok(skipped);
                }
            }
        }
        if let Some(watch) = watch {
            watch.finish();
        }
        Ok(ChainOutcome::Done(value))
    }
}

/// Records the size of a value passed to filters: once for the request, and each time for later values. Long
/// stream events are recorded by their source.
fn note_size(hook: Hook, value: &Json, turn: &Turn) {
    let is_noted = match hook {
        Hook::Stream | Hook::StreamEnd => true,
        Hook::Inlet | Hook::PreChat => turn.size() > 0,
        _ => false,
    };
    if !is_noted {
        turn.note_size(value.size_estimate());
    }
}

/// Runs one filter and records it in the trace of the turn, if any. `end` is the end of the previous filter; it
/// is set to the end of this one.
///
/// # Errors
/// Returns the error of a filter that refused or failed.
pub async fn step(
    filter: &FilterEntry,
    hook: Hook,
    value: Json,
    turn: &Turn,
    end: &mut Option<End>,
) -> Result<ChainOutcome, Error> {
    let Some(trace) = turn.trace() else { return run_for_trace(filter, hook, value, turn).await.outcome };
    let step = trace.begin_after(end.take(), What::Hook(&filter.name, hook.name()), &value);
    let TraceOutcome { word, cause, outcome, audited } = run_for_trace(filter, hook, value, turn).await;
    let after = match &outcome {
        Ok(ChainOutcome::Done(value) | ChainOutcome::Skipped(value)) => audited.as_ref().or(Some(value)),
        Err(_) => None,
    };
    *end = step.end(word, cause.as_deref(), after);
    outcome
}

/// The outcome of one filter, with its description for traces.
pub struct TraceOutcome {
    /// The name of the outcome.
    pub word: &'static str,
    /// The reason for a failure, if any.
    pub cause: Option<String>,
    /// The outcome, or the error that ends the turn.
    pub outcome: Result<ChainOutcome, Error>,
    /// The value that a filter in audit mode would have passed on.
    pub audited: Option<Json>,
}

/// Runs one filter and describes its outcome.
pub async fn run_for_trace(filter: &FilterEntry, hook: Hook, value: Json, turn: &Turn) -> TraceOutcome {
    if filter.is_audited {
        return Box::pin(audit(filter, hook, value, turn)).await;
    }
    let Decision { outcome, passed_over } = decide(filter, hook, value, turn).await;
    let (word, cause) = match (passed_over, &outcome) {
        (Some((word, cause)), _) => (word, Some(cause)),
        (None, Ok(ChainOutcome::Done(_))) => ("continue", None),
        (None, Ok(ChainOutcome::Skipped(_))) => ("skip", None),
        (None, Err(Error::Rejected(rejection))) => ("refused", Some(rejection.message.clone())),
        (None, Err(Error::Broken(failure))) => ("failed", Some(failure.cause.clone())),
        (None, Err(Error::Paused)) => ("paused", None),
        (None, Err(_)) => ("failed", None),
    };
    TraceOutcome { word, cause, outcome, audited: None }
}

/// Runs a filter in audit mode on a copy of the value, and returns the value unchanged.
async fn audit(filter: &FilterEntry, hook: Hook, value: Json, turn: &Turn) -> TraceOutcome {
    let apart = turn.audited(&filter.name, hook == Hook::Stream);
    let copy = copied(hook, &value, |name, _| match name {
        "context" => apart.context().as_json(),
        _ => apart.metadata().clone(),
    });
    let Decision { outcome, passed_over } = decide(filter, hook, copy, &apart).await;
    let (word, cause, audited) = match (passed_over, outcome) {
        (Some((_, cause)), _) => ("would_fail", Some(cause), None),
        (None, Ok(ChainOutcome::Done(next))) => {
            let word = if is_unchanged(hook, &value, &next) { "continue" } else { "would_change" };
            (word, None, Some(next))
        }
        (None, Ok(ChainOutcome::Skipped(instead))) => ("would_skip", None, Some(instead)),
        (None, Err(Error::Rejected(rejection))) => ("would_refuse", Some(rejection.message), None),
        (None, Err(Error::Broken(failure))) => ("would_fail", Some(failure.cause), None),
        (None, Err(error)) => ("would_fail", Some(error.to_string()), None),
    };
    TraceOutcome { word, cause, outcome: Ok(ChainOutcome::Done(value)), audited }
}

/// Returns `true` if a hook left its own parts of a value unchanged.
fn is_unchanged(hook: Hook, before: &Json, after: &Json) -> bool {
    let own = |value: &Json| match value {
        Json::Object(parts) if hook.has_ctx() => {
            Json::Object(parts.entries().into_iter().filter(|(name, _)| !is_of_turn(name)).collect())
        }
        value => value.clone(),
    };
    // Events that were not there and are not there now: `null` and `[]`.
    own(before) == own(after) || hook == Hook::StreamEnd && before.is_empty() && after.is_empty()
}

/// The outcome of one filter.
struct Decision {
    outcome: Result<ChainOutcome, Error>,
    /// The name and the reason if the filter was skipped.
    passed_over: Option<(&'static str, String)>,
}

impl From<Result<ChainOutcome, Error>> for Decision {
    fn from(outcome: Result<ChainOutcome, Error>) -> Self {
        Self { outcome, passed_over: None }
    }
}

impl Decision {
    /// Creates the outcome of a failure that the policy ignores.
    fn ignored(outcome: ChainOutcome, cause: String) -> Self {
        Self { outcome: Ok(outcome), passed_over: Some(("ignored", cause)) }
    }
}

/// Runs one filter and applies its failure policy.
async fn decide(filter: &FilterEntry, hook: Hook, value: Json, turn: &Turn) -> Decision {
    let admission = filter
        .breaker
        .as_ref()
        .map_or(BreakerState::Closed, |breaker| breaker.admit(|| turn.facts().client_digest()));
    if let (Some(breaker), BreakerState::Open(rest)) = (&filter.breaker, admission) {
        return skipped(filter, hook, value, breaker.rejection(rest), turn);
    }
    // A copy is needed only for a filter whose failures are ignored.
    let before = (filter.failure_policy == FailurePolicy::FailOpen).then(|| Before::of(hook, &value));
    let ctx = FilterContext { value, turn: turn.clone() };
    let verdict = match &filter.run {
        Run::Sync(run) => match run.workload(hook, &ctx) {
            None => call(&**run, hook, ctx),
            // The box keeps the future of all other calls small.
            Some(workload) => Box::pin(apart(filter.clone(), run.clone(), hook, ctx, workload)).await,
        },
        Run::Async(run) => Box::pin(await_hook(&**run, hook, ctx)).await,
    };
    settled(filter, hook, verdict, before, admission, turn)
}

/// The verdict of a hook and the value that it leaves, or its failure.
type HookEnd = Result<(Verdict, Json), PluginError>;

/// Runs a hook that may wait or compute for long on a separate stack.
async fn apart(
    filter: FilterEntry,
    run: Arc<dyn HookRunner>,
    hook: Hook,
    ctx: FilterContext,
    workload: Workload,
) -> HookEnd {
    let called = executor::run_for(&filter.name, workload, move || call(&*run, hook, ctx)).await;
    if let (Err(ExecutorError::Stuck), Some(breaker)) = (&called, filter.breaker) {
        breaker.trip(STUCK);
    }
    called.unwrap_or_else(|error| Err(error.into()))
}

/// Runs a hook in the task of its turn. A panic ends only this call.
async fn await_hook(run: &dyn AsyncHooks, hook: Hook, mut ctx: FilterContext) -> HookEnd {
    let verdict = AssertUnwindSafe(run.run(hook, &mut ctx)).catch_unwind().await;
    let verdict = verdict.unwrap_or_else(|panic| Err(panicked(&*panic)))?;
    Ok((verdict, ctx.value))
}

/// Applies the failure policy to the result of a hook.
fn settled(
    filter: &FilterEntry,
    hook: Hook,
    verdict: HookEnd,
    before: Option<Before>,
    admission: BreakerState,
    turn: &Turn,
) -> Decision {
    if turn.is_paused() {
        // The result is discarded: the step runs again once the question is answered.
        return Err(Error::Paused).into();
    }
    let verdict = match verdict {
        // Nearly all calls: their result is moved once.
        Ok((Verdict::Continue, value)) if wrong_events(hook, &Verdict::Continue, &value).is_none() => {
            if let Some(breaker) = &filter.breaker {
                breaker.record(admission, None, || turn.facts().client_digest());
            }
            return Ok(ChainOutcome::Done(value)).into();
        }
        other => other,
    };
    let verdict = verdict.and_then(|(verdict, value)| match wrong_events(hook, &verdict, &value) {
        Some(wrong) => Err(PluginError::new(wrong)),
        None => Ok((verdict, value)),
    });
    if let Some(breaker) = &filter.breaker {
        match verdict.as_ref().err() {
            // A call that was canceled with its turn is not a failure of the filter.
            Some(_) if turn.is_over() => {}
            failure => breaker.record(admission, failure, || turn.facts().client_digest()),
        }
    }
    match (verdict, before) {
        (Ok((Verdict::Continue, value)), _) => Ok(ChainOutcome::Done(value)).into(),
        (Ok((Verdict::Respond(value), _)), _) => Ok(ChainOutcome::Skipped(value)).into(),
        (Ok((Verdict::Reject(rejection), _)), Some(before)) if !hook.is_before() => {
            tracing::warn!(plugin = filter.name(), %hook, message = rejection.message, "error ignored");
            Decision::ignored(without(filter, hook, before.again(), turn), rejection.message)
        }
        (Ok((Verdict::Reject(rejection), _)), _) => {
            Err(Error::Rejected(Rejection { plugin: filter.name().into(), ..rejection })).into()
        }
        (Err(failure), before) => {
            let failure = PluginError { plugin: filter.name().into(), hook: hook.name().into(), ..failure };
            turn.log_failure(&failure);
            match before {
                Some(before) => Decision::ignored(without(filter, hook, before.again(), turn), failure.cause),
                None if hook.is_before() => Err(Error::Broken(failure).into_rejection()).into(),
                None => Err(Error::Broken(failure)).into(),
            }
        }
    }
}

/// Returns the reason why the events returned by a hook cannot be sent; `None` if they can. `value` is the value
/// that the hook leaves.
pub fn wrong_events(hook: Hook, verdict: &Verdict, value: &Json) -> Option<String> {
    let given = match verdict {
        Verdict::Continue => value,
        Verdict::Respond(value) => value,
        Verdict::Reject(_) => return None,
    };
    let is_event = |one: &Json| matches!(one, Json::Object(_) | Json::Text(_));
    match (hook, given) {
        (Hook::Stream | Hook::StreamEnd, Json::Array(events)) => events.with(|events| {
            if events.len() > MAX_EVENTS {
                let count = events.len();
                return Some(format!("returned {count} events for one; at most {MAX_EVENTS} are allowed"));
            }
            if let Some(odd) = events.iter().find(|one| !is_event(one)) {
                let kind = article(odd);
                return Some(format!("returned a list with {kind} in it; an event is a map or a text"));
            }
            // Each event is copied, even if the list holds one event repeatedly.
            let mut rest = MAX_BYTES;
            let is_too_much = events.len() > 1
                && events.iter().any(|one| match rest.checked_sub(one.size_estimate()) {
                    Some(left) => {
                        rest = left;
                        false
                    }
                    None => true,
                });
            is_too_much.then(|| format!("returned more than {} MiB of events for one", MAX_BYTES >> 20))
        }),
        (Hook::Stream | Hook::StreamEnd, one) if !one.is_null() && !is_event(one) => {
            Some(format!("returned {}; an event is a map or a text", article(one)))
        }
        _ => None,
    }
}

fn article(value: &Json) -> String {
    match value {
        Json::Null => "null".into(),
        Json::Array(_) => "an array".into(),
        other => format!("a {}", other.kind()),
    }
}

/// Returns the decision for a filter with an open circuit breaker: it is skipped if its failures are ignored;
/// otherwise, the request is refused.
fn skipped(filter: &FilterEntry, hook: Hook, value: Json, instead: Rejection, turn: &Turn) -> Decision {
    if let Some(run) = filter.sync_run() {
        run.record_skipped(hook);
    }
    let passed_over = Some(("breaker_open", instead.message.clone()));
    let outcome = match filter.failure_policy {
        FailurePolicy::FailOpen => Ok(without(filter, hook, value, turn)),
        FailurePolicy::FailClosed => {
            Err(Error::Rejected(Rejection { fatal: true, plugin: filter.name().into(), ..instead }))
        }
    };
    Decision { outcome, passed_over }
}

/// Returns the value that replaces the output of a skipped filter.
fn without(filter: &FilterEntry, hook: Hook, value: Json, turn: &Turn) -> ChainOutcome {
    ChainOutcome::Done(match filter.sync_run() {
        Some(run) => run.bypass(hook, FilterContext { value, turn: turn.clone() }),
        None => value,
    })
}

/// Returns `true` for a part of a native hook's value that belongs to the turn: its context and its metadata.
fn is_of_turn(part: &str) -> bool {
    matches!(part, "context" | "metadata")
}

/// Copies the value of a hook; `of_turn` returns what stands for a part that belongs to the turn.
fn copied(hook: Hook, value: &Json, of_turn: impl Fn(&str, Json) -> Json) -> Json {
    match value {
        Json::Object(parts) if hook.has_ctx() => {
            let copy = |(name, part): (CompactString, Json)| {
                let part = if is_of_turn(&name) { of_turn(&name, part) } else { part.deep_clone() };
                (name, part)
            };
            Json::Object(parts.entries().into_iter().map(copy).collect())
        }
        value => value.deep_clone(),
    }
}

/// A copy of a value from before a filter, and the shared handle of the value.
struct Before {
    live: Json,
    copy: Json,
}

impl Before {
    fn of(hook: Hook, value: &Json) -> Self {
        // The turn's context and metadata are shared and stay live.
        Self { live: value.clone(), copy: copied(hook, value, |_, part| part) }
    }

    /// Restores the copied value in the shared handle and returns it.
    fn again(self) -> Json {
        match (&self.live, &self.copy) {
            (Json::Object(live), Json::Object(copy)) if live.replace(copy.entries()).is_ok() => self.live,
            _ => self.copy,
        }
    }
}

/// Calls a hook. A panic in a closure or host function ends only this call.
fn call(run: &dyn HookRunner, hook: Hook, mut ctx: FilterContext) -> HookEnd {
    let verdict = std::panic::catch_unwind(AssertUnwindSafe(|| run.run(hook, &mut ctx)));
    let verdict = verdict.unwrap_or_else(|panic| Err(panicked(&*panic)))?;
    Ok((verdict, ctx.value))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> PluginError {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    PluginError::new(format!("panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::{Breaker, BreakerSettings};

    struct Fails;

    impl HookRunner for Fails {
        fn run(&self, _: Hook, _: &mut FilterContext) -> Result<Verdict, PluginError> {
            Err(PluginError::new("it was interrupted"))
        }
    }

    #[tokio::test]
    async fn a_call_that_is_canceled_with_its_turn_does_not_open_the_breaker() {
        let settings = BreakerSettings { failure_threshold: 1, ..BreakerSettings::default() };
        let breaker = Arc::new(Breaker::new("fails", settings));
        let hooks = [Hook::Inlet].into_iter().collect();
        let filter = FilterEntry::new("fails", hooks, Arc::new(Fails)).breaker(breaker.clone());
        let chain = Chain::new(vec![filter]);
        for is_over in [true, false] {
            let turn = Turn::default();
            let end = turn.until_dropped();
            if is_over {
                drop(end);
            }
            assert!(chain.run(Hook::Inlet, Json::object(), &turn).await.is_err());
            assert_eq!(breaker.open().is_none(), is_over);
        }
    }
}
