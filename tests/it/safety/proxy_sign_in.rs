//! Operators who signed in at a proxy in front of the host. The headers are those that oauth2-proxy sends: in proxy mode
//! (`--pass-user-headers`) and behind another proxy (`--set-xauthrequest`).

use super::{chat, origins, with};
use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

/// An operator route that reads.
const LOOKS: &str = "/api/v1/agents";
/// An operator route that the role `tune` may use.
const TUNES: &str = "/api/v1/functions/id/plain/valves/update";
const PLAIN: &str = "const Valves = #{ mark: \"!\" };\nfn inlet(body) { body }";
const ROLES: &str = "users = { \"ann@example.org\" = \"admin\", \"bob@example.org\" = \"read\" }\n\
                     groups = { \"valve-operators\" = \"write\" }\n";

fn settings(proxies: &str) -> String {
    format!("[server.proxy_sign_in]\nproxies = {proxies}\n{ROLES}")
}

async fn host() -> TestHost {
    TestHost::new().config(&settings("[\"127.0.0.1\"]")).filter("plain", PLAIN).start().await
}

/// Returns what oauth2-proxy sends to the host behind it.
fn in_proxy_mode<'h>(email: &'h str, groups: &'h str) -> Vec<(&'static str, &'h str)> {
    vec![
        ("x-forwarded-for", "203.0.113.5"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-user", "5f0c7ad1-7b0c-4a3c-9f0e-2f2f0a3a9d11"),
        ("x-forwarded-email", email),
        ("x-forwarded-preferred-username", "ann"),
        ("x-forwarded-groups", groups),
        ("authorization", "Basic YW5uOg=="),
        ("cookie", "_oauth2_proxy=c2Vzc2lvbg==|1796040000|c2lnbmF0dXJl"),
    ]
}

/// The page in the browser of an operator.
struct Page<'h> {
    headers: Vec<(&'static str, &'h str)>,
    cookie: String,
    csrf: String,
    session: Value,
}

impl<'h> Page<'h> {
    async fn open(host: &TestHost, headers: Vec<(&'static str, &'h str)>) -> Self {
        let sent = [&headers[..], &[("sec-fetch-site", "same-origin")]].concat();
        let answer = with(host.request("GET", "/api/v1/session"), &sent).await;
        let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{}", answer.body()));
        assert!(
            ["HttpOnly", "SameSite=Strict", "Secure"].iter().all(|word| cookie.contains(word)),
            "{cookie}"
        );
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let session = answer.json();
        Self { headers, cookie, csrf: session["csrf"].as_str().unwrap().to_owned(), session }
    }

    /// Sends a change with these headers in addition.
    async fn posts(&self, host: &TestHost, path: &str, more: &[(&str, &str)]) -> Answer {
        let mine = self.headers.iter().filter(|(name, _)| *name != "cookie").copied();
        let headers: Vec<(&str, &str)> =
            mine.chain([("cookie", &*self.cookie)]).chain(more.to_vec()).collect();
        let body = if path == TUNES { json!({"mark": self.csrf}) } else { json!({}) };
        with(host.request("POST", path).body(body.to_string()), &headers).await
    }
}

#[tokio::test]
async fn the_headers_of_oauth2_proxy_sign_operators_in() {
    let host = host().await;
    let behind = format!(
        "{}user_header = \"X-Auth-Request-Email\"\ngroups_header = \"X-Auth-Request-Groups\"\n",
        settings("[\"127.0.0.0/8\"]")
    );
    let other = TestHost::new().config(&behind).start().await;
    for (email, groups, status) in [
        ("ann@example.org", "sales", 200),
        ("bob@example.org", "", 200),
        ("cyd@example.org", "sales,valve-operators", 200),
        ("dan@example.org", "sales", 403),
    ] {
        let answer = with(host.request("GET", LOOKS), &in_proxy_mode(email, groups)).await;
        assert_eq!(answer.status, status, "{email}: {}", answer.body());
        let headers = [
            ("x-auth-request-user", "5f0c7ad1"),
            ("x-auth-request-email", email),
            ("x-auth-request-groups", groups),
            ("x-auth-request-preferred-username", "ann"),
        ];
        assert_eq!(with(other.request("GET", LOOKS), &headers).await.status, status, "{email}");
    }
    let dan = in_proxy_mode("dan@example.org", "sales");
    with(host.request("GET", LOOKS), &dan)
        .await
        .refused(403, "`dan@example.org` signed in at the proxy and has no");
    // The host uses one pair of headers, whatever else it is sent.
    let ann = [("x-auth-request-email", "ann@example.org"), ("x-forwarded-user", "ann@example.org")];
    with(host.request("GET", LOOKS), &ann).await.refused(401, "this route is for operators");
    host.get(LOOKS).await.refused(401, "this route is for operators");
}

#[tokio::test]
async fn the_page_needs_no_key_and_changes_only_what_the_role_allows() {
    let host = host().await;
    let own = host.url("");
    let of_page = |csrf: &str| vec![("origin", own.clone()), ("x-valvehouse-csrf", csrf.to_owned())];
    let ann = Page::open(&host, in_proxy_mode("ann@example.org", "")).await;
    let (by, flags) =
        (&ann.session["by"], ["operator", "needs_key", "at_proxy"].map(|key| &ann.session[key]));
    assert_eq!((by, flags), (&json!("proxy (ann@example.org)"), [&json!(true), &json!(false), &json!(true)]));
    assert_eq!(ann.session.get("sign_out"), None);

    let bob = Page::open(&host, in_proxy_mode("bob@example.org", "")).await;
    let cyd = Page::open(&host, in_proxy_mode("cyd@example.org", "valve-operators")).await;
    for (page, path, status) in [
        (&ann, TUNES, 200),
        (&ann, "/api/v1/agents/prune", 200),
        (&cyd, TUNES, 200),
        (&cyd, "/api/v1/keys", 403),
        (&bob, TUNES, 403),
    ] {
        let headers = of_page(&page.csrf);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = page.posts(&host, path, &headers).await;
        let is_role = answer.body().contains("has the role");
        assert_eq!((answer.status, is_role), (status, status == 403), "{path}: {}", answer.body());
    }
    let headers = in_proxy_mode("ann@example.org", "");
    let history = with(host.request("GET", "/api/v1/functions/id/plain/history"), &headers).await.json();
    assert_eq!(history[0]["by"], "proxy (cyd@example.org)", "{history}");

    // The cookie of the page gives no access by itself, and serves one operator only.
    with(host.request("GET", LOOKS), &[("cookie", &ann.cookie)]).await.refused(401, "for operators");
    let wrong = [&bob.csrf, "guessed", ""];
    for csrf in wrong {
        let headers = [("origin", own.as_str()), ("x-valvehouse-csrf", csrf)];
        ann.posts(&host, "/api/v1/agents/prune", &headers).await.refused(403, "x-valvehouse-csrf");
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_use_the_sign_in_of_the_browser() {
    let host = TestHost::new()
        .config(&format!("[server]\nkeys = [\"sk-chat\"]\n{}", settings("[\"127.0.0.1\"]")))
        .filter("plain", PLAIN)
        .start()
        .await;
    let ann = Page::open(&host, in_proxy_mode("ann@example.org", "")).await;
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("accept", "text/event-stream"),
    ] {
        let token = ("x-valvehouse-csrf", &*ann.csrf);
        let answer = ann.posts(&host, TUNES, &[(name, value), token]).await;
        assert_eq!(answer.status, 403, "{name}: {value}: {}", answer.body());
    }
    for path in [LOOKS, "/api/v1/events", "/api/v1/session"] {
        let headers = in_proxy_mode("ann@example.org", "");
        let headers = [&headers[..], &[("sec-fetch-site", "cross-site")]].concat();
        with(host.request("GET", path), &headers).await.refused(403, "not allowed to send requests");
    }
    // No route of any kind changes something for a browser that sends nothing of the page.
    for (method, path) in origins::routes(&host).await {
        if method == "GET" || path == "/api/v1/session" {
            continue;
        }
        let request = host.request(&method, &path).header("content-type", "text/plain").body("{}");
        let answer = with(request, &in_proxy_mode("ann@example.org", "")).await;
        let is_absent =
            ["unknown route", "realtime_unsupported"].iter().any(|word| answer.body().contains(word));
        let is_refused = matches!(answer.status, 401 | 403) || is_absent;
        assert!(is_refused, "{method} {path}: {} {}", answer.status, answer.body());
    }
}

#[tokio::test]
async fn only_the_proxy_can_name_an_operator() {
    let toml = format!("[server]\ntrusted_proxies = [\"127.0.0.1\"]\n{}", settings("[\"10.0.0.7\"]"));
    let host = TestHost::new().config(&toml).start().await;
    let ann = ("x-forwarded-email", "ann@example.org");
    for claimed in [("x-forwarded-for", "10.0.0.7"), ("forwarded", "for=10.0.0.7"), ("x-real-ip", "10.0.0.7")]
    {
        with(host.request("GET", LOOKS), &[ann, claimed]).await.refused(401, "this route is for operators");
    }
    let session = with(host.request("GET", "/api/v1/session"), &[ann]).await.json();
    assert_eq!(session, json!({"operator": false, "needs_key": true, "csrf": null, "by": null}));

    let host = self::host().await;
    for (headers, status) in [
        (&[("x_forwarded_email", "ann@example.org")][..], 401),
        (&[("x-forwarded_email", "ann@example.org")], 401),
        (&[("x-forwarded-email", "bob@example.org"), ("x_forwarded_email", "ann@example.org")], 200),
        (&[ann, ann], 403),
        (&[("x-forwarded-email", "bob@example.org"), ann], 403),
        (&[("x-forwarded-email", "ann@example.org, bob@example.org")], 403),
        (&[("x-forwarded-email", "")], 403),
        (&[("x-forwarded-email", "änn@example.org")], 403),
        (
            &[
                ("x-forwarded-email", "cyd"),
                ("x-forwarded-groups", "a"),
                ("x-forwarded-groups", "valve-operators"),
            ],
            403,
        ),
    ] {
        let answer = with(host.request("GET", LOOKS), headers).await;
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body());
    }
    let session = with(host.request("GET", "/api/v1/session"), &[ann, ann]).await.json();
    assert_eq!(session["operator"], false);
    assert!(session["refusal"].as_str().unwrap().contains("is sent more than once"), "{session}");
}

#[tokio::test]
async fn a_key_counts_before_the_proxy_and_the_proxy_counts_as_no_key() {
    let toml = format!(
        "[admin]\nkey = \"sk-operator\"\n[server]\nkeys = [\"sk-chat\"]\n{}",
        settings("[\"127.0.0.1\"]")
    );
    let host = TestHost::new().config(&toml).filter("plain", PLAIN).start().await;
    let bob = ("x-forwarded-email", "bob@example.org");
    let changes = async |key: &str| {
        let key = format!("Bearer {key}");
        with(host.request("POST", TUNES).body("{}"), &[bob, ("authorization", &key)]).await
    };
    assert_eq!(changes("sk-operator").await.status, 200);
    for key in ["sk-wrong", "sk-chat"] {
        assert_eq!(changes(key).await.status, 401, "{key}");
    }
    let ann = ("x-forwarded-email", "ann@example.org");
    with(host.posting(chat()), &[ann]).await.refused(401, "missing API key");
    with(host.request("GET", "/v1/models"), &[ann]).await.refused(401, "missing API key");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}).to_string();
    assert_eq!(with(host.request("POST", "/mcp").body(initialize), &[ann]).await.status, 401);
}

#[tokio::test]
async fn a_sign_in_without_keys_closes_the_host_for_operators_and_changes_when_it_is_saved() {
    let mut host = host().await;
    let ann = [("x-forwarded-email", "ann@example.org")];
    host.get(LOOKS).await.refused(401, "this route is for operators");
    assert_eq!(host.ask("hi").await.status, 200, "models are served as without it");
    assert_eq!(with(host.request("GET", LOOKS), &ann).await.status, 200);
    let page = Page::open(&host, in_proxy_mode("ann@example.org", "")).await;

    let before = host.settings();
    host.reconfigure(&format!("{}sign_out = \"/oauth2/sign_out\"\n", before.replace("\"ann@", "\"eve@")))
        .await;
    with(host.request("GET", LOOKS), &ann).await.refused(403, "has no role");
    with(host.request("GET", LOOKS), &[("cookie", &page.cookie)]).await.refused(401, "for operators");
    let eve = Page::open(&host, in_proxy_mode("eve@example.org", "")).await;
    assert_eq!(eve.session["sign_out"], "/oauth2/sign_out");
    host.reconfigure(&before.replace("[\"127.0.0.1\"]", "[]")).await;
    assert_eq!(host.get(LOOKS).await.status, 200, "it is as without the settings");
}
