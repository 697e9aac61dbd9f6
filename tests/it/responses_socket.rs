//! Responses over a WebSocket, which is Codex's first choice.

use crate::host::{TestHost, until};
use crate::memory_limits::held;
use crate::upstream::{Gate, Reply};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

const KEYS: &str = "[[server.keys]]\nuser = { id = \"ann\" }\nkey = \"ann-secret-0001\"";
const LOUD: &str = "fn stream(event) { event.text = event.text.to_upper(); event }";

pub(crate) struct Client(WebSocketStream<TcpStream>);

impl Client {
    pub(crate) async fn open(host: &TestHost, key: &str) -> Result<Self, Error> {
        let url = host.url("/v1/responses");
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        let stream = TcpStream::connect(&address).await.unwrap();
        let mut request = url.replacen("http", "ws", 1).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        tokio_tungstenite::client_async(request, stream).await.map(|(stream, _)| Self(stream))
    }

    pub(crate) async fn send(&mut self, mut body: Value) {
        body["type"] = json!("response.create");
        body["model"] = json!("mock-1");
        self.0.send(Message::text(body.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// Returns the events of a response up to its last one or its error.
    pub(crate) async fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.expect("the connection ended in the middle of a response");
            let kind = event["type"].as_str().unwrap();
            if matches!(kind, "response.completed" | "response.failed") || event.get("status").is_some() {
                events.push(event);
                return events;
            }
            assert_eq!(event["sequence_number"], events.len(), "{event}");
            events.push(event);
        }
    }

    /// Returns the last event of a response, or its error.
    async fn end(&mut self) -> Value {
        self.events().await.pop().unwrap()
    }

    async fn ask(&mut self, body: Value) -> Value {
        self.send(body).await;
        self.end().await
    }
}

#[tokio::test]
async fn an_error_has_the_headers_on_which_clients_act() {
    let host = host().await;
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    let error = client.ask(json!({"input": "wait"})).await;
    assert_eq!((&error["status"], &error["error"]["code"]), (&json!(429), &json!("rate_limit_exceeded")));
    assert_eq!(error["headers"], json!({"retry-after": "70", "x-ratelimit-limit-requests": "3"}));
    assert!(client.ask(json!({"input": "fail"})).await.get("headers").is_none());
}

async fn host() -> TestHost {
    let model = "[[models]]\nname = \"mock-1\"\nprovider = \"mock\"";
    let host = TestHost::new().config(model).config(KEYS).filter("loud", LOUD).start().await;
    host.upstream.script(|request| match request.last_text().as_str() {
        "fail" => Reply::text("no").status(400),
        "wait" => Reply::json(&json!({"error": {"message": "slow down"}}))
            .status(429)
            .header("retry-after", "70")
            .header("x-ratelimit-limit-requests", "3")
            .header("x-internal", "no"),
        _ => Reply::fitting(request, "hello"),
    });
    host
}

fn text(event: &Value) -> &str {
    event["response"]["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{event}"))
}

#[tokio::test]
async fn responses_follow_each_other_on_a_socket_and_pass_the_filters() {
    let host = host().await;
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    // Both are sent at once and answered one after the other.
    client.send(json!({"input": "one"})).await;
    client.send(json!({"input": "two"})).await;
    for _ in 0..2 {
        assert_eq!(text(&client.end().await), "HELLO");
    }
    let texts: Vec<String> = host.upstream.requests().iter().map(|request| request.last_text()).collect();
    assert_eq!(texts, ["one", "two"]);
    // A stored response can be continued on any connection and over HTTP.
    let first = client.ask(json!({"input": "three"})).await;
    let mut other = Client::open(&host, "ann-secret-0001").await.unwrap();
    other.ask(json!({"input": "four", "previous_response_id": first["response"]["id"]})).await;
    assert_eq!(host.upstream.last().json()["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_unstored_response_continues_only_on_its_connection() {
    let host = host().await;
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    let missing = json!("previous_response_not_found");
    let first = client.ask(json!({"input": "one", "store": false})).await["response"]["id"].clone();
    let on = |text: &str, id: &Value| json!({"input": text, "store": false, "previous_response_id": id});
    let mut other = Client::open(&host, "ann-secret-0001").await.unwrap();
    let refused = other.ask(on("two", &first)).await;
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!(400), &missing), "{refused}");
    // A connection stays usable after an error.
    assert_eq!(text(&other.ask(json!({"input": "hi"})).await), "HELLO");
    let second = client.ask(on("two", &first)).await["response"]["id"].clone();
    let contents = host.upstream.last().json()["messages"].as_array().unwrap().clone();
    let contents: Vec<&str> = contents.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["one", "HELLO", "two"]);
    let lost = client.ask(on("three", &first)).await;
    assert_eq!(lost["error"]["code"], missing, "only the latest response is kept");
    let failed = client.ask(on("fail", &second)).await;
    assert_ne!(failed["type"], "response.completed", "{failed}");
    assert_eq!(client.ask(on("three", &second)).await["error"]["code"], missing);
}

#[tokio::test]
async fn a_prepared_response_calls_no_model() {
    let host = host().await;
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    let prepared = client.ask(json!({"input": "one", "store": false, "generate": false})).await;
    assert_eq!(prepared["response"]["output"], json!([]));
    assert!(host.upstream.requests().is_empty());
    let id = &prepared["response"]["id"];
    client.ask(json!({"input": "two", "store": false, "previous_response_id": id})).await;
    assert_eq!(host.upstream.last().json()["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_socket_requires_a_key_and_reports_unreadable_messages() {
    let host = host().await;
    match Client::open(&host, "wrong-secret-0001").await {
        Err(Error::Http(response)) => assert_eq!(response.status(), 401),
        other => panic!("{:?}", other.map(|_| ())),
    }
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    for (message, words) in [
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        (r#"{"type": "response.cancel"}"#, "expected an object with"),
        (r#"{"type": "response.create", "input": "hi"}"#, "missing model"),
        (
            r#"{"type": "response.create", "model": "mock-1", "input": "hi", "previous_response_id": "resp_no"}"#,
            "previous response",
        ),
    ] {
        client.0.send(Message::text(message)).await.unwrap();
        let error = client.end().await;
        assert!(error["error"]["message"].as_str().is_some_and(|message| message.contains(words)), "{error}");
        assert!(
            error["error"]["code"].as_str().is_some() && error["status"].as_u64().unwrap() >= 400,
            "{error}"
        );
    }
    assert_eq!(text(&client.ask(json!({"input": "hi"})).await), "HELLO");
}

#[tokio::test]
async fn a_turn_ends_with_its_socket_and_a_stopping_host_closes_it() {
    let mut host = host().await;
    let gate = Gate::closed();
    let waits = gate.clone();
    host.upstream.script(move |_| Reply::begun(["one "]).then_gate(&waits));
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    client.send(json!({"input": "hi"})).await;
    while client.next().await.unwrap()["type"] != "response.output_text.delta" {}
    let running = || host.app().traces.running();
    assert_eq!(running(), 1);
    drop(client);
    until("the turn ended with its client", async || running() == 0).await;
    gate.open();
    let mut idle = Client::open(&host, "ann-secret-0001").await.unwrap();
    host.stop().await;
    assert_eq!(idle.next().await, None);
}

#[tokio::test]
async fn unfinished_messages_count_toward_the_memory_of_the_host() {
    let host = TestHost::new().config("[server]\nmax_memory_mb = 16").config(KEYS).start().await;
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    let part = Frame::message(vec![b'x'; 8 << 20], OpCode::Data(Data::Text), false);
    client.0.send(Message::Frame(part)).await.unwrap();
    let more = Frame::message(vec![b'x'; 8 << 20], OpCode::Data(Data::Continue), false);
    // The connection may be closed before all of it is sent.
    let _ = client.0.send(Message::Frame(more)).await;
    let refused = client.next().await.unwrap();
    assert_eq!(
        (&refused["status"], &refused["error"]["code"]),
        (&json!(503), &json!("host_too_busy")),
        "{refused}"
    );
    assert_eq!(client.next().await, None, "the connection is closed");
    drop(client);
    until("the memory is released", || async { held(&host).await == "0" }).await;
}

#[tokio::test]
async fn an_unfinished_message_that_pings_keep_alive_is_closed() {
    let host = TestHost::new().config("[server]\nbody_timeout_ms = 500").config(KEYS).start().await;
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    let part = Frame::message(vec![b'x'; 1 << 20], OpCode::Data(Data::Text), false);
    client.0.send(Message::Frame(part)).await.unwrap();
    let begun = std::time::Instant::now();
    let ended = loop {
        tokio::select! {
            message = client.0.next() => match message {
                Some(Ok(Message::Pong(_))) => {}
                other => break other,
            },
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                let _ = client.0.send(Message::Ping("p".into())).await;
            }
        }
    };
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(format!("{ended:?}").contains("too slowly"), "{ended:?}");
    until("the memory is released", || async { held(&host).await == "0" }).await;
    // A connection without an unfinished message stays open.
    let mut idle = Client::open(&host, "ann-secret-0001").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    idle.0.send(Message::Ping("p".into())).await.unwrap();
    assert!(matches!(idle.0.next().await, Some(Ok(Message::Pong(_)))));
}

#[tokio::test]
async fn prepared_responses_count_toward_the_memory_of_the_host() {
    let model = "[[models]]\nname = \"mock-1\"\nprovider = \"mock\"";
    let host =
        TestHost::new().config("[server]\nmax_memory_mb = 64").config(model).config(KEYS).start().await;
    let prepared = || json!({"input": "y".repeat(4 << 20), "generate": false, "store": false});
    let mut clients = Vec::new();
    let refused = loop {
        assert!(clients.len() < 12, "prepared responses are not counted");
        let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
        let end = client.ask(prepared()).await;
        clients.push(client);
        if end.get("status").is_some() {
            break end;
        }
    };
    assert_eq!(refused["error"]["code"], "host_too_busy", "{refused}");
    assert!(clients.len() > 1, "one is kept");
    drop(clients);
    until("the memory is released", || async { held(&host).await == "0" }).await;
}

#[tokio::test]
async fn open_sockets_are_limited_for_each_client_and_in_all() {
    let keys =
        "[server]\nmax_sockets = 3\nmax_sockets_each = 2\nkeys = [\"first-secret-01\", \"second-secret-01\"]";
    let host = TestHost::new().config(keys).start().await;
    let open = async |key: &str| Client::open(&host, key).await;
    let status = |opened: Result<Client, Error>| match opened {
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
        Ok(_) => 101,
    };
    let _first = open("first-secret-01").await.unwrap();
    let second = open("first-secret-01").await.unwrap();
    assert_eq!(status(open("first-secret-01").await), 429);
    let _third = open("second-secret-01").await.unwrap();
    assert_eq!(status(open("second-secret-01").await), 503);
    drop(second);
    until("the socket is closed", || async { open("second-secret-01").await.is_ok() }).await;
}
