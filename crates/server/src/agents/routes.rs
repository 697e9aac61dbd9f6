//! The routes of agents. Operators may use all of them, and users those for their own runs.

use super::{conversations, events, launch, runs};
use crate::api::{Callers, Routes, delete, get, post};
use crate::auth;
use crate::reply::ErrorForm;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use std::sync::Arc;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::access::OperatorRole::{Admin, Write};
use valvehouse_host::app::App;

/// The description of a turn's result.
const OUTCOME: &str =
    "The run with its answer; streamed, OpenAI's events, and the same as the last event `run`.";

/// Returns the routes, most of which require the operators' key.
pub(crate) fn routes(app: &Arc<App>) -> Routes {
    Routes::new("Agents", Callers::Operators)
        .route("/api/v1/agents", get("Lists the models with a memory.", runs::agents))
        .route("/api/v1/agents/{agent}/runs", get("Lists runs of an agent, newest first.", runs::list))
        .route(
            "/api/v1/agents/{agent}/runs",
            post(Write, "Starts a run.", launch::begin)
                .takes::<launch::BeginRun>()
                .returns::<launch::RunAnswer>()
                .streams()
                .takes_header("x-valvehouse-events", "`1` adds the events of plugins to the stream.")
                .runs_turns()
                .result(OUTCOME),
        )
        .route("/api/v1/agents/runs", get("Lists runs of all agents, newest first.", runs::all))
        .route("/api/v1/agents/runs/{run}", get("Returns the complete state of a run.", runs::state))
        .route(
            "/api/v1/agents/runs/{run}/events",
            get("Streams a run to its end.", events::follow)
                .result("The events `step`, `status`, `pending_action`, `end` and `error`."),
        )
        .route(
            "/api/v1/agents/conversations",
            get("Lists conversations, most recently used first.", conversations::list),
        )
        .route(
            "/api/v1/agents/conversations/import",
            post(Admin, "Imports an exported conversation.", conversations::import).conflicts().unusable(),
        )
        .route(
            "/api/v1/agents/conversations/{chat_id}",
            get("Returns a conversation with its messages.", conversations::show),
        )
        .route(
            "/api/v1/agents/conversations/{chat_id}",
            delete(Admin, "Deletes a conversation.", conversations::forget).conflicts(),
        )
        .route(
            "/api/v1/agents/conversations/{chat_id}/checkpoints",
            get("Lists the checkpoints of a conversation, newest first.", conversations::checkpoints),
        )
        .route(
            "/api/v1/agents/conversations/{chat_id}/export",
            get("Exports a conversation.", conversations::export),
        )
        .route(
            "/api/v1/agents/checkpoints/{id}",
            get("Returns a checkpoint with its state.", conversations::checkpoint),
        )
        .route(
            "/api/v1/agents/checkpoints/{id}/fork",
            post(Write, "Starts a conversation from a checkpoint.", conversations::fork).conflicts(),
        )
        .route(
            "/api/v1/agents/prune",
            post(Admin, "Deletes old checkpoints.", conversations::prune).fails(404),
        )
        .merge(of_users(app))
}

/// Returns the routes that users may use for their own runs.
fn of_users(app: &Arc<App>) -> Routes {
    Routes::new("Agents", Callers::Users)
        .route(
            "/api/v1/agents/runs/{run}/pending",
            get("Returns the pending action of a run and the possible decisions.", runs::pending),
        )
        .route(
            "/api/v1/agents/runs/{run}/resume",
            post(Write, "Resumes a run that waits, failed or was interrupted.", launch::resume)
                .returns::<launch::RunAnswer>()
                .streams()
                .conflicts()
                .runs_turns()
                .result(OUTCOME),
        )
        .map(|router| router.route_layer(from_fn_with_state(app.clone(), owners_and_operators)))
}

/// Admits operators and the user who owns the run. Other requests are answered as if the run did not exist.
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
    auth::admitted(allowed, ErrorForm::OpenAi, parts, body, next).await
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
