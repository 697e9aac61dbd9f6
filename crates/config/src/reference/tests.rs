//! The keys of the document, their defaults, and the document in the repository.

use super::*;
use crate::Config;
use crate::schema::properties;
use crate::settings::root;
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

/// The keys of the document, under the names of the table.
fn described() -> BTreeSet<String> {
    let sections = properties(root()).unwrap().iter();
    let all = sections.flat_map(|(name, schema)| document::settings(name, schema));
    all.map(|it| it.key.replace(".ID", ".id").replace("mcp.NAME", "mcp.name")).collect()
}

fn read(file: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("valvehouse.toml"), file).unwrap();
    Config::load_with(folder.path(), [], &[]).unwrap()
}

#[test]
fn the_configuration_view_shows_every_described_key() {
    let shown: BTreeSet<String> = effective(&read(ALL)).into_iter().map(|one| one.key).collect();
    let mut described = described();
    // The view shows a list as one value, and the deployments of a provider that has some.
    described.retain(|key| !key.contains('[') && key != "providers.NAME.deployments");
    assert_eq!(shown, described);
}

#[test]
fn the_default_breaker_is_that_of_the_file() {
    let config = read(ALL);
    let provider = &config.providers[0];
    assert_eq!((&provider.breaker, &config.breaker), (&Default::default(), &Default::default()));
}

#[test]
fn values_from_the_environment_are_shown_as_parsed() {
    let variables = [
        ("SERVER__MAX_BODY_MB", "64"),
        ("SERVER__PIPELINES", "off"),
        ("SERVER__HOSTS", "a.example, b.example"),
        ("OTLP__HEADERS", "{\"authorization\": \"cAnArY\"}"),
        ("PROVIDERS__MINE__KIND", "ollama"),
        ("PROVIDERS__MINE__API_KEY", "cAnArY"),
    ];
    let variables = variables.map(|(name, text)| (format!("VALVEHOUSE__{name}").into(), text.into()));
    let folder = tempfile::tempdir().unwrap();
    let config = Config::load_with(folder.path(), variables, &[]).unwrap();
    let shown: BTreeMap<String, String> =
        effective(&config).into_iter().map(|one| (one.key, one.value)).collect();
    for (key, value) in [
        ("server.max_body_mb", "64"),
        ("server.pipelines", "false"),
        ("server.hosts", "[\"a.example\", \"b.example\"]"),
        ("otlp.headers", "{ authorization = \"***\" }"),
        ("providers.mine.base_url", "\"http://127.0.0.1:11434\""),
        ("providers.mine.api_key", "\"***\""),
        ("store.url", "\"sqlite://.valvehouse/state.db\""),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    assert!(!format!("{config:?}").contains("cAnArY"));
}

#[test]
fn no_secret_is_shown() {
    let toml = "[server]\nkeys = [\"cAnArY1\", { key = \"cAnArY2\", user = { id = \"ann\" } }]\n\
        [admin]\nkey = \"cAnArY3\"\n[[providers]]\nname = \"openai\"\napi_key = \"cAnArY4\"\n\
        [filters.x]\nvalves = { token = \"cAnArY5\" }\n\
        [[providers]]\nname = \"own\"\nkind = \"vllm\"\n\
        [[models]]\nname = \"m\"\nprovider = \"own\"\nvariables = { crm_token = \"cAnArY7\", in = { apiKey = \"cAnArY8\" }, tier = \"gold\" }\n\
        [[mcp]]\nname = \"far\"\nurl = \"https://example.com/mcp?api_key=cAnArY9\"\n\
        [[mcp]]\nname = \"near\"\ncommand = [\"npx\", \"server\", \"--token\", \"cAnArY10\", \"--api-key=cAnArY11\"]\n\
        [[mcp]]\nname = \"more\"\ncommand = \"npx\"\nargs = [\"-e\", \"API_KEY=cAnArY12\", \"--port\", \"80\"]\n";
    let shown: String =
        effective(&read(toml)).iter().map(|one| format!("{} = {}\n", one.key, one.value)).collect();
    assert!(!shown.contains("cAnArY"), "{shown}");
    for part in ["tier = \"gold\"", "?api_key=***", "\"--token\", \"***\"", "\"--port\", \"80\""] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains("admin.key = \"***\"") && shown.contains("token = …"), "{shown}");
}

#[test]
fn the_page_in_docs_equals_the_printed_one() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let written = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        written == document(),
        "docs/configuration.md is not what is printed: cargo run -- config --reference > docs/configuration.md"
    );
}

#[test]
fn the_keys_that_wait_for_a_restart_are_those_that_changed() {
    let before =
        read("[server]\nmax_body_mb = 1\nrequests_per_minute = 1\n[trace]\nturns = 1\n[interceptors.old]\n");
    let after = read(
        "[server]\nmax_body_mb = 2\nrequests_per_minute = 2\nkeys = ['sk']\n[trace]\nturns = 2\ncontents = ['a']\n\
         [interceptors.new]\n[filters.a]\nenabled = false\n",
    );
    let waiting = before.waiting(&after);
    let expected =
        ["interceptors.new.mode", "interceptors.new.type", "interceptors.old.mode", "interceptors.old.type"];
    let expected: BTreeSet<&str> =
        expected.into_iter().chain(["server.max_body_mb", "trace.turns"]).collect();
    assert_eq!(waiting.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    assert!(before.waiting(&before.clone()).is_empty());
}
