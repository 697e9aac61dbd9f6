//! The table against what is really read, and the document in the repository against the table.

use super::*;
use crate::load::read_with_log;
use std::collections::{BTreeMap, BTreeSet};

/// One of everything, under the names of the table.
const ALL: &str = r#"
[server]
keys = [{ key = "sk", user = { id = "ann" } }]
[admin]
[folders]
[store]
[breaker]
[trace]
[otlp]
[[providers]]
name = "NAME"
kind = "openai"
timeouts = {}
retry = {}
breaker = {}
[[models]]
name = "NAME"
[[mcp]]
name = "name"
url = "http://127.0.0.1:1/mcp"
auth = "oauth"
oauth = {}
env = {}
[oauth]
authorization_servers = ["https://login.example.com"]
resource = "https://example.com/mcp"
[embeddings]
[filters.id]
budget = {}
[tools.id]
budget = {}
[actions.id]
budget = {}
[interceptors.id]
[grants.id]
"#;

/// The keys of [`ALL`] that have a value.
const GIVEN: [&str; 4] = ["mcp.name.url", "mcp.name.auth", "oauth.authorization_servers", "oauth.resource"];

fn described() -> BTreeMap<String, SettingRow> {
    SECTIONS
        .iter()
        .flat_map(|section| section.settings)
        .map(|it| (it.key.replace(".ID", ".id").replace("mcp.NAME", "mcp.name"), *it))
        .collect()
}

#[test]
fn every_key_that_is_read_is_described_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("valvehouse.toml"), ALL).unwrap();
    let (_, log) = read_with_log(folder.path());
    assert!(log.problems.is_empty(), "{:?}", log.problems);
    let asked = &log.asked;
    let is_table = |key: &&String| {
        asked.iter().any(|other| other.starts_with(&format!("{key}.")))
            || matches!(
                key.as_str(),
                "providers" | "models" | "mcp" | "filters" | "tools" | "actions" | "interceptors" | "grants"
            )
    };
    let leaves: BTreeSet<String> = asked.iter().filter(|key| !is_table(key)).cloned().collect();
    let known: BTreeSet<String> = described().into_keys().collect();
    assert_eq!(leaves, known);
}

#[test]
fn the_defaults_that_are_described_are_those_in_force() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("valvehouse.toml"), ALL).unwrap();
    let (config, _) = read_with_log(folder.path());
    let shown = effective(&config);
    let mut left: BTreeMap<String, SettingRow> = described();
    left.retain(|key, _| !key.starts_with("server.keys["));
    for one in &shown {
        let described = left.remove(&one.key).unwrap_or_else(|| panic!("{} is not described", one.key));
        match described.usual {
            // A server needs an address, and tokens need an issuer and what they are for.
            _ if GIVEN.contains(&one.key.as_str()) => {}
            "*none*" => assert_eq!(one.value, "", "{}", one.key),
            usual if usual.starts_with('*') => {}
            _ if one.key == "server.keys" => {}
            usual => assert_eq!(one.value, usual, "{}", one.key),
        }
    }
    let left: Vec<&String> = left.keys().collect();
    assert!(left.is_empty(), "not shown: {left:?}");
}

#[test]
fn no_secret_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let toml = "[server]\nkeys = [\"cAnArY1\", { key = \"cAnArY2\", user = { id = \"ann\" } }]\n\
        [admin]\nkey = \"cAnArY3\"\n[[providers]]\nname = \"openai\"\napi_key = \"cAnArY4\"\n\
        [filters.x]\nvalves = { token = \"cAnArY5\" }\n";
    std::fs::write(folder.path().join("valvehouse.toml"), toml).unwrap();
    let (config, log) = read_with_log(folder.path());
    assert!(log.problems.is_empty(), "{:?}", log.problems);
    let shown: String =
        effective(&config).iter().map(|one| format!("{} = {}\n", one.key, one.value)).collect();
    assert!(!shown.contains("cAnArY"), "{shown}");
    assert!(shown.contains("admin.key = \"***\"") && shown.contains("token = …"), "{shown}");
}

#[test]
fn the_page_in_the_repository_is_the_one_that_is_printed() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let written = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        written == document(),
        "docs/configuration.md is not what is printed: cargo run -- config --reference > docs/configuration.md"
    );
}
