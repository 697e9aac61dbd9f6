//! Agents and their runs, as they stand.

use crate::extract::{Id, Words};
use crate::reply::{answer, list as as_list};
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use valvehouse_agent::{RunQuery, Runs, run_to_json, standing};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::{self, App};
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;

/// The default number of listed runs.
const LISTED: u64 = 50;

/// `GET /api/v1/agents`: the models with a memory.
pub(super) async fn agents(State(app): State<Arc<App>>) -> Response {
    answer(all(&app).await)
}

async fn all(app: &App) -> Result<Json, Error> {
    let snapshot = app.host.snapshot();
    let mut agents = Vec::new();
    for model in snapshot.plan().models.iter().filter(|model| model.memory) {
        let store = app.host.store();
        let held = store.conversations(Some(&model.name), i64::MAX.unsigned_abs()).await;
        let held = held.map_err(|error| Error::Host(format!("cannot {error}")))?;
        // Tools as its turns have them; none while its provider cannot serve it.
        let ready = snapshot.ready(&model.name, &[]).ok();
        let specs = ready.iter().flat_map(|ready| ready.kernel.tool_specs());
        let tools: Vec<Json> = specs.map(|spec| spec.name.as_str().into()).collect();
        agents.push(Json::from([
            ("id", model.name.as_str().into()),
            ("provider", model.provider.as_str().into()),
            ("model", model.facts.field("model")),
            ("tools", tools.into()),
            ("conversations", held.len().into()),
        ]));
    }
    Ok(as_list(agents))
}

/// The agent of that name, ready to run.
pub(super) fn agent(snapshot: &Snapshot, id: &str, filter_ids: &[String]) -> Result<Ready, Error> {
    let ready = snapshot.ready_for(id, filter_ids)?;
    if ready.memory {
        return Ok(ready);
    }
    Err(Error::Request {
        message: format!(
            "the model `{id}` does not store conversations; set `memory = true` in its [[models]] entry"
        ),
        param: Some("agent"),
        code: Some("agent_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}

/// `GET /api/v1/agents/{agent}/runs?chat_id=&status=&limit=`
pub(super) async fn list(State(app): State<Arc<App>>, Id(agent): Id, words: Words) -> Response {
    answer(listed(&app, agent, &words).await)
}

async fn listed(app: &App, id: String, words: &Words) -> Result<Json, Error> {
    agent(&app.host.snapshot(), &id, &[])?;
    let wanted = RunQuery {
        agent: Some(id),
        conversation: words.text("chat_id"),
        status: words.text("status"),
        limit: words.number("limit")?.unwrap_or(LISTED),
    };
    let runs = app.runs.list(&wanted).await?;
    Ok(as_list(runs.iter().map(|(run, agent)| run_to_json(run, agent))))
}

/// `GET /api/v1/agents/runs/{run}`: everything there is to know of it.
pub(super) async fn state(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    answer(whole(&app, &id).await)
}

async fn whole(app: &App, id: &str) -> Result<Json, Error> {
    let run = app.runs.run(id).await?;
    let saved = app.runs.last_saved(&run).await?;
    let setup = saved.and_then(|saved| app::setup_of(&app.host.snapshot(), &saved).ok());
    app.runs.state(&run, setup.as_ref()).await
}

/// `GET /api/v1/agents/runs/{run}/pending`: what it waits for, and the possible answers.
pub(super) async fn pending(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    answer(waits(&app, &id).await)
}

async fn waits(app: &App, id: &str) -> Result<Json, Error> {
    let run = app.runs.run(id).await?;
    let saved = app.runs.last_saved(&run).await?;
    let setup = saved.as_ref().and_then(|saved| app::setup_of(&app.host.snapshot(), saved).ok());
    let pending = Runs::pending_action(&run, saved.as_ref(), setup.as_ref());
    let may_go_on = run.status.can_go_on() && !run.is_alive();
    let decisions: &[&str] = match pending.text("type").as_deref() {
        _ if !may_go_on => &[],
        None => &["continue", "retry"],
        Some("approval" | "confirmation") => &["approve", "reject"],
        Some("unfinished_tool") => &["retry", "answer", "reject"],
        Some(_) => &["answer", "reject"],
    };
    let decisions: Vec<Json> = decisions.iter().map(|word| Json::from(*word)).collect();
    Ok(Json::from([
        ("run_id", run.id.as_str().into()),
        ("chat_id", run.conversation.as_str().into()),
        ("status", standing(&run).into()),
        ("pending_action", pending),
        ("decisions", decisions.into()),
    ]))
}
