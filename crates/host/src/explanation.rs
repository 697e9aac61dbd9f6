//! The explanation of a model's filters, as the command line and the page show it.

use crate::decision::FilterDecision;
use crate::plugin::{Plugin, State};
use crate::rejection::absence;
use crate::snapshot::Snapshot;
use crate::spelled_json::SpelledJson;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use valvehouse_core::breaker::OpenState;
use valvehouse_core::filter::{FilterEntry, Hook};
use valvehouse_core::tool::Tool;
use valvehouse_script::{CHAT, Kind};

/// A filter in relation to the requests of a model.
#[derive(Debug, Clone)]
pub struct Part {
    /// The plugin.
    pub plugin: Arc<Plugin>,
    /// The decision on it.
    pub decision: FilterDecision,
    /// The state of its circuit breaker, if that is open.
    pub open_breaker: Option<OpenState>,
    /// The reason for the decision.
    pub reason: String,
}

impl Part {
    /// Returns the name of the decision in the API.
    pub fn decision_name(&self) -> &'static str {
        if self.open_breaker.is_some() { "breaker_open" } else { self.decision.as_str() }
    }

    /// Returns `true` if requests go through it.
    pub fn runs(&self) -> bool {
        self.decision == FilterDecision::Runs
    }
}

/// A tool.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Tool")]
pub struct ListedTool {
    /// The name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the tool's arguments.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub parameters: SpelledJson,
    /// The tags.
    pub tags: Vec<String>,
    /// Values for filters.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub metadata: SpelledJson,
    /// The script that declares the tool, or null.
    pub plugin: Option<String>,
    /// The time limit of a call.
    pub timeout_ms: u64,
    /// Set if the tool may run again after an interruption.
    pub idempotent: bool,
    /// The models that receive the tool.
    pub models: Vec<String>,
}

impl Snapshot {
    /// Returns the filters of a model's chain that are not plugins, in running order: middleware, filters that
    /// report calls to the listeners of agents, and refusals in place of missing filters.
    pub fn host_filters(&self, model: &str, filter_ids: &[String]) -> Vec<FilterEntry> {
        let selected = self.select_for(model, filter_ids);
        let is_host = |filter: &&FilterEntry| {
            self.plugins.get(filter.name()).is_none_or(|plugin| plugin.kind != Kind::Filter)
        };
        selected.chain.filters().iter().filter(is_host).cloned().collect()
    }

    /// Returns the tools; with a tag, only those with that tag.
    pub fn tool_list(&self, tag: Option<&str>) -> Vec<ListedTool> {
        let is_meant = |tool: &&Tool| tag.is_none_or(|tag| tool.spec.tags.iter().any(|own| own == tag));
        let listed = self.tools.iter().filter(is_meant).map(|tool| {
            let offers = |model: &String| self.offered(model).iter().any(|own| own.name() == tool.name());
            let spec = &tool.spec;
            ListedTool {
                name: spec.name.clone(),
                description: spec.description.clone(),
                parameters: spec.parameters.schema().deep_clone().into(),
                tags: spec.tags.clone(),
                metadata: spec.metadata.deep_clone().into(),
                plugin: spec.module.clone(),
                timeout_ms: u64::try_from(spec.timeout.as_millis()).unwrap_or(u64::MAX),
                idempotent: spec.idempotent,
                models: self.model_names().into_iter().filter(offers).collect(),
            }
        });
        listed.collect()
    }

    /// Returns the tools of a model that are filtered by a filter outside the model's chain.
    fn tools_around(&self, id: &str, model: &str) -> Vec<String> {
        let has = |tool: &&Tool| tool.filters.iter().any(|filter| filter.name() == id);
        self.offered(model).iter().filter(has).map(|tool| tool.name().to_owned()).collect()
    }

    /// Refines the decision on a filter for a model: a filter outside its chain may run around its tools.
    fn decided_for(&self, plugin: &Plugin, decision: FilterDecision, model: &str) -> FilterDecision {
        match decision {
            FilterDecision::NotListed | FilterDecision::NotSelected => {
                let tools = self.tools_around(&plugin.id, model);
                if tools.is_empty() { decision } else { FilterDecision::ForTools(tools) }
            }
            FilterDecision::Runs if !plugin.covers(CHAT) => {
                FilterDecision::Elsewhere(plugin.endpoints().into_iter().map(str::to_owned).collect())
            }
            decision => decision,
        }
    }

    /// Returns the filters in the order in which they run, each with the decision on it for a model.
    pub fn explain(&self, model: &str, filter_ids: &[String]) -> Vec<(Arc<Plugin>, FilterDecision)> {
        let listed = self.listed_for(model);
        let plan = self.plan().model(model);
        let mut all: Vec<(Arc<Plugin>, FilterDecision)> = self
            .filters()
            .map(|plugin| {
                let decision = match plan {
                    Some(plan) if plugin.enabled && plugin.global && plan.leaves_out(plugin) => {
                        FilterDecision::NotListed
                    }
                    _ => self.decide(plugin, &listed, filter_ids),
                };
                (plugin.clone(), self.decided_for(plugin, decision, model))
            })
            .collect();
        let place = |plugin: &Plugin, decision: &FilterDecision| match (decision, &plugin.script) {
            // A rejection comes before everything else.
            (FilterDecision::Refuses(_), _) => f64::NEG_INFINITY,
            (_, Some(script)) => script.priority(),
            (_, None) => 0.0,
        };
        all.sort_by(|(a, why_a), (b, why_b)| {
            place(a, why_a).total_cmp(&place(b, why_b)).then_with(|| a.id.cmp(&b.id))
        });
        all
    }

    /// Returns the filters in the order in which they run, with their decisions for a model; `open_breaker`
    /// returns the state of a filter's breaker if it is open.
    pub fn parts(
        &self,
        model: &str,
        filter_ids: &[String],
        open_breaker: impl Fn(&Plugin) -> Option<OpenState>,
    ) -> Vec<Part> {
        let explained = self.explain(model, filter_ids).into_iter();
        let parts = explained.map(|(plugin, decision)| {
            let open_breaker = open_breaker(&plugin).filter(|_| decision == FilterDecision::Runs);
            let reason = match &open_breaker {
                Some(open) => format!("{}; last: {}", plugin.breaker_in_words(open), open.cause),
                None => self.reason(&plugin, &decision, model),
            };
            Part { plugin, decision, open_breaker, reason }
        });
        parts.collect()
    }

    fn reason(&self, plugin: &Plugin, decision: &FilterDecision, model: &str) -> String {
        let id = &plugin.id;
        match decision {
            FilterDecision::Runs if plugin.audited => {
                "in audit mode: its verdicts and changes are counted and traced, none applies".to_owned()
            }
            FilterDecision::Runs if matches!(plugin.state, State::Stale(_)) => {
                format!("its last good version runs; see valvehouse check {id}")
            }
            FilterDecision::Runs => {
                let why = match plugin.global {
                    true => "runs for every model".to_owned(),
                    false if self.plan().model(model).is_none() => {
                        let names = self.guarded_by(id, model).join(", ");
                        format!("guards a configured model that the name may mean: {names}")
                    }
                    false => format!("listed by the model `{model}`"),
                };
                let others: Vec<&str> =
                    plugin.endpoints().into_iter().filter(|endpoint| *endpoint != CHAT).collect();
                match others.is_empty() {
                    true => why,
                    false => format!("{why}; covers {} as well", others.join(", ")),
                }
            }
            FilterDecision::Refuses(why) => format!("refuses every request: {why}"),
            FilterDecision::Off if !self.plan().plugin(plugin.kind, id).enabled => {
                format!("switched off: [filters.{id}] enabled = false")
            }
            FilterDecision::Off => "switched off by an operator".to_owned(),
            FilterDecision::NotListed if plugin.global => {
                format!("the model `{model}` leaves it out: `without` of its [[models]] entry")
            }
            FilterDecision::NotListed => format!("not global, and the model `{model}` does not list it"),
            FilterDecision::NotSelected => {
                format!("a toggle: runs only for requests with \"filter_ids\": [\"{id}\"]")
            }
            FilterDecision::Broken => format!("has never loaded; see valvehouse check {id}"),
            FilterDecision::ForTools(tools) => format!("runs around these tools only: {}", tools.join(", ")),
            FilterDecision::Elsewhere(endpoints) => {
                format!("covers {} only: `endpoints` does not list \"chat\"", endpoints.join(", "))
            }
            FilterDecision::NoHooks => "has no hooks to run".to_owned(),
            FilterDecision::Idle => {
                let needs = plugin.needs();
                let first = needs.first().map_or("VALVE", |name| name.as_str());
                format!(
                    "does nothing until it is configured: set {} with valvehouse valves set {id} {first}=…",
                    needs.join(" or ")
                )
            }
        }
    }
}

/// A filter in a model's chain that is not a plugin.
pub struct HostPart {
    /// The name of the part in traces.
    pub id: String,
    /// Its priority in the chain.
    pub priority: f64,
    /// The names of its hooks.
    pub hooks: Vec<&'static str>,
    /// The reason for rejecting requests; `None` if it runs.
    pub refuses: Option<String>,
    /// A description of the part: its role, or the cause of its refusals.
    pub reason: String,
}

impl Snapshot {
    /// Returns the filters in the chain of a model that are not plugins, in the order in which they run.
    pub fn host_parts(&self, model: &str, filter_ids: &[String]) -> Vec<HostPart> {
        let plan = self.plan().model(model);
        let listed = self.listed_for(model);
        let is_absent = |name: &str| listed.iter().any(|id| id == name);
        let is_middleware =
            |name: &str| plan.is_some_and(|plan| plan.middleware.iter().any(|own| own.name() == name));
        let part = |filter: FilterEntry| {
            let refuses = is_absent(filter.name()).then(|| absence(filter.name(), model));
            let reason = match &refuses {
                Some(why) => format!("refuses every request: {why}"),
                None if is_middleware(filter.name()) => format!("middleware of the model `{model}`"),
                None => "reports agent events to listeners".to_owned(),
            };
            HostPart {
                id: filter.name().to_owned(),
                priority: filter.place(),
                hooks: filter.hooks().iter().map(Hook::name).collect(),
                refuses,
                reason,
            }
        };
        self.host_filters(model, filter_ids).into_iter().map(part).collect()
    }
}
