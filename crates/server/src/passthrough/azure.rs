//! Routes of Azure's clients. Some name the model in the path: `/openai/deployments/{model}/chat/completions`. All
//! others stand for the route below `/v1` with the same name.

use super::body::{find_model, with_model};
use super::endpoint;
use crate::api::Path;
use crate::turn::serve::received;
use crate::{openai, reply};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;

/// The paths that stand for those below `/v1`, as in `/openapi.json`. They are rewritten before routing, so that every
/// route has them, with the same checks and filters.
pub(crate) const ALIASES: [&str; 2] = ["/openai/v1/{rest}", "/openai/{rest}"];

/// Returns a request of Azure's clients under its path below `/v1`; other requests stay unchanged.
pub(crate) fn under_v1(request: Request) -> Request {
    match request.uri().path().strip_prefix("/openai/") {
        Some(rest) if !rest.starts_with("deployments/") => {
            let path = format!("/v1/{}", rest.strip_prefix("v1/").unwrap_or(rest));
            with_path(request, &path)
        }
        _ => request,
    }
}

/// The path of a deployment.
#[derive(Deserialize, JsonSchema)]
pub(super) struct DeploymentPath {
    /// The model, which Azure's clients name as a deployment.
    model: String,
    /// The rest of the path, as defined by the provider.
    rest: String,
}

/// Handles a chat or another route of a deployment.
pub(super) async fn deployment(
    State(app): State<Arc<App>>,
    Path(DeploymentPath { model, rest }): Path<DeploymentPath>,
    request: Request,
) -> Response {
    if rest != "chat/completions" {
        let path = request.uri().path().to_owned();
        let request = with_path(request, &path);
        return endpoint::through(app, request, rest, Some(model)).await;
    }
    match of_model(&app, request, &model).await {
        Ok(request) => openai::chat::chat(State(app), request).await,
        Err(error) => reply::refused(error),
    }
}

/// Returns a request with this path, and without the version of Azure's API in its query. The provider's address
/// contains one if it needs one.
fn with_path(mut request: Request, path: &str) -> Request {
    let query = request.uri().query().unwrap_or("");
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("api-version=")).collect();
    let target =
        if kept.concat().is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    let mut parts = request.uri().clone().into_parts();
    // The parts of a valid address are valid, so neither of these fails.
    if let Ok(target) = target.parse() {
        parts.path_and_query = Some(target);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Returns the chat request with the model that the path names.
async fn of_model(app: &App, request: Request, model: &str) -> Result<Request, Error> {
    let (mut parts, body) = request.into_parts();
    let (_, bytes) = received(app, &parts, body).await?;
    let bytes = named(&bytes, model);
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Sets the model in a body. A body that is not an object stays unchanged and is rejected by the chat
/// endpoint.
fn named(body: &Bytes, model: &str) -> Bytes {
    match find_model(body) {
        Some((own, _)) => with_model(body, own, model),
        None => body.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployment_in_the_path_becomes_the_model_in_the_body() {
        for (body, expected) in [
            (r#"{"messages":[]}"#, r#"{"model":"gpt","messages":[]}"#),
            (r#" { "a" : 1.0, "model" : "x" }"#, r#" { "a" : 1.0, "model" : "gpt" }"#),
            ("{ }", r#"{"model":"gpt" }"#),
            ("[1]", "[1]"),
        ] {
            assert_eq!(named(&Bytes::from(body), "gpt"), expected);
        }
    }

    #[test]
    fn paths_of_azure_become_those_below_v1() {
        for (sent, expected) in [
            ("/openai/v1/responses?api-version=preview", "/v1/responses"),
            ("/openai/responses/r?api-version=1&stream=true", "/v1/responses/r?stream=true"),
            ("/openai/models?limit=1", "/v1/models?limit=1"),
            ("http://host:1/openai/v1/chat/completions", "http://host:1/v1/chat/completions"),
            (
                "/openai/deployments/m/embeddings?api-version=1",
                "/openai/deployments/m/embeddings?api-version=1",
            ),
            ("/v1/models?api-version=1", "/v1/models?api-version=1"),
            ("/openai", "/openai"),
        ] {
            let request = axum::http::Request::builder().uri(sent).body(Body::empty()).unwrap();
            assert_eq!(under_v1(request).uri(), expected, "{sent}");
        }
    }
}
