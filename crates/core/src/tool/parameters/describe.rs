//! Parameters as JSON Schema 2020-12, in a form that OpenAI and Anthropic take.

use super::shape::{Kind, Parameter, Shape};
use valvehouse_json::Json;

/// The schema of an object of these parameters.
///
/// Arguments that are not declared are dropped and not refused, so nothing is said of additional properties.
pub(super) fn object(parameters: Option<&[Parameter]>) -> Json {
    let schema = Json::object();
    put(&schema, "type", "object");
    put_properties(&schema, parameters);
    schema
}

fn put_properties(schema: &Json, parameters: Option<&[Parameter]>) {
    let Some(parameters) = parameters else { return };
    let named = parameters.iter().map(|parameter| (parameter.name.as_str().into(), value(&parameter.shape)));
    put(schema, "properties", named.collect::<valvehouse_json::Object>());
    let required = parameters.iter().filter(|parameter| parameter.required);
    let required: Vec<Json> = required.map(|parameter| parameter.name.as_str().into()).collect();
    if !required.is_empty() {
        put(schema, "required", required);
    }
}

fn value(shape: &Shape) -> Json {
    let schema = Json::object();
    put(&schema, "type", shape.kind.name());
    if let Some(description) = &shape.description {
        put(&schema, "description", description.as_str());
    }
    shape.limits.describe(&schema);
    match &shape.kind {
        // OpenAI refuses an array that says nothing of its items.
        Kind::Array(items) => put(&schema, "items", items.as_deref().map_or_else(Json::object, value)),
        Kind::Object(properties) => put_properties(&schema, properties.as_deref()),
        Kind::String | Kind::Integer | Kind::Number | Kind::Boolean => {}
    }
    if let Some(default) = &shape.default {
        put(&schema, "default", default.copy());
    }
    schema
}

/// Sets a key of an object made here; fresh objects take any key.
fn put(object: &Json, key: &str, value: impl Into<Json>) {
    object.put(key, value);
}
