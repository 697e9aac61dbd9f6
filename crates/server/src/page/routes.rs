//! The routes of the page.

use super::{assets, chain, overview};
use crate::{auth, operations};
use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use axum::routing::get;
use std::sync::Arc;
use valvehouse_host::app::App;

/// The routes. The page itself is public: it shows nothing before an operator signs in.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let data = Router::new()
        .route("/api/v1/overview", get(overview::show))
        .route("/api/v1/models/{model}/chain", get(chain::show))
        .route("/api/v1/coverage", get(chain::coverage))
        .route("/api/v1/tools", get(overview::tools))
        .route("/api/v1/questions", get(operations::questions))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), auth::operators_only));
    Router::new().route("/", get(front)).route("/page/{name}", get(assets::file)).merge(data)
}

/// `GET /`: the page for browsers, a word for everybody else.
async fn front(headers: HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut answer = match accepts.into_iter().any(|value| value.contains("text/html")) {
        true => assets::page(&headers),
        false => operations::status().await,
    };
    answer.headers_mut().insert(header::VARY, header::HeaderValue::from_static("accept"));
    answer
}
