//! The agent type of the library, which holds one conversation.

use crate::callbacks::{Callbacks, Notifier, Who};
use crate::middleware::{Middleware, NeedsApproval, Parts};
use crate::pending::conflict;
use crate::run::Setup;
use crate::runs::Runs;
use crate::saved::RunSnapshot;
use crate::state::AgentState;
use crate::summary::NAME as SUMMARIZATION;
use crate::{memory, status};
use std::sync::Arc;
use valvehouse_core::callback::Listener;
use valvehouse_core::chat::{Message, message, response};
use valvehouse_core::context::TurnFacts;
use valvehouse_core::error::Error;
use valvehouse_core::filter::FilterEntry;
use valvehouse_core::kernel::{Kernel, ModelDefaults, Next, Progress};
use valvehouse_core::provider::Provider;
use valvehouse_core::tool::{SchemaDialect, Tool};
use valvehouse_json::Json;
use valvehouse_providers::{Choice, FormattedProvider};
use valvehouse_store::Store;

/// An agent and its conversation.
///
/// ```no_run
/// # async fn example(provider: std::sync::Arc<dyn valvehouse_core::provider::Provider>) -> Result<(), valvehouse_core::error::Error> {
/// use valvehouse_agent::{Agent, Decision};
/// let mut agent = Agent::builder().id("helper").provider(provider).system_prompt("Be brief.").build()?;
/// let mut response = agent.run("delete the old files").await?;
/// while let Some(call) = response.pending_call() {
///     println!("{} may not run with {}", call.tool, call.arguments);
///     response = agent.resume(Decision::reject("not on Fridays")).await?;
/// }
/// println!("{}", response.text());
/// # Ok(()) }
/// ```
pub struct Agent {
    pub(super) state: AgentState,
    pub(super) provider: Arc<dyn Provider>,
    /// The other models that middleware can use.
    pub(super) others: Vec<(String, Choice)>,
    pub(super) needs_approval: Option<NeedsApproval>,
    pub(super) summary_model: Option<Choice>,
    /// The callbacks that may wait, such as scripts.
    pub(super) listeners: Vec<Arc<dyn Listener>>,
    pub(super) filters: Vec<FilterEntry>,
    pub(super) kernel: Kernel,
    /// The runs with stored steps, if there is a storage.
    pub(super) runs: Option<Runs>,
    pub(super) conversation: String,
    pub(super) variables: Json,
    /// The values that persist between runs.
    pub(super) kept: Json,
    /// The state of the latest run.
    pub(super) latest: Option<RunSnapshot>,
}

/// The response of an agent.
#[derive(Debug, Clone)]
pub struct AgentResponse {
    /// The answer, a `chat.completion`. For a paused run, its text describes the pending action.
    pub response: Json,
    /// The pending action of a paused run, or null.
    pub pending_action: Json,
}

impl AgentResponse {
    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        message::text_of(&response::message_of(&self.response)).into()
    }

    /// Returns `true` if the run waits for a decision; see [`Agent::resume`].
    pub fn is_paused(&self) -> bool {
        !self.pending_action.is_null()
    }

    /// Returns the call that waits for approval; `None` if the run is not paused, or waits for something else.
    pub fn pending_call(&self) -> Option<PendingCall> {
        let data = self.pending_action.at_path("question.data");
        let tool =
            data.text("tool").filter(|_| self.pending_action.text("type").as_deref() == Some("approval"))?;
        Some(PendingCall { tool: tool.into(), arguments: data.field("arguments") })
    }

    /// Returns the token counts of the run, `prompt_tokens completion_tokens total_tokens`; null if the service does
    /// not report them.
    pub fn usage(&self) -> Json {
        self.response.field("usage")
    }
}

/// Writes the text of the answer.
impl std::fmt::Display for AgentResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

/// A tool call that waits for approval.
#[derive(Debug, Clone)]
pub struct PendingCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the model.
    pub arguments: Json,
}

impl Agent {
    /// Returns the settings and the state.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Returns the graph state of the latest run: the messages that the model sees, all messages, and the next
    /// step.
    pub fn graph_state(&self) -> Json {
        let saved = self.latest.clone().unwrap_or_else(|| self.standing());
        let full = self.state.messages.iter().map(Json::deep_clone).collect();
        let run = self.state.run_id.as_deref().unwrap_or("");
        status::graph_state(full, &saved, &self.setup(), run, &self.kept)
    }

    /// Returns the id of the conversation.
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Returns the messages of the conversation.
    pub fn messages(&self) -> Vec<Message> {
        self.state.messages.iter().map(|message| Message::from(message.deep_clone())).collect()
    }

    /// Returns the variables of filters and tools after the latest run.
    pub fn variables(&self) -> &Json {
        &self.variables
    }

    /// Sets a variable.
    pub fn set_variable(&mut self, key: &str, value: impl Into<Json>) {
        // A copy never contains the object it is stored in.
        self.variables.edit(key, value.into().deep_clone());
    }

    /// Adds a tool, replacing any with the same name.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot be rebuilt.
    pub fn add_tool(&mut self, tool: Tool) -> Result<(), Error> {
        self.state.tool_handlers.insert(tool.name().to_owned(), tool);
        self.assemble()
    }

    /// Removes a tool. Returns `false` if there is none of this name.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot be rebuilt.
    pub fn remove_tool(&mut self, name: &str) -> Result<bool, Error> {
        let was_there = self.state.tool_handlers.shift_remove(name).is_some();
        self.assemble().map(|()| was_there)
    }

    /// Sets the system prompt.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot be rebuilt.
    pub fn set_system_prompt(&mut self, text: &str) -> Result<(), Error> {
        text.clone_into(&mut self.state.system_prompt);
        self.assemble()
    }

    /// Sends an event to the `on_custom_event` callbacks.
    pub fn emit_custom_event(&self, name: &str, data: &Json) {
        Notifier::new(self.who(), self.state.callbacks.clone()).custom(name, data);
    }

    fn who(&self) -> Who {
        let run_id = self.state.run_id.clone().unwrap_or_default();
        Who { agent_id: self.state.id.clone(), agent_name: self.state.name.clone(), run_id }
    }

    /// Builds the kernel from the state.
    pub(super) fn assemble(&mut self) -> Result<(), Error> {
        let state = &mut self.state;
        let mut provider = self.provider.clone();
        let own = state.llm_config.text("model").unwrap_or_else(|| state.id.as_str().into());
        let parts = Parts {
            model: Some(Choice { provider: provider.clone(), model: own.into() }),
            others: self.others.clone(),
            needs_approval: self.needs_approval.clone(),
            summary_model: self.summary_model.clone(),
        };
        let made = state.middlewares.iter().map(|(name, options)| Middleware::of(name, options, &parts));
        let middleware: Vec<Middleware> = made.collect::<Result<_, _>>()?;
        provider = Middleware::provider_of(&middleware, provider);
        let mut filters = self.filters.clone();
        filters.extend(Middleware::filters_of(&middleware));
        if state.response_format.is_some() {
            provider = Arc::new(FormattedProvider::new(provider, FormattedProvider::RETRIES));
        }
        if !state.callbacks.is_empty() || !self.listeners.is_empty() {
            filters.extend(Callbacks::filters());
        }
        let settings = ModelDefaults {
            system_prompt: Some(state.system_prompt.clone()).filter(|text| !text.is_empty()),
            max_tool_iterations: state.max_iterations,
            ..ModelDefaults::default()
        };
        let wrap = |tool: &Tool| Middleware::tool_of(&middleware, tool.clone());
        let tools: Vec<Tool> = state.tool_handlers.values().map(wrap).collect();
        let builder = Kernel::builder().filters(filters).tools(tools).settings(settings);
        self.kernel = builder.provider(provider).build();
        state.tools = self.kernel.tool_schemas(SchemaDialect::OpenAi);
        let chain = self.kernel.chain().filters().iter().map(|filter| filter.name().to_owned());
        state.middleware_chain = Some(chain.collect());
        let keeps = state.storage.clone().filter(|_| state.auto_checkpoint);
        if self.runs.is_none() {
            self.runs = keeps.map(|store| Runs::new(store, uuid::Uuid::new_v4().to_string()));
        }
        Ok(())
    }

    pub(super) fn setup(&self) -> Setup {
        let model = self.state.llm_config.text("model").unwrap_or_else(|| self.state.id.as_str().into());
        Setup {
            id: self.state.id.clone(),
            name: self.state.name.clone(),
            kernel: self.kernel.clone(),
            model: Json::from([("id", model.into())]),
            models: Json::array(),
            callbacks: self.state.callbacks.clone(),
            listeners: self.listeners.clone(),
            exchange: None,
        }
    }

    /// Returns the state of the latest run if it can be resumed.
    pub(super) fn unfinished(&self) -> Option<&RunSnapshot> {
        let is_open = |saved: &&RunSnapshot| saved.progress.next != Next::End;
        self.latest.as_ref().filter(is_open).filter(|_| self.state.run_id.is_some())
    }

    pub(super) fn body(&self, messages: Vec<Json>) -> Json {
        let config = self.state.llm_config.entries();
        let body = Json::from([("model", self.state.id.as_str().into())]);
        let messages: Vec<Json> = messages.iter().map(Json::deep_clone).collect();
        // The object has no other handles, so the writes cannot fail.
        for (key, value) in config {
            body.put(&key, value.deep_clone());
        }
        body.put("messages", messages);
        if let Some(format) = &self.state.response_format {
            body.put("response_format", format.deep_clone());
        }
        body
    }

    pub(super) fn storage(&self) -> Result<&Arc<Store>, Error> {
        self.state.storage.as_ref().ok_or_else(no_storage)
    }

    /// Returns the state of the agent between two runs.
    pub(super) fn standing(&self) -> RunSnapshot {
        let length = self.state.messages.len() as u64;
        let states = match self.kept.get(SUMMARIZATION) {
            Some(summary) => Json::from([(SUMMARIZATION, summary.deep_clone())]),
            None => Json::object(),
        };
        let progress = Progress::ended(self.body(Vec::new()));
        let facts = TurnFacts { chat_id: self.conversation.clone(), ..TurnFacts::default() };
        RunSnapshot::new(progress, &facts, self.variables.deep_clone(), states, length)
    }

    /// Adopts the state at the end of a run.
    pub(super) fn note(&mut self, saved: &RunSnapshot) {
        self.variables = saved.variables.deep_clone();
        self.kept = memory::leaving(&self.kept, saved);
        self.state.scratchpad = saved.scratchpad.items();
        self.latest = Some(saved.clone());
    }
}

pub(super) fn no_storage() -> Error {
    conflict("this agent has no storage; set one with `.storage(…)`")
}
