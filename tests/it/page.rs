//! The operator page over HTTP, and its data; the tests of user actions are in `browser`.

use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::Reply;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const LIMIT: &str = "/*\ntitle: Limit\n*/\nconst Valves = #{ priority: 5 };\nfn inlet(body) { body }\nfn outlet(body) { body }";
const FIRST: &str = "fn inlet(body) { body }";
/// The maximum size of all files of the page, in bytes.
const MAX_SIZE: usize = 450_000;
const ASKED_FOR: &str = "const toggle = true;\nfn inlet(body) { body }";

async fn page(host: &TestHost, path: &str) -> Answer {
    Answer::of(host.request("GET", path).header("accept", "text/html,*/*;q=0.8")).await
}

#[tokio::test]
async fn browsers_get_a_page_limited_to_this_host_and_other_clients_a_status() {
    let host = TestHost::new().start().await;
    assert_eq!(host.get("/").await.json(), json!({"status": true}));
    let answer = page(&host, "/").await;
    assert!(answer.body().starts_with("<!doctype html>"), "{}", answer.body());
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    let tag = answer.header("etag").unwrap().to_owned();
    let again = host.request("GET", "/").header("accept", "text/html").header("if-none-match", tag);
    assert_eq!(Answer::of(again).await.status, 304);
    page(&host, "/page/none.js").await.refused(404, "none.js");
}

#[tokio::test]
async fn every_file_of_the_page_is_served() {
    let host = TestHost::new().start().await;
    let (mut known, mut open, mut size) = (BTreeSet::new(), vec!["/".to_owned()], 0);
    while let Some(path) = open.pop() {
        let answer = page(&host, &path).await;
        assert_eq!(answer.status, 200, "{path}");
        size += answer.body().len();
        let names = answer.body().split(['"', '\'']).filter(|part| part.starts_with("/page/"));
        open.extend(names.map(str::to_owned).filter(|name| known.insert(name.clone())));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/src/page/files");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let files: BTreeSet<String> = files
        .map(|name| format!("/page/{}", name.to_str().unwrap()))
        .filter(|name| !name.ends_with("/index.html"))
        .collect();
    assert_eq!(known, files, "what is in the folder is used, and nothing else is");
    assert!(size < MAX_SIZE, "the page has {size} bytes, more than {MAX_SIZE}");
}

#[tokio::test]
async fn the_overview_lists_problems_with_position_and_fix() {
    let host = TestHost::new()
        .filter("limit", LIMIT)
        .filter("typo", "fn inlet(body) {\n    let x = ;\n}")
        .filter("reads", "/*\nrequirements: files\n*/\nfn inlet(body) { files::read(\"x\"); }")
        .start()
        .await;
    let overview = host.get("/api/v1/overview").await.json();
    let plugin = |id: &str| {
        let plugins = overview["plugins"].as_array().unwrap();
        plugins.iter().find(|plugin| plugin["id"] == id).unwrap().clone()
    };
    let limit = plugin("limit");
    assert_eq!(
        (&limit["title"], &limit["state"], &limit["priority"], &limit["hooks"], &limit["path"]),
        (
            &json!("Limit"),
            &json!("live"),
            &json!(5.0),
            &json!(["inlet", "outlet"]),
            &json!("filters/limit.rhai")
        )
    );
    assert_eq!((&plugin("typo")["state"], &plugin("reads")["state"]), (&json!("broken"), &json!("held")));
    let problem = |id: &str| {
        let problems = overview["problems"].as_array().unwrap();
        problems.iter().find(|problem| problem["plugin"] == id).unwrap().clone()
    };
    let typo = problem("typo");
    assert_eq!(
        (&typo["place"], &typo["excerpt"]),
        (&json!("filters/typo.rhai:2:13"), &json!("    let x = ;"))
    );
    let reads = problem("reads");
    assert_eq!(
        (&reads["state"], &reads["command"]),
        (&json!("held"), &json!("valvehouse grant reads files=FOLDER"))
    );
}

#[tokio::test]
async fn the_chain_of_a_model_lists_running_order_and_skip_reasons() {
    let host = TestHost::new()
        .filter("limit", LIMIT)
        .filter("first", FIRST)
        .filter("asked_for", ASKED_FOR)
        .start()
        .await;
    let chain = host.get("/api/v1/models/demo/chain").await.json();
    assert_eq!(
        chain["stages"],
        json!([{"hook": "inlet", "filters": ["first", "limit"]}, {"hook": "outlet", "filters": ["limit"]}])
    );
    let decision = |chain: &Value, id: &str| {
        let filters = chain["filters"].as_array().unwrap();
        filters.iter().find(|filter| filter["id"] == id).unwrap()["decision"].clone()
    };
    assert_eq!(decision(&chain, "asked_for"), "not_asked_for");
    let chain = host.get("/api/v1/models/demo/chain?filter_ids=asked_for").await.json();
    assert_eq!(decision(&chain, "asked_for"), "runs");
    // A name may contain a slash.
    assert_eq!(host.get("/api/v1/models/mock%2Fany/chain").await.status, 200);
}

#[tokio::test]
async fn the_overview_lists_the_services_of_models_and_their_health() {
    let models = r#"
[[models]]
name = "fast"
provider = "mock"
model = "mock-1"
fallbacks = ["demo/demo"]
context_length = 9_000
price = { input = 1, output = 2 }
filters = ["late"]
[[models]]
name = "other"
provider = "mock"
model = "mock-2"
"#;
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) { body }";
    let late = "/*\nsecurity: true\nglobal: false\n*/\nfn inlet(body) { body }";
    let host = TestHost::new()
        .provider("breaker = { failure_threshold = 1, cool_down_ms = 60_000 }")
        .config(models)
        .filter("guard", guard)
        .filter("late", late)
        .filter("plain", FIRST)
        .start()
        .await;
    let of = async |list: &str, key: &str, name: &str| {
        let overview = host.get("/api/v1/overview").await.json();
        overview[list].as_array().unwrap().iter().find(|one| one[key] == name).cloned().unwrap()
    };
    let fast = of("models", "id", "fast").await;
    assert_eq!(
        fast["answered_by"],
        json!([{"provider": "mock", "model": "mock-1"}, {"provider": "demo", "model": "demo"}])
    );
    assert_eq!((&fast["price"]["output"], &fast["context_length"]), (&json!(2), &json!(9_000)));
    assert_eq!((&fast["guards"], &fast["refused"]), (&json!(["guard", "late"]), &Value::Null));
    let mock = of("providers", "name", "mock").await;
    let port = host.upstream.url().split(':').nth(2).unwrap().split('/').next().unwrap().to_owned();
    assert_eq!(
        (&mock["kind"], &mock["addresses"]),
        (&json!("openai"), &json!([format!("127.0.0.1:{port}")]))
    );
    assert_eq!((&mock["breakers"], &mock["last_failure"]), (&json!([]), &Value::Null));
    host.upstream.reply(Reply::json(&json!({"error": {"message": "out of order"}})).status(500));
    for model in ["other", "mock-1"] {
        assert_eq!(host.chat(&chat_body(model, "hi")).await.status, 500);
    }
    // Each model has a breaker of its own.
    let mock = of("providers", "name", "mock").await;
    let problems = host.get("/api/v1/overview").await.json()["problems"].to_string();
    assert_eq!(mock["breakers"].as_array().unwrap().len(), 2, "{mock}");
    for (place, model) in ["mock-1", "mock-2"].into_iter().enumerate() {
        let breaker = &mock["breakers"][place];
        assert!(breaker["cause"].as_str().unwrap().starts_with(&format!("model {model}: ")), "{mock}");
        assert!((1..=60).contains(&breaker["next_try_s"].as_u64().unwrap()), "{mock}");
        assert!(problems.contains(&format!("last failure: model {model}: ")), "{problems}");
    }
    assert!(
        mock["last_failure"]["message"].as_str().unwrap().ends_with("answered 500: out of order"),
        "{mock}"
    );
    host.delete("late");
    host.stands("late", "missing").await;
    let refused = of("models", "id", "fast").await["refused"].clone();
    let ready = host.get("/readyz").await.json();
    assert_eq!(refused, ready["reason"]);
    assert!(refused.as_str().unwrap().contains("`fast`"), "{refused}");
    assert_eq!(of("models", "id", "demo").await["refused"], Value::Null);
}

#[tokio::test]
async fn the_page_is_public_and_its_data_is_for_operators() {
    let host = TestHost::new().config("[admin]\nkey = \"sesame\"").start().await;
    assert_eq!(page(&host, "/").await.status, 200);
    for path in ["/api/v1/overview", "/api/v1/models/demo/chain"] {
        host.get(path).await.refused(401, "[admin]");
        let with_key = host.request("GET", path).header("authorization", "Bearer sesame");
        assert_eq!(Answer::of(with_key).await.status, 200);
    }
}

#[tokio::test]
async fn the_settings_have_their_origin_and_wait_for_a_restart_if_they_need_one() {
    let mut host =
        TestHost::new().config("[admin]\nkey = \"a secret\"\n[server]\nmax_body_mb = 9\n").start().await;
    let toml = host.settings().replace("max_body_mb = 9", "max_body_mb = 8");
    host.reconfigure(&format!("{toml}\n[breaker]\nfailure_threshold = 7\n")).await;
    let answer = Answer::of(host.request("GET", "/api/v1/settings").bearer_auth("a secret")).await;
    assert!(!answer.body().contains("a secret"), "{}", answer.body());
    let all = answer.json();
    let setting =
        |key: &str| all["data"].as_array().unwrap().iter().find(|one| one["key"] == key).cloned().unwrap();
    let size = setting("server.max_body_mb");
    assert_eq!(
        (&size["value"], &size["next"], &size["restart"]),
        (&json!("9"), &json!("8"), &json!(true)),
        "{size}"
    );
    let threshold = setting("breaker.failure_threshold");
    assert_eq!(
        (&threshold["value"], &threshold["next"], &threshold["origin"]),
        (&json!("7"), &Value::Null, &json!("file"))
    );
    assert!(threshold["place"].as_str().unwrap().starts_with("valvehouse.toml:"), "{threshold}");
    let timeout = setting("server.body_timeout_ms");
    assert_eq!((&timeout["origin"], &timeout["place"]), (&json!("default"), &Value::Null));
}
