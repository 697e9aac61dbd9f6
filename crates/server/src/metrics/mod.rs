//! `/metrics`: the host in figures, as Prometheus reads them.
//!
//! Nothing is counted here but requests at the doors; the rest is read where it is counted anyway. Labels
//! come from closed sets: plugins, hooks, tools, providers, doors, and words of ours. Never a user, a chat, or
//! a name that a client may make up.

mod doors;
mod families;
mod host;
mod plugins;
mod process;
mod services;

pub(super) use doors::{OPERATIONS, door_of};

use super::auth;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use families::Families;
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes: figures tell who runs what, which is for operators.
pub(super) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/metrics", get(metrics))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), auth::operators_only))
}

/// `GET /metrics`
async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut families = Families::default();
    host::collect(&app, &mut families).await;
    doors::collect(&app.doors, &mut families);
    services::collect(&app.host.snapshot(), &mut families);
    plugins::collect(&app.host.snapshot(), &mut families);
    process::collect(&mut families);
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], families.into_text()).into_response()
}
