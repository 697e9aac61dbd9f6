//! Middleware of a host's models, by configuration.

use crate::host::{TIMEOUT, TestHost};
use crate::upstream::{MODEL, Reply, UpstreamRequest};
use serde_json::{Value, json};
use std::process::Command;

const ECHO: &str = r#"
const parameters = #{ text: #{ type: "string" } };
fn handler(args) { args.text }
"#;

/// Returns the configuration of a model with additional lines.
fn model(lines: &str) -> String {
    format!(
        "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\ntools = [\"*\"]\n\
         max_tool_iterations = 100\n{lines}\n"
    )
}

async fn host(lines: &str) -> TestHost {
    TestHost::new().tool("mirror", ECHO).config(&model(lines)).start().await
}

fn chat_request(text: &str) -> Value {
    json!({"model": "assistant", "chat_id": "c", "messages": [{"role": "user", "content": text}]})
}

fn calls(texts: &[&str]) -> Reply {
    let call = |(number, text): (usize, &&str)| {
        json!({"id": format!("call_{number}"), "type": "function",
            "function": {"name": "mirror", "arguments": json!({"text": text}).to_string()}})
    };
    let calls: Vec<Value> = texts.iter().enumerate().map(call).collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
}

/// Makes the model call the tool with a text until it has the given number of results, then return the last
/// result.
fn calling(host: &TestHost, text: &'static str, rounds: usize) {
    host.upstream.script(move |request: &UpstreamRequest| {
        let body = request.json();
        let results = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
        if results.count() < rounds { calls(&[text]) } else { Reply::text(&request.last_text()) }
    });
}

#[tokio::test]
async fn a_preset_limits_a_model_and_its_options_can_be_overridden_one_by_one() {
    let minimal = host("preset = \"minimal\"").await;
    calling(&minimal, "x", 90);
    minimal.chat(&chat_request("go")).await.refused(429, "this turn exceeded its limit of 20 model calls");
    assert_eq!(minimal.upstream.requests().len(), 20);
    let fewer = host("preset = \"minimal\"\nmiddleware = { call_limit = { max_model_calls = 2 } }").await;
    calling(&fewer, "x", 90);
    fewer.chat(&chat_request("go")).await.refused(429, "raise it with max_model_calls");
    assert_eq!(fewer.upstream.requests().len(), 2);
    fewer.upstream.script(|_| calls(&["x"; 11]));
    fewer.chat(&chat_request("go")).await.refused(429, "10 tool calls for one answer");
}

#[tokio::test]
async fn call_limit_counts_each_run_separately() {
    let host = host("middleware = { call_limit = { max_model_calls = 2 } }").await;
    calling(&host, "x", 1);
    for _ in 0..3 {
        let answer = host.chat(&chat_request("go")).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
    }
}

#[tokio::test]
async fn model_fallback_calls_other_models_of_the_host_by_name() {
    let other = "[[models]]\nname = \"spare\"\nprovider = \"mock\"\nmodel = \"mock-2\"";
    let lines = format!("middleware = {{ model_fallback = {{ models = [\"spare\"] }} }}\n{other}");
    let host = host(&lines).await;
    host.upstream.script(|request| match request.json()["model"].as_str() {
        Some("mock-2") => Reply::text("from the spare one"),
        _ => Reply::raw("application/json", r#"{"error":{"message":"busy"}}"#).status(503),
    });
    assert_eq!(host.chat(&chat_request("hi")).await.text(), "from the spare one");
    assert_eq!(host.upstream.requests().len(), 2);
}

#[tokio::test]
async fn pii_redacts_for_the_model_and_keeps_the_stored_messages() {
    let host = host("middleware = { pii = { strategy = \"redact\" } }").await;
    assert_eq!(host.chat(&chat_request("write to ann@example.com")).await.status, 200);
    assert_eq!(host.upstream.last().last_text(), "write to [email]");
    let remembered = super::lines(&host.store().messages("c", 0, 9).await.unwrap());
    assert_eq!(remembered[0], "user: write to ann@example.com");
}

#[tokio::test]
async fn blocking_pii_rejects_without_calling_the_model() {
    let host = host("middleware = { pii = { strategy = \"block\" } }").await;
    let refused = host.chat(&chat_request("write to ann@example.com")).await;
    assert!((400..500).contains(&refused.status), "{}", refused.body());
    assert!(host.upstream.requests().is_empty());
}

#[tokio::test]
async fn context_editing_hides_old_results_from_the_model_and_keeps_them_stored() {
    let long = "long ".repeat(2000);
    let long: &'static str = Box::leak(long.into_boxed_str());
    let host = host("middleware = { context_editing = {} }").await;
    calling(&host, long, 8);
    assert_eq!(host.chat(&chat_request("go")).await.status, 200);
    let last = host.upstream.last().json();
    let results: Vec<&Value> =
        last["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 8, "each call keeps a result");
    assert!(results[0]["content"].as_str().unwrap().len() < 200 && results[7]["content"] == long);
    let remembered = host.store().messages("c", 0, 99).await.unwrap();
    assert!(super::lines(&remembered).iter().filter(|line| line.starts_with("tool: long long")).count() == 8);
}

#[tokio::test]
async fn a_configured_model_summarizes_automatically() {
    let options = "{ window_size = 2, compress_threshold = 3, summarize = true }";
    let host = host(&format!("middleware = {{ summarization = {options} }}")).await;
    for text in ["one", "two", "three"] {
        assert_eq!(host.chat(&chat_request(text)).await.status, 200);
    }
    let seen = super::sent(&crate::kernel::json(&host.upstream.last().text()));
    assert!(seen[0].contains("Summary of the first"), "{seen:?}");
    assert_eq!(host.store().messages("c", 0, 99).await.unwrap().len(), 6);
}

/// Returns the reason why a host with these lines in a model's entry does not start, as `valvehouse check`
/// and `serve` report it.
fn wrong(lines: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let demo = format!("[[models]]\nname = \"assistant\"\nprovider = \"demo\"\n{lines}\n");
    let toml = format!("[[providers]]\nname = \"demo\"\nkind = \"demo\"\n{demo}");
    std::fs::write(folder.path().join("valvehouse.toml"), toml).unwrap();
    let outputs = ["check", "serve"].map(|command| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"))
            .arg(command)
            .current_dir(folder.path())
            .env("NO_COLOR", "1")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let end = std::time::Instant::now() + TIMEOUT;
        while command.try_wait().unwrap().is_none() {
            if std::time::Instant::now() > end {
                command.kill().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let output = command.wait_with_output().unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success(), "{lines}: {text}");
        text
    });
    let [check, serve] = outputs;
    assert!(serve.contains("model `assistant`") || serve.contains("models.assistant"), "{serve}");
    format!("{check}\n{serve}")
}

#[test]
fn typos_in_presets_middleware_and_options_are_reported_at_startup() {
    for (lines, expected) in [
        ("preset = \"minimum\"", ["unknown preset \"minimum\"", "did you mean `minimal`"]),
        ("middleware = { cal_limit = {} }", ["unknown middleware \"cal_limit\"", "call_limit"]),
        ("middleware = { call_limit = { max_model_call = 2 } }", ["max_model_call", "max_model_calls"]),
        ("middleware = { call_limit = { max_model_calls = \"two\" } }", ["\"two\"", "max_model_calls"]),
        ("middleware = { call_limit = 5 }", ["call_limit", "options"]),
        ("middleware = { human_approval = { mode = \"selective\" } }", ["selects nothing", "list `tools`"]),
        (
            "middleware = { model_fallback = { models = [\"other\"] } }",
            ["unknown model \"other\"", "assistant"],
        ),
        ("middleware = []", ["middleware", "must be a table"]),
    ] {
        let text = wrong(lines);
        for words in expected {
            assert!(text.contains(words), "{words:?} is not in what {lines} says: {text}");
        }
    }
}
