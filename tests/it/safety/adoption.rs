//! A file with the id of a removed plugin: it reads nothing that was stored for that plugin until an operator
//! confirms that it is the same one.

use super::with;
use crate::host::{TestHost, until};
use serde_json::json;

/// Has everything that can be stored for a plugin: a secret valve, a user's valve, `kv`, a grant, state.
const OWNER: &str = r#"/*
requirements: kv, http
*/
const Valves = #{ token: #{ value: "nothing", secret: true }, word: "a" };
const UserValves = #{ pin: "0" };
fn inlet(body, valves, state) {
    kv::set("seen", "old");
    kv::user::set("seen", "old");
    state.old = true;
    skip(`old ${valves.token} ${valves.word}`)
}
"#;

/// Another plugin, which shows the values that it can read.
const READER: &str = r#"/*
requirements: kv
*/
const Valves = #{ token: #{ value: "nothing", secret: true }, word: "a" };
const UserValves = #{ pin: "0" };
fn inlet(body, valves, state, __user__) {
    skip(`new ${valves.token} ${valves.word} ${kv::get("seen", "none")} ${kv::user::get("seen", "none")} ${__user__.valves.pin} ${state.old == ()}`)
}
"#;

const EMPTY: &str = "new nothing a none none 0 true";
const ADOPTED: &str = "new sesame-1234 b old old 7 true";

async fn post(host: &TestHost, path: &str, body: serde_json::Value) {
    let answer = with(host.request("POST", path).body(body.to_string()), &[]).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body());
}

/// Returns the plugin's text for the user with a valve.
async fn answer_for_ann(host: &TestHost) -> String {
    let mut body = crate::host::chat_body(crate::upstream::MODEL, "x");
    body["user"] = json!("ann");
    host.chat(&body).await.text()
}

/// Starts a host with a plugin for which everything is stored.
async fn host(source: &str) -> TestHost {
    let host = TestHost::new().filter("keeps", source).start().await;
    let id = "/api/v1/functions/id/keeps";
    host.store()
        .set_grants("keeps", Some(&crate::kernel::json(r#"{"http":["example.com"]}"#)), None, "test")
        .await
        .unwrap();
    host.stands("keeps", "live").await;
    post(&host, &format!("{id}/valves/update"), json!({"token": "sesame-1234", "word": "b"})).await;
    host.store()
        .replace_valves("keeps", Some("ann"), &crate::kernel::json(r#"{"pin":"7"}"#), "ann")
        .await
        .unwrap();
    host.app().host.reload().await;
    assert_eq!(answer_for_ann(&host).await, "old sesame-1234 b");
    host
}

/// Deletes the plugin over the API, so that the removal is certain.
async fn remove(host: &TestHost) {
    let stored = host.store().valves("keeps", None).await.unwrap();
    let gone = with(host.request("DELETE", "/api/v1/functions/id/keeps/delete?confirm=true"), &[]).await;
    assert_eq!(gone.status, 200, "{}", gone.body());
    host.stands("keeps", "gone").await;
    // Deleting removes the operator's values; the valves of users, grants and `kv` remain.
    host.store().replace_valves("keeps", None, &stored, "test").await.unwrap();
    host.app().host.reload().await;
}

async fn grants(host: &TestHost) -> usize {
    host.store().grants().await.unwrap().iter().filter(|(id, _)| id == "keeps").count()
}

#[tokio::test]
async fn another_plugin_with_an_id_reads_the_old_data_only_after_adoption() {
    for guard in [false, true] {
        for restarts in [false, true] {
            let source = match guard {
                true => OWNER.replacen("/*\n", "/*\nsecurity: true\n", 1),
                false => OWNER.to_owned(),
            };
            let mut host = host(&source).await;
            remove(&host).await;
            if restarts {
                host.stop().await;
            }
            host.save("keeps", READER);
            if restarts {
                host.restart().await;
            }
            host.stands("keeps", "live").await;
            assert_eq!(answer_for_ann(&host).await, EMPTY, "guard {guard}, restarts {restarts}");
            assert_eq!(grants(&host).await, 0);
            let problem = host.snapshot().problems.iter().find(|one| one.id == "keeps").cloned().unwrap();
            assert_eq!(problem.code.id(), "V011");
            host.restart().await;
            assert_eq!(answer_for_ann(&host).await, EMPTY, "it stays so");
            // Values that it stores itself belong to it.
            post(&host, "/api/v1/functions/id/keeps/valves/update", json!({"word": "c"})).await;
            assert_eq!(answer_for_ann(&host).await, EMPTY.replace(" a ", " c "));

            post(&host, "/api/v1/functions/id/keeps/adopt", json!({})).await;
            assert_eq!(
                answer_for_ann(&host).await,
                ADOPTED.replace(" b ", " c "),
                "what it set itself stays"
            );
            assert_eq!(grants(&host).await, 1);
            assert!(host.snapshot().problems.iter().all(|one| one.id != "keeps"));
            host.restart().await;
            assert_eq!(answer_for_ann(&host).await, ADOPTED.replace(" b ", " c "));
            let again = with(host.request("POST", "/api/v1/functions/id/keeps/adopt"), &[]).await;
            assert_eq!(again.status, 409, "{}", again.body());
            // The secret is never shown.
            for path in ["valves", "valves/effective", "history"] {
                let shown = host.get(&format!("/api/v1/functions/id/keeps/{path}")).await;
                assert!(!shown.body().contains("sesame-1234"), "{path}: {}", shown.body());
            }
        }
    }
}

#[tokio::test]
async fn data_of_a_removed_plugin_can_be_dropped() {
    let mut host = host(OWNER).await;
    remove(&host).await;
    host.save("keeps", READER);
    host.stands("keeps", "live").await;
    post(&host, "/api/v1/functions/id/keeps/adopt", json!({"drop": true})).await;
    assert!(host.snapshot().problems.iter().all(|one| one.id != "keeps"));
    for _ in 0..2 {
        assert_eq!(answer_for_ann(&host).await, EMPTY);
        host.restart().await;
    }
    let left = host.store().kv_all().await.unwrap();
    assert!(left.iter().all(|row| row.value.as_str() != Some("old")), "{left:?}");
}

#[tokio::test]
async fn a_returning_plugin_keeps_its_data() {
    let host = host(OWNER).await;
    // Saved as editors do: deleted for a moment, then back with another text.
    let next = OWNER.replace("`old ", "`next ");
    host.delete("keeps");
    host.stands("keeps", "gone").await;
    host.save("keeps", &next);
    host.stands("keeps", "live").await;
    assert_eq!(answer_for_ann(&host).await, "next sesame-1234 b");
    // The file is renamed, and renamed back.
    std::fs::rename(host.path_of("keeps"), host.path_of("other")).unwrap();
    host.stands("keeps", "gone").await;
    host.stands("other", "broken").await;
    std::fs::rename(host.path_of("other"), host.path_of("keeps")).unwrap();
    host.stands("other", "gone").await;
    host.stands("keeps", "live").await;
    assert_eq!(answer_for_ann(&host).await, "next sesame-1234 b");
    // As a version control system does: a previous text returns after any time.
    remove(&host).await;
    host.save("keeps", OWNER);
    host.stands("keeps", "live").await;
    assert_eq!(answer_for_ann(&host).await, "old sesame-1234 b");
    assert!(host.snapshot().problems.iter().all(|one| one.id != "keeps"));
}

#[tokio::test]
async fn a_plugin_finds_its_own_data_after_another_used_its_id() {
    let host = host(OWNER).await;
    remove(&host).await;
    host.save("keeps", READER);
    host.stands("keeps", "live").await;
    post(&host, "/api/v1/functions/id/keeps/valves/update", json!({"word": "new"})).await;
    remove_file(&host).await;
    host.save("keeps", OWNER);
    host.stands("keeps", "live").await;
    assert_eq!(answer_for_ann(&host).await, "old sesame-1234 b");
    remove_file(&host).await;
    host.save("keeps", READER);
    host.stands("keeps", "live").await;
    assert!(answer_for_ann(&host).await.starts_with("new nothing"), "{}", answer_for_ann(&host).await);
}

async fn remove_file(host: &TestHost) {
    let gone = with(host.request("DELETE", "/api/v1/functions/id/keeps/delete?confirm=true"), &[]).await;
    assert_eq!(gone.status, 200, "{}", gone.body());
    until("it is gone", || async { !host.snapshot().plugins.contains_key("keeps") }).await;
}

/// Asks a person, and then shows its state.
const ASKS: &str = r#"
fn pre_chat(ctx, state, __event_call__) {
    if state.note == () { state.note = "old state"; }
    __event_call__.call(#{ type: "confirmation", data: #{ title: "Sure?" } });
    ctx
}
"#;
const TELLS: &str = r#"
const Valves = #{ own: 1 };
fn outlet(body, state) { body.messages[-1].text = `state: ${state.note ?? "none"}`; body }
"#;

#[tokio::test]
async fn a_paused_run_hides_the_state_of_a_removed_plugin_from_its_successor() {
    let model = format!(
        "[[models]]\nname = \"remembers\"\nprovider = \"mock\"\nmodel = \"{}\"\nmemory = true",
        crate::upstream::MODEL
    );
    for (source, expected) in [(TELLS, "state: none"), (ASKS, "hello from upstream")] {
        let mut host = TestHost::new().filter("keeps", ASKS).config(&model).start().await;
        let chat =
            json!({"model": "remembers", "chat_id": "c", "messages": [{"role": "user", "content": "x"}]});
        let waits = host.chat(&chat).await;
        let run = waits.header("x-valvehouse-run").expect("it waits").to_owned();
        remove_file(&host).await;
        host.save("keeps", source);
        host.stands("keeps", "live").await;
        host.restart().await;
        let path = format!("/api/v1/agents/runs/{run}/resume");
        let decided = with(host.request("POST", &path).body(r#"{"decision":"approve"}"#), &[]).await;
        assert_eq!(decided.status, 200, "{}", decided.body());
        assert!(decided.body().contains(expected), "{}", decided.body());
    }
}
