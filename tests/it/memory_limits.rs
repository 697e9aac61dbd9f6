//! The memory of requests is limited: that of one answer, and that of all requests together.

use crate::as_clients_expect::zstd;
use crate::host::{Answer, TestHost, chat_body, streaming, until};
use crate::upstream::{Gate, MODEL, Reply, chunk};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const LOOKS: &str = "fn stream(event) { event }\nfn outlet(body) { body }";
const HOLDS: &str = "/*\nhold: true\n*/\nfn outlet(body) { body }";
const SSE: &str = "text/event-stream";

/// Returns events for a reply that repeats them.
fn endless(events: impl IntoIterator<Item = String>) -> &'static str {
    Box::leak(events.into_iter().collect::<String>().into_boxed_str())
}

fn of_choice(index: usize, finish: &Value) -> String {
    let choice = json!({"index": index, "delta": {"content": "x"}, "finish_reason": finish});
    format!("data: {}\n\n", json!({"id": "one", "choices": [choice]}))
}

/// Returns answers without end: each kind of content that a host collects.
fn answers() -> Vec<(&'static str, &'static str)> {
    let text = "x".repeat(256 << 10);
    let many_keys: Value =
        (0..5_000).map(|key| (format!("key{key}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let call = |index: usize| {
        let call = json!({"index": index, "id": format!("call_{index}"), "function": {"name": "look", "arguments": "{}"}});
        chunk(&json!({"tool_calls": [call]}), None)
    };
    let arguments = json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]});
    let parts: Vec<Value> =
        (0..1_000).map(|_| json!({"type": "image_url", "image_url": {"url": "x"}})).collect();
    vec![
        ("text", endless([chunk(&json!({"content": text}), None)])),
        ("reasoning", endless([chunk(&json!({"reasoning_content": text}), None)])),
        ("parts", endless([chunk(&json!({"content": parts}), None)])),
        ("arguments", endless([chunk(&arguments, None)])),
        ("calls", endless((0..5_000).map(call))),
        ("choices", endless((0..5_000).map(|index| of_choice(index, &Value::Null)))),
        ("keys", endless([chunk(&many_keys, None)])),
    ]
}

/// Checks that an answer ended with its limit, by its status or within the stream.
fn is_limited(what: &str, answer: &Answer) {
    let text = answer.body();
    assert!(
        text.contains("exceeded its limit of 64 MiB"),
        "{what}: {} {}",
        answer.status,
        &text[text.len().saturating_sub(400)..]
    );
}

#[tokio::test]
async fn an_endless_answer_ends_at_its_limit_wherever_the_host_collects_it() {
    let call = json!({"index": 0, "id": "call_0", "function": {"name": "look", "arguments": ""}});
    let begun = |what: &str| {
        let begun = Reply::raw(SSE, chunk(&json!({"role": "assistant"}), None));
        if what == "arguments" { begun.then(chunk(&json!({"tool_calls": [call]}), None)) } else { begun }
    };
    for (source, filter) in [("hooks", LOOKS), ("held", HOLDS)] {
        let host = TestHost::new().filter("looks", filter).start().await;
        // A held answer differs only in what is sent.
        let kinds = if source == "held" { 1 } else { usize::MAX };
        for (nth, (what, events)) in
            valvehouse_testkit::sampled(answers().into_iter().take(kinds), 3).enumerate()
        {
            // By default, every other answer is streamed.
            let bodies = [streaming(MODEL, "hi"), chat_body(MODEL, "hi")];
            for body in valvehouse_testkit::sampled(bodies.iter().cycle().skip(nth).take(bodies.len()), 2) {
                host.upstream.reply(begun(what).then_for_ever(events));
                is_limited(&format!("{source}, {what}, {}", body["stream"]), &host.chat(body).await);
            }
        }
        host.upstream.reply(Reply::words(["fine"]));
        assert!(host.stream("hi").await.body().contains("fine"));
    }
}

#[tokio::test]
async fn an_endless_end_of_an_answer_ends_at_its_limit() {
    let host = TestHost::new().filter("looks", LOOKS).start().await;
    let padding = "x".repeat(64 << 10);
    let last = json!({"id": "one", "padding": padding, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    host.upstream.reply(Reply::begun(["fine"]).then_for_ever(endless([format!("data: {last}\n\n")])));
    let answer = host.stream("hi").await;
    let answer = answer.body();
    assert!(
        answer.contains("the events at the end of the model's answer exceeded their limit of 32 MiB"),
        "{}",
        &answer[answer.len() - 400..]
    );
}

#[tokio::test]
async fn an_answer_without_a_filter_is_passed_on_at_any_length() {
    let host = TestHost::new().start().await;
    let text = "x".repeat(1 << 20);
    let long =
        (0..80).fold(Reply::begun(["one"]), |reply, _| reply.then(chunk(&json!({"content": text}), None)));
    host.upstream.reply(long.then(chunk(&json!({}), Some("stop"))).then("data: [DONE]\n\n"));
    let answer = host.stream("hi").await;
    let answer = answer.body();
    assert!(answer.len() > 80 << 20 && answer.ends_with("data: [DONE]\n\n"), "{}", answer.len());
}

pub(crate) async fn held(host: &TestHost) -> String {
    let metrics = host.get("/metrics").await;
    let line =
        metrics.body().lines().find(|line| line.starts_with("valvehouse_request_memory_bytes ")).unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

/// Waits until no request holds memory.
async fn releases_all(host: &TestHost) {
    let begun = Instant::now();
    while held(host).await != "0" {
        assert!(begun.elapsed() < Duration::from_secs(10), "still held: {}", held(host).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn requests_that_together_hold_too_much_memory_are_refused_until_others_end() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").filter("looks", LOOKS).start().await;
    let large = chat_body(MODEL, &"y".repeat(20 << 20));
    let gate = Gate::closed();
    host.upstream.reply(Reply::text("first").behind(&gate));
    let first = host.chat(&large);
    let second = async {
        host.upstream.wait_for_requests(1).await;
        let refused = host.chat(&large).await;
        refused.refused(
            503,
            "the requests of this host exceed their memory limit of 64 MB ([server] max_memory_mb)",
        );
        assert_eq!(refused.error()["code"], "host_too_busy");
        assert_eq!(refused.header("retry-after"), Some("1"));
        // Small requests are still answered.
        host.upstream.reply(Reply::text("small"));
        assert_eq!(host.ask("hi").await.text(), "small");
        gate.open();
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(first.text(), "first");
    releases_all(&host).await;
    host.upstream.reply(Reply::text("third"));
    assert_eq!(host.chat(&large).await.text(), "third");
    releases_all(&host).await;
}

#[tokio::test]
async fn a_small_body_counts_as_well_and_is_answered_beside_large_ones() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 2").filter("looks", LOOKS).start().await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::text("first").behind(&gate));
    let (large, small) = (chat_body(MODEL, &"y".repeat(900 << 10)), chat_body(MODEL, &"y".repeat(100 << 10)));
    let waiting = async {
        host.upstream.wait_for_requests(1).await;
        assert!(held(&host).await.parse::<usize>().unwrap() > 1_800_000, "{}", held(&host).await);
        host.chat(&large).await.refused(503, "the requests of this host exceed their memory limit of 2 MB");
        host.upstream.reply(Reply::text("second"));
        assert_eq!(host.chat(&small).await.text(), "second");
        gate.open();
    };
    let (first, ()) = tokio::join!(host.chat(&large), waiting);
    assert_eq!(first.text(), "first");
    releases_all(&host).await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::text("third").behind(&gate));
    let waiting = async {
        host.upstream.wait_for_requests(3).await;
        assert!(held(&host).await.parse::<usize>().unwrap() > 200_000, "{}", held(&host).await);
        gate.open();
    };
    tokio::join!(host.chat(&small), waiting);
    releases_all(&host).await;
}

#[tokio::test]
async fn an_answer_counts_toward_the_memory_of_all_requests() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").filter("looks", LOOKS).start().await;
    let text = "x".repeat(1 << 20);
    let long =
        (0..20).fold(Reply::begun(["one"]), |reply, _| reply.then(chunk(&json!({"content": text}), None)));
    host.upstream.reply(long.then(chunk(&json!({}), Some("stop"))).then("data: [DONE]\n\n"));
    let answer = host.stream("hi").await;
    let answer = answer.body();
    assert!(answer.contains("exceed their memory limit of 64 MB"), "{}", &answer[answer.len() - 400..]);
    releases_all(&host).await;
}

#[tokio::test]
async fn the_values_of_bodies_are_limited_and_count_toward_the_memory_of_all_requests() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").filter("looks", LOOKS).start().await;
    let with = |count: usize| {
        let list = "0,".repeat(count);
        format!(
            "{{\"model\":\"{MODEL}\",\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}],\"x\":[{list}0]}}"
        )
    };
    let refused = host.post(with(1 << 20)).await;
    refused.refused(413, "the request body exceeded its limit of 1048576 JSON values");
    assert_eq!(refused.error()["code"], "request_too_large");
    host.post(with(800_000))
        .await
        .refused(503, "the requests of this host exceed their memory limit of 64 MB");
    host.upstream.reply(Reply::text("fine"));
    assert_eq!(host.post(with(200_000)).await.text(), "fine");
    releases_all(&host).await;
}

#[tokio::test]
async fn responses_in_the_background_hold_the_memory_of_their_bodies() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").filter("looks", LOOKS).start().await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::words(["done"]).behind(&gate));
    let text = "y".repeat(5 << 20);
    let body = json!({"model": MODEL, "input": text, "background": true});
    let mut created = Vec::new();
    let refused = loop {
        let answer = host.respond(&body).await;
        if answer.status != 200 {
            break answer;
        }
        created.push(answer.json()["id"].as_str().unwrap().to_owned());
        assert!(created.len() < 20, "bodies of {} MB are not counted", 5 * created.len());
    };
    refused.refused(503, "the requests of this host exceed their memory limit of 64 MB");
    assert!(!created.is_empty());
    let counted: usize = held(&host).await.parse().unwrap();
    assert!(counted >= created.len() * 2 * text.len(), "{counted} for {}", created.len());
    gate.open();
    releases_all(&host).await;
    assert_eq!(host.respond(&body).await.status, 200);
    releases_all(&host).await;
}

#[tokio::test]
async fn a_compressed_body_counts_as_it_is_decompressed() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").filter("looks", LOOKS).start().await;
    let packed = zstd("{", 240);
    let answer = Answer::of(host.posting(packed).header("content-encoding", "zstd")).await;
    answer.refused(503, "the requests of this host exceed their memory limit of 64 MB");
    releases_all(&host).await;
}

#[tokio::test]
async fn whole_answers_count_until_their_client_has_received_them() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").start().await;
    let filtered =
        TestHost::new().config("[server]\nmax_memory_mb = 64").filter("looks", LOOKS).start().await;
    for host in [&host, &filtered] {
        let text = "x".repeat(20 << 20);
        host.upstream.reply(Reply::text(&text));
        // This client reads nothing of its answer yet.
        let first = host.posting(chat_body(MODEL, "first").to_string()).send().await.unwrap();
        assert_eq!(first.status(), 200);
        assert_ne!(held(host).await, "0");
        host.ask("second").await.refused(503, "the requests of this host exceed their memory limit of 64 MB");
        assert!(first.bytes().await.unwrap().len() > text.len());
        releases_all(host).await;
        assert_eq!(host.ask("third").await.text().len(), text.len());
        releases_all(host).await;
    }
}

#[tokio::test]
async fn a_stream_of_the_service_counts_for_a_client_without_streaming() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").start().await;
    let text = "x".repeat(1 << 20);
    let stream = |count| {
        let begun = (0..count)
            .fold(Reply::begun(["one"]), |reply, _| reply.then(chunk(&json!({"content": text}), None)));
        begun.then(chunk(&json!({}), Some("stop"))).then("data: [DONE]\n\n")
    };
    host.upstream.reply(stream(20));
    host.ask("long").await.refused(503, "the requests of this host exceed their memory limit of 64 MB");
    host.upstream.reply(stream(4));
    assert_eq!(host.ask("short").await.text().len(), 3 + (4 << 20));
    releases_all(&host).await;
}

#[tokio::test]
async fn a_stored_conversation_counts_for_the_requests_that_continue_it() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 40").start().await;
    host.upstream.script(|request| Reply::fitting(request, "fine"));
    let first = host.respond(&json!({"model": MODEL, "input": "y".repeat(14 << 20)})).await.ok();
    releases_all(&host).await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::text("held").behind(&gate));
    let next = json!({"model": MODEL, "input": "hi", "previous_response_id": first["id"]});
    let before = host.upstream.requests().len();
    let (held, continued) = (host.respond(&next), async {
        host.upstream.wait_for_requests(before + 1).await;
        let refused = host.respond(&next).await;
        gate.open();
        refused
    });
    let (held, refused) = tokio::join!(held, continued);
    assert_eq!(held.status, 200);
    assert_eq!(
        (refused.status, refused.error()["code"].as_str()),
        (503, Some("host_too_busy")),
        "{}",
        refused.body()
    );
    releases_all(&host).await;
}

#[tokio::test]
async fn messages_of_mcp_clients_count_toward_the_memory_of_all_requests() {
    let tool = "/*\ndescription: Adds\n*/\nfn handler(args) { 42 }";
    let host = TestHost::new().config("[server]\nmax_memory_mb = 64").tool("plus", tool).start().await;
    let post = async |params: String| {
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{params}}}");
        let request = host
            .request("POST", "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        Answer::of(request.body(body)).await
    };
    let with = |count: usize| {
        let list = "0,".repeat(count);
        format!(
            "{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{\"experimental\":{{\"x\":{{\"y\":[{list}0]}}}}}},\"clientInfo\":{{\"name\":\"t\",\"version\":\"1\"}}}}"
        )
    };
    post(with(1 << 20)).await.refused(413, "the request body exceeded its limit of 1048576 JSON values");
    post(with(800_000)).await.refused(503, "the requests of this host exceed their memory limit of 64 MB");
    releases_all(&host).await;
    let answer = post(with(1)).await;
    assert!(answer.status == 200 && answer.body().contains("serverInfo"), "{}", answer.body());
}

#[tokio::test]
async fn unfinished_forms_count_toward_the_memory_of_the_host() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 16").start().await;
    host.upstream.reply(Reply::json(&json!({})));
    let head = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let chunks = |count: usize| {
        let chunks = std::iter::once(head.into()).chain((0..count).map(|_| "y".repeat(1 << 20)));
        reqwest::Body::wrap_stream(futures::stream::iter(chunks.map(Ok::<_, std::io::Error>)))
    };
    let form = |path: &str, body: reqwest::Body| {
        host.request("POST", path).header("content-type", "multipart/form-data; boundary=x").body(body)
    };
    // The model may follow the file, so the form is read up to its end.
    let refused = Answer::of(form("/v1/audio/transcriptions", chunks(20))).await;
    refused.refused(503, "the requests of this host exceed their memory limit of 16 MB");
    releases_all(&host).await;
    assert_eq!(Answer::of(form("/v1/audio/transcriptions", chunks(4))).await.status, 200);
    // A file names no model, so it is streamed.
    assert_eq!(Answer::of(form("/v1/files", chunks(20))).await.status, 200);
    assert!(host.upstream.last().body.len() > 20 << 20);
    releases_all(&host).await;
}

/// Every body is read up to the memory limit at most, unless it is streamed to a service.
#[tokio::test]
async fn no_route_keeps_a_body_that_is_not_counted() {
    const CHUNKS: usize = 48;
    let host = TestHost::new()
        .config("[server]\nmax_memory_mb = 16\nmax_body_mb = 64")
        .tool("plus", "/*\ndescription: Adds\n*/\nfn handler(args) { 42 }")
        .start()
        .await;
    let document = host.get("/openapi.json").await.json();
    let begin = "{\"model\":\"mock-1\",\"x\":\"";
    let form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.rhai\"\r\n\r\n";
    let kinds = [("application/json", begin), ("multipart/form-data; boundary=x", form)];
    let mut routes = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in ["post", "put", "patch", "delete"] {
            if operations.get(method).is_none() {
                continue;
            }
            // By default, every other route gets a form.
            for (kind, begin) in
                valvehouse_testkit::sampled(kinds.iter().cycle().skip(routes).take(kinds.len()), 2)
            {
                let pulled = Arc::new(AtomicUsize::new(0));
                let counted = pulled.clone();
                let chunks = std::iter::once((*begin).to_owned()).chain((0..CHUNKS).map(move |_| {
                    counted.fetch_add(1, Relaxed);
                    "y".repeat(1 << 20)
                }));
                let body =
                    reqwest::Body::wrap_stream(futures::stream::iter(chunks.map(Ok::<_, std::io::Error>)));
                let place = path.replace(['{', '}', '*'], "");
                let request = host.request(&method.to_uppercase(), &place).header("content-type", *kind);
                // A host that answers before the body ends may close the connection.
                let answered = request.body(body).send().await.map(|answer| answer.status().as_u16());
                // Refused because of the memory, or before the body was read; the rest is discarded.
                let is_refused = answered
                    .as_ref()
                    .is_ok_and(|status| [401, 403, 404, 405, 413, 415, 503].contains(status));
                let is_streamed =
                    path.starts_with("/v1/files") && answered.as_ref().is_ok_and(|status| *status < 400);
                assert!(
                    is_refused || is_streamed || pulled.load(Relaxed) < CHUNKS - 8,
                    "{method} {path} with {kind}: {answered:?} after {} MB",
                    pulled.load(Relaxed)
                );
                routes += 1;
            }
        }
    }
    assert!(routes > 50, "{routes}");
    releases_all(&host).await;
}

/// Sends the head of a chat and a part of its body.
async fn unfinished(host: &TestHost, announced: usize, sent: usize) -> TcpStream {
    let address = host.url("").strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let body = chat_body(MODEL, &"y".repeat(sent)).to_string();
    // The host may refuse the rest.
    let _ = stream.write_all(&body.as_bytes()[..sent]).await;
    stream
}

#[tokio::test]
async fn unfinished_bodies_lock_out_no_small_request() {
    let config = "[server]\nmax_memory_mb = 64\nbody_timeout_ms = 3000";
    let host = TestHost::new().config(config).filter("looks", LOOKS).start().await;
    host.upstream.script(|request| Reply::fitting(request, &"small ".repeat(4 << 10)));
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(unfinished(&host, 20 << 20, 7 << 20).await);
    }
    until("the bodies fill the memory", || async { held(&host).await.parse::<usize>().unwrap() > 50 << 20 })
        .await;
    // Requests and answers of up to some 100 KiB.
    for text in ["hi".to_owned(), "x".repeat(100 << 10)] {
        for body in [chat_body(MODEL, &text), streaming(MODEL, &text)] {
            let answer = host.chat(&body).await;
            assert_eq!(answer.status, 200, "{}", answer.body());
            assert!(answer.text().contains("small"), "{}", answer.body());
        }
    }
    // The bodies never end, and are refused.
    for mut stream in open {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.is_empty() || answer.contains(" 408 ") || answer.contains(" 503 "), "{answer}");
    }
    releases_all(&host).await;
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly_is_refused_at_every_endpoint() {
    let host = TestHost::new().config("[server]\nbody_timeout_ms = 500").start().await;
    host.upstream.script(|request| Reply::fitting(request, "fine"));
    let body = |path: &str| {
        match path {
        "/v1/audio/transcriptions" => "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc".repeat(40),
        _ => json!({"model": MODEL, "input": "hi", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
            .to_string(),
    }
    };
    let paths = [
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/responses",
        "/api/chat",
        "/v1/embeddings",
        "/v1/audio/transcriptions",
        "/v1/files",
        "/chat/completions",
    ];
    let drops = paths.map(|path| {
        let text = body(path);
        let pieces = futures::stream::iter(text.into_bytes()).then(|byte| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<_, std::io::Error>(vec![byte])
        });
        let kind =
            if path.contains("audio") { "multipart/form-data; boundary=x" } else { "application/json" };
        let request = host.request("POST", path).header("content-type", kind);
        async move {
            let answer = request.body(reqwest::Body::wrap_stream(pieces)).send().await;
            if let Ok(answer) = answer {
                assert_eq!(answer.status(), 408, "{path}: {}", answer.text().await.unwrap());
            }
        }
    });
    futures::future::join_all(drops).await;
    releases_all(&host).await;
    // One that is slow but keeps the rate.
    let text = chat_body(MODEL, &"z".repeat(4 << 10)).to_string();
    let pieces: Vec<Vec<u8>> = text.as_bytes().chunks(256).map(<[u8]>::to_vec).collect();
    let pieces = futures::stream::iter(pieces).then(|piece| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok::<_, std::io::Error>(piece)
    });
    let request = host.request("POST", "/v1/chat/completions").header("content-type", "application/json");
    assert_eq!(Answer::of(request.body(reqwest::Body::wrap_stream(pieces))).await.text(), "fine");
}
