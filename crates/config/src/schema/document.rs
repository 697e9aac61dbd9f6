//! The schema of the file, with what the table of the reference says of each key.

use super::file::{File, Table};
use crate::reference::{SECTIONS, SettingRow};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::collections::BTreeMap;

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

fn describe(at: &mut Table, described: &SettingRow) {
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
fn required(settings: &[SettingRow]) -> BTreeMap<String, Vec<&str>> {
    let mut required: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for it in settings.iter().filter(|it| it.is_required()) {
        if let Some((parent, key)) = it.key.rsplit_once('.') {
            required.entry(parent.to_owned()).or_default().push(key);
        }
    }
    required
}

/// The schema behind a dotted key; `NAME` and `ID` stand for any entry, `[0]` for any item.
pub(super) fn find<'a>(schema: &'a mut Value, key: &str) -> Option<&'a mut Table> {
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
