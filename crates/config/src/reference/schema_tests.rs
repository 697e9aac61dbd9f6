//! The schema against the reference, its examples, and the file of a new project.

use super::SECTIONS;
use super::schema::schema;
use serde_json::Value;
use std::collections::BTreeSet;

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

/// The dotted keys of a schema, as the reference writes them.
fn keys(schema: &Value, at: &str, keys: &mut BTreeSet<String>) {
    let mut forms = vec![schema];
    forms.extend(schema["anyOf"].as_array().into_iter().flatten());
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    for form in forms {
        for (name, inner) in form["properties"].as_object().into_iter().flatten() {
            keys.insert(below(name));
            self::keys(inner, &below(name), keys);
        }
        if form["items"].is_object() {
            let item = if at == "server.keys" { format!("{at}[0]") } else { below("NAME") };
            self::keys(&form["items"], &item, keys);
        }
        if form["additionalProperties"]["properties"].is_object() {
            self::keys(&form["additionalProperties"], &below("ID"), keys);
        }
    }
}

#[test]
fn the_schema_has_exactly_the_keys_of_the_reference() {
    let mut found = BTreeSet::new();
    keys(&schema(), "", &mut found);
    let tables: BTreeSet<String> = found
        .iter()
        .filter(|key| found.iter().any(|other| other.starts_with(&format!("{key}."))))
        .cloned()
        .collect();
    let leaves: BTreeSet<&str> =
        found.iter().filter(|key| !tables.contains(*key)).map(String::as_str).collect();
    let mut described: BTreeSet<&str> =
        SECTIONS.iter().flat_map(|section| section.settings).map(|it| it.key).collect();
    // A list, whose items may be tables.
    described.insert("server.keys");
    assert_eq!(leaves, described);
}

#[test]
fn the_schema_accepts_the_examples_and_rejects_mistakes() {
    let validator = validator();
    for section in SECTIONS {
        for it in section.settings {
            let own = jsonschema::draft7::new(&it.form.schema()).unwrap();
            let example = read(&format!("value = {}", it.example))["value"].take();
            assert!(own.is_valid(&example) || it.key == "server.keys", "{}: {example}", it.key);
            if let Some(default) = it.default() {
                let default = Value::from(&default.to_json());
                assert!(own.is_valid(&default), "{}: {default}", it.key);
            } else {
                assert!(it.usual.starts_with('*'), "{}: {}", it.key, it.usual);
            }
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
