//! The filter of a script: the call of a hook, and the conversion of its result into the chain's verdict.

use crate::declare::hooks::{Param, subject_name};
use crate::diagnostic::{Code, Diagnostic};
use crate::run::argument::UserValves;
use crate::run::script_call::CallEnd;
use crate::run::windows;
use crate::script::Script;
use rhai::Dynamic;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::time::Duration;
use valvehouse_core::chat::event;
use valvehouse_core::context::{FinishedChat, Turn};
use valvehouse_core::error::PluginError;
use valvehouse_core::filter::{
    FailurePolicy, FilterContext, FilterEntry, Hook, HookRunner, Hooks, Verdict, is_broken_stream,
    wrong_events,
};
use valvehouse_core::metrics::{CallCost, CallMetrics, CallOutcome};
use valvehouse_dialect::answer::{HookAnswer, summary_of_run};
use valvehouse_dialect::budget;
use valvehouse_dialect::budget::input_size::attributed;
use valvehouse_dialect::call::clock;
use valvehouse_dialect::interpreter::Args;
use valvehouse_dialect::value::{List, Map, Shape, json_of, live};
use valvehouse_executor::Workload;
use valvehouse_json::{Json, Object};

/// A script as a filter.
pub(super) struct ScriptFilter {
    script: Arc<Script>,
    users: Arc<UserValves>,
    /// The metrics of each hook that the script has.
    pub(super) metrics_by_name: [Option<Arc<CallMetrics>>; Hook::ALL.len()],
    /// The number of fast calls, for each hook, until it runs on the thread of its request. From [`MEASURED`] on,
    /// it runs there already, and the processor time of that many more calls is measured.
    pub(super) unproven: [AtomicU32; Hook::ALL.len()],
    /// The hooks whose syntax proves that every call is short and allocates little.
    cheap: Hooks,
    /// The size of a turn, in bytes, up to which the calls of each hook were fast.
    pub(super) fast_up_to: [AtomicUsize; Hook::ALL.len()],
}

/// The number of calls of a new version that are observed before it runs on the thread of its request, unless its
/// syntax proves that it is fast.
pub(super) const FIRST: u32 = 3;
/// The number of calls that are observed after a slow call.
pub(super) const AFTER_SLOW: u32 = 8;
/// The running time from which a call is slow, in milliseconds of the budgets' clock.
pub(super) const SLOW: u64 = 3;
/// The running time from which a call is slow even if its processor time is unknown, in milliseconds.
pub(super) const SURELY_SLOW: u64 = 20;
/// The size of a turn, in bytes, up to which size does not affect where a call runs.
pub(super) const SMALL: usize = 16 << 10;
/// The factor between the largest measured size and the largest size that is still assumed to be fast.
pub(super) const GROWTH: usize = 4;
/// The value of `unproven` from which calls run on the thread of their request and their processor time is
/// measured.
pub(super) const MEASURED: u32 = 1_000;

/// Returns the approximate size of a hook's input, in bytes. Events of a stream count only if they are long.
fn size_of(hook: Hook, turn: &Turn) -> usize {
    match hook {
        Hook::Stream if !turn.has_long_event() => 0,
        _ => turn.size(),
    }
}

impl Script {
    /// Returns the script as a filter.
    pub fn into_filter(self: Arc<Self>, users: Arc<UserValves>) -> FilterEntry {
        // Text that a window holds at the end of a stream is released by `stream_end`.
        let ends = self.has_windows.then_some(Hook::StreamEnd);
        self.may_leave_work();
        let leaves = self.has_done() && self.settings.background.is_some();
        let hooks: Hooks = self.hooks().chain(ends).collect();
        let (priority, failure_policy) = (self.priority(), self.manifest.failure_policy);
        let sees_failures = self.manifest.on_tool_error;
        let reads_usage = self.file.text.contains("usage");
        let name = self.file.id.clone();
        let breaker = self.breaker.clone();
        let prompt_cache = self.prompt_cache.clone();
        let metrics_by_name = Hook::ALL.map(|hook| self.hook(hook).map(|_| self.metrics().of(hook.name())));
        let run = ScriptFilter::new(self, users, metrics_by_name);
        let by_size = if run.script.settings.is_served { hooks.without(run.cheap) } else { Hooks::default() };
        FilterEntry::new(name, hooks, Arc::new(run))
            .by_size(by_size)
            .breaker(breaker)
            .counting_prompt_cache(prompt_cache)
            .priority(priority)
            .failure_policy(failure_policy)
            .seeing_failures(sees_failures)
            .leaving(leaves)
            .reading_usage(reads_usage)
    }
}

impl HookRunner for ScriptFilter {
    fn run(&self, hook: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        match hook {
            Hook::Stream if self.script.has_windows => self.through_windows(ctx),
            Hook::StreamEnd if self.script.has_windows => self.end_windows(ctx),
            Hook::StreamEnd if is_broken_stream(&ctx.value) => {
                ctx.value = Json::array();
                Ok(Verdict::Continue)
            }
            hook => self.run_hook(hook, ctx),
        }
    }

    fn bypass(&self, hook: Hook, ctx: FilterContext) -> Json {
        match hook {
            Hook::Stream if self.script.has_windows => windows::release(&self.state(&ctx), ctx.value),
            Hook::StreamEnd if self.script.has_windows => windows::rest(&self.state(&ctx)),
            _ => ctx.value,
        }
    }

    fn withholds(&self) -> bool {
        self.script.has_windows
    }

    fn ahead(&self, event: &Json, turn: &Turn) -> Option<Json> {
        if !self.script.has_windows {
            return None;
        }
        windows::ending_lanes(&turn.state(self.script.id()), event)
    }

    fn leave(&self, conversation: &Arc<FinishedChat>, turn: &Turn) {
        self.script.leave_done(&self.users, conversation, turn);
    }

    fn record_skipped(&self, hook: Hook) {
        if let Some(call_metrics) = &self.metrics_by_name[hook as usize] {
            call_metrics.record_skipped();
        }
    }

    fn workload(&self, hook: Hook, ctx: &FilterContext) -> Option<Workload> {
        let workload = match self.may_be_slow(hook) || self.has_outgrown(hook, &ctx.turn) {
            true => Workload::CpuBound,
            false if self.script.waits() => Workload::Blocking,
            false => return None,
        };
        self.wants(hook, &ctx.value).then_some(workload)
    }
}

impl ScriptFilter {
    pub(super) fn new(
        script: Arc<Script>,
        users: Arc<UserValves>,
        metrics_by_name: [Option<Arc<CallMetrics>>; Hook::ALL.len()],
    ) -> Self {
        let cheap: Hooks = script.hooks().filter(|hook| script.is_bounded(*hook)).collect();
        let is_proven = |hook| !script.settings.is_served || cheap.contains(hook);
        let unproven = Hook::ALL.map(|hook| AtomicU32::new(if is_proven(hook) { 0 } else { FIRST }));
        let fast_up_to = Hook::ALL.map(|_| AtomicUsize::new(0));
        Self { script, users, metrics_by_name, unproven, cheap, fast_up_to }
    }

    /// Returns `true` if a call could block the thread it runs on: recent calls were slow, or too few were
    /// observed.
    fn may_be_slow(&self, hook: Hook) -> bool {
        let unproven = self.unproven[hook as usize].load(Relaxed);
        let is_unproven = (1..MEASURED).contains(&unproven);
        self.metrics_by_name[hook as usize]
            .as_ref()
            .is_some_and(|call_metrics| call_metrics.is_slow() || is_unproven)
    }

    /// Returns `true` if the input is much larger than those of the measured calls, so that a single native could
    /// take long.
    fn has_outgrown(&self, hook: Hook, turn: &Turn) -> bool {
        let size = size_of(hook, turn);
        size > SMALL
            && size / GROWTH > self.fast_up_to[hook as usize].load(Relaxed)
            && self.script.settings.is_served
            && !self.cheap.contains(hook)
    }

    /// Records the size of a call's input if the call was fast. `ticks` is its time in milliseconds.
    pub(super) fn note_fast(&self, hook: Hook, size: usize, ticks: u64) {
        let fast_up_to = &self.fast_up_to[hook as usize];
        if size > fast_up_to.load(Relaxed) && ticks < SLOW {
            fast_up_to.fetch_max(size, Relaxed);
        }
    }

    /// Records the time of a call: `ticks` in milliseconds, and its processor time if it was measured.
    pub(super) fn watch(
        &self,
        hook: Hook,
        call_metrics: &CallMetrics,
        ticks: u64,
        measured: Option<Duration>,
    ) {
        let (unproven, is_long) = (&self.unproven[hook as usize], ticks >= SLOW);
        let left = unproven.load(Relaxed);
        if left == 0 && !is_long {
            return;
        }
        // A long time may only mean that the thread waited for a processor.
        let is_slow = match measured {
            Some(time) => is_long && time >= Duration::from_millis(SLOW - 1),
            None => ticks >= SURELY_SLOW,
        };
        if is_slow {
            call_metrics.was_slow();
            unproven.store(AFTER_SLOW, Relaxed);
        } else if left == 0 {
            unproven.store(MEASURED + AFTER_SLOW, Relaxed);
        } else if left == MEASURED + 1 {
            unproven.store(0, Relaxed);
        } else if !call_metrics.is_slow() {
            // Two concurrent calls may count as one; then one more call is observed.
            unproven.store(left - 1, Relaxed);
        }
    }

    fn state(&self, ctx: &FilterContext) -> Json {
        ctx.turn.state(self.script.id())
    }

    /// Runs `stream` with its windows. If the filter is skipped because the call failed, the held texts are
    /// restored. An event whose text is held completely is not sent.
    fn through_windows(&self, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let state = self.state(ctx);
        let before =
            (self.script.manifest.failure_policy == FailurePolicy::FailOpen).then(|| windows::held(&state));
        let verdict = self.run_hook(Hook::Stream, ctx);
        if let (Some(before), Err(_) | Ok(Verdict::Reject(_))) = (before, &verdict) {
            windows::put_back(&state, before);
        }
        if matches!(verdict, Ok(Verdict::Continue))
            && ctx.value.is_changed()
            && windows::is_hollow(&ctx.value)
        {
            ctx.value = Json::array();
        }
        verdict
    }

    /// Ends the windows of choices that no event ended: the held text passes through `stream` once more, before the
    /// additions of `stream_end`.
    fn end_windows(&self, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let mut rest = Vec::new();
        let state = self.state(ctx);
        // Text that one window releases may be held by the next one.
        for _ in 0..windows::count(&state) {
            for value in windows::ends(&state) {
                let mut end = FilterContext { value, ..ctx.clone() };
                match self.run_hook(Hook::Stream, &mut end)? {
                    Verdict::Continue => rest.extend(windows::deltas(end.value)),
                    Verdict::Respond(value) => rest.extend(windows::deltas(value)),
                    refused => return Ok(refused),
                }
            }
        }
        windows::forget(&state);
        let own = match self.script.hook(Hook::StreamEnd) {
            // A broken stream ends without `stream_end`.
            _ if is_broken_stream(&ctx.value) => {
                ctx.value = Json::array();
                Verdict::Continue
            }
            Some(_) => self.run_hook(Hook::StreamEnd, ctx)?,
            None => Verdict::Continue,
        };
        Ok(match own {
            Verdict::Continue => {
                ctx.value = windows::joined(rest, ctx.value.clone());
                Verdict::Continue
            }
            Verdict::Respond(value) => Verdict::Respond(windows::joined(rest, value)),
            refused => refused,
        })
    }

    fn run_hook(&self, hook: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let (Some(function), Some(call_metrics)) =
            (self.script.hook(hook), &self.metrics_by_name[hook as usize])
        else {
            return Ok(Verdict::Continue);
        };
        if !self.wants(hook, &ctx.value) {
            return Ok(Verdict::Continue);
        }
        let args = function.params.iter().map(|param| self.argument(*param, hook, ctx)).collect::<Args>();
        let size = size_of(hook, &ctx.turn);
        let timing = call_metrics.begin();
        let is_measured = self.unproven[hook as usize].load(Relaxed) > 0;
        let (began, processor) = (clock::now_at_start(), is_measured.then(budget::processor_time).flatten());
        let settings = &self.script.settings;
        let budget = match hook {
            Hook::Stream if ctx.turn.has_long_event() => settings.hook,
            Hook::Stream | Hook::StreamEnd => settings.stream,
            _ => settings.hook,
        };
        let (result, spent) = match self.cheap.contains(hook) {
            true => self.script.call_cheap_hook(hook, args, &ctx.turn, budget),
            false => self.script.call_hook(hook, args, &ctx.turn, budget),
        };
        let waited = u64::try_from(spent.waited.as_millis()).unwrap_or(u64::MAX);
        let ticks = clock::now().saturating_sub(began).saturating_sub(waited);
        let measured = processor.and_then(|began| Some(budget::processor_time()?.saturating_sub(began)));
        if let Some(trace) = ctx.turn.trace() {
            // If the script never waits, this time was only spent yielding to other calls.
            let waited = if self.script.waits() { spent.waited } else { Duration::ZERO };
            trace.spend(hook.name(), self.script.id(), CallCost { waited, ..spent });
        }
        let verdict = match result {
            Ok(value) => verdict(&self.script, hook, ctx, &value)
                .and_then(|verdict| with_events(&self.script, hook, verdict, &ctx.value))
                .map_err(|failure| attributed(failure, "", None, &ctx.value, ctx.turn.size())),
            Err(CallEnd::Rejected(rejection)) => Ok(Verdict::Reject(rejection)),
            Err(CallEnd::Broken { failure, summary, limit, .. }) => {
                Err(attributed(failure, &summary, limit, &ctx.value, ctx.turn.size()))
            }
        };
        let ending = match &verdict {
            // A call that was canceled with its turn did not fail.
            Err(_) if ctx.turn.is_over() => CallOutcome::Continued,
            verdict if ctx.turn.is_audited() => ending(&self.script, hook, verdict).audited(),
            verdict => ending(&self.script, hook, verdict),
        };
        call_metrics.end(&timing, spent, ending);
        self.watch(hook, call_metrics, ticks, measured);
        self.note_fast(hook, size, ticks);
        verdict
    }

    /// Returns `true` if the hook is called for this value. If `match` is declared, an event must contain one of
    /// its texts.
    fn wants(&self, hook: Hook, value: &Json) -> bool {
        let words = &self.script.manifest.matches;
        let is_match = |text: &str| words.iter().any(|word| text.contains(word.as_str()));
        hook != Hook::Stream || words.is_empty() || event::any_text(value, &is_match)
    }

    fn argument(&self, param: Param, hook: Hook, ctx: &FilterContext) -> Dynamic {
        match param {
            Param::Subject => live(&ctx.value, shape_of(hook)),
            param => self.script.argument(param, &ctx.turn, &self.users),
        }
    }
}

/// Returns the shape of a hook's subject.
pub(super) const fn shape_of(hook: Hook) -> Shape {
    match hook {
        Hook::Inlet | Hook::Outlet => Shape::Body,
        Hook::Stream | Hook::StreamEnd => Shape::Event,
        Hook::PreChat | Hook::PostChat | Hook::PreInvocation | Hook::PostInvocation => Shape::Ctx,
    }
}

pub(super) fn verdict(
    script: &Script,
    hook: Hook,
    ctx: &mut FilterContext,
    value: &Dynamic,
) -> Result<Verdict, PluginError> {
    if let Some(answer) = value.read_lock::<HookAnswer>() {
        return match &*answer {
            HookAnswer::Skip(value) => Ok(Verdict::Respond(value.clone())),
            HookAnswer::Error(rejection) => Ok(Verdict::Reject(rejection.clone())),
            HookAnswer::Ok(value, _) => go_on(script, hook, ctx, Some(value.clone())),
        };
    }
    if value.is_unit() {
        return go_on(script, hook, ctx, None);
    }
    let is_map = value.is_map() || value.is::<Map>();
    let is_list = value.is_array() || value.is::<List>();
    let fits = is_map || (is_list && matches!(hook, Hook::Stream | Hook::StreamEnd));
    // `stream_end` may return a text, which becomes the last chunk.
    let text = hook == Hook::StreamEnd && value.is_string();
    if !fits && !text {
        let misfit = wrong(script, hook, &format!("returned {}", article(value.type_name())));
        let hint = "a function returns the value of its last line, even with a `;`, unless that is a call followed by `;`";
        return Err(PluginError::new(format!("{}; {hint}", misfit.cause)));
    }
    let value = json_of(value).map_err(|error| {
        let why = summary_of_run(&error);
        wrong(script, hook, &format!("returned an invalid value: {why}"))
    })?;
    go_on(script, hook, ctx, Some(value))
}

/// Checks the events of a verdict. The chain would reject them too; here the failure is recorded and the file is
/// named.
pub(super) fn with_events(
    script: &Script,
    hook: Hook,
    verdict: Verdict,
    value: &Json,
) -> Result<Verdict, PluginError> {
    match wrong_events(hook, &verdict, value) {
        Some(what) => Err(wrong(script, hook, &what)),
        None => Ok(verdict),
    }
}

fn go_on(
    script: &Script,
    hook: Hook,
    ctx: &mut FilterContext,
    returned: Option<Json>,
) -> Result<Verdict, PluginError> {
    match returned {
        Some(value) if shape_of(hook) == Shape::Ctx => merge(ctx, &value),
        Some(value) => ctx.value = value,
        None if hook == Hook::StreamEnd => ctx.value = Json::array(),
        None => {}
    }
    let needs_messages = matches!(hook, Hook::Inlet | Hook::Outlet | Hook::PreChat);
    let has_messages = |body: &Object| body.with("messages", |it| matches!(it, Some(Json::Array(_))));
    if needs_messages && !ctx.value.as_object().is_some_and(has_messages) {
        let kind = ctx.messages().kind();
        return Err(wrong(script, hook, &format!("set invalid `messages`: expected an array, got {kind}")));
    }
    if hook == Hook::PreInvocation && !matches!(ctx.args(), Json::Object(_)) {
        let kind = ctx.args().kind();
        return Err(wrong(script, hook, &format!("set invalid `args`: expected a map, got {kind}")));
    }
    Ok(Verdict::Continue)
}

fn wrong(script: &Script, hook: Hook, what: &str) -> PluginError {
    let subject = subject_name(hook).unwrap_or("events");
    let place = Diagnostic::of(Code::Broke, &script.file, "").at_function(&script.file.text, hook.name());
    let place = match (place.line, place.column) {
        (Some(line), Some(column)) => format!(":{line}:{column}"),
        _ => String::new(),
    };
    PluginError::new(format!(
        "{}{place}: {hook} {what}; it returns `{subject}`, nothing, or skip(…)/error(…)",
        script.file.path.display()
    ))
}

/// Returns the outcome of a call for the metrics.
pub(super) fn ending(script: &Script, hook: Hook, verdict: &Result<Verdict, PluginError>) -> CallOutcome {
    let forgives = script.manifest.failure_policy == FailurePolicy::FailOpen;
    match verdict {
        Ok(Verdict::Continue) => CallOutcome::Continued,
        Ok(Verdict::Respond(_)) => CallOutcome::Skipped,
        Ok(Verdict::Reject(_)) if forgives && !hook.is_before() => CallOutcome::RejectionIgnored,
        Ok(Verdict::Reject(_)) => CallOutcome::Refused,
        Err(_) if forgives => CallOutcome::ErrorIgnored,
        Err(failure) if hook.is_before() && failure.rejection.is_some() => CallOutcome::Refused,
        Err(_) => CallOutcome::Failed,
    }
}

/// Merges a returned `ctx`: its fields replace those of the same name.
fn merge(ctx: &FilterContext, returned: &Json) {
    let same = matches!((&ctx.value, returned), (Json::Object(a), Json::Object(b)) if a.ptr_eq(b));
    if !same && let Json::Object(fields) = returned {
        for (name, value) in fields.entries() {
            ctx.value.edit(&name, value);
        }
    }
}

fn article(type_name: &str) -> String {
    let short = type_name.rsplit("::").next().unwrap_or(type_name);
    let word = match short {
        "i64" => "a whole number",
        "f64" => "a number",
        "bool" => "true or false",
        "ImmutableString" | "string" | "String" => "a string",
        "Vec<rhai::types::dynamic::Dynamic>" | "array" | "List" => "an array",
        "FnPtr" => "a function",
        other => other,
    };
    word.to_owned()
}
