//! The document, assembled at the first request.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::sync::{Arc, LazyLock};
use valvehouse_host::app::App;

const COMMON: &str = include_str!("common.json");
/// The endpoints, in the order in which they are read.
const ENDPOINTS: [&str; 13] = [
    include_str!("openai.json"),
    include_str!("responses.json"),
    include_str!("messages.json"),
    include_str!("passthrough.json"),
    include_str!("ollama.json"),
    include_str!("agents.json"),
    include_str!("functions.json"),
    include_str!("pipelines.json"),
    include_str!("mcp.json"),
    include_str!("traces.json"),
    include_str!("page.json"),
    include_str!("session.json"),
    include_str!("operations.json"),
];

/// The document, made at the first request.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| assembled().to_string().into());

/// The route, which is public because the document reveals nothing about this host.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/openapi.json", get(show))
}

/// `GET /openapi.json`
async fn show() -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], DOCUMENT.clone()).into_response()
}

/// All endpoints in one document.
fn assembled() -> Value {
    let mut common = read(COMMON);
    let (mut paths, mut tags) = (Map::new(), Vec::new());
    for endpoint in ENDPOINTS {
        let mut endpoint = read(endpoint);
        tags.push(json!({"name": endpoint["tag"]}));
        for part in ["schemas", "responses"] {
            let own = taken(&mut endpoint, part);
            if let Some(all) = common[part].as_object_mut() {
                all.extend(own);
            }
        }
        let twice = taken(&mut endpoint, "with_and_without_v1").into_iter();
        let twice = twice.flat_map(|(path, item)| [(format!("/v1{path}"), item.clone()), (path, item)]);
        for (path, mut item) in taken(&mut endpoint, "paths").into_iter().chain(twice) {
            for (_, operation) in item.as_object_mut().into_iter().flatten() {
                complete(operation, &endpoint);
            }
            paths.insert(path, item);
        }
    }
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

/// One operation with what holds for its whole endpoint.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_part_is_used() {
        let document = assembled();
        let text = document.to_string();
        for (kind, parts) in document["components"].as_object().unwrap() {
            for name in parts.as_object().unwrap().keys() {
                let reference = format!("\"#/components/{kind}/{name}\"");
                let is_used = kind == "securitySchemes" || text.contains(&reference);
                assert!(is_used, "nobody refers to {reference}");
            }
        }
        for reference in text.split("\"$ref\":\"#/").skip(1) {
            let (place, _) = reference.split_once('"').unwrap();
            assert!(document.pointer(&format!("/{place}")).is_some(), "{place} is not there");
        }
    }

    #[test]
    fn every_operation_has_a_word_a_tag_and_answers() {
        for (path, item) in assembled()["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                // WebSockets.
                let refuses =
                    [("get", "/v1/responses"), ("get", "/v1/realtime"), ("post", "/v1/realtime/{rest}")];
                let is_refused = refuses.contains(&(method.as_str(), path.as_str()));
                let is_whole = operation["summary"].is_string()
                    && operation["tags"][0].is_string()
                    && operation["security"].is_array()
                    && operation["responses"]["200"].is_object() != is_refused;
                assert!(is_whole, "{method} {path}: {operation}");
            }
        }
    }
}
