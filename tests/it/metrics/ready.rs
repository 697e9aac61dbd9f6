//! `/livez` and `/readyz`.

use crate::host::{Answer, TestHost, chat_body, client, until};
use crate::upstream::{Gate, Reply, chunk};
use serde_json::{Value, json};

fn check<'a>(ready: &'a Value, name: &str) -> &'a Value {
    let checks = ready["checks"].as_array().expect("they are reported");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {ready}"))
}

#[tokio::test]
async fn a_ready_host_reports_details_on_request() {
    let host = TestHost::new().filter("good", "fn inlet(body) { body }").start().await;
    assert_eq!(host.get("/livez").await.status, 200);
    let short = host.ready().await;
    assert_eq!(
        (&short["ready"], &short["reason"], &short["plugins"]["good"]),
        (&json!(true), &json!(null), &json!("live"))
    );
    assert!(short.get("checks").is_none());
    let ready = host.get("/readyz?verbose").await.json();
    for name in ["serving", "generation", "store", "folders", "hosts", "providers", "guards", "plugins"] {
        assert_eq!(check(&ready, name)["ok"], true, "{name}: {ready}");
    }
    host.save("bad", "fn inlet(");
    host.stands("bad", "broken").await;
    let ready = host.get("/readyz?verbose").await;
    assert_eq!(ready.status, 200, "what does not load holds up nobody");
    assert!(check(&ready.json(), "plugins")["says"].as_str().unwrap().contains("bad"));
}

#[tokio::test]
async fn without_the_operator_key_readiness_shows_no_details() {
    let host = TestHost::new()
        .filter("good", "fn inlet(body) { body }")
        .config("[admin]\nkey = \"admin-key\"")
        .start()
        .await;
    let readiness = host.get("/readyz?verbose").await;
    let note = "details need the key of an operator";
    let expected = json!({"ready": true, "reason": null, "note": note});
    assert_eq!((readiness.status, readiness.json()), (200, expected));
    assert_eq!(host.get("/readyz").await.json(), json!({"ready": true, "reason": null}));
    let details = Answer::of(host.request("GET", "/readyz?verbose").bearer_auth("admin-key")).await;
    assert_eq!(details.json()["plugins"]["good"], "live");
}

const TWO: &str = "[[models]]\nname = \"smart\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nfilters = [\"redact\"]\n\
    [[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n";
/// A guard of the models that list it, which fails on request.
const REDACT: &str = "/*\nsecurity: true\nglobal: false\n*/\nfn inlet(body) { if body.messages[-1].text == \"break\" { throw [1][9]; } body }";

/// Returns the status and the reason of `/readyz`.
async fn readiness(host: &TestHost, query: &str) -> (u16, String) {
    let ready = host.get(&format!("/readyz{query}")).await;
    (ready.status, ready.json()["reason"].as_str().unwrap_or("").to_owned())
}

/// Waits until a host is not ready for this reason.
async fn is_unready(host: &TestHost, says: &str) {
    let expected = (503, says.to_owned());
    for _ in 0..100 {
        if readiness(host, "").await == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(readiness(host, "").await, expected);
}

#[tokio::test]
async fn a_host_that_refuses_all_requests_to_a_model_is_not_ready_and_says_so_everywhere() {
    let config = format!("{TWO}[admin]\nkey = \"admin-key\"");
    let host =
        TestHost::new().filter("redact", "/*\nsecurity: true\nglobal: false\n*/\nfn inlet(").config(&config);
    let host = host.start().await;
    let says = "All requests to `smart` are refused: guard `redact` does not load";
    host.chat(&chat_body("smart", "hi")).await.refused(503, "the guard `redact` does not load");
    assert_eq!(readiness(&host, "").await, (503, "models".into()), "names are for operators");
    assert_eq!(readiness(&host, "?model=smart").await, (503, "models".into()));
    assert_eq!(readiness(&host, "?model=plain").await.0, 200);
    let as_operator = |path: &'static str| {
        let request = host.request("GET", path).bearer_auth("admin-key");
        async { Answer::of(request).await.json() }
    };
    assert_eq!(as_operator("/readyz").await["reason"], says);
    assert_eq!(as_operator("/readyz?model=smart").await["reason"], says);
    assert_eq!(as_operator("/api/v1/overview").await["problems"][0]["message"], says);
    host.save("redact", REDACT);
    until("it is ready", || async { readiness(&host, "").await.0 == 200 }).await;
    // A missing guard is not an absent filter.
    host.delete("redact");
    until("it is missing", || async { readiness(&host, "").await.0 == 503 }).await;
    let says = "All requests to `smart` are refused: guard `redact` is missing";
    assert_eq!(as_operator("/readyz").await["reason"], says);
}

#[tokio::test]
async fn a_host_is_ready_again_once_the_breaker_of_a_guard_may_be_tried() {
    let config = format!("{TWO}[breaker]\nfailure_threshold = 3\ncool_down_ms = 1_500\n");
    let host = TestHost::new().filter("redact", REDACT).config(&config).start().await;
    for _ in 0..3 {
        host.chat(&chat_body("smart", "break")).await.refused(500, "redact");
    }
    let says = "All requests to `smart` are refused: the circuit breaker of guard `redact` is open";
    assert_eq!(readiness(&host, "").await, (503, says.into()));
    until("a request may be tried", || async { readiness(&host, "").await.0 == 200 }).await;
    host.chat(&chat_body("smart", "break")).await;
    assert_eq!(readiness(&host, "").await, (503, says.into()));
}

#[tokio::test]
async fn a_filter_that_does_not_exist_and_a_global_guard_refuse_the_models_they_run_for() {
    let mut host = TestHost::new().config(TWO).start().await;
    let says = "All requests to `smart` are refused: filter `redact` does not exist";
    assert_eq!(readiness(&host, "").await, (503, says.into()));
    host.save("redact", REDACT);
    host.save("guard", "/*\nsecurity: true\n*/\nfn inlet(");
    let says = "All requests to `demo`, `smart`, `plain` are refused: guard `guard` does not load";
    is_unready(&host, says).await;
    host.reconfigure("[[providers]]\nname = \"demo\"\nkind = \"demo\"\nmodels = \"*\"\n").await;
    let says = "All requests are refused: guard `guard` does not load";
    is_unready(&host, says).await;
}

#[tokio::test]
async fn a_host_without_its_store_is_not_ready_and_gives_the_reason() {
    let host = TestHost::new().start().await;
    host.store().close().await;
    until("it is not ready", || async { host.get("/readyz").await.status == 503 }).await;
    let readiness = host.get("/readyz?verbose").await.json();
    assert_eq!((&readiness["ready"], &readiness["reason"]), (&json!(false), &json!("store")));
    assert!(check(&readiness, "store")["says"].as_str().unwrap().starts_with("cannot "), "{readiness}");
    assert_eq!(host.get("/livez").await.status, 200);
}

#[tokio::test]
async fn while_another_process_locks_the_store_writes_fail_and_the_host_is_not_ready() {
    let counts = "/*\nrequirements: kv\n*/\nfn inlet(body) { if body.messages[-1].text == \"count\" { kv::incr(\"n\"); } body }";
    let config = "[[models]]\nname = \"remembers\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\n";
    let host = TestHost::new().filter("counts", counts).config(config).start().await;
    host.ask("count").await;
    let file = format!("sqlite://{}", host.folder().join(".valvehouse/state.db").display());
    let other = sqlx::SqlitePool::connect(&file).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    // All of this is answered while the lock is held.
    let ready = host.get("/readyz?verbose").await;
    assert_eq!((ready.status, &ready.json()["reason"]), (503, &json!("store")));
    for turn in 0..3 {
        let refused = host.ask("count").await;
        refused.refused(503, "another process holds its lock");
        assert_eq!(refused.error()["code"], "store_busy", "{turn}");
        assert!(!refused.body().contains("state.db"), "{}", refused.body());
    }
    let mut remembered = crate::host::chat_body("remembers", "hi");
    remembered["chat_id"] = json!("c1");
    host.chat(&remembered).await.refused(503, "another process holds its lock");
    assert_eq!(host.ask("hello").await.status, 200, "what stores nothing is answered");
    lock.rollback().await.unwrap();
    other.close().await;
    until("it is ready again", || async { host.get("/readyz").await.status == 200 }).await;
    assert_eq!(host.ask("count").await.status, 200);
    assert_eq!(host.chat(&remembered).await.status, 200);
}

#[tokio::test]
async fn a_stopping_host_finishes_streams_and_rejects_new_requests() {
    let mut host = TestHost::new().start().await;
    let gate = Gate::closed();
    let end = chunk(&json!({}), Some("stop")) + "data: [DONE]\n\n";
    host.upstream.reply(Reply::begun(["one "]).then_gate(&gate).then(end));
    let mut begun = host.begin("hi").await;
    begun.chunk().await.unwrap().expect("the first words");
    let (ready, chats) = (host.url("/readyz"), host.url("/v1/chat/completions"));
    host.shut_down();
    let client = client();
    let status = |url: &str| {
        let answer = client.get(url).send();
        async move { answer.await.unwrap().status().as_u16() }
    };
    until("it is not ready", || async { status(&ready).await == 503 }).await;
    let refused = Answer::of(client.post(&chats).body("{}")).await;
    refused.refused(503, "this host is stopping");
    assert_eq!(refused.header("retry-after"), Some("1"));
    gate.open();
    let mut rest = String::new();
    while let Some(bytes) = begun.chunk().await.unwrap() {
        rest.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    until("nobody listens any more", || async { client.get(&ready).send().await.is_err() }).await;
    host.stop().await;
}
