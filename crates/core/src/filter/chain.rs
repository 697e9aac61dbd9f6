//! A chain is a fold: each filter takes the value and hands it on.

use super::definition::{Filter, OnBreak, Verdict};
use super::hook::FilterContext;
use super::hook::{Hook, Hooks};
use crate::breaker::Admission;
use crate::context::{FinishedChat, Turn};
use crate::fault::{Breakage, Fault, Refusal};
use crate::lanes::{self, LaneError, Pace, STUCK};
use crate::trace::{End, PromptCacheWatch, What};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use valvehouse_json::Json;

/// Most events that a hook makes of one: each goes on through the chain and to the client.
const MAX_EVENTS: usize = 1_000;
/// The most memory that they may take, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Filters in running order, and per moment those that act at it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Chain(Arc<FilterOrder>);

#[derive(Debug, Default)]
struct FilterOrder {
    filters: Vec<Filter>,
    at: [Vec<usize>; Hook::ALL.len()],
    hooks: Hooks,
    /// Those that any filter runs by the size of the turn.
    by_size: Hooks,
    /// Any of them leaves work for the time behind the turn.
    leaves: bool,
}

/// The end of a chain.
#[derive(Debug)]
pub enum ChainOutcome {
    /// Every filter went on.
    Done(Json),
    /// A filter stopped the chain with its value.
    Skipped(Json),
}

impl Chain {
    /// Filters in ascending priority; equal ones keep their order.
    pub fn new(mut filters: Vec<Filter>) -> Self {
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
        sorted.filters = filters;
        Self(Arc::new(sorted))
    }

    /// The filters in running order.
    pub fn filters(&self) -> &[Filter] {
        &self.0.filters
    }

    /// Returns `true` if any filter acts at this moment.
    pub fn has(&self, hook: Hook) -> bool {
        self.0.hooks.contains(hook)
    }

    /// The filters that act at this moment, in running order.
    pub fn at(&self, hook: Hook) -> impl Iterator<Item = &Filter> {
        self.at_from(hook, 0).map(|(_, filter)| filter)
    }

    /// The same from a place in the chain on, each with its place.
    pub(crate) fn at_from(&self, hook: Hook, place: usize) -> impl Iterator<Item = (usize, &Filter)> {
        let places = self.0.at[hook as usize].iter().copied();
        places.filter(move |own| *own >= place).map(|own| (own, &self.0.filters[own]))
    }

    /// Returns `true` if any filter has work for the time when the client has its answer.
    pub fn leaves_work(&self) -> bool {
        self.0.leaves
    }

    /// Leaves that work.
    pub(crate) fn leave(&self, conversation: &Arc<FinishedChat>, turn: &Turn) {
        self.0
            .filters
            .iter()
            .filter(|filter| filter.leaves)
            .for_each(|filter| filter.run.leave(conversation, turn));
    }

    /// Returns `true` if any filter wants to see tools fail.
    pub(crate) fn sees_failures(&self) -> bool {
        self.at(Hook::PostInvocation).any(|filter| filter.sees_failures)
    }

    /// Runs one moment: ascending priority, stopping at the first that does not go on.
    pub async fn run(&self, hook: Hook, value: Json, turn: &Turn) -> Result<ChainOutcome, Fault> {
        self.run_those(hook, value, turn, |_| true).await
    }

    /// Runs `post_invocation` after a tool that failed, for the filters that want to see it.
    pub(crate) async fn run_after_failure(&self, value: Json, turn: &Turn) -> Result<ChainOutcome, Fault> {
        self.run_those(Hook::PostInvocation, value, turn, |filter| filter.sees_failures).await
    }

    /// Measures the prompt cache where a request goes to a model, for some of the requests that are traced.
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
        those: impl Fn(&Filter) -> bool,
    ) -> Result<ChainOutcome, Fault> {
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
                skipped @ ChainOutcome::Skipped(_) => return Ok(skipped),
            }
        }
        if let Some(watch) = watch {
            watch.finish();
        }
        Ok(ChainOutcome::Done(value))
    }
}

/// Records the size of what filters are given: of a request once, of what comes later each time. Long events of a stream
/// are recorded where they come from.
fn note_size(hook: Hook, value: &Json, turn: &Turn) {
    let is_noted = match hook {
        Hook::Stream | Hook::StreamEnd => true,
        Hook::Inlet | Hook::PreChat => turn.size() > 0,
        _ => false,
    };
    if !is_noted {
        turn.note_size(value.weight());
    }
}

/// One filter's turn, written down where the turn has a trace; `end` is when the one before ended, and then this
/// one's.
pub async fn step(
    filter: &Filter,
    hook: Hook,
    value: Json,
    turn: &Turn,
    end: &mut Option<End>,
) -> Result<ChainOutcome, Fault> {
    let Some(trace) = turn.trace() else { return decide(filter, hook, value, turn).await.outcome };
    let step = trace.begin_after(end.take(), What::Hook(&filter.name, hook.name()), &value);
    let TraceOutcome { word, cause, outcome } = told(filter, hook, value, turn).await;
    let after = match &outcome {
        Ok(ChainOutcome::Done(value) | ChainOutcome::Skipped(value)) => Some(value),
        Err(_) => None,
    };
    *end = step.end(word, cause.as_deref(), after);
    outcome
}

/// The outcome of a filter's turn, in the words of traces.
pub struct TraceOutcome {
    /// The outcome in one word.
    pub word: &'static str,
    /// The reason for which it failed, where it did.
    pub cause: Option<String>,
    /// The outcome, or the error that ends the turn.
    pub outcome: Result<ChainOutcome, Fault>,
}

/// One filter's turn and how it went.
pub async fn told(filter: &Filter, hook: Hook, value: Json, turn: &Turn) -> TraceOutcome {
    let Decision { outcome, passed_over } = decide(filter, hook, value, turn).await;
    let (word, cause) = match (passed_over, &outcome) {
        (Some((word, cause)), _) => (word, Some(cause)),
        (None, Ok(ChainOutcome::Done(_))) => ("continue", None),
        (None, Ok(ChainOutcome::Skipped(_))) => ("skip", None),
        (None, Err(Fault::Refused(refusal))) => ("refused", Some(refusal.message.clone())),
        (None, Err(Fault::Broken(breakage))) => ("broke", Some(breakage.cause.clone())),
        (None, Err(Fault::Paused)) => ("paused", None),
        (None, Err(_)) => ("broke", None),
    };
    TraceOutcome { word, cause, outcome }
}

/// The outcome of a filter's turn.
struct Decision {
    outcome: Result<ChainOutcome, Fault>,
    /// The word and the reason for which it had no say, where it had none.
    passed_over: Option<(&'static str, String)>,
}

impl From<Result<ChainOutcome, Fault>> for Decision {
    fn from(outcome: Result<ChainOutcome, Fault>) -> Self {
        Self { outcome, passed_over: None }
    }
}

impl Decision {
    /// It failed, and the value goes on without it.
    fn forgiven(outcome: ChainOutcome, cause: String) -> Self {
        Self { outcome: Ok(outcome), passed_over: Some(("forgiven", cause)) }
    }
}

/// One filter's turn: its verdict, or what its policy makes of its breakage.
async fn decide(filter: &Filter, hook: Hook, value: Json, turn: &Turn) -> Decision {
    let admission = filter.breaker.as_ref().map_or(Admission::Usual, |breaker| breaker.admit());
    if let (Some(breaker), Admission::Rests(rest)) = (&filter.breaker, admission) {
        return resting(filter, hook, value, breaker.refusal(rest), turn);
    }
    // Only a filter whose failures are forgiven pays for a way back.
    let before = (filter.on_break == OnBreak::Continue).then(|| Before::of(hook, &value));
    let ctx = FilterContext { value, turn: turn.clone() };
    let verdict = match filter.run.pace(hook, &ctx) {
        None => call(filter, hook, ctx),
        // In a box: the way of all other calls is shorter where this one takes no room in it.
        Some(pace) => Box::pin(apart(filter.clone(), hook, ctx, pace)).await,
    };
    settled(filter, hook, verdict, before, admission, turn)
}

/// A call that may wait or take long, where it holds up nobody.
async fn apart(filter: Filter, hook: Hook, ctx: FilterContext, pace: Pace) -> Result<Verdict, Breakage> {
    let breaker = filter.breaker.clone();
    let owner = filter.name.clone();
    let called = lanes::run_for(&owner, pace, move || call(&filter, hook, ctx)).await;
    if let (Err(LaneError::Stuck), Some(breaker)) = (&called, breaker) {
        breaker.trip(STUCK);
    }
    called.unwrap_or_else(|error| Err(Breakage::new(error.to_string())))
}

/// Applies a filter's policy to the end of its call.
fn settled(
    filter: &Filter,
    hook: Hook,
    verdict: Result<Verdict, Breakage>,
    before: Option<Before>,
    admission: Admission,
    turn: &Turn,
) -> Decision {
    if turn.is_paused() {
        // The result of that is dropped: it runs again when somebody has answered.
        return Err(Fault::Paused).into();
    }
    let verdict = verdict.and_then(|verdict| match wrong_events(hook, &verdict) {
        Some(wrong) => Err(Breakage::new(wrong)),
        None => Ok(verdict),
    });
    if let Some(breaker) = &filter.breaker {
        match &verdict {
            Ok(_) => breaker.went_well(admission),
            // A call that was ended since nobody waits for it is not a fault of the filter.
            Err(_) if turn.is_over() => {}
            Err(breakage) => breaker.broke(&breakage.cause),
        }
    }
    match (verdict, before) {
        (Ok(Verdict::Continue(ctx)), _) => Ok(ChainOutcome::Done(ctx.value)).into(),
        (Ok(Verdict::Skip(value)), _) => Ok(ChainOutcome::Skipped(value)).into(),
        (Ok(Verdict::Error(refusal)), Some(before)) if !hook.is_before() => {
            tracing::warn!(plugin = filter.name(), %hook, message = refusal.message, "error forgiven");
            Decision::forgiven(without(filter, hook, before.again(), turn), refusal.message)
        }
        (Ok(Verdict::Error(refusal)), _) => {
            Err(Fault::Refused(Refusal { plugin: filter.name().into(), ..refusal })).into()
        }
        (Err(breakage), before) => {
            let breakage = Breakage { plugin: filter.name().into(), hook: hook.name().into(), ..breakage };
            tracing::error!(plugin = breakage.plugin, %hook, "{}", breakage.cause);
            match before {
                Some(before) => {
                    Decision::forgiven(without(filter, hook, before.again(), turn), breakage.cause)
                }
                None => Err(Fault::Broken(breakage)).into(),
            }
        }
    }
}

/// The reason for which the events of a hook cannot be sent on; `None` where they can.
pub fn wrong_events(hook: Hook, verdict: &Verdict) -> Option<String> {
    let given = match verdict {
        Verdict::Continue(ctx) => &ctx.value,
        Verdict::Skip(value) => value,
        Verdict::Error(_) => return None,
    };
    let is_event = |one: &Json| matches!(one, Json::Object(_) | Json::Text(_));
    match (hook, given) {
        (Hook::Stream | Hook::StreamEnd, Json::Array(events)) => events.with(|events| {
            if events.len() > MAX_EVENTS {
                let count = events.len();
                return Some(format!("returned {count} events; {MAX_EVENTS} may take the place of one"));
            }
            if let Some(odd) = events.iter().find(|one| !is_event(one)) {
                let kind = article(odd);
                return Some(format!("returned a list with {kind} in it; an event is a map or a text"));
            }
            // Each is copied, also where the list names one event many times.
            let mut rest = MAX_BYTES;
            let is_too_much = events.len() > 1
                && events.iter().any(|one| match rest.checked_sub(one.weight()) {
                    Some(left) => {
                        rest = left;
                        false
                    }
                    None => true,
                });
            is_too_much
                .then(|| format!("returned events of more than {} MiB in place of one", MAX_BYTES >> 20))
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

/// In place of a filter that breaks again and again: without it where its breakage is forgiven, and
/// otherwise not at all.
fn resting(filter: &Filter, hook: Hook, value: Json, instead: Refusal, turn: &Turn) -> Decision {
    filter.run.rests(hook);
    let passed_over = Some(("rests", instead.message.clone()));
    let outcome = match filter.on_break {
        OnBreak::Continue => Ok(without(filter, hook, value, turn)),
        OnBreak::Abort => {
            Err(Fault::Refused(Refusal { fatal: true, plugin: filter.name().into(), ..instead }))
        }
    };
    Decision { outcome, passed_over }
}

/// The value that goes on in place of what a filter would have made.
fn without(filter: &Filter, hook: Hook, value: Json, turn: &Turn) -> ChainOutcome {
    ChainOutcome::Done(filter.run.bypass(hook, FilterContext { value, turn: turn.clone() }))
}

/// A value as it was before a filter, and the handle everybody holds of it.
struct Before {
    live: Json,
    copy: Json,
}

impl Before {
    fn of(hook: Hook, value: &Json) -> Self {
        let copy = match value {
            // The turn's context and metadata are only shown there; they stay live.
            Json::Object(parts) if hook.has_ctx() => {
                let parts = parts.entries().into_iter().map(|(name, part)| match name.as_str() {
                    "context" | "metadata" => (name, part),
                    _ => (name, part.copy()),
                });
                Json::Object(parts.collect())
            }
            value => value.copy(),
        };
        Self { live: value.clone(), copy }
    }

    /// The value as it was, in the place where it was.
    fn again(self) -> Json {
        match (&self.live, &self.copy) {
            (Json::Object(live), Json::Object(copy)) if live.replace(copy.entries()).is_ok() => self.live,
            _ => self.copy,
        }
    }
}

/// A panic in a closure or a host function ends this call only.
fn call(filter: &Filter, hook: Hook, ctx: FilterContext) -> Result<Verdict, Breakage> {
    std::panic::catch_unwind(AssertUnwindSafe(|| filter.run.run(hook, ctx))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(Breakage::new(format!("panicked: {text}")))
    })
}
