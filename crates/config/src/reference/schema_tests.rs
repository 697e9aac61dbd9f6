//! The schema against its examples, and the file of a new project.

use super::{document, schema};
use crate::schema::properties;
use crate::settings::root;
use serde_json::Value;

fn validator() -> jsonschema::Validator {
    jsonschema::draft7::new(&schema()).unwrap()
}

fn read(toml: &str) -> Value {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{error}\n{toml}"))
}

#[test]
fn the_schema_in_docs_equals_the_printed_one() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/valvehouse.schema.json");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let printed = format!("{:#}\n", schema());
    let how = "cargo run -- config --schema > docs/valvehouse.schema.json";
    assert!(written == printed, "docs/valvehouse.schema.json is not what is printed: {how}");
}

#[test]
fn the_schema_accepts_the_examples_and_rejects_mistakes() {
    let validator = validator();
    let sections = properties(root()).unwrap().iter();
    for it in sections.flat_map(|(name, schema)| document::settings(name, schema)) {
        let own = jsonschema::draft7::new(it.schema).unwrap();
        let example = &it.schema["examples"][0];
        assert!(own.is_valid(example) && !example.is_null(), "{}: {example}", it.key);
        if let Some(default) = it.schema.get("default") {
            assert!(own.is_valid(default), "{}: {default}", it.key);
        }
    }
    let new = include_str!("../../../workbench/src/new/templates/valvehouse.toml");
    assert!(new.starts_with("#:schema "), "editors find the schema");
    let all: String = new.lines().map(|line| format!("{}\n", line.trim_start_matches("# "))).collect();
    let settings = all.find("[server]").map(|from| &all[from..]).unwrap();
    let lines = settings.lines().filter(|line| line.contains(" = ") || line.starts_with('['));
    let settings: Vec<&str> = lines.collect();
    let settings = read(&settings.join("\n"));
    assert!(validator.is_valid(&settings), "{settings}");
    for wrong in [
        "[servers]",
        "[server]\nlisten = 9099",
        "[server]\nmax_body_mb = 0",
        "[[providers]]\nkind = \"openai\"",
        "[[models]]\nname = \"a\"\nmemory = \"yes\"",
        "[server]\nrender_events = [\"statuses\"]",
        "[store]\nsnapshot = true",
        "[grants.a]\nkv = 1",
        "[filters.a]\nbudgets = {}",
        "[grants.a]\nfiles = true",
    ] {
        assert!(!validator.is_valid(&read(wrong)), "{wrong}");
    }
}
