//! The middleware type: its filters, and its wrappers of models and tools.

use std::sync::Arc;
use valvehouse_core::filter::FilterEntry;
use valvehouse_core::provider::Provider;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_providers::Choice;

type WrapProvider = Arc<dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync>;

type WrapTool = Arc<dyn Fn(Tool) -> Tool + Send + Sync>;

/// A function that returns `true` if a person has to approve a call, from the tool's description and its
/// arguments.
pub type NeedsApproval = Arc<dyn Fn(&Json, &Json) -> bool + Send + Sync>;

/// The additional inputs that a middleware may need.
#[derive(Clone, Default)]
pub struct Parts {
    /// The agent's own model, which also writes summaries.
    pub model: Option<Choice>,
    /// The model that writes summaries instead.
    pub summary_model: Option<Choice>,
    /// The other models, by the names used in options.
    pub others: Vec<(String, Choice)>,
    /// The function that decides in `human_approval` with mode `custom`.
    pub needs_approval: Option<NeedsApproval>,
}

/// A configured middleware. Cheap to clone.
#[derive(Clone)]
pub struct Middleware {
    name: &'static str,
    options: Json,
    filters: Vec<FilterEntry>,
    provider: Option<WrapProvider>,
    tools: Option<WrapTool>,
}

impl Middleware {
    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the options.
    pub fn options(&self) -> &Json {
        &self.options
    }

    /// Returns the filters that it adds to the chain.
    pub fn filters(&self) -> &[FilterEntry] {
        &self.filters
    }

    /// Wraps a provider.
    pub fn wrap_provider(&self, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match &self.provider {
            Some(wrap) => wrap(provider),
            None => provider,
        }
    }

    /// Wraps a tool.
    pub fn wrap_tool(&self, tool: Tool) -> Tool {
        match &self.tools {
            Some(wrap) => wrap(tool),
            None => tool,
        }
    }

    /// Returns the filters of several middleware.
    pub fn filters_of(all: &[Self]) -> impl Iterator<Item = FilterEntry> + '_ {
        all.iter().flat_map(|one| one.filters.iter().cloned())
    }

    /// Wraps a provider in several middleware; the first one is innermost.
    pub fn provider_of(all: &[Self], provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        all.iter().fold(provider, |provider, one| one.wrap_provider(provider))
    }

    /// Wraps a tool in several middleware.
    pub fn tool_of(all: &[Self], tool: Tool) -> Tool {
        all.iter().fold(tool, |tool, one| one.wrap_tool(tool))
    }

    pub(super) fn of_filters(name: &'static str, filters: impl IntoIterator<Item = FilterEntry>) -> Self {
        let filters = filters.into_iter().collect();
        Self { name, options: Json::Null, filters, provider: None, tools: None }
    }

    pub(super) fn with_options(self, options: &Json) -> Self {
        Self { options: options.deep_clone(), ..self }
    }

    pub(super) fn of_provider(
        name: &'static str,
        wrap: impl Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync + 'static,
    ) -> Self {
        Self { provider: Some(Arc::new(wrap)), ..Self::of_filters(name, []) }
    }

    pub(super) fn of_tools(name: &'static str, wrap: impl Fn(Tool) -> Tool + Send + Sync + 'static) -> Self {
        Self { tools: Some(Arc::new(wrap)), ..Self::of_filters(name, []) }
    }
}

impl std::fmt::Debug for Middleware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.name, self.options)
    }
}
