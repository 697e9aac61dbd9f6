//! The official Python and TypeScript clients, over HTTP and over stdin and stdout.

use super::fixtures;
use crate::javascript::node_with;
use crate::python::{passes, python};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const BINARY: &str = env!("CARGO_BIN_EXE_valvehouse");

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Returns Python with the official SDK, which `tests/run` installs.
pub(super) fn python_with_mcp() -> Option<PathBuf> {
    let python = python()?;
    let has =
        Command::new(&python).args(["-c", "import mcp.client.client"]).output().unwrap().status.success();
    let required = ["CI", "VALVEHOUSE_REQUIRE_PYTHON"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(has || !required, "{} has no mcp: run tests/run, which installs it", python.display());
    has.then_some(python)
}

pub(super) fn python_server() -> PathBuf {
    script("python/mcp_server.py")
}

pub(super) fn javascript_server() -> PathBuf {
    script("javascript/mcp_server.mjs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: the_official_typescript_client_is_notified_of_a_saved_tool_without_connecting_again"]
async fn the_official_python_client_speaks_both_eras_over_http_and_stdio() {
    let Some(python) = python_with_mcp() else { return };
    let host = fixtures::host().await;
    let mut http = Command::new(&python);
    http.arg(script("python/mcp_client.py")).arg(host.url("/mcp"));
    passes(http).await;
    let mut stdio = Command::new(&python);
    stdio.arg(script("python/mcp_client.py")).arg(BINARY).arg(host.folder());
    passes(stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_typescript_client_is_notified_of_a_saved_tool_without_connecting_again() {
    let host = fixtures::host().await;
    for arguments in [vec![host.url("/mcp")], vec![BINARY.to_owned(), host.folder().display().to_string()]] {
        let Some(mut node) = node_with("@modelcontextprotocol/sdk") else { return };
        node.arg(script("javascript/mcp_client.mjs")).args(&arguments);
        let mut client = node.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let first = tokio::task::spawn_blocking(move || (lines.next(), lines)).await.unwrap();
        let (ready, mut lines) = first;
        if ready.is_none() {
            let mut text = String::new();
            client.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("{arguments:?}: {text}");
        }
        host.save_tool("fresh", "/*\ndescription: New\n*/\nfn handler(args) { \"fresh\" }");
        let last = tokio::task::spawn_blocking(move || lines.next()).await.unwrap();
        let mut text = String::new();
        client.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(last.and_then(Result::ok).as_deref(), Some("ok"), "{arguments:?}: {text}");
        client.wait().unwrap();
        std::fs::remove_file(host.folder().join("tools/fresh.rhai")).unwrap();
    }
}
