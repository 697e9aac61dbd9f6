//! The state of an agent, its settings, and its conversion to JSON.

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
/// `messages` is the complete conversation; the model's view of it is computed for each call.
#[derive(Clone)]
pub struct AgentState {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// The system prompt, which precedes each model call and is never stored.
    pub system_prompt: String,
    /// The tools in the model's format: `{type, function}`.
    pub tools: Vec<Json>,
    /// The tools by name, with their handlers.
    pub tool_handlers: IndexMap<String, Tool>,
    /// The fields of each request, such as `model`, `temperature` and `max_tokens`.
    pub llm_config: Json,
    /// The graph of a run's steps, for display: `{nodes, edges, entry, end}`.
    pub graph: Option<Json>,
    /// The maximum number of model calls in one run.
    pub max_iterations: usize,
    /// The messages of the conversation.
    pub messages: Vec<Json>,
    /// The window of `window_size` messages with which a run starts; its other fields must have their defaults.
    /// It is applied once, at the start of a run; the `summarization` middleware applies before each model call
    /// and supports summaries.
    pub buffer_config: Option<Summarization>,
    /// The events of the latest run, one entry for each step.
    pub scratchpad: Vec<Json>,
    /// The pending action of the latest run.
    pub pending_action: Option<Json>,
    /// The `response_format` of answers: `{type: "json_object"}` or `{type: "json_schema", json_schema}`.
    pub response_format: Option<Json>,
    /// The callbacks.
    pub callbacks: Callbacks,
    /// The middleware by name, with its options.
    pub middlewares: Vec<(String, Json)>,
    /// The names of the filters in running order, set when the kernel is built.
    pub middleware_chain: Option<Vec<String>>,
    /// The store of the conversation.
    pub storage: Option<Arc<Store>>,
    /// Set if a checkpoint is stored after each step.
    pub auto_checkpoint: bool,
    /// The id of the latest run.
    pub run_id: Option<String>,
}

impl AgentState {
    /// Converts the state to an object. Handlers, callbacks and the storage cannot be serialized; the object
    /// lists only their names.
    pub fn to_json(&self) -> Json {
        let texts = |texts: Vec<&str>| texts.into_iter().map(Json::from).collect::<Vec<_>>();
        let copies = |values: &[Json]| values.iter().map(Json::deep_clone).collect::<Vec<_>>();
        let middlewares = self.middlewares.iter();
        let middlewares: Vec<Json> = middlewares
            .map(|(name, options)| {
                Json::from([("name", name.as_str().into()), ("options", options.deep_clone())])
            })
            .collect();
        let chain = self.middleware_chain.as_ref();
        Json::from([
            ("id", self.id.as_str().into()),
            ("name", self.name.as_str().into()),
            ("system_prompt", self.system_prompt.as_str().into()),
            ("tools", copies(&self.tools).into()),
            ("tool_handlers", texts(self.tool_handlers.keys().map(String::as_str).collect()).into()),
            ("llm_config", self.llm_config.deep_clone()),
            ("graph", self.graph.as_ref().map(Json::deep_clone).into()),
            ("max_iterations", self.max_iterations.into()),
            ("messages", copies(&self.messages).into()),
            ("buffer_config", self.buffer_config.as_ref().map(buffer).into()),
            ("scratchpad", copies(&self.scratchpad).into()),
            ("pending_action", self.pending_action.as_ref().map(Json::deep_clone).into()),
            ("response_format", self.response_format.as_ref().map(Json::deep_clone).into()),
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

/// Returns the graph of a run's steps.
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
