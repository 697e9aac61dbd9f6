//! The parts of a kernel, its builder, and variants of an existing kernel.

use crate::callback::Listener;
use crate::context::Turn;
use crate::filter::{Chain, FilterEntry, Hook, Hooks};
use crate::provider::{IntoProvider, Provider};
use crate::tool::{SchemaDialect, Tool, ToolModule, ToolSpec, Toolbox, is_entry_tool, tools_of};
use compact_str::CompactString;
use std::any::Any;
use std::sync::Arc;
use valvehouse_json::Json;

/// The default for the maximum number of model calls in a turn.
pub const MAX_TOOL_ITERATIONS: usize = 10;

/// The immutable filters, tools and provider of a model. Cheap to clone.
#[derive(Clone)]
pub struct Kernel(Arc<Parts>);

struct Parts {
    chain: Chain,
    toolbox: Toolbox,
    provider: Option<Arc<dyn Provider>>,
    settings: ModelDefaults,
    routes: Option<Arc<dyn Routes>>,
}

/// The settings of a model.
#[derive(Debug, Clone)]
pub struct ModelDefaults {
    /// The provider's name of the model, if it differs.
    pub model: Option<String>,
    /// The text that precedes the messages of each model call and is never stored.
    pub system_prompt: Option<String>,
    /// The maximum number of model calls in a turn.
    pub max_tool_iterations: usize,
    /// Set if a filter handles uploaded files; they are removed from the body after inlet.
    pub files_handled: bool,
    /// Set if a filter has to see a streamed answer before it is sent.
    pub hold: bool,
    /// Set if the model is offered `find_tools` and the tools it finds in the turn, instead of all tools.
    pub tool_search: bool,
}

impl Default for ModelDefaults {
    fn default() -> Self {
        Self {
            model: None,
            system_prompt: None,
            max_tool_iterations: MAX_TOOL_ITERATIONS,
            files_handled: false,
            hold: false,
            tool_search: false,
        }
    }
}

/// A lookup of models by the names that clients request.
pub trait Routes: Send + Sync {
    /// Returns the route to a model; `None` for an unknown name.
    fn route(&self, name: &str) -> Option<Route>;
}

/// The route to a model: its provider and settings.
pub struct Route {
    /// The provider of the model.
    pub provider: Arc<dyn Provider>,
    /// The settings of the model.
    pub settings: ModelDefaults,
    /// The filters of the model. Its guards join a turn that is routed to it.
    pub chain: Chain,
}

/// Returns the model of a body if it is not the one before.
fn changed_model(before: &Json, body: &Json) -> Option<CompactString> {
    body.text("model").filter(|name| before.as_str() != Some(name.as_str()))
}

/// A builder for kernels.
#[derive(Default)]
pub struct KernelBuilder {
    filters: Vec<FilterEntry>,
    tools: Vec<Tool>,
    provider: Option<Arc<dyn Provider>>,
    settings: ModelDefaults,
}

impl KernelBuilder {
    /// Adds a filter. Filters run in order of priority; ties run in the order of addition.
    #[must_use]
    pub fn filter(mut self, filter: impl Into<FilterEntry>) -> Self {
        self.filters.push(filter.into());
        self
    }

    /// Adds filters.
    #[must_use]
    pub fn filters<F: Into<FilterEntry>>(mut self, filters: impl IntoIterator<Item = F>) -> Self {
        self.filters.extend(filters.into_iter().map(Into::into));
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds the tools of a module.
    #[must_use]
    pub fn tool_module(self, module: &dyn ToolModule) -> Self {
        self.tools(tools_of(module))
    }

    /// Sets the provider of the model.
    #[must_use]
    pub fn provider(mut self, provider: impl IntoProvider) -> Self {
        self.provider = Some(provider.into_provider());
        self
    }

    /// Sets the settings of the model.
    #[must_use]
    pub fn settings(mut self, settings: ModelDefaults) -> Self {
        self.settings = settings;
        self
    }

    /// Builds the kernel.
    pub fn build(self) -> Kernel {
        Kernel(Arc::new(Parts {
            chain: Chain::new(self.filters),
            toolbox: Toolbox::new(self.tools),
            provider: self.provider,
            settings: self.settings,
            routes: None,
        }))
    }
}

/// A builder that takes filters and tools, so that packages above can add theirs, such as those of a folder of scripts.
pub trait TakesPlugins: Sized {
    /// Adds a filter.
    #[must_use]
    fn take_filter(self, filter: FilterEntry) -> Self;

    /// Adds a tool.
    #[must_use]
    fn take_tool(self, tool: Tool) -> Self;

    /// Adds a receiver of an agent's callbacks. A kernel without an agent has no such events and drops it.
    #[must_use]
    fn take_listener(self, listener: Arc<dyn Listener>) -> Self {
        drop(listener);
        self
    }

    /// Returns the filter of a name, if it was added.
    fn filter_named(&self, name: &str) -> Option<FilterEntry>;
}

impl TakesPlugins for KernelBuilder {
    fn take_filter(self, filter: FilterEntry) -> Self {
        self.filter(filter)
    }

    fn take_tool(self, tool: Tool) -> Self {
        self.tool(tool)
    }

    fn filter_named(&self, name: &str) -> Option<FilterEntry> {
        self.filters.iter().find(|filter| filter.name() == name).cloned()
    }
}

impl Kernel {
    /// Returns an empty builder.
    pub fn builder() -> KernelBuilder {
        KernelBuilder::default()
    }

    /// Returns a kernel with an additional filter; this kernel is unchanged.
    #[must_use]
    pub fn with_filter(&self, filter: impl Into<FilterEntry>) -> Self {
        let filters = self.0.chain.filters().iter().cloned().chain([filter.into()]).collect();
        Self(Arc::new(Parts { chain: Chain::new(filters), ..self.parts() }))
    }

    /// Returns a kernel with an additional tool; this kernel is unchanged.
    #[must_use]
    pub fn with_tool(&self, tool: Tool) -> Self {
        let tools = self.0.toolbox.iter().cloned().chain([tool]);
        Self(Arc::new(Parts { toolbox: Toolbox::new(tools), ..self.parts() }))
    }

    /// Returns a kernel with another provider; this kernel is unchanged.
    #[must_use]
    pub fn with_provider(&self, provider: impl IntoProvider) -> Self {
        Self(Arc::new(Parts { provider: Some(provider.into_provider()), ..self.parts() }))
    }

    /// Returns the kernel with the tools that a request's `tool_ids` select; `None` if the request has no
    /// `tool_ids`.
    pub(super) fn narrowed(&self, body: &Json) -> Option<Self> {
        let Some(Json::Array(ids)) = body.get("tool_ids") else { return None };
        let ids: Vec<Json> = ids.items();
        let is_meant = |tool: &&Tool| ids.iter().filter_map(Json::as_str).any(|id| tool.spec.is_meant_by(id));
        let is_entry = |tool: &&Tool| self.0.settings.tool_search && is_entry_tool(tool.name());
        let has_any = self.0.toolbox.iter().any(|tool| is_meant(&tool) && !is_entry(&tool));
        let is_kept = |tool: &&Tool| if is_entry(tool) { has_any } else { is_meant(tool) };
        let tools = self.0.toolbox.iter().filter(is_kept).cloned();
        Some(Self(Arc::new(Parts { toolbox: Toolbox::new(tools), ..self.parts() })))
    }

    /// Converts the kernel to the reference that a turn stores.
    pub(super) fn to_runner(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.clone()
    }

    /// Returns the kernel from the reference that a turn stores.
    pub(super) fn from_runner(runner: Arc<dyn Any + Send + Sync>) -> Option<Self> {
        runner.downcast().ok().map(Self)
    }

    /// Returns `true` if any filter needs the model's answer.
    pub(super) fn looks_at_answers(&self) -> bool {
        !self.0.toolbox.is_empty()
            || self.0.chain.leaves_work()
            || [Hook::Stream, Hook::StreamEnd, Hook::PostChat, Hook::Outlet]
                .iter()
                .any(|hook| self.0.chain.has(*hook))
    }

    /// Returns a kernel without the filters and tools of these plugins.
    #[must_use]
    pub fn without(&self, plugins: &[String]) -> Self {
        let is_kept = |name: &str| !plugins.iter().any(|plugin| plugin == name);
        let filters = self.0.chain.filters().iter().filter(|filter| is_kept(filter.name()));
        let tools = self.0.toolbox.iter().filter(|tool| tool.spec.module.as_deref().is_none_or(is_kept));
        Self(Arc::new(Parts {
            chain: Chain::new(filters.cloned().collect()),
            toolbox: Toolbox::new(tools.cloned()),
            ..self.parts()
        }))
    }

    /// Returns a kernel in which these filters lack these hooks, for a turn whose hooks already ran elsewhere.
    #[must_use]
    pub fn sparing(&self, filters: &[String], hooks: Hooks) -> Self {
        let spared = |filter: &FilterEntry| match filters.iter().any(|name| name == filter.name()) {
            true => filter.clone().sparing(hooks),
            false => filter.clone(),
        };
        let filters = self.0.chain.filters().iter().map(spared).collect();
        Self(Arc::new(Parts { chain: Chain::new(filters), ..self.parts() }))
    }

    /// Returns a kernel with other tools and models, for replays.
    #[must_use]
    pub fn replaying(&self, tools: Vec<Tool>, provider: Arc<dyn Provider>, routes: Arc<dyn Routes>) -> Self {
        let (chain, settings) = (self.0.chain.clone(), self.0.settings.clone());
        Self::assembled(chain, tools, Some(provider), settings, routes)
    }

    /// Returns a kernel with the guards alone that check an answer which a filter has given.
    pub(super) fn guarding_given(&self, turn: &Turn) -> Self {
        Self(Arc::new(Parts { chain: self.0.chain.guards_of_given(turn), ..self.parts() }))
    }

    /// Returns the guards of the model that a filter has set in a body, without those of a chain; `None` if there are
    /// none.
    pub(super) fn guards_of_route(&self, before: &Json, body: &Json, chain: &Chain) -> Option<Chain> {
        let name = changed_model(before, body)?;
        let route = self.0.routes.as_ref()?.route(&name)?;
        Some(route.chain.guards_beside(chain)).filter(|guards| !guards.filters().is_empty())
    }

    /// Returns the kernel for a body whose model was changed, with the filters and tools of this turn, and with the
    /// guards of that model. A body with an unknown model is sent to the current provider unchanged.
    pub(super) fn rerouted(&self, before: &Json, body: &Json) -> Option<Self> {
        let name = changed_model(before, body)?;
        let parts = self.parts();
        let ModelDefaults { files_handled, hold, tool_search, .. } = parts.settings;
        let route = parts.routes.as_ref().and_then(|routes| routes.route(&name));
        Some(Self(Arc::new(match route {
            None => Parts { settings: ModelDefaults { model: None, ..parts.settings }, ..parts },
            Some(Route { provider, settings, chain }) => {
                let guards = chain.guards_beside(&parts.chain);
                let is_guarded = !guards.filters().is_empty();
                let hold = hold || (is_guarded && settings.hold);
                Parts {
                    chain: if is_guarded { parts.chain.joined(&guards) } else { parts.chain },
                    provider: Some(provider),
                    settings: ModelDefaults { files_handled, hold, tool_search, ..settings },
                    ..parts
                }
            }
        })))
    }

    fn parts(&self) -> Parts {
        Parts {
            chain: self.0.chain.clone(),
            toolbox: self.0.toolbox.clone(),
            provider: self.0.provider.clone(),
            settings: self.0.settings.clone(),
            routes: self.0.routes.clone(),
        }
    }

    /// Creates a kernel from its parts.
    pub fn assembled(
        chain: Chain,
        tools: Vec<Tool>,
        provider: Option<Arc<dyn Provider>>,
        settings: ModelDefaults,
        routes: Arc<dyn Routes>,
    ) -> Self {
        let (toolbox, routes) = (Toolbox::new(tools), Some(routes));
        Self(Arc::new(Parts { chain, toolbox, provider, settings, routes }))
    }

    /// Returns the filters, in running order.
    pub fn chain(&self) -> &Chain {
        &self.0.chain
    }

    /// Returns the tools.
    pub fn toolbox(&self) -> &Toolbox {
        &self.0.toolbox
    }

    /// Returns the settings of the model.
    pub fn settings(&self) -> &ModelDefaults {
        &self.0.settings
    }

    /// Returns the provider of the model.
    pub fn provider(&self) -> Option<&Arc<dyn Provider>> {
        self.0.provider.as_ref()
    }

    /// Returns the specifications of all tools, in registration order.
    pub fn tool_specs(&self) -> Vec<Arc<ToolSpec>> {
        self.0.toolbox.iter().map(|tool| tool.spec.clone()).collect()
    }

    /// Returns the schemas of all tools in a provider's format.
    pub fn tool_schemas(&self, dialect: SchemaDialect) -> Vec<Json> {
        self.0.toolbox.iter().map(|tool| tool.spec.to_tool_schema(dialect)).collect()
    }

    /// Returns the tool of a name.
    pub fn find_tool(&self, name: &str) -> Option<&Tool> {
        self.0.toolbox.find(name)
    }

    /// Returns the tools with a tag.
    pub fn tools_by_tag(&self, tag: &str) -> Vec<&Tool> {
        self.0.toolbox.tagged(tag).collect()
    }
}
