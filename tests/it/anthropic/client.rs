//! Anthropic's own Python client.

use super::{AWAY, LOUD, WEATHER, claude};
use crate::host::TestHost;
use crate::python::{REFUSES, python};
use crate::upstream::Reply;
use serde_json::json;
use std::path::Path;
use std::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_openai_python_sdk_sees_one_end_despite_any_filter"]
async fn the_anthropic_sdk_chats_streams_calls_tools_thinks_and_reads_errors() {
    let Some(python) = python() else { return };
    let has_client = Command::new(&python).args(["-c", "import anthropic"]).output();
    if !has_client.is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("VALVEHOUSE_REQUIRE_PYTHON").is_none(), "no anthropic: run tests/run");
        eprintln!("skipped: Python has no anthropic; tests/run installs it");
        return;
    }
    let (claude, config) = claude::start().await;
    let host = TestHost::new()
        .config(&config)
        .config(AWAY)
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .config(crate::tools::HELPER)
        .tool("counters", crate::tools::COUNTERS)
        .tool("get_weather", WEATHER)
        .filter("rules", REFUSES)
        .filter("loud", LOUD)
        .start()
        .await;
    let busy = json!({"error": {"message": "the service is busy", "type": "t", "param": null, "code": null}});
    host.upstream.script(move |request| match request.last_text().as_str() {
        "busy" => Reply::json(&busy).status(429),
        "cut" => Reply::begun(["half an "]).then_cut(),
        _ => Reply::fitting(request, "hello from upstream"),
    });
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/anthropic_client.py");
    let mut command = Command::new(python);
    command.arg(client).arg(host.url("")).env("NO_PROXY", "127.0.0.1").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().expect("Python runs");
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}\n{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{}", output_text.lines().last().unwrap_or_default());
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}"#;
    assert!(host.upstream.requests().iter().any(|request| request.text().contains(image)));
    let image =
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}"#;
    assert!(claude.requests().iter().any(|request| request.text().contains(image)));
}
