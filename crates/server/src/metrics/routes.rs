//! The route of the metrics.

use super::families::Families;
use super::{endpoints, host, plugins, process, services};
use crate::api::{Callers, Routes, get};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_host::app::App;

/// Returns the routes, which require the operators' key because metrics reveal the use of the host.
pub(crate) fn routes() -> Routes {
    Routes::new("Operation", Callers::Operators).route(
        "/metrics",
        get("Returns metrics in the text format of Prometheus.", metrics).media_types(&["text/plain"]),
    )
}

/// Handles `GET /metrics`.
async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut families = Families::default();
    host::collect(&app, &mut families).await;
    endpoints::collect(&app.endpoints, &mut families);
    services::collect(&app.host.snapshot(), &mut families);
    services::collect_models(&app.usage, &mut families);
    plugins::collect(&app.host.snapshot(), &mut families);
    process::collect(&mut families);
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], families.into_text()).into_response()
}
