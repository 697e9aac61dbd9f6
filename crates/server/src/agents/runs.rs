//! Routes for agents and the state of their runs.

use crate::api::{Answer, JsonOf, List, Path, Query, Reply};
use crate::facts;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_agent::{RunFacts, RunQuery, RunState, Runs, run_to_json, standing};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::{self, App};
use valvehouse_host::{Ready, Snapshot, SpelledJson};
use valvehouse_json::Json;

/// The default number of listed runs.
const LISTED: u64 = 50;

/// A model with a memory.
#[derive(Serialize, JsonSchema)]
pub(super) struct Agent {
    /// The name of the model.
    id: String,
    provider: String,
    /// The name of the model at its provider, or null.
    #[schemars(with = "Option<String>")]
    model: Json,
    /// The names of the agent's tools.
    tools: Vec<String>,
    /// The number of the agent's conversations.
    conversations: usize,
}

/// Handles `GET /api/v1/agents`: lists the models with a memory.
pub(super) async fn agents(State(app): State<Arc<App>>) -> Answer<List<Agent>> {
    let snapshot = app.host.snapshot();
    let mut agents = Vec::new();
    for model in snapshot.plan().models.iter().filter(|model| model.memory) {
        let store = app.host.store();
        let held = store.conversations(Some(&model.name), i64::MAX.unsigned_abs()).await;
        let held = held.map_err(|error| Error::Host(format!("cannot {error}")))?;
        // The tools are those of the model's turns; there are none while its provider is unavailable.
        let ready = snapshot.ready(&model.name, &[]).ok();
        let specs = ready.iter().flat_map(|ready| ready.kernel.tool_specs());
        agents.push(Agent {
            id: model.name.clone(),
            provider: model.provider.clone(),
            model: model.facts.field("model"),
            tools: specs.map(|spec| spec.name.clone()).collect(),
            conversations: held.len(),
        });
    }
    Ok(List::reply(agents))
}

/// Returns the agent with this name, ready to run a request.
pub(super) fn agent(snapshot: &Snapshot, id: &str, body: &Json) -> Result<Ready, Error> {
    let ready = snapshot.ready_for(id, &facts::requested_filters(body)?, body)?;
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

/// The path of an agent.
#[derive(Deserialize, JsonSchema)]
pub(super) struct AgentPath {
    /// The name of the model.
    #[schemars(example = &"agent")]
    pub(super) agent: String,
}

/// The query of the list of runs.
#[derive(Deserialize, JsonSchema)]
pub(super) struct RunsQuery {
    /// Only runs of this conversation.
    chat_id: Option<String>,
    /// Only runs with this status.
    #[schemars(extend("enum" = ["running", "paused", "done", "failed", "cancelled", "interrupted"]))]
    status: Option<String>,
    /// The maximum number of runs, 50 by default.
    limit: Option<u64>,
}

/// Handles `GET /api/v1/agents/{agent}/runs`.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(AgentPath { agent: id }): Path<AgentPath>,
    Query(query): Query<RunsQuery>,
) -> Answer<List<JsonOf<RunFacts>>> {
    agent(&app.host.snapshot(), &id, &Json::Null)?;
    listed(&app, Some(id), query).await
}

/// Handles `GET /api/v1/agents/runs`.
pub(super) async fn all(
    State(app): State<Arc<App>>,
    Query(query): Query<RunsQuery>,
) -> Answer<List<JsonOf<RunFacts>>> {
    listed(&app, None, query).await
}

async fn listed(app: &App, agent: Option<String>, query: RunsQuery) -> Answer<List<JsonOf<RunFacts>>> {
    let query = RunQuery {
        agent,
        conversation: query.chat_id,
        status: query.status,
        limit: query.limit.unwrap_or(LISTED),
    };
    let runs = app.runs.list(&query).await?;
    Ok(List::reply(runs.iter().map(|(run, agent)| run_to_json(run, agent).into())))
}

/// The path of a run.
#[derive(Deserialize, JsonSchema)]
pub(super) struct RunPath {
    /// The id of the run.
    pub(super) run: String,
}

/// Handles `GET /api/v1/agents/runs/{run}`: returns the complete state of a run.
pub(super) async fn state(
    State(app): State<Arc<App>>,
    Path(path): Path<RunPath>,
) -> Answer<JsonOf<RunState>> {
    let run = app.runs.run(&path.run).await?;
    let saved = app.runs.last_saved(&run).await?;
    let setup = saved.and_then(|saved| app::setup_of(&app.host.snapshot(), &saved).ok());
    Ok(Reply(app.runs.state(&run, setup.as_ref()).await?.into()))
}

/// The question that a run waits for.
#[derive(Serialize, JsonSchema)]
pub(super) struct PendingAction {
    run_id: String,
    chat_id: String,
    status: &'static str,
    /// The question, or null.
    pending_action: SpelledJson,
    /// The possible decisions.
    decisions: &'static [&'static str],
}

/// Handles `GET /api/v1/agents/runs/{run}/pending`: returns the pending action and the possible decisions.
pub(super) async fn pending(State(app): State<Arc<App>>, Path(path): Path<RunPath>) -> Answer<PendingAction> {
    let run = app.runs.run(&path.run).await?;
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
    Ok(Reply(PendingAction {
        status: standing(&run),
        run_id: run.id,
        chat_id: run.conversation,
        pending_action: pending.into(),
        decisions,
    }))
}
