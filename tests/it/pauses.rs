//! Steps that ask a person run again from their beginning and repeat no side effect.

use crate::host::{Answer, Setup, TestHost};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Has side effects before it asks, and adds their results to the message.
const WORKS: &str = r#"/*
requirements: kv, http
allow_hosts: valve:service
*/
const Valves = #{ url: "", service: "" };
fn inlet(body, valves) {
    log::info("before the question");
    emit(#{ type: "status", data: #{ description: "works" } });
    let seen = [kv::get("count"), kv::incr("count"), kv::get("count"), uuid(), random::int(0, 1_000_000_000)];
    kv::update("list", |old| (old ?? []) + [kv::incr("updates")]);
    seen += [time::unix_ms(), http::post(valves.url, #{ body: "pay" }).text, kv::window("window", 60, 5).count];
    let failed = "";
    try { http::post("http://127.0.0.1:1/", #{ body: "x" }); } catch (e) { failed = e.message; }
    let answer = ask(#{ type: "input", data: #{ message: "Which?", seen: seen, failed: failed } });
    kv::incr("after");
    body.messages[-1].content = json::stringify(#{ answer: answer, seen: seen });
    body
}
"#;

/// Starts a service that counts its requests and responds with the count.
async fn service() -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let pay = move || {
        let count = counted.fetch_add(1, SeqCst) + 1;
        async move { format!("secret-{count}") }
    };
    let router = axum::Router::new().route("/pay", axum::routing::post(pay));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, count)
}

fn clerk(more: &str) -> Setup {
    TestHost::new().config(&format!(
        "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\ntools = [\"*\"]\n{more}"
    ))
}

async fn working() -> (TestHost, String, Arc<AtomicUsize>) {
    let (address, count) = service().await;
    let config = format!(
        "[filters.works.valves]\nurl = \"http://{address}/pay\"\nservice = \"{address}\"\n[grants.works]\nhttp = [\"{address}\"]\nkv = true\n"
    );
    let host = clerk(&config).filter("works", WORKS).start().await;
    (host, address, count)
}

async fn put(host: &TestHost, path: &str, body: Value) -> Answer {
    Answer::of(host.request("POST", path).body(body.to_string())).await
}

async fn begin(host: &TestHost, text: &str) -> Value {
    let body = json!({"input": text, "chat_id": "c", "user": "ann"});
    let answer = put(host, "/api/v1/agents/clerk/runs", body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    let run = answer.json();
    assert_eq!(run["status"], "paused", "{run}");
    run
}

async fn resume(host: &TestHost, run: &Value, decision: Value) -> Answer {
    put(host, &format!("/api/v1/agents/runs/{}/resume", run["run_id"].as_str().unwrap()), decision).await
}

fn question(run: &Value) -> &Value {
    &run["pending_action"]["question"]["data"]
}

#[tokio::test]
async fn the_effects_of_a_hook_before_its_question_happen_once() {
    let (mut host, _, posts) = working().await;
    let run = begin(&host, "pay").await;
    assert_eq!(posts.load(SeqCst), 1, "{run}");
    let seen = question(&run)["seen"].clone();
    assert_eq!((&seen[0], &seen[1], &seen[2]), (&Value::Null, &json!(1), &json!(1)));
    assert!(question(&run)["failed"].as_str().unwrap().contains("http::post"), "{run}");
    // Another process continues.
    host.restart().await;
    host.upstream.reply(Reply::text("done"));
    let ended = resume(&host, &run, json!({"decision": "answer", "answer": "both"})).await;
    assert_eq!(ended.status, 200, "{}", ended.body());
    assert_eq!(ended.json()["status"], "done", "{}", ended.body());
    let request = host.upstream.last().json();
    let text =
        request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    let answer_text: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer_text, json!({"answer": "both", "seen": seen}), "the step saw what it saw before");
    assert_eq!(posts.load(SeqCst), 1);
}

#[tokio::test]
async fn results_of_host_calls_are_sealed_in_a_stored_run() {
    let (host, _, _) = working().await;
    let filter = WORKS.replace("seen: seen, failed: failed", "seen: []");
    host.update("works", &filter).await;
    let run = begin(&host, "pay").await;
    let id = run["run_id"].as_str().unwrap();
    let checkpoint = host.store().latest_checkpoint(id).await.unwrap().unwrap();
    let calls = checkpoint.state.text("host_calls").unwrap_or_default();
    assert!(!calls.is_empty(), "{}", checkpoint.state);
    assert!(!checkpoint.state.to_string().contains("secret-"), "{}", checkpoint.state);
}

#[tokio::test]
async fn a_hook_changed_during_a_pause_fails_and_a_retry_runs_it_from_the_start() {
    let (host, _, posts) = working().await;
    let run = begin(&host, "pay").await;
    let filter = WORKS.replace("kv::get(\"count\"), kv::incr", "kv::get(\"other\"), kv::incr");
    host.update("works", &filter).await;
    let failed = resume(&host, &run, json!({"decision": "answer", "answer": "both"})).await;
    assert_eq!(failed.status, 500, "{}", failed.body());
    assert_eq!(posts.load(SeqCst), 1);
    let again = resume(&host, &run, json!({"decision": "retry"})).await;
    assert_eq!(again.status, 200, "{}", again.body());
    assert_eq!(again.json()["status"], "paused", "{}", again.body());
    assert_eq!(posts.load(SeqCst), 2, "the step ran afresh");
}

#[tokio::test]
async fn a_hook_changed_only_after_its_question_continues() {
    let (host, _, posts) = working().await;
    let run = begin(&host, "pay").await;
    host.update("works", &WORKS.replace("kv::incr(\"after\")", "kv::set(\"after\", 7)")).await;
    host.upstream.reply(Reply::text("done"));
    let ended = resume(&host, &run, json!({"decision": "answer", "answer": "both"})).await;
    assert_eq!((ended.status, ended.json()["status"].as_str()), (200, Some("done")), "{}", ended.body());
    assert_eq!(posts.load(SeqCst), 1);
}

#[tokio::test]
async fn an_approved_choice_from_a_shortened_array_is_an_error() {
    const CHOOSES: &str = r#"fn inlet(body) {
    let all = [];
    for number in 0..100 { all.push(number); }
    // Not all of them are the first element.
    for time in 0..20 { random::choice(all); }
    body.messages[-1].content = ask(#{ type: "input", data: #{ message: "Which?" } });
    body
}
"#;
    let host = clerk("").filter("chooses", CHOOSES).start().await;
    let run = begin(&host, "hi").await;
    host.update("chooses", &CHOOSES.replace("0..100", "0..1")).await;
    let failed = resume(&host, &run, json!({"decision": "answer", "answer": "both"})).await;
    assert_eq!(failed.status, 500, "{}", failed.body());
    let runs = host.get(&format!("/api/v1/agents/runs/{}", run["run_id"].as_str().unwrap())).await;
    assert!(runs.body().contains("the array is shorter"), "{}", runs.body());
}

#[tokio::test]
async fn a_tool_runs_once_if_a_later_filter_asks() {
    let tool = "/*\nrequirements: kv\n*/\nconst parameters = #{ amount: #{ type: \"integer\" } };\nfn handler(args, ctx) { ctx.set(\"paid\", true); `paid ${args.amount}, ${kv::incr(\"payments\")}` }";
    let asks = "fn post_invocation(ctx) { let answer = ask(#{ type: \"input\", data: #{ message: `sure of ${ctx.result}?` } }); ctx.result = `${ctx.result} ${answer} ${ctx.context.get(\"paid\")}`; ctx }";
    let host = clerk("[grants.pay]\nkv = true\n").tool("pay", tool).filter("asks", asks).start().await;
    host.upstream.script(|request| {
        let body = request.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let message = match last["role"].as_str() {
            Some("user") => json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1",
                "type": "function", "function": {"name": "pay", "arguments": "{\"amount\":5}"}}]}),
            _ => json!({"role": "assistant", "content": format!("echo: {}", last["content"].as_str().unwrap())}),
        };
        let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
        Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}]}))
    });
    let run = begin(&host, "pay").await;
    assert_eq!(question(&run)["message"], "sure of paid 5, 1?");
    let ended = resume(&host, &run, json!({"decision": "answer", "answer": "yes"})).await;
    assert_eq!(ended.json()["answer"], "echo: paid 5, 1 yes true", "{}", ended.body());
}

/// Has side effects and asks during a response; adds the results to its end.
const STREAMS: &str = r#"/*
requirements: kv, http, llm
allow_hosts: valve:service
*/
const Valves = #{ url: "", service: "" };
fn stream(event, state, valves) {
    if event.text == "" || state.saw != () { return; }
    let paid = http::post(valves.url, #{ body: "pay" }).text;
    let other = llm::chat(#{ model: "adviser", messages: [#{ role: "user", content: "which?" }] }).content;
    let count = kv::incr("streams");
    let answer = ask(#{ type: "input", data: #{ message: "Go on?", seen: [paid, other, count, event.text] } });
    state.saw = [answer, paid, other, count];
}
fn stream_end(state, valves) {
    let last = ask(#{ type: "input", data: #{ message: "And at the end?", seen: [http::post(valves.url, #{ body: "pay" }).text] } });
    #{ text: " " + json::stringify(state.saw + [last]) }
}
"#;

#[tokio::test]
async fn a_model_is_called_once_if_its_stream_hooks_ask() {
    for (is_streamed, is_restarted, answers_in_pieces) in
        [(false, false, false), (true, false, true), (false, true, true), (true, true, false)]
    {
        let what = format!("streamed: {is_streamed}, restarted: {is_restarted}, pieces: {answers_in_pieces}");
        let (address, posts) = service().await;
        let config = format!(
            "[[models]]\nname = \"adviser\"\nprovider = \"mock\"\nmodel = \"adviser-1\"\n\
             [filters.streams.valves]\nurl = \"http://{address}/pay\"\nservice = \"{address}\"\n\
             [grants.streams]\nhttp = [\"{address}\"]\nkv = true\nllm = true\n"
        );
        let mut host = clerk(&config).filter("streams", STREAMS).start().await;
        let counters = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let counted = counters.clone();
        host.upstream.script(move |request| {
            let is_adviser = request.json()["model"] == "adviser-1";
            let count = counted[usize::from(is_adviser)].fetch_add(1, SeqCst) + 1;
            let text = format!("{} answer {count}", if is_adviser { "its" } else { "my" });
            if answers_in_pieces { Reply::fitting(request, &text) } else { Reply::text(&text) }
        });
        let body = json!({"input": "pay", "chat_id": "c", "user": "ann", "stream": is_streamed});
        let begun = put(&host, "/api/v1/agents/clerk/runs", body).await;
        assert_eq!(begun.status, 200, "{what}: {}", begun.body());
        let runs = host.get("/api/v1/agents/clerk/runs").await.json();
        let run = runs["data"].as_array().or(runs.as_array()).unwrap_or_else(|| panic!("{runs}"))[0].clone();
        let mut answered = Value::Null;
        for answer in ["yes", "so be it"] {
            if is_restarted {
                host.restart().await;
            }
            let decision = json!({"decision": "answer", "answer": answer});
            let ended = resume(&host, &run, decision).await;
            assert_eq!(ended.status, 200, "{what}: {}", ended.body());
            answered = ended.json();
        }
        assert_eq!(answered["status"], "done", "{what}: {answered}");
        let wanted = r#"my answer 1 ["yes","secret-1","its answer 1",1,"so be it"]"#;
        assert_eq!(answered["answer"], wanted, "{what}");
        let counts = counters.each_ref().map(|count| count.load(SeqCst));
        assert_eq!((counts, posts.load(SeqCst)), ([1, 1], 2), "{what}");
    }
}
