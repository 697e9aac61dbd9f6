//! Routes of Azure's clients, which name the model in the path:
//! `/openai/deployments/{model}/chat/completions`.

use super::body::{find_model, with_model};
use super::endpoint;
use crate::api::Path;
use crate::openai;
use crate::reply;
use crate::turn::serve::received;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::response::Response;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;

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
        let request = without_version(request);
        return endpoint::through(app, request, rest, Some(model)).await;
    }
    match of_model(&app, request, &model).await {
        Ok(request) => openai::chat::chat(State(app), request).await,
        Err(error) => reply::refused(error),
    }
}

/// Removes the version of Azure's API from a request. The provider's address contains one if it needs one.
fn without_version(mut request: Request) -> Request {
    let Some(query) = request.uri().query() else { return request };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("api-version=")).collect();
    let path = request.uri().path();
    let uri = if kept.concat().is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    if let Ok(uri) = uri.parse() {
        *request.uri_mut() = uri;
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
}
