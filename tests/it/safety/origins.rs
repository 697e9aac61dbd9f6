//! The rights of the page's origin: every route with every combination of the headers by which a browser names
//! the sender of a request. The same attacks in a real browser are in `browser`.

use super::with;
use crate::host::{Answer, TestHost};
use crate::upstream::{MODEL, Reply};
use futures::StreamExt as _;
use serde_json::{Value, json};

const EVIL: &str = "https://evil.example";

/// The values of `Sec-Fetch-Site`.
const SITES: [Option<&str>; 5] =
    [None, Some("same-origin"), Some("same-site"), Some("cross-site"), Some("none")];
/// The values of `Sec-Fetch-Mode` and `Sec-Fetch-Dest`.
const MODES: [Option<(&str, &str)>; 6] = [
    None,
    Some(("navigate", "document")),
    Some(("navigate", "iframe")),
    Some(("cors", "empty")),
    Some(("no-cors", "script")),
    Some(("websocket", "websocket")),
];

/// The sender of a request, as the browser names it.
#[derive(Debug, Clone)]
struct Sender {
    site: Option<&'static str>,
    mode: Option<(&'static str, &'static str)>,
    origin: Option<String>,
}

impl Sender {
    /// Returns every combination of the headers for a host.
    fn all(host: &TestHost) -> Vec<Self> {
        let origins = [None, Some(host.url("")), Some("null".to_owned()), Some(EVIL.to_owned())];
        let sites = SITES.into_iter().flat_map(|site| MODES.map(|mode| (site, mode)));
        let both = sites.flat_map(|(site, mode)| origins.clone().map(|origin| Self { site, mode, origin }));
        both.collect()
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = Vec::new();
        headers.extend(self.site.map(|site| ("sec-fetch-site", site)));
        headers.extend(
            self.mode
                .into_iter()
                .flat_map(|(mode, dest)| [("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]),
        );
        headers.extend(self.origin.as_deref().map(|origin| ("origin", origin)));
        headers
    }

    fn has_own_origin(&self, host: &TestHost) -> bool {
        self.origin.as_ref().is_none_or(|origin| *origin == host.url(""))
    }

    /// Returns `true` if the sender may reach a route.
    fn may_reach(&self, host: &TestHost, method: &str, path: &str) -> bool {
        let is_visit = method == "GET"
            && (path == "/" || path.starts_with("/page/"))
            && self.mode == Some(("navigate", "document"));
        match self.site {
            Some("same-origin") => true,
            Some("same-site" | "cross-site") => is_visit && self.has_own_origin(host),
            _ => self.has_own_origin(host),
        }
    }

    /// Returns `true` if the sender is the page that this host has served.
    fn is_our_page(&self, host: &TestHost, method: &str) -> bool {
        match self.site {
            Some("same-origin") => self.origin.as_deref() != Some("null"),
            Some(_) => false,
            None if method == "GET" => self.has_own_origin(host),
            None => self.origin.is_some() && self.has_own_origin(host),
        }
    }
}

/// Returns the method and an example of the path of every route.
pub(super) async fn routes(host: &TestHost) -> Vec<(String, String)> {
    let described = host.get("/openapi.json").await.json();
    let mut routes = vec![("GET".to_owned(), "/nowhere".to_owned())];
    for (path, operations) in described["paths"].as_object().unwrap() {
        let methods = operations.as_object().unwrap().keys().filter(|name| *name != "parameters");
        for method in methods.map(|method| method.to_uppercase()) {
            let parts = path.split('/').map(|part| match part {
                "{rest}" => rest(&method, path),
                "{model}" => MODEL,
                "{name}" => "main.js",
                part if part.starts_with('{') => "x",
                part => part,
            });
            let path = parts.collect::<Vec<_>>().join("/");
            routes.push((method, path));
        }
    }
    routes
}

/// Returns the rest of the path of a known route that is passed through.
fn rest(method: &str, path: &str) -> &'static str {
    match (method, path) {
        (_, "/v1/audio/{rest}") => "speech",
        (_, "/v1/images/{rest}") => "generations",
        (_, "/openai/deployments/{model}/{rest}") => "embeddings",
        ("GET", "/v1/files/{rest}") => "x/content",
        ("GET", "/v1/messages/batches/{rest}") => "x/results",
        ("POST", "/v1/batches/{rest}" | "/v1/messages/batches/{rest}") => "x/cancel",
        _ => "x",
    }
}

/// Returns the reason why a response could act with the rights of the page.
fn acts(answer: &reqwest::Response, is_of_page: bool) -> Option<String> {
    let text = |name: &str| answer.headers().get(name).map_or("", |value| value.to_str().unwrap());
    if text("x-content-type-options") != "nosniff" {
        return Some("it has no `nosniff`".to_owned());
    }
    let policy = text("content-security-policy");
    let is_sandboxed = policy.starts_with("sandbox;") && policy.ends_with("default-src 'none'");
    let kind = text("content-type").split(';').next().unwrap();
    let is_shown = ["application/json", "text/plain", "text/event-stream", ""].contains(&kind);
    match kind {
        _ if is_sandboxed && (is_shown || text("content-disposition").starts_with("attachment")) => None,
        _ if is_of_page && policy.starts_with("default-src 'none'; script-src 'self'") => None,
        // These are written by the host and not by a service.
        _ if policy.is_empty() && is_shown => None,
        kind => Some(format!("it is {kind} with the policy {policy:?}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_site_reaches_a_route_and_no_answer_of_a_service_has_the_rights_of_the_page() {
    let host = TestHost::new().start().await;
    host.upstream.reply(Reply::raw("text/html", "<script>alert(1)</script>"));
    let routes = routes(&host).await;
    assert!(routes.len() > 100, "{}", routes.len());
    let passed: Vec<_> = routes.iter().filter(|(_, path)| path.starts_with("/v1/files")).collect();
    assert!(passed.len() >= 4, "{routes:?}");
    let senders = Sender::all(&host);
    let all = routes.iter().flat_map(|route| senders.iter().map(move |sender| (route, sender)));
    let wrong: Vec<String> = futures::stream::iter(valvehouse_testkit::sampled(all, 7))
        .map(async |((method, path), sender)| {
            let request = host.request(method, path).header("accept", "text/html, application/json");
            let request =
                sender.headers().iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let request = if method == "GET" { request } else { request.body("{}") };
            let answer = request.send().await.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
            let acts = acts(&answer, path == "/" || path.starts_with("/page/"));
            let is_refused = answer.status() == 403
                && answer.text().await.unwrap().contains("is not allowed to send requests to this host");
            let reached = (is_refused == sender.may_reach(&host, method, path))
                .then(|| format!("it is{} refused", if is_refused { "" } else { " not" }));
            let wrong = acts.or(reached)?;
            Some(format!("{method} {path} from {sender:?}: {wrong}"))
        })
        .buffer_unordered(8)
        .filter_map(async |wrong| wrong)
        .collect()
        .await;
    let tries = routes.len() * senders.len();
    eprintln!("{} routes, {tries} requests", routes.len());
    assert!(wrong.is_empty(), "{} of {tries}: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

#[tokio::test]
async fn the_token_of_a_session_serves_only_the_page() {
    let host = TestHost::new().config("[admin]\nkey = \"sk-operator\"\n").start().await;
    let body = json!({"key": "sk-operator"}).to_string();
    let signed = Answer::of(host.request("POST", "/api/v1/session").body(body)).await;
    let cookie = signed.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let csrf = signed.json()["csrf"].as_str().unwrap().to_owned();
    for sender in Sender::all(&host) {
        let ask = async |method: &str, path: &str| {
            let own = [("cookie", cookie.as_str()), ("x-valvehouse-csrf", csrf.as_str())];
            let headers: Vec<_> = sender.headers().into_iter().chain(own).collect();
            with(host.request(method, path), &headers).await
        };
        let session = ask("GET", "/api/v1/session").await;
        let shown = if session.status == 200 { session.json()["csrf"].clone() } else { Value::Null };
        let may_see = sender.may_reach(&host, "GET", "/api/v1/session") && sender.is_our_page(&host, "GET");
        assert_eq!(shown == json!(csrf), may_see, "{sender:?}: {}", session.body());
        let changed = ask("POST", "/api/v1/agents/prune").await;
        let may_change = sender.is_our_page(&host, "POST");
        assert_eq!(![401, 403].contains(&changed.status), may_change, "{sender:?}: {}", changed.body());
        if !may_change {
            assert_eq!(ask("DELETE", "/api/v1/session").await.status, 403, "{sender:?}");
        }
    }
}

#[tokio::test]
async fn passed_through_content_is_sandboxed_whatever_its_service_says() {
    let host = TestHost::new().start().await;
    for kind in ["text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "text/javascript", "x"] {
        host.upstream.reply(
            Reply::raw(kind, "<html xmlns=\"http://www.w3.org/1999/xhtml\"/>")
                .header("content-security-policy", "default-src *")
                .header("x-content-type-options", "sniff")
                .header("content-disposition", "inline")
                .header("access-control-allow-origin", "*"),
        );
        for path in ["/v1/files", "/v1/files/x/content", "/v1/batches", "/v1/batches/x"] {
            let answer = host.get(path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body());
            assert_eq!(answer.header("content-security-policy"), Some("sandbox; default-src 'none'"));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("content-disposition"), Some("attachment"), "{path} {kind}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}
