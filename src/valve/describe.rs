//! The settings as JSON Schema 2020-12, in the form that Open WebUI draws its page from.

use super::Schema;
use super::field::{Field, Kind, Rules};
use crate::json::Json;
use crate::words::title_case;

impl Schema {
    /// JSON Schema of the values, in the order of declaration. Nothing is `required`: what is not
    /// given has its default.
    pub fn json_schema(&self) -> Json {
        let properties = Json::object();
        for field in &self.fields {
            put(&properties, &field.name, describe(field));
        }
        let schema = Json::object();
        put(&schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
        put(&schema, "title", "Valves");
        put(&schema, "type", "object");
        put(&schema, "properties", properties);
        schema
    }
}

fn describe(field: &Field) -> Json {
    let property = Json::object();
    put(&property, "title", field.title.clone().unwrap_or_else(|| title_case(&field.name)));
    if let Some(description) = &field.description {
        put(&property, "description", description.as_str());
    }
    if field.optional {
        // The rules stay with the type: null keeps to none of them.
        let (value, null) = (Json::object(), Json::object());
        constrain(&value, field.kind, &field.rules);
        put(&null, "type", "null");
        put(&property, "anyOf", vec![value, null]);
    } else {
        constrain(&property, field.kind, &field.rules);
    }
    if !field.secret {
        put(&property, "default", field.default.copy());
    }
    if field.secret {
        let input = Json::object();
        put(&input, "type", "password");
        put(&property, "writeOnly", true);
        put(&property, "input", input);
    } else if field.multiline {
        // Not `input: {type: "textarea"}`: Open WebUI draws nothing at all for an input it does not
        // know, and a text area for text without one.
        put(&property, "format", "textarea");
    }
    property
}

fn constrain(schema: &Json, kind: Kind, rules: &Rules) {
    put(schema, "type", kind.name());
    if !rules.allowed.is_empty() {
        put(schema, "enum", rules.allowed.iter().map(Json::copy).collect::<Vec<_>>());
    }
    for (name, limit) in [("minimum", &rules.minimum), ("maximum", &rules.maximum)] {
        if let Some(limit) = limit {
            put(schema, name, limit.clone());
        }
    }
    if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| is_portable(pattern.as_str())) {
        put(schema, "pattern", pattern.as_str());
    }
    if let Some(items) = &rules.items {
        let item = Json::object();
        constrain(&item, items.kind, &items.rules);
        put(schema, "items", item);
    }
}

/// Whether a reader of JSON Schema understands this pattern: its dialect is JavaScript's, which has
/// no `(?i)`, `\A` or `[[:alpha:]]`. What is left out of the schema is still checked here.
fn is_portable(pattern: &str) -> bool {
    let groups = pattern.match_indices("(?").map(|(at, _)| &pattern[at + 2..]);
    groups.into_iter().all(|group| group.starts_with(':') || group.starts_with('<'))
        && !["\\A", "\\z", "\\x{", "\\p{", "\\P{", "[[:"].iter().any(|only_ours| pattern.contains(only_ours))
}

/// Sets a key of an object made here; fresh objects take any key.
fn put(object: &Json, key: &str, value: impl Into<Json>) {
    let _ = object.set(key, value);
}
