//! The valves of filters, as read and changed on Open WebUI's page of pipelines.

use super::names::{FilterName, known_filter};
use crate::api::{AnyObject, CheckedBody, JsonOf, Path, Reply};
use crate::auth::Operator;
use crate::reply::Detail;
use axum::Extension;
use axum::extract::State;
use std::sync::Arc;
use valvehouse_core::valve::ValveSchema;
use valvehouse_host::Plugin;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Values by valve name, or their JSON Schema.
type Values = Result<Reply<JsonOf<AnyObject>>, Detail>;

/// Handles `GET /{id}/valves`: returns the effective values with secrets masked.
pub(super) async fn valves(State(app): State<Arc<App>>, Path(name): Path<FilterName>) -> Values {
    let plugin = known_filter(&app.host.snapshot(), &name.id)?.clone();
    Ok(Reply(in_force(&plugin).into()))
}

/// Handles `GET /{id}/valves/spec`.
pub(super) async fn spec(State(app): State<Arc<App>>, Path(name): Path<FilterName>) -> Values {
    let plugin = known_filter(&app.host.snapshot(), &name.id)?.clone();
    Ok(Reply(schema(&plugin).json_schema().into()))
}

/// Handles `POST /{id}/valves/update`: replaces all stored values. The page sends null for default values.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Path(name): Path<FilterName>,
    Extension(by): Extension<Operator>,
    sent: CheckedBody<AnyObject>,
) -> Values {
    let plugin = known_filter(&app.host.snapshot(), &name.id)?.id.clone();
    app.admin.replace_valves(&plugin, None, &sent.0, &by.0).await.map_err(|refused| refused.error)?;
    Ok(Reply(in_force(known_filter(&app.host.snapshot(), &name.id)?).into()))
}

/// Returns the valves that the filter declares; empty if it failed to load.
fn schema(plugin: &Plugin) -> ValveSchema {
    plugin.script.as_ref().map_or_else(ValveSchema::default, |script| script.manifest.valves.clone())
}

fn in_force(plugin: &Plugin) -> Json {
    match &plugin.script {
        Some(script) => script.manifest.valves.mask(&script.valves),
        None => Json::object(),
    }
}
