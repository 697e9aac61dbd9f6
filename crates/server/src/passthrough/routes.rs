//! The passthrough routes.

use super::azure;
use super::endpoint::{realtime, relay};
use crate::api::{AnyObject, Callers, Description, Operation, Routes, delete, get, post};
use serde_json::{Value, json};
use valvehouse_host::access::OperatorRole::Admin;

/// Returns the passthrough routes, including those of Azure's clients. The providers define their bodies and
/// responses.
pub(crate) fn routes() -> Routes {
    Routes::new("Passed through", Callers::Chats)
        .route("/v1/embeddings", with_json(post(Admin, "Creates embeddings; the provider is selected by `model`.", relay)))
        .route("/v1/completions", with_json(post(Admin, "Completes a text; the provider is selected by `model`.", relay)))
        .route("/v1/moderations", with_json(post(Admin, "Moderates inputs; the provider is selected by `model`.", relay)))
        .route("/v1/rerank", with_json(post(Admin, "Ranks documents; the provider is selected by `model`.", relay)))
        .route(
            "/v1/audio/{*rest}",
            with_any(post(Admin, "Creates, transcribes or translates speech; the provider is selected by `model`.", relay)),
        )
        .route("/v1/images/{*rest}", with_any(post(Admin, "Creates or edits images; the provider is selected by `model`.", relay)))
        .route("/v1/files", passed_on(get("Lists files of a service.", relay)))
        .route("/v1/files", with_form(post(Admin, "Uploads a file to a service.", relay)))
        .route("/v1/files/{*rest}", passed_on(get("Returns a file of a service, or its content.", relay)))
        .route("/v1/files/{*rest}", passed_on(delete(Admin, "Deletes a file of a service.", relay)))
        .route("/v1/batches", passed_on(get("Lists batches of a service.", relay)))
        .route("/v1/batches", with_json(post(Admin, "Starts a batch at a service.", relay)))
        .route("/v1/batches/{*rest}", passed_on(get("Returns a batch of a service.", relay)))
        .route("/v1/batches/{*rest}", passed_on(post(Admin, "Cancels a batch of a service.", relay)))
        .route("/v1/messages/batches", passed_on(get("Lists batches of an Anthropic service.", relay)))
        .route("/v1/messages/batches", with_json(post(Admin, "Starts a batch at an Anthropic service.", relay)))
        .route(
            "/v1/messages/batches/{*rest}",
            passed_on(get("Returns a batch of an Anthropic service, or its results.", relay)),
        )
        .route(
            "/v1/messages/batches/{*rest}",
            passed_on(post(Admin, "Cancels a batch of an Anthropic service.", relay)),
        )
        .route(
            "/v1/messages/batches/{*rest}",
            passed_on(delete(Admin, "Deletes a batch of an Anthropic service.", relay)),
        )
        .route("/v1/realtime", get("Always rejected: WebSockets to providers are not supported.", realtime).fails(404))
        .route(
            "/v1/realtime/{*rest}",
            post(Admin, "Always rejected: sessions and their secrets need WebSockets to the provider, which are not supported.", realtime),
        )
        .route(
            "/openai/deployments/{model}/{*rest}",
            with_json(post(
                Admin,
                "Serves a chat or another route for Azure's clients; `api-version` is not forwarded.",
                azure::deployment,
            )),
        )
}

/// Describes a route whose response comes from the provider.
fn passed_on(operation: Operation) -> Operation {
    operation.describes(describe).fails(404).result("The response of the provider.")
}

fn with_json(operation: Operation) -> Operation {
    passed_on(operation).takes::<AnyObject>()
}

fn with_form(operation: Operation) -> Operation {
    passed_on(operation).describes(|description| description.body = Some(body(&["multipart/form-data"])))
}

fn with_any(operation: Operation) -> Operation {
    passed_on(operation).describes(|description| {
        description.body = Some(body(&["application/json", "multipart/form-data"]));
    })
}

fn body(media_types: &[&str]) -> Value {
    let content = media_types.iter().map(|name| ((*name).to_owned(), json!({"schema": {"type": "object"}})));
    json!({"required": true, "content": content.collect::<serde_json::Map<_, _>>()})
}

fn describe(description: &mut Description<'_>) {
    let text = json!({"type": "string"});
    for (name, place, about) in [
        ("rest", "path", "The rest of the path, as defined by the provider."),
        (
            "x-valvehouse-provider",
            "header",
            "The provider, if the request names no model and several providers have the route.",
        ),
    ] {
        description.parameters.push(json!({
            "name": name, "in": place, "required": place == "path", "description": about, "schema": text,
        }));
    }
    description.answer("200", "*/*", json!({}));
}
