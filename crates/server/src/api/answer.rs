//! The responses of typed routes.

use super::check::{ExtraFields, check};
use super::describe::{Describe, Description};
use super::schema::{Direction, of};
use crate::reply::{self, OpenAiError, json_response};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::marker::PhantomData;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_store::StoreError;

/// The result of a handler: a value as JSON, or an error in OpenAI's format.
pub(crate) type Answer<T> = Result<Reply<T>, ApiError>;

/// A value that is serialized as JSON.
pub(crate) struct Reply<T>(pub(crate) T);

impl<T: Serialize + JsonSchema + 'static> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let bytes = match serde_json::to_vec(&self.0) {
            Ok(bytes) => bytes,
            Err(error) => return reply::refused(Error::Host(format!("cannot write a response: {error}"))),
        };
        if cfg!(debug_assertions) {
            Json::parse(&bytes).iter().for_each(assert_fits::<T>);
        }
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

/// JSON with the schema of a type, for values from elsewhere or with values of clients and scripts that must
/// stay unchanged. Debug builds check every response against the schema.
pub(crate) struct JsonOf<T>(pub(crate) Json, PhantomData<fn(T)>);

impl<T> JsonOf<T> {
    pub(crate) fn new(json: Json) -> Self {
        Self(json, PhantomData)
    }
}

impl<T: JsonSchema + 'static> IntoResponse for JsonOf<T> {
    fn into_response(self) -> Response {
        if cfg!(debug_assertions) {
            assert_fits::<T>(&self.0);
        }
        json_response(StatusCode::OK, &self.0)
    }
}

/// Asserts that a response matches the schema of its type.
fn assert_fits<T: JsonSchema + 'static>(answer: &Json) {
    let problems = check(of::<T>(Direction::Answer), answer, ExtraFields::Refused);
    assert!(problems.is_empty(), "an answer is not as its type describes it: {problems}: {answer}");
}

impl<T: JsonSchema + 'static> Describe for JsonOf<T> {
    fn describe(description: &mut Description<'_>) {
        description.json_answer::<T>();
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

/// An error, which is logged and returned in OpenAI's format.
pub(crate) struct ApiError(Error);

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        reply::log(&self.0);
        OpenAiError(self.0).into_response()
    }
}
