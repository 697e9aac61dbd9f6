//! What every request passes on its way in, and its answer on the way out, whichever door it is for: it is
//! counted, let through or refused, and its answer names the generation.

use super::{gate, metrics, reply};
use crate::followed::followed;
use crate::headers::GENERATION;
use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use valvehouse_host::app::App;

/// What an answer gains on its way out and on the wire, so that its headers grow once.
const HEADERS: usize = 12;

/// On the way to a route of the router.
pub(super) async fn enter(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let door = metrics::door_of(request.extensions().get::<MatchedPath>());
    pass(&app, door, request, |request| next.run(request)).await
}

/// On the way to whoever does the work at this door. While the host stops, what is new is refused.
pub(super) async fn pass<F: Future<Output = Response>>(
    app: &Arc<App>,
    door: &'static str,
    request: Request,
    work: impl FnOnce(Request) -> F,
) -> Response {
    let mut answering = app.doors.of(door).begin();
    let mut response = match app.is_stopping() && door != metrics::OPERATIONS {
        true => reply::stopping(),
        false => gate::gate(app, request, work).await,
    };
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    // A turn's own, or the one that runs now.
    if !headers.contains_key(&GENERATION) {
        headers.insert(GENERATION, HeaderValue::from(app.host.snapshot().generation));
    }
    answering.answers(response.status().as_u16());
    followed(response, answering)
}
