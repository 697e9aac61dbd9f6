//! Work of scripts after the client has its response: `fn done(body)` and `after(|| …)`.

use crate::host::{TestHost, chat_body, streaming, until};
use crate::tools::HELPER;
use crate::upstream::{Gate, MODEL, Reply, Upstream, chunk};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns a filter that reports its work to a service, and the setting that permits the service's host.
fn reports(service: &Upstream, code: &str) -> (String, String) {
    let url = service.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let report = format!("fn report(what) {{ http::post(\"{url}/report\", #{{ json: what }}) }}");
    (
        format!("/*\nrequirements: http, llm, kv\n*/\n{code}\n{report}\n"),
        format!("[grants.tells]\nhttp = [\"{address}\"]\n"),
    )
}

async fn service() -> Upstream {
    let service = Upstream::start().await;
    service.script(|_| Reply::raw("text/plain", "noted"));
    service
}

fn reported(service: &Upstream) -> Vec<Value> {
    service.requests().iter().map(|request| request.json()).collect()
}

async fn figure(host: &TestHost, name: &str) -> f64 {
    let text = host.get("/metrics").await.body().to_owned();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn done_runs_with_the_whole_conversation_after_the_last_byte() {
    let service = service().await;
    let (filter, config) = reports(
        &service,
        "fn inlet(body) { body.messages[-1].content += \"!\"; }\nfn done(body, __user__) { report(body); }",
    );
    let host = TestHost::new().config(&config).filter("tells", filter).start().await;
    for is_streamed in [false, true] {
        let gate = Gate::closed();
        let before = service.requests().len();
        if is_streamed {
            let end = chunk(&json!({}), Some("stop")) + "data: [DONE]\n\n";
            host.upstream.reply(Reply::begun(["it ", "is"]).then_gate(&gate).then(end));
        } else {
            host.upstream.reply(Reply::text("it is").behind(&gate));
        }
        let body = if is_streamed { streaming(MODEL, "is it") } else { chat_body(MODEL, "is it") };
        let chat = host.chat(&body);
        let meanwhile = async {
            host.upstream.wait_for_requests(1 + usize::from(is_streamed)).await;
            assert_eq!(service.requests().len(), before, "the answer has not ended");
            gate.open();
        };
        let (answer, ()) = tokio::join!(chat, meanwhile);
        assert_eq!(answer.text(), "it is", "{}", answer.body());
        service.wait_for_requests(before + 1).await;
        let body = &reported(&service)[before];
        assert_eq!(body["messages"][0]["content"], "is it!", "{body}");
        assert_eq!(body["messages"][1]["content"], "it is", "{body}");
        assert_eq!((&body["model"], &body["error"]), (&json!(MODEL), &Value::Null), "{body}");
    }
    until("all is counted", async || {
        figure(&host, "valvehouse_after_answer_total{end=\"done\"}").await == 2.0
    })
    .await;
    let traces = host.app().traces.past();
    let trace =
        traces.iter().find(|trace| trace.request.endpoint == "done").expect("work has a trace of its own");
    assert_eq!(trace.records()[0].hook, "done");
    assert_eq!(trace.request.model, MODEL);
}

#[tokio::test]
async fn done_runs_after_a_disconnect_and_after_a_failed_turn() {
    let service = service().await;
    let (filter, config) = reports(&service, "fn done(body) { report(body); }");
    let host = TestHost::new().config(&config).filter("tells", filter).start().await;
    host.upstream.reply(Reply::begun(["it ", "is"]).then_for_ever(""));
    let begun = host.begin("is it").await;
    host.upstream.wait_for_requests(1).await;
    assert!(service.requests().is_empty());
    drop(begun);
    service.wait_for_requests(1).await;
    assert_eq!(reported(&service)[0]["messages"], json!([{"role": "user", "content": "is it"}]));
    host.upstream.reply(Reply::json(&json!({"error": {"message": "busy"}})).status(503));
    assert_ne!(host.chat(&chat_body(MODEL, "again")).await.status, 200);
    service.wait_for_requests(2).await;
    let failed = &reported(&service)[1];
    assert!(failed["error"].as_str().unwrap().contains("503"), "{failed}");
}

#[tokio::test]
async fn after_keeps_its_captured_values_and_may_call_a_model() {
    let service = service().await;
    let code = r#"
fn inlet(body, state, __metadata__) {
    let last = body.messages[-1];
    let words = [last.text, #{ deep: body.messages }];
    __metadata__.seen = "inlet";
    after(|| {
        let nested = "";
        try { after(|| 1); } catch (e) { nested = e.message; }
        report(#{ at: last.content, words: words, seen: __metadata__.seen, nested: nested,
            model: llm::chat(#{ model: "demo", messages: [#{ role: "user", content: "title" }] }).content });
    });
    last.content = "changed";
    words.push("later");
}
fn stream_end(state) { after(|| report("end")); }
"#;
    let (filter, config) = reports(&service, code);
    let host = TestHost::new().config(&config).config(HELPER).filter("tells", filter).start().await;
    assert!(host.problems("tells").is_empty(), "{:?}", host.problems("tells"));
    host.upstream.reply(Reply::text("fine"));
    assert_eq!(host.chat(&chat_body(MODEL, "first")).await.text(), "fine");
    service.wait_for_requests(2).await;
    until("all is counted", async || {
        figure(&host, "valvehouse_after_answer_total{end=\"done\"}").await == 2.0
    })
    .await;
    let mut reports = reported(&service);
    reports.sort_by_key(Value::is_object);
    assert_eq!(reports[0], json!("end"));
    assert_eq!((&reports[1]["at"], &reports[1]["seen"]), (&json!("first"), &json!("inlet")), "{reports:?}");
    assert_eq!(
        reports[1]["words"],
        json!(["first", {"deep": [{"role": "user", "content": "first"}]}]),
        "{reports:?}"
    );
    assert!(reports[1]["nested"].as_str().unwrap().contains("already runs after the answer"), "{reports:?}");
    assert!(reports[1]["model"].as_str().unwrap().contains("title"), "{reports:?}");
}

#[tokio::test]
async fn failures_after_the_answer_reject_no_requests_even_for_a_guard() {
    let guard = r#"/*
security: true
*/
fn inlet(body) { after(|| body.nothing.at.all); body }
fn done(body) { throw "no"; }
"#;
    let config = "[breaker]\nfailure_threshold = 2\nwindow_ms = 60000\ncool_down_ms = 60000\n";
    let host = TestHost::new().config(config).filter("guard", guard).start().await;
    host.upstream.script(|request| Reply::fitting(request, "fine"));
    for _ in 0..6 {
        let answer = host.chat(&chat_body(MODEL, "x")).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "fine"), "{}", answer.body());
        let pending = "valvehouse_after_answer_pending";
        until("the work is over", async || figure(&host, pending).await == 0.0).await;
    }
    assert_eq!(figure(&host, "valvehouse_after_answer_total{end=\"failed\"}").await, 12.0);
    assert_eq!(host.ready().await["plugins"]["guard"], "live");
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_new_work_without_blocking_answers() {
    let gate = Gate::closed();
    let service = Upstream::start().await;
    let held = gate.clone();
    service.script(move |_| Reply::raw("text/plain", "noted").behind(&held));
    let code = "fn inlet(body) { for i in 0..60 { after(|| report(i)); } body }";
    let (filter, config) = reports(&service, code);
    let host = TestHost::new().config(&config).filter("tells", filter).start().await;
    host.upstream.script(|request| Reply::fitting(request, "fine"));
    for _ in 0..5 {
        assert_eq!(host.chat(&chat_body(MODEL, "x")).await.text(), "fine");
    }
    until("what is too much is dropped", async || {
        figure(&host, "valvehouse_after_answer_total{end=\"dropped\"}").await == 44.0
    })
    .await;
    assert_eq!(figure(&host, "valvehouse_after_answer_pending").await, 256.0);
    assert!(service.requests().len() <= 8, "8 run at a time");
    gate.open();
    until("the rest is done", async || figure(&host, "valvehouse_after_answer_pending").await == 0.0).await;
    let ends =
        ["done", "failed", "dropped"].map(|end| format!("valvehouse_after_answer_total{{end=\"{end}\"}}"));
    let counts =
        [figure(&host, &ends[0]).await, figure(&host, &ends[1]).await, figure(&host, &ends[2]).await];
    let errors: Vec<_> = host.app().traces.past().iter().filter_map(|trace| trace.error()).collect();
    assert_eq!(counts, [256.0, 0.0, 44.0], "{errors:?}");
    assert_eq!(service.requests().len(), 256);
}

#[tokio::test]
async fn the_work_of_other_plugins_runs_while_one_has_all_its_tasks_waiting() {
    let gate = Gate::closed();
    let (stuck, service) = (Upstream::start().await, service().await);
    let held = gate.clone();
    stuck.script(move |_| Reply::raw("text/plain", "noted").behind(&held));
    let code = "fn inlet(body) { for i in 0..60 { after(|| report(i)); } body }";
    let (filter, config) = reports(&stuck, code);
    let (other, grant) = reports(&service, "fn done(body) { report(\"done\"); }");
    let host = TestHost::new()
        .config(&config)
        .config(&grant.replace("tells", "other"))
        .filter("tells", filter)
        .filter("other", other)
        .start()
        .await;
    host.upstream.script(|request| Reply::fitting(request, "fine"));
    for _ in 0..6 {
        assert_eq!(host.chat(&chat_body(MODEL, "x")).await.text(), "fine");
    }
    service.wait_for_requests(6).await;
    assert!(figure(&host, "valvehouse_after_answer_total{end=\"dropped\"}").await >= 104.0);
    gate.open();
    until("the rest is done", async || figure(&host, "valvehouse_after_answer_pending").await == 0.0).await;
}

#[tokio::test]
async fn deferring_too_many_or_too_large_functions_is_an_error_of_the_script() {
    let many = "fn inlet(body) { for i in 0..65 { after(|| i); } body }";
    let large = "fn inlet(body) { let text = \"x\"; for i in 0..23 { text += text; } after(|| text); body }";
    let host = TestHost::new().filter("many", many).start().await;
    let refused = host.chat(&chat_body(MODEL, "x")).await;
    assert_eq!(refused.status, 500);
    host.update("many", large).await;
    assert_eq!(host.chat(&chat_body(MODEL, "x")).await.status, 500);
    let together = "fn inlet(body) { let text = \"x\"; for i in 0..21 { text += text; } for i in 0..9 { after(|| text); } body }";
    host.update("many", together).await;
    assert_eq!(host.chat(&chat_body(MODEL, "x")).await.status, 500);
    host.update("many", &together.replace("0..9", "0..7")).await;
    host.upstream.reply(Reply::text("fine"));
    assert_eq!(host.chat(&chat_body(MODEL, "x")).await.text(), "fine");
}

#[tokio::test]
async fn a_stopping_host_completes_deferred_work() {
    let service = Upstream::start().await;
    service.script(|_| Reply::raw("text/plain", "noted").after(Duration::from_millis(300)));
    let code = "fn done(body) { report(1); report(2); kv::set(\"done\", 1); }";
    let (filter, config) = reports(&service, code);
    let mut host = TestHost::new().config(&config).filter("tells", filter).start().await;
    host.upstream.reply(Reply::text("fine"));
    assert_eq!(host.chat(&chat_body(MODEL, "x")).await.text(), "fine");
    host.stop().await;
    assert_eq!(reported(&service), [json!(1), json!(2)]);
}
