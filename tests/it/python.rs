//! OpenAI's official Python client.

use crate::generator::clients;
use crate::host::TestHost;
use crate::upstream::Reply;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Refuses in several ways.
pub(crate) const REFUSES: &str = r#"
fn inlet(body) {
    switch body.messages[-1].text {
        "refuse" => throw "refused by the house",
        "slow" => throw #{ status: 429, message: "come back later", retry_after: 3 },
        "deny" => deny("not for you", 403),
        "break" => { let x = [1]; x[9] }
        _ => body
    }
}
"#;
/// Marks the response as seen.
const SEES: &str = r#"
fn outlet(body) { body.messages[-1].text += " (seen)"; body }
"#;

/// Returns the Python that `tests/run` installs; `None` if it is missing.
pub(crate) fn python() -> Option<PathBuf> {
    let named = std::env::var_os("VALVEHOUSE_PYTHON").map(PathBuf::from);
    let python =
        named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python"));
    if python.is_file() {
        return Some(python);
    }
    let required = ["CI", "VALVEHOUSE_REQUIRE_PYTHON"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(!required, "{} is not there: run tests/run, which makes it", python.display());
    eprintln!("skipped: {} is not there; tests/run makes it", python.display());
    None
}

/// Starts the host for the tests of official clients: it refuses in several ways, runs tools, and its service
/// fails on request.
pub(crate) async fn host() -> TestHost {
    // A second provider, so that an unknown model has no default.
    let host = TestHost::new()
        .filter("rules", [REFUSES, SEES].concat())
        .config("[[providers]]\nname = \"away\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodels = \"*\"")
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .config(crate::tools::HELPER)
        .tool("counters", crate::tools::COUNTERS)
        .start()
        .await;
    let busy = json!({"error": {"message": "the service is busy", "type": "t", "param": null, "code": null}});
    host.upstream.script(move |request| match request.last_text().as_str() {
        "busy" => Reply::json(&busy).status(429),
        "cut" => Reply::begun(["half an "]).then_cut(),
        _ => Reply::fitting(request, "hello from upstream"),
    });
    host
}

/// Runs a client to its end and prints the last line of its output.
pub(crate) async fn passes(mut client: Command) {
    client.env("NO_PROXY", "127.0.0.1");
    let output = tokio::task::spawn_blocking(move || client.output()).await.unwrap().expect("a client runs");
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}\n{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{}", output_text.lines().last().unwrap_or_default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_sdk_chats_streams_lists_models_and_reads_errors() {
    let Some(mut client) = clients::python("tests/python/openai_client.py") else { return };
    let host = host().await;
    client.arg(host.url("/v1"));
    passes(client).await;
    let sent =
        host.upstream.requests().into_iter().find(|request| request.text().contains("own_field")).unwrap();
    assert!(sent.text().contains(r#""own_field":{"b":1,"a":2}"#), "{}", sent.text());
}
