use super::{CANARY, detail, ended, step, steps, trace_of};
use crate::host::{Answer, TestHost, chat_body, streaming, until};
use crate::upstream::{Gate, MODEL, Reply};
use serde_json::{Value, json};

/// Reads every text, prints and emits it, and changes it.
const SHOUTS: &str = r#"
fn inlet(body, state) { state.seen = 1; print(body.messages[-1].content); emit(#{ type: "status", data: body.messages[-1].content }); body.messages[-1].content += "!"; body }
fn stream(event) { event.text = event.text.to_upper(); event }
fn outlet(body) { body }
"#;

async fn chat(host: &TestHost, body: &Value) -> Answer {
    let answer = host.chat(body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    answer
}

#[tokio::test]
async fn a_request_is_shown_with_ordered_steps_and_costs() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    let mut body = streaming(MODEL, "hi");
    body["user"] = json!("ann");
    body["chat_id"] = json!("c1");
    let trace = trace_of(&host, &chat(&host, &body).await).await;
    assert_eq!(
        steps(&trace),
        [
            "shouts inlet continue",
            "mock/mock-1 model ended",
            "shouts stream continue",
            "shouts outlet continue"
        ]
    );
    for (key, value) in [
        ("endpoint", json!("chat")),
        ("model", json!(MODEL)),
        ("stream", json!(true)),
        ("user", json!("ann")),
        ("chat_id", json!("c1")),
        ("running", json!(false)),
        ("status", json!(200)),
        ("error", Value::Null),
        ("whole", json!(true)),
        ("contents", json!(false)),
    ] {
        assert_eq!(trace[key], value, "{key}");
    }
    let inlet = step(&trace, "shouts", "inlet");
    assert!(inlet["operations"].as_u64() > Some(0) && inlet["memory"].as_u64() > Some(0), "{inlet}");
    let events = step(&trace, "shouts", "stream");
    assert!(events["calls"].as_u64() >= Some(3) && events["operations"].as_u64() > Some(3), "{events}");
    let model = step(&trace, "mock/mock-1", "model");
    assert!(
        model["first_us"].as_u64() <= model["took_us"].as_u64() && !model["first_us"].is_null(),
        "{model}"
    );
    let list = host.get("/api/v1/traces").await.json();
    assert_eq!(list["past"][0]["id"], trace["id"]);
    assert_eq!((&list["past"][0]["steps"], &list["live"]), (&json!(4), &json!([])));
    assert!(list["past"][0]["begun"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn the_tokens_of_an_answer_are_shown() {
    let host = TestHost::new().filter("looks", "fn outlet(body) { body }").start().await;
    let trace = trace_of(&host, &chat(&host, &chat_body(MODEL, "hi")).await).await;
    let model = step(&trace, "mock/mock-1", "model");
    assert_eq!((&model["prompt_tokens"], &model["completion_tokens"]), (&json!(1), &json!(1)), "{trace:#}");
}

#[tokio::test]
async fn a_list_of_requests_has_their_provider_tokens_cost_and_first_token() {
    let price = "[[models]]\nname = \"priced\"\nprovider = \"mock\"\nprice = { input = 1.0, output = 2.0 }";
    let host = TestHost::new().config(price).start().await;
    let answer =
        chat(&host, &json!({"model": "priced", "messages": [{"role": "user", "content": "hi"}]})).await;
    let detail = trace_of(&host, &answer).await;
    let listed = host.get("/api/v1/traces").await.json()["past"][0].clone();
    for request in [&detail, &listed] {
        assert_eq!(
            [
                &request["provider"],
                &request["prompt_tokens"],
                &request["completion_tokens"],
                &request["cost"]
            ],
            [&json!("mock"), &json!(1), &json!(1), &json!(0.000003)],
            "{request:#}"
        );
        assert_eq!((&request["key"], &request["ended_by"]), (&Value::Null, &Value::Null));
    }
    let answer = host.chat(&streaming(MODEL, "hi")).await;
    let streamed = trace_of(&host, &answer).await;
    assert!(streamed["first_ms"].as_f64().is_some_and(|first| first > 0.0), "{streamed:#}");
    assert_eq!(streamed["cost"], Value::Null, "the model has no price");
}

#[tokio::test]
async fn a_request_without_filters_shows_its_model() {
    let host = TestHost::new().start().await;
    for body in [chat_body(MODEL, "hi"), streaming(MODEL, "hi")] {
        let trace = trace_of(&host, &chat(&host, &body).await).await;
        assert_eq!(steps(&trace), ["mock/mock-1 model ended"]);
    }
    host.upstream.reply(Reply::text("no").status(400));
    let trace = trace_of(&host, &host.ask("hi").await).await;
    assert_eq!(steps(&trace), ["mock/mock-1 model failed"]);
    assert_eq!(trace["status"], 400);
    let cut = Reply::begun(["a"]).then_cut();
    host.upstream.reply(cut);
    let trace = trace_of(&host, &host.stream("hi").await).await;
    assert_eq!(steps(&trace), ["mock/mock-1 model failed"]);
    assert!(trace["error"].as_str().unwrap().contains("ended early"), "{trace:#}");
}

#[tokio::test]
async fn traces_show_no_contents_unless_they_are_enabled() {
    let host =
        TestHost::new().filter("shouts", SHOUTS).filter("other", "fn inlet(body) { body }").start().await;
    host.upstream.script(|request| Reply::fitting(request, CANARY));
    let seen = async |trace: &Value| {
        let list = host.get("/api/v1/traces").await;
        assert!(!list.body().contains(CANARY), "{}", list.body());
        trace.to_string().contains(CANARY)
    };
    let trace = trace_of(&host, &chat(&host, &streaming(MODEL, CANARY)).await).await;
    assert!(!seen(&trace).await, "{trace:#}");
    assert_eq!((&trace["lines"][0]["level"], &trace["lines"][0]["text"]), (&json!("info"), &Value::Null));
    assert_eq!((&trace["events"][0]["type"], &trace["events"][0]["event"]), (&json!("status"), &Value::Null));

    // For one plugin, until it is switched off.
    let put = |plugin: &str, keep: bool| {
        let request = host.request("PUT", &format!("/api/v1/traces/contents/{plugin}"));
        Answer::of(request.body(json!({"keep": keep}).to_string()))
    };
    assert_eq!(put("shouts", true).await.json(), json!({"plugins": ["shouts"]}));
    let trace = trace_of(&host, &chat(&host, &streaming(MODEL, CANARY)).await).await;
    let inlet = step(&trace, "shouts", "inlet");
    let change = json!({"op": "replace", "path": "/messages/0/content", "before": CANARY, "after": format!("{CANARY}!")});
    assert_eq!(inlet["values"][0]["diff"], json!([change]));
    assert_eq!(trace["lines"][0]["text"], CANARY);
    assert_eq!(trace["events"][0]["event"], json!({"type": "status", "data": CANARY}));
    assert_eq!(step(&trace, "other", "inlet")["values"], json!([]));
    assert_eq!(step(&trace, "mock/mock-1", "model")["values"], json!([]));
    assert_eq!(put("shouts", false).await.json(), json!({"plugins": []}));
    let trace = trace_of(&host, &chat(&host, &streaming(MODEL, CANARY)).await).await;
    assert!(!seen(&trace).await, "{trace:#}");
    put("shuts", true).await.refused(404, "did you mean `shouts`?");

    // For one request.
    let request = host.posting(chat_body(MODEL, CANARY).to_string()).header("x-valvehouse-trace", "content");
    let trace = trace_of(&host, &Answer::of(request).await).await;
    assert_eq!(step(&trace, "other", "inlet")["values"][0]["diff"], json!([]));
    let model = &step(&trace, "mock/mock-1", "model")["values"][0];
    assert_eq!(model["before"]["messages"][0]["content"], format!("{CANARY}!"));
    assert_eq!(model["after"]["choices"][0]["message"]["content"], CANARY.to_uppercase());
}

#[tokio::test]
async fn each_kind_of_filter_failure_has_an_outcome_and_a_reason() {
    let host = TestHost::new()
        .filter("refuses", r#"fn inlet(body) { if body.messages[-1].content == "no" { throw "not today" } }"#)
        .filter(
            "skips",
            r#"fn inlet(body) { if body.messages[-1].content == "skip" { skip("done") } else { body } }"#,
        )
        .filter("breaks", r#"fn inlet(body) { if body.messages[-1].content == "break" { [1][9] } }"#)
        .filter("ignored", "/*\non_error: continue\n*/\nfn outlet(body) { [1][9] }")
        .config("[breaker]\nfailure_threshold = 3")
        .start()
        .await;
    let trace_for = async |text: &str| trace_of(&host, &host.ask(text).await).await;
    let trace = trace_for("no").await;
    assert_eq!(steps(&trace).last().unwrap(), "refuses inlet refused");
    assert_eq!(
        (&trace["status"], &step(&trace, "refuses", "inlet")["cause"]),
        (&json!(400), &json!("not today"))
    );
    let trace = trace_for("skip").await;
    assert_eq!(steps(&trace).last().unwrap(), "skips inlet skip");
    let trace = trace_for("break").await;
    let cause = step(&trace, "breaks", "inlet")["cause"].as_str().unwrap().to_owned();
    assert!(cause.contains("breaks.rhai") && cause.contains("out of bounds"), "{cause}");
    assert_eq!(
        (steps(&trace).last().unwrap().as_str(), &trace["status"]),
        ("breaks inlet failed", &json!(500))
    );
    for word in ["ignored", "ignored", "ignored", "breaker_open"] {
        let trace = trace_for("hi").await;
        assert_eq!(step(&trace, "ignored", "outlet")["outcome"], word);
        assert!(!step(&trace, "ignored", "outlet")["cause"].is_null() && trace["error"].is_null());
    }
}

#[tokio::test]
async fn tools_and_model_calls_of_scripts_are_steps_with_their_own_costs() {
    let asks = r#"/*
requirements: llm
*/
fn inlet(body) { let sum = 0; for i in 0..1000 { sum += i; } body.hint = llm::chat(#{ model: "mock-1", messages: [#{ role: "user", content: "hint" }] }).content; body }"#;
    let tool = r#"const tool = #{ description: "Weather" };
const parameters = #{ city: "string" };
fn handler(args) { if args.city == "Nowhere" { throw "unknown" } `sunny in ${args.city}` }"#;
    let host = TestHost::new()
        .filter("asks", asks)
        .filter("looks", "fn inlet(body) { body }")
        .tool("weather", tool)
        .config(
            "[[models]]\nname = \"assistant\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"weather\"]",
        )
        .start()
        .await;
    let request = host.posting(chat_body("assistant", r#"/weather {"city": "Oslo"}"#).to_string());
    let trace = trace_of(&host, &Answer::of(request.header("x-valvehouse-trace", "content")).await).await;
    let steps_seen = steps(&trace);
    assert_eq!(
        steps_seen[..4],
        ["asks inlet continue", "looks inlet continue", "mock/mock-1 model ended", "looks inlet continue"],
        "{steps_seen:?}"
    );
    let cost = |name: &str| step(&trace, name, "inlet")["operations"].as_u64().unwrap();
    assert!(cost("asks") > 1000 && cost("looks") < 100, "{trace:#}");
    assert!(step(&trace, "asks", "inlet")["waited_us"].as_u64() > Some(0));
    let tool = step(&trace, "weather", "tool");
    assert_eq!(tool["outcome"], "ended", "{trace:#}");
    assert!(tool["operations"].as_u64() > Some(0), "{tool}");
    assert!(tool["values"][0]["after"].as_str().unwrap().starts_with("sunny"), "{tool}");
}

#[tokio::test]
async fn a_disconnected_client_is_recorded_and_its_work_ends() {
    let host = TestHost::new().filter("looks", "fn stream(event) { event }").start().await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::begun(["a "]).then_gate(&gate));
    let response = host.begin("hi").await;
    let id = response.headers()["x-valvehouse-trace"].to_str().unwrap().to_owned();
    assert_eq!(detail(&host, &id).await["running"], true);
    let live = host.get("/api/v1/traces").await.json()["live"].clone();
    assert_eq!((&live[0]["id"], &live[1]), (&json!(id), &Value::Null));
    drop(response);
    let trace = ended(&host, &id).await;
    assert_eq!((&trace["whole"], &trace["status"]), (&json!(false), &json!(200)));
    assert_eq!(step(&trace, "mock/mock-1", "model")["outcome"], "gone");
}

#[tokio::test]
async fn requests_are_found_by_the_query() {
    let refuses = r#"fn inlet(body) { if body.messages[-1].content == "no" { deny("no") } }"#;
    let host = TestHost::new().filter("refuses", refuses).config("[trace]\nturns = 4").start().await;
    for (user, model, text) in [("ann", MODEL, "hi"), ("bob", MODEL, "no"), ("bob", "demo", "hi")] {
        let mut body = chat_body(model, text);
        body["user"] = json!(user);
        trace_of(&host, &host.chat(&body).await).await;
    }
    let found = async |words: &str| {
        let list = host.get(&format!("/api/v1/traces?{words}")).await.json();
        let past = list["past"].as_array().unwrap().clone();
        past.iter()
            .map(|it| format!("{} {}", it["user"].as_str().unwrap(), it["model"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(found("").await, ["bob demo", "bob mock-1", "ann mock-1"]);
    assert_eq!(found("user=bob&limit=1").await, ["bob demo"]);
    assert_eq!(found("model=mock-1").await, ["bob mock-1", "ann mock-1"]);
    assert_eq!(found("failed=true").await, ["bob mock-1"]);
    assert_eq!(found("failed=false").await.len(), 2);
    assert_eq!(found("plugin=refuses").await.len(), 3);
    assert!(found("plugin=other").await.is_empty());
    host.get("/api/v1/traces?failed=maybe").await.refused(400, "true or false");
    host.get("/api/v1/traces?limit=x").await.refused(400, "whole number");
    host.get("/api/v1/traces/none").await.refused(404, "[trace] turns");
    for _ in 0..3 {
        host.ask("more").await;
    }
    until("the oldest are forgotten", || async { found("user=ann").await.is_empty() }).await;
    assert_eq!(found("").await.len(), 4);
}

#[tokio::test]
async fn a_long_stream_is_one_step_however_long_it_is() {
    let host = TestHost::new().filter("looks", "fn stream(event) { event }").start().await;
    let words = vec!["word "; 3_000];
    host.upstream.reply(Reply::words(words));
    let request = host.posting(streaming(MODEL, "hi").to_string()).header("x-valvehouse-trace", "content");
    let trace = trace_of(&host, &Answer::of(request).await).await;
    let events = step(&trace, "looks", "stream");
    assert!(events["calls"].as_u64() > Some(3_000), "{}", events["calls"]);
    assert_eq!(trace["steps"].as_array().unwrap().len(), 2);
    assert_eq!(events["values"].as_array().unwrap().len(), 500);
}

#[tokio::test]
async fn agents_are_shown_like_any_other_request() {
    let host = TestHost::new()
        .filter("looks", "fn inlet(body) { body }")
        .config("[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true")
        .start()
        .await;
    let request =
        host.request("POST", "/api/v1/agents/assistant/runs").body(r#"{"input": "hi", "chat_id": "c"}"#);
    let trace = trace_of(&host, &Answer::of(request).await).await;
    assert_eq!((&trace["endpoint"], &trace["chat_id"]), (&json!("agents"), &json!("c")));
    assert_eq!(steps(&trace), ["looks inlet continue", "mock/mock-1 model ended"]);
}

#[tokio::test]
async fn concurrent_requests_keep_separate_steps() {
    let host =
        TestHost::new().filter("looks", "fn inlet(body) { body }\nfn outlet(body) { body }").start().await;
    let asking = (0..40).map(|turn| {
        let body = chat_body(MODEL, &format!("turn {turn}"));
        let host = &host;
        async move { host.chat(&body).await }
    });
    let answers = futures::future::join_all(asking).await;
    for answer in &answers {
        let trace = trace_of(&host, answer).await;
        assert_eq!(
            steps(&trace),
            ["looks inlet continue", "mock/mock-1 model ended", "looks outlet continue"]
        );
    }
}

#[tokio::test]
async fn a_call_warns_once_about_each_line() {
    let mixes = "fn inlet(body) {\n    for n in 0..50 {\n        let seven = 7;\n        if seven == \"7\" { body.x = n; }\n        if \"7\" != seven { body.x = n; }\n    }\n}";
    let host = TestHost::new().filter("mixes", mixes).start().await;
    for _ in 0..2 {
        host.upstream.reply(Reply::text("fine"));
        let answer = host.ask("hi").await;
        let lines = trace_of(&host, &answer).await["lines"].as_array().unwrap().clone();
        let levels: Vec<&Value> = lines.iter().map(|line| &line["level"]).collect();
        assert_eq!(levels, ["warn", "warn"], "{lines:?}");
    }
}
