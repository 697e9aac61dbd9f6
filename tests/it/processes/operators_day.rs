//! A day of an operator, with the real binary and without a restart: keys, limits, usage, a guard on trial, a backup under
//! load, and a request found by its id.

use crate::cli::{Project, Server};
use crate::host::{TIMEOUT, client, until};
use crate::upstream::{MODEL, Reply, Upstream};
use serde_json::json;

const GUARD: &str = "/*\nsecurity: true\n*/\n\
    fn inlet(body) { if body.messages[-1].text.contains(\"bad\") { deny(\"guarded\", 403); } }";

/// Sends a chat with a key, and returns its status, the id of its trace and its text.
async fn chat(server: &Server, key: &str, model: &str, text: &str) -> (u16, String, String) {
    let body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
    let request = client().post(format!("{}/v1/chat/completions", server.url())).timeout(TIMEOUT);
    let request = request.bearer_auth(key).header("content-type", "application/json");
    let response = request.body(body.to_string()).send().await.unwrap();
    let id = response.headers().get("x-valvehouse-trace").and_then(|id| id.to_str().ok());
    (response.status().as_u16(), id.unwrap_or_default().to_owned(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_runs_a_team_without_a_restart() {
    let upstream = Upstream::start().await;
    upstream.script(|question| Reply::fitting(question, "here I am"));
    let model = |name: &str| {
        format!(
            "[[models]]\nname = \"{name}\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\nprice = {{ input = 1.0, output = 2.0 }}\n"
        )
    };
    let config = format!(
        "[[providers]]\nname = \"mock\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk\"\n{}{}[server]\nrequire_key = true\n",
        upstream.url(),
        model("fast"),
        model("smart"),
    );
    let project = Project::new().with("valvehouse.toml", &config).filter("guard", GUARD);
    let server = project.serve("");
    let key_of = |out: String| out.lines().next().unwrap().trim().to_owned();

    // A key for one model, live at once, with a limit.
    let words = "key create --name ci --user ann --models fast --requests-per-minute 4";
    let first = key_of(project.run(words).ends(0).out);
    assert_eq!(chat(&server, "vh-nobody", "fast", "hi").await.0, 401);
    until("the key is known", || async { chat(&server, &first, "smart", "hi").await.0 != 401 }).await;
    let (status, _, text) = chat(&server, &first, "smart", "hi").await;
    assert!(status == 404 && text.contains("model_not_found"), "{text}");
    let mut answers = Vec::new();
    for _ in 0..5 {
        answers.push(chat(&server, &first, "fast", "hi").await);
    }
    assert_eq!(answers[0].0, 200, "{}", answers[0].2);
    let (status, _, text) = answers.last().unwrap();
    assert!(*status == 429 && text.contains("rate_limit_exceeded"), "{text}");

    // Its usage, and each request by its id.
    until("the usage is stored", || async {
        let usage = project.run("usage --by key,model --format json").ends(0).out;
        usage.contains("\"ci\"") && usage.contains("\"fast\"")
    })
    .await;
    let id = &answers[0].1;
    let line = server.wait_for_line(id);
    assert!(line.contains("key=ci") && line.contains("user=ann") && line.contains("200"), "{line}");

    // A new secret for the same key; the old one ends at once.
    project.run("key create --name team --models fast,smart").ends(0);
    let team = key_of(project.run("key rotate team").ends(0).out);
    let second = key_of(project.run("key rotate ci").ends(0).out);
    until("the old secret ends", || async { chat(&server, &first, "fast", "hi").await.0 == 401 }).await;
    assert_ne!(chat(&server, &second, "fast", "hi").await.0, 401);

    // A guard on trial: it goes on until the operator confirms.
    until("the team's key is known", || async { chat(&server, &team, "fast", "hi").await.0 == 200 }).await;
    assert_eq!(chat(&server, &team, "smart", "bad").await.0, 403);
    project.write("valvehouse.toml", &format!("{config}[filters.guard]\nmode = \"audit\"\n"));
    until("the change waits", || async {
        let list = project.run("check").out;
        list.contains("audit mode") || server.wait_for_line("").contains("audit mode")
    })
    .await;
    assert_eq!(chat(&server, &team, "smart", "bad").await.0, 403);
    project.run("confirm guard").ends(0);
    until("the guard only observes", || async { chat(&server, &team, "smart", "bad").await.0 == 200 }).await;
    let metrics = client().get(format!("{}/metrics", server.url())).timeout(TIMEOUT).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(metrics.contains("outcome=\"would_refuse\""), "{metrics}");

    // A backup while requests arrive, and a host that starts from it with the same keys.
    let url = server.url();
    let busy = tokio::spawn({
        let team = team.clone();
        async move {
            let body = json!({"model": "fast", "messages": [{"role": "user", "content": "hi"}]}).to_string();
            let request =
                || client().post(format!("{url}/v1/chat/completions")).timeout(TIMEOUT).bearer_auth(&team);
            while request().header("content-type", "application/json").body(body.clone()).send().await.is_ok()
            {
            }
        }
    });
    project.run("store backup day.db").ends(0).prints("keep both");
    project.run("store check").ends(0).prints("the store is sound");
    server.last_words();
    busy.await.unwrap();
    let other = Project::new().with("valvehouse.toml", &config).filter("guard", GUARD);
    for file in ["day.db", "day.key"] {
        std::fs::copy(project.path(file), other.path(file)).unwrap();
    }
    other.run("store restore day.db").ends(0);
    let server = other.serve("");
    assert_eq!(chat(&server, &team, "fast", "hi").await.0, 200);
    assert_eq!(chat(&server, &first, "fast", "hi").await.0, 401);
    project.run("key revoke team").ends(0);
    other.run("usage --by user").ends(0).prints("ann");
}
