//! Keys: the endpoints that they open, their notation, and clients that guess them.

use super::{chat, chat_with, with};
use crate::cli::Project;
use crate::host::{Answer, TestHost};

const BOTH: &str = "[server]\nkeys = [\"sk-chat\"]\n[admin]\nkey = \"sk-operator\"\n";

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

#[tokio::test]
async fn a_chat_key_has_no_operator_access_and_the_operator_key_has_all() {
    let host = TestHost::new().config(BOTH).start().await;
    for (method, path) in [
        ("GET", "/api/v1/agents"),
        ("POST", "/api/v1/agents/prune"),
        ("GET", "/api/v1/agents/conversations"),
        ("POST", "/api/v1/agents/runs/x/resume"),
    ] {
        with_key(&host, method, path, "sk-chat").await.refused(401, "[admin]");
        let opened = with_key(&host, method, path, "sk-operator").await;
        assert!(![401, 403].contains(&opened.status), "{path}: {}", opened.body());
    }
    let signed = host.request("POST", "/api/v1/session").body(r#"{"key": "sk-chat"}"#);
    Answer::of(signed).await.refused(401, "[admin]");
    for key in ["sk-chat", "sk-operator"] {
        assert_eq!(chat_with(&host, &[("authorization", &bearer(key))]).await.text(), "hello from upstream");
        assert_eq!(with_key(&host, "GET", "/v1/models", key).await.status, 200);
    }
}

async fn with_key(host: &TestHost, method: &str, path: &str, key: &str) -> Answer {
    with(host.request(method, path), &[("authorization", &bearer(key))]).await
}

#[tokio::test]
async fn a_chat_key_or_no_key_can_answer_questions() {
    let host = TestHost::new().config(BOTH).start().await;
    let path = "/api/v1/questions/none";
    Answer::of(host.request("POST", path).body("1")).await.refused(401, "missing API key");
    for key in ["sk-chat", "sk-operator"] {
        let answer = with(host.request("POST", path).body("1"), &[("authorization", &bearer(key))]).await;
        answer.refused(404, "unknown question");
    }
}

#[tokio::test]
async fn a_key_is_shown_once_and_configured_by_its_hash() {
    let made = Project::new().run("key --format json").ends(0).json();
    let (key, hash) = (made.text("key").unwrap().to_string(), made.text("hash").unwrap().to_string());
    assert!(key.len() > 40 && !hash.contains(&key), "{key}");
    let hashed = Project::new().run_with(&["key", "--hash"], &format!("{key}\n"));
    assert_eq!(hashed.ends(0).out.trim(), hash);
    let again = Project::new().run("key").ends(0).prints("key   vh-").prints("hash  sha256:");
    assert!(!again.out.contains(&key), "no two are alike");
    Project::new().run_with(&["key", "--hash"], "\n").ends(2).stderr_has("missing key on stdin");
    let long = "k".repeat(64 * 1024 + 1);
    Project::new().run_with(&["key", "--hash"], &long).ends(65).stderr_has("exceeded its limit of 64 KB");

    let host = TestHost::new()
        .config(&format!(
            "[server]\nkeys = [{{ key = \"{hash}\", user = {{ id = \"ann\" }} }}]\n[admin]\nkey = \"{hash}\"\n"
        ))
        .start()
        .await;
    assert_eq!(chat_with(&host, &[("authorization", &bearer(&key))]).await.text(), "hello from upstream");
    assert_eq!(with_key(&host, "GET", "/api/v1/agents", &key).await.status, 200);
    chat_with(&host, &[("authorization", &bearer(&hash))])
        .await
        .refused(401, "expected one of [server] keys");
}

#[test]
fn an_invalid_key_hash_prevents_startup() {
    for toml in ["[admin]\nkey = \"sha256:12\"\n", "[server]\nkeys = [\"sha256:zz\"]\n"] {
        let project = Project::new().with("valvehouse.toml", toml);
        project.run("list").ends(78).stderr_has("64 hexadecimal digits").stderr_has("valvehouse key");
    }
}

#[tokio::test]
async fn key_guesses_are_limited_but_valid_keys_still_work() {
    let host = TestHost::new().config(BOTH).start().await;
    for _ in 0..50 {
        chat_with(&host, &[("x-api-key", "sk-old")]).await.refused(401, "expected one of");
    }
    assert_eq!(
        chat_with(&host, &[("x-api-key", "sk-chat")]).await.status,
        200,
        "one old key is not guessing"
    );
    for guess in 0..9 {
        let guess = format!("sk-{guess}");
        match guess.len() % 2 {
            0 => chat_with(&host, &[("x-api-key", &guess)]).await.refused(401, "expected one of"),
            _ => with_key(&host, "GET", "/api/v1/agents", &guess).await.refused(401, "[admin]"),
        }
    }
    for key in ["sk-11", "sk-12"] {
        let answer = chat_with(&host, &[("x-api-key", key)]).await;
        answer.refused(429, "too many wrong keys");
        assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() <= 60);
        with_key(&host, "GET", "/api/v1/agents", key).await.refused(429, "too many wrong keys");
    }
    let signs_in = |key: &str| host.request("POST", "/api/v1/session").body(format!(r#"{{"key": "{key}"}}"#));
    Answer::of(signs_in("sk-13")).await.refused(429, "too many wrong keys");
    // Valid keys are not delayed by guesses from the same address, which may be a proxy's.
    for key in ["sk-chat", "sk-operator"] {
        assert_eq!(chat_with(&host, &[("x-api-key", key)]).await.status, 200, "{key}");
    }
    assert_eq!(with_key(&host, "GET", "/api/v1/agents", "sk-operator").await.status, 200);
    assert_eq!(Answer::of(signs_in("sk-operator")).await.status, 200);
    Answer::of(host.posting(chat())).await.refused(401, "missing API key");
}
