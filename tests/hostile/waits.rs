//! A hook that waits again and again: its wall-clock time is bounded.

use super::host::{Host, project};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

const ANSWER: &str =
    r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;

/// Starts a service that responds slowly.
fn slow_service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                let mut bytes = [0; 4_096];
                while !String::from_utf8_lossy(&seen).contains("]}") {
                    match stream.read(&mut bytes) {
                        Ok(0) | Err(_) => return,
                        Ok(read) => seen.extend_from_slice(&bytes[..read]),
                    }
                }
                std::thread::sleep(Duration::from_millis(200));
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{ANSWER}", ANSWER.len());
            });
        }
    });
    format!("http://{address}/v1")
}

#[test]
#[ignore = "long; short: concurrent_waiting_calls_hold_bounded_memory"]
fn a_hook_that_calls_models_endlessly_ends_at_its_time_limit() {
    let settings = format!(
        "\n[[providers]]\nname = \"slow\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"x\"\nmodels = \"*\"\n\n\
         [[providers]]\nname = \"demo\"\nkind = \"demo\"\n",
        slow_service()
    );
    let asks = r#"/*
global: false
requirements: llm
*/
fn inlet(body) {
    for i in 0..1_000_000 { llm::chat(#{ model: "slow/x", messages: [#{ role: "user", content: "hi" }] }); }
    body
}"#;
    let folder = project(&settings, "filters/hostile.rhai", asks);
    let mut host = Host::start_in(&folder);
    // The client gives up after two minutes, four times the limit of the hook.
    let answer = host.ask("hostile", "hello", false);
    let log = host.end();
    assert!(answer.is(500) && log.contains("did not end within"), "{answer:?}\n{log}");
}
