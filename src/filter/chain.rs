//! A chain is a fold: each filter takes the value and hands it on.

use super::{Filter, FilterContext, Hook, Hooks, OnBreak, Verdict};
use crate::breaker::Admission;
use crate::context::Turn;
use crate::fault::{Breakage, Fault, Refusal};
use crate::json::Json;
use crate::lanes;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// Filters in running order, and per moment those that act at it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Chain(Arc<Sorted>);

#[derive(Debug, Default)]
struct Sorted {
    filters: Vec<Filter>,
    at: [Vec<usize>; Hook::ALL.len()],
    hooks: Hooks,
}

/// How a chain ended.
#[derive(Debug)]
pub enum Outcome {
    /// Every filter went on.
    Done(Json),
    /// A filter stopped the chain with its value.
    Skipped(Json),
}

impl Chain {
    /// Filters in ascending priority; equal ones keep their order.
    pub fn new(mut filters: Vec<Filter>) -> Self {
        filters.sort_by(|a, b| a.priority.total_cmp(&b.priority));
        let mut sorted = Sorted::default();
        for (index, filter) in filters.iter().enumerate() {
            for hook in filter.hooks.iter() {
                sorted.at[hook as usize].push(index);
                sorted.hooks = sorted.hooks.with(hook);
            }
        }
        sorted.filters = filters;
        Self(Arc::new(sorted))
    }

    /// The filters in running order.
    pub fn filters(&self) -> &[Filter] {
        &self.0.filters
    }

    /// Whether any filter acts at this moment.
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

    /// Whether any filter wants to see tools fail.
    pub(crate) fn sees_failures(&self) -> bool {
        self.at(Hook::PostInvocation).any(|filter| filter.sees_failures)
    }

    /// Runs one moment: ascending priority, stopping at the first that does not go on.
    pub async fn run(&self, hook: Hook, value: Json, turn: &Turn) -> Result<Outcome, Fault> {
        self.run_those(hook, value, turn, |_| true).await
    }

    /// Runs `post_invocation` after a tool that failed, for the filters that want to see it.
    pub(crate) async fn run_after_failure(&self, value: Json, turn: &Turn) -> Result<Outcome, Fault> {
        self.run_those(Hook::PostInvocation, value, turn, |filter| filter.sees_failures).await
    }

    async fn run_those(
        &self,
        hook: Hook,
        value: Json,
        turn: &Turn,
        those: impl Fn(&Filter) -> bool,
    ) -> Result<Outcome, Fault> {
        let mut value = value;
        for filter in self.at(hook).filter(|filter| those(filter)) {
            match step(filter, hook, value, turn).await? {
                Outcome::Done(next) => value = next,
                skipped @ Outcome::Skipped(_) => return Ok(skipped),
            }
        }
        Ok(Outcome::Done(value))
    }
}

/// One filter's turn: its verdict, or what its policy makes of its breakage.
pub(crate) async fn step(filter: &Filter, hook: Hook, value: Json, turn: &Turn) -> Result<Outcome, Fault> {
    let admission = filter.breaker.as_ref().map_or(Admission::Usual, |breaker| breaker.admit());
    if let Admission::Rests(rest) = admission {
        return resting(filter, value, rest);
    }
    // Only a filter whose failures are forgiven pays for a way back.
    let before = (filter.on_break == OnBreak::Continue).then(|| Before::of(hook, &value));
    let ctx = FilterContext { value, turn: turn.clone() };
    let verdict = if let Some(pace) = filter.run.pace(hook, &ctx) {
        let filter = filter.clone();
        let apart = lanes::run(pace, move || call(&filter, hook, ctx)).await;
        apart.unwrap_or_else(|error| Err(Breakage::new(error.to_string())))
    } else {
        call(filter, hook, ctx)
    };
    if let Some(breaker) = &filter.breaker {
        match &verdict {
            Ok(_) => breaker.went_well(admission),
            // What was ended since nobody waits for it is no fault of the filter's.
            Err(_) if turn.is_over() => {}
            Err(breakage) => breaker.broke(&breakage.cause),
        }
    }
    match (verdict, before) {
        (Ok(Verdict::Continue(ctx)), _) => Ok(Outcome::Done(ctx.value)),
        (Ok(Verdict::Skip(value)), _) => Ok(Outcome::Skipped(value)),
        (Ok(Verdict::Error(refusal)), Some(before)) if !hook.is_before() => {
            tracing::warn!(plugin = filter.name(), %hook, message = refusal.message, "error forgiven");
            Ok(Outcome::Done(before.again()))
        }
        (Ok(Verdict::Error(refusal)), _) => {
            Err(Fault::Refused(Refusal { plugin: filter.name().into(), ..refusal }))
        }
        (Err(breakage), before) => {
            let breakage = Breakage { plugin: filter.name().into(), hook: hook.name().into(), ..breakage };
            tracing::error!(plugin = breakage.plugin, %hook, "{}", breakage.cause);
            before.map(|before| Outcome::Done(before.again())).ok_or(Fault::Broken(breakage))
        }
    }
}

/// In place of a filter that breaks again and again: without it where its breakage is forgiven, and
/// otherwise not at all.
fn resting(filter: &Filter, value: Json, rest: Duration) -> Result<Outcome, Fault> {
    if filter.on_break == OnBreak::Continue {
        return Ok(Outcome::Done(value));
    }
    let says = filter.breaker.as_ref().map(|breaker| breaker.says(rest)).unwrap_or_default();
    let retry_after = Some(rest.as_secs_f64().ceil().max(1.0));
    let refusal = Refusal { retry_after, fatal: true, plugin: filter.name().into(), ..Refusal::new(says) };
    Err(Fault::Refused(refusal.with_status(503)))
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
