//! The valves of filters, as Open WebUI's page of pipelines reads and changes them.

use super::names::known_filter;
use crate::auth::Operator;
use crate::body::{parsed, read};
use crate::reply::{Detail, json_response};
use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_core::valve::ValveSchema;
use valvehouse_host::Plugin;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// `GET /{id}/valves`: the values in force, secrets masked.
pub(super) async fn valves(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response {
    answer(known_filter(&app.host.snapshot(), &id).map(|plugin| in_force(plugin)))
}

/// `GET /{id}/valves/spec`
pub(super) async fn spec(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response {
    answer(known_filter(&app.host.snapshot(), &id).map(|plugin| schema(plugin).json_schema()))
}

/// `POST /{id}/valves/update`: these values in place of all that were stored. What the page leaves at its
/// default it sends as null.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Extension(by): Extension<Operator>,
    request: Request,
) -> Response {
    answer(updated(&app, &id, &by, request).await)
}

async fn updated(app: &Arc<App>, id: &str, by: &Operator, request: Request) -> Result<Json, Error> {
    let bytes = read(request.into_body(), app.config.server.max_body_mb).await?;
    let sent = parsed(&bytes)?;
    let plugin = known_filter(&app.host.snapshot(), id)?.id.clone();
    app.admin.replace_valves(&plugin, None, &sent, &by.0).await.map_err(|refused| refused.fault)?;
    Ok(in_force(known_filter(&app.host.snapshot(), id)?))
}

/// The valves that the filter declares; none where it does not load.
fn schema(plugin: &Plugin) -> ValveSchema {
    plugin.script.as_ref().map_or_else(ValveSchema::default, |script| script.manifest.valves.clone())
}

fn in_force(plugin: &Plugin) -> Json {
    match &plugin.script {
        Some(script) => script.manifest.valves.mask(&script.valves),
        None => Json::object(),
    }
}

fn answer(answer: Result<Json, Error>) -> Response {
    match answer {
        Ok(value) => json_response(StatusCode::OK, &value),
        Err(fault) => Detail(fault).into_response(),
    }
}
