//! Schemas of tools.

use super::draft::Draft;
use valvehouse_json::{Json, Object};

/// Keys of alternatives.
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Merges the properties of alternatives at the top of schemas of tools into one object. What only one of several
/// alternatives requires is not required any more.
pub(super) fn merge_alternatives(draft: &mut Draft) {
    let has = |schema: &Object| ALTERNATIVES.iter().any(|key| schema.with(key, |own| own.is_some()));
    repair(draft, has, |schema| {
        let Json::Object(fields) = schema else { return };
        let own = schema.field("properties");
        let properties = if own.is_object() { own } else { Json::object() };
        let mut required = schema.list("required");
        for key in ALTERNATIVES {
            let branches = schema.list(key);
            for branch in &branches {
                for (name, property) in branch.field("properties").entries() {
                    if !properties.contains_key(&name) {
                        properties.put(&name, property);
                    }
                }
                if key == "allOf" || branches.len() == 1 {
                    let more = branch.list("required").into_iter().filter(|name| !required.contains(name));
                    required = required.iter().cloned().chain(more).collect();
                }
            }
            fields.remove(key);
        }
        schema.put("properties", properties);
        if !required.is_empty() {
            schema.put("required", required);
        }
    });
}

/// Adds the type and the properties to the outermost schema of tools.
pub(super) fn complete(draft: &mut Draft) {
    let lacks = |schema: &Object| {
        let lacks = |key: &str| schema.with(key, |own| own.is_none_or(Json::is_null));
        // A schema of alternatives is left to services that take them.
        let is_plain = ALTERNATIVES.iter().chain(&["$ref"]).all(|key| lacks(key));
        let is_object =
            schema.with("type", |own| own.is_none_or(|own| own.is_null() || own.as_str() == Some("object")));
        is_plain && is_object && (lacks("type") || lacks("properties"))
    };
    repair(draft, lacks, |schema| {
        if schema.given("type").is_none() {
            schema.put("type", "object");
        }
        if schema.given("properties").is_none() {
            schema.put("properties", Json::object());
        }
    });
}

/// Adds `items` to arrays without them.
pub(super) fn add_items(draft: &mut Draft, added: &str) {
    repair(draft, |schema| !all_have_items(schema), |schema| fill_items(schema, added));
}

/// Changes copies of the tools whose schema is meant.
fn repair(draft: &mut Draft, is_meant: impl Fn(&Object) -> bool, change: impl Fn(&Json)) {
    let tools = draft.list("tools");
    let schema_of = |tool: &Json| tool.field("function").given("parameters").filter(|own| !own.is_empty());
    let is_meant = |tool: &Json| matches!(schema_of(tool), Some(Json::Object(schema)) if is_meant(&schema));
    if !tools.iter().any(is_meant) {
        return;
    }
    let repaired = tools.iter().map(|tool| {
        if !is_meant(tool) {
            return tool.clone();
        }
        let tool = tool.deep_clone();
        schema_of(&tool).iter().for_each(&change);
        tool
    });
    draft.set("tools", repaired.collect::<Vec<_>>().into(), "tools.parameters");
}

/// Keys whose value is a schema or a list of schemas.
const SCHEMAS: [&str; 11] = [
    "items",
    "prefixItems",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "contains",
];
/// Keys whose value is an object of schemas.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

fn lacks_items(schema: &Object) -> bool {
    let is_array = |kind: Option<&Json>| match kind {
        Some(Json::Text(kind)) => kind == "array",
        Some(Json::Array(kinds)) => {
            kinds.with(|kinds| kinds.iter().any(|kind| kind.as_str() == Some("array")))
        }
        _ => false,
    };
    schema.with("type", is_array) && schema.with("items", |items| items.is_none_or(Json::is_null))
}

fn all_have_items(schema: &Object) -> bool {
    !lacks_items(schema) && inner(schema).iter().all(all_have_items)
}

fn fill_items(schema: &Json, added: &str) {
    let Json::Object(schema) = schema else { return };
    for inner in inner(schema) {
        fill_items(&Json::Object(inner), added);
    }
    if lacks_items(schema)
        && let Ok(items) = Json::parse(added.as_bytes())
    {
        schema.put("items", items);
    }
}

/// Returns the schemas directly in a schema.
pub(super) fn inner(schema: &Object) -> Vec<Object> {
    let mut out = Vec::new();
    // Without containers there is nothing to visit, and the text of the schema stays as it was sent.
    if !schema.has_containers() {
        return out;
    }
    schema.for_each(|key, value| {
        if SCHEMAS.contains(&key) {
            match value {
                Json::Object(schema) => out.push(schema.clone()),
                Json::Array(schemas) => {
                    out.extend(schemas.items().iter().filter_map(Json::as_object).cloned())
                }
                _ => {}
            }
        } else if NAMED.contains(&key)
            && let Json::Object(named) = value
            && named.has_containers()
        {
            named.for_each(|_, schema| out.extend(schema.as_object().cloned()));
        }
    });
    out
}
