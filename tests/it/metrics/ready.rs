//! `/livez` and `/readyz`.

use crate::host::{Answer, TestHost, client, until};
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
    assert_eq!((readiness.status, readiness.json()), (200, json!({"ready": true, "reason": null})));
    let details = Answer::of(host.request("GET", "/readyz?verbose").bearer_auth("admin-key")).await;
    assert_eq!(details.json()["plugins"]["good"], "live");
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
