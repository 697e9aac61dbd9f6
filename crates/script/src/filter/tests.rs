//! Tests of hooks: the parameters they receive and the verdicts of their results.

use super::runner::{AFTER_SLOW, FIRST, GROWTH, MEASURED, SLOW, SMALL, SURELY_SLOW, ScriptFilter};
use crate::{Kind, Script, Settings, SourceFile, UserValves};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::filter::{Chain, ChainOutcome, FilterContext, Hook, HookRunner};
use valvehouse_core::metrics::{CallCost, CallOutcome};
use valvehouse_executor::Workload;
use valvehouse_json::Json;

fn script(text: &str) -> Script {
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

async fn run(text: &str, hook: Hook, value: &str) -> Result<Json, Error> {
    let filter = Arc::new(script(text)).into_filter(Arc::default());
    let facts =
        TurnFacts { user: Json::parse(br#"{"id":"ann","name":"Ann"}"#).unwrap(), ..TurnFacts::default() };
    let turn = Turn::new(facts, Context::default(), Events::default());
    match Chain::new(vec![filter]).run(hook, Json::parse(value.as_bytes()).unwrap(), &turn).await? {
        ChainOutcome::Done(value) | ChainOutcome::Skipped(value) => Ok(value),
    }
}

#[tokio::test]
async fn a_secret_of_the_user_is_redacted_in_an_error() {
    let text = "const UserValves = #{ own: #{ value: \"\", secret: true } };\n\
        fn inlet(body, __user__) { throw `no ${__user__.valves.own}` }";
    let own = Json::parse(br#"{"own":"sk-of-ann-0001"}"#).unwrap();
    let users = UserValves { by_user: [("ann".to_owned(), own)].into(), ..UserValves::default() };
    let filter = Arc::new(script(text)).into_filter(Arc::new(users));
    let facts = TurnFacts { user: Json::parse(br#"{"id":"ann"}"#).unwrap(), ..TurnFacts::default() };
    let turn = Turn::new(facts, Context::default(), Events::default());
    let error = Chain::new(vec![filter]).run(Hook::Inlet, Json::object(), &turn).await.unwrap_err();
    assert!(error.to_string().ends_with("no ***"), "{error}");
}

/// Returns the filter of a source text, and a function that returns the workload of its next `inlet`.
fn with_workload(text: &str) -> (Arc<ScriptFilter>, impl Fn() -> Option<Workload>) {
    let mut script = script(text);
    script.settings.is_served = true;
    let script = Arc::new(script);
    let metrics_by_name = Hook::ALL.map(|hook| script.hook(hook).map(|_| script.metrics().of(hook.name())));
    let filter = Arc::new(ScriptFilter::new(script, Arc::default(), metrics_by_name));
    let runner = filter.clone();
    let workload = move || {
        let value = Json::parse(br#"{"messages":[]}"#).unwrap();
        runner.workload(Hook::Inlet, &FilterContext { value, turn: Turn::default() })
    };
    (filter, workload)
}

#[test]
fn first_calls_run_on_the_executor_unless_proven_cheap() {
    let (_, cheap) = with_workload("fn inlet(body) { body.seen = true; body }");
    assert_eq!(cheap(), None);

    let (filter, workload) =
        with_workload("fn inlet(body) { for m in body.messages { m.seen = true; } body }");
    let call_metrics = filter.metrics_by_name[Hook::Inlet as usize].as_ref().unwrap();
    for _ in 0..FIRST {
        assert_eq!(workload(), Some(Workload::CpuBound));
        filter.watch(Hook::Inlet, call_metrics, 0, Some(Duration::ZERO));
    }
    assert_eq!(workload(), None);
}

#[test]
fn a_slow_filter_runs_on_the_executor_until_several_calls_are_fast() {
    let (filter, workload) = with_workload("fn inlet(body) { body }");
    let call_metrics = filter.metrics_by_name[Hook::Inlet as usize].as_ref().unwrap();
    assert_eq!(workload(), None);
    filter.watch(Hook::Inlet, call_metrics, SURELY_SLOW, None);
    for _ in 0..AFTER_SLOW {
        assert_eq!(workload(), Some(Workload::CpuBound));
        // A fast call whose metrics still report the earlier slow call.
        call_metrics.end(&call_metrics.begin(), CallCost::default(), CallOutcome::Continued);
        filter.watch(Hook::Inlet, call_metrics, 0, Some(Duration::ZERO));
    }
    assert_eq!(workload(), None);
}

#[test]
fn a_call_with_a_much_larger_input_than_measured_runs_on_the_executor() {
    let workload_at = |filter: &ScriptFilter, hook: Hook, size: usize| {
        let turn = Turn::default();
        turn.note_size(size);
        turn.set_long_event(size > SMALL);
        filter.workload(hook, &FilterContext { value: Json::object(), turn })
    };
    let text = "fn inlet(body) { regex::is_match(body.t, \"a\"); body } fn stream(event) { event.n = event.t + event.t; }";
    let (filter, _) = with_workload(text);
    for hook in [Hook::Inlet, Hook::Stream] {
        filter.unproven[hook as usize].store(0, Relaxed);
        assert_eq!(workload_at(&filter, hook, SMALL), None);
        let size = SMALL * 10;
        assert_eq!(workload_at(&filter, hook, size), Some(Workload::CpuBound));
        filter.note_fast(hook, size, SLOW);
        assert_eq!(workload_at(&filter, hook, size), Some(Workload::CpuBound), "it was slow with so much");
        filter.note_fast(hook, size, 0);
        assert_eq!(workload_at(&filter, hook, size), None);
        assert_eq!(workload_at(&filter, hook, size * (GROWTH + 1)), Some(Workload::CpuBound));
    }
    let (cheap, _) = with_workload("fn inlet(body) { body.seen = true; body }");
    assert_eq!(workload_at(&cheap, Hook::Inlet, SMALL * 100), None);
}

#[tokio::test]
async fn filters_that_are_not_proven_cheap_measure_the_size_of_a_turn() {
    let body = Json::parse(format!(r#"{{"messages":[{{"content":"{}"}}]}}"#, "x".repeat(200_000)).as_bytes());
    for (text, is_noted) in [
        ("fn inlet(body) { body.seen = true; }", false),
        ("fn inlet(body) { body.seen = text::words(\"a b\"); }", true),
    ] {
        let mut script = script(text);
        script.settings.is_served = true;
        let turn = Turn::default();
        let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
        let outcome = chain.run(Hook::Inlet, body.as_ref().unwrap().deep_clone(), &turn).await;
        assert!(outcome.is_ok() || is_noted, "{outcome:?}");
        assert_eq!(turn.size() > 200_000, is_noted, "{text}: {}", turn.size());
    }
}

#[test]
fn a_filter_that_seemed_slow_is_measured_before_it_moves_to_the_executor() {
    let (filter, workload) = with_workload("fn inlet(body) { body }");
    let call_metrics = filter.metrics_by_name[Hook::Inlet as usize].as_ref().unwrap();
    for _ in 0..2 {
        filter.watch(Hook::Inlet, call_metrics, SLOW, None);
        for _ in 0..AFTER_SLOW {
            assert_eq!(workload(), None);
            assert!(filter.unproven[Hook::Inlet as usize].load(Relaxed) > MEASURED);
            filter.watch(Hook::Inlet, call_metrics, SLOW, Some(Duration::ZERO));
        }
        assert_eq!(filter.unproven[Hook::Inlet as usize].load(Relaxed), 0);
    }
    filter.watch(Hook::Inlet, call_metrics, SLOW, None);
    filter.watch(Hook::Inlet, call_metrics, SLOW, Some(Duration::from_millis(2)));
    assert_eq!(workload(), Some(Workload::CpuBound));
}

const MATCHING: &str = "/*\nmatch: secret, Grüße \n*/\nfn stream(event) { event.seen = true; }\nfn inlet(body) { body.seen = true; }";

#[tokio::test]
async fn a_filter_with_match_sees_events_with_its_texts_in_any_notation() {
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
        r#"{"choices":[],"usage":{"text":"secret"}}"#,
        // No service has an end of this name.
        r#"{"choices":[{"delta":{},"finish_reason":"secret"}]}"#,
    ] {
        let out = run(MATCHING, Hook::Stream, event).await.unwrap();
        assert_eq!(out.get("seen"), Some(true.into()), "{event}");
    }
}

#[tokio::test]
async fn a_filter_with_match_does_not_see_other_events_and_every_body() {
    for event in [
        r#"{"id":"secret","model":"secret","choices":[{"delta":{"content":"Secret"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"secret","function":{"name":"secret"}}]}}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
    ] {
        let out = run(MATCHING, Hook::Stream, event).await.unwrap();
        assert!(out.get("seen").is_none() && !out.is_changed(), "{event}");
    }
    let out = run(MATCHING, Hook::Inlet, r#"{"messages":[]}"#).await.unwrap();
    assert_eq!(out.get("seen"), Some(true.into()));
}

#[test]
fn match_is_rejected_where_it_would_hide_required_events() {
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
    assert!(refused("match: x", "fn inlet(body) { body }").contains("missing hook"));
    assert!(refused("match: ,", stream).contains("missing texts"));
}

/// Runs statements on a body of two messages and returns `body.out`.
async fn eval(code: &str) -> Json {
    let text = format!(
        "const Valves = #{{ list: [1, 2], debug: true, name: \"n\" }};\nconst WORDS = [\"a\", \"b\"];\nfn inlet(body, valves, state, __user__, __metadata__) {{ {code} }}"
    );
    let body = r#"{"z":1e2,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}],"n":7}"#;
    let out = run(&text, Hook::Inlet, body).await.unwrap_or_else(|error| panic!("{code}: {error}"));
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
        (r#"body.stop = ["a", "b", "a"]; body.out = body.stop.count("a");"#, "2"),
        (
            r#"body.out = body.messages.system; body.messages.system = "S"; body.messages.append_system("T"); body.out += body.messages[0].content;"#,
            r#""sS\n\nT""#,
        ),
        (
            r#"let mark = #{ type: "ephemeral" }; body.messages[0].content = [#{ type: "text", text: "s", cache_control: mark }];
               body.messages.append_system("T"); body.out = body.messages[0].content.map(|part| part.text);"#,
            r#"["s","T"]"#,
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
            r#"{"default":11,"match":2,"new":3,"in":4,"if":5}"#,
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
        (r#"body.messages = [body.messages[0]] + body.messages[-1..]; body.out = body.messages.len();"#, "2"),
        (
            r#"let f = || 1.missing_one(); try { f.call(); } catch (e) { body.out = e.message; }"#,
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
