//! The settings as JSON Schema 2020-12, in the form that Open WebUI draws its page from.

use super::field::{Field, Kind, Rules};
use super::schema::Schema;
use crate::words::title_case;
use valvehouse_json::Json;

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
    rules.limits.describe(schema);
    if let Some(items) = &rules.items {
        let item = Json::object();
        constrain(&item, items.kind, &items.rules);
        put(schema, "items", item);
    }
}

/// Sets a key of an object made here; fresh objects take any key.
fn put(object: &Json, key: &str, value: impl Into<Json>) {
    object.put(key, value);
}
