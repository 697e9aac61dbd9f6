//! Extractors for the id in a path, and an object in a body.

use crate::body::{BodyLimits, parsed, read};
use crate::reply::OpenAiError;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use bytes::Bytes;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The id in a path, percent-decoded. It may contain any characters.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = OpenAiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, OpenAiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let id = path.map_err(|error| Error::invalid(format!("invalid id in the path: {error}"), None));
        id.map(|Path(id)| Self(id)).map_err(OpenAiError)
    }
}

/// Reads a body as an object. A missing body is an empty object.
pub(crate) async fn object(app: &App, body: Body) -> Result<Json, Error> {
    object_of(&read(body, &BodyLimits::of(app)).await?)
}

/// Parses bytes as an object. An empty slice is an empty object.
pub(crate) fn object_of(bytes: &Bytes) -> Result<Json, Error> {
    if bytes.is_empty() {
        return Ok(Json::object());
    }
    match parsed(bytes)? {
        object @ Json::Object(_) => Ok(object),
        other => {
            Err(Error::invalid(format!("the request body must be a JSON object, not {}", other.kind()), None))
        }
    }
}
