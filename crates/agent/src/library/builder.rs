//! The builder of an agent.

use super::agent::Agent;
use crate::callbacks::Callbacks;
use crate::middleware::{Middleware, NeedsApproval};
use crate::state::{AgentState, graph};
use crate::summary::Summarization;
use std::sync::Arc;
use valvehouse_core::fault::Fault;
use valvehouse_core::filter::Filter;
use valvehouse_core::kernel::Kernel;
use valvehouse_core::provider::Provider;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_providers::Choice;
use valvehouse_store::Store;

/// Puts an agent together.
pub struct AgentBuilder {
    state: AgentState,
    provider: Option<Arc<dyn Provider>>,
    others: Vec<(String, Choice)>,
    needs_approval: Option<NeedsApproval>,
    filters: Vec<Filter>,
    conversation: Option<String>,
    variables: Json,
}

impl Agent {
    /// Begins an agent.
    pub fn builder(id: &str) -> AgentBuilder {
        let state = AgentState {
            id: id.to_owned(),
            name: id.to_owned(),
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

    /// Sets the provider that answers.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Its name, for callbacks; its id where none is given.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.change(|state| state.name = name.to_owned())
    }

    /// Sets the text that is sent first in every model call and never stored.
    #[must_use]
    pub fn system_prompt(self, text: &str) -> Self {
        self.change(|state| state.system_prompt = text.to_owned())
    }

    /// `model` and whatever else each request says.
    #[must_use]
    pub fn llm_config(self, config: Json) -> Self {
        self.change(|state| state.llm_config = config)
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(self, tool: Tool) -> Self {
        self.change(|state| drop(state.tool_handlers.insert(tool.name().to_owned(), tool)))
    }

    /// Adds a filter.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// Adds middleware by its name, with its options.
    #[must_use]
    pub fn middleware(self, name: &str, options: Json) -> Self {
        self.change(|state| state.middlewares.push((name.to_owned(), options)))
    }

    /// Adds the middleware of a preset: see [`Middleware::preset`].
    pub fn preset(self, name: &str) -> Result<Self, Fault> {
        let none = || Fault::invalid(format!("there is no preset {name:?}"), None);
        let preset = Middleware::preset(name).ok_or_else(none)?;
        let preset = preset.into_iter().map(|(name, options)| (name.to_owned(), options));
        Ok(self.change(|state| state.middlewares.extend(preset)))
    }

    /// Another model by a name that middleware may use: `model_fallback`.
    #[must_use]
    pub fn other_model(mut self, name: &str, model: Choice) -> Self {
        self.others.push((name.to_owned(), model));
        self
    }

    /// Sets the function that `human_approval` uses in mode `custom`.
    #[must_use]
    pub fn needs_approval(mut self, needs: NeedsApproval) -> Self {
        self.needs_approval = Some(needs);
        self
    }

    /// Sets the listeners to its events.
    #[must_use]
    pub fn callbacks(self, callbacks: Callbacks) -> Self {
        self.change(|state| state.callbacks = callbacks)
    }

    /// Model calls one run may take.
    #[must_use]
    pub fn max_iterations(self, most: usize) -> Self {
        self.change(|state| state.max_iterations = most)
    }

    /// The form answers must have.
    #[must_use]
    pub fn response_format(self, format: Json) -> Self {
        self.change(|state| state.response_format = Some(format))
    }

    /// A window over what a run begins with; see [`AgentState::buffer_config`].
    #[must_use]
    pub fn buffer_config(self, config: Summarization) -> Self {
        self.change(|state| state.buffer_config = Some(config))
    }

    /// Sets the store of its conversation.
    #[must_use]
    pub fn storage(self, storage: Arc<dyn Store>) -> Self {
        self.change(|state| state.storage = Some(storage))
    }

    /// Stores each step there if `auto` is `true`; without it, [`Agent::save_checkpoint`] does.
    #[must_use]
    pub fn auto_checkpoint(self, auto: bool) -> Self {
        self.change(|state| state.auto_checkpoint = auto)
    }

    /// The conversation's id in the storage; one of its own where none is given.
    #[must_use]
    pub fn conversation(mut self, id: &str) -> Self {
        self.conversation = Some(id.to_owned());
        self
    }

    /// Variables to begin with.
    #[must_use]
    pub fn variables(mut self, variables: Json) -> Self {
        self.variables = variables;
        self
    }

    /// The agent, or what is wrong with how it is put together.
    pub fn build(self) -> Result<Agent, Fault> {
        let Self { state, provider, others, needs_approval, filters, conversation, variables } = self;
        let missing = || Fault::invalid("an agent needs a provider: `.provider(…)`", None);
        check(&state)?;
        let mut agent = Agent {
            provider: provider.ok_or_else(missing)?,
            others,
            needs_approval,
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

/// Returns an error for settings that could not take effect.
fn check(state: &AgentState) -> Result<(), Fault> {
    let refused = |message: &str| Err(Fault::invalid(message, None));
    if state.max_iterations == 0 {
        return refused(
            "an agent with `.max_iterations(0)` never asks its model: allow at least one model call",
        );
    }
    if state.auto_checkpoint && state.storage.is_none() {
        return refused("`.auto_checkpoint(true)` needs somewhere to keep checkpoints: add `.storage(…)`");
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
            "of `.buffer_config(…)` only `window_size` takes effect: for summaries and limits of tokens use `.middleware(\"summarization\", …)`",
        );
    }
    Ok(())
}
