//! The responses of typed routes.

use super::describe::{Describe, Description};
use crate::reply::{self, OpenAiError};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::marker::PhantomData;
use valvehouse_core::error::Error;
use valvehouse_host::SpelledJson;
use valvehouse_json::Json;

/// The result of a handler: a value as JSON, or an error in OpenAI's format.
pub(crate) type Answer<T> = Result<Reply<T>, OpenAiError>;

/// A value that is serialized as JSON.
pub(crate) struct Reply<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let bytes = match serde_json::to_vec(&self.0) {
            Ok(bytes) => bytes,
            Err(error) => return reply::refused(Error::Host(format!("cannot write a response: {error}"))),
        };
        let mut response = Response::new(Body::from(bytes));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl<T: JsonSchema> Describe for Reply<T> {
    fn describe(description: &mut Description<'_>) {
        description.json_answer::<T>();
    }
}

// JSON that is written elsewhere, with the schema of a type. A doc comment would be a description of each.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct JsonOf<T>(#[schemars(with = "T")] SpelledJson, #[serde(skip)] PhantomData<fn(T)>);

impl<T> From<Json> for JsonOf<T> {
    fn from(json: Json) -> Self {
        Self(json.into(), PhantomData)
    }
}

/// A list.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct List<T> {
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    data: Vec<T>,
}

impl<T> List<T> {
    pub(crate) fn reply(items: impl IntoIterator<Item = T>) -> Reply<Self> {
        Reply(Self { object: "list", data: items.into_iter().collect() })
    }
}

/// A response of server-sent events.
pub(crate) struct EventStream(pub(crate) Response);

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Describe for EventStream {
    fn describe(description: &mut Description<'_>) {
        description.answer("200", "text/event-stream", json!({"$ref": "#/components/schemas/Event"}));
    }
}
