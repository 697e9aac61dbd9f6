//! Embeddings as base64, for services that ignore `encoding_format`. OpenAI's clients ask for it by default and decode
//! whatever they receive.

use super::body::{Form, RequestBody};
use crate::body::{BodyLimits, read};
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{PassthroughBody, RelayResponse};
use valvehouse_host::app::App;
use valvehouse_json::{Json, scan_object};
use valvehouse_net::MAX_BODY;

/// Returns `true` if a client asks for base64.
pub(super) fn are_packed(path: &str, sent: &RequestBody) -> bool {
    let mut is_packed = false;
    path == "embeddings"
        && sent.form == Form::Json
        && scan_object(&sent.begun, |key, value| {
            is_packed |= key == "encoding_format" && value == r#""base64""#;
        })
        && is_packed
}

/// Writes the lists of numbers in a response as base64.
///
/// # Errors
/// Returns an error if the response ends early or is too large.
pub(super) async fn packed(app: &App, relayed: RelayResponse) -> Result<RelayResponse, Error> {
    let bytes = whole(app, Body::from_stream(relayed.body.into_stream())).await?;
    let body = match Json::parse_shared(&bytes) {
        Ok(answer) if pack(&answer) => {
            answer.encode_raw().map_err(|error| Error::Host(error.to_string()))?.into()
        }
        _ => bytes,
    };
    Ok(RelayResponse { body: PassthroughBody::Whole(body), ..relayed })
}

/// Reads the embeddings of a service completely.
///
/// # Errors
/// Returns an error if the response ends early or is too large.
pub(crate) async fn whole(app: &App, body: Body) -> Result<Bytes, Error> {
    // As large as any answer of a service that is read completely.
    let limits = BodyLimits { max_mb: (MAX_BODY >> 20) as u64, memory: app.memory.clone() };
    read(body, &limits).await.map_err(|error| match error {
        Error::Request { message, .. } => unreadable(&message),
        error => error,
    })
}

/// Returns the error for embeddings that cannot be read.
pub(crate) fn unreadable(why: &str) -> Error {
    Error::Misshapen { message: format!("cannot read the embeddings of the service: {why}") }
}

/// Returns `true` if an answer had lists of numbers.
fn pack(answer: &Json) -> bool {
    let mut is_changed = false;
    for one in answer.list("data") {
        let Some(Json::Array(numbers)) = one.get("embedding") else { continue };
        // Clients read 32-bit numbers.
        let bytes = |number: &Json| (number.as_f64().unwrap_or(f64::NAN) as f32).to_le_bytes();
        let bytes: Vec<u8> = numbers.with(|numbers| numbers.iter().flat_map(bytes).collect());
        is_changed |= one.set("embedding", STANDARD.encode(bytes)).is_ok();
    }
    is_changed
}
