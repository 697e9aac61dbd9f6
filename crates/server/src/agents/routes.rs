//! The routes of agents, and who may use them: operators all of them, users those of their own runs.

use super::{conversations, events, launch, runs};
use crate::auth;
use crate::reply::OpenAiError;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;

/// The routes, behind the operators' key.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/agents", get(runs::agents))
        .route("/api/v1/agents/{agent}/runs", get(runs::list).post(launch::begin))
        .route("/api/v1/agents/runs/{run}", get(runs::state))
        .route("/api/v1/agents/runs/{run}/events", get(events::follow))
        .route("/api/v1/agents/conversations", get(conversations::list))
        .route("/api/v1/agents/conversations/import", post(conversations::import))
        .route(
            "/api/v1/agents/conversations/{chat_id}",
            get(conversations::show).delete(conversations::forget),
        )
        .route("/api/v1/agents/conversations/{chat_id}/checkpoints", get(conversations::checkpoints))
        .route("/api/v1/agents/conversations/{chat_id}/export", get(conversations::export))
        .route("/api/v1/agents/checkpoints/{id}", get(conversations::checkpoint))
        .route("/api/v1/agents/checkpoints/{id}/fork", post(conversations::fork))
        .route("/api/v1/agents/prune", post(conversations::prune))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), auth::operators_only))
        .merge(of_users(app))
}

/// The routes that users have for their own runs as well.
fn of_users(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/agents/runs/{run}/pending", get(runs::pending))
        .route("/api/v1/agents/runs/{run}/resume", post(launch::resume))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), owners_and_operators))
}

/// Passes on the requests of operators and of the user who owns the run. All other requests are answered as if
/// the run did not exist.
async fn owners_and_operators(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let user = auth::user_id(&app, &parts);
    let allowed = match user.filter(|_| !auth::may_operate_by_key(&app, &parts)) {
        Some(user) => is_of(&app, &run, &user).await,
        None => auth::operator(&app, &parts).map(drop),
    };
    match allowed {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

async fn is_of(app: &App, id: &str, user: &str) -> Result<(), Error> {
    let run = app.runs.run(id).await?;
    let saved = app.runs.last_saved(&run).await?;
    let owner = saved.and_then(|saved| saved.facts.at_path("user.id").as_str().map(str::to_owned));
    if owner.as_deref() == Some(user) {
        return Ok(());
    }
    Err(Error::Request {
        message: format!("unknown run `{id}`; `valvehouse runs` lists them"),
        param: None,
        code: Some("run_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}
