//! An agent's state, by the names of its graph state.

use super::callbacks::Callbacks;
use super::summary::Summarization;
use indexmap::IndexMap;
use std::sync::Arc;
use valvehouse_core::kernel::Next;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_store::Store;

/// The settings and the state of an agent.
///
/// `messages` is the whole conversation; what the model sees of it is worked out anew for each call.
#[derive(Clone)]
pub struct AgentState {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The text that is sent first in every model call and never stored.
    pub system_prompt: String,
    /// The tools as the model reads them: `{type, function}`.
    pub tools: Vec<Json>,
    /// The handlers that run when they are called, by name.
    pub tool_handlers: IndexMap<String, Tool>,
    /// `model` and whatever else each request says: `temperature`, `max_tokens` …
    pub llm_config: Json,
    /// The steps of a run and what may follow each, for display: `{nodes, edges, entry, end}`.
    pub graph: Option<Json>,
    /// Model calls one run may take.
    pub max_iterations: usize,
    /// Everything that was said.
    pub messages: Vec<Json>,
    /// A window over what a run begins with, `window_size` messages; its other fields have to be the usual ones. It
    /// cuts once, where the run begins; the `summarization` middleware cuts before every model call and knows summaries.
    pub buffer_config: Option<Summarization>,
    /// The events of the latest run, an entry a step.
    pub scratchpad: Vec<Json>,
    /// The action that the latest run waits for.
    pub pending_action: Option<Json>,
    /// The form answers must have: `{type: "json_object"}` or `{type: "json_schema", json_schema}`.
    pub response_format: Option<Json>,
    /// The listeners to its events.
    pub callbacks: Callbacks,
    /// The middleware by name, with its options.
    pub middlewares: Vec<(String, Json)>,
    /// The names of its filters in running order, once it is assembled.
    pub middleware_chain: Option<Vec<String>>,
    /// The store of its conversation.
    pub storage: Option<Arc<dyn Store>>,
    /// Stores a checkpoint after each step.
    pub auto_checkpoint: bool,
    /// The latest run.
    pub run_id: Option<String>,
}

impl AgentState {
    /// As one object, apart from what cannot be written: of handlers, callbacks and the storage it says
    /// which there are.
    pub fn to_json(&self) -> Json {
        let texts = |texts: Vec<&str>| texts.into_iter().map(Json::from).collect::<Vec<_>>();
        let copies = |values: &[Json]| values.iter().map(Json::copy).collect::<Vec<_>>();
        let middlewares = self.middlewares.iter();
        let middlewares: Vec<Json> = middlewares
            .map(|(name, options)| Json::from([("name", name.as_str().into()), ("options", options.copy())]))
            .collect();
        let chain = self.middleware_chain.as_ref();
        Json::from([
            ("id", self.id.as_str().into()),
            ("name", self.name.as_str().into()),
            ("system_prompt", self.system_prompt.as_str().into()),
            ("tools", copies(&self.tools).into()),
            ("tool_handlers", texts(self.tool_handlers.keys().map(String::as_str).collect()).into()),
            ("llm_config", self.llm_config.copy()),
            ("graph", self.graph.as_ref().map(Json::copy).into()),
            ("max_iterations", self.max_iterations.into()),
            ("messages", copies(&self.messages).into()),
            ("buffer_config", self.buffer_config.as_ref().map(buffer).into()),
            ("scratchpad", copies(&self.scratchpad).into()),
            ("pending_action", self.pending_action.as_ref().map(Json::copy).into()),
            ("response_format", self.response_format.as_ref().map(Json::copy).into()),
            ("callbacks", texts(self.callbacks.names()).into()),
            ("middlewares", middlewares.into()),
            ("middleware_chain", chain.map(|names| texts(names.iter().map(String::as_str).collect())).into()),
            ("storage", self.storage.is_some().into()),
            ("auto_checkpoint", self.auto_checkpoint.into()),
            ("run_id", self.run_id.clone().into()),
        ])
    }
}

fn buffer(config: &Summarization) -> Json {
    Json::from([("window_size", config.window_size.into())])
}

/// The steps of a run, and what may follow each.
pub(super) fn graph() -> Json {
    const EDGES: [(Next, &[Next]); 5] = [
        (Next::Inlet, &[Next::Model, Next::End]),
        (Next::Model, &[Next::PostChat]),
        (Next::PostChat, &[Next::Tools, Next::Outlet, Next::End]),
        (Next::Tools, &[Next::Tools, Next::Model]),
        (Next::Outlet, &[Next::End]),
    ];
    let names = |all: &[Next]| all.iter().map(|next| next.name().into()).collect::<Vec<Json>>();
    let edges = EDGES.iter().map(|(from, to)| (from.name(), names(to).into()));
    Json::from([
        ("nodes", names(&Next::ALL).into()),
        ("edges", Json::Object(edges.map(|(from, to): (&str, Json)| (from.into(), to)).collect())),
        ("entry", Next::Inlet.name().into()),
        ("end", Next::End.name().into()),
    ])
}
