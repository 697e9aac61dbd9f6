//! The JSON Schema of settings, by which they are read, checked, described and shown.

use crate::tree::{Node, Setting, joined};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

/// Returns the schema of a table of settings.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    tidy(&mut schema, false);
    schema
}

/// A text stands for a table with this key alone.
pub(crate) fn or_key(schema: &mut Schema) {
    let table = std::mem::take(schema).to_value();
    let text = json!({"type": "string", "format": table["properties"]["key"]["format"]});
    *schema = json_schema!({"anyOf": [text, table], "x-short": "key"});
}

/// Returns the settings in a table by their names.
pub(crate) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

/// Returns the tables behind a key with tables: a `[[list]]`, or `[tables.ID]` by names of somebody's choosing.
pub(crate) fn tables(schema: &Value) -> Option<(&'static str, &Value)> {
    let of = |name, key: &str| {
        schema.get(key).filter(|inner| properties(inner).is_some()).map(|inner| (name, inner))
    };
    of("NAME", "items").or_else(|| of("ID", "additionalProperties"))
}

/// Returns the text of a setting in the reference.
pub(crate) fn about(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// Returns the words of which a setting is one.
pub(crate) fn words(schema: &Value) -> Option<Vec<&str>> {
    Some(schema["enum"].as_array()?.iter().filter_map(Value::as_str).collect())
}

/// Returns the form of a value in words.
pub(crate) fn form(schema: &Value) -> String {
    let quoted = |words: Vec<&str>, between: &str| {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between)
    };
    if let Some(form) = schema["x-form"].as_str() {
        return form.to_owned();
    }
    if let Some(words) = words(schema) {
        return quoted(words, " or ");
    }
    match (schema["type"].as_str(), words(&schema["items"])) {
        (Some("boolean"), _) => "true or false".to_owned(),
        (Some("integer" | "number"), _) => format!("{} to {}", schema["minimum"], schema["maximum"]),
        (_, Some(words)) => format!("list of {}", quoted(words, ", ")),
        (Some("array"), _) => "list of texts".to_owned(),
        (Some("object"), _) if schema["additionalProperties"]["format"] == "secret" => {
            "table of texts or secrets".to_owned()
        }
        (Some("object"), _) => "table".to_owned(),
        _ => "text".to_owned(),
    }
}

/// Makes what the derived schema says usable: no `null`, which TOML has not; no unknown keys; the defaults of tables;
/// only what has no default is required; what `restarts` is inherited.
fn tidy(schema: &mut Value, restarts: bool) {
    let restarts = schema["x-restart"].as_bool().unwrap_or(restarts);
    let Some(it) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = it.get_mut("type") {
        let kind = types.swap_remove(0);
        it.insert("type".to_owned(), kind);
    }
    if let Some(Value::String(text)) = it.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if matches!(it.get("type").and_then(Value::as_str), Some("integer" | "number")) {
        it.remove("format");
    }
    if it.contains_key("x-default") || it.get("default").is_some_and(Value::is_null) {
        it.remove("default");
    }
    one_of_words(it);
    if let Some(Value::Array(mut branches)) = it.remove("anyOf") {
        branches.retain(|branch| branch["type"] != "null");
        branches.iter_mut().for_each(|branch| tidy(branch, restarts));
        match branches.as_mut_slice() {
            [Value::Object(only)] => {
                let mut only = std::mem::take(only);
                only.append(it);
                *it = only;
            }
            _ => _ = it.insert("anyOf".to_owned(), branches.into()),
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = it.get_mut(key).filter(|inner| inner.is_object()) {
            tidy(inner, restarts);
        }
    }
    let Some(Value::Object(mut properties)) = it.remove("properties") else { return };
    let mut required = it.remove("required").unwrap_or_else(|| json!([]));
    for (name, inner) in &mut properties {
        if restarts && inner["x-restart"].is_null() {
            inner["x-restart"] = true.into();
        }
        tidy(inner, restarts);
        let is_required = required.as_array().is_some_and(|names| names.contains(&name.as_str().into()));
        if let Some(empty) = empty(inner).filter(|_| is_required) {
            inner["default"] = empty;
        }
    }
    if let Some(names) = required.as_array_mut() {
        let has_default = |name: &Value| {
            let inner = name.as_str().and_then(|name| properties.get(name));
            inner.is_some_and(|inner| inner.get("default").or(inner.get("x-default")).is_some())
        };
        names.retain(|name| !has_default(name));
    }
    if required != json!([]) {
        it.insert("required".to_owned(), required);
    }
    it.insert("additionalProperties".to_owned(), false.into());
    it.insert("properties".to_owned(), properties.into());
}

/// Returns the default of a key with tables, which has none of its own.
fn empty(schema: &Value) -> Option<Value> {
    match tables(schema) {
        Some(("NAME", _)) => Some(json!([])),
        Some(_) => Some(json!({})),
        None => properties(schema).map(|_| json!({})),
    }
}

/// Words with a text each become words.
fn one_of_words(it: &mut Map<String, Value>) {
    if let Some(Value::Array(words)) = it.remove("oneOf") {
        let words: Vec<Value> = words.into_iter().map(|mut word| word["const"].take()).collect();
        it.insert("type".to_owned(), "string".into());
        it.insert("enum".to_owned(), words.into());
    }
}

/// Returns `true` if a value has one of several forms, and may have this one.
pub(crate) fn accepts(schema: &Value, setting: &Setting) -> bool {
    let text = setting.as_text();
    let is_bare = text.is_some() && setting.origin.is_untyped();
    match schema.get("const") {
        Some(Value::Bool(value)) => return setting.truth() == Some(*value),
        Some(word) => return text.map(str::trim) == word.as_str(),
        None => {}
    }
    match (schema["type"].as_str(), &setting.node) {
        (Some("boolean"), _) => setting.truth().is_some(),
        (Some("string"), Node::Text(_))
        | (Some("array"), Node::List(_))
        | (Some("object"), Node::Table(_)) => true,
        (Some("array"), _) => is_bare,
        _ => false,
    }
}

/// Returns the one of several forms that a value has.
pub(crate) fn branch<'s>(schema: &'s Value, setting: &Setting) -> &'s Value {
    let branches = schema["anyOf"].as_array();
    branches.into_iter().flatten().find(|branch| accepts(branch, setting)).unwrap_or(schema)
}

/// Calls a function with each setting, its schema and its dotted key, from the whole to its parts; those that are not
/// there come without a value. Parts follow where it returns `true`.
pub(crate) fn visit<'t>(
    schema: &'static Value,
    setting: Option<&'t Setting>,
    key: &str,
    of: &mut dyn FnMut(&'static Value, Option<&'t Setting>, &str) -> bool,
) {
    if !of(schema, setting, key) {
        return;
    }
    let schema = setting.map_or(schema, |setting| branch(schema, setting));
    let Some(setting) = setting else { return };
    for (name, inner) in properties(schema).into_iter().flatten() {
        visit(inner, setting.get(name), &joined(key, name), of);
    }
    match &setting.node {
        Node::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let key = if tables(schema).is_some() { item.place(key, index) } else { key.to_owned() };
                visit(&schema["items"], Some(item), &key, of);
            }
        }
        Node::Table(table) if schema["additionalProperties"].is_object() => {
            for (name, inner) in table {
                visit(&schema["additionalProperties"], Some(inner), &joined(key, name), of);
            }
        }
        _ => {}
    }
}
