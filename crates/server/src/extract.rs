//! Extractors for the id in a path, the parameters of a query, and an object in a body.

use crate::body::{BodyLimits, parsed, read};
use crate::reply::OpenAiError;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use bytes::Bytes;
use std::collections::HashMap;
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

/// The parameters of a query.
pub(crate) struct Words(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Words {
    type Rejection = OpenAiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, OpenAiError> {
        let query = parts.uri.query().unwrap_or("");
        Ok(Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Words {
    /// Creates the parameters of a query.
    pub(crate) fn of<const COUNT: usize>(words: [(&str, &str); COUNT]) -> Self {
        Self(words.into_iter().map(|(name, word)| (name.to_owned(), word.to_owned())).collect())
    }

    /// Returns a parameter; `None` if it is missing or empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|word| !word.is_empty()).cloned()
    }

    /// Returns `true` if a parameter is `true` or `1`, and `false` if it is missing.
    ///
    /// # Errors
    /// Returns a request error for any other value except `false` and `0`.
    pub(crate) fn is_true(&self, name: &'static str) -> Result<bool, Error> {
        match self.text(name).as_deref() {
            Some("true" | "1") => Ok(true),
            None | Some("false" | "0") => Ok(false),
            Some(_) => Err(Error::invalid(format!("`{name}` must be true or false"), Some(name))),
        }
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, Error> {
        let number = |word: String| {
            word.parse().map_err(|_| Error::invalid(format!("`{name}` must be a whole number"), Some(name)))
        };
        self.text(name).map(number).transpose()
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
