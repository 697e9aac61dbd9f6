//! Access to the Functions API: operators can do everything, users only what concerns themselves, others
//! nothing.

use super::{SHOUTS, new};
use crate::host::{Answer, Setup, TestHost, chat_body};
use crate::upstream::MODEL;
use serde_json::{Value, json};

const USER: &str = "/id/shouts/valves/user";
const UPDATE: &str = "/id/shouts/valves/user/update";

fn keyed() -> Setup {
    TestHost::new().filter("shouts", SHOUTS).config(
        "[server]\nkeys = [\"sk-plain\", { key = \"sk-ann\", user = { id = \"ann\" } }, \
         { key = \"sk-bob\", user = { id = \"bob\" } }]\n[admin]\nkey = \"sk-operator\"",
    )
}

async fn answer_for(host: &TestHost, key: &str) -> String {
    let request = host.posting(chat_body(MODEL, "x").to_string()).bearer_auth(key);
    Answer::of(request).await.text()
}

#[tokio::test]
async fn without_the_operator_key_nothing_is_shown_or_changed() {
    let host = keyed().start().await;
    for key in ["", "sk-plain", "sk-ann", "sk-wrong"] {
        for (method, path, body) in [
            ("GET", "/", Value::Null),
            ("GET", "/export", Value::Null),
            ("GET", "/deleted", Value::Null),
            ("GET", "/id/shouts", Value::Null),
            ("GET", "/id/shouts/valves", Value::Null),
            ("GET", "/id/shouts/history", Value::Null),
            ("GET", "/id/shouts/history/1", Value::Null),
            ("POST", "/create", new("mine", SHOUTS)),
            ("POST", "/id/shouts/update", json!({"content": "fn inlet(body) { body }"})),
            ("POST", "/id/shouts/valves/update", json!({"times": 2})),
            ("POST", "/id/shouts/toggle", Value::Null),
            ("POST", "/id/shouts/toggle/global", Value::Null),
            ("POST", "/id/shouts/rollback", json!({"version": 1})),
            ("DELETE", "/id/shouts/delete", Value::Null),
        ] {
            let answer = host.api_with(key, method, path, &body).await;
            answer.denied(401, "[admin]");
        }
    }
    assert_eq!(
        host.api_with("sk-operator", "GET", "/id/shouts/history", &Value::Null)
            .await
            .ok()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(std::fs::read_to_string(host.path_of("shouts")).unwrap(), SHOUTS);
}

#[tokio::test]
async fn users_read_and_set_only_their_own_valves() {
    let host = keyed().start().await;
    let spec = host.api_with("sk-ann", "GET", "/id/shouts/valves/user/spec", &Value::Null).await.ok();
    assert_eq!(spec["properties"]["loud"]["type"], "boolean");
    let saved =
        host.api_with("sk-ann", "POST", UPDATE, &json!({"loud": "yes", "pin": "canary-6"})).await.ok();
    assert_eq!(saved, json!({"loud": true, "pin": "********"}));
    assert_eq!(host.api_with("sk-ann", "GET", USER, &Value::Null).await.ok(), saved);
    assert_eq!(host.api_with("sk-bob", "GET", USER, &Value::Null).await.ok(), json!({}));
    assert_eq!(answer_for(&host, "sk-ann").await, "hello from upstream HI");
    assert_eq!(answer_for(&host, "sk-bob").await, "hello from upstream hi");
    for (method, path, body) in [
        ("GET", "/id/shouts/valves/user?user=ann", Value::Null),
        ("POST", "/id/shouts/valves/user/update?user=ann", json!({})),
    ] {
        host.api_with("sk-bob", method, path, &body).await.denied(403, "belongs to bob");
        for nobody in ["", "sk-plain", "sk-wrong"] {
            host.api_with(nobody, method, path, &body).await.denied(401, "operators");
        }
    }
    host.api_with("sk-ann", "POST", UPDATE, &json!({"loud": "perhaps"})).await.denied(400, "`loud`");
    assert_eq!(host.api_with("sk-ann", "GET", USER, &Value::Null).await.ok(), saved, "nothing was changed");
}

#[tokio::test]
async fn operators_set_the_valves_of_a_user_they_name() {
    let host = keyed().start().await;
    host.api_with("sk-operator", "GET", USER, &Value::Null).await.denied(400, "?user=ID");
    let ann = format!("{UPDATE}?user=ann");
    host.api_with("sk-operator", "POST", &ann, &json!({"loud": true})).await.ok();
    assert_eq!(host.api_with("sk-ann", "GET", USER, &Value::Null).await.ok(), json!({"loud": true}));
    assert_eq!(answer_for(&host, "sk-ann").await, "hello from upstream HI");
    let history = host.api_with("sk-operator", "GET", "/id/shouts/history", &Value::Null).await.ok();
    assert_eq!(history.as_array().unwrap().len(), 1, "what users set is theirs");
}

#[tokio::test]
async fn another_site_cannot_change_a_host_without_keys() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    for path in ["/id/shouts/toggle", "/id/shouts/valves/user/update?user=ann"] {
        let request = host.request("POST", &format!("/api/v1/functions{path}"));
        let answer = Answer::of(request.header("origin", "https://elsewhere.example").body("{}")).await;
        assert_eq!(answer.status, 403, "{}", answer.body());
    }
    assert_eq!(host.api_get("/id/shouts").await["is_active"], true);
}
