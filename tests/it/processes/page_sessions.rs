//! Operators at the page of several hosts on one database, behind a load balancer that sends each request to
//! any of them.

use super::serve::{Project, Server};
use crate::host::{TIMEOUT, client, until};
use crate::upstream::Upstream;
use serde_json::{Value, json};
use valvehouse_testkit::postgres::Postgres;

/// An operator route that reads.
const LOOKS: &str = "/api/v1/agents";
/// An operator route that writes.
const CHANGES: &str = "/api/v1/agents/prune";
/// The name of the load balancer for browsers.
const NAME: &str = "valves.internal";

fn project(upstream: &Upstream, url: &str) -> Project {
    let project = Project::new(&upstream.url());
    project.configure(&format!(
        "[server]\nhosts = [\"{NAME}\"]\n[admin]\nkey = \"sk-operator\"\n\
         [store]\nurl = \"{url}\"\nkey = \"the same key on every host of this test\"\n"
    ));
    project
}

/// A browser with its session cookie and CSRF token.
#[derive(Default)]
struct Browser {
    cookie: String,
    csrf: String,
}

impl Browser {
    async fn asks(&mut self, server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = client().request(method, format!("{}{path}", server.url())).timeout(TIMEOUT);
        let headers =
            [("host", NAME), ("origin", "http://valves.internal"), ("sec-fetch-site", "same-origin")];
        let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let request = request.header("cookie", &self.cookie).header("x-valvehouse-csrf", &self.csrf);
        let response =
            request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        let status = response.status().as_u16();
        if let Some(cookie) = response.headers().get("set-cookie") {
            self.cookie = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
        }
        let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default();
        if let Some(csrf) = answer["csrf"].as_str() {
            self.csrf = csrf.to_owned();
        }
        (status, answer)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_session_is_valid_at_all_hosts_until_sign_out() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let url = database.database();
    let projects = [0; 3].map(|_| project(&upstream, &url));
    let mut servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    let mut ann = Browser::default();
    let (status, answer) =
        ann.asks(&servers[0], "POST", "/api/v1/session", &json!({"key": "sk-operator", "by": "Ann"})).await;
    assert_eq!((status, &answer["by"]), (200, &json!("admin (Ann)")), "{answer}");
    for server in &servers {
        let (status, session) = ann.asks(server, "GET", "/api/v1/session", &Value::Null).await;
        assert_eq!((status, &session), (200, &answer), "each host gives the same token");
        assert_eq!(ann.asks(server, "GET", LOOKS, &Value::Null).await.0, 200);
        let (status, changed) = ann.asks(server, "POST", CHANGES, &json!({})).await;
        assert!(![401, 403].contains(&status), "{status} {changed}");
        let mut forged = Browser { csrf: "guessed".into(), cookie: ann.cookie.clone() };
        assert_eq!(forged.asks(server, "POST", CHANGES, &json!({})).await.0, 403);
    }
    // A host that starts later accepts the session, too.
    servers[1].kill();
    servers[1] = projects[1].serve().await;
    assert_eq!(ann.asks(&servers[1], "GET", LOOKS, &Value::Null).await.0, 200);

    let stolen = Browser { cookie: ann.cookie.clone(), csrf: ann.csrf.clone() };
    assert_eq!(ann.asks(&servers[2], "DELETE", "/api/v1/session", &Value::Null).await.0, 200);
    let mut stolen = stolen;
    assert_eq!(stolen.asks(&servers[2], "GET", LOOKS, &Value::Null).await.0, 401);
    for server in &servers {
        until("the session is over", async || {
            let mut thief = Browser { cookie: stolen.cookie.clone(), csrf: stolen.csrf.clone() };
            thief.asks(server, "GET", LOOKS, &Value::Null).await.0 == 401
        })
        .await;
    }
    servers[0].kill();
    servers[0] = projects[0].serve().await;
    assert_eq!(stolen.asks(&servers[0], "GET", LOOKS, &Value::Null).await.0, 401, "nor later");
}
