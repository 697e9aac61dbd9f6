//! The official conformance suite, with an empty list of expected failures.

use super::fixtures;
use crate::javascript::node_with;
use std::path::PathBuf;
use std::process::Command;

/// The suite's own program on a Node.js that is new enough for it, which comes with the packages.
fn suite() -> Option<Command> {
    let node = node_with("@modelcontextprotocol/conformance")?;
    let modules =
        node.get_envs().find(|(name, _)| *name == "NODE_PATH").unwrap().1.map(PathBuf::from).unwrap();
    let mut suite = Command::new(modules.join("node/bin/node"));
    suite.arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"));
    Some(suite)
}

async fn passes(requirements: &'static str) {
    let Some(mut suite) = suite() else { return };
    let host = fixtures::host().await;
    suite.args(["server", "--requirements", requirements, "--url", &host.url("/mcp")]);
    let output = tokio::task::spawn_blocking(move || suite.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // A suite that ran nothing has not passed.
    assert!(text.contains("tools-call-simple-text"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_requirement_of_2025_11_25_on_a_server_is_met_by_scripts() {
    passes("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_requirement_of_2026_07_28_on_a_server_is_met_by_scripts() {
    passes("2026-07-28").await;
}
