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
mod tests;
