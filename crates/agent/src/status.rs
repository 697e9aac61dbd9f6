//! The status of runs: lists, states and pending actions.

use super::pending::of_unfinished;
use super::run::Setup;
use super::runs::Runs;
use super::saved::RunSnapshot;
use super::summary::{self, NAME as SUMMARIZATION};
use std::collections::{HashMap, HashSet};
use valvehouse_core::callback::Callback;
use valvehouse_core::chat::history::is_role;
use valvehouse_core::chat::{message, response};
use valvehouse_core::described;
use valvehouse_core::error::Error;
use valvehouse_core::kernel::Progress;
use valvehouse_core::tool::SchemaDialect;
use valvehouse_json::{Json, Object};
use valvehouse_store::{Conversation, Run, RunStatus};

/// The maximum number of runs searched for those of one agent or with a dead owner.
const LOOKED_THROUGH: u64 = 10_000;

/// The status of a run that stopped because its process ended.
pub const INTERRUPTED: &str = "interrupted";

/// A filter for runs.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// The agent of the runs.
    pub agent: Option<String>,
    /// The conversation of the runs.
    pub conversation: Option<String>,
    /// The status of the runs, as returned by [`standing`].
    pub status: Option<String>,
    /// The maximum number of runs.
    pub limit: u64,
}

/// Returns the name of a run's status, or `interrupted`.
pub fn standing(run: &Run) -> &'static str {
    match run.status {
        RunStatus::Running if !run.is_alive() => INTERRUPTED,
        status => status.name(),
    }
}

described! {
    /// A run of an agent.
    #[cfg(feature = "typed")]
    pub struct RunFacts as "Run";
    /// Converts a run to JSON, without its state.
    pub fn run_to_json(run: &Run, agent: &str) {
        run_id: String = run.id.as_str(),
        /// The id of the conversation.
        chat_id: String = run.conversation.as_str(),
        /// The name of the model; empty if the conversation was deleted.
        agent: String = agent,
        #[schemars(extend("enum" = ["running", "paused", "done", "failed", "cancelled", "interrupted"]))]
        status: String = standing(run),
        /// The number of steps.
        step: u64 = run.step,
        /// The question that the run waits for, or null.
        pending_action: serde_json::Value = waits_for(run),
        error: Option<String> = (!run.error.is_empty()).then_some(run.error.as_str()),
        /// The time in milliseconds since 1970.
        created_at: i64 = run.created_at,
        /// The time in milliseconds since 1970.
        updated_at: i64 = run.updated_at,
    }
}

/// Returns the pending action of a run, or null. A run in progress has none.
fn waits_for(run: &Run) -> Json {
    match standing(run) {
        "paused" | INTERRUPTED => run.pending.deep_clone(),
        _ => Json::Null,
    }
}

impl Runs {
    /// Returns runs with their agents, newest first.
    ///
    /// # Errors
    /// Returns an error for an unknown status or if the store fails.
    pub async fn list(&self, wanted: &RunQuery) -> Result<Vec<(Run, String)>, Error> {
        let status = wanted.status.as_deref().map(status_of).transpose()?;
        let looks_through = wanted.agent.is_some() || status == Some(RunStatus::Running);
        let most = if looks_through { LOOKED_THROUGH } else { wanted.limit };
        let runs = self.store().runs(wanted.conversation.as_deref(), status, most).await?;
        let mut agents: HashMap<String, String> = HashMap::new();
        let mut found = Vec::new();
        for run in runs {
            if wanted.status.as_deref().is_some_and(|word| word != standing(&run)) {
                continue;
            }
            let agent = match agents.get(&run.conversation) {
                Some(agent) => agent.clone(),
                None => {
                    let conversation = self.store().conversation(&run.conversation).await?;
                    let agent = conversation.map(|conversation| conversation.agent).unwrap_or_default();
                    agents.insert(run.conversation.clone(), agent.clone());
                    agent
                }
            };
            if wanted.agent.as_ref().is_none_or(|wanted| *wanted == agent) {
                found.push((run, agent));
            }
            if found.len() as u64 >= wanted.limit {
                break;
            }
        }
        Ok(found)
    }

    /// Returns runs with their agents; paused runs come first, followed by interrupted ones.
    ///
    /// # Errors
    /// Returns an error for an unknown status or if the store fails.
    pub async fn list_by_need(&self, wanted: &RunQuery) -> Result<Vec<(Run, String)>, Error> {
        let mut found = Vec::new();
        let mut known = HashSet::new();
        for word in [Some("paused"), Some(INTERRUPTED), None] {
            let part = RunQuery { status: word.map(str::to_owned), ..wanted.clone() };
            let runs = self.list(&part).await?;
            found.extend(runs.into_iter().filter(|(run, _)| known.insert(run.id.clone())));
        }
        found.truncate(usize::try_from(wanted.limit).unwrap_or(usize::MAX));
        Ok(found)
    }

    /// Returns the state of a run after its last step; `None` before the first.
    ///
    /// # Errors
    /// Returns an error if the state is damaged or the store fails.
    pub async fn last_saved(&self, run: &Run) -> Result<Option<RunSnapshot>, Error> {
        let checkpoint = self.store().latest_checkpoint(&run.id).await?;
        checkpoint.map(|checkpoint| RunSnapshot::from_json(&checkpoint.state)).transpose()
    }

    /// Returns the pending action of a run, or null. A tool that ran when its host ended is also a pending
    /// action, unless it may run again.
    pub fn pending_action(run: &Run, saved: Option<&RunSnapshot>, setup: Option<&Setup>) -> Json {
        let known = waits_for(run);
        let in_flight = Json::from(saved.map(|saved| saved.in_flight.deep_clone()));
        let has_stopped = matches!(standing(run), INTERRUPTED | "failed");
        if !known.is_null() || in_flight.is_null() || !has_stopped {
            return known;
        }
        let name = in_flight.text_or_empty("name");
        let tool = setup.and_then(|setup| setup.kernel.find_tool(&name));
        if tool.is_some_and(|tool| tool.spec.idempotent) { Json::Null } else { of_unfinished(&in_flight) }
    }

    /// Returns the complete state of a run as an object.
    ///
    /// # Errors
    /// Returns an error if the conversation is missing or the store fails.
    pub async fn state(&self, run: &Run, setup: Option<&Setup>) -> Result<Json, Error> {
        let conversation = self.store().conversation(&run.conversation).await?;
        let conversation = conversation
            .ok_or_else(|| Error::Host(format!("the conversation of run {} does not exist", run.id)))?;
        let full = self.store().messages(&conversation.id, 0, conversation.length).await?;
        let saved = self.last_saved(run).await?;
        let pending = Self::pending_action(run, saved.as_ref(), setup);
        let summary = summary_of(saved.as_ref(), &conversation.kept);
        let graph = graph(full, saved.as_ref(), &summary, setup, &meta(run, &conversation, setup));
        Ok(whole(run, &conversation.agent, pending, graph, saved.as_ref()))
    }
}

/// Returns the graph state of a run.
pub(super) fn graph_state(
    full: Vec<Json>,
    saved: &RunSnapshot,
    setup: &Setup,
    run: &str,
    kept: &Json,
) -> Json {
    let summary = summary_of(Some(saved), kept);
    let meta = Json::from([
        ("agent_id", setup.id.as_str().into()),
        ("agent_name", setup.name.as_str().into()),
        ("run_id", run.into()),
        ("chat_id", saved.facts.field("chat_id")),
    ]);
    graph(full, Some(saved), &summary, Some(setup), &meta)
}

fn meta(run: &Run, conversation: &Conversation, setup: Option<&Setup>) -> Json {
    let name = setup.map(|setup| setup.name.as_str()).filter(|name| !name.is_empty());
    Json::from([
        ("agent_id", conversation.agent.as_str().into()),
        ("agent_name", name.unwrap_or(&conversation.agent).into()),
        ("run_id", run.id.as_str().into()),
        ("chat_id", run.conversation.as_str().into()),
    ])
}

/// Returns the stored status for a status name.
fn status_of(word: &str) -> Result<RunStatus, Error> {
    if word == INTERRUPTED {
        return Ok(RunStatus::Running);
    }
    RunStatus::from_name(word).ok_or_else(|| {
        let words: Vec<&str> = RunStatus::ALL.iter().map(|status| status.name()).collect();
        let message = format!("unknown status `{word}`: expected {} or {INTERRUPTED}", words.join(", "));
        Error::invalid(message, Some("status"))
    })
}

/// Returns the summary of the run or, before its first step, of the conversation.
fn summary_of(saved: Option<&RunSnapshot>, kept: &Json) -> Json {
    let of_run = saved.and_then(|saved| saved.states.get(SUMMARIZATION));
    of_run.or_else(|| kept.get(SUMMARIZATION)).into()
}

described! {
    /// The graph state of a run.
    #[cfg(feature = "typed")]
    pub struct GraphState;
    fn graph(
        full: Vec<Json>,
        saved: Option<&RunSnapshot>,
        summary: &Json,
        setup: Option<&Setup>,
        meta: &Json,
    ) with {
        let progress = saved.map(|saved| &saved.progress);
        let seen = progress.map(|progress| summary::seen(&progress.messages().items(), summary));
        let seen: Vec<Json> = seen.iter().flatten().map(Json::deep_clone).collect();
        let answer = Json::from(progress.map(|progress| progress.response.deep_clone()));
        let calls = progress.into_iter().flat_map(|progress| progress.open_calls());
        let calls: Vec<Json> = calls.map(|call| call.to_json()).collect();
        let kernel = setup.map(|setup| &setup.kernel);
        let prompt = kernel.and_then(|kernel| kernel.settings().system_prompt.clone());
        let tools = kernel.map(|kernel| kernel.tool_schemas(SchemaDialect::OpenAi)).unwrap_or_default();
        let text = summary.get("summary").filter(|text| text.as_str().is_some_and(|text| !text.is_empty()));
        let compressed = summary.get("compressed").and_then(|compressed| compressed.as_bool());
    } {
        /// The messages that the model receives.
        messages: Vec<AnyObject> = seen,
        /// All messages of the conversation.
        full_messages: Vec<AnyObject> = full,
        system_prompt: Option<String> = prompt,
        /// The tools that the model receives.
        tools: Vec<AnyObject> = tools,
        max_iterations: Option<u64> = kernel.map(|kernel| kernel.settings().max_tool_iterations),
        iteration: u64 = progress.map_or(0, |progress| progress.iterations),
        scratchpad: Vec<serde_json::Value> = saved.map_or_else(Json::array, |saved| saved.scratchpad.deep_clone()),
        /// The listeners of each callback.
        callbacks: AnyObject = setup.map_or_else(Json::object, callbacks),
        callback_meta: AnyObject = meta.clone(),
        last_content: Option<String> = content_of(&answer),
        tool_calls: Vec<serde_json::Value> = calls,
        tool_results: Vec<serde_json::Value> = progress.into_iter().flat_map(results).collect::<Vec<Json>>(),
        finish_reason: Option<String> = response::finish_reason_of(&answer),
        last_response: serde_json::Value = answer,
        /// The variables of the turn.
        context: AnyObject = saved.map_or_else(Json::object, |saved| saved.variables.deep_clone()),
        compression_applied: bool = compressed.unwrap_or(text.is_some()),
        conversation_summary: Option<String> = text.map(|text| text.deep_clone()),
    }
}

/// An object with any fields.
#[cfg(feature = "typed")]
type AnyObject = serde_json::Map<String, serde_json::Value>;

described! {
    /// The complete state of a run.
    #[cfg(feature = "typed")]
    pub struct RunState;
    fn whole(run: &Run, agent: &str, pending: Json, graph: Json, saved: Option<&RunSnapshot>) with {
        let facts = run_to_json(run, agent);
        // A new object accepts any value.
        facts.put("pending_action", pending);
    } {
        ..run: RunFacts = facts,
        ..graph: GraphState = graph,
        /// The tool call in progress, or null.
        in_flight: serde_json::Value = saved.map(|saved| saved.in_flight.deep_clone()),
    }
}

fn content_of(answer: &Json) -> Json {
    let message = response::message_of(answer);
    if message.is_null() { Json::Null } else { message::text_of(&message).into() }
}

/// Returns the results of the tools that the latest answer called.
fn results(progress: &Progress) -> Vec<Json> {
    let messages = progress.transcript.items();
    let after = messages.iter().rposition(|message| is_role(message, "assistant")).map_or(0, |last| last + 1);
    messages.iter().skip(after).map(Json::deep_clone).collect()
}

/// Returns the listeners of each callback: `{on_tool_start: ["rust", "a_script"]}`.
fn callbacks(setup: &Setup) -> Json {
    let callbacks = Callback::ALL.into_iter().filter_map(|callback| {
        let closure = setup.callbacks.handles(callback).then_some("rust");
        let scripts = setup.listeners.iter().filter(|listener| listener.handles(callback));
        let names = closure.into_iter().chain(scripts.map(|listener| listener.name()));
        let names: Vec<Json> = names.map(Json::from).collect();
        (!names.is_empty()).then(|| (callback.name().into(), names.into()))
    });
    callbacks.collect::<Object>().into()
}
