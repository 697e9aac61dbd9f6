//! The input of a request: its path, query and body.

use super::describe::{Describe, Description};
use super::schema::of;
use crate::body::{BodyLimits, parsed, read};
use crate::reply::ErrorForm;
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::response::Response;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};

/// The parameters of a path, percent-decoded. A text may contain any characters.
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters of a query. Unknown and empty parameters are ignored.
pub(crate) struct Query<T>(pub(crate) T);

/// A JSON body. An empty body is read as an empty object.
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body that is checked against a type but stays unchanged, with all of its fields.
pub(crate) struct CheckedBody<T>(pub(crate) Json, PhantomData<fn(T)>);

impl<T: DeserializeOwned + JsonSchema + 'static> FromRequestParts<Arc<App>> for Path<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let words = extract::Path::<Vec<(String, String)>>::from_request_parts(parts, app).await;
        let words = words.map_err(|error| Error::invalid(format!("invalid id in the path: {error}"), None));
        let value = words.and_then(|extract::Path(words)| from_words(words, "path"));
        value.map(Self).map_err(|error| ErrorForm::of(parts).refuse(error))
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Response> {
        let query = parts.uri.query().unwrap_or("");
        let words = url::form_urlencoded::parse(query.as_bytes()).into_owned();
        let words = words.filter(|(_, word)| !word.is_empty()).collect();
        from_words(words, "query").map(Self).map_err(|error| ErrorForm::of(parts).refuse(error))
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (form, body) = received(request, app).await?;
        let value = body.and_then(|body| typed(&body, "request body"));
        value.map(Self).map_err(|error| form.refuse(error))
    }
}

impl<T: JsonSchema + 'static> FromRequest<Arc<App>> for CheckedBody<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (form, body) = received(request, app).await?;
        let value = body.and_then(|body| fits::<T>(&body, "request body").map(|()| body));
        value.map(|body| Self(body, PhantomData)).map_err(|error| form.refuse(error))
    }
}

async fn received(request: Request, app: &App) -> Result<(ErrorForm, Result<Json, Error>), Response> {
    let (parts, body) = request.into_parts();
    let form = ErrorForm::of(&parts);
    let bytes = read(body, &BodyLimits::of(app)).await.map_err(|error| form.refuse(error))?;
    let json = if bytes.is_empty() { Ok(Json::object()) } else { parsed(&bytes) };
    Ok((form, json))
}

/// Checks JSON against the type of a request.
///
/// # Errors
/// Returns a request error that names all wrong fields.
pub(crate) fn fits<T: JsonSchema + 'static>(value: &Json, part: &str) -> Result<(), Error> {
    of::<T>()
        .check(&Value::from(value))
        .map_err(|problems| Error::invalid(format!("invalid {part}: {problems}"), problems.field))
}

/// Checks JSON against the type of a request, and converts it.
fn typed<T: DeserializeOwned + JsonSchema + 'static>(value: &Json, part: &str) -> Result<T, Error> {
    fits::<T>(value, part)?;
    value.to().map_err(|error| Error::invalid(format!("invalid {part}: {error}"), None))
}

/// Converts texts to the types that the schema declares for their names.
fn from_words<T>(words: Vec<(String, String)>, part: &str) -> Result<T, Error>
where
    T: DeserializeOwned + JsonSchema + 'static,
{
    let properties = of::<T>().schema().get("properties");
    let values = Object::default();
    for (name, word) in words {
        if let Some(schema) = properties.and_then(|all| all.get(&name)) {
            // A scalar fits into a new object.
            values.put(&name, value_of(schema, &word));
        }
    }
    typed(&values.into(), part)
}

/// Converts a text to a declared number or boolean. Any other text stays unchanged.
fn value_of(schema: &Value, word: &str) -> Json {
    let is = |name: &str| {
        let types = &schema["type"];
        types == name || types.as_array().is_some_and(|types| types.iter().any(|own| own == name))
    };
    match word {
        "true" | "1" if is("boolean") => true.into(),
        "false" | "0" if is("boolean") => false.into(),
        number if is("integer") => number.parse::<i64>().map_or_else(|_| number.into(), Json::from),
        text => text.into(),
    }
}

impl<T: JsonSchema + 'static> Describe for Path<T> {
    fn describe(description: &mut Description<'_>) {
        description.parameters("path", of::<T>().schema());
    }
}

impl<T: JsonSchema + 'static> Describe for Query<T> {
    fn describe(description: &mut Description<'_>) {
        description.parameters("query", of::<T>().schema());
    }
}

impl<T: JsonSchema + 'static> Describe for Body<T> {
    fn describe(description: &mut Description<'_>) {
        description.json_body(of::<T>().schema());
    }
}

impl<T: JsonSchema + 'static> Describe for CheckedBody<T> {
    fn describe(description: &mut Description<'_>) {
        description.json_body(of::<T>().schema());
    }
}
