//! Valves of functions, of operators and of single users. Secrets go in and never come out.
//!
//! The rights at these routes: operators may use all of them, a user those about themselves.

use super::function::answer;
use crate::auth::{self, Operator};
use crate::extract::{Id, Words, json};
use crate::reply::Detail;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::valve::ValveSchema;
use valvehouse_host::Plugin;
use valvehouse_host::admin::AdminError;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// `GET …/valves`: the stored values, not the effective ones.
pub(super) async fn stored(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    answer(&app, app.admin.stored_valves(&id, None).await)
}

/// `GET …/valves/spec`: JSON Schema; null where it has no valves.
pub(super) async fn spec(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    let schema = |plugin: Arc<Plugin>| plugin.script.as_ref().map(|script| spec_of(&script.manifest.valves));
    answer(&app, app.admin.plugin(&id).map(|plugin| schema(plugin).into()))
}

/// `GET …/valves/effective`: the effective values, with their sources.
pub(super) async fn effective(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    answer(&app, app.admin.effective_valves(&id))
}

/// `POST …/valves/update`: these in place of all that were stored.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
    body: Body,
) -> Response {
    let updated = async {
        let values = json(&app, body).await?;
        app.admin.replace_valves(&id, None, &values, &by).await
    };
    answer(&app, updated.await)
}

/// `GET …/valves/user?user=`: the values that a user set.
pub(super) async fn of_user(
    State(app): State<Arc<App>>,
    Id(id): Id,
    words: Words,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let stored = async {
        let (user, _) = asked(&app, &parts, &words)?;
        user_schema(&app, &id)?;
        app.admin.stored_valves(&id, Some(&user)).await
    };
    answer(&app, stored.await)
}

/// `GET …/valves/user/spec`: JSON Schema; null where it has no user valves.
pub(super) async fn user_spec(State(app): State<Arc<App>>, Id(id): Id, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let spec = || {
        Asker::of(&app, &parts)?;
        let plugin = app.admin.plugin(&id)?;
        let schema = plugin.script.as_ref().and_then(|script| script.manifest.user_valves.as_ref());
        Ok(schema.map(spec_of).into())
    };
    answer(&app, spec())
}

/// `POST …/valves/user/update?user=`: these in place of all that the user had set.
pub(super) async fn update_user(
    State(app): State<Arc<App>>,
    Id(id): Id,
    words: Words,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let updated = async {
        let (user, by) = asked(&app, &parts, &words)?;
        let values = json(&app, body).await?;
        app.admin.replace_valves(&id, Some(&user), &values, &by).await
    };
    answer(&app, updated.await)
}

fn asked(app: &App, parts: &Parts, words: &Words) -> Result<(String, String), AdminError> {
    Ok(Asker::of(app, parts)?.means(words.text("user"))?)
}

fn user_schema(app: &App, id: &str) -> Result<(), AdminError> {
    let plugin = app.admin.plugin(id)?;
    valvehouse_host::admin::schema(&plugin, Some("")).map(drop)
}

fn spec_of(schema: &ValveSchema) -> Json {
    if schema.fields().is_empty() { Json::Null } else { schema.json_schema() }
}

/// Lets operators by.
pub(super) async fn operators(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match auth::operator(&app, &parts) {
        Ok(operator) => {
            parts.extensions.insert(operator);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(fault) => Detail(fault).into_response(),
    }
}

/// The sender of a request about user valves.
pub(super) enum Asker {
    /// An operator, by the name that is written down.
    Operator(String),
    /// The user that a key is bound to.
    User(String),
}

impl Asker {
    /// Returns the sender of this request, if it is known.
    pub(super) fn of(app: &App, parts: &Parts) -> Result<Self, Error> {
        // A user's own key is checked first: it does not count as a failed attempt at the operators' key. The
        // operators' key may name any user.
        match auth::user_id(app, parts).filter(|_| !auth::may_operate_by_key(app, parts)) {
            Some(id) => Ok(Self::User(id)),
            None => auth::operator(app, parts).map(|operator| Self::Operator(operator.0)),
        }
    }

    /// The user whose valves are meant, and the sender: operators name a user, users are meant themselves.
    pub(super) fn means(self, named: Option<String>) -> Result<(String, String), Error> {
        match (self, named) {
            (Self::Operator(by), Some(user)) => Ok((user, by)),
            (Self::Operator(_), None) => {
                let message = "missing user: add ?user=ID, or use a key that belongs to a user";
                Err(Error::invalid(message, Some("user")))
            }
            (Self::User(own), Some(other)) if other != own => Err(Error::Request {
                message: format!(
                    "this key belongs to {own}, who is not allowed to access the valves of other users; use the key of [admin]"
                ),
                param: Some("user"),
                code: Some("not_your_valves"),
                kind: RequestErrorKind::Forbidden,
            }),
            (Self::User(own), _) => Ok((own.clone(), own)),
        }
    }
}
