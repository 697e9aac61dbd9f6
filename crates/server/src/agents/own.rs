//! Runs of users: each may see what their own run waits for, and decide on it.

use crate::auth;
use crate::reply::OpenAiError;
use axum::extract::{Path, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_host::app::App;

/// Passes on the requests of operators and of the user who owns the run. All other requests are answered as if
/// the run did not exist.
pub(super) async fn owners_and_operators(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    request: Request,
    next: Next,
) -> Response {
    let user = auth::user_id(&app, request.headers());
    let (parts, body) = request.into_parts();
    let allowed = match user.filter(|_| !auth::may_operate_by_key(&app, &parts)) {
        Some(user) => is_of(&app, &run, &user).await,
        None => auth::operator(&app, &parts).map(drop),
    };
    match allowed {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

async fn is_of(app: &App, id: &str, user: &str) -> Result<(), Fault> {
    let run = app.runs.run(id).await?;
    let saved = app.runs.last_saved(&run).await?;
    let owner = saved.and_then(|saved| saved.facts.at_path("user.id").as_str().map(str::to_owned));
    if owner.as_deref() == Some(user) {
        return Ok(());
    }
    Err(Fault::Request {
        message: format!("there is no run `{id}`; `valvehouse runs` lists them"),
        param: None,
        code: Some("run_not_found"),
        kind: RequestFault::NotFound,
    })
}
