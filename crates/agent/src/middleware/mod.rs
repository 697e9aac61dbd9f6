//! Middleware: ready-made filters, and wrappers of models and tools, that hold an agent to its limits.
//!
//! A middleware is no mechanism of its own: its filters run in the chain of all others, each at a place
//! that its file names. Options are read once, in full; what cannot be read is an error, so that no agent
//! runs without a guard that was meant for it.
//!
//! ```
//! use valvehouse_agent::middleware::{Middleware, Parts};
//! use valvehouse_json::Json;
//! let options = Json::parse(br#"{"max_model_calls": 5}"#).unwrap();
//! let limit = Middleware::of("call_limit", &options, &Parts::default()).unwrap();
//! assert_eq!(limit.filters().len(), 2);
//! ```

mod approval;
mod call_limit;
mod context_editing;
mod models;
mod options;
mod pii;
mod presets;
mod tool_retry;
mod transient;
mod wait;

#[cfg(test)]
mod tests;

pub(super) use options::Options;
pub(super) use wait::wait;

use super::summary::{self, Summarization};
use std::sync::Arc;
use valvehouse_core::filter::Filter;
use valvehouse_core::provider::Provider;
use valvehouse_core::tool::Tool;
use valvehouse_core::words::did_you_mean;
use valvehouse_json::Json;
use valvehouse_providers::Choice;

type WrapProvider = Arc<dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync>;
type WrapTool = Arc<dyn Fn(Tool) -> Tool + Send + Sync>;

/// Says of a tool, as filters see it, and its arguments whether a person has to approve the call.
pub type NeedsApproval = Arc<dyn Fn(&Json, &Json) -> bool + Send + Sync>;

/// What a middleware may need beside its options.
#[derive(Clone, Default)]
pub struct Parts {
    /// The agent's own model, which also writes summaries.
    pub model: Option<Choice>,
    /// Other models by the names that options may use.
    pub others: Vec<(String, Choice)>,
    /// What `human_approval` goes by in mode `custom`.
    pub needs_approval: Option<NeedsApproval>,
}

/// One middleware, ready to be used. Cheap to clone.
#[derive(Clone)]
pub struct Middleware {
    name: &'static str,
    options: Json,
    filters: Vec<Filter>,
    provider: Option<WrapProvider>,
    tools: Option<WrapTool>,
}

type Maker = fn(&Json, &Parts) -> Result<Middleware, String>;

const KINDS: [(&str, Maker); 8] = [
    (summary::NAME, summarization),
    (call_limit::NAME, call_limit::middleware),
    (approval::NAME, approval::middleware),
    (tool_retry::NAME, tool_retry::middleware),
    (models::RETRY, models::retry),
    (models::FALLBACK, models::fallback),
    (pii::NAME, pii::middleware),
    (context_editing::NAME, context_editing::middleware),
];

impl Middleware {
    /// The middleware of that name with these options, an object or null. An error says what is wrong and
    /// how to mend it.
    pub fn of(name: &str, options: &Json, parts: &Parts) -> Result<Self, String> {
        let Some((_, make)) = KINDS.iter().find(|(kind, _)| *kind == name) else {
            let kinds = Self::names();
            let hint = did_you_mean(name, kinds.iter().copied());
            return Err(format!("there is no middleware {name:?}{hint}; there are: {}", kinds.join(", ")));
        };
        let made = make(options, parts)?;
        Ok(Self { options: options.copy(), ..made })
    }

    /// All there are.
    pub fn names() -> Vec<&'static str> {
        KINDS.iter().map(|(kind, _)| *kind).collect()
    }

    /// Middleware that goes well together, by name with options: `default`, `minimal`, `production`,
    /// `development`, `human_in_loop`.
    pub fn preset(name: &str) -> Option<Vec<(&'static str, Json)>> {
        presets::named(name)
    }

    /// The names of the presets.
    pub fn presets() -> [&'static str; 5] {
        presets::NAMES
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The options it was made with.
    pub fn options(&self) -> &Json {
        &self.options
    }

    /// What it adds to the chain.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// A model as this middleware has it asked.
    pub fn wrap_provider(&self, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match &self.provider {
            Some(wrap) => wrap(provider),
            None => provider,
        }
    }

    /// A tool as this middleware has it run.
    pub fn wrap_tool(&self, tool: Tool) -> Tool {
        match &self.tools {
            Some(wrap) => wrap(tool),
            None => tool,
        }
    }

    /// What all of these add to the chain.
    pub fn filters_of(all: &[Self]) -> impl Iterator<Item = Filter> + '_ {
        all.iter().flat_map(|one| one.filters.iter().cloned())
    }

    /// A model as all of these have it asked, the first one nearest to it.
    pub fn provider_of(all: &[Self], provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        all.iter().fold(provider, |provider, one| one.wrap_provider(provider))
    }

    /// A tool as all of these have it run.
    pub fn tool_of(all: &[Self], tool: Tool) -> Tool {
        all.iter().fold(tool, |tool, one| one.wrap_tool(tool))
    }

    fn of_filters(name: &'static str, filters: impl IntoIterator<Item = Filter>) -> Self {
        let filters = filters.into_iter().collect();
        Self { name, options: Json::Null, filters, provider: None, tools: None }
    }

    fn of_provider(
        name: &'static str,
        wrap: impl Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync + 'static,
    ) -> Self {
        Self { provider: Some(Arc::new(wrap)), ..Self::of_filters(name, []) }
    }

    fn of_tools(name: &'static str, wrap: impl Fn(Tool) -> Tool + Send + Sync + 'static) -> Self {
        Self { tools: Some(Arc::new(wrap)), ..Self::of_filters(name, []) }
    }
}

impl std::fmt::Debug for Middleware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.name, self.options)
    }
}

fn summarization(options: &Json, parts: &Parts) -> Result<Middleware, String> {
    let settings = Summarization { model: parts.model.clone(), ..Summarization::read(options)? };
    Ok(Middleware::of_filters(summary::NAME, [settings.filter()]))
}
