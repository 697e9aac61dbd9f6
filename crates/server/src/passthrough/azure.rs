//! Paths of Azure's clients, which name the model in the path: `/openai/deployments/{model}/chat/completions`.

use super::endpoint;
use crate::body::read_plain;
use crate::openai;
use crate::reply;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use valvehouse_core::fault::Fault;
use valvehouse_host::app::App;
use valvehouse_json::{Json, skim};

/// A chat, or another route, of a deployment.
pub(super) async fn deployment(
    State(app): State<Arc<App>>,
    Path((model, rest)): Path<(String, String)>,
    request: Request,
) -> Response {
    if rest != "chat/completions" {
        let request = without_version(request);
        return endpoint::through(app, request, rest, Some(model)).await;
    }
    match of_model(&app, request, &model).await {
        Ok(request) => openai::chat::chat(State(app), request).await,
        Err(fault) => reply::refused(fault),
    }
}

/// The request without the version of Azure's API: the service's own address has one, where it wants one.
fn without_version(mut request: Request) -> Request {
    let query = request.uri().query().unwrap_or_default();
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("api-version=")).collect();
    let path = request.uri().path();
    let uri = if kept.concat().is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    if let Ok(uri) = uri.parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// The same chat with the model that the path names.
async fn of_model(app: &App, request: Request, model: &str) -> Result<Request, Fault> {
    let (mut parts, body) = request.into_parts();
    crate::auth::user_of_key(app, &parts.headers)?;
    let bytes = read_plain(&parts.headers, body, app.config.server.max_body_mb).await?;
    let bytes = with_model(&bytes, model);
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// A body with this model: in place of the one that it names, or as its first field. What is not an object stays as it
/// is, to be refused where chats are.
fn with_model(body: &Bytes, model: &str) -> Bytes {
    let quoted = Json::from(model).to_string();
    let mut own = None;
    let is_object = skim(body, |key, value| {
        if key == "model" {
            let start = value.as_ptr() as usize - body.as_ptr() as usize;
            own = Some(start..start + value.len());
        }
    });
    let open = body.iter().position(|byte| *byte == b'{');
    let (at, with) = match (own, open.filter(|_| is_object)) {
        (Some(own), _) if is_object => (own, quoted),
        (_, Some(open)) => {
            let is_empty = body[open + 1..].trim_ascii_start().starts_with(b"}");
            let comma = if is_empty { "" } else { "," };
            (open + 1..open + 1, format!("\"model\":{quoted}{comma}"))
        }
        _ => return body.clone(),
    };
    [&body[..at.start], with.as_bytes(), &body[at.end..]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_the_path_stands_in_the_body() {
        for (body, expected) in [
            (r#"{"messages":[]}"#, r#"{"model":"gpt","messages":[]}"#),
            (r#" { "a" : 1.0, "model" : "x" }"#, r#" { "a" : 1.0, "model" : "gpt" }"#),
            ("{ }", r#"{"model":"gpt" }"#),
            ("[1]", "[1]"),
        ] {
            assert_eq!(with_model(&Bytes::from(body), "gpt"), expected);
        }
    }
}
