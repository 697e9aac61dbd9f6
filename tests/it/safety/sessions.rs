//! Operators at the page.

use super::with;
use crate::host::{Answer, TestHost, until};
use serde_json::{Value, json};

const ADMIN: &str = "[admin]\nkey = \"sk-operator\"\n";
/// An operator route that reads.
const LOOKS: &str = "/api/v1/agents";
/// An operator route that writes.
const CHANGES: &str = "/api/v1/agents/prune";

/// The session of a browser.
struct Page {
    cookie: String,
    csrf: String,
}

impl Page {
    fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 200, "{}", answer.body());
        let cookie = answer.header("set-cookie").expect("a cookie");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        let csrf = answer.json()["csrf"].as_str().expect("a token").to_owned();
        Self { cookie: cookie.split(';').next().unwrap().to_owned(), csrf }
    }

    async fn asks(&self, host: &TestHost, method: &str, path: &str, csrf: Option<&str>) -> Answer {
        let own = host.url("");
        let mut headers = vec![("cookie", self.cookie.as_str())];
        headers.extend((method != "GET").then_some(("origin", own.as_str())));
        headers.extend(csrf.map(|csrf| ("x-valvehouse-csrf", csrf)));
        with(host.request(method, path), &headers).await
    }
}

async fn sign_in(host: &TestHost, body: Value) -> Answer {
    Answer::of(host.request("POST", "/api/v1/session").body(body.to_string())).await
}

#[tokio::test]
async fn an_operator_signs_in_with_the_key_and_signs_out() {
    let host = TestHost::new().config(ADMIN).start().await;
    let nobody = json!({"operator": false, "needs_key": true, "csrf": null, "by": null});
    assert_eq!(host.get("/api/v1/session").await.json(), nobody);
    sign_in(&host, json!({"key": "sk-wrong"})).await.refused(401, "[admin]");
    sign_in(&host, json!({})).await.refused(401, "[admin]");

    let answer = sign_in(&host, json!({"key": "sk-operator", "by": "Ann"})).await;
    let page = Page::of(&answer);
    assert_eq!(answer.json()["by"], "admin (Ann)");
    assert_eq!(answer.json()["operator"], true);
    let again = page.asks(&host, "GET", "/api/v1/session", None).await;
    assert_eq!(again.json(), answer.json(), "a page that is loaded again goes on");
    assert_eq!(page.asks(&host, "GET", LOOKS, None).await.status, 200);

    page.asks(&host, "POST", CHANGES, None).await.refused(403, "x-valvehouse-csrf");
    page.asks(&host, "POST", CHANGES, Some("guessed")).await.refused(403, "x-valvehouse-csrf");
    let changed = page.asks(&host, "POST", CHANGES, Some(&page.csrf)).await;
    assert!(![401, 403].contains(&changed.status), "{}", changed.body());

    page.asks(&host, "DELETE", "/api/v1/session", None).await.refused(403, "x-valvehouse-csrf");
    let out = page.asks(&host, "DELETE", "/api/v1/session", Some(&page.csrf)).await;
    assert_eq!(out.json(), nobody);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    page.asks(&host, "GET", LOOKS, None).await.refused(401, "sign in");
}

#[tokio::test]
async fn a_session_grants_no_inference_access_and_ends_with_its_key() {
    let host = TestHost::new().config("[server]\nkeys = [\"sk-chat\"]\n[admin]\nkey = \"file:admin.key\"");
    let host = {
        let started = host.start().await;
        std::fs::write(started.folder().join("admin.key"), "sk-first\n").unwrap();
        started
    };
    let mut answer = None;
    until("the key in the file opens", || async {
        sign_in(&host, json!({"key": "sk-first"})).await.status == 200
    })
    .await;
    answer.replace(sign_in(&host, json!({"key": "sk-first"})).await);
    let page = Page::of(&answer.unwrap());
    let chat = host.posting(super::chat()).header("cookie", &page.cookie);
    Answer::of(chat).await.refused(401, "missing API key");
    assert_eq!(page.asks(&host, "GET", LOOKS, None).await.status, 200);

    std::fs::write(host.folder().join("admin.key"), "sk-second\n").unwrap();
    until("the session of the old key is over", || async {
        page.asks(&host, "GET", LOOKS, None).await.status == 401
    })
    .await;
    sign_in(&host, json!({"key": "sk-first"})).await.refused(401, "[admin]");
    assert_eq!(sign_in(&host, json!({"key": "sk-second"})).await.status, 200);
}

#[tokio::test]
async fn without_a_key_page_requests_must_come_from_the_own_page() {
    let host = TestHost::new().start().await;
    let own = host.url("");
    let answer = host.get("/api/v1/session").await;
    let page = Page::of(&answer);
    assert_eq!(answer.json()["by"], "local");
    assert_eq!(answer.json()["needs_key"], false);
    page.asks(&host, "POST", CHANGES, None).await.refused(403, "x-valvehouse-csrf");
    assert!(page.asks(&host, "POST", CHANGES, Some(&page.csrf)).await.status != 403);
    let bare = with(host.request("POST", CHANGES), &[("origin", own.as_str())]).await;
    bare.refused(403, "x-valvehouse-csrf");
    let other = Page::of(&host.get("/api/v1/session").await);
    page.asks(&host, "POST", CHANGES, Some(&other.csrf)).await.refused(403, "x-valvehouse-csrf");
    let typed = Answer::of(host.request("POST", CHANGES)).await;
    assert!(![401, 403].contains(&typed.status), "no browser, no page: {}", typed.body());

    let from_afar = with(host.request("GET", "/api/v1/session"), &[("x-forwarded-for", "10.0.0.1")]).await;
    assert_eq!(from_afar.json()["operator"], false);
    assert!(from_afar.header("set-cookie").is_none());
}

#[tokio::test]
async fn behind_tls_the_cookie_is_secure() {
    let host = TestHost::new().config(ADMIN).start().await;
    let sign_in = || host.request("POST", "/api/v1/session").body(json!({"key": "sk-operator"}).to_string());
    let plain = Answer::of(sign_in()).await;
    assert!(!plain.header("set-cookie").unwrap().contains("Secure"));
    let passed_on = with(sign_in(), &[("x-forwarded-proto", "https")]).await;
    assert!(passed_on.header("set-cookie").unwrap().contains("; Secure"));
}

#[tokio::test]
async fn two_hosts_on_one_machine_use_separate_cookies() {
    let (one, two) = (TestHost::new().start().await, TestHost::new().start().await);
    let names = [&one, &two].map(|host| async { Page::of(&host.get("/api/v1/session").await).cookie });
    let [one, two] = names;
    let (one, two) = (one.await, two.await);
    assert_ne!(one.split('=').next(), two.split('=').next());
}
