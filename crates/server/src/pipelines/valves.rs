//! The valves of filters, as Open WebUI's page of pipelines reads and changes them.

use super::names::{FilterName, known_filter};
use crate::api::{AnyObject, CheckedBody, JsonOf, Path};
use crate::auth::Operator;
use crate::reply::Detail;
use axum::Extension;
use axum::extract::State;
use std::sync::Arc;
use valvehouse_core::valve::ValveSchema;
use valvehouse_host::Plugin;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Values by the name of their valve, or a JSON Schema of them.
type Values = Result<JsonOf<AnyObject>, Detail>;

/// `GET /{id}/valves`: the values in force, secrets masked.
pub(super) async fn valves(State(app): State<Arc<App>>, Path(name): Path<FilterName>) -> Values {
    let plugin = known_filter(&app.host.snapshot(), &name.id)?.clone();
    Ok(JsonOf::new(in_force(&plugin)))
}

/// `GET /{id}/valves/spec`
pub(super) async fn spec(State(app): State<Arc<App>>, Path(name): Path<FilterName>) -> Values {
    let plugin = known_filter(&app.host.snapshot(), &name.id)?.clone();
    Ok(JsonOf::new(schema(&plugin).json_schema()))
}

/// `POST /{id}/valves/update`: these values in place of all that were stored. What the page leaves at its
/// default it sends as null.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Path(name): Path<FilterName>,
    Extension(by): Extension<Operator>,
    sent: CheckedBody<AnyObject>,
) -> Values {
    let plugin = known_filter(&app.host.snapshot(), &name.id)?.id.clone();
    app.admin.replace_valves(&plugin, None, &sent.0, &by.0).await.map_err(|refused| refused.error)?;
    Ok(JsonOf::new(in_force(known_filter(&app.host.snapshot(), &name.id)?)))
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
