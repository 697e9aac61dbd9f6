//! Plugins that fail repeatedly: they are disabled for a while, tried again, and reported everywhere; and the
//! cost of plugin calls.

use crate::host::{TestHost, chat_body, until};
use crate::upstream::MODEL;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use valvehouse::context::Turn;
use valvehouse::filter::{Chain, Hook};
use valvehouse::host::{PluginStanding, SharedStatus};
use valvehouse::json::Json;
use valvehouse::script::{Kind, Script, Settings, SourceFile};

/// A cool-down that is longer than any test.
const LONG: &str = "[breaker]\nfailure_threshold = 3\ncool_down_ms = 3_600_000\n";
/// Fails on request.
const MOODY: &str =
    r#"fn inlet(body) { if body.messages[-1].text == "break" { let x = 1 / 0; } body.touched = true; body }"#;

fn ignored(source: &str) -> String {
    format!("/*\non_error: continue\n*/\n{source}")
}

async fn broken_three_times(config: &str, id: &str, source: &str) -> TestHost {
    let host = TestHost::new().config(config).filter(id, source).start().await;
    for _ in 0..3 {
        host.ask("break").await;
    }
    host
}

#[tokio::test]
async fn a_filter_rejects_with_retry_after_after_three_failures() {
    let host = broken_three_times(LONG, "moody", MOODY).await;
    let answer = host.ask("hello").await;
    answer.refused(503, "cannot call the plugin `moody`: its circuit breaker is open");
    assert_eq!(answer.header("retry-after"), Some("3600"));
    host.stands("moody", "breaker_open").await;
}

#[tokio::test]
async fn a_fail_open_filter_is_skipped_while_its_breaker_is_open() {
    let host = broken_three_times(LONG, "moody", &ignored(MOODY)).await;
    assert_eq!(host.ask("hello").await.status, 200);
    host.stands("moody", "breaker_open").await;
}

#[tokio::test]
async fn a_guard_with_an_open_breaker_rejects_every_request() {
    let guard = format!("/*\nsecurity: true\non_error: continue\n*/\n{MOODY}");
    let host = broken_three_times(LONG, "guard", &guard).await;
    host.ask("hello").await.refused(503, "cannot call the plugin `guard`: its circuit breaker is open");
}

#[tokio::test]
async fn a_successful_probe_closes_the_breaker() {
    let config = "[breaker]\nfailure_threshold = 3\ncool_down_ms = 200\n";
    let host = broken_three_times(config, "moody", MOODY).await;
    until("a call may try again", || async { host.ask("hello").await.status == 200 }).await;
    host.stands("moody", "live").await;
    assert_eq!(host.ask("hello").await.status, 200);
}

#[tokio::test]
async fn a_fixed_file_is_used_at_once() {
    let host = broken_three_times(LONG, "moody", MOODY).await;
    host.update("moody", "fn inlet(body) { body }").await;
    assert_eq!(host.ask("break").await.status, 200);
}

#[tokio::test]
async fn occasional_failures_do_not_open_the_breaker() {
    let host = TestHost::new().config(LONG).filter("moody", MOODY).start().await;
    for _ in 0..8 {
        assert_eq!(host.ask("break").await.status, 500);
        assert_eq!(host.ask("hello").await.status, 200);
        assert_eq!(host.ask("hello").await.status, 200);
    }
    host.stands("moody", "live").await;
}

#[tokio::test]
async fn rejections_do_not_count_as_failures() {
    let host = TestHost::new().config(LONG).filter("strict", "fn inlet(body) { deny(`no`) }").start().await;
    for _ in 0..6 {
        host.ask("hello").await.refused(400, "no");
    }
    host.stands("strict", "live").await;
}

#[tokio::test]
async fn an_open_breaker_of_a_tool_is_reported_to_the_model() {
    let config = format!(
        "{LONG}[[models]]\nname = \"helper\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"look\"]\n"
    );
    let host = TestHost::new().config(&config).tool("look", "fn handler(args) { 1 / 0 }").start().await;
    for _ in 0..3 {
        let answer = host.chat(&chat_body("helper", "/look")).await;
        assert!(answer.text().contains("division by zero"), "{}", answer.body());
    }
    let answer = host.chat(&chat_body("helper", "/look")).await;
    assert!(
        answer.text().contains("cannot call the plugin `look`: its circuit breaker is open"),
        "{}",
        answer.body()
    );
    host.stands("look", "breaker_open").await;
}

/// Requests whose size makes a script fail, each with the code that fails and the text of the refusal.
fn oversized() -> [(&'static str, Value, &'static str); 6] {
    let long = "x".repeat((4 << 20) + 1);
    let many = |count: usize| json!({"model": MODEL, "messages": vec![json!({"role": "user", "content": ""}); count]});
    let wide: serde_json::Map<String, Value> = (0..20_000).map(|key| (key.to_string(), json!(0))).collect();
    let deep = (0..60).fold(json!(0), |inner, _| json!([inner]));
    let with = |key: &str, value: Value| {
        let mut body = chat_body(MODEL, "hello");
        body[key] = value;
        body
    };
    [
        ("let t = body.messages[-1].text; t.len();", chat_body(MODEL, &long), "max_text_mb"),
        ("body.messages.filter(|m| m.role == \"x\");", many(150_000), "100000 elements"),
        ("for m in body.messages { let n = 0; while n < 20 { n += 1; } }", many(50_000), "operations"),
        (
            "for key in (body.wide ?? #{}).keys() { let n = 0; while n < 50 { n += 1; } }",
            with("wide", wide.into()),
            "operations",
        ),
        ("walk(body.deep ?? []);", with("deep", deep), "shorten the request"),
        (
            "let parts = body.messages[-1].text.split(\" \");",
            chat_body(MODEL, &"x ".repeat(150_000)),
            "shorten the request",
        ),
    ]
}

/// Returns [`LONG`] with time for a slow machine, so that the size of a request is what exceeds a limit.
fn patient() -> String {
    format!("{LONG}[filters.looks]\nbudget = {{ ms = 10_000 }}\n")
}

/// Returns a filter whose hook runs this code.
fn runs(code: &str, frontmatter: &str) -> String {
    let walk = "fn walk(v) { if type_of(v) == \"array\" { for one in v { walk(one); } } }";
    format!("/*\n{frontmatter}\n*/\n{walk}\nfn inlet(body) {{ {code} body }}")
}

#[tokio::test]
async fn requests_that_are_too_large_for_a_guard_are_refused_and_do_not_open_its_breaker() {
    for (code, body, refusal) in oversized() {
        let host =
            TestHost::new().config(&patient()).filter("looks", runs(code, "security: true")).start().await;
        for _ in 0..3 {
            let answer = host.chat(&body).await;
            assert_eq!(answer.status, 413, "{code}: {}", answer.body());
            answer.refused(413, refusal);
        }
        assert_eq!(host.ask("hello").await.status, 200, "{code}");
        host.stands("looks", "live").await;
    }
}

#[tokio::test]
async fn requests_that_are_too_large_for_a_filter_that_continues_do_not_open_its_breaker() {
    for (code, body, _) in valvehouse_testkit::sampled(oversized(), 3) {
        let host = TestHost::new()
            .config(&patient())
            .filter("looks", runs(code, "on_error: continue"))
            .start()
            .await;
        for _ in 0..3 {
            assert_eq!(host.chat(&body).await.status, 200, "{code}");
        }
        assert_eq!(host.ask("hello").await.status, 200, "{code}");
        host.stands("looks", "live").await;
    }
}

#[tokio::test]
async fn requests_that_are_too_large_for_a_pipe_do_not_open_its_breaker() {
    let pipe = "fn pipe(body) { let t = body.messages[-1].text; t.len().to_string() }";
    let host = TestHost::new().config(LONG).filter("counts", pipe).start().await;
    for _ in 0..3 {
        host.chat(&chat_body("counts", &"x".repeat((4 << 20) + 1))).await.refused(413, "max_text_mb");
    }
    assert_eq!(host.chat(&chat_body("counts", "hello")).await.text(), "5");
}

#[tokio::test]
async fn a_script_that_builds_large_values_itself_opens_its_breaker() {
    for code in
        ["let t = \"0123456789\"; loop { t += t; }", "loop { body.messages.push(#{ role: \"user\" }); }"]
    {
        let host = TestHost::new().config(LONG).filter("grows", runs(code, "security: true")).start().await;
        for _ in 0..3 {
            assert_eq!(host.ask("hello").await.status, 500, "{code}");
        }
        host.ask("hello").await.refused(503, "its circuit breaker is open");
    }
}

#[tokio::test]
async fn a_question_that_a_client_cannot_answer_does_not_open_the_breaker() {
    let asks = "fn inlet(body) { if body.messages[-1].text == \"break\" { ask(#{ type: \"confirmation\", data: #{} }); } body }";
    let host = TestHost::new().config(LONG).filter("asks", asks).start().await;
    for _ in 0..3 {
        assert_eq!(host.ask("break").await.status, 500);
    }
    assert_eq!(host.ask("hello").await.status, 200);
}

#[tokio::test]
async fn a_disabled_breaker_never_skips_a_call() {
    let host = broken_three_times("[breaker]\nfailure_threshold = 0\n", "moody", MOODY).await;
    for _ in 0..6 {
        assert_eq!(host.ask("break").await.status, 500);
    }
    assert_eq!(host.ask("hello").await.status, 200);
}

/// Waits until a plugin's report satisfies a condition and returns it.
async fn standing_of(host: &TestHost, id: &str, is_so: impl Fn(&PluginStanding) -> bool) -> PluginStanding {
    let ask = || async { SharedStatus::from_hosts(&host.store().hosts().await.unwrap()).of(id).cloned() };
    until("the host tells", || async { ask().await.is_some_and(|standing| is_so(&standing)) }).await;
    ask().await.unwrap()
}

#[tokio::test]
async fn plugin_status_has_call_metrics_and_open_breakers() {
    let host = broken_three_times(LONG, "moody", MOODY).await;
    let standing = standing_of(&host, "moody", |standing| standing.open_breaker.is_some()).await;
    let sum = standing.sums["inlet"];
    assert_eq!((sum.calls, sum.broken), (3, 3));
    assert!(sum.operations >= 9 && sum.most_operations >= 3 && sum.nanoseconds > 0, "{sum:?}");
    let open_breaker = standing.open_breaker.unwrap();
    assert_eq!(open_breaker.failures, 3);
    assert!(open_breaker.cause.contains("division by zero"), "{}", open_breaker.cause);
    assert!(open_breaker.next_try > Duration::from_secs(3_000));
}

#[tokio::test]
async fn a_hook_that_returns_too_many_events_opens_the_breaker() {
    let flood = "fn stream(event) { let all = [event]; while all.len() < 1001 { all = all + all; } all }";
    let host = broken_three_times(LONG, "flood", flood).await;
    let standing = standing_of(&host, "flood", |standing| standing.open_breaker.is_some()).await;
    assert_eq!(standing.sums["stream"].broken, 3);
    assert!(standing.open_breaker.unwrap().cause.contains("returned 1024 events"));
}

#[tokio::test]
async fn call_metrics_survive_a_reload_and_record_peak_memory() {
    let source = "fn inlet(body) { let s = \"\"; s.pad(1_000_000, \"x\"); body }";
    let host = TestHost::new().filter("hungry", source).start().await;
    host.ask("hello").await;
    host.update("hungry", "fn inlet(body) { let n = 0; while n < 100 { n += 1; } body }").await;
    host.ask("hello").await;
    let standing = standing_of(&host, "hungry", |standing| standing.sums["inlet"].measured == 2).await;
    let sum = standing.sums["inlet"];
    assert!(sum.most_memory > 1_000_000, "{sum:?}");
    assert!(sum.most_operations >= 100, "{sum:?}");
}

#[tokio::test]
async fn the_state_shared_by_hooks_of_a_turn_is_bounded() {
    for place in ["state", "__metadata__"] {
        let text = format!(
            "fn inlet(body, {place}) {{ let s = \"\"; s.pad(2_000_000, \"x\"); {place}[`k${{{place}.len()}}`] = s; }}"
        );
        let file = SourceFile::new(Kind::Filter, "keeps", "filters/keeps.rhai", text);
        let script = Script::compile(&file, &Settings::default()).unwrap();
        let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
        let turn = Turn::default();
        let mut calls = 0;
        let error = loop {
            let body = Json::parse(br#"{"messages":[]}"#).unwrap();
            match chain.run(Hook::Inlet, body, &turn).await {
                Ok(_) => calls += 1,
                Err(error) => break error,
            }
        };
        assert!((30..40).contains(&calls), "{calls}");
        assert!(error.to_string().contains("exceeded its limit of 64 MB"), "{error}");
    }
}
