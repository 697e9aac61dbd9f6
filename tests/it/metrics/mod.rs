//! The metrics of the host: each event changes them, and text of clients never becomes a label.

mod description;
mod ready;
mod scrape;

use crate::host::{Answer, TestHost, chat_body, streaming, until};
use crate::upstream::{Gate, MODEL, Reply};
use scrape::Scrape;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Continues, refuses, fails or answers on request.
const ALL_WAYS: &str = r#"
fn inlet(body) {
    switch body.messages[-1].text {
        "refuse" => deny("no", 403),
        "break" => { let x = [1]; x[9]; }
        "skip" => return skip("by itself"),
        _ => body
    }
}
"#;
/// A filter whose failures are ignored.
const FORGIVEN: &str = r#"/*
on_error: continue
*/
fn inlet(body) { if body.messages[-1].text == "forgive" { let x = [1]; x[9]; } body }
"#;

async fn scraped(host: &TestHost) -> Scrape {
    let answer = host.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
    Scrape::read(answer.body())
}

#[tokio::test]
async fn requests_change_exactly_their_metrics() {
    let host = TestHost::new()
        .filter("ways", ALL_WAYS)
        .filter("ignored", FORGIVEN)
        .provider("retry = { max_attempts = 2, initial_delay_ms = 1 }")
        .start()
        .await;
    let before = scraped(&host).await;
    host.ask("hi").await.text();
    host.stream("hi").await.text();
    for (text, status) in [("refuse", 403), ("break", 500), ("skip", 200), ("forgive", 200)] {
        assert_eq!(host.ask(text).await.status, status, "{text}");
    }
    host.upstream.reply(Reply::json(&json!({"error": {"message": "busy"}})).status(429));
    assert_eq!(host.ask("hi").await.status, 429);
    let after = scraped(&host).await;
    let moved = |name: &str, labels: &str| after.of(name, labels) - before.of(name, labels);

    for (outcome, count) in [("continue", 4), ("refused", 1), ("failed", 1), ("skip", 1), ("ignored", 0)] {
        let labels = format!("plugin=ways,hook=inlet,outcome={outcome}");
        assert_eq!(moved("valvehouse_plugin_calls_total", &labels), f64::from(count), "{outcome}");
    }
    assert_eq!(moved("valvehouse_plugin_calls_total", "plugin=ignored,hook=inlet,outcome=ignored"), 1.0);
    assert!(moved("valvehouse_plugin_operations_total", "plugin=ways,hook=inlet") > 7.0);
    assert_eq!(moved("valvehouse_plugin_call_duration_seconds_count", "plugin=ways,hook=inlet"), 7.0);

    for (outcome, count) in [("answered", 3), ("rate_limited", 1), ("canceled", 0)] {
        let labels = format!("provider=mock,outcome={outcome}");
        assert_eq!(moved("valvehouse_model_calls_total", &labels), f64::from(count), "{outcome}");
    }
    assert_eq!(moved("valvehouse_model_retries_total", "provider=mock"), 1.0);
    assert_eq!(moved("valvehouse_model_call_duration_seconds_count", "provider=mock"), 3.0);
    assert_eq!(moved("valvehouse_model_time_to_first_chunk_seconds_count", "provider=mock"), 3.0);
    // The tokens of whole responses; a stream reports its tokens only on request.
    assert_eq!(moved("valvehouse_model_tokens_total", "provider=mock,direction=input"), 2.0);

    for (status, count) in [("2xx", 4), ("4xx", 2), ("5xx", 1), ("gone", 0)] {
        let labels = format!("endpoint=chat,status={status}");
        assert_eq!(moved("valvehouse_http_requests_total", &labels), f64::from(count), "{status}");
    }
    assert_eq!(moved("valvehouse_http_request_duration_seconds_count", "endpoint=chat"), 7.0);
    assert_eq!(after.of("valvehouse_http_requests_running", "endpoint=chat"), 0.0);
    assert_eq!(after.of("valvehouse_plugins", "kind=filter,state=live"), 2.0);
    assert_eq!(after.of("valvehouse_store_up", ""), 1.0);
    assert_eq!(moved("valvehouse_generation", ""), 0.0);
}

#[tokio::test]
async fn reloads_and_problems_are_counted() {
    let host = TestHost::new().filter("good", "fn inlet(body) { body }").start().await;
    let before = scraped(&host).await;
    host.update("good", "fn inlet(body) { body.seen = true; body }").await;
    host.save("good", "fn inlet(body) { body ");
    host.stands("good", "stale").await;
    let after = scraped(&host).await;
    assert!(
        after.of("valvehouse_reloads_total", "result=clean")
            > before.of("valvehouse_reloads_total", "result=clean")
    );
    assert_eq!(after.of("valvehouse_reloads_total", "result=faulty"), 1.0);
    assert_eq!(after.of("valvehouse_plugins", "kind=filter,state=stale"), 1.0);
    assert_eq!(after.of("valvehouse_problems", "severity=error"), 1.0);
    assert_eq!(after.of("valvehouse_generation", ""), host.generation().await as f64);
}

#[tokio::test]
async fn a_stream_counts_as_open_until_it_ends_or_its_reader_disconnects() {
    for source in [None, Some("fn stream(event) { event }")] {
        let setup = TestHost::new();
        let setup = if let Some(source) = source { setup.filter("looks", source) } else { setup };
        let host = setup.start().await;
        host.upstream.reply(Reply::begun(["one "]).then_gate(&Gate::closed()));
        let mut begun = host.begin("hi").await;
        begun.chunk().await.unwrap().expect("the first words");
        let during = scraped(&host).await;
        assert_eq!(during.of("valvehouse_http_streams_open", "endpoint=chat"), 1.0);
        assert_eq!(during.of("valvehouse_model_calls_running", "provider=mock"), 1.0);
        assert_eq!(during.of("valvehouse_turns_running", ""), 1.0);
        assert_eq!(during.of("valvehouse_http_time_to_first_byte_seconds_count", "endpoint=chat"), 1.0);
        drop(begun);
        until("nobody reads any more", || async {
            let after = scraped(&host).await;
            after.of("valvehouse_http_streams_open", "endpoint=chat") == 0.0
                && after.of("valvehouse_http_responses_aborted_total", "endpoint=chat") == 1.0
                && after.of("valvehouse_model_calls_total", "provider=mock,outcome=canceled") == 1.0
        })
        .await;
    }
}

#[tokio::test]
async fn tools_and_fallbacks_are_counted() {
    let host = TestHost::new()
        .config("[[models]]\nname = \"safe\"\nprovider = \"mock\"\nmodel = \"m\"\nfallbacks = [\"demo\"]")
        .config("[[models]]\nname = \"helper\"\nprovider = \"demo\"\ntools = [\"add\"]")
        .tool("add", "/*\ndescription: Adds two numbers.\n*/\nconst parameters = #{ a: #{ type: \"integer\", required: true }, b: #{ type: \"integer\", required: true } };\nfn handler(args) { args.a + args.b }")
        .start()
        .await;
    host.upstream.reply(Reply::raw("text/plain", "down").status(503));
    assert_eq!(host.chat(&chat_body("safe", "hi")).await.status, 200);
    host.chat(&chat_body("helper", r#"/add {"a": 2, "b": 3}"#)).await.text();
    let after = scraped(&host).await;
    assert_eq!(after.of("valvehouse_model_fallbacks_total", "provider=mock"), 1.0);
    assert_eq!(after.of("valvehouse_model_calls_total", "provider=mock,outcome=failed"), 1.0);
    assert_eq!(after.of("valvehouse_tool_calls_total", "tool=add,outcome=ok"), 1.0);
    assert_eq!(after.of("valvehouse_tool_call_duration_seconds_count", "tool=add"), 1.0);
    assert_eq!(after.of("valvehouse_plugin_calls_total", "plugin=add,hook=add,outcome=continue"), 1.0);
}

#[tokio::test]
async fn clients_cannot_create_metric_labels() {
    let host = TestHost::new().filter("ways", ALL_WAYS).start().await;
    host.ask("hi").await.text();
    host.stream("hi").await.text();
    host.get("/nowhere").await;
    host.get("/v1/models/none").await;
    host.request("BREW", "/v1/chat/completions").send().await.unwrap();
    let before = scraped(&host).await.series();
    for number in 0..valvehouse_testkit::by_length(50, 500) {
        let mut body = chat_body(&format!("model-{number}"), "hi");
        body["user"] = json!(format!("user-{number}"));
        body["chat_id"] = json!(format!("chat-{number}"));
        host.chat(&body).await;
        host.chat(&streaming(&format!("mock/other-{number}"), "hi")).await;
        host.get(&format!("/made/up/{number}")).await;
        host.get(&format!("/v1/models/made-up-{number}")).await;
        let method = format!("BREW{number}");
        host.request(&method, "/v1/chat/completions").send().await.unwrap();
    }
    let after = scraped(&host).await.series();
    assert_eq!(after, before);
}

#[tokio::test]
async fn metrics_are_for_operators() {
    let host = TestHost::new().config("[admin]\nkey = \"admin-key\"").start().await;
    host.get("/metrics").await.refused(401, "for operators");
    let answer = Answer::of(host.request("GET", "/metrics").bearer_auth("admin-key")).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let named = std::env::var_os("VALVEHOUSE_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let host = TestHost::new().filter("ways", ALL_WAYS).filter("ignored", FORGIVEN).start().await;
    host.ask("hi").await.text();
    host.stream("break").await;
    host.chat(&chat_body("demo", "hi")).await.text();
    let text = host.get("/metrics").await.body().to_owned();
    let piped = || Stdio::piped();
    let started = Command::new(&named)
        .args(["check", "metrics"])
        .stdin(piped())
        .stdout(piped())
        .stderr(piped())
        .spawn();
    let mut promtool = match started {
        Ok(promtool) => promtool,
        Err(error) => {
            let required = std::env::var_os("VALVEHOUSE_REQUIRE_PROMTOOL").is_some();
            assert!(!required, "{named:?} does not start: {error}; run tests/run, which installs it");
            eprintln!("skipped: {named:?} does not start: {error}; tests/run installs it");
            return;
        }
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8_lossy(&words);
    assert!(output.status.success() && words.trim().is_empty(), "{words}\n{text}");
    assert!(text.contains(&format!("provider=\"{}\"", "mock")) && !text.contains(MODEL));
}

/// Every panel of the dashboard asks for metrics and labels that a host has.
#[tokio::test]
async fn the_dashboard_asks_for_metrics_and_labels_that_exist() {
    let host = TestHost::new()
        .config("[[models]]\nname = \"fast\"\nprovider = \"mock\"\nmodel = \"m\"\nprice = { input = 1 }")
        .config("[[models]]\nname = \"helper\"\nprovider = \"demo\"\ntools = [\"add\"]")
        .config("[[providers]]\nname = \"two\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_keys = [\"a\", \"b\"]")
        .tool("add", "/*\ndescription: Adds two numbers.\n*/\nconst parameters = #{ a: \"integer\" };\nfn handler(args) { args.a }")
        .filter("ways", ALL_WAYS)
        .start()
        .await;
    host.chat(&chat_body("fast", "hi")).await.text();
    host.chat(&streaming("fast", "hi")).await.text();
    host.chat(&chat_body("helper", r#"/add {"a": 2}"#)).await.text();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, labels) in scraped(&host).await.series() {
        // Prometheus adds these two.
        let added = ["job", "instance"].map(str::to_owned);
        known.entry(name).or_default().extend(labels.into_keys().chain(added));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/grafana/valvehouse.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let metric = regex::Regex::new(r"\b((?:valvehouse|process)_[a-z_]+)\{([^}]*)\}").unwrap();
    let groups = regex::Regex::new(r"by \(([^)]*)\)").unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        let none = Vec::new();
        for target in panel["targets"].as_array().unwrap_or(&none) {
            let (text, legend) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
            let found: Vec<_> = metric.captures_iter(text).collect();
            assert!(!found.is_empty(), "{text}");
            for one in found {
                let labels = known.get(&one[1]).unwrap_or_else(|| panic!("no metric {}: {text}", &one[1]));
                let matched =
                    one[2].split(',').map(|matcher| matcher.trim().split(['=', '!']).next().unwrap());
                let grouped = groups.captures(text).map_or("", |by| by.get(1).unwrap().as_str());
                let grouped: Vec<&str> =
                    grouped.split(',').map(str::trim).filter(|label| !label.is_empty()).collect();
                for label in matched.chain(grouped.iter().copied()) {
                    assert!(labels.contains(label), "no label {label} of {}: {text}", &one[1]);
                }
                // A legend names what is left after the sum.
                for shown in legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap()) {
                    assert!(grouped.is_empty() || grouped.contains(&shown), "{legend}: {text}");
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 30, "{asked}");
}
