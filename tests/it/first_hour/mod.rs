//! Twelve scripts as a new author writes them from the guide alone, run together by the real binary with a canned
//! service.

use crate::cli::{Project, Server};
use crate::host::{Answer, client, streaming};
use crate::upstream::{Reply, Upstream, UpstreamRequest, chunk};
use serde_json::{Value, json};
use std::path::Path;

/// The settings of the project; `URL` is the address of the canned service, `HOST` its host and port.
const SETTINGS: &str = r#"
[[providers]]
name = "service"
kind = "openai"
base_url = "URL/v1"

[[models]]
name = "writer"
provider = "service"
tools = ["exchange_rate", "shipping"]

[[models]]
name = "german"
provider = "service"
filters = ["translator"]

[[models]]
name = "helper"
provider = "service"

[[models]]
name = "desk"
provider = "pipes"
model = "front_desk"
tools = ["tag:shop"]

[tools.exchange_rate]
valves = { url = "URL" }

[filters.proxy]
valves = { base_url = "URL/v1" }

[filters.daily_report]
valves = { webhook = "URL/report" }

[grants.exchange_rate]
http = ["HOST"]

[grants.proxy]
http = ["HOST"]

[grants.daily_report]
http = ["HOST"]
"#;

/// Answers as a model, as the service of rates and as the webhook.
fn service(request: &UpstreamRequest) -> Reply {
    if request.path.starts_with("/latest") {
        return Reply::json(&json!({"rates": {"USD": 1.1, "CHF": 0.9}}));
    }
    if request.path == "/report" {
        return Reply::json(&json!({}));
    }
    let (body, text) = (request.json(), request.last_text());
    let first = body["messages"][0]["content"].as_str().unwrap_or_default();
    if let Some((name, arguments)) = text.strip_prefix("call ").and_then(|call| call.split_once(' ')) {
        let call = json!({"index": 0, "id": "t1", "type": "function", "function": {"name": name, "arguments": arguments}});
        let calls = chunk(&json!({"role": "assistant", "tool_calls": [call]}), None);
        let end = chunk(&json!({}), Some("tool_calls"));
        return Reply::raw("text/event-stream", format!("{calls}{end}data: [DONE]\n\n"));
    }
    let answer = match (first.strip_prefix("Translate to "), text.strip_prefix("say ")) {
        (Some(language), _) => format!("{}: {text}", language.split('.').next().unwrap()),
        (_, Some(said)) => said.to_owned(),
        _ => format!("You said: {text}"),
    };
    Reply::fitting(request, &answer)
}

struct Live {
    project: Project,
    server: Server,
    upstream: Upstream,
}

impl Live {
    async fn start() -> Self {
        let upstream = Upstream::start().await;
        upstream.script(service);
        let url = upstream.url().trim_end_matches("/v1").to_owned();
        let host = url.trim_start_matches("http://");
        let project =
            Project::new().with("valvehouse.toml", &SETTINGS.replace("URL", &url).replace("HOST", host));
        for folder in ["filters", "tools", "actions"] {
            let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/first_hour").join(folder);
            for script in std::fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap()) {
                let name = format!("{folder}/{}", script.file_name().display());
                project.write(&name, &std::fs::read_to_string(script.path()).unwrap());
            }
        }
        project.run("check --strict").ends(0).prints("checked 12 files, 0 problems");
        let server = project.serve("");
        Self { project, server, upstream }
    }

    /// Sends a message, streamed; each user has a limit of their own.
    async fn ask(&self, model: &str, user: &str, text: &str) -> Answer {
        let mut body = streaming(model, text);
        body["user"] = user.into();
        let url = format!("{}/v1/chat/completions", self.server.url());
        Answer::of(client().post(url).body(body.to_string())).await
    }

    /// Presses a button and answers its question. Returns the result.
    async fn press(&self, button: &str, text: &str, answer: &Value) -> Value {
        let body = json!({"model": "writer", "stream": true, "id": "m2", "messages": [
            {"role": "user", "content": "hi"}, {"id": "m2", "role": "assistant", "content": text},
        ]});
        let url = format!("{}/api/chat/actions/{button}", self.server.url());
        let mut response = client().post(url).body(body.to_string()).send().await.unwrap();
        let (mut read, mut answered) = (String::new(), false);
        while let Some(bytes) = response.chunk().await.unwrap() {
            read.push_str(std::str::from_utf8(&bytes).unwrap());
            let events = read
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
            let events: Vec<Value> = events.collect();
            if let Some(result) = events.iter().find(|event| event["result"].is_object()) {
                return result["result"]["content"].clone();
            }
            let question = events.iter().find_map(|event| event["event"]["id"].as_str());
            if let Some(id) = question.filter(|_| !std::mem::replace(&mut answered, true)) {
                let url = format!("{}/api/v1/questions/{id}", self.server.url());
                assert!(
                    client().post(url).body(answer.to_string()).send().await.unwrap().status().is_success()
                );
            }
        }
        panic!("the press has no result: {read}");
    }

    /// Returns the requests of the service at this path.
    fn requests(&self, path: &str) -> Vec<Value> {
        self.upstream
            .requests()
            .iter()
            .filter(|request| request.path == path)
            .map(UpstreamRequest::json)
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twelve_scripts_of_a_first_hour_are_live_at_their_first_save() {
    let live = Live::start().await;
    let hello = live
        .ask("writer", "pii", "say Write to ann@example.com or pay with 4111 1111 1111 1111, please.")
        .await
        .text();
    assert!(hello.starts_with("Write to [email] or pay with [card], please."), "pii_mask: {hello}");
    let sent = live.requests("/v1/chat/completions").remove(0).to_string();
    assert!(sent.contains("[card]") && !sent.contains("4111"), "pii_mask: {sent}");
    let letters = hello.lines().find(|line| line.contains("letters in"));
    assert!(letters.is_some_and(|line| line.starts_with("[44 letters in ")), "stream_counter: {hello}");
    let footer = hello.lines().last().unwrap();
    assert!(footer.starts_with("_writer, ") && footer.contains(" words, "), "footer: {hello}");

    live.ask("writer", "words", "What the heck?")
        .await
        .refused(400, "The word \"heck\" is not allowed here.");
    let replaced = live.ask("writer", "words", "hello").await;
    assert!(replaced.text().starts_with("You said: hello"), "word_filter: {}", replaced.body());

    for _ in 0..3 {
        assert_eq!(live.ask("writer", "often", "hello").await.status, 200, "rate_limiter");
    }
    let refused = live.ask("writer", "often", "hello").await;
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (429, true), "rate_limiter");

    let german = live.ask("german", "hans", "Guten Tag").await.text();
    assert!(german.starts_with("German: You said: English: Guten Tag\n"), "translator: {german}");

    let rate = live
        .ask("writer", "trader", r#"call exchange_rate {"amount": 10, "from": "EUR", "to": "USD"}"#)
        .await;
    assert!(
        rate.text().contains(r#"You said: {"amount":"11.00","currency":"USD","rate":1.1}"#),
        "exchange_rate: {}",
        rate.text()
    );
    let price = live.ask("writer", "trader", r#"call shipping {"kilos": 2, "order_value": 20}"#).await;
    assert!(price.text().starts_with("You said: 5.00 EUR"), "shipping: {}", price.text());

    let proxied = live.ask("proxy.small", "proxied", "hello").await.text();
    assert!(proxied.starts_with("You said: hello"), "proxy: {proxied}");
    assert_eq!(live.requests("/v1/chat/completions").last().unwrap()["model"], "small", "proxy");
    let desk = live.ask("desk", "customer", "a parcel of 3.5 kilos").await.text();
    assert!(desk.starts_with("The desk says: 8.75 EUR"), "front_desk: {desk}");

    let short = live.press("shorten", "One. Two. Three.", &json!("2")).await;
    assert_eq!(short, "You said: Shorten to 2 sentences:\nOne. Two. Three.", "shorten");

    live.project.run("run tick daily_report --live").ends(0);
    // The host's own first tick may have reported it already.
    let reports = live.requests("/report");
    let counted: i64 = reports.iter().filter_map(|report| report["counts"]["proxy.small"].as_i64()).sum();
    assert_eq!(counted, 1, "daily_report: {reports:?}");
}
