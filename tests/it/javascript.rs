//! OpenAI's official JavaScript client.

use crate::generator::clients;
use crate::python::{host, passes};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns Node.js with the client, which `tests/run` installs; `None` if it is missing.
pub(crate) fn node() -> Option<Command> {
    node_with("openai")
}

/// Returns Node.js with another package.
pub(crate) fn node_with(package: &str) -> Option<Command> {
    let named = std::env::var_os("VALVEHOUSE_NODE_MODULES").map(PathBuf::from);
    let modules =
        named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/javascript/node_modules"));
    if modules.join(package).is_dir() {
        let mut node = Command::new("node");
        node.env("NODE_PATH", modules);
        return Some(node);
    }
    let required = ["CI", "VALVEHOUSE_REQUIRE_NODE"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(!required, "{} has no {package}: run tests/run, which fetches it", modules.display());
    eprintln!("skipped: {} has no {package}; tests/run fetches it", modules.display());
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_sdk_chats_streams_lists_models_and_reads_errors() {
    let Some(mut client) = clients::javascript("tests/javascript/openai_client.cjs") else { return };
    let host = host().await;
    client.arg(host.url("/v1"));
    passes(client).await;
}
