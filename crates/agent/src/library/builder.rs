//! The builder of an agent.

use super::agent::Agent;
use crate::callbacks::Callbacks;
use crate::middleware::{Middleware, MiddlewareSettings, NeedsApproval};
use crate::state::{AgentState, graph};
use crate::summary::Summarization;
use std::sync::Arc;
use valvehouse_core::callback::Listener;
use valvehouse_core::error::Error;
use valvehouse_core::filter::FilterEntry;
use valvehouse_core::kernel::{Kernel, TakesPlugins};
use valvehouse_core::provider::{IntoProvider, Provider};
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_providers::Choice;
use valvehouse_store::Store;

/// A builder for agents.
pub struct AgentBuilder {
    state: AgentState,
    provider: Option<Arc<dyn Provider>>,
    others: Vec<(String, Choice)>,
    needs_approval: Option<NeedsApproval>,
    summary_model: Option<Choice>,
    listeners: Vec<Arc<dyn Listener>>,
    filters: Vec<FilterEntry>,
    conversation: Option<String>,
    variables: Json,
}

impl Agent {
    /// Returns a builder for an agent.
    pub fn builder() -> AgentBuilder {
        let state = AgentState {
            id: "agent".to_owned(),
            name: String::new(),
            system_prompt: String::new(),
            tools: Vec::new(),
            tool_handlers: Default::default(),
            llm_config: Json::object(),
            graph: Some(graph()),
            max_iterations: valvehouse_core::kernel::MAX_TOOL_ITERATIONS,
            messages: Vec::new(),
            buffer_config: None,
            scratchpad: Vec::new(),
            pending_action: None,
            response_format: None,
            callbacks: Callbacks::new(),
            middlewares: Vec::new(),
            middleware_chain: None,
            storage: None,
            auto_checkpoint: false,
            run_id: None,
        };
        AgentBuilder {
            state,
            provider: None,
            others: Vec::new(),
            needs_approval: None,
            summary_model: None,
            listeners: Vec::new(),
            filters: Vec::new(),
            conversation: None,
            variables: Json::object(),
        }
    }
}

impl AgentBuilder {
    fn change(mut self, change: impl FnOnce(&mut AgentState)) -> Self {
        change(&mut self.state);
        self
    }

    /// Sets the provider of the model.
    #[must_use]
    pub fn provider(mut self, provider: impl IntoProvider) -> Self {
        self.provider = Some(provider.into_provider());
        self
    }

    /// Sets the id; the default is `agent`.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.change(|state| state.id = id.to_owned())
    }

    /// Sets the name passed to callbacks; the default is the id.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.change(|state| state.name = name.to_owned())
    }

    /// Sets the system prompt, which precedes each model call and is never stored.
    #[must_use]
    pub fn system_prompt(self, text: &str) -> Self {
        self.change(|state| state.system_prompt = text.to_owned())
    }

    /// Sets the model; the default is the id.
    #[must_use]
    pub fn model(self, model: &str) -> Self {
        self.change(|state| state.llm_config.edit("model", model))
    }

    /// Sets `model` and other fields of each request, such as `serde_json::json!({"model": "big"})`.
    #[must_use]
    pub fn llm_config(self, config: impl Into<Json>) -> Self {
        self.change(|state| state.llm_config = config.into())
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(self, tool: Tool) -> Self {
        self.change(|state| drop(state.tool_handlers.insert(tool.name().to_owned(), tool)))
    }

    /// Adds a filter.
    #[must_use]
    pub fn filter(mut self, filter: impl Into<FilterEntry>) -> Self {
        self.filters.push(filter.into());
        self
    }

    /// Adds a middleware: a type of [`middleware`](crate::middleware), such as
    /// [`HumanApproval`](crate::middleware::HumanApproval), or a name with its options.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Into<MiddlewareSettings>) -> Self {
        let settings = middleware.into();
        self.state.middlewares.push((settings.name.clone(), settings.options.clone()));
        self.others.extend(settings.models);
        self.needs_approval = settings.needs_approval.or(self.needs_approval);
        self.summary_model = settings.summary_model.or(self.summary_model);
        self
    }

    /// Adds the middleware of a preset; see [`Middleware::preset`].
    ///
    /// # Errors
    /// Returns an error for an unknown preset.
    pub fn preset(self, name: &str) -> Result<Self, Error> {
        let none = || Error::invalid(format!("unknown preset {name:?}"), None);
        let preset = Middleware::preset(name).ok_or_else(none)?;
        let preset = preset.into_iter().map(|(name, options)| (name.to_owned(), options));
        Ok(self.change(|state| state.middlewares.extend(preset)))
    }

    /// Adds a model under a name that middleware such as `model_fallback` can use.
    #[must_use]
    pub fn other_model(mut self, name: &str, model: Choice) -> Self {
        self.others.push((name.to_owned(), model));
        self
    }

    /// Sets the function that decides in `human_approval` with mode `custom`.
    #[must_use]
    pub fn needs_approval(mut self, needs: NeedsApproval) -> Self {
        self.needs_approval = Some(needs);
        self
    }

    /// Sets the callbacks.
    #[must_use]
    pub fn callbacks(self, callbacks: Callbacks) -> Self {
        self.change(|state| state.callbacks = callbacks)
    }

    /// Adds a receiver of callbacks that may wait, such as a script. It runs beside the run.
    #[must_use]
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Sets the maximum number of model calls in one run.
    #[must_use]
    pub fn max_iterations(self, most: usize) -> Self {
        self.change(|state| state.max_iterations = most)
    }

    /// Sets the `response_format` of answers.
    #[must_use]
    pub fn response_format(self, format: impl Into<Json>) -> Self {
        self.change(|state| state.response_format = Some(format.into()))
    }

    /// Sets the window over the messages with which a run starts; see [`AgentState::buffer_config`].
    #[must_use]
    pub fn buffer_config(self, config: Summarization) -> Self {
        self.change(|state| state.buffer_config = Some(config))
    }

    /// Sets the storage of the conversation.
    #[must_use]
    pub fn storage(self, storage: Arc<Store>) -> Self {
        self.change(|state| state.storage = Some(storage))
    }

    /// Sets whether each step is stored automatically. Otherwise, call [`Agent::save_checkpoint`].
    #[must_use]
    pub fn auto_checkpoint(self, auto: bool) -> Self {
        self.change(|state| state.auto_checkpoint = auto)
    }

    /// Sets the id of the conversation in the storage; the default is a random id.
    #[must_use]
    pub fn conversation(mut self, id: &str) -> Self {
        self.conversation = Some(id.to_owned());
        self
    }

    /// Sets an initial variable.
    #[must_use]
    pub fn variable(self, key: &str, value: impl Into<Json>) -> Self {
        // A copy never contains the object it is stored in.
        self.variables.edit(key, value.into().deep_clone());
        self
    }

    /// Sets the initial variables.
    #[must_use]
    pub fn variables(mut self, variables: impl Into<Json>) -> Self {
        self.variables = variables.into();
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// Returns an error if the provider is missing, or if a setting is invalid or has no effect.
    pub fn build(self) -> Result<Agent, Error> {
        let Self { mut state, provider, others, needs_approval, summary_model, listeners, .. } = self;
        let Self { filters, conversation, variables, .. } = self;
        let missing = || Error::invalid("missing provider; set one with `.provider(…)`", None);
        check(&state)?;
        if state.name.is_empty() {
            state.name.clone_from(&state.id);
        }
        let mut agent = Agent {
            provider: provider.ok_or_else(missing)?,
            others,
            needs_approval,
            summary_model,
            listeners,
            filters,
            kernel: Kernel::builder().build(),
            runs: None,
            conversation: conversation.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
            variables,
            kept: Json::object(),
            latest: None,
            state,
        };
        agent.assemble()?;
        Ok(agent)
    }
}

impl TakesPlugins for AgentBuilder {
    fn take_filter(self, filter: FilterEntry) -> Self {
        self.filter(filter)
    }

    fn take_tool(self, tool: Tool) -> Self {
        self.tool(tool)
    }

    fn take_listener(self, listener: Arc<dyn Listener>) -> Self {
        self.listener(listener)
    }

    fn filter_named(&self, name: &str) -> Option<FilterEntry> {
        self.filters.iter().find(|filter| filter.name() == name).cloned()
    }
}

/// Returns an error for settings that have no effect.
fn check(state: &AgentState) -> Result<(), Error> {
    let refused = |message: &str| Err(Error::invalid(message, None));
    if state.max_iterations == 0 {
        return refused("invalid `.max_iterations(0)`: expected at least one model call");
    }
    if state.auto_checkpoint && state.storage.is_none() {
        return refused("`.auto_checkpoint(true)` needs a storage for checkpoints; add `.storage(…)`");
    }
    let is_more_than_a_window = |config: &Summarization| {
        let usual = Summarization { window_size: config.window_size, ..Summarization::default() };
        let parts = |config: &Summarization| {
            let numbers = [config.max_tokens, config.compress_threshold, config.token_threshold];
            (numbers, config.summarize, config.preserve_system, config.model.is_some())
        };
        parts(config) != parts(&usual)
    };
    if state.buffer_config.as_ref().is_some_and(is_more_than_a_window) {
        return refused(
            "in `.buffer_config(…)`, only `window_size` takes effect; for summaries and token limits, use `.middleware(Summarization { … })`",
        );
    }
    Ok(())
}
