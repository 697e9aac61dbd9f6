//! The routes that are passed through. Any other could be a chat under another name, which no guard would see.

use axum::http::Method;
use valvehouse_core::error::{Error, RequestErrorKind};

/// An id in a route.
const ID: &str = "{id}";

/// The methods and the routes below `/v1`.
const KNOWN: [(&str, &str); 21] = [
    ("POST", "embeddings"),
    ("POST", "completions"),
    ("POST", "moderations"),
    ("POST", "rerank"),
    ("POST", "audio/speech"),
    ("POST", "audio/transcriptions"),
    ("POST", "audio/translations"),
    ("POST", "images/generations"),
    ("POST", "images/edits"),
    ("POST", "images/variations"),
    ("GET POST", "files"),
    ("GET DELETE", "files/{id}"),
    ("GET", "files/{id}/content"),
    ("GET POST", "batches"),
    ("GET", "batches/{id}"),
    ("POST", "batches/{id}/cancel"),
    ("POST", "messages/count_tokens"),
    ("GET POST", "messages/batches"),
    ("GET DELETE", "messages/batches/{id}"),
    ("GET", "messages/batches/{id}/results"),
    ("POST", "messages/batches/{id}/cancel"),
];

/// Rejects a path that is not one of the known routes.
///
/// # Errors
/// Returns a request error with the known routes of the same family.
pub(super) fn check(method: &Method, path: &str) -> Result<(), Error> {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    if KNOWN.iter().any(|(methods, route)| methods.split(' ').any(|own| own == method) && is_at(route, path))
    {
        return Ok(());
    }
    let family = path.split_once('/').map_or(path, |(first, _)| first);
    let is_near = |route: &&str| route.split('/').next() == Some(family);
    let near: Vec<&str> = KNOWN.iter().map(|(_, route)| *route).filter(is_near).collect();
    let how = match near.as_slice() {
        [] => String::new(),
        near => format!("; known below `{family}`: {}", near.join(", ")),
    };
    Err(Error::Request {
        message: format!("unknown route {method} /v1/{path}{how}"),
        param: None,
        code: Some("route_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}

/// Returns `true` if a path has the steps of a route.
fn is_at(route: &str, path: &str) -> bool {
    let (mut steps, mut own) = (route.split('/'), path.split('/'));
    loop {
        match (steps.next(), own.next()) {
            (None, None) => return true,
            (Some(ID), Some(id)) if !id.is_empty() => {}
            (Some(step), Some(own)) if step == own => {}
            _ => return false,
        }
    }
}
