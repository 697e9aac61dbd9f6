//! The description of an operation, which is assembled from the types of its handler.

use axum::Extension;
use axum::extract::{Multipart, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};

/// The description of one operation.
pub(crate) struct Description<'a> {
    schemas: &'a mut SchemaGenerator,
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<Value>,
    pub(crate) answers: Map<String, Value>,
}

impl<'a> Description<'a> {
    pub(crate) fn new(schemas: &'a mut SchemaGenerator) -> Self {
        Self { schemas, parameters: Vec::new(), body: None, answers: Map::new() }
    }

    /// Adds the fields of an object as parameters. `place` is `path`, `query` or `header`.
    pub(crate) fn parameters(&mut self, place: &str, schema: &Value) {
        let is_required = |name: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|own| own == name))
        };
        for (name, own) in schema["properties"].as_object().into_iter().flatten() {
            let mut own = own.clone();
            let description = taken(&mut own, "description");
            let mut parameter = json!({"name": name, "in": place, "schema": without_null(own)});
            if let Some(example) = first_example(&mut parameter["schema"]) {
                parameter["example"] = example;
            }
            if place == "path" || is_required(name) {
                parameter["required"] = true.into();
            }
            if let Some(description) = description {
                parameter["description"] = description;
            }
            self.parameters.push(parameter);
        }
    }

    /// Sets the request body, which is optional if it has no required field.
    pub(crate) fn json_body(&mut self, schema: &Value) {
        let mut schema = schema.clone();
        let is_required = schema["required"].as_array().is_some_and(|names| !names.is_empty())
            || schema.get("properties").is_none();
        let example = first_example(&mut schema);
        let mut content = json!({"schema": schema});
        if let Some(example) = example {
            content["example"] = example;
        }
        self.body = Some(json!({"required": is_required, "content": {"application/json": content}}));
    }

    /// Adds JSON of a type to the responses of status 200.
    pub(crate) fn json_answer<T: JsonSchema>(&mut self) {
        let schema = self.schemas.subschema_for::<T>().to_value();
        self.answer("200", "application/json", schema);
    }

    /// Adds a media type to the responses of a status.
    pub(crate) fn answer(&mut self, status: &str, media_type: &str, schema: Value) {
        let answer = self.answers.entry(status).or_insert_with(|| json!({"description": "The result."}));
        answer["content"][media_type] = json!({"schema": schema});
    }
}

/// Removes the examples of a schema and returns the first.
fn first_example(schema: &mut Value) -> Option<Value> {
    taken(schema, "examples").and_then(|examples| examples.as_array().and_then(|all| all.first().cloned()))
}

fn taken(schema: &mut Value, key: &str) -> Option<Value> {
    schema.as_object_mut().and_then(|schema| schema.shift_remove(key))
}

/// Returns the schema of a parameter without `null`, because an optional parameter is omitted instead.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema.get_mut("type").filter(|types| types.is_array()) {
        let others = types.as_array().into_iter().flatten().find(|name| *name != "null").cloned();
        *types = others.unwrap_or(Value::Null);
    }
    if let Some(Value::Array(choices)) = taken(&mut schema, "anyOf")
        && let Some(Value::Object(only)) = choices.into_iter().find(|choice| choice["type"] != "null")
        && let Some(schema) = schema.as_object_mut()
    {
        schema.extend(only);
    }
    schema
}

/// A type in the signature of a handler.
pub(crate) trait Describe {
    /// Adds the parts of the request that the type reads, or of the response that it writes.
    fn describe(description: &mut Description<'_>);
}

/// Implements [`Describe`] for types that clients do not see.
macro_rules! not_seen {
    ($([$($generic:ident)?] $name:ty),* $(,)?) => {
        $(impl$(<$generic>)? Describe for $name {
            fn describe(_: &mut Description<'_>) {}
        })*
    };
}

not_seen!(
    [S] State<S>,
    [T] Extension<T>,
    [] Request,
    [] HeaderMap,
    [] Parts,
    [] Response,
    // The route itself names the field with the file.
    [] Multipart,
);

impl Describe for &'static str {
    fn describe(description: &mut Description<'_>) {
        description.answer("200", "text/plain", json!({"type": "string"}));
    }
}

/// A response with a status that depends on the request.
impl<T: Describe> Describe for (StatusCode, T) {
    fn describe(description: &mut Description<'_>) {
        T::describe(description);
    }
}

impl<T: Describe, E> Describe for Result<T, E> {
    fn describe(description: &mut Description<'_>) {
        T::describe(description);
    }
}

/// A function whose types describe an operation.
pub(crate) trait DescribedHandler<M> {
    fn describe(description: &mut Description<'_>);
}

macro_rules! described_handlers {
    ($([$($argument:ident)*])*) => {
        $(impl<F, A, O, $($argument),*> DescribedHandler<(O, $($argument,)*)> for F
        where
            F: Fn($($argument),*) -> A,
            A: Future<Output = O>,
            O: Describe,
            $($argument: Describe,)*
        {
            fn describe(description: &mut Description<'_>) {
                $($argument::describe(description);)*
                O::describe(description);
            }
        })*
    };
}

described_handlers!([] [A1] [A1 A2] [A1 A2 A3] [A1 A2 A3 A4] [A1 A2 A3 A4 A5]);
