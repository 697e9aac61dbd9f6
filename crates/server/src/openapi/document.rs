//! The OpenAPI document, assembled at the first request.

use crate::api::{Callers, Description, RouteDescription, shared_schemas};
use crate::passthrough::azure::ALIASES;
use crate::reply::ErrorForm;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::OnceLock;

const COMMON: &str = include_str!("common.json");
/// The descriptions of external protocols, whose schemas are published elsewhere.
const PROTOCOLS: [&str; 6] = [
    include_str!("openai.json"),
    include_str!("responses.json"),
    include_str!("messages.json"),
    include_str!("actions.json"),
    include_str!("ollama.json"),
    include_str!("mcp.json"),
];
/// The error statuses of every route.
const FAULTS: [u16; 6] = [400, 403, 413, 429, 500, 503];

/// The descriptions of all routes, and the document once it has been requested.
pub(crate) struct Document {
    routes: Vec<RouteDescription>,
    text: OnceLock<Bytes>,
}

impl Document {
    pub(crate) fn new(routes: Vec<RouteDescription>) -> Self {
        Self { routes, text: OnceLock::new() }
    }

    /// Returns the response with the document.
    pub(crate) fn response(&self) -> Response {
        let text = self.text.get_or_init(|| assembled(&self.routes).to_string().into());
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], text.clone()).into_response()
    }
}

/// Assembles the document from the protocols and the typed routes.
fn assembled(routes: &[RouteDescription]) -> Value {
    let mut common = read(COMMON);
    let (mut paths, mut tags) = (Map::new(), Vec::new());
    for endpoint in PROTOCOLS {
        let mut endpoint = read(endpoint);
        tags.push(endpoint["tag"].clone());
        for part in ["schemas", "responses"] {
            let own = taken(&mut endpoint, part);
            if let Some(all) = common[part].as_object_mut() {
                all.extend(own);
            }
        }
        for (path, mut item) in taken(&mut endpoint, "paths") {
            for (_, operation) in item.as_object_mut().into_iter().flatten() {
                complete(operation, &endpoint);
            }
            paths.insert(path, item);
        }
    }
    let mut schemas = shared_schemas();
    for route in routes {
        let item = paths.entry(&route.path).or_insert_with(|| json!({}));
        item[route.operation.method] = described(route, &mut schemas);
        if tags.iter().all(|tag| tag != route.tag) {
            tags.push(route.tag.into());
        }
    }
    for path in ALIASES {
        let item = ["get", "post", "delete"].map(|method| (method.to_owned(), alias()));
        paths.insert(path.into(), Value::Object(item.into_iter().collect()));
    }
    if let Some(all) = common["schemas"].as_object_mut() {
        all.extend(schemas.take_definitions(true));
    }
    let tags: Vec<Value> = tags.into_iter().map(|tag| json!({"name": tag})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Valvehouse",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A plugin host and gateway for LLM traffic: the chat APIs of OpenAI and Anthropic, Open WebUI's functions and pipelines, agents, traces, and the operators' API.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "tags": tags,
        "paths": paths,
        "components": common,
    })
}

/// Describes an operation of a path that stands for those below `/v1`.
fn alias() -> Value {
    let refused = json!({"$ref": "#/components/responses/Wrong"});
    json!({
        "summary": "Serves the route of this name below `/v1`, for Azure's clients; `api-version` is not read.",
        "tags": ["Passed through"],
        "security": Callers::Chats.security(),
        "parameters": [{"name": "rest", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {
            "200": {"description": "The response of that route.", "content": {"*/*": {}}},
            "4XX": refused,
            "5XX": refused,
        },
    })
}

/// Describes a typed route.
fn described(route: &RouteDescription, schemas: &mut SchemaGenerator) -> Value {
    let operation = &route.operation;
    let mut description = Description::new(schemas);
    operation.describe.iter().for_each(|describe| describe(&mut description));
    if let Some(field) = operation.file {
        let schema = json!({
            "type": "object",
            "required": [field],
            "properties": {field: {"type": "string", "contentMediaType": "application/octet-stream"}},
        });
        let content = json!({"multipart/form-data": {"schema": schema}});
        description.body = Some(json!({"required": true, "content": content}));
    }
    for (name, text) in &operation.headers {
        let schema = json!({"type": "string"});
        description
            .parameters
            .push(json!({"name": name, "in": "header", "description": text, "schema": schema}));
    }
    for media_type in operation.media_types {
        description.answer("200", media_type, json!({"type": "string"}));
    }
    let Description { mut parameters, body, mut answers, .. } = description;
    if let Some((text, answer)) = operation.result.zip(answers.get_mut("200")) {
        answer["description"] = text.into();
    }
    let named = names_of(&route.path);
    let mut known = HashSet::new();
    parameters.retain(|one| {
        let is_there = one["in"] != "path" || named.iter().any(|name| one["name"] == *name);
        is_there && known.insert(one["name"].clone())
    });
    for name in named {
        if parameters.iter().all(|one| one["name"] != name) {
            parameters
                .push(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        }
    }
    let takes_keys = route.callers != Callers::Everyone;
    let has_name = route.path.contains('{');
    let faults = FAULTS.iter().chain(takes_keys.then_some(&401)).chain(has_name.then_some(&404));
    for status in faults.chain(&operation.faults) {
        let answer = || json!({"$ref": format!("#/components/responses/{}", error(route.form, *status))});
        answers.entry(status.to_string()).or_insert_with(answer);
    }
    let mut operation_json = json!({
        "summary": operation.summary,
        "tags": [route.tag],
        "security": route.callers.security(),
        "responses": answers,
    });
    let is_for_operators = !matches!(route.callers, Callers::Everyone | Callers::Chats);
    if is_for_operators && operation.method != "get" {
        let of_guards = if operation.needs.guards_need_admin { ", for guards admin" } else { "" };
        operation_json["x-role"] = format!("{}{of_guards}", operation.needs.role).into();
    }
    if !parameters.is_empty() {
        operation_json["parameters"] = parameters.into();
    }
    if let Some(body) = body {
        operation_json["requestBody"] = body;
    }
    operation_json
}

/// Returns the names in a path.
fn names_of(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect()
}

/// Returns the name of the response for an error.
fn error(form: ErrorForm, status: u16) -> &'static str {
    match (status, form) {
        (503, _) => "Stopping",
        (_, ErrorForm::Detail) => "Detail",
        (401, _) => "Unauthenticated",
        (403, _) => "Forbidden",
        (404, _) => "Missing",
        (409, _) => "Conflict",
        (413, _) => "TooLarge",
        (422, _) => "Unusable",
        (429, _) => "TooOften",
        (500, _) => "Failed",
        _ => "Wrong",
    }
}

/// Adds the fields that apply to the whole protocol to an operation.
fn complete(operation: &mut Value, endpoint: &Value) {
    let Some(operation) = operation.as_object_mut() else { return };
    operation.insert("tags".into(), json!([endpoint["tag"]]));
    operation.entry("security").or_insert_with(|| endpoint["security"].clone());
    let answers = operation.entry("responses").or_insert_with(|| json!({}));
    if let (Some(answers), Some(everywhere)) = (answers.as_object_mut(), endpoint["everywhere"].as_object()) {
        for (status, answer) in everywhere {
            answers.entry(status).or_insert_with(|| answer.clone());
        }
    }
}

fn taken(endpoint: &mut Value, part: &str) -> Map<String, Value> {
    match endpoint.get_mut(part).map(Value::take) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("our own files are JSON: a test reads them")
}
