//! The operator page in the system's browser: user actions and their effects. The scenarios are in
//! `tests/browser`.

use crate::host::{Setup, TestHost};
use crate::python::passes;
use crate::upstream::{Reply, Upstream, UpstreamRequest, chunk};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use valvehouse::json::Json;
use valvehouse::store::{StoredTrace, TraceCursor};

/// Has a setting of every type and prints their values.
const GREETS: &str = r#"/*
title: Greets
description: Greets whoever asks.
*/
const Valves = #{
    greeting: #{ value: "Hello", description: "Before each answer" },
    loud: false,
    brief: false,
    times: #{ value: 1, minimum: 1, maximum: 5 },
    tone: #{ value: "warm", "enum": ["warm", "dry"] },
    letter: #{ value: "", multiline: true },
    nickname: #{ value: (), type: "string" },
    words: ["a", "b"],
    password: #{ value: (), type: "string", secret: true },
};
const UserValves = #{ suffix: "none" };

fn inlet(body, valves, __user__) {
    if body.messages[-1].text == "tell" {
        let password = if valves.password == () { "none" } else { `${valves.password.len()} letters` };
        let letter = text::replace(valves.letter, "\n", "|");
        return skip(`loud=${valves.loud} times=${valves.times} tone=${valves.tone} letter=${letter} nickname=${valves.nickname ?? "none"} words=${json::stringify(valves.words)} password=${password} suffix=${__user__.valves.suffix}`);
    }
    body
}
fn outlet(body, valves) { body.messages[-1].text = `${valves.greeting} ${body.messages[-1].text}`; body }
"#;

/// Changes messages and refuses some.
const MARKS: &str = r#"
fn inlet(body) {
    let text = body.messages[-1].text;
    if text == "forbidden" { throw "not in this house"; }
    body.messages[-1].text += " (seen)";
    print(`saw ${text}`);
    body
}
fn stream_end(state) { }
"#;

const SIGNS: &str =
    "/*\ntitle: Signs\n*/\nfn outlet(body) {\n    body.messages[-1].text += \" -- signed\";\n    body\n}\n";

/// The response time of the model `mock-1`, long enough to be visible on the page.
const SLOW: Duration = Duration::from_secs(3);

/// Returns Node.js with a driver for the system's browser. `tests/run` installs what is missing.
fn driver() -> Option<Command> {
    let required = ["CI", "VALVEHOUSE_REQUIRE_BROWSER"].iter().any(|name| std::env::var_os(name).is_some());
    let skipped = |why: String| {
        assert!(!required, "{why}: run tests/run, which fetches it");
        eprintln!("skipped: {why}; tests/run fetches it");
        None
    };
    let named = std::env::var_os("VALVEHOUSE_NODE_MODULES").map(PathBuf::from);
    let modules = named.unwrap_or_else(|| at("target/javascript/node_modules"));
    if !modules.join("playwright-core").is_dir() {
        return skipped(format!("{} has no playwright-core", modules.display()));
    }
    let named = std::env::var_os("VALVEHOUSE_BROWSER").map(PathBuf::from);
    let browsers = named.into_iter().chain(
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from),
    );
    let Some(browser) = browsers.into_iter().find(|path| path.is_file()) else {
        return skipped("there is no chromium".to_owned());
    };
    let mut node = Command::new("node");
    node.env("NODE_PATH", modules).env("VALVEHOUSE_BROWSER", browser);
    Some(node)
}

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs the scenarios of one file against a host.
async fn run_script(file: &str, setup: Setup, more: &[(&str, &str)]) {
    if driver().is_some() {
        run_script_at(&setup.start().await, file, more).await;
    }
}

/// Runs the scenarios of one file against a running host.
async fn run_script_at(host: &TestHost, file: &str, more: &[(&str, &str)]) {
    let Some(mut node) = driver() else { return };
    host.upstream.script(|_| Reply::text("at last").after(SLOW));
    node.arg(at("tests/browser").join(file)).arg(host.url("")).arg(host.folder());
    node.envs(more.iter().copied());
    passes(node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn settings_changed_on_the_page_apply_to_the_next_turn() {
    let ordered = |order: i64| format!("const Valves = #{{ priority: {order} }};\nfn inlet(body) {{ body }}");
    let setup = TestHost::new()
        .filter("greets", GREETS)
        .filter("tenth", ordered(-10))
        .filter("second", ordered(-200));
    run_script("valves.cjs", setup, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_shows_broken_files_and_rolls_them_back() {
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) { body }";
    run_script("source.cjs", TestHost::new().filter("signs", SIGNS).filter("guard", guard), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn scripts_are_written_in_the_editor_of_the_page() {
    run_script("editor.cjs", TestHost::new().filter("signs", SIGNS), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: a_plugin_is_live_with_what_an_operator_approved"]
async fn grants_are_approved_and_tests_run_on_the_page() {
    let reads = "/*\ntitle: Reads\nrequirements: files, env, kv\n*/\nfn outlet(body) {\n    env::get(\"LANG\");\n    \
        body.messages[-1].text = files::read(\"note.txt\");\n    body\n}\n";
    run_script("access.cjs", TestHost::new().filter("reads", reads).filter("signs", SIGNS), &[]).await;
}

/// Asks before each call of a tool.
const ASKS: &str = r#"
fn pre_invocation(ctx) {
    let answer = ask(#{ type: "approval", data: #{ tool: ctx.tool.name, arguments: ctx.args } });
    if !answer.approved { return skip(#{ error: "rejected" }); }
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_order_the_settings_and_the_runs_of_a_host_are_on_the_page() {
    let Some(mut node) = driver() else { return };
    let clerk = "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"counter\"]\nmemory = true\n";
    let secret = "[[providers]]\nname = \"other\"\nkind = \"openai\"\napi_key = \"hidden-word\"\n[server]\nmax_body_mb = 9\n";
    let ordered = |order: i32| {
        format!("const Valves = #{{ priority: {} }};\nfn inlet(body) {{ body }}", order * 20 - 1_000)
    };
    let setup = TestHost::new().config(clerk).config(secret).tool("counter", COUNTER);
    let setup = setup.filter("plain", "fn inlet(body) { body }").filter("asks", ASKS);
    let setup = (0..59).fold(setup, |setup, order| setup.filter(&format!("filter_{order}"), ordered(order)));
    let host = setup.start().await;
    host.upstream.script(converses);
    node.arg(at("tests/browser/operate.cjs")).arg(host.url("")).arg(host.folder());
    passes(node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_follows_dry_runs_and_replays_requests() {
    run_script("requests.cjs", TestHost::new().filter("marks", MARKS), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: requests_are_listed_selected_and_opened_after_a_restart"]
async fn the_page_lists_stored_requests_in_pages() {
    let setup = TestHost::new().filter("marks", MARKS).config("[trace]\nstore = \"30000d\"\n");
    let host = setup.start().await;
    let answer = host.ask("hi").await;
    let id = answer.header("x-valvehouse-trace").unwrap();
    let facts = Json::parse(host.get("/api/v1/traces?limit=1").await.body().as_bytes()).unwrap();
    let facts = facts.at_path("past.0");
    assert_eq!(facts.text("id").as_deref(), Some(id));
    let [_, steps] = host.store().trace(id).await.unwrap().unwrap();
    // Further requests, from the beginning of the year 2000 on.
    let stored = |number: i64| {
        let (seconds, facts) = (946_684_800 + number * 40_000, facts.deep_clone());
        let begun = jiff::Timestamp::from_second(seconds).unwrap();
        let (user, took_ms) = if number == 0 { ("oldest", 99_000) } else { ("other", 5) };
        for (name, value) in [
            ("id", Json::from(format!("stored-{number}"))),
            ("begun", begun.to_string().into()),
            ("user", user.into()),
            ("took_ms", took_ms.into()),
        ] {
            facts.put(name, value);
        }
        let at = TraceCursor { us: begun.as_microsecond(), id: format!("stored-{number}") };
        let outcome = "succeeded".to_owned();
        StoredTrace { at, took_ms, outcome, facts, steps: steps.clone(), ..StoredTrace::default() }
    };
    let rows: Vec<StoredTrace> =
        (0..10_000).map(|number| if number == 0 { stored(0) } else { stored(number + 1_000) }).collect();
    for rows in rows.chunks(1_000) {
        host.store().add_traces(rows).await.unwrap();
    }
    run_script_at(&host, "stored.cjs", &[]).await;
}

/// A guard, and a filter with a valve.
const HOUSE_GUARD: &str = "/*\ntitle: House guard\nsecurity: true\n*/\nfn inlet(body) { body }";
const COUNTS: &str = "const Valves = #{ loud: false };\nfn inlet(body) { body }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_says_if_requests_are_answered_and_draws_their_curves() {
    run_script("overview.cjs", TestHost::new().filter("guard", HOUSE_GUARD).filter("counts", COUNTS), &[])
        .await;
}

/// A provider with two keys, one whose clients pay, and 43 models: one with a fallback and prices, one with a guard of its own.
const MODELS: &str = r#"
[[providers]]
name = "open"
kind = "openai"
base_url = "https://models.example.org/v1"
api_key = "client"
models = "*"

[[models]]
name = "fast"
provider = "mock"
model = "mock-1"
fallbacks = ["demo/demo"]
context_length = 9_000
price = { input = 0.5, output = 1.5 }

[[models]]
name = "guarded"
provider = "demo"
filters = ["late"]
"#;

/// Answers as a service that fails at a word, and limits a key.
fn limits(request: &UpstreamRequest) -> Reply {
    let failure = |status| Reply::json(&json!({"error": {"message": "out of order"}})).status(status);
    if request.headers.get("authorization").is_some_and(|key| key == "Bearer two") {
        return failure(429).header("retry-after", "2900");
    }
    match request.json()["messages"][0]["content"].as_str() {
        Some("fail") => failure(500),
        _ => Reply::fitting(request, "well"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_overview_lists_the_services_of_models_and_their_health"]
async fn the_page_shows_the_health_of_providers_and_the_use_of_models() {
    let Some(mut node) = driver() else { return };
    let service = Upstream::start().await;
    service.script(limits);
    let fleet = format!(
        "[[providers]]\nname = \"fleet\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"one\"\napi_keys = [\"two\"]\nmodels = [\"fleet-1\"]",
        service.url()
    );
    let model = |number: i32| {
        format!("[[models]]\nname = \"many_{number}\"\nprovider = \"mock\"\nmodel = \"mock-1\"")
    };
    let setup = TestHost::new().provider("breaker = { failure_threshold = 1, cool_down_ms = 4_000 }");
    let setup =
        (0..39).fold(setup.config(&fleet).config(MODELS), |setup, number| setup.config(&model(number)));
    let host = setup
        .filter("house", HOUSE_GUARD)
        .filter("trial", "/*\nsecurity: true\nmode: audit\n*/\nfn inlet(body) { body }")
        .filter("late", "/*\nsecurity: true\nglobal: false\n*/\nfn inlet(body) { body }")
        .start()
        .await;
    host.upstream.script(limits);
    node.arg(at("tests/browser/models.cjs")).arg(host.url("")).arg(host.folder());
    passes(node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_of_an_empty_project_shows_the_next_steps() {
    run_script("first.cjs", TestHost::new(), &[]).await;
}

/// Emits what a client shows, counts messages, and rejects a text.
const SHOWS: &str = r#"
fn inlet(body, __user__) {
    let text = body.messages[-1].text;
    if text == "forbidden" { deny("not in this house", 403); }
    if text == "how many messages?" { return skip(`${body.messages.len()} messages`); }
    if text == "count please" {
        emit(#{ type: "status", data: #{ description: "Looking it up", done: false } });
    }
    body
}
fn outlet(body, __user__) {
    if __user__.id == () { return body; }
    emit(#{ type: "status", data: #{ description: "Found", done: true } });
    emit(#{ type: "citation", data: #{ document: ["One."], metadata: [], source: #{ name: "Manual", url: "https://example.org/manual" } } });
    emit(#{ type: "notification", data: #{ type: "info", content: "ready" } });
    body.messages[-1].text += `, as asked by ${__user__.id}`;
    body
}
"#;

const COUNTER: &str = "/*\ndescription: Counts.\n*/\nfn handler(args) { \"the count is 1\" }";

const LENGTH: &str = r#"/*
title: Length
*/
fn action(body) {
    emit(#{ type: "status", data: #{ description: `${body.messages[-1].text.len()} letters`, done: true } });
}
"#;

/// Answers as a model that calls a tool, is slow, or breaks off, as its last message asks for.
fn converses(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    match last["content"].as_str() {
        Some("count please") => {
            let call = json!([{"index": 0, "id": "c1", "type": "function", "function": {"name": "counter", "arguments": "{}"}}]);
            let calls = chunk(&json!({"tool_calls": call}), None);
            let end = chunk(&json!({}), Some("tool_calls"));
            Reply::begun([]).then(format!("{calls}{end}data: [DONE]\n\n"))
        }
        Some("slow") => Reply::begun(["begun "]).then_pause(Duration::from_secs(600)),
        Some("cut") => Reply::begun(["a"]).then_cut(),
        _ => Reply::fitting(request, "counted"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_has_conversations_with_models() {
    let Some(mut node) = driver() else { return };
    let model = |name: &str| {
        format!(
            "[[models]]\nname = \"{name}\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"counter\"]"
        )
    };
    let careful = format!("{}\nmiddleware = {{ human_approval = {{ mode = \"all\" }} }}", model("careful"));
    let setup = TestHost::new().filter("shows", SHOWS).tool("counter", COUNTER);
    let setup = setup.script("actions", "length", LENGTH).config(&model("assistant")).config(&careful);
    let host = setup.start().await;
    host.upstream.script(converses);
    node.arg(at("tests/browser/chat.cjs")).arg(host.url("")).arg(host.folder());
    passes(node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_requires_the_key_if_one_is_configured() {
    let key = "a key that opens everything";
    let setup = TestHost::new().filter("marks", MARKS).config(&format!("[admin]\nkey = \"{key}\""));
    run_script("session.cjs", setup, &[("VALVEHOUSE_TEST_KEY", key)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_knows_an_operator_by_the_headers_of_a_proxy() {
    let sign_in = "[server.proxy_sign_in]\nproxies = [\"127.0.0.1\"]\nusers = { \"ann@example.org\" = \"tune\" }\nsign_out = \"/livez\"";
    run_script("proxy.cjs", TestHost::new().filter("marks", MARKS).config(sign_in), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_hands_out_keys_and_shows_their_use() {
    let key = "a key that opens everything";
    let setup = TestHost::new().config(&format!("[admin]\nkey = \"{key}\""));
    run_script("keys.cjs", setup, &[("VALVEHOUSE_TEST_KEY", key)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn the_page_is_accessible_and_responsive() {
    let setup = TestHost::new()
        .filter("greets", GREETS)
        .filter("marks", MARKS)
        .filter("signs", SIGNS)
        .filter("broken", "fn inlet(body) {\n    let greeting = ;\n    body\n}\n")
        .filter("reads", "/*\nrequirements: files\n*/\nfn inlet(body) { files::read(\"x\"); }\n")
        .tool("counters", crate::tools::COUNTERS)
        .config("[[models]]\nname = \"assistant\"\nprovider = \"demo\"\ntools = [\"*\"]\nmemory = true");
    run_script("looks.cjs", setup, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn an_operators_day_passes_on_the_page() {
    let key = "a key that opens everything";
    let model = |name: &str| format!("[[models]]\nname = \"{name}\"\nprovider = \"demo\"");
    let setup = TestHost::new().filter("guard", GUARD).config(&model("fast")).config(&model("smart"));
    let setup = setup.config(&format!("[admin]\nkey = \"{key}\""));
    run_script("day.cjs", setup, &[("VALVEHOUSE_TEST_KEY", key)]).await;
}

/// A guard that refuses the text `bad`.
const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { if body.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } body }\nfn outlet(body) { body }";

/// Counts its calls and emits its progress.
const KEEPS: &str = r#"/*
requirements: kv
*/
const Valves = #{ word: "none" };
fn outlet(body, valves) {
    body.messages[-1].text += ` ${valves.word} ${kv::get("count", 0)}`;
    kv::incr("count");
    body
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn pending_changes_are_accepted_on_the_page() {
    run_script("guards.cjs", TestHost::new().filter("guard", GUARD).filter("keeps", KEEPS), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn tools_of_mcp_servers_are_approved_on_the_page_as_shown() {
    let Some(toml) = crate::mcp::mounts::python_toml("shop", "tools = [\"pay*\", \"become\"]") else {
        return;
    };
    run_script("mcp.cjs", TestHost::new().config(&toml), &[]).await;
}

/// A page of a service that writes a filter with the rights of the host's page.
const ATTACK: &str = include_str!("../browser/attack.js");

/// Returns the answer of a service that attacks the host's page with the media type in the path.
fn attacks(path: &str) -> Reply {
    let script = |start: &str, end: &str| format!("{start}{ATTACK}{end}");
    let html = || script("<!doctype html><title>x</title><script>", "</script>");
    if path.contains("svg") {
        let svg = script("<svg xmlns=\"http://www.w3.org/2000/svg\"><script><![CDATA[", "]]></script></svg>");
        return Reply::raw("image/svg+xml", svg);
    }
    if path.contains("xhtml") {
        let start = "<html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title>x</title></head><body><script><![CDATA[";
        return Reply::raw("application/xhtml+xml", script(start, "]]></script></body></html>"));
    }
    if path.contains("named") {
        return Reply::raw("text/html", html()).header("content-disposition", "inline");
    }
    if path.contains("missing") {
        return Reply::raw("text/html", html()).status(404);
    }
    Reply::raw("text/html; charset=utf-8", html())
}

async fn attack(setup: Setup, more: &[(&str, &str)]) {
    let Some(mut node) = driver() else { return };
    let host = setup.filter("marks", MARKS).start().await;
    host.upstream.script(|request| attacks(&request.path));
    node.arg(at("tests/browser/origin.cjs")).arg(host.url("")).arg(host.folder());
    node.envs(more.iter().copied());
    passes(node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn content_of_services_and_other_sites_have_no_rights_of_the_page() {
    attack(TestHost::new(), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_page_requires_the_key_if_one_is_configured"]
async fn content_of_services_cannot_use_the_session_of_an_operator() {
    let key = "a key that opens everything";
    attack(TestHost::new().config(&format!("[admin]\nkey = \"{key}\"")), &[("VALVEHOUSE_TEST_KEY", key)])
        .await;
}
