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

/// Makes the schemas of tools valid as far as their meaning is clear, and the outermost one an object.
pub(super) fn complete(draft: &mut Draft) {
    let is_meant = |schema: &Object| !is_valid(schema) || !is_complete(schema);
    repair(draft, is_meant, |schema| {
        let Json::Object(fields) = schema else { return };
        make_valid(fields);
        if is_complete(fields) {
            return;
        }
        if !fields.with("type", |own| own.is_none_or(|own| names_object(own) || own.is_null())) {
            fields.clear();
        }
        schema.put("type", "object");
        if schema.given("properties").is_none() {
            schema.put("properties", Json::object());
        }
    });
}

/// Adds the schema of no parameters to functions without one.
pub(super) fn add_missing(draft: &mut Draft) {
    let lacks = |tool: &Json| {
        let function = tool.field("function");
        function.is_object() && function.given("parameters").is_none()
    };
    let none = || Json::from([("type", "object".into()), ("properties", Json::object())]);
    draft.edit_tools(lacks, |tool| tool.field("function").put("parameters", none()), "tools.parameters");
}

/// Returns `true` for an object with properties. A schema of alternatives is left to services that take them.
pub(super) fn is_complete(schema: &Object) -> bool {
    let has = |key: &str| schema.with(key, |own| own.is_some_and(|own| !own.is_null()));
    let is_object = schema.with("type", |own| own.is_some_and(|own| own.as_str() == Some("object")));
    ALTERNATIVES.iter().chain(&["$ref"]).any(|key| has(key)) || (is_object && has("properties"))
}

fn names_object(kind: &Json) -> bool {
    [kind.clone()].iter().chain(&kind.items()).any(|own| own.as_str() == Some("object"))
}

/// The types of JSON Schema, "" for any, with their names in other languages.
const TYPES: [(&str, &[&str]); 8] = [
    ("string", &["str", "text"]),
    ("integer", &["int", "long"]),
    ("number", &["float", "double", "decimal"]),
    ("boolean", &["bool"]),
    ("object", &["dict", "map"]),
    ("array", &["list", "tuple", "set"]),
    ("null", &["none", "nonetype"]),
    ("", &["any"]),
];

/// Returns the type that a text means.
fn type_of(text: &str) -> Option<&'static str> {
    let is_meant = |word: &&str| word.eq_ignore_ascii_case(text);
    TYPES.iter().find(|(kind, others)| is_meant(kind) || others.iter().any(is_meant)).map(|(kind, _)| *kind)
}

/// Returns the type that a text means if it is another one.
fn meant_type(kind: &Json) -> Option<&'static str> {
    let own = kind.as_str()?;
    type_of(own).filter(|kind| *kind != own)
}

/// Returns `true` if no schema in this one has a fault with a clear meaning.
pub(super) fn is_valid(schema: &Object) -> bool {
    let has_type = schema.with("type", |own| match own {
        Some(Json::Array(kinds)) => kinds.with(|kinds| kinds.iter().all(|kind| meant_type(kind).is_none())),
        own => own.is_none_or(|own| meant_type(own).is_none()),
    });
    let has_required = schema.with("required", |own| own.is_none_or(Json::is_array));
    let has_properties = schema.with("properties", |own| match own {
        Some(Json::Object(named)) => {
            let mut are_schemas = true;
            named.for_each(|_, own| are_schemas &= matches!(own, Json::Object(_) | Json::Bool(_)));
            are_schemas
        }
        own => own.is_none(),
    });
    has_type && has_required && has_properties && inner(schema).iter().all(is_valid)
}

/// Corrects the types of a schema, moves what is required to the object that requires it, and removes properties
/// that are not schemas. The schema must be a copy.
fn make_valid(schema: &Object) {
    match schema.field("type") {
        Json::Array(kinds) => {
            let meant = |kind: &Json| meant_type(kind).map_or_else(|| kind.clone(), Json::from);
            let kinds: Vec<Json> = kinds.items().iter().map(meant).collect();
            match kinds.contains(&"".into()) {
                true => drop(schema.remove("type")),
                false => schema.put("type", kinds.into()),
            }
        }
        kind => match meant_type(&kind) {
            Some("") => drop(schema.remove("type")),
            Some(meant) => schema.put("type", meant.into()),
            None => {}
        },
    }
    if schema.with("properties", |own| own.is_some_and(|own| !own.is_object())) {
        schema.put("properties", Json::object());
    }
    let mut required = schema.field("required").items();
    let mut require = |name: Json| {
        if name.is_string() && !required.contains(&name) {
            required.push(name);
        }
    };
    let properties = schema.field("properties");
    for (name, property) in properties.entries() {
        match &property {
            Json::Object(own) => {
                if property.is_true("required") {
                    require((&*name).into());
                }
                if own.with("required", |own| own.is_some_and(|own| !own.is_array())) {
                    own.remove("required");
                }
            }
            Json::Bool(_) => {}
            Json::Text(kind) if type_of(kind.as_str()).is_some() && name != "type" => {
                properties.put(&name, Json::from([("type", property.clone())]));
            }
            _ => {
                if name == "required" {
                    property.items().into_iter().for_each(&mut require);
                }
                properties.remove(&name);
            }
        }
    }
    match required.is_empty() {
        true if schema.with("required", |own| own.is_none_or(Json::is_array)) => {}
        true => drop(schema.remove("required")),
        false => schema.put("required", required.into()),
    }
    inner(schema).iter().for_each(make_valid);
}

/// Moves the types of schemas with alternatives into the alternatives.
pub(super) fn move_types(draft: &mut Draft) {
    repair(draft, |schema| !are_types_moved(schema), |schema| _ = schema.as_object().map(move_type));
}

/// Returns the alternatives of a schema without a type, with the type that each gets.
fn untyped(schema: &Object) -> Vec<(Object, Json)> {
    let kind = schema.field("type");
    let branches = ["anyOf", "oneOf"].iter().flat_map(|key| schema.field(key).items());
    let typed = |branch: Json| {
        let own = branch.as_object()?.clone();
        if own.contains("type") || own.contains("$ref") || (kind.is_null() && has_alternatives(&own)) {
            return None;
        }
        let value = own.field("const");
        let value = if value.is_null() { own.field("enum").at(0).unwrap_or(Json::Null) } else { value };
        let kind = match value.kind() {
            _ if !kind.is_null() => kind.clone(),
            _ if own.contains("properties") || own.contains("required") => "object".into(),
            _ if own.contains("items") => "array".into(),
            "null" => return None,
            kind => kind.into(),
        };
        Some((own, kind))
    };
    branches.filter_map(typed).collect()
}

fn has_alternatives(schema: &Object) -> bool {
    ["anyOf", "oneOf"].iter().any(|key| schema.with(key, |own| own.is_some_and(|own| !own.is_empty())))
}

/// Returns `true` if all alternatives in a schema have their types, as far as they are clear.
pub(super) fn are_types_moved(schema: &Object) -> bool {
    let is_moved = !has_alternatives(schema) || (!schema.contains("type") && untyped(schema).is_empty());
    is_moved && inner(schema).iter().all(are_types_moved)
}

fn move_type(schema: &Object) {
    if has_alternatives(schema) {
        untyped(schema).into_iter().for_each(|(branch, kind)| branch.put("type", kind));
        schema.remove("type");
    }
    inner(schema).iter().for_each(move_type);
}

/// Adds `items` to arrays without them.
pub(super) fn add_items(draft: &mut Draft, added: &str) {
    repair(draft, |schema| !all_have_items(schema), |schema| fill_items(schema, added));
}

/// Changes copies of the tools whose schema is meant.
fn repair(draft: &mut Draft, is_meant: impl Fn(&Object) -> bool, change: impl Fn(&Json)) {
    let schema_of = |tool: &Json| tool.field("function").given("parameters");
    let is_meant = |tool: &Json| matches!(schema_of(tool), Some(Json::Object(schema)) if is_meant(&schema));
    draft.edit_tools(is_meant, |tool| schema_of(tool).iter().for_each(&change), "tools.parameters");
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
