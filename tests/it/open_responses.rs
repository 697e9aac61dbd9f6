//! The checks of the Open Responses compliance suite, with its names, reimplemented because the suite is in
//! no package registry. Every response and event is validated against the published schema, with types
//! generated from it (the Python package `openresponses-types`).

use crate::host::{Answer, TestHost};
use crate::python::python;
use crate::responses_socket::Client;
use crate::upstream::{Reply, UpstreamRequest, chunk};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A red square of one pixel.
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const KEYS: &str = "[[server.keys]]\nuser = { id = \"ann\" }\nkey = \"ann-secret-0001\"";

/// The received responses and events with their names in the schema.
#[derive(Default)]
struct Transcript(Vec<(&'static str, Value)>);

impl Transcript {
    fn events(&mut self, events: &[Value]) {
        for event in events {
            let name = if event.get("status").is_some() { "socket error" } else { "event" };
            self.0.push((name, event.clone()));
        }
    }

    /// Validates the transcript. Returns the violations as an error.
    async fn fits(self, python: PathBuf) -> Result<String, String> {
        assert!(!self.0.is_empty());
        let lines: String = self.0.iter().map(|line| format!("{}\n", json!(line))).collect();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/open_responses.py");
        let output = tokio::task::spawn_blocking(move || {
            let mut command = Command::new(python);
            command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut checker = command.spawn().unwrap();
            // The checker reads all of its input before it writes more than a pipe holds.
            checker.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
            checker.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() {
            true => Ok(text),
            false => Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// A model that calls the offered tool and fails on request.
fn model(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let is_stream = body["stream"] == true;
    if request.last_text() == "fail" {
        return Reply::json(&json!({"error": {"message": "no", "type": "invalid_request_error"}}))
            .status(400);
    }
    if body["tools"].is_null() {
        return Reply::fitting(request, "one two three");
    }
    let arguments = json!({"location": "San Francisco, CA"}).to_string();
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}});
    if is_stream {
        let (first, end) =
            (chunk(&json!({"tool_calls": [call]}), None), chunk(&json!({}), Some("tool_calls")));
        return Reply::raw("text/event-stream", [&first, &end, "data: [DONE]\n\n"].concat());
    }
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    Reply::json(
        &json!({"id": "c", "object": "chat.completion", "created": 1, "model": "mock-1", "choices": [choice], "usage": usage}),
    )
}

async fn host() -> TestHost {
    let host = TestHost::new()
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .config(KEYS)
        .filter("identity", "fn inlet(body) { body }\nfn stream(event) { event }\nfn outlet(body) { body }")
        .start()
        .await;
    host.upstream.script(model);
    host
}

async fn post(host: &TestHost, path: &str, body: &Value) -> Answer {
    let request = host.request("POST", path).header("content-type", "application/json");
    Answer::of(request.bearer_auth("ann-secret-0001").body(body.to_string())).await
}

fn message(role: &str, content: &Value) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

fn weather() -> Value {
    let parameters =
        json!({"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]});
    json!([{"type": "function", "name": "get_weather", "description": "The weather of a place", "parameters": parameters}])
}

/// Returns the requests that get a response, by the names of the suite.
fn requests() -> Vec<(&'static str, Value)> {
    let input_message = |role: &str, text: &str| message(role, &json!(text));
    let phased = |text: &str, phase: &str| json!({"type": "message", "role": "assistant", "content": text, "phase": phase});
    let image =
        json!([{"type": "input_text", "text": "which color?"}, {"type": "input_image", "image_url": IMAGE}]);
    vec![
        ("basic-response", json!({"input": [input_message("user", "say hello")]})),
        (
            "assistant-phase",
            json!({"input": [
                input_message("user", "the weather?"),
                phased("I will look it up.", "commentary"),
                phased("It is cold.", "final_answer"),
                input_message("user", "and tomorrow?"),
            ]}),
        ),
        (
            "system-prompt",
            json!({"input": [input_message("system", "You are a pirate."), input_message("user", "say hello")]}),
        ),
        (
            "tool-calling",
            json!({"input": [input_message("user", "the weather in San Francisco?")], "tools": weather()}),
        ),
        ("image-input", json!({"input": [message("user", &image)]})),
        (
            "multi-turn",
            json!({"input": [input_message("user", "I am Ann."), input_message("assistant", "Hello Ann!"), input_message("user", "who am I?")]}),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_over_http_pass_the_checks_of_open_responses() {
    let Some(python) = python() else { return };
    let host = host().await;
    let mut received = Transcript::default();
    for (name, mut body) in requests() {
        body["model"] = json!("mock-1");
        let whole = post(&host, "/v1/responses", &body).await.ok();
        assert_eq!(whole["status"], "completed", "{name}: {whole}");
        let expected = if name == "tool-calling" { "function_call" } else { "message" };
        assert_eq!(whole["output"][0]["type"], expected, "{name}: {whole}");
        received.0.push(("response", whole));
        // The suite streams only one of them; here each is streamed.
        body["stream"] = json!(true);
        let streamed = post(&host, "/v1/responses", &body).await.typed_events();
        assert_eq!(streamed.last().unwrap()["response"]["status"], "completed", "{name}: {streamed:?}");
        let kinds: Vec<&str> = streamed.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let delta = match expected {
            "message" => "response.output_text.delta",
            _ => "response.function_call_arguments.delta",
        };
        for kind in ["response.created", "response.output_item.added", delta, "response.output_item.done"] {
            assert!(kinds.contains(&kind), "{name} (streaming-response): {kind} is missing in {kinds:?}");
        }
        received.events(&streamed);
    }
    let input = json!([message("user", &json!("I am Ann.")), message("assistant", &json!("Hello Ann!"))]);
    let compacted = post(&host, "/v1/responses/compact", &json!({"model": "mock-1", "input": input})).await;
    let compacted = compacted.ok();
    let has_summary = compacted["output"].as_array().unwrap().iter().any(|item| item["type"] == "compaction");
    assert!(has_summary, "compact-response: {compacted}");
    received.0.push(("compaction", compacted));
    let refused = post(&host, "/v1/responses/compact", &json!({"input": input})).await;
    assert!(matches!(refused.status, 400 | 422), "compact-missing-model: {}", refused.body());
    assert!(refused.json()["error"]["message"].is_string(), "compact-missing-model: {}", refused.body());
    eprintln!("{}", received.fits(python).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: responses_over_http_pass_the_checks_of_open_responses"]
async fn responses_over_a_websocket_pass_the_checks_of_open_responses() {
    let Some(python) = python() else { return };
    let host = host().await;
    let mut received = Transcript::default();
    let mut client = Client::open(&host, "ann-secret-0001").await.unwrap();
    let mut ask = async |client: &mut Client, name: &str, body: Value, expected: &str| {
        client.send(body).await;
        let events = client.events().await;
        received.events(&events);
        let last = events.last().unwrap();
        if expected == "completed" {
            assert_eq!(last["response"]["status"], expected, "{name}: {last}");
            assert_ne!(last["response"]["output"], json!([]), "{name}: {last}");
        } else {
            assert_eq!(
                (&last["type"], &last["error"]["code"]),
                (&json!("error"), &json!(expected)),
                "{name}: {last}"
            );
        }
        last["response"]["id"].clone()
    };
    let one = |text: &str| json!({"input": [message("user", &json!(text))], "store": false});
    let after = |id: &Value, text: &str| {
        let mut body = one(text);
        body["previous_response_id"] = id.clone();
        body
    };
    let (ends, missing) = ("completed", "previous_response_not_found");

    ask(&mut client, "websocket-response", one("hello"), ends).await;
    ask(&mut client, "websocket-sequential-responses", one("first"), ends).await;
    ask(&mut client, "websocket-sequential-responses", one("second"), ends).await;
    let first = ask(&mut client, "websocket-continuation", one("I am Ann."), ends).await;
    let second = ask(&mut client, "websocket-continuation", after(&first, "who am I?"), ends).await;
    let sent = host.upstream.last().json();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 3, "websocket-continuation: {sent}");

    // Responses that were not stored are lost with their connection; a new chain starts on the next one.
    let mut other = Client::open(&host, "ann-secret-0001").await.unwrap();
    let name = "websocket-reconnect-store-false-recovery";
    ask(&mut other, name, after(&second, "go on"), missing).await;
    ask(&mut other, name, one("start again"), ends).await;
    let name = "websocket-previous-response-not-found";
    ask(&mut other, name, after(&json!("resp_of_nobody"), "go on"), missing).await;

    // After a failed continuation, the response cannot be continued.
    let name = "websocket-failed-continuation-evicts-cache";
    let first = ask(&mut client, name, one("first"), ends).await;
    client.send(after(&first, "fail")).await;
    let failed = client.events().await.pop().unwrap();
    assert_ne!(failed["type"], "response.completed", "{name}: {failed}");
    ask(&mut client, name, after(&first, "again"), missing).await;

    // A compacted conversation starts a new chain.
    let name = "websocket-compact-new-chain";
    let input = json!([message("user", &json!("I am Ann.")), message("assistant", &json!("Hello Ann!"))]);
    let compacted =
        post(&host, "/v1/responses/compact", &json!({"model": "mock-1", "input": input})).await.ok();
    let mut input = compacted["output"].as_array().unwrap().clone();
    input.push(message("user", &json!("who am I?")));
    ask(&mut client, name, json!({"input": input, "store": false}), ends).await;
    received.0.push(("compaction", compacted));
    eprintln!("{}", received.fits(python).await.unwrap());
}

/// The suite's response-output-phase-schema, and a test that the checker reports violations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: responses_over_http_pass_the_checks_of_open_responses"]
async fn the_open_responses_schema_accepts_a_phase_and_rejects_invalid_items() {
    let Some(python) = python() else { return };
    let host = host().await;
    let whole = post(&host, "/v1/responses", &json!({"model": "mock-1", "input": "hello"})).await.ok();
    let check = async |name: &'static str, change: fn(&mut Value)| {
        let mut changed = whole.clone();
        change(&mut changed);
        Transcript(vec![(name, changed)]).fits(python.clone()).await
    };
    check("response", |response| response["output"][0]["phase"] = json!("final_answer")).await.unwrap();
    let found =
        check("response", |response| response["output"][0]["phase"] = json!("loud")).await.unwrap_err();
    assert!(found.contains("phase"), "{found}");
    let found = check("response", |response| response["temperature"] = json!("1")).await.unwrap_err();
    assert!(found.contains("temperature"), "{found}");
    let found = check("event", |event| event["type"] = json!("response.invented")).await.unwrap_err();
    assert!(found.contains("unknown event"), "{found}");
}
