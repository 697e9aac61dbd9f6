//! Routes for the valves of functions, for all users and for single users. Stored secrets are never returned.
//!
//! Operators may use all routes, and users those for their own values.

use super::function::{FunctionAnswer, FunctionPath, answer};
use crate::api::{AnyObject, CheckedBody, JsonOf, Path, Query};
use crate::auth::{self, Operator};
use axum::Extension;
use axum::extract::State;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::valve::ValveSchema;
use valvehouse_host::Plugin;
use valvehouse_host::admin::{AdminError, EffectiveValve};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Values by valve name, or their JSON Schema; null if there are none.
type Values = FunctionAnswer<JsonOf<Option<AnyObject>>>;

/// The query of a route for user valves.
#[derive(Deserialize, JsonSchema)]
pub(super) struct UserQuery {
    /// The id of the user. It is required for operators; the key of a user stands for that user.
    user: Option<String>,
}

/// Handles `GET …/valves`: returns the stored values, not the effective ones.
pub(super) async fn stored(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
) -> Values {
    answer(&app, app.admin.stored_valves(&id, None).await)
}

/// Handles `GET …/valves/spec`: returns the valves as JSON Schema; null if there are none.
pub(super) async fn spec(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
) -> Values {
    let schema = |plugin: Arc<Plugin>| plugin.script.as_ref().map(|script| spec_of(&script.manifest.valves));
    answer(&app, app.admin.plugin(&id).map(|plugin| Json::from(schema(plugin))))
}

/// Handles `GET …/valves/effective`: returns the effective values with their sources.
pub(super) async fn effective(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
) -> FunctionAnswer<BTreeMap<String, EffectiveValve>> {
    answer(&app, app.admin.effective_valves(&id))
}

/// Handles `POST …/valves/update`: replaces all stored values. Null is dropped, an unknown name is rejected, and
/// a masked secret keeps its stored value.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
    values: CheckedBody<AnyObject>,
) -> Values {
    answer(&app, app.admin.replace_valves(&id, None, &values.0, &by).await)
}

/// Handles `GET …/valves/user?user=`: returns the values that a user set.
pub(super) async fn of_user(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Query(query): Query<UserQuery>,
    parts: Parts,
) -> Values {
    let stored = async {
        let (user, _) = user_and_author(&app, &parts, query)?;
        user_schema(&app, &id)?;
        app.admin.stored_valves(&id, Some(&user)).await
    };
    answer(&app, stored.await)
}

/// Handles `GET …/valves/user/spec`: returns the user valves as JSON Schema; null if there are none.
pub(super) async fn user_spec(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    parts: Parts,
) -> Values {
    let spec = || {
        Asker::of(&app, &parts)?;
        let plugin = app.admin.plugin(&id)?;
        let schema = plugin.script.as_ref().and_then(|script| script.manifest.user_valves.as_ref());
        Ok(Json::from(schema.map(spec_of)))
    };
    answer(&app, spec())
}

/// Handles `POST …/valves/user/update?user=`: replaces all values that a user set.
pub(super) async fn update_user(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Query(query): Query<UserQuery>,
    parts: Parts,
    values: CheckedBody<AnyObject>,
) -> Values {
    let updated = async {
        let (user, by) = user_and_author(&app, &parts, query)?;
        app.admin.replace_valves(&id, Some(&user), &values.0, &by).await
    };
    answer(&app, updated.await)
}

fn user_and_author(app: &App, parts: &Parts, query: UserQuery) -> Result<(String, String), AdminError> {
    Ok(Asker::of(app, parts)?.means(query.user)?)
}

fn user_schema(app: &App, id: &str) -> Result<(), AdminError> {
    let plugin = app.admin.plugin(id)?;
    valvehouse_host::admin::schema(&plugin, Some("")).map(drop)
}

fn spec_of(schema: &ValveSchema) -> Json {
    if schema.fields().is_empty() { Json::Null } else { schema.json_schema() }
}

/// The caller of a route for user valves.
pub(super) enum Asker {
    /// An operator, by the recorded name.
    Operator(String),
    /// The user that a key is bound to.
    User(String),
}

impl Asker {
    /// Returns the caller of a request, if authenticated.
    pub(super) fn of(app: &App, parts: &Parts) -> Result<Self, Error> {
        // A user's own key is checked first, so that it does not count as a failed attempt at the operators'
        // key. The operators' key may name any user.
        match auth::user_id(app, parts).filter(|_| !auth::may_operate_by_key(app, parts)) {
            Some(id) => Ok(Self::User(id)),
            None => auth::operator(app, parts).map(|operator| Self::Operator(operator.0)),
        }
    }

    /// Returns the user whose valves are requested, and the caller. Operators have to name a user.
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
