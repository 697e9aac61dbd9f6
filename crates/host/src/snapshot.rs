//! Snapshots. A turn uses one snapshot until its end: its plugins, chains and models. A snapshot is
//! immutable.

use crate::decision::FilterDecision;
use crate::plan::{ModelPlan, Offers, Passes, Plan};
use crate::plugin::{Plugin, Plugins};
use crate::rejection::absent;
use crate::routes::{Chains, ProviderRoutes};
use std::collections::HashMap;
use std::sync::Arc;
use valvehouse_agent::callbacks::{Callbacks, Listener};
use valvehouse_agent::middleware::Middleware;
use valvehouse_core::chat::keys::is_invisible;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::filter::{Chain, FilterEntry};
use valvehouse_core::kernel::{Kernel, ModelDefaults, find_tools};
use valvehouse_core::provider::Provider;
use valvehouse_core::text::{did_you_mean, nearest};
use valvehouse_core::tool::{Tool, is_entry_tool};
use valvehouse_json::Json;
use valvehouse_providers::FormattedProvider;
use valvehouse_script::{CHAT, Code, Diagnostic, Kind, Offer, Pipes, run_script};

/// A complete generation of a host.
pub struct Snapshot {
    /// Its number, which every response reports.
    pub generation: u64,
    /// Plugins by id.
    pub plugins: Plugins,
    /// The problems of files that are not plugins.
    pub problems: Vec<Diagnostic>,
    /// All tools, with unique names.
    pub tools: Vec<Tool>,
    /// The prompts and resources of scripts and mounted servers.
    pub offered: Offers,
    pub(crate) served: Arc<ProviderRoutes>,
    /// The global filters, by id.
    everywhere: Vec<Arc<Plugin>>,
    /// Guards that run for models which no longer list them.
    held: Vec<Arc<Plugin>>,
    /// `true` if any model lists a guard that is not global.
    lists_guards: bool,
    /// `true` if the fields of requests may select models with other guards, or models that a provider refuses.
    checks_fields: bool,
    /// `true` if there is a plugin that requests may enable.
    has_toggles: bool,
    /// The selection for names that are not configured.
    passing: ModelSelection,
    /// The models that are known without a request to a provider, in the form that scripts see.
    listed: Json,
    /// The selections for configured models, by name.
    models: HashMap<String, ModelSelection>,
    /// `true` if any model has neither filters nor other plugins, so that its requests may be forwarded
    /// unchanged.
    may_forward: bool,
}

/// The filters, tools and provider selected for a model.
#[derive(Default)]
pub(crate) struct ModelSelection {
    pub(crate) chain: Chain,
    callbacks: Vec<Arc<dyn Listener>>,
    tools: Vec<Tool>,
    settings: ModelDefaults,
    /// The provider of a configured model, wrapped by its middleware.
    provider: Option<Arc<dyn Provider>>,
}

/// A requested model, ready to run.
pub struct Ready {
    /// The filters, tools and provider of its turns.
    pub kernel: Kernel,
    /// The value of `__model__` for scripts.
    pub facts: Json,
    /// The value of `models::list()` for scripts.
    pub models: Json,
    /// `true` if conversations of the model are stored.
    pub memory: bool,
    /// Its filters that listen to agents, in order.
    pub callbacks: Vec<Arc<dyn Listener>>,
}

impl Ready {
    /// Returns `true` if its turns have no filters, no tools and no settings.
    pub fn is_untouched(&self) -> bool {
        let settings = self.kernel.settings();
        self.kernel.chain().filters().is_empty()
            && self.kernel.toolbox().is_empty()
            && settings.system_prompt.is_none()
            && settings.model.is_none()
            && !self.memory
    }
}

impl Snapshot {
    pub(crate) fn new(
        generation: u64,
        plugins: Plugins,
        problems: Vec<Diagnostic>,
        tools: Vec<Tool>,
        plan: Arc<Plan>,
    ) -> Self {
        let pipes = Pipes::new(plugins.values().filter_map(|plugin| plugin.pipe()).collect());
        let everywhere = plugins.values().filter(|plugin| plugin.kind == Kind::Filter && plugin.global);
        let mut snapshot = Self {
            generation,
            everywhere: everywhere.cloned().collect(),
            held: plugins.values().filter(|plugin| !plugin.held_for.is_empty()).cloned().collect(),
            lists_guards: false,
            checks_fields: false,
            has_toggles: plugins.values().any(|plugin| plugin.is_toggle()),
            plugins,
            problems,
            tools,
            offered: Offers::default(),
            served: Arc::new(ProviderRoutes::new(plan, pipes)),
            passing: ModelSelection::default(),
            listed: Json::Null,
            models: HashMap::new(),
            may_forward: false,
        };
        snapshot.listed = snapshot.served.listed().freeze();
        snapshot.passing = snapshot.select(None, &[]);
        let mut models = snapshot.plan().models.iter();
        let lists_guards = models.any(|model| snapshot.guards_of(model).next().is_some());
        snapshot.lists_guards = lists_guards;
        let refuses = snapshot.plan().providers.iter().any(|plan| plan.refuses_unlisted);
        snapshot.checks_fields = lists_guards || refuses;
        let names = snapshot.plan().models.iter();
        snapshot.models =
            names.map(|model| (model.name.clone(), snapshot.select(Some(model), &[]))).collect();
        let chain = |selected: &ModelSelection| (selected.chain.clone(), selected.settings.hold);
        snapshot.served.lead_to(Chains {
            models: snapshot.models.iter().map(|(name, selected)| (name.clone(), chain(selected))).collect(),
            passing: chain(&snapshot.passing),
        });
        let may_forward = |selected: &ModelSelection| selected.chain.filters().is_empty();
        snapshot.may_forward = may_forward(&snapshot.passing) || snapshot.models.values().any(may_forward);
        snapshot
    }

    /// Returns this snapshot with these prompts and resources.
    #[must_use]
    pub(crate) fn offering(mut self, offered: Offers) -> Self {
        self.offered = offered;
        self
    }

    /// Returns the messages of a plugin's scheduled functions whose last call failed.
    pub(crate) fn failing<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a str> {
        let failing = self.problems.iter().filter(|problem| problem.code == Code::ScheduledFailed);
        failing.filter(move |problem| problem.id == id).map(|problem| problem.message.as_str())
    }

    /// Returns the filters, by id.
    pub fn filters(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.plugins.values().filter(|plugin| plugin.kind == Kind::Filter)
    }

    /// Decides whether a filter runs: it must be enabled, and global or listed by the model; a toggle must
    /// also be selected by the request.
    pub fn decide(&self, plugin: &Plugin, listed: &[String], filter_ids: &[String]) -> FilterDecision {
        if plugin.enabled && !plugin.global && !listed.iter().any(|id| **id == *plugin.id) {
            return FilterDecision::NotListed;
        }
        self.decide_chosen(plugin, filter_ids)
    }

    /// Decides about a filter that is global or listed.
    fn decide_chosen(&self, plugin: &Plugin, filter_ids: &[String]) -> FilterDecision {
        if !plugin.enabled {
            return FilterDecision::Off;
        }
        if let Some(message) = plugin.refusal() {
            return FilterDecision::Refuses(message);
        }
        if plugin.is_toggle() && !filter_ids.iter().any(|id| **id == *plugin.id) {
            return FilterDecision::NotSelected;
        }
        match &plugin.script {
            None => FilterDecision::Broken,
            Some(script)
                if script.hooks().next().is_none()
                    && script.callbacks().next().is_none()
                    && !script.has_done() =>
            {
                FilterDecision::NoHooks
            }
            Some(_) if plugin.is_idle() => FilterDecision::Idle,
            Some(_) => FilterDecision::Runs,
        }
    }

    /// Returns the chain of names that are not configured.
    pub(crate) fn passing_chain(&self) -> &Chain {
        &self.passing.chain
    }

    /// Returns the chain of a configured model.
    pub(crate) fn chain_of(&self, model: &str) -> Option<&Chain> {
        self.models.get(model).map(|selected| &selected.chain)
    }

    /// Returns the ids listed by a model that do not belong to a filter.
    pub(crate) fn absent<'a>(&'a self, listed: &'a [String]) -> impl Iterator<Item = &'a str> {
        let is_filter = |id: &str| self.plugins.get(id).is_some_and(|plugin| plugin.kind == Kind::Filter);
        listed.iter().map(String::as_str).filter(move |id| !is_filter(id))
    }

    /// Returns the guards that run for a model although it no longer lists them.
    pub(crate) fn held_for<'a>(&'a self, model: &'a str) -> impl Iterator<Item = &'a Arc<Plugin>> {
        self.held.iter().filter(move |plugin| plugin.held_for.iter().any(|name| name == model))
    }

    /// Returns the guards that run for a model because it lists them, or did and the removal is not confirmed.
    fn guards_of<'a>(&'a self, model: &'a ModelPlan) -> impl Iterator<Item = &'a str> {
        let is_guard = |id: &str| {
            let plugin = self.plugins.get(id).filter(|plugin| plugin.kind == Kind::Filter);
            plugin.is_some_and(|plugin| !plugin.global && (plugin.security || plugin.refusal().is_some()))
        };
        let listed = model.filters.iter().map(String::as_str).filter(move |id| is_guard(id));
        listed.chain(self.held_for(&model.name).map(|plugin| &*plugin.id))
    }

    /// Returns the ids of the guards for a model of a provider under its own name: those of the configured
    /// models that it may mean, so that its own name does not bypass them.
    fn guards_of_passed(&self, provider: &str, upstream: &str) -> Vec<String> {
        if !self.lists_guards {
            return Vec::new();
        }
        self.guards_of_all(self.plan().meant_by(provider, upstream).into_iter())
    }

    /// Returns the ids of the guards of any of these models.
    pub(crate) fn guards_of_all<'a>(&'a self, models: impl Iterator<Item = &'a ModelPlan>) -> Vec<String> {
        let mut guards: Vec<String> =
            models.flat_map(|model| self.guards_of(model)).map(str::to_owned).collect();
        guards.sort();
        guards.dedup();
        guards
    }

    /// Returns the names of the configured models with a guard that a name which is not configured may mean.
    pub(crate) fn guarded_by<'a>(&'a self, guard: &'a str, name: &'a str) -> Vec<&'a str> {
        let Some((provider, upstream)) = self.served.passes(name) else { return Vec::new() };
        let meant = self.plan().meant_by(provider.name(), upstream).into_iter();
        meant.filter(|model| self.guards_of(model).any(|id| id == guard)).map(|model| &*model.name).collect()
    }

    /// Returns the providers that pass any name through, although a configured model has guards of its own there, each
    /// with that model.
    pub(crate) fn open_names(&self) -> impl Iterator<Item = (&str, &str)> {
        let open = self.plan().providers.iter().filter(|plan| plan.passes == Passes::Everything);
        open.filter_map(|plan| {
            let provider = plan.provider.name();
            let model =
                self.plan().models_of(provider).find(|model| self.guards_of(model).next().is_some())?;
            Some((provider, model.name.as_str()))
        })
    }

    /// Returns the selection for a request to a provider that names no model, at an endpoint: with the guards of all
    /// models of the provider, because any of them may answer.
    pub(crate) fn select_unnamed_at(&self, endpoint: &str, provider: &str) -> ModelSelection {
        let guards = self.guards_of_all(self.plan().models_of(provider));
        self.select_listed(endpoint, None, &guards, &[])
    }

    /// Returns the filters with `global: false` that run for a model name.
    pub(crate) fn listed_for(&self, name: &str) -> Vec<String> {
        if let Some(model) = self.plan().model(name) {
            let held = self.held_for(name).map(|plugin| plugin.id.to_string());
            return model.filters.iter().cloned().chain(held).collect();
        }
        match self.served.passes(name) {
            Some((provider, upstream)) => self.guards_of_passed(provider.name(), upstream),
            None => Vec::new(),
        }
    }

    /// Returns the selection for a model name.
    pub(crate) fn select_for(&self, name: &str, filter_ids: &[String]) -> ModelSelection {
        self.select_named_at(CHAT, name, filter_ids, &[])
    }

    /// Returns the selection for a model name at an endpoint. Guards of a configured model also apply to the
    /// name that the model has at its provider. `more` are the ids of further guards.
    pub(crate) fn select_named_at(
        &self,
        endpoint: &str,
        name: &str,
        filter_ids: &[String],
        more: &[String],
    ) -> ModelSelection {
        let model = self.plan().model(name);
        let listed = model.map_or_else(|| self.listed_for(name), |model| model.filters.clone());
        self.select_listed(endpoint, model, &[&listed[..], more].concat(), filter_ids)
    }

    pub(crate) fn select(&self, model: Option<&ModelPlan>, filter_ids: &[String]) -> ModelSelection {
        self.select_at(CHAT, model, filter_ids)
    }

    /// Returns the selection for a model at an endpoint: the filters that run there. Middleware runs in chats
    /// only.
    pub(crate) fn select_at(
        &self,
        endpoint: &str,
        model: Option<&ModelPlan>,
        filter_ids: &[String],
    ) -> ModelSelection {
        let listed = model.map_or(&[][..], |model| &model.filters);
        self.select_listed(endpoint, model, listed, filter_ids)
    }

    fn select_listed(
        &self,
        endpoint: &str,
        model: Option<&ModelPlan>,
        listed: &[String],
        filter_ids: &[String],
    ) -> ModelSelection {
        let named = listed.iter().filter_map(|id| self.plugins.get(id.as_str()));
        let named = named.filter(|plugin| plugin.kind == Kind::Filter && !plugin.global);
        let still = model.into_iter().flat_map(|model| self.held_for(&model.name));
        let everywhere = self.everywhere.iter();
        let everywhere = everywhere.filter(|plugin| !model.is_some_and(|model| model.leaves_out(plugin)));
        let mut chosen: Vec<&Arc<Plugin>> = everywhere.chain(named).chain(still).collect();
        chosen.sort_by(|a, b| a.id.cmp(&b.id));
        chosen.dedup_by(|a, b| a.id == b.id);
        chosen.retain(|plugin| match self.decide_chosen(plugin, filter_ids) {
            FilterDecision::Runs => plugin.covers(endpoint),
            FilterDecision::Refuses(_) => true,
            _ => false,
        });
        let is_declared = |what: fn(&valvehouse_script::Manifest) -> bool| {
            let mut enforced = chosen.iter().filter(|plugin| !plugin.audited);
            enforced.any(|plugin| plugin.script.as_ref().is_some_and(|script| what(&script.manifest)))
        };
        let mut settings = model.map(|model| model.settings.clone()).unwrap_or_default();
        settings.files_handled = is_declared(|manifest| manifest.file_handler);
        settings.hold = is_declared(|manifest| manifest.hold);
        let wanted = model.map_or(&[][..], |model| &model.tools);
        let middleware = model.map_or(&[][..], |model| &model.middleware);
        let callbacks = listeners(&chosen);
        let mut filters: Vec<FilterEntry> = chosen.iter().filter_map(|plugin| plugin.filter()).collect();
        let name = model.map_or("", |model| model.name.as_str());
        filters.extend(self.absent(listed).map(|id| absent(id, name)));
        if endpoint == CHAT {
            filters.extend(Middleware::filters_of(middleware));
        }
        if !callbacks.is_empty() && endpoint == CHAT {
            filters.extend(Callbacks::filters());
        }
        let offered = self.tools.iter().filter(|tool| is_offered(tool, wanted)).cloned();
        let wrap = |tool| Middleware::tool_of(middleware, tool);
        let tools: Vec<Tool> = offered.map(wrap).collect();
        let tools = if settings.tool_search { with_search(tools, false) } else { tools };
        let provider = model.and_then(|model| Some((model, self.served.serves(model).ok()?)));
        ModelSelection {
            chain: Chain::new(filters),
            callbacks,
            tools,
            settings,
            provider: provider.map(|(model, provider)| held(model, provider)),
        }
    }

    /// Returns a kernel with all tools and the filters of every model, for direct calls of tools.
    pub fn invoking(&self) -> Kernel {
        self.invoking_only(self.tools.clone())
    }

    /// Returns a kernel for direct calls of these tools only; others are unknown to the caller.
    pub fn invoking_only(&self, tools: Vec<Tool>) -> Kernel {
        let (chain, settings) = (self.passing.chain.clone(), self.passing.settings.clone());
        Kernel::assembled(chain, tools, None, settings, self.served.clone())
    }

    /// Returns a kernel for direct calls of these tools, with the tool search and the tool that calls them by
    /// a script.
    pub fn searching_only(&self, tools: Vec<Tool>) -> Kernel {
        self.invoking_only(with_search(tools, true))
    }

    /// Returns the tools that a model is offered, in order.
    pub fn offered(&self, model: &str) -> &[Tool] {
        self.models.get(model).map_or(&[], |selected| &selected.tools)
    }

    /// Returns `true` if there is a model whose requests may be forwarded without any plugin.
    pub fn may_forward(&self) -> bool {
        self.may_forward
    }

    /// Checks that the filters selected by a request exist.
    ///
    /// # Errors
    /// Returns a request error that names the first unknown id and the nearest known one.
    pub fn check_filter_ids(&self, filter_ids: &[String]) -> Result<(), Error> {
        let Some(unknown) = self.absent(filter_ids).next() else { return Ok(()) };
        let near = did_you_mean(unknown, self.filters().map(|plugin| &*plugin.id));
        let shown: String = unknown.chars().take(100).collect();
        Err(Error::Request {
            message: format!(
                "unknown filter `{}` in `filter_ids`{near}; leave it out, or ask the operator to add it",
                shown.escape_debug()
            ),
            param: Some("filter_ids"),
            code: Some("filter_not_found"),
            kind: RequestErrorKind::Invalid,
        })
    }

    /// Returns `true` if the fields of requests beside `model` are checked for models: see
    /// [`Snapshot::guards_beside`].
    pub fn checks_fields(&self) -> bool {
        self.checks_fields
    }

    /// Returns the model of a request with the selected filters, which must exist, and with the guards of the models
    /// that its body selects in other fields.
    ///
    /// # Errors
    /// Returns the error of [`Snapshot::check_filter_ids`], [`Snapshot::guards_beside`] or [`Snapshot::ready`].
    pub fn ready_for(&self, name: &str, filter_ids: &[String], body: &Json) -> Result<Ready, Error> {
        self.check_filter_ids(filter_ids)?;
        self.ready_with(name, filter_ids, self.guards_beside(name, body)?)
    }

    /// Returns a requested model with the selected filters.
    ///
    /// # Errors
    /// Returns a request error for an unknown model.
    pub fn ready(&self, name: &str, filter_ids: &[String]) -> Result<Ready, Error> {
        self.ready_with(name, filter_ids, Vec::new())
    }

    /// Returns a requested model with the selected filters and more guards.
    fn ready_with(&self, name: &str, filter_ids: &[String], more: Vec<String>) -> Result<Ready, Error> {
        if let Some(model) = self.plan().model(name) {
            let provider = self.served.serves(model)?;
            let facts = model.facts.clone();
            if more.is_empty() {
                let selected = self.models.get(name);
                return Ok(self.assemble(selected, Some(model), filter_ids, provider, None, facts));
            }
            let listed = [&model.filters[..], &more].concat();
            let selected = self.select_listed(CHAT, Some(model), &listed, filter_ids);
            return Ok(self.assemble(Some(&selected), Some(model), &[], provider, None, facts));
        }
        let (provider, upstream) = self.served.passes(name).ok_or_else(|| self.unknown(name))?;
        // Services may ignore these characters, or end the name there.
        if self.lists_guards && name.chars().any(is_invisible) {
            let message = "invalid model name: it contains characters that are not visible";
            return Err(Error::invalid(message, Some("model")));
        }
        let guards = [self.guards_of_passed(provider.name(), upstream), more].concat();
        let guarded = (!guards.is_empty()).then(|| self.select_listed(CHAT, None, &guards, filter_ids));
        let facts = self.served.facts(name, provider.name());
        let upstream = (upstream != name).then(|| upstream.to_owned());
        let (selected, filter_ids) = match &guarded {
            // The selection already includes the requested filters.
            Some(guarded) => (guarded, &[][..]),
            None => (&self.passing, filter_ids),
        };
        Ok(self.assemble(Some(selected), None, filter_ids, provider, upstream, facts))
    }

    fn assemble(
        &self,
        selected: Option<&ModelSelection>,
        model: Option<&ModelPlan>,
        filter_ids: &[String],
        provider: &Arc<dyn Provider>,
        upstream: Option<String>,
        facts: Json,
    ) -> Ready {
        let asks_for_more = !filter_ids.is_empty() && self.has_toggles;
        let special;
        let selected = match selected {
            Some(selected) if !asks_for_more => selected,
            _ => {
                special = self.select(model, filter_ids);
                &special
            }
        };
        let settings = match upstream {
            Some(model) => ModelDefaults { model: Some(model), ..selected.settings.clone() },
            None => selected.settings.clone(),
        };
        let (chain, tools) = (selected.chain.clone(), selected.tools.clone());
        let provider = selected.provider.as_ref().filter(|_| model.is_some()).unwrap_or(provider).clone();
        let kernel = Kernel::assembled(chain, tools, Some(provider), settings, self.served.clone());
        let memory = model.is_some_and(|model| model.memory);
        let callbacks = selected.callbacks.clone();
        Ready { kernel, facts, models: self.listed.clone(), memory, callbacks }
    }

    fn unknown(&self, name: &str) -> Error {
        let known = self.model_names();
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; the models are {}", known.join(", ")),
        };
        Error::Request {
            message: format!("the model `{name}` does not exist{hint}"),
            param: Some("model"),
            code: Some("model_not_found"),
            kind: RequestErrorKind::NotFound,
        }
    }

    /// Returns the models that are known without a request to a provider, in the form that scripts see.
    pub fn listed(&self) -> &Json {
        &self.listed
    }

    /// Returns the model names that are known without a request to a provider.
    pub fn model_names(&self) -> Vec<String> {
        let configured = self.plan().models.iter().map(|model| model.name.clone());
        let passed = self.plan().providers.iter().flat_map(|plan| match &plan.passes {
            Passes::These(names) => names.clone(),
            _ => Vec::new(),
        });
        let offered = self.offers().into_iter().map(|offer| offer.id.clone());
        configured.chain(passed).chain(offered).collect()
    }

    /// Returns `true` if it was created from this plan.
    pub(crate) fn is_of(&self, plan: &Arc<Plan>) -> bool {
        Arc::ptr_eq(&self.served.plan, plan)
    }

    /// Returns the plan that it was created from.
    pub fn plan(&self) -> &Plan {
        &self.served.plan
    }

    /// Returns the models that scripts provide.
    pub fn offers(&self) -> Vec<&Offer> {
        self.served.offers()
    }
}

/// Adds the tools that search and call tools. A tool with the name of one of these is left out.
fn with_search(tools: Vec<Tool>, shows_parameters: bool) -> Vec<Tool> {
    if tools.is_empty() {
        return tools;
    }
    let others = tools.into_iter().filter(|tool| !is_entry_tool(tool.name()));
    [find_tools(shows_parameters), run_script()].into_iter().chain(others).collect()
}

/// Returns the listeners of agents in the order in which their hooks run.
fn listeners(chosen: &[&Arc<Plugin>]) -> Vec<Arc<dyn Listener>> {
    let place = |plugin: &Plugin| plugin.script.as_ref().map_or(0.0, |script| script.priority());
    let mut chosen = chosen.to_vec();
    chosen.sort_by(|a, b| place(a).total_cmp(&place(b)));
    let callbacks = chosen.into_iter().filter_map(|plugin| plugin.callbacks());
    callbacks.map(|callbacks| Arc::new(callbacks) as Arc<dyn Listener>).collect()
}

/// Returns the provider of a model, wrapped by its middleware and, if set, by the check of requested formats.
fn held(model: &ModelPlan, provider: &Arc<dyn Provider>) -> Arc<dyn Provider> {
    let provider = Middleware::provider_of(&model.middleware, provider.clone());
    if model.check_response_format {
        Arc::new(FormattedProvider::delivering(provider, FormattedProvider::RETRIES))
    } else {
        provider
    }
}

fn is_offered(tool: &Tool, wanted: &[String]) -> bool {
    wanted.iter().any(|word| tool.spec.is_meant_by(word))
}
