//! The form of `valvehouse.toml` as a JSON Schema, so that editors complete and check it.
//!
//! The types below are the file as it is written. What each key means, its default and an example come from the
//! table of the reference, where they stand once.

// Nobody builds them: their form is what is asked for.
#![expect(dead_code)]

use super::reference::{Described, SECTIONS};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "valvehouse.toml")]
struct File {
    server: Server,
    admin: Admin,
    folders: Folders,
    store: Store,
    breaker: Breaker,
    trace: Trace,
    otlp: Otlp,
    providers: Vec<Provider>,
    models: Vec<Model>,
    filters: BTreeMap<Id, Plugin>,
    tools: BTreeMap<Id, Plugin>,
    grants: BTreeMap<Id, Grants>,
}

/// The id of a plugin: the name of its file.
type Id = String;
type Table = Map<String, Value>;

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Server {
    listen: String,
    keys: Vec<Key>,
    trust_user_headers: bool,
    trusted_proxies: Vec<String>,
    pipelines: bool,
    client_variables: Vec<String>,
    #[schemars(range(min = 1, max = 4096))]
    max_body_mb: u64,
    #[schemars(range(min = 1, max = 64))]
    max_text_mb: u64,
    #[schemars(range(min = 0, max = 3_600_000))]
    keep_alive_ms: u64,
    hosts: Vec<String>,
    origins: Vec<String>,
    #[schemars(range(min = 0, max = 1_000_000))]
    requests_per_minute: u32,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum Key {
    Text(String),
    OfUser(UserKey),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct UserKey {
    key: String,
    user: Table,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Admin {
    key: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Folders {
    filters: String,
    tools: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Store {
    #[schemars(regex(pattern = "^(sqlite:|postgres://|postgresql://)"))]
    url: String,
    key: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Breaker {
    #[schemars(range(min = 0, max = 1000))]
    breaks: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    window_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    rest_ms: u64,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Trace {
    #[schemars(range(min = 0, max = 10_000))]
    turns: u64,
    contents: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Otlp {
    endpoint: String,
    headers: BTreeMap<String, String>,
    service: String,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Provider {
    name: String,
    kind: String,
    base_url: String,
    api_key: String,
    models: TextOrTexts,
    timeouts: Timeouts,
    retry: Retry,
    breaker: Breaker,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum TextOrTexts {
    Text(String),
    Texts(Vec<String>),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Timeouts {
    #[schemars(range(min = 1, max = 86_400_000))]
    connect_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    answer_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    idle_ms: u64,
    #[schemars(range(min = 1, max = 86_400_000))]
    total_ms: u64,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Retry {
    #[schemars(range(min = 0, max = 20))]
    times: u32,
    #[schemars(range(min = 1, max = 3_600_000))]
    first_ms: u64,
    #[schemars(range(min = 1, max = 3_600_000))]
    longest_ms: u64,
    lost: bool,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Model {
    name: String,
    provider: String,
    model: String,
    fallbacks: Vec<String>,
    system_prompt: String,
    filters: Vec<String>,
    tools: Vec<String>,
    #[schemars(range(min = 1, max = 1000))]
    max_tool_iterations: u64,
    variables: Table,
    memory: bool,
    preset: String,
    middleware: BTreeMap<String, Value>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Plugin {
    valves: Table,
    enabled: bool,
    budget: Budget,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Budget {
    #[schemars(range(min = 1, max = 86_400_000))]
    ms: u64,
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    operations: u64,
    #[schemars(range(min = 1, max = 1_048_576))]
    memory_mb: u64,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Grants {
    http: Grant,
    files: Vec<String>,
    shell: Grant,
    env: Grant,
    kv: bool,
    llm: bool,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum Grant {
    All(bool),
    Named(Vec<String>),
}

/// Returns the JSON Schema of `valvehouse.toml`.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema: Value = settings.into_generator().into_root_schema_for::<File>().to_value();
    plain(&mut schema);
    for section in SECTIONS {
        let key = section.header.trim_matches(['[', ']']);
        if let Some(at) = find(&mut schema, key) {
            at.insert("description".to_owned(), markdown(section.about));
        }
        for described in section.settings {
            if let Some(at) = find(&mut schema, described.key) {
                describe(at, described);
            }
        }
        for (parent, required) in required(section.settings) {
            if let Some(at) = find(&mut schema, &parent) {
                at.insert("required".to_owned(), json!(required));
            }
        }
    }
    schema
}

/// Only what the reference says must be given is required, and integers say nothing of Rust.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("required");
            if fields
                .get("format")
                .is_some_and(|format| format.as_str().is_some_and(|it| it.starts_with("uint")))
            {
                fields.remove("format");
            }
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

fn markdown(text: &str) -> Value {
    Value::from(text.trim())
}

fn describe(at: &mut Table, described: &Described) {
    at.insert("description".to_owned(), markdown(described.about));
    let read = |text: &str| toml::from_str::<Table>(&format!("value = {text}")).ok()?.remove("value");
    if let Some(default) = read(described.usual) {
        at.insert("default".to_owned(), default);
    }
    if let Some(example) = read(described.example) {
        at.insert("examples".to_owned(), json!([example]));
    }
}

/// The keys that must be given, by the table they stand in.
fn required(settings: &[Described]) -> BTreeMap<String, Vec<&str>> {
    let mut required: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for it in settings.iter().filter(|it| it.usual == "*must be given*") {
        if let Some((parent, key)) = it.key.rsplit_once('.') {
            required.entry(parent.to_owned()).or_default().push(key);
        }
    }
    required
}

/// The schema behind a dotted key; `NAME` and `ID` stand for any entry, `[0]` for any item.
fn find<'a>(schema: &'a mut Value, key: &str) -> Option<&'a mut Table> {
    let mut at = schema;
    for part in key.split('.') {
        let (part, is_item) = part.strip_suffix("[0]").map_or((part, false), |part| (part, true));
        at = match part {
            "NAME" => at.get_mut("items")?,
            "ID" => at.get_mut("additionalProperties")?,
            part => inner(at)?.get_mut("properties")?.get_mut(part)?,
        };
        if is_item {
            at = at.get_mut("items")?;
        }
    }
    at.as_object_mut()
}

/// Of several forms the one that is a table.
fn inner(schema: &mut Value) -> Option<&mut Value> {
    if schema.get("anyOf").is_none() {
        return Some(schema);
    }
    let forms = schema.get_mut("anyOf")?.as_array_mut()?;
    forms.iter_mut().find(|form| form.get("properties").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn validator() -> jsonschema::Validator {
        jsonschema::draft7::new(&schema()).unwrap()
    }

    fn read(toml: &str) -> Value {
        toml::from_str(toml).unwrap_or_else(|error| panic!("{error}\n{toml}"))
    }

    #[test]
    fn the_schema_in_the_repository_is_the_one_that_is_printed() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/valvehouse.schema.json");
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
    fn the_schema_has_the_keys_of_the_reference_and_no_others() {
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
        for it in SECTIONS.iter().flat_map(|section| section.settings) {
            let mut schema = schema();
            let described = find(&mut schema, it.key).unwrap();
            assert!(described["description"].is_string(), "{}", it.key);
            assert!(it.usual.starts_with('*') || described.contains_key("default"), "{}", it.key);
        }
    }

    #[test]
    fn examples_and_the_file_of_a_new_project_fit_and_mistakes_do_not() {
        let validator = validator();
        for section in SECTIONS {
            for it in section.settings {
                let mut schema = schema();
                let own = Value::Object(find(&mut schema, it.key).unwrap().clone());
                let example = read(&format!("value = {}", it.example))["value"].take();
                assert!(jsonschema::draft7::new(&own).unwrap().is_valid(&example), "{}: {example}", it.key);
            }
        }
        let new = include_str!("../cli/new/templates/valvehouse.toml");
        assert!(new.starts_with("#:schema "), "editors are told of the schema");
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
            "[filters.a]\nbudgets = {}",
            "[grants.a]\nfiles = true",
        ] {
            assert!(!validator.is_valid(&read(wrong)), "{wrong}");
        }
    }
}
