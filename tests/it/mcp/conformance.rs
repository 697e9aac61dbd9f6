//! The official conformance suite, for servers and for clients, with an empty list of expected failures.

use super::clients::BINARY;
use super::fixtures;
use crate::javascript::node_with;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a Node.js version that is recent enough for the suite, and the program of the suite.
fn suite() -> Option<(PathBuf, PathBuf)> {
    let node = node_with("@modelcontextprotocol/conformance")?;
    let modules =
        node.get_envs().find(|(name, _)| *name == "NODE_PATH").unwrap().1.map(PathBuf::from).unwrap();
    let program = modules.join("@modelcontextprotocol/conformance/dist/index.js");
    Some((modules.join("node/bin/node"), program))
}

/// Runs the suite and returns its report.
async fn run(mut suite: Command) -> String {
    let output = tokio::task::spawn_blocking(move || suite.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

async fn a_server_passes(requirements: &'static str) {
    let Some((node, program)) = suite() else { return };
    let host = fixtures::host().await;
    let mut suite = Command::new(node);
    suite.arg(program).args(["server", "--requirements", requirements, "--url", &host.url("/mcp")]);
    let text = run(suite).await;
    // A run without scenarios has not passed.
    assert!(text.contains("tools-call-simple-text"), "{text}");
}

async fn a_client_passes(requirements: &'static str) {
    let Some((node, program)) = suite() else { return };
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/javascript/mcp_conformance_client.mjs");
    let command = format!("{} {}", node.display(), client.display());
    let mut suite = Command::new(&node);
    suite.arg(program).args(["client", "--requirements", requirements, "--command", &command]);
    // A long timeout, for slow machines.
    suite.args(["--timeout", "120000"]).env("VALVEHOUSE_BINARY", BINARY);
    let text = run(suite).await;
    for scenario in ["tools_call", "auth/scope-step-up", "auth/pre-registration"] {
        assert!(text.contains(&format!("✓ {scenario}: ")), "{text}");
    }
    // A scenario without checks has not passed either.
    assert!(!text.contains(": 0 passed, 0 failed"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_requirement_of_2025_11_25_on_a_server_is_met_by_scripts() {
    a_server_passes("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: every_requirement_of_2025_11_25_on_a_server_is_met_by_scripts"]
async fn every_requirement_of_2026_07_28_on_a_server_is_met_by_scripts() {
    a_server_passes("2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: every_requirement_of_2025_11_25_on_a_server_is_met_by_scripts"]
async fn every_requirement_of_2025_11_25_on_a_client_is_met_by_mounted_servers() {
    a_client_passes("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long; short: every_requirement_of_2025_11_25_on_a_server_is_met_by_scripts"]
async fn every_requirement_of_2026_07_28_on_a_client_is_met_by_mounted_servers() {
    a_client_passes("2026-07-28").await;
}
