//! The parts of a kernel, and how they are put together: at first, and as variants of one that is there.

use crate::filter::{Chain, Filter, Hook, Hooks};
use crate::provider::Provider;
use crate::tool::{SchemaDialect, Tool, ToolModule, ToolSpec, Toolbox, is_entry_tool, tools_of};
use std::any::Any;
use std::sync::Arc;
use valvehouse_json::Json;

/// Model calls a turn may take when nobody says otherwise.
pub const MAX_TOOL_ITERATIONS: usize = 10;

/// Everything one model's turns need; cheap to clone, never changed.
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
    /// The provider's name for it, where that is another one.
    pub model: Option<String>,
    /// The text that is sent first in every model call and never stored.
    pub system_prompt: Option<String>,
    /// Model calls a turn may take.
    pub max_tool_iterations: usize,
    /// Set if a filter handles uploaded files; they are removed from the body after inlet.
    pub files_handled: bool,
    /// Set if a filter has to see a streamed answer before it is sent.
    pub hold: bool,
    /// Offers the model `find_tools` and the tools found in the turn, instead of all tools.
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

/// Knows models by the names clients ask for.
pub trait Routes: Send + Sync {
    /// The route of a name; `None` for a name that means nothing here.
    fn route(&self, name: &str) -> Option<Route>;
}

/// The route to a model.
pub struct Route {
    /// The provider that serves it.
    pub provider: Arc<dyn Provider>,
    /// The settings of the model.
    pub settings: ModelDefaults,
}

/// Puts a kernel together.
#[derive(Default)]
pub struct KernelBuilder {
    filters: Vec<Filter>,
    tools: Vec<Tool>,
    provider: Option<Arc<dyn Provider>>,
    settings: ModelDefaults,
}

impl KernelBuilder {
    /// Adds a filter; priority decides its place, ties keep the order of adding.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// Adds filters.
    #[must_use]
    pub fn filters(mut self, filters: impl IntoIterator<Item = Filter>) -> Self {
        self.filters.extend(filters);
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

    /// Sets the provider that answers.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets the settings of the model.
    #[must_use]
    pub fn settings(mut self, settings: ModelDefaults) -> Self {
        self.settings = settings;
        self
    }

    /// The kernel, frozen.
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

impl Kernel {
    /// Begins a kernel.
    pub fn builder() -> KernelBuilder {
        KernelBuilder::default()
    }

    /// Another kernel with one more filter; this one stays as it is.
    #[must_use]
    pub fn with_filter(&self, filter: Filter) -> Self {
        let filters = self.0.chain.filters().iter().cloned().chain([filter]).collect();
        Self(Arc::new(Parts { chain: Chain::new(filters), ..self.parts() }))
    }

    /// Another kernel with one more tool; this one stays as it is.
    #[must_use]
    pub fn with_tool(&self, tool: Tool) -> Self {
        let tools = self.0.toolbox.iter().cloned().chain([tool]);
        Self(Arc::new(Parts { toolbox: Toolbox::new(tools), ..self.parts() }))
    }

    /// Another kernel whose model another provider serves; this one stays as it is.
    #[must_use]
    pub fn with_provider(&self, provider: Arc<dyn Provider>) -> Self {
        Self(Arc::new(Parts { provider: Some(provider), ..self.parts() }))
    }

    /// The kernel with those of its tools that a request's `tool_ids` mean; all where it has none.
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

    /// The kernel as a turn refers to it.
    pub(super) fn to_runner(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.clone()
    }

    /// The kernel that a turn refers to.
    pub(super) fn from_runner(runner: Arc<dyn Any + Send + Sync>) -> Option<Self> {
        runner.downcast().ok().map(Self)
    }

    /// Returns `true` if anybody wants to see what the model answers.
    pub(super) fn looks_at_answers(&self) -> bool {
        !self.0.toolbox.is_empty()
            || self.0.chain.leaves_work()
            || [Hook::Stream, Hook::StreamEnd, Hook::PostChat, Hook::Outlet]
                .iter()
                .any(|hook| self.0.chain.has(*hook))
    }

    /// The kernel without some plugins: their filters do not run, their tools are not offered.
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

    /// The kernel for a turn of which these moments have been elsewhere, as far as these filters go.
    #[must_use]
    pub fn sparing(&self, filters: &[String], hooks: Hooks) -> Self {
        let spared = |filter: &Filter| match filters.iter().any(|name| name == filter.name()) {
            true => filter.clone().sparing(hooks),
            false => filter.clone(),
        };
        let filters = self.0.chain.filters().iter().map(spared).collect();
        Self(Arc::new(Parts { chain: Chain::new(filters), ..self.parts() }))
    }

    /// The kernel with other tools and models in the place of its own, for who tries a turn out.
    #[must_use]
    pub fn played_by(&self, tools: Vec<Tool>, provider: Arc<dyn Provider>, routes: Arc<dyn Routes>) -> Self {
        let (chain, settings) = (self.0.chain.clone(), self.0.settings.clone());
        Self::assembled(chain, tools, Some(provider), settings, routes)
    }

    /// The kernel that goes on with a body whose model was another one before. Filters and tools
    /// stay those of the turn. A name that means nothing here goes to the same provider as it is.
    pub(super) fn rerouted(&self, before: &Json, body: &Json) -> Option<Self> {
        let name = body.text("model").filter(|name| before.as_str() != Some(name.as_str()))?;
        let parts = &*self.0;
        let (provider, settings) = match parts.routes.as_ref().and_then(|routes| routes.route(&name)) {
            Some(Route { provider, settings }) => (Some(provider), settings),
            None => (parts.provider.clone(), ModelDefaults { model: None, ..parts.settings.clone() }),
        };
        let ModelDefaults { files_handled, hold, tool_search, .. } = parts.settings;
        Some(Self(Arc::new(Parts {
            chain: parts.chain.clone(),
            toolbox: parts.toolbox.clone(),
            provider,
            settings: ModelDefaults { files_handled, hold, tool_search, ..settings },
            routes: parts.routes.clone(),
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

    /// A kernel of parts that are ready.
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

    /// Its filters, in running order.
    pub fn chain(&self) -> &Chain {
        &self.0.chain
    }

    /// Its tools.
    pub fn toolbox(&self) -> &Toolbox {
        &self.0.toolbox
    }

    /// The settings of its model.
    pub fn settings(&self) -> &ModelDefaults {
        &self.0.settings
    }

    /// The provider that answers.
    pub fn provider(&self) -> Option<&Arc<dyn Provider>> {
        self.0.provider.as_ref()
    }

    /// The specs of all tools, in registration order.
    pub fn tool_specs(&self) -> Vec<Arc<ToolSpec>> {
        self.0.toolbox.iter().map(|tool| tool.spec.clone()).collect()
    }

    /// The schemas of all tools in a service's words.
    pub fn tool_schemas(&self, dialect: SchemaDialect) -> Vec<Json> {
        self.0.toolbox.iter().map(|tool| tool.spec.to_tool_schema(dialect)).collect()
    }

    /// The tool of that name.
    pub fn find_tool(&self, name: &str) -> Option<&Tool> {
        self.0.toolbox.find(name)
    }

    /// The tools with a tag.
    pub fn tools_by_tag(&self, tag: &str) -> Vec<&Tool> {
        self.0.toolbox.tagged(tag).collect()
    }
}
