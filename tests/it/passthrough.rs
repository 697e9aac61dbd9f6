//! Routes other than chats: passed on byte for byte, with keys, limits and metrics, and guarded if a filter
//! requests it.

use crate::host::{Answer, TestHost, until};
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};

const REDACT: &str = "/*\nsecurity: true\n*/\nconst endpoints = [\"chat\", \"embeddings\", \"images\", \"completions\"];\n\
    fn inlet(body) { for message in body.messages { message.text = text::replace(message.text, \"secret\", \"***\"); } body }";

fn post(host: &TestHost, path: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
    host.request("POST", path).header("content-type", "application/json").body(body)
}

fn form(host: &TestHost, path: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
    host.request("POST", path).header("content-type", "multipart/form-data; boundary=x").body(body)
}

fn field(name: &str, value: &str) -> String {
    format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

/// Returns the fields of a form that a service received.
fn fields_of(request: &UpstreamRequest) -> Vec<String> {
    let kind = request.headers["content-type"].to_str().unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let text = request.text();
    let delimiter = format!("--{boundary}\r\n");
    let parts = text.strip_suffix(&format!("--{boundary}--\r\n")).unwrap().split(&delimiter);
    let field = |part: &str| {
        let (head, value) = part.split_once("\r\n\r\n").unwrap();
        let name =
            head.strip_prefix("Content-Disposition: form-data; name=\"").unwrap().split('"').next().unwrap();
        format!("{name}: {}", value.strip_suffix("\r\n").unwrap())
    };
    parts.skip(1).map(field).collect()
}

#[tokio::test]
async fn passthrough_keeps_every_byte_and_uses_the_operator_key() {
    let host = TestHost::new().start().await;
    let odd = "{ \"input\" : [1,2], \"model\":\"mock-1\",\"x\":1.0e0 }";
    host.upstream.reply(Reply::raw("application/json", "{ \"data\" : [1.50] }").header("x-request-id", "r1"));
    for path in ["embeddings", "completions", "moderations", "rerank", "images/generations", "audio/speech"] {
        let path = format!("/v1/{path}");
        let answer = Answer::of(post(&host, &path, odd).bearer_auth("sk-of-a-client")).await;
        assert_eq!((answer.status, answer.body()), (200, "{ \"data\" : [1.50] }"), "{path}");
        assert_eq!(answer.header("x-request-id"), Some("r1"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let request = host.upstream.last();
        assert_eq!((request.path.as_str(), request.text().as_str()), (path.as_str(), odd));
        assert_eq!(request.headers["authorization"], "Bearer sk-upstream");
    }
    let metrics = host.get("/metrics").await;
    let counted = "valvehouse_http_requests_total{endpoint=\"embeddings\",status=\"2xx\"} 1";
    assert!(metrics.body().contains(counted), "{}", metrics.body());
}

#[tokio::test]
async fn numbers_of_a_service_become_the_base64_that_a_client_asked_for() {
    let host = TestHost::new().start().await;
    let vectors = |vectors: &[Value]| {
        let data = vectors.iter().enumerate();
        let one = |(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector});
        json!({"object": "list", "data": data.map(one).collect::<Vec<_>>(), "usage": {"total_tokens": 1}})
    };
    // 0.5 and -2 as 32-bit numbers, the lowest byte first.
    let packed = json!("AAAAPwAAAMA=");
    for (format, sent, expected) in [
        ("base64", json!([0.5, -2]), &packed),
        ("base64", packed.clone(), &packed),
        ("float", json!([0.5, -2]), &json!([0.5, -2])),
    ] {
        host.upstream.reply(Reply::json(&vectors(&[sent.clone(), json!([])])));
        let body = json!({"model": MODEL, "input": "a base64 text", "encoding_format": format}).to_string();
        let answer = Answer::of(post(&host, "/v1/embeddings", body)).await;
        assert_eq!(&answer.json()["data"][0]["embedding"], expected, "{format} of {sent}");
        assert_eq!(answer.json()["usage"]["total_tokens"], 1);
    }
    let refusal = json!({"error": {"message": "no base64", "type": "invalid_request_error"}});
    host.upstream.reply(Reply::json(&refusal).status(400));
    let body = json!({"model": MODEL, "input": "x", "encoding_format": "base64"}).to_string();
    let answer = Answer::of(post(&host, "/v1/embeddings", body)).await;
    assert_eq!((answer.status, &answer.error()["message"]), (400, &json!("no base64")));
}

#[tokio::test]
async fn a_form_is_streamed_and_routed_by_its_model_field() {
    let host = TestHost::new().start().await;
    host.upstream.reply(Reply::bytes("audio/mpeg", vec![0, 255, 13, 10]));
    let file = format!(
        "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n{}\r\n",
        "RIFF\r\n".repeat(100_000)
    );
    for body in [
        [file.as_str(), &field("model", MODEL), "--x--\r\n"].concat(),
        [&field("model", MODEL), file.as_str(), "--x--\r\n"].concat(),
    ] {
        let answer = Answer::of(form(&host, "/v1/audio/transcriptions", body.clone())).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        let request = host.upstream.last();
        assert!(
            request.text() == body && request.headers["content-type"] == "multipart/form-data; boundary=x"
        );
    }
    let refused = Answer::of(form(&host, "/v1/audio/transcriptions", field("model", "demo") + "--x--")).await;
    refused.refused(404, "provider demo does not serve /v1/audio/transcriptions; these may serve it: mock");
}

#[tokio::test]
async fn a_streamed_form_is_sent_once_and_a_whole_body_again() {
    let host = TestHost::new().provider("retry = { max_attempts = 3, initial_delay_ms = 1 }").start().await;
    host.upstream.reply(Reply::json(&json!({})).status(503));
    let body = [&field("model", MODEL), &field("file", &"RIFF".repeat(200_000)), "--x--\r\n"].concat();
    assert_eq!(Answer::of(form(&host, "/v1/audio/transcriptions", body)).await.status, 503);
    assert_eq!(host.upstream.requests().len(), 1);
    let whole = json!({"model": MODEL, "input": "hi"}).to_string();
    assert_eq!(Answer::of(post(&host, "/v1/embeddings", whole)).await.status, 503);
    assert_eq!(host.upstream.requests().len(), 1 + 3);
}

#[tokio::test]
async fn a_configured_model_name_is_translated_and_nothing_else_changes() {
    let alias = "[[models]]\nname = \"embed\"\nprovider = \"mock\"\nmodel = \"text-3\"\n";
    let host = TestHost::new().config(alias).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    Answer::of(post(&host, "/v1/embeddings", r#"{ "input":1.0, "model" : "embed" }"#)).await;
    assert_eq!(host.upstream.last().text(), r#"{ "input":1.0, "model" : "text-3" }"#);
    let body = field("model", "embed") + "--x--\r\n";
    Answer::of(form(&host, "/v1/audio/transcriptions", body)).await;
    assert_eq!(host.upstream.last().text(), field("model", "text-3") + "--x--\r\n");
}

#[tokio::test]
async fn files_go_to_the_only_or_the_named_provider() {
    let host = TestHost::new().start().await;
    host.upstream.reply(Reply::bytes("application/octet-stream", "content"));
    let answer = host.get("/v1/files/file-1/content?limit=2").await;
    assert_eq!((answer.status, answer.body()), (200, "content"));
    assert_eq!(host.upstream.last().path, "/v1/files/file-1/content");
    let deleted = Answer::of(host.request("DELETE", "/v1/files/file-1")).await;
    assert_eq!(deleted.status, 200);
    let other = Upstream::start().await;
    other.reply(Reply::json(&json!({"data": []})));
    let second = format!(
        "{}\n[[providers]]\nname = \"other\"\nkind = \"openai\"\nbase_url = \"{}\"\n",
        host.settings(),
        other.url()
    );
    let mut host = host;
    host.reconfigure(&second).await;
    host.get("/v1/batches").await.refused(400, "several providers may serve /v1/batches: mock, other");
    let named = Answer::of(host.request("GET", "/v1/batches").header("x-valvehouse-provider", "other")).await;
    assert_eq!((named.status, other.requests().len()), (200, 1));
    let unknown = Answer::of(host.request("GET", "/v1/files").header("x-valvehouse-provider", "mok")).await;
    unknown.refused(400, "unknown provider `mok` in x-valvehouse-provider; did you mean `mock`?");
    host.reconfigure(
        &second.replace("kind = \"openai\"\nbase_url", "kind = \"openai\"\nroutes = [\"audio\"]\nbase_url"),
    )
    .await;
    host.get("/v1/batches").await.refused(404, "no provider of this host serves /v1/batches");
}

#[tokio::test]
async fn impossible_requests_are_rejected_in_the_protocol_of_the_caller_with_advice() {
    let host = TestHost::new().config("[server]\nkeys = [\"k\"]\nmax_body_mb = 1\n").start().await;
    let ask = async |path: &str, anthropic: bool, body: String| {
        let request = match path {
            "/v1/realtime" => host.request("GET", path),
            path => post(&host, path, body),
        };
        let request = request.bearer_auth("k");
        Answer::of(if anthropic { request.header("anthropic-version", "2023-06-01") } else { request }).await
    };
    assert_eq!(Answer::of(post(&host, "/v1/embeddings", "{}")).await.status, 401);
    for (path, status, words) in [
        ("/v1/realtime", 404, "cannot open a realtime session"),
        ("/v1/realtime/client_secrets", 404, "cannot open a realtime session"),
        ("/v1/batches/%2e%2e%2fchat", 400, "it contains `.`, `..`"),
        ("/openai/deployments/m/audio/..;/embeddings", 400, "it contains `.`, `..`"),
        ("/openai/deployments/m/audio/%2e.;x=1/embeddings", 400, "it contains `.`, `..`"),
        ("/v1/batches/..;x/cancel", 400, "it contains `.`, `..`"),
        ("/v1/embeddings", 400, "is not valid JSON"),
        ("/v1/completions", 400, "`model` must be the name of a model"),
    ] {
        let body = match path {
            "/v1/embeddings" => "{",
            "/v1/completions" => r#"{"model":7}"#,
            _ => "{}",
        };
        let answer = ask(path, false, body.to_owned()).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body());
        assert!(answer.message().contains(words), "{path}: {}", answer.body());
        let anthropic = ask(path, true, body.to_owned()).await.json();
        assert_eq!(anthropic["type"], "error", "{path}: {anthropic}");
    }
    for path in ["/openai/deployments/m/audio/..%09/chat/completions", "/v1/files/.%0d./chat/completions"] {
        ask(path, false, "{}".to_owned()).await.refused(400, "it has a control character");
    }
    let handshake = host.request("GET", "/v1/realtime?model=mock-1").bearer_auth("k");
    let handshake = handshake.header("connection", "upgrade").header("upgrade", "websocket");
    let handshake = handshake
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "a2V5a2V5a2V5a2V5MTIzNA==");
    Answer::of(handshake).await.refused(404, "this host does not forward WebSockets");
    assert!(host.upstream.requests().is_empty(), "nothing of a session reaches a service");
    let packed = post(&host, "/v1/embeddings", "x").header("content-encoding", "gzip").bearer_auth("k");
    Answer::of(packed).await.refused(400, "content-encoding gzip is not supported");
    let large = json!({"model": MODEL, "input": "x".repeat(2 << 20)}).to_string();
    assert_eq!(ask("/v1/embeddings", false, large.clone()).await.status, 413);
    let pieces = futures::stream::iter(
        large.into_bytes().chunks(65_536).map(|it| Ok::<_, std::io::Error>(it.to_vec())).collect::<Vec<_>>(),
    );
    let endless = form(&host, "/v1/files", reqwest::Body::wrap_stream(pieces)).bearer_auth("k");
    assert_eq!(Answer::of(endless).await.status, 413);
    host.upstream.reply(Reply::json(&json!({"error": {"message": "no", "type": "t"}})).status(422));
    let refused = ask("/v1/embeddings", false, json!({"model": MODEL, "input": "x"}).to_string()).await;
    assert_eq!((refused.status, refused.message().as_str()), (422, "no"));
}

#[tokio::test]
async fn a_guard_that_lists_an_endpoint_sees_its_input_texts() {
    let host = TestHost::new().filter("redact", REDACT).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    let plain = r#"{ "model":"mock-1","input" : [ "plain" ], "x":1.0e0 }"#;
    Answer::of(post(&host, "/v1/embeddings", plain)).await;
    assert_eq!(host.upstream.last().text(), plain, "what is not edited stays as it came");
    for (path, body, expected) in [
        (
            "embeddings",
            json!({"model": MODEL, "input": "a secret"}),
            json!({"model": MODEL, "input": "a ***"}),
        ),
        (
            "embeddings",
            json!({"model": MODEL, "input": ["secret", "b"]}),
            json!({"model": MODEL, "input": ["***", "b"]}),
        ),
        (
            "completions",
            json!({"model": MODEL, "prompt": "secret", "suffix": "secret"}),
            json!({"model": MODEL, "prompt": "***", "suffix": "***"}),
        ),
        (
            "images/generations",
            json!({"model": MODEL, "prompt": "secret"}),
            json!({"model": MODEL, "prompt": "***"}),
        ),
    ] {
        let answer = Answer::of(post(&host, &format!("/v1/{path}"), body.to_string())).await;
        assert_eq!(
            (answer.status, host.upstream.last().json()),
            (200, expected),
            "{path}: {}",
            answer.body()
        );
    }
    let texts = [field("prompt", "a secret"), field("negative_prompt", "no secret")].concat();
    let edit = [texts, field("model", MODEL), "--x--\r\n".into()].concat();
    Answer::of(form(&host, "/v1/images/edits", edit.clone())).await;
    assert_eq!(
        fields_of(&host.upstream.last()),
        ["prompt: a ***", "negative_prompt: no ***", "model: mock-1"],
        "the form is written anew"
    );
    let seen = host.upstream.requests().len();
    for (request, words) in [
        (
            post(&host, "/v1/embeddings", json!({"model": MODEL, "input": [[1, 2]]}).to_string()),
            "such as tokens",
        ),
        (
            post(&host, "/v1/embeddings", format!(r#"{{"model":"{MODEL}","input":"a","input":"secret"}}"#)),
            "each field once",
        ),
        (
            host.request("POST", "/v1/embeddings")
                .body(json!({"model": MODEL, "input": "secret"}).to_string()),
            "send JSON",
        ),
        (form(&host, "/v1/images/edits", edit.replace("\r\n", "\n")), "invalid form"),
    ] {
        let answer = Answer::of(request).await;
        assert!(answer.status == 400 && answer.message().contains(words), "{}", answer.body());
    }
    assert_eq!(host.upstream.requests().len(), seen, "nothing unseen was passed on");
}

#[tokio::test]
async fn a_guard_sees_a_form_whose_model_name_is_translated() {
    let name = "a-configured-name-that-is-longer-than-the-rest-of-the-form";
    let host = TestHost::new()
        .filter(
            "redact",
            format!("{REDACT}\nfn outlet(body) {{ body }}")
                .replace("{ for", "{ if body.model != \"mock-1\" { deny(body.model) } for"),
        )
        .config(&format!("[[models]]\nname = \"{name}\"\nprovider = \"mock\"\nmodel = \"{MODEL}\""))
        .start()
        .await;
    let edit = |model: &str, prompt: &str| {
        [field("prompt", prompt), field("model", model), "--x--\r\n".into()].concat()
    };
    let answer = Answer::of(form(&host, "/v1/images/edits", edit(name, "a secret"))).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    assert_eq!(fields_of(&host.upstream.last()), ["prompt: a ***", &format!("model: {MODEL}")]);
}

#[tokio::test]
async fn a_filter_runs_at_its_listed_endpoints_and_explain_shows_it() {
    let deny =
        |endpoints: &str| format!("{endpoints}\nfn inlet(body) {{ deny(`no ${{body.endpoint}}`, 403); }}");
    let host = TestHost::new().filter("chats", deny("")).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    let embed = || post(&host, "/v1/embeddings", json!({"model": MODEL, "input": "a"}).to_string());
    assert_eq!(Answer::of(embed()).await.status, 200);
    assert_eq!(host.ask("hi").await.status, 403);
    let host = TestHost::new().filter("rag", deny("const endpoints = [\"embeddings\"];")).start().await;
    let embed = || post(&host, "/v1/embeddings", json!({"model": MODEL, "input": "a"}).to_string());
    Answer::of(embed()).await.refused(403, "no embeddings");
    assert_eq!(host.ask("hi").await.status, 200);
    let parts = host.snapshot().parts(MODEL, &[], |_| None);
    assert_eq!(parts[0].decision_name(), "elsewhere");
    assert!(parts[0].reason.contains("covers embeddings only"), "{}", parts[0].reason);
    for (wrong, words) in [
        ("const endpoints = [\"embedings\"];\nfn inlet(body) { }", "did you mean \"embeddings\"?"),
        ("const endpoints = [\"embeddings\"];\nfn outlet(body) { }", "missing hook `inlet`"),
        ("const endpoints = [];\nfn inlet(body) { }", "is empty"),
    ] {
        let host = TestHost::new().filter("wrong", wrong).start().await;
        let problems = format!("{:?}", host.problems("wrong"));
        assert!(problems.contains(&words.replace('"', "\\\"")), "{problems}");
    }
}

#[tokio::test]
async fn no_route_bypasses_a_chat_guard_unless_the_operator_allows_it() {
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) { body }";
    let mut host = TestHost::new().filter("guard", guard).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    let ask =
        async |host: &TestHost, path: &str, more: Value| Answer::of(post(host, path, more.to_string())).await;
    let prompt = json!({"model": MODEL, "prompt": "x"});
    ask(&host, "/v1/completions", prompt.clone())
        .await
        .refused(403, "these guards would not run for it: guard");
    ask(&host, "/v1/batches", json!({})).await.refused(403, "list \"batches\" in `routes` of the provider");
    assert!(host.upstream.requests().is_empty());
    assert_eq!(ask(&host, "/v1/embeddings", json!({"model": MODEL, "input": "x"})).await.status, 200);
    assert_eq!(host.get("/v1/batches").await.status, 200);
    let open = host.settings().replace(
        "api_key = \"sk-upstream\"",
        "api_key = \"sk-upstream\"\nroutes = [\"batches\", \"completions\"]",
    );
    host.reconfigure(&open).await;
    assert_eq!(ask(&host, "/v1/completions", prompt).await.status, 200);
    assert_eq!(ask(&host, "/v1/batches", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_guard_that_lists_fewer_endpoints_waits_for_an_operator() {
    let host = TestHost::new().filter("redact", REDACT).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    let chats_only = REDACT.replace(", \"embeddings\", \"images\", \"completions\"", "");
    host.save("redact", chats_only);
    until("the change is held", || async { !host.problems("redact").is_empty() }).await;
    let problems = format!("{:?}", host.problems("redact"));
    assert!(problems.contains("the endpoint `embeddings`"), "{problems}");
    Answer::of(post(&host, "/v1/embeddings", json!({"model": MODEL, "input": "secret"}).to_string())).await;
    assert_eq!(host.upstream.last().json()["input"], "***");
}

#[tokio::test]
async fn response_headers_of_a_service_never_contain_its_key() {
    let host = TestHost::new().start().await;
    let with_key_headers = |reply: Reply| {
        reply
            .header("x-request-id", "Bearer sk-upstream")
            .header("retry-after", "sk-upstream")
            .header("etag", "sk-upstream")
    };
    host.upstream.script(move |request| with_key_headers(Reply::fitting(request, "ok")));
    for answer in [
        host.ask("hi").await,
        Answer::of(post(&host, "/v1/embeddings", format!("{{\"model\":\"{MODEL}\"}}"))).await,
    ] {
        assert_eq!(answer.status, 200);
        for name in ["x-request-id", "retry-after", "etag"] {
            assert_eq!(answer.header(name), None, "{name}");
        }
    }
}

#[tokio::test]
async fn a_guard_that_does_not_load_blocks_every_endpoint() {
    let host =
        TestHost::new().filter("redact", "/*\nsecurity: true\n*/\nfn inlet(body { body }").start().await;
    let answer =
        Answer::of(post(&host, "/v1/embeddings", json!({"model": MODEL, "input": "a"}).to_string())).await;
    assert_eq!((answer.status, host.upstream.requests().len()), (503, 0), "{}", answer.body());
}

#[tokio::test]
async fn azure_clients_name_the_model_in_the_path() {
    let host = TestHost::new()
        .filter("shout", "fn inlet(body) { body.messages[-1].text = \"HI\"; body }")
        .start()
        .await;
    let path = "/openai/deployments/mock-1/chat/completions?api-version=2024-10-21";
    let answer = Answer::of(
        post(&host, path, r#"{"messages":[{"role":"user","content":"hi"}]}"#).header("api-key", "k"),
    )
    .await;
    assert_eq!(answer.text(), "hello from upstream");
    let request = host.upstream.last().json();
    assert_eq!((&request["model"], &request["messages"][0]["content"]), (&json!("mock-1"), &json!("HI")));
    host.upstream.reply(Reply::json(&json!({"data": []})));
    let path = "/openai/deployments/mock-1/embeddings?api-version=2024-10-21";
    assert_eq!(Answer::of(post(&host, path, r#"{"input":"x"}"#)).await.status, 200);
    let request = host.upstream.last();
    assert_eq!(
        (request.path.as_str(), request.text().as_str()),
        ("/v1/embeddings", r#"{"model":"mock-1","input":"x"}"#)
    );
}

#[tokio::test]
async fn ollama_clients_run_the_same_turn() {
    let host = TestHost::new()
        .filter("loud", "fn outlet(body) { body.messages[-1].text += \"!\"; body }")
        .start()
        .await;
    let lines = |answer: &Answer| -> Vec<Value> {
        answer.body().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let ask = async |path: &str, body: Value| Answer::of(post(&host, path, body.to_string())).await;
    let messages = json!([{"role": "user", "content": "hi"}]);
    let whole = ask("/api/chat", json!({"model": MODEL, "messages": messages, "stream": false})).await.json();
    assert_eq!(
        (&whole["message"]["content"], &whole["done"]),
        (&json!("hello from upstream!"), &json!(true))
    );
    assert_eq!((&whole["done_reason"], &whole["prompt_eval_count"]), (&json!("stop"), &json!(1)));
    let streamed = lines(&ask("/api/chat", json!({"model": MODEL, "messages": messages})).await);
    let text: String = streamed.iter().filter_map(|line| line["message"]["content"].as_str()).collect();
    assert_eq!((text.as_str(), &streamed.last().unwrap()["done"]), ("hello from upstream!", &json!(true)));
    assert!(streamed[..streamed.len() - 1].iter().all(|line| line["done"] == json!(false)));
    let generated = lines(&ask("/api/generate", json!({"model": MODEL, "prompt": "hi"})).await);
    let text: String = generated.iter().filter_map(|line| line["response"].as_str()).collect();
    assert_eq!(text, "hello from upstream!");
    let loaded = ask("/api/generate", json!({"model": MODEL})).await.json();
    assert_eq!(loaded["done_reason"], "load");
    let unknown = ask("/api/chat", json!({"model": "", "messages": messages})).await;
    assert!(unknown.status == 400 && unknown.json()["error"].as_str().unwrap().contains("`model`"));
    let tags = host.get("/api/tags").await.json();
    assert!(tags["models"].as_array().unwrap().iter().any(|model| model["name"] == "demo:latest"), "{tags}");
    host.upstream.reply(Reply::json(&json!({"id": "c", "object": "chat.completion", "model": MODEL, "choices": [{
        "index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [
        {"id": "t", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}]}}]})));
    for stream in [false, true] {
        let answer = ask("/api/chat", json!({"model": MODEL, "messages": messages, "stream": stream})).await;
        let line = lines(&answer).into_iter().find(|line| line["message"]["tool_calls"].is_array()).unwrap();
        assert_eq!(
            line["message"]["tool_calls"][0]["function"],
            json!({"name": "add", "arguments": {"a": 1}})
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; short: the_openai_sdk_chats_streams_lists_models_and_reads_errors"]
async fn the_openai_python_sdk_uses_the_passthrough_routes() {
    let Some(python) = crate::python::python() else { return };
    let host = TestHost::new().start().await;
    host.upstream.script(|request| match request.path.trim_start_matches("/v1/") {
        "embeddings" => Reply::json(&json!({"object": "list", "model": MODEL, "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, 1.0]}], "usage": {"prompt_tokens": 1, "total_tokens": 1}}))
        .header("x-request-id", "req_1"),
        "audio/speech" => Reply::bytes("audio/mpeg", (0..=255).collect::<Vec<u8>>()),
        "audio/transcriptions" => Reply::json(&json!({"text": "heard"})),
        "files" => Reply::json(&json!({"id": "file-1", "object": "file", "bytes": 1, "created_at": 1,
            "filename": "a.jsonl", "purpose": "batch", "status": "processed"})),
        "files/file-1/content" => Reply::bytes("application/octet-stream", "content"),
        "files/file-1" => Reply::json(&json!({"id": "file-1", "object": "file", "deleted": true})),
        "completions" => Reply::raw("text/event-stream", format!("data: {}\n\ndata: [DONE]\n\n", json!({"id": "c",
            "object": "text_completion", "created": 1, "model": MODEL, "choices": [
            {"index": 0, "text": "two", "logprobs": null, "finish_reason": "stop"}]}))),
        "moderations" => Reply::json(&json!({"id": "m", "model": MODEL, "results": [
            {"flagged": false, "categories": {}, "category_scores": {}, "category_applied_input_types": {}}]})),
        _ => Reply::fitting(request, "hello from upstream"),
    });
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/routes_client.py");
    let url = host.url("/v1");
    let ran = tokio::task::spawn_blocking(move || {
        std::process::Command::new(python).arg(script).arg(url).output().expect("Python runs")
    });
    let ran = ran.await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test]
async fn no_text_passes_the_filters_of_a_route_beside_its_fields() {
    let redact = REDACT.replace("body.messages", "body.texts");
    let host = TestHost::new().filter("redact", redact).start().await;
    host.upstream.reply(Reply::json(&json!({})));
    for (path, field) in
        [("embeddings", "input"), ("completions", "prompt"), ("images/generations", "prompt")]
    {
        let plain = json!({"model": MODEL, field: "hi"});
        let mut bodies = vec![plain.clone()];
        for key in ["user", "metadata", "features", "x"] {
            for value in [json!({"a": {"type": "a secret"}}), json!({"a secret": {"a secret": [1]}})] {
                let mut body = plain.clone();
                body[key] = value;
                bodies.push(body);
            }
        }
        let mut item = plain;
        item[field] = json!([{"type": "a secret", "text": "hi"}]);
        bodies.push(item);
        for body in bodies {
            let before = host.upstream.requests().len();
            let path = format!("/v1/{path}?{field}=secret");
            let answer = Answer::of(post(&host, &path, body.to_string())).await;
            match host.upstream.requests().get(before) {
                Some(sent) => {
                    let shown = format!("{:?} {}", sent.query, sent.text());
                    assert!(!shown.contains("secret"), "{path} {body}: {shown}");
                    assert!(sent.text().contains("hi"), "{body}: {shown}");
                }
                None => assert_eq!(answer.status, 400, "{path} {body}: {}", answer.body()),
            }
        }
    }
}

#[tokio::test]
async fn a_key_with_escapes_is_named_as_the_problem() {
    let host = TestHost::new().start().await;
    for path in ["images/generations", "embeddings", "completions", "moderations", "rerank", "audio/speech"] {
        let request = host.request("POST", &format!("/v1/{path}")).header("content-type", "application/json");
        let answer = Answer::of(request.body(r#"{"mod\u0065l":"mock-1","prompt":"x","input":"x"}"#)).await;
        answer.refused(400, "a key of the request body contains an escape");
    }
}
