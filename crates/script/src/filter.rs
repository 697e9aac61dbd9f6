//! A script as a filter: its hooks called with what they ask for, its answers turned into verdicts.

use super::answer::Answered;
use super::engine::max_text;
use super::hooks::Param;
use super::interpreter::Args;
use super::run::Ended;
use super::script::Script;
use super::value::{List, Map, Shape, json_of, live};
use super::{UserValves, budget, clock, windows};
use rhai::Dynamic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use valvehouse_core::chat::event;
use valvehouse_core::context::Turn;
use valvehouse_core::fault::{Breakage, Refusal};
use valvehouse_core::figures::{Ending, Spent, Tally};
use valvehouse_core::filter::{
    Filter, FilterContext, Hook, Hooks, OnBreak, Run, Verdict, is_broken_stream, wrong_events,
};
use valvehouse_core::lanes::Pace;
use valvehouse_json::{Json, MAX_DEPTH, Object};

/// A script among filters.
struct ScriptFilter {
    script: Arc<Script>,
    users: Arc<UserValves>,
    /// Of its own hooks.
    tallies: [Option<Arc<Tally>>; Hook::ALL.len()],
    /// For each hook the calls that still have to be fast before it runs on the thread of its request. From
    /// [`MEASURED`] on it does, and so many more are measured exactly.
    unproven: [AtomicU32; Hook::ALL.len()],
    /// Those whose syntax shows that no call takes long or much.
    cheap: Hooks,
}

/// Calls of a new version that are watched before it runs on the thread of its request, unless its syntax
/// shows that they cannot take long.
const FIRST: u32 = 3;
/// The same after a slow call.
const AFTER_SLOW: u32 = 8;
/// Own time from which a call is slow, in milliseconds on the clock of budgets.
const SLOW: u64 = 3;
/// The same where a thread cannot have been held up for so long by others alone.
const SURELY_SLOW: u64 = 20;
/// The value of `unproven` from which on calls run on the thread of their request, and are measured exactly.
const MEASURED: u32 = 1_000;

impl Script {
    /// The filter this script is.
    pub fn into_filter(self: Arc<Self>, users: Arc<UserValves>) -> Filter {
        // Text that waits at the end of a stream goes out there.
        let ends = self.has_windows.then_some(Hook::StreamEnd);
        let hooks: Hooks = self.hooks().chain(ends).collect();
        let (priority, on_break) = (self.priority(), self.manifest.on_break);
        let sees_failures = self.manifest.on_tool_error;
        let name = self.file.id.clone();
        let breaker = self.breaker.clone();
        let tallies = Hook::ALL.map(|hook| self.hook(hook).map(|_| self.figures().of(hook.name())));
        let run = ScriptFilter::new(self, users, tallies);
        Filter::new(name, hooks, Arc::new(run))
            .breaker(breaker)
            .priority(priority)
            .on_break(on_break)
            .seeing_failures(sees_failures)
    }
}

impl Run for ScriptFilter {
    fn run(&self, hook: Hook, ctx: FilterContext) -> Result<Verdict, Breakage> {
        match hook {
            Hook::Stream if self.script.has_windows => self.through_windows(ctx),
            Hook::StreamEnd if self.script.has_windows => self.end_windows(ctx),
            Hook::StreamEnd if is_broken_stream(&ctx.value) => {
                Ok(Verdict::Continue(FilterContext { value: Json::array(), ..ctx }))
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

    fn rests(&self, hook: Hook) {
        if let Some(tally) = &self.tallies[hook as usize] {
            tally.rests();
        }
    }

    fn pace(&self, hook: Hook, ctx: &FilterContext) -> Option<Pace> {
        let pace = match self.may_be_slow(hook) {
            true => Pace::Slow,
            false if self.script.waits() => Pace::Waits,
            false => return None,
        };
        self.wants(hook, &ctx.value).then_some(pace)
    }
}

/// How a hook's own value is held.
const fn shape_of(hook: Hook) -> Shape {
    match hook {
        Hook::Inlet | Hook::Outlet => Shape::Body,
        Hook::Stream | Hook::StreamEnd => Shape::Event,
        Hook::PreChat | Hook::PostChat | Hook::PreInvocation | Hook::PostInvocation => Shape::Ctx,
    }
}

impl ScriptFilter {
    fn new(
        script: Arc<Script>,
        users: Arc<UserValves>,
        tallies: [Option<Arc<Tally>>; Hook::ALL.len()],
    ) -> Self {
        let cheap: Hooks = script.hooks().filter(|hook| script.is_cheap(*hook)).collect();
        let is_proven = |hook| !script.settings.is_served || cheap.contains(hook);
        let unproven = Hook::ALL.map(|hook| AtomicU32::new(if is_proven(hook) { 0 } else { FIRST }));
        Self { script, users, tallies, unproven, cheap }
    }

    /// Returns `true` if a call could hold up the thread it runs on: the last ones did, or too few are known.
    fn may_be_slow(&self, hook: Hook) -> bool {
        let unproven = self.unproven[hook as usize].load(Relaxed);
        let is_unproven = (1..MEASURED).contains(&unproven);
        self.tallies[hook as usize].as_ref().is_some_and(|tally| tally.is_slow() || is_unproven)
    }

    /// Takes note of how long a call took: in milliseconds, and exactly where that was measured.
    fn watch(&self, hook: Hook, tally: &Tally, ticks: u64, measured: Option<Duration>) {
        let (unproven, is_long) = (&self.unproven[hook as usize], ticks >= SLOW);
        let left = unproven.load(Relaxed);
        if left == 0 && !is_long {
            return;
        }
        // The thread may only have waited for a processor.
        let is_slow = match measured {
            Some(time) => is_long && time >= Duration::from_millis(SLOW - 1),
            None => ticks >= SURELY_SLOW,
        };
        if is_slow {
            tally.was_slow();
            unproven.store(AFTER_SLOW, Relaxed);
        } else if left == 0 {
            unproven.store(MEASURED + AFTER_SLOW, Relaxed);
        } else if left == MEASURED + 1 {
            unproven.store(0, Relaxed);
        } else if !tally.is_slow() {
            // Two at once may count as one: then one more is watched.
            unproven.store(left - 1, Relaxed);
        }
    }

    fn state(&self, ctx: &FilterContext) -> Json {
        ctx.turn.state(self.script.id())
    }

    /// A call that breaks has kept nothing back: who is passed over leaves the texts as they were. An event
    /// whose text waits has nothing left for a client.
    fn through_windows(&self, ctx: FilterContext) -> Result<Verdict, Breakage> {
        let state = self.state(&ctx);
        let before = (self.script.manifest.on_break == OnBreak::Continue).then(|| windows::held(&state));
        let verdict = self.run_hook(Hook::Stream, ctx);
        if let (Some(before), Err(_) | Ok(Verdict::Error(_))) = (before, &verdict) {
            windows::put_back(&state, before);
        }
        verdict.map(|verdict| match verdict {
            Verdict::Continue(ctx) if ctx.value.is_changed() && windows::is_hollow(&ctx.value) => {
                Verdict::Continue(FilterContext { value: Json::array(), ..ctx })
            }
            verdict => verdict,
        })
    }

    /// What waits for want of an event that ended its choice goes through `stream` once more, and ahead of
    /// what `stream_end` adds.
    fn end_windows(&self, ctx: FilterContext) -> Result<Verdict, Breakage> {
        let mut rest = Vec::new();
        for value in windows::ends(&self.state(&ctx)) {
            match self.run_hook(Hook::Stream, FilterContext { value, ..ctx.clone() })? {
                Verdict::Continue(ctx) => rest.extend(windows::said(ctx.value)),
                Verdict::Skip(value) => rest.extend(windows::said(value)),
                refused => return Ok(refused),
            }
        }
        let own = match self.script.hook(Hook::StreamEnd) {
            // A stream that breaks has no end of its own.
            _ if is_broken_stream(&ctx.value) => {
                Verdict::Continue(FilterContext { value: Json::array(), ..ctx })
            }
            Some(_) => self.run_hook(Hook::StreamEnd, ctx)?,
            None => Verdict::Continue(ctx),
        };
        Ok(match own {
            Verdict::Continue(ctx) => {
                let value = windows::joined(rest, ctx.value.clone());
                Verdict::Continue(FilterContext { value, ..ctx })
            }
            Verdict::Skip(value) => Verdict::Skip(windows::joined(rest, value)),
            refused => refused,
        })
    }

    fn run_hook(&self, hook: Hook, ctx: FilterContext) -> Result<Verdict, Breakage> {
        let (Some(function), Some(tally)) = (self.script.hook(hook), &self.tallies[hook as usize]) else {
            return Ok(Verdict::Continue(ctx));
        };
        if !self.wants(hook, &ctx.value) {
            return Ok(Verdict::Continue(ctx));
        }
        let args = function.params.iter().map(|param| self.argument(*param, hook, &ctx)).collect::<Args>();
        let timing = tally.begin();
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
            // Of one that never waits, only others went first for a moment.
            let waited = if self.script.waits() { spent.waited } else { Duration::ZERO };
            trace.spend(hook.name(), self.script.id(), Spent { waited, ..spent });
        }
        let verdict = match result {
            Ok(value) => self.verdict(hook, ctx, &value).and_then(|verdict| self.with_events(hook, verdict)),
            Err(Ended::Refused(refusal)) => Ok(Verdict::Error(refusal)),
            Err(Ended::Broken { is_too_long: true, .. })
                if hook.is_before()
                    && self.script.manifest.on_break == OnBreak::Abort
                    && has_text_above(&ctx.value, max_text(), 0) =>
            {
                Ok(Verdict::Error(too_long(max_text())))
            }
            Err(Ended::Broken { breakage, .. }) => Err(breakage),
        };
        tally.end(&timing, spent, self.ending(hook, &verdict));
        self.watch(hook, tally, ticks, measured);
        verdict
    }

    /// How a call ended, as the chain takes it.
    fn ending(&self, hook: Hook, verdict: &Result<Verdict, Breakage>) -> Ending {
        let forgives = self.script.manifest.on_break == OnBreak::Continue;
        match verdict {
            Ok(Verdict::Continue(_)) => Ending::Continued,
            Ok(Verdict::Skip(_)) => Ending::Skipped,
            Ok(Verdict::Error(_)) if forgives && !hook.is_before() => Ending::RefusalForgiven,
            Ok(Verdict::Error(_)) => Ending::Refused,
            Err(_) if forgives => Ending::BreakageForgiven,
            Err(_) => Ending::Broken,
        }
    }

    /// Whether a hook wants to see this: an event contains what `match` names, if it names anything.
    fn wants(&self, hook: Hook, value: &Json) -> bool {
        let wanted = &self.script.manifest.matches;
        let is_wanted = |text: &str| wanted.iter().any(|wanted| text.contains(wanted.as_str()));
        hook != Hook::Stream || wanted.is_empty() || event::any_text(value, &is_wanted)
    }

    fn argument(&self, param: Param, hook: Hook, ctx: &FilterContext) -> Dynamic {
        match param {
            Param::Subject => live(&ctx.value, shape_of(hook)),
            param => self.script.argument(param, &ctx.turn, &self.users),
        }
    }

    fn verdict(&self, hook: Hook, ctx: FilterContext, value: &Dynamic) -> Result<Verdict, Breakage> {
        if let Some(answer) = value.read_lock::<Answered>() {
            return match &*answer {
                Answered::Skip(value) => Ok(Verdict::Skip(value.clone())),
                Answered::Error(refusal) => Ok(Verdict::Error(refusal.clone())),
                Answered::Ok(value, _) => self.go_on(hook, ctx, Some(value.clone())),
            };
        }
        if value.is_unit() {
            return self.go_on(hook, ctx, None);
        }
        let is_map = value.is_map() || value.is::<Map>();
        let is_list = value.is_array() || value.is::<List>();
        let fits = is_map || (is_list && matches!(hook, Hook::Stream | Hook::StreamEnd));
        // `stream_end` may end on a bare text, which is its last piece.
        let text = hook == Hook::StreamEnd && value.is_string();
        if !fits && !text {
            let wrong = self.wrong(hook, &format!("returned {}", article(value.type_name())));
            let hint = "what its last line gives counts, with a `;` behind it as well";
            return Err(Breakage::new(format!("{}; {hint}", wrong.cause)));
        }
        let value = json_of(value).map_err(|error| {
            let why = super::problem::summary_of_run(&error);
            self.wrong(hook, &format!("returned what cannot be used: {why}"))
        })?;
        self.go_on(hook, ctx, Some(value))
    }

    /// The chain would refuse the same; here it is counted as broken, and the file is named.
    fn with_events(&self, hook: Hook, verdict: Verdict) -> Result<Verdict, Breakage> {
        match wrong_events(hook, &verdict) {
            Some(wrong) => Err(self.wrong(hook, &wrong)),
            None => Ok(verdict),
        }
    }

    fn go_on(&self, hook: Hook, ctx: FilterContext, returned: Option<Json>) -> Result<Verdict, Breakage> {
        let ctx = match returned {
            Some(value) if shape_of(hook) == Shape::Ctx => merge(ctx, &value),
            Some(value) => FilterContext { value, ..ctx },
            None if hook == Hook::StreamEnd => FilterContext { value: Json::array(), ..ctx },
            None => ctx,
        };
        let needs_messages = matches!(hook, Hook::Inlet | Hook::Outlet | Hook::PreChat);
        let has_messages = |body: &Object| body.with("messages", |it| matches!(it, Some(Json::Array(_))));
        if needs_messages && !ctx.value.as_object().is_some_and(has_messages) {
            let kind = ctx.messages().kind();
            return Err(self.wrong(hook, &format!("left `messages` as {kind}; it must be an array")));
        }
        if hook == Hook::PreInvocation && !matches!(ctx.args(), Json::Object(_)) {
            let kind = ctx.args().kind();
            return Err(self.wrong(hook, &format!("left `args` as {kind}; it must be a map")));
        }
        Ok(Verdict::Continue(ctx))
    }

    fn wrong(&self, hook: Hook, what: &str) -> Breakage {
        let subject = super::hooks::subject_name(hook).unwrap_or("events");
        Breakage::new(format!(
            "{}: {hook} {what}; it returns `{subject}`, nothing, or skip(…)/error(…)",
            self.script.file.path.display()
        ))
    }
}

/// A returned ctx: its fields take the place of those of the same name.
fn merge(ctx: FilterContext, returned: &Json) -> FilterContext {
    let same = matches!((&ctx.value, returned), (Json::Object(a), Json::Object(b)) if a.is_same(b));
    if !same && let Json::Object(fields) = returned {
        for (name, value) in fields.entries() {
            let _ = ctx.value.set(&name, value);
        }
    }
    ctx
}

/// Returns `true` if any text of a value is longer than this, in bytes.
fn has_text_above(value: &Json, limit: usize, depth: usize) -> bool {
    match value {
        Json::Text(text) => text.len() > limit,
        _ if depth > MAX_DEPTH => false,
        Json::Array(items) => {
            items.with(|items| items.iter().any(|item| has_text_above(item, limit, depth + 1)))
        }
        Json::Object(fields) => {
            let mut any = false;
            fields.for_each(|_, value| any = any || has_text_above(value, limit, depth + 1));
            any
        }
        _ => false,
    }
}

fn too_long(limit: usize) -> Refusal {
    Refusal::new(format!(
        "cannot read a text of the request: it is longer than {} MB, the limit of [server] max_text_mb; shorten it, or raise the limit",
        limit >> 20
    ))
    .with_status(413)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Settings, SourceFile};
    use valvehouse_core::context::{Context, Events, TurnFacts};
    use valvehouse_core::fault::Fault;
    use valvehouse_core::filter::{Chain, Outcome};

    fn script(text: &str) -> Script {
        let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
        Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| {
            panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        })
    }

    async fn run(text: &str, hook: Hook, value: &str) -> Result<Json, Fault> {
        let filter = Arc::new(script(text)).into_filter(Arc::default());
        let facts =
            TurnFacts { user: Json::parse(br#"{"id":"ann","name":"Ann"}"#).unwrap(), ..TurnFacts::default() };
        let turn = Turn::new(facts, Context::default(), Events::default());
        match Chain::new(vec![filter]).run(hook, Json::parse(value.as_bytes()).unwrap(), &turn).await? {
            Outcome::Done(value) | Outcome::Skipped(value) => Ok(value),
        }
    }

    /// The filter of a text, and how it runs a hook next.
    fn with_pace(text: &str) -> (Arc<ScriptFilter>, impl Fn() -> Option<Pace>) {
        let mut script = script(text);
        script.settings.is_served = true;
        let script = Arc::new(script);
        let tallies = Hook::ALL.map(|hook| script.hook(hook).map(|_| script.figures().of(hook.name())));
        let filter = Arc::new(ScriptFilter::new(script, Arc::default(), tallies));
        let asked = filter.clone();
        let pace = move || {
            let value = Json::parse(br#"{"messages":[]}"#).unwrap();
            asked.pace(Hook::Inlet, &FilterContext { value, turn: Turn::default() })
        };
        (filter, pace)
    }

    #[test]
    fn first_calls_run_where_they_hold_up_nobody_unless_they_are_proven_to_be_cheap() {
        let (_, cheap) = with_pace("fn inlet(body) { body.seen = true; body }");
        assert_eq!(cheap(), None);

        let (filter, pace) = with_pace("fn inlet(body) { for m in body.messages { m.seen = true; } body }");
        let tally = filter.tallies[Hook::Inlet as usize].as_ref().unwrap();
        for _ in 0..FIRST {
            assert_eq!(pace(), Some(Pace::Slow));
            filter.watch(Hook::Inlet, tally, 0, Some(Duration::ZERO));
        }
        assert_eq!(pace(), None);
    }

    #[test]
    fn who_was_slow_once_runs_elsewhere_until_several_calls_were_fast() {
        let (filter, pace) = with_pace("fn inlet(body) { body }");
        let tally = filter.tallies[Hook::Inlet as usize].as_ref().unwrap();
        assert_eq!(pace(), None);
        filter.watch(Hook::Inlet, tally, SURELY_SLOW, None);
        for _ in 0..AFTER_SLOW {
            assert_eq!(pace(), Some(Pace::Slow));
            // A fast call, which the tally times since the one before was slow.
            tally.end(&tally.begin(), Spent::default(), Ending::Continued);
            filter.watch(Hook::Inlet, tally, 0, Some(Duration::ZERO));
        }
        assert_eq!(pace(), None);
    }

    #[test]
    fn who_may_have_waited_for_a_processor_is_measured_before_it_runs_elsewhere() {
        let (filter, pace) = with_pace("fn inlet(body) { body }");
        let tally = filter.tallies[Hook::Inlet as usize].as_ref().unwrap();
        for _ in 0..2 {
            filter.watch(Hook::Inlet, tally, SLOW, None);
            for _ in 0..AFTER_SLOW {
                assert_eq!(pace(), None);
                assert!(filter.unproven[Hook::Inlet as usize].load(Relaxed) > MEASURED);
                filter.watch(Hook::Inlet, tally, SLOW, Some(Duration::ZERO));
            }
            assert_eq!(filter.unproven[Hook::Inlet as usize].load(Relaxed), 0);
        }
        filter.watch(Hook::Inlet, tally, SLOW, None);
        filter.watch(Hook::Inlet, tally, SLOW, Some(Duration::from_millis(2)));
        assert_eq!(pace(), Some(Pace::Slow));
    }

    const MATCHING: &str = "/*\nmatch: secret, Grüße \n*/\nfn stream(event) { event.seen = true; }\nfn inlet(body) { body.seen = true; }";

    #[tokio::test]
    async fn a_filter_with_match_sees_events_with_one_of_its_texts_however_these_are_spelt() {
        for event in [
            r#"{"choices":[{"delta":{"content":"a secret b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"\u0073ecret"}}]}"#,
            r#"{"choices":[{"delta":{"content":"Gr\u00fc\u00dfe"}}]}"#,
            r#"{"choices":[{"delta":{}},{"delta":{"content":[{"type":"text","text":"secret"}]}}]}"#,
            r#"{"choices":[{"delta":{"content":["secret"]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"secret"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\":\"secret"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"logprobs":{"content":[{"token":"secret"}]}}]}"#,
            r#"{"data":"secret"}"#,
            r#"{"text":"secret"}"#,
        ] {
            let out = run(MATCHING, Hook::Stream, event).await.unwrap();
            assert_eq!(out.get("seen"), Some(true.into()), "{event}");
        }
    }

    #[tokio::test]
    async fn a_filter_with_match_does_not_see_other_events_and_every_body() {
        for event in [
            r#"{"id":"secret","model":"secret","choices":[{"delta":{"content":"Secret"},"finish_reason":"secret"}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"secret","function":{"name":"secret"}}]}}]}"#,
            r#"{"choices":[],"usage":{"text":"secret"}}"#,
        ] {
            let out = run(MATCHING, Hook::Stream, event).await.unwrap();
            assert!(out.get("seen").is_none() && !out.is_changed(), "{event}");
        }
        let out = run(MATCHING, Hook::Inlet, r#"{"messages":[]}"#).await.unwrap();
        assert_eq!(out.get("seen"), Some(true.into()));
    }

    #[test]
    fn match_is_refused_where_it_would_hide_what_a_filter_has_to_see() {
        let refused = |head: &str, code: &str| {
            let text = format!("/*\n{head}\n*/\n{code}");
            let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
            let problems = Script::compile(&file, &Settings::default()).unwrap_err();
            problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("\n")
        };
        let stream = "fn stream(event) { event }";
        assert!(refused("match: x\nsecurity: true", stream).contains("guard"));
        let ends = format!("{stream}\nfn stream_end(state) {{ \"\" }}");
        assert!(refused("match: x", &ends).contains("stream_end"));
        assert!(refused("match: x", "fn inlet(body) { body }").contains("not there"));
        assert!(refused("match: ,", stream).contains("no text"));
    }

    /// Runs statements over a body of two messages and gives `body.out`.
    async fn eval(code: &str) -> Json {
        let text = format!(
            "const Valves = #{{ list: [1, 2], debug: true, name: \"n\" }};\nconst WORDS = [\"a\", \"b\"];\nfn inlet(body, valves, state, __user__, __metadata__) {{ {code} }}"
        );
        let body = r#"{"z":1e2,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}],"n":7}"#;
        let out = run(&text, Hook::Inlet, body).await.unwrap_or_else(|fault| panic!("{code}: {fault}"));
        out.get("out").unwrap_or_default()
    }

    #[tokio::test]
    async fn live_values_behave_like_python_objects() {
        let cases = [
            (r#"body.out = body.messages.len();"#, "3"),
            (r#"body.out = body.messages[-1].text; body"#, r#""a""#),
            (
                r#"let m = body.messages[1]; m.content = "changed"; body.out = body.messages[1].content;"#,
                r#""changed""#,
            ),
            (r#"body.messages[1].content += "!"; body.out = body.messages[1].content;"#, r#""hi!""#),
            (
                r#"let m = body.messages; m.push(#{role: "user", content: "x"}); body.out = body.messages.len();"#,
                "4",
            ),
            (r#"for m in body.messages { m.seen = true; } body.out = body.messages[2].seen;"#, "true"),
            (r#"body.out = body.messages.filter(|m| m.role == "user").len();"#, "1"),
            (
                r#"let users = body.messages.filter(|m| m.role == "user"); users[0].content = "via"; body.out = body.messages[1].content;"#,
                r#""via""#,
            ),
            (r#"body.out = body.messages.map(|m| m.role);"#, r#"["system","user","assistant"]"#),
            (
                r#"let f = body.messages.find(|m| m.role == "user"); f.content = "found"; body.out = body.messages[1].content;"#,
                r#""found""#,
            ),
            (r#"body.out = body.messages.some(|m| m.role == "tool");"#, "false"),
            (
                r#"let both = body.messages + [#{role: "user", content: "y"}]; both[1].content = "same"; body.out = [both.len(), body.messages.len(), body.messages[1].content];"#,
                r#"[4,3,"same"]"#,
            ),
            (r#"body.messages.retain(|m| m.role != "system"); body.out = body.messages.len();"#, "2"),
            (
                r#"body.out = type_of(body.messages) + type_of(body) + type_of(body.n) + type_of(body.messages[1].content);"#,
                r#""arraymapi64string""#,
            ),
            (r#"body.out = body.nothing == ();"#, "true"),
            (r#"body.out = "n" in body && !("q" in body);"#, "true"),
            (r#"let keys = []; for k in body { keys.push(k); } body.out = keys;"#, r#"["z","messages","n"]"#),
            (r#"body.out = body.messages.last("user").content;"#, r#""hi""#),
            (r#"body.out = body.messages.count("user");"#, "1"),
            (
                r#"body.out = body.messages.system; body.messages.system = "S"; body.messages.append_system("T"); body.out += body.messages[0].content;"#,
                r#""sS\n\nT""#,
            ),
            (r#"body.out = body.messages[2].images.len();"#, "1"),
            (r#"body.messages[2].text = "new"; body.out = body.messages[2].parts.len();"#, "2"),
            (
                r#"let f = body.ensure("metadata.features", #{}); f.web = true; body.out = body.metadata.features.web;"#,
                "true",
            ),
            (
                r#"body.out = [empty(()), empty(""), empty([]), empty(#{}), empty(0), empty(body.messages), empty("x")];"#,
                "[true,true,true,true,true,false,false]",
            ),
            (
                r#"let c = body.messages.copy(); c[0].content = "other"; body.out = body.messages[0].content;"#,
                r#""s""#,
            ),
            (r#"body.out = valves.debug && Valves.debug;"#, "true"),
            (r#"body.out = Valves.list.len() + Valves["list"][1];"#, "4"),
            (r#"let k = "name"; body.out = Valves[k];"#, r#""n""#),
            (r#"let f = |x| x + Valves.list.len(); body.out = f.call(1);"#, "3"),
            (r#"let k = "list"; let f = |x| x + Valves[k].len(); body.out = f.call(1);"#, "3"),
            (r#"body.out = WORDS.contains("a") && WORDS.len() == 2;"#, "true"),
            (
                r#"body.out = #{ default: 1, match: 2, new: 3, in: 4, if: 5 }; body.out.default = (body.out.in) + body.out.match + body.out["if"];"#,
                r#"{"default":11,"if":5,"in":4,"match":2,"new":3}"#,
            ),
            (
                r#"try { throw "no"; } catch (e) { body.out = [e.message, e.status, e.plugin, e.line, `${e}`]; }"#,
                r#"["no",400,"x",3,"no"]"#,
            ),
            (
                r#"try { throw #{status: 429, message: "slow", retry_after: 3}; } catch (e) { body.out = [e.message, e.status, e.retry_after, "" + e]; }"#,
                r#"["slow",429,3,"slow"]"#,
            ),
            (
                r#"try { body.messages[99]; } catch (e) { body.out = [e.status, e.message]; }"#,
                r#"[500,"index 99 is out of range: the array has 3 elements"]"#,
            ),
            (
                r#"try { let a = [1]; a[5]; } catch (e) { body.out = [e.status, e.plugin, e.line, e.message.contains("out of bounds"), `${e}` == e.message]; }"#,
                r#"[500,"x",3,true,true]"#,
            ),
            (r#"try { deny("go", 403); } catch (e) { body.out = e.status; }"#, "403"),
            (
                r#"try { body.messages[0].me = body; } catch (e) { body.out = e.message; }"#,
                r#""a value cannot be put inside itself; put in a copy: `value.copy()`""#,
            ),
            (
                r#"try { valves.debug = false; } catch (e) { body.out = e.message; }"#,
                r#""this value can only be read; work on a copy: `value.copy()`""#,
            ),
            (r#"state.count = (state.count ?? 0) + 1; body.out = state.count;"#, "1"),
            (r#"__metadata__.x = 1; body.out = __metadata__;"#, r#"{"x":1}"#),
            (r#"body.out = __user__.name + __user__.id;"#, r#""Annann""#),
            (r#"body.out = `${body.messages[1]}`;"#, r#""{\"role\":\"user\",\"content\":\"hi\"}""#),
            (r#"body.out = body.messages[1] == #{role: "user", content: "hi"};"#, "true"),
            (r#"body.out = body.messages == ();"#, "false"),
            (r#"body.out = body.get("none", 5) + body.get("n");"#, "12"),
            (r#"body.messages.keep_last(1); body.out = body.messages.len();"#, "2"),
            (r#"body.out = body.messages.tail(1)[0].role;"#, r#""assistant""#),
            (
                r#"body.messages.insert(0, #{role: "x"}); body.messages.remove(1); body.out = body.messages[0].role;"#,
                r#""x""#,
            ),
            (r#"body.out = body.messages.index_of(|m| m.role == "user");"#, "1"),
            (
                r#"body.messages.sort(|a, b| if a.role < b.role { -1 } else { 1 }); body.out = body.messages[0].role;"#,
                r#""assistant""#,
            ),
            (
                r#"let t = ""; for m in body.messages { for p in m.texts { t += p.text; p.text = "R"; } } body.out = t + body.messages[2].text;"#,
                r#""shiaR""#,
            ),
            (r#"body.out = switch body.messages[1].role { "user" => "u", _ => "other" };"#, r#""u""#),
            (r#"body.out = body.messages.reduce(|sum, m| sum + m.text.len(), 0);"#, "4"),
            (r#"body.out = body.messages[-2..].map(|m| m.role);"#, r#"["user","assistant"]"#),
            (
                r#"let part = body.messages[0..=1]; part[1].content = "via"; body.out = [part.len(), body.messages[1].content, part.count("user")];"#,
                r#"[2,"via",1]"#,
            ),
            (
                r#"let m = body.messages; let n = 2; body.out = [m[1..].len(), m[..-1].len(), m[-9..n].len(), m[5..9].len(), m[..=-2].len(), m[2..1].len()];"#,
                "[2,2,2,0,2,0]",
            ),
            (
                r#"body.messages = [body.messages[0]] + body.messages[-1..]; body.out = body.messages.len();"#,
                "2",
            ),
            (
                r#"let f = || missing_one(1); try { f.call(); } catch (e) { body.out = e.message; }"#,
                r#""Function not found: missing_one (i64)""#,
            ),
            (r#"body.remove("n"); body.out = body.keys();"#, r#"["z","messages"]"#),
        ];
        let mut wrong = Vec::new();
        for (code, expected) in cases {
            let got = std::panic::AssertUnwindSafe(eval(code));
            let got = match futures::FutureExt::catch_unwind(got).await {
                Ok(value) => value.to_string(),
                Err(panic) => format!("{:?}", panic.downcast_ref::<String>()),
            };
            if got != expected {
                wrong.push(format!("{code}\n  expected {expected}\n  got      {got}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
