//! Requests that are rejected before any route: pages of other sites, foreign host names, too large ones and
//! too many.

use super::{chat, chat_with, with};
use crate::host::{Answer, TestHost};
use serde_json::json;

const EVIL: &str = "https://evil.example";

#[tokio::test]
async fn another_site_cannot_chat_with_a_local_host() {
    let host = TestHost::new().start().await;
    let tries: [&[(&str, &str)]; 8] = [
        &[("origin", EVIL), ("content-type", "text/plain")],
        &[("origin", "null"), ("content-type", "text/plain")],
        &[("origin", "http://localhost:3000")],
        &[("origin", EVIL), ("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")],
        &[("sec-fetch-site", "none"), ("origin", "chrome-extension://abc")],
    ];
    for headers in tries {
        chat_with(&host, headers).await.refused(403, "is not allowed to send requests to this host");
    }
    // A foreign name that resolves to this host: for the browser, the foreign page and this host are the same
    // site.
    for name in [
        "evil.example",
        "evil.example:9099",
        "127.0.0.1.evil.example",
        "0.0.0.0:9099",
        "[::]:1",
        "[::1].evil.com",
        "[::1]evil.com:80",
        "[::1",
        "127.0.0.1:80.evil.com",
        "localhost:80@evil.com",
        "localhost@evil.com",
        "localhost:",
        "localhost:port",
        "localhost:99999",
        "localhost/evil.com",
    ] {
        let own = format!("http://{name}");
        let rebound = [("host", name), ("origin", own.as_str()), ("sec-fetch-site", "same-origin")];
        chat_with(&host, &rebound).await.refused(403, "[server] hosts");
        with(host.request("GET", "/v1/models"), &[("host", name)]).await.refused(403, "[server] hosts");
        with(host.request("GET", "/readyz"), &[("host", name)]).await.refused(403, "[server] hosts");
    }
    assert!(host.upstream.requests().is_empty());
    for name in ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:9099", "127.8.8.8"] {
        assert_eq!(chat_with(&host, &[("host", name)]).await.status, 200, "{name}");
    }
    let own = host.url("");
    assert_eq!(chat_with(&host, &[("origin", own.as_str())]).await.status, 200);
}

#[tokio::test]
async fn every_endpoint_rejects_other_sites_in_its_own_format() {
    let host =
        TestHost::new().config("[server]\nkeys = [\"sk-chat\"]\n[admin]\nkey = \"sk-op\"").start().await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/livez"),
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/api/v1/session"),
        ("POST", "/api/v1/session"),
        ("POST", "/api/v1/questions/none"),
        ("GET", "/api/v1/agents"),
        ("POST", "/api/v1/agents/prune"),
        ("GET", "/nowhere"),
    ] {
        let headers = [("origin", EVIL), ("authorization", "Bearer sk-op")];
        let answer = with(host.request(method, path).body(""), &headers).await;
        answer.refused(403, "is not allowed to send requests to this host");
        assert_eq!(answer.error()["code"], "origin_not_allowed");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let answer = with(host.request("POST", "/v1/messages").body("{}"), &[("origin", EVIL)]).await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (403, &json!("permission_error")));
    let answer = with(host.request("GET", "/api/v1/functions/"), &[("origin", EVIL)]).await;
    assert_eq!(answer.status, 403);
    assert!(
        answer.json()["detail"].as_str().unwrap().contains("is not allowed to send requests"),
        "{}",
        answer.body()
    );
}

#[tokio::test]
async fn an_allowed_site_can_chat_but_has_no_operator_access() {
    let host = TestHost::new().config("[server]\norigins = [\"https://Chat.example.com\"]").start().await;
    let site = "https://chat.example.com";
    let preflight = |path: &str| {
        let asks = [
            ("origin", site),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ];
        let request = host.request("OPTIONS", path);
        async move { with(request, &asks).await }
    };
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/models"] {
        let answer = preflight(path).await;
        assert_eq!((answer.status, answer.body()), (204, ""), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(site));
        assert_eq!(answer.header("access-control-allow-headers"), Some("authorization,content-type"));
        assert!(answer.header("access-control-allow-credentials").is_none());
    }
    let answer = chat_with(&host, &[("origin", site), ("sec-fetch-site", "cross-site")]).await;
    assert_eq!(answer.text(), "hello from upstream");
    assert_eq!(answer.header("access-control-allow-origin"), Some(site));
    assert_eq!(answer.header("vary"), Some("origin"));
    for path in ["/api/v1/agents", "/api/v1/session", "/api/v1/functions/create", "/metrics", "/"] {
        assert_eq!(preflight(path).await.status, 403, "{path}");
        let answer = with(host.request("GET", path), &[("origin", site)]).await;
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    chat_with(&host, &[("origin", "https://chat.example.com.evil.example")])
        .await
        .refused(403, "is not allowed");
}

#[tokio::test]
async fn a_link_from_another_site_opens_the_page() {
    let host = TestHost::new().start().await;
    let visit = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
        ("accept", "text/html"),
    ];
    assert_eq!(with(host.request("GET", "/"), &visit).await.status, 200);
    let framed =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    with(host.request("GET", "/"), &framed).await.refused(403, "is not allowed to send requests");
}

#[tokio::test]
async fn a_host_answers_only_to_its_configured_names() {
    let keys = "[server]\nkeys = [\"sk\"]\n";
    let any = TestHost::new().config(keys).start().await;
    let key = ("authorization", "Bearer sk");
    assert_eq!(chat_with(&any, &[key, ("host", "chat.example.com")]).await.status, 200);

    let listed = TestHost::new().config(&format!("{keys}hosts = [\"Chat.example.com\", \"[2001:db8::1]\"]"));
    let listed = listed.start().await;
    for name in ["chat.example.com", "CHAT.example.com:8443", "[2001:db8::1]:80", "localhost"] {
        assert_eq!(chat_with(&listed, &[key, ("host", name)]).await.status, 200, "{name}");
    }
    chat_with(&listed, &[key, ("host", "evil.example")]).await.refused(403, "[server] hosts");
    let probe = with(listed.request("GET", "/livez"), &[("host", "10.0.0.7:9099")]).await;
    assert_eq!(probe.body(), "ok\n", "whoever asks whether we live may not know our name");

    for wrong in [
        "hosts = [\"https://a.example\"]",
        "hosts = [\"a:80\"]",
        "origins = [\"a.example\"]",
        "origins = [\"*\"]",
    ] {
        let project = crate::cli::Project::new().with("valvehouse.toml", &format!("[server]\n{wrong}\n"));
        project.run("list").ends(78).stderr_has("such as");
    }
}

#[tokio::test]
async fn contradictory_headers_are_rejected() {
    let host = TestHost::new().config("[server]\nkeys = [\"sk\"]\n").start().await;
    for (name, one, other) in [
        ("authorization", "Bearer sk", "Bearer other"),
        ("x-api-key", "sk", "other"),
        ("origin", "http://localhost", EVIL),
    ] {
        chat_with(&host, &[(name, one), (name, other)]).await.refused(400, "more than once");
    }
    let mut many = host.request("GET", "/livez");
    for number in 0..200 {
        many = many.header(format!("x-{number}"), "1");
    }
    assert_eq!(Answer::of(many).await.status, 431);
    let long = host.request("GET", "/livez").header("x-long", "a".repeat(1 << 20));
    assert!(Answer::tried(long).await.is_err_and(|_| true) || host.get("/livez").await.status == 200);
}

#[tokio::test]
async fn every_route_enforces_the_body_limit() {
    let host = TestHost::new().config("[server]\nmax_body_mb = 1\n").start().await;
    let large = || " ".repeat((1 << 20) + 1);
    let streamed = || {
        let pieces = (0..=16).map(|_| Ok::<_, std::io::Error>(" ".repeat(1 << 16)));
        reqwest::Body::wrap_stream(futures::stream::iter(pieces))
    };
    for path in [
        "/v1/chat/completions",
        "/v1/messages",
        "/api/v1/session",
        "/api/v1/questions/none",
        "/api/v1/agents/prune",
        "/api/v1/agents/conversations/import",
    ] {
        for body in [reqwest::Body::from(large()), streamed()] {
            let answer = Answer::of(host.request("POST", path).body(body)).await;
            assert_eq!(answer.status, 413, "{path}: {}", answer.body());
            assert!(answer.body().contains("max_body_mb"), "{path}: {}", answer.body());
        }
    }
}

#[tokio::test]
async fn path_variants_do_not_bypass_routes() {
    let host = TestHost::new().config("[admin]\nkey = \"sk-op\"\n").start().await;
    for path in [
        "//api/v1/agents",
        "/v1//models",
        "/v1/%2e%2e/api/v1/agents",
        "/api%2fv1%2fagents",
        "/api/v1/agents/",
        "/API/v1/agents",
    ] {
        let url = format!("{}{path}", host.url(""));
        let (address, _) = url.trim_start_matches("http://").split_once('/').unwrap();
        let status = status_of(address, path).await;
        assert!([401, 404].contains(&status), "{path}: {status}");
    }
}

/// Returns the status of a path as given, because HTTP clients normalise paths.
async fn status_of(address: &str, path: &str) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn responses_have_security_headers_and_operator_data_is_not_cached() {
    let host = TestHost::new().start().await;
    for path in ["/", "/livez", "/readyz", "/v1/models", "/api/v1/agents", "/nowhere"] {
        let answer = host.get(path).await;
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        answer.generation();
    }
    assert_eq!(host.get("/api/v1/agents").await.header("cache-control"), Some("no-store"));
    assert_eq!(host.get("/api/v1/session").await.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn too_many_requests_are_refused_with_retry_after() {
    let keys = "[server]\nkeys = [\"sk-ann\", \"sk-bob\"]\nrequests_per_minute = 2\n";
    let host = TestHost::new().config(keys).start().await;
    let ann = ("authorization", "Bearer sk-ann");
    for _ in 0..2 {
        assert_eq!(chat_with(&host, &[ann]).await.status, 200);
    }
    let answer = chat_with(&host, &[ann]).await;
    answer.refused(429, "requests_per_minute");
    assert_eq!(answer.error()["type"], "rate_limit_error");
    assert!((1..=30).contains(&answer.header("retry-after").unwrap().parse::<u64>().unwrap()));
    let messages = host.request("POST", "/v1/messages").body("{}");
    let answer = with(messages, &[ann]).await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (429, &json!("rate_limit_error")));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(with(host.request("GET", "/v1/models"), &[ann]).await.status, 200, "to look costs nothing");
    assert_eq!(chat_with(&host, &[("x-api-key", "sk-bob")]).await.status, 200, "others are not held up");
    assert_eq!(host.upstream.requests().iter().filter(|request| request.path.contains("chat")).count(), 3);

    let host = TestHost::new().config("[server]\nrequests_per_minute = 1\n").start().await;
    assert_eq!(Answer::of(host.posting(chat())).await.status, 200);
    chat_with(&host, &[("x-api-key", "made-up")]).await.refused(429, "requests_per_minute");
}
