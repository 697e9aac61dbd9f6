//! The endpoints of a pipelines server, as Open WebUI calls them.

mod files;
mod hooks;
mod recordings;
mod turns;

use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

/// Appends a mark to each user message and each response.
const MARKS: &str = r#"/*
title: Marks
*/
const Valves = #{ priority: 5, mark: #{ value: "!", description: "Put at the end" }, token: #{ value: "", secret: true } };
fn inlet(body, valves) { body.messages[-1].content += valves.mark; body }
fn outlet(body, valves) { body.messages[-1].content += valves.mark; body }
"#;

/// Sends a request, with or without a key.
async fn call(host: &TestHost, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> Answer {
    let mut request = host.request(method, path);
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    Answer::of(request).await
}

async fn post(host: &TestHost, path: &str, body: &Value) -> Answer {
    call(host, "POST", path, None, Some(body)).await
}

/// Checks that a response is an error in the format of a pipelines server: an object with `detail` only.
fn detail(answer: &Answer, status: u16, text: &str) {
    assert_eq!(answer.status, status, "{}", answer.body());
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    let detail_text = body["detail"].as_str().unwrap();
    assert!(detail_text.contains(text), "{text:?} is not in {detail_text}");
}

#[tokio::test]
async fn filters_are_listed_beside_the_models_with_and_without_v1() {
    let host = TestHost::new()
        .filter("marks", MARKS)
        .filter("only_here", "/*\nglobal: false\n*/\nfn inlet(body) { body }")
        .filter("chosen", "const toggle = true;\nfn inlet(body) { body }")
        .filter("streams", "fn stream(event) { event }")
        .filter("off", "fn inlet(body) { body }")
        .config("[filters.off]\nenabled = false")
        .config("[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"big-1\"\nfilters = [\"only_here\"]")
        .start()
        .await;
    let filter = |id: &str, name: &str, pipelines: Value, priority: i64, valves: bool| {
        json!({
            "id": id, "name": name, "object": "model", "created": 0, "owned_by": "openai",
            "pipeline": {"type": "filter", "pipelines": pipelines, "priority": priority, "valves": valves},
        })
    };
    let plain = host.get("/v1/models").await.json();
    assert!(plain["data"].as_array().unwrap().iter().all(|model| model.get("pipeline").is_none()), "{plain}");
    for path in ["/models", "/v1/models"] {
        let list = Answer::of(host.request("GET", path).header("user-agent", "Python/3.12 aiohttp/3.12"))
            .await
            .json();
        assert_eq!((&list["object"], &list["pipelines"]), (&json!("list"), &json!(true)), "{path}");
        let data = list["data"].as_array().unwrap();
        let filters: Vec<&Value> =
            data.iter().filter(|model| model["pipeline"]["type"] == "filter").collect();
        let expected = [
            filter("marks", "Marks", json!(["*"]), 5, true),
            filter("only_here", "only_here", json!(["assistant"]), 0, false),
        ];
        assert_eq!(filters, expected.iter().collect::<Vec<_>>(), "{path}");
        let models: Vec<&Value> = data.iter().filter(|model| model["pipeline"]["type"] == "pipe").collect();
        let names: Vec<&Value> = models.iter().map(|model| &model["id"]).collect();
        assert_eq!(names, ["demo", "assistant", "mock-1"], "{path}");
        assert_eq!(models[0]["pipeline"], json!({"type": "pipe", "valves": false}));
    }
    for path in ["/pipelines", "/v1/pipelines"] {
        let all = host.get(path).await.json();
        let marks = json!({"id": "marks", "name": "Marks", "type": "filter", "valves": true});
        assert!(all["data"].as_array().unwrap().contains(&marks), "{path}: {all}");
        let ids: Vec<&Value> = all["data"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, ["chosen", "marks", "off", "only_here", "streams"], "{path}");
    }
    assert_eq!(host.get("/v1").await.json(), json!({"status": true}));
    let again = post(&host, "/v1/pipelines/reload", &json!({})).await;
    assert_eq!(again.json(), json!({"message": "Pipelines reloaded successfully."}));
}

#[tokio::test]
async fn filters_can_be_hidden_from_lists_of_models() {
    let host = TestHost::new().filter("marks", MARKS).config("[server]\npipelines = false").start().await;
    for path in ["/models", "/v1/models"] {
        let list = host.get(path).await.json();
        assert!(list.get("pipelines").is_none(), "{list}");
        let data = list["data"].as_array().unwrap();
        assert!(data.iter().all(|model| model.get("pipeline").is_none() && model["id"] != "marks"), "{list}");
    }
}

#[tokio::test]
async fn valves_are_read_and_changed_with_the_api_of_open_webui() {
    let host =
        TestHost::new().filter("marks", MARKS).filter("plain", "fn inlet(body) { body }").start().await;
    let now = host.get("/marks/valves").await.json();
    assert_eq!(now, json!({"priority": 5, "mark": "!", "token": ""}));
    let spec = host.get("/v1/marks/valves/spec").await.json();
    assert_eq!((&spec["type"], &spec["title"]), (&json!("object"), &json!("Valves")));
    assert_eq!(
        spec["properties"]["mark"],
        json!({"title": "Mark", "description": "Put at the end", "type": "string", "default": "!"})
    );
    assert_eq!(spec["properties"]["token"]["input"]["type"], "password");

    // Defaults are sent as null, and text is converted to a number.
    let sent = json!({"priority": "7", "mark": null, "token": "s3cret"});
    let saved = post(&host, "/v1/marks/valves/update", &sent).await;
    assert_eq!(saved.json(), json!({"priority": 7, "mark": "!", "token": "********"}), "{}", saved.body());
    let list = host.get("/models").await.json();
    let marks = list["data"].as_array().unwrap().iter().find(|model| model["id"] == "marks").unwrap();
    assert_eq!(marks["pipeline"]["priority"], 7, "live when the answer is there");

    // An update replaces the stored values; a secret that comes back masked is kept.
    let saved =
        post(&host, "/my.prefix.marks/valves/update", &json!({"mark": "?", "token": "********"})).await;
    assert_eq!(saved.json(), json!({"priority": 5, "mark": "?", "token": "********"}), "{}", saved.body());
    let stored = host.store().valves("marks", None).await.unwrap().to_string();
    assert_eq!(
        serde_json::from_str::<Value>(&stored).unwrap(),
        json!({"mark": "?", "token": "s3cret", "$secret:token": true})
    );

    let refused = post(&host, "/marks/valves/update", &json!({"priority": "high", "mark": "x"})).await;
    detail(&refused, 400, "valve `priority` must be");
    detail(&post(&host, "/marks/valves/update", &json!([])).await, 400, "must be a JSON object");
    assert_eq!(host.get("/marks/valves").await.json()["mark"], "?", "nothing was changed");

    // Open WebUI's page fails on values that are not objects.
    assert_eq!(host.get("/plain/valves").await.json(), json!({}));
    let spec = host.get("/plain/valves/spec").await.json();
    assert_eq!((&spec["type"], &spec["properties"]), (&json!("object"), &json!({})));
    for path in ["/nobody/valves", "/v1/nobody/valves/spec"] {
        detail(&host.get(path).await, 404, "nobody");
    }
    detail(&post(&host, "/nobody/valves/update", &json!({})).await, 404, "nobody");
}

#[tokio::test]
async fn every_pipelines_route_requires_the_key() {
    let host = TestHost::new()
        .filter("marks", MARKS)
        .config("[server]\nkeys = [\"sk-chat\"]\n[admin]\nkey = \"sk-admin\"")
        .start()
        .await;
    let hook =
        json!({"body": {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}, "user": null});
    let valves = json!({"mark": "?"});
    let for_all = [
        ("GET", "/models", None),
        ("POST", "/marks/filter/inlet", Some(&hook)),
        ("POST", "/marks/filter/outlet", Some(&hook)),
    ];
    let for_operators = [
        ("GET", "/pipelines", None),
        ("POST", "/pipelines/reload", None),
        ("GET", "/marks/valves", None),
        ("GET", "/marks/valves/spec", None),
        ("POST", "/marks/valves/update", Some(&valves)),
    ];
    let bare =
        for_all.iter().chain(&for_operators).map(|(method, path, body)| (*method, (*path).to_owned(), *body));
    // `/v1/models` is an OpenAI endpoint and answers in OpenAI's format.
    let prefixed = bare.clone().skip(1).map(|(method, path, body)| (method, format!("/v1{path}"), body));
    for (method, path, body) in bare.chain(prefixed) {
        detail(&call(&host, method, &path, None, body).await, 403, "API key");
        detail(&call(&host, method, &path, Some("sk-wrong"), body).await, 401, "API key");
        let with_key = call(&host, method, &path, Some("sk-chat"), body).await;
        match for_operators.iter().any(|(_, own, _)| path.ends_with(own)) {
            true => detail(&with_key, 403, "operators"),
            false => assert_eq!(with_key.status, 200, "{method} {path}: {}", with_key.body()),
        }
        let by_operator = call(&host, method, &path, Some("sk-admin"), body).await;
        assert_eq!(by_operator.status, 200, "{method} {path}: {}", by_operator.body());
    }
    // Open WebUI uses one key for everything.
    let chat = json!({"model": "demo", "messages": [{"role": "user", "content": "hi"}]});
    for path in ["/chat/completions", "/v1/chat/completions"] {
        let answer = call(&host, "POST", path, Some("sk-admin"), Some(&chat)).await;
        assert!(answer.text().starts_with("You said: hi"), "{}", answer.body());
        assert!(!answer.is_stream());
    }
    assert_eq!(call(&host, "GET", "/v1/models", Some("sk-admin"), None).await.status, 200);
}
