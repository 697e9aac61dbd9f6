//! The routes of Ollama's and Azure's clients, and lists of models.

use crate::host::{Answer, TestHost, until};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

const REDACT: &str = "/*\nsecurity: true\n*/\nconst endpoints = [\"chat\", \"embeddings\"];\n\
    fn inlet(body) { for message in body.messages { if message.text == \"bad\" { deny(\"guarded\", 403); } \
    message.text = text::replace(message.text, \"secret\", \"***\"); } body }";

async fn post(host: &TestHost, path: &str, body: &Value) -> Answer {
    Answer::of(host.request("POST", path).header("content-type", "application/json").body(body.to_string()))
        .await
}

/// Lets the service return one vector for each input, in reverse order.
fn embeds(host: &TestHost) {
    host.upstream.script(|request| {
        let input = request.json()["input"].clone();
        let count = input.as_array().map_or(1, Vec::len);
        let one = |at: usize| json!({"object": "embedding", "index": at, "embedding": [at, 0.5]});
        let data: Vec<Value> = (0..count).rev().map(one).collect();
        Reply::json(&json!({"object": "list", "data": data, "usage": {"prompt_tokens": 7}}))
    });
}

#[tokio::test]
async fn ollama_clients_get_embeddings_through_the_filters_of_embeddings() {
    let host = TestHost::new().filter("redact", REDACT).start().await;
    embeds(&host);
    let embed = json!({"model": MODEL, "input": ["a secret", "b"], "truncate": true, "keep_alive": "5m"});
    let answer = post(&host, "/api/embed", &embed).await;
    let body = answer.json();
    assert_eq!(body["embeddings"], json!([[0, 0.5], [1, 0.5]]), "{}", answer.body());
    assert_eq!((&body["model"], &body["prompt_eval_count"]), (&json!(MODEL), &json!(7)));
    let sent = host.upstream.last();
    assert_eq!(sent.path, "/v1/embeddings");
    let expected = json!({"model": MODEL, "input": ["a ***", "b"], "encoding_format": "float"});
    assert_eq!(sent.json(), expected);
    let older = post(&host, "/api/embeddings", &json!({"model": MODEL, "prompt": "the secret"})).await;
    assert_eq!(older.json(), json!({"embedding": [0, 0.5]}));
    assert_eq!(host.upstream.last().json()["input"], "the ***");
    let nothing = post(&host, "/api/embed", &json!({"model": MODEL, "input": []})).await;
    assert_eq!(nothing.json()["embeddings"], json!([]));
    let asked = host.upstream.requests().len();
    for (path, body, status, text) in [
        ("/api/embed", json!({"model": MODEL, "input": "bad"}), 403, "guarded"),
        ("/api/embeddings", json!({"model": MODEL, "prompt": "bad"}), 403, "guarded"),
        ("/api/embed", json!({"model": MODEL, "input": [[1, 2]]}), 400, "invalid `input`"),
        ("/api/embeddings", json!({"model": MODEL, "prompt": ["a"]}), 400, "invalid `prompt`"),
        ("/api/embed", json!({"input": "a"}), 400, "missing `model`"),
    ] {
        let answer = post(&host, path, &body).await;
        let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(
            answer.status == status && error.contains(text),
            "{body}: {} {}",
            answer.status,
            answer.body()
        );
    }
    assert_eq!(host.upstream.requests().len(), asked);
}

#[tokio::test]
async fn errors_of_ollamas_routes_are_texts() {
    let host = TestHost::new().config("[server]\nkeys = [\"k\"]").start().await;
    let cases = [
        ("GET", "/api/tags", 401),
        ("GET", "/api/ps", 401),
        ("POST", "/api/show", 401),
        ("POST", "/api/embed", 401),
        ("POST", "/api/chat", 401),
        ("POST", "/api/pull", 404),
        ("GET", "/api/blobs/sha256:1", 404),
        ("GET", "/api/chat", 405),
    ];
    for (method, path, status) in cases {
        let answer = Answer::of(host.request(method, path).body("{}")).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body());
        assert!(answer.json()["error"].is_string(), "{method} {path}: {}", answer.body());
    }
    // The operators' routes keep their form.
    assert!(host.get("/api/v1/none").await.json()["error"].is_object());
    host.upstream.reply(Reply::json(&json!({"error": {"message": "too long", "type": "x"}})).status(400));
    let raw = host.request("POST", "/api/generate").bearer_auth("k");
    let raw =
        Answer::of(raw.body(json!({"model": MODEL, "prompt": "<|fim_prefix|>", "raw": true}).to_string()))
            .await;
    assert!(raw.status == 400 && raw.body().contains("/v1/completions"), "{}", raw.body());
    let refused = host.request("POST", "/api/embed").bearer_auth("k");
    let refused = Answer::of(refused.body(json!({"model": MODEL, "input": "a"}).to_string())).await;
    assert_eq!((refused.status, refused.json()), (400, json!({"error": "too long"})));
}

#[tokio::test]
async fn ollama_clients_see_what_a_model_can_do() {
    let seer = "[[models]]\nname = \"seer\"\nprovider = \"mock\"\nmodel = \"m\"\nabilities = [\"vision\", \"tools\"]\n\
                context_length = 131072";
    let host = TestHost::new().config(seer).start().await;
    let shown = post(&host, "/api/show", &json!({"model": "seer"})).await.json();
    assert_eq!(shown["capabilities"], json!(["completion", "tools", "vision"]));
    let info = &shown["model_info"];
    let architecture = info["general.architecture"].as_str().unwrap();
    assert_eq!(info[format!("{architecture}.context_length")], 131_072);
    assert_eq!(info["general.basename"], "seer");
    let older = post(&host, "/api/show", &json!({"name": MODEL})).await.json();
    assert_eq!(older["capabilities"], json!(["completion", "tools"]));
    let unnamed = post(&host, "/api/show", &json!({})).await;
    assert!(unnamed.status == 400 && unnamed.json()["error"].is_string(), "{}", unnamed.body());
    assert_eq!(host.get("/api/ps").await.json(), json!({"models": []}));
    let version = host.get("/api/version").await.json();
    let numbers: Vec<u32> =
        version["version"].as_str().unwrap().split('.').map(|part| part.parse().unwrap()).collect();
    assert!(numbers >= vec![0, 6, 4], "{version}");
}

#[tokio::test]
async fn azure_clients_have_every_route_with_its_guards() {
    let host = TestHost::new().filter("redact", REDACT).start().await;
    let chat = json!({"model": MODEL, "messages": [{"role": "user", "content": "a secret"}]});
    let response = json!({"model": MODEL, "input": "a secret", "store": false});
    for (path, body) in [
        ("/openai/v1/chat/completions", &chat),
        ("/openai/v1/responses?api-version=preview", &response),
        ("/openai/responses?api-version=2025-03-01-preview", &response),
    ] {
        let answer = post(&host, path, body).await;
        assert!(
            answer.status == 200 && answer.body().contains("hello from upstream"),
            "{path}: {}",
            answer.body()
        );
        assert_eq!(host.upstream.last().last_text(), "a ***", "{path}");
        let bad: Value = serde_json::from_str(&body.to_string().replace("a secret", "bad")).unwrap();
        post(&host, path, &bad).await.refused(403, "guarded");
    }
    embeds(&host);
    let embed = json!({"model": MODEL, "input": "a secret"});
    assert_eq!(post(&host, "/openai/v1/embeddings?api-version=1", &embed).await.status, 200);
    let sent = host.upstream.last();
    assert_eq!((sent.path.as_str(), &sent.json()["input"]), ("/v1/embeddings", &json!("a ***")));
    for path in ["/openai/models?api-version=2024-10-21", "/openai/v1/models"] {
        assert!(host.get(path).await.body().contains("\"demo\""), "{path}");
    }
    host.get("/openai/v1/none").await.refused(404, "unknown route GET /v1/none");
}

#[tokio::test]
async fn a_list_of_models_does_not_wait_for_a_service_that_hangs() {
    // A service that accepts connections and does not answer.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = format!(
        "[[providers]]\nname = \"slow\"\nkind = \"openai\"\nbase_url = \"http://{}/v1\"\napi_key = \"k\"\nmodels = \"*\"",
        silent.local_addr().unwrap()
    );
    let host = TestHost::new().config(&slow).start().await;
    let ids = async |path: &str| -> Vec<String> {
        let body = host.get(path).await.json();
        body["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(!ids("/v1/models").await.contains(&"late".to_owned()));
    let (mut socket, _) = silent.accept().await.unwrap();
    let list = json!({"object": "list", "data": [{"id": "late", "object": "model"}]}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        list.len()
    );
    socket.write_all(format!("{head}{list}").as_bytes()).await.unwrap();
    until("the late list is used", async || ids("/v1/models").await.contains(&"late".to_owned())).await;
    let codex = host.get("/v1/models?client_version=0.171.0").await.json();
    assert_eq!(codex["models"], json!([]));
    assert!(codex["data"].is_array() && host.get("/v1/models").await.json().get("models").is_none());
    let of_anthropic = async |query: &str| {
        let request = host.request("GET", &format!("/v1/models?{query}"));
        Answer::of(request.header("anthropic-version", "2023-06-01")).await
    };
    let first = of_anthropic("limit=1").await.json();
    assert_eq!((&first["has_more"], &first["data"][0]["id"]), (&json!(true), &json!("demo")));
    let next = of_anthropic("limit=1000&after_id=demo").await.json();
    let rest: Vec<&Value> = next["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!((&next["has_more"], rest), (&json!(false), vec![&json!(MODEL), &json!("late")]));
    let wrong = of_anthropic("after_id=nobody").await;
    assert_eq!((wrong.status, &wrong.json()["type"]), (400, &json!("error")));
}
