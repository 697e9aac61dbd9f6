//! The form of `valvehouse.toml` as a JSON Schema, so that editors complete and check it.

use super::table::{SECTIONS, SettingRow};
use serde_json::{Map, Value, json};

/// Returns the JSON Schema of `valvehouse.toml`.
pub fn schema() -> Value {
    let mut schema = table();
    for section in SECTIONS {
        let header = section.header.trim_matches(['[', ']']);
        for row in section.settings {
            insert(&mut schema, row);
        }
        describe(&mut schema, header, section.about);
    }
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "valvehouse.toml".into();
    schema
}

fn table() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {}})
}

/// Adds a setting to the tables of its key. Missing tables are created.
fn insert(schema: &mut Value, row: &SettingRow) {
    let (parents, name) = row.key.rsplit_once('.').unwrap_or(("", row.key));
    let mut at = schema;
    let mut parts = parents.split('.').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        let is_list = parts.peek() == Some(&"NAME");
        let is_map = parts.peek() == Some(&"ID");
        at = match part.strip_suffix("[0]") {
            Some(list) => {
                // Items of this list are texts or tables.
                let items = &mut at["properties"][list]["items"];
                if items["anyOf"].is_null() {
                    *items = json!({"anyOf": [{"type": "string"}, table()]});
                }
                &mut items["anyOf"][1]
            }
            None => {
                let inner = &mut at["properties"][part];
                if inner.is_null() {
                    *inner = match () {
                        () if is_list => json!({"type": "array", "items": table()}),
                        () if is_map => json!({"type": "object", "additionalProperties": table()}),
                        () => table(),
                    };
                }
                if is_list || is_map {
                    parts.next();
                }
                match () {
                    () if is_list => &mut inner["items"],
                    () if is_map => &mut inner["additionalProperties"],
                    () => inner,
                }
            }
        };
    }
    at["properties"][name] = described(row);
    if row.is_required() {
        match at["required"].as_array_mut() {
            Some(required) => required.push(name.into()),
            None => at["required"] = json!([name]),
        }
    }
}

fn described(row: &SettingRow) -> Value {
    let mut schema = row.form.schema();
    schema["description"] = row.about.trim().into();
    let read =
        |text: &str| toml::from_str::<Map<String, Value>>(&format!("value = {text}")).ok()?.remove("value");
    if let Some(default) = read(row.usual) {
        schema["default"] = default;
    }
    if let Some(example) = read(row.example) {
        schema["examples"] = json!([example]);
    }
    schema
}

/// Adds the purpose of a section.
fn describe(schema: &mut Value, header: &str, about: &str) {
    let (list, is_map) = header.strip_suffix(".ID").map_or((header, false), |list| (list, true));
    let section = &mut schema["properties"][list];
    let section = if is_map { &mut section["additionalProperties"] } else { section };
    section["description"] = about.trim().into();
}
