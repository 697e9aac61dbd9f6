//! The plan of a host: its providers, its models, and the settings of plugins.

use crate::model_list::ModelList;
use crate::plugin::Plugin;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_agent::middleware::Middleware;
use valvehouse_config::{FilterMode, Grants, ScriptSource};
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::chat::keys::folded;
use valvehouse_core::error::Error;
use valvehouse_core::kernel::ModelDefaults;
use valvehouse_core::provider::Provider;
use valvehouse_core::tool::Tool;
use valvehouse_core::trace::CalledModel;
use valvehouse_dialect::crash::QuarantineEntry;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, Kind, Settings};
use valvehouse_store::Source;

/// The inputs of a host other than its folders and its store.
#[derive(Clone)]
pub struct Plan {
    /// The project folder.
    pub project: PathBuf,
    /// The folder of filter scripts.
    pub filters: PathBuf,
    /// The folder of tool scripts.
    pub tools: PathBuf,
    /// The folder of action scripts.
    pub actions: PathBuf,
    /// The place that scripts are loaded from.
    pub source: ScriptSource,
    /// The minisign public key for the signature of the scripts in the store.
    pub public_key: Option<String>,
    /// Set if a script with warnings is not loaded.
    pub strict: bool,
    /// The settings of plugins, by kind and id.
    pub plugins: HashMap<(Kind, String), PluginPlan>,
    /// The grants of the configuration, by the id of a plugin or native tool.
    pub grants: HashMap<String, Grants>,
    /// The settings of the circuit breakers of plugins.
    pub breaker: BreakerSettings,
    /// The factor on the running time of scripts.
    pub time_scale: f64,
    /// The providers that serve models, in order.
    pub providers: Vec<ProviderPlan>,
    /// The configured models.
    pub models: Vec<ModelPlan>,
    /// The default model for the embeddings of scripts, and for memories.
    pub embedding_model: Option<String>,
    /// Native tools that a program added.
    pub native_tools: Vec<Tool>,
    /// The current tools of mounted servers.
    pub mounted: MountedOffers,
    /// Quarantined versions of plugins, in addition to those of the project's list.
    pub quarantined: Vec<QuarantineEntry>,
    /// The problems of newer settings that could not replace these.
    pub problems: Vec<Diagnostic>,
}

/// The tools of mounted servers, which may change while the host runs.
#[derive(Clone, Default)]
pub struct MountedOffers {
    /// The tools, with unique names.
    pub tools: Vec<Tool>,
    /// The prompts and resources for MCP clients.
    pub offered: Offers,
    /// The problems for operators: unreachable servers, and tools that wait for approval.
    pub problems: Vec<Diagnostic>,
}

/// The settings of one plugin.
#[derive(Debug, Clone)]
pub struct PluginPlan {
    /// The valves and the budget.
    pub settings: Settings,
    /// `true` if the plugin is enabled.
    pub enabled: bool,
    /// The mode of a filter, if it is configured.
    pub mode: Option<FilterMode>,
}

impl Default for PluginPlan {
    fn default() -> Self {
        Self { settings: Settings::default(), enabled: true, mode: None }
    }
}

impl PluginPlan {
    /// Returns the plan with its limits of running time multiplied.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        let own = &mut self.settings;
        for budget in [&mut own.stream, &mut own.hook, &mut own.tool] {
            *budget = budget.scaled(factor);
        }
        self
    }
}

/// A provider and the model names that it passes through.
#[derive(Clone)]
pub struct ProviderPlan {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The models that its service lists.
    pub list: Arc<ModelList>,
    /// The kind of service in the configuration; "" for a provider that a program added.
    pub kind: &'static str,
    /// The hosts of its addresses, each once; empty for a provider in this process.
    pub addresses: Vec<String>,
    /// The model names that are passed through without `[[models]]`.
    pub passes: Passes,
    /// `true` if names that are not configured are refused, and requests without a model.
    pub refuses_unlisted: bool,
    /// The first path segments of its allowed routes other than chats; `None` for all routes of its kind.
    pub routes: Option<Vec<String>>,
    /// `true` if each caller's own key is passed on.
    pub is_paid_by_callers: bool,
}

/// The model names that a provider passes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passes {
    /// No names other than those of `[[models]]`.
    Nothing,
    /// Any name: as `provider/model`, or alone if there is only one such provider.
    Everything,
    /// These names.
    These(Vec<String>),
}

/// A configured model.
#[derive(Clone)]
pub struct ModelPlan {
    /// The name that clients use.
    pub name: String,
    /// The name of its provider.
    pub provider: String,
    /// The models that may answer, as `(provider, model)`: its own, then its fallbacks.
    pub leads_to: Vec<(String, String)>,
    /// Its provider with the fallbacks; `None` without fallbacks.
    pub fallback: Option<Arc<dyn Provider>>,
    /// The filters with `global: false` that run for it.
    pub filters: Vec<String>,
    /// The global filters that do not run for it; see [`ModelPlan::leaves_out`].
    pub without: Vec<String>,
    /// The tools that it is offered: names, and tags as `tag:x`.
    pub tools: Vec<String>,
    /// The actions with `global: false` under its answers.
    pub actions: Vec<String>,
    /// Its default parameters.
    pub settings: ModelDefaults,
    /// The value of `__model__` for scripts.
    pub facts: Json,
    /// `true` if its conversations are stored.
    pub memory: bool,
    /// `true` if its complete answers are checked against the `response_format` of requests.
    pub check_response_format: bool,
    /// Its middleware.
    pub middleware: Vec<Middleware>,
}

impl ModelPlan {
    /// Returns `true` if a global filter does not run for the model. Guards, and files that may be one, always run.
    pub(crate) fn leaves_out(&self, plugin: &Plugin) -> bool {
        !plugin.security && plugin.refusal().is_none() && self.without.iter().any(|id| **id == *plugin.id)
    }
}

/// Returns the form that all spellings of a model's name have in common at a kind of service.
fn usual(kind: &str, name: &str) -> String {
    let name = folded(name);
    let name = name.split_once("://").map_or(name.as_str(), |(_, rest)| rest);
    let mut steps: Vec<&str> = name.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
    let optional: &[&str] = match kind {
        "ollama" => &["registry.ollama.ai", "ollama.com", "library"],
        _ => &["models"],
    };
    for step in optional {
        if steps.len() > 1 && steps[0] == *step {
            steps.remove(0);
        }
    }
    let name = steps.join("/");
    name.strip_suffix(":latest").unwrap_or(&name).to_owned()
}

/// Returns `true` if a name contains another one, not as a part of a longer word.
fn contains(name: &str, other: &str) -> bool {
    let is_end = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
    let mut found = name.match_indices(other);
    found.any(|(at, _)| {
        is_end(name[..at].chars().next_back()) && is_end(name[at + other.len()..].chars().next())
    })
}

impl Plan {
    /// Returns `true` if scripts run only from a signed set.
    pub(crate) fn runs_signed_only(&self) -> bool {
        self.source == ScriptSource::Store && self.public_key.is_some()
    }

    /// Returns the folders of scripts.
    pub(super) fn folders(&self) -> [PathBuf; 3] {
        Kind::ALL.map(|kind| self.folder(kind).to_owned())
    }

    /// Returns the folders that are watched.
    pub(super) fn watched(&self) -> Vec<PathBuf> {
        match self.source {
            ScriptSource::Folder => self.folders().to_vec(),
            ScriptSource::Store => Vec::new(),
        }
    }

    /// Describes which folders of scripts exist.
    pub fn folders_exist(&self) -> &'static str {
        if self.source == ScriptSource::Store {
            return "scripts come from the store";
        }
        // The folder of actions is optional.
        match [Kind::Filter, Kind::Tool].map(|kind| self.folder(kind).is_dir()) {
            [true, true] => "both folders exist",
            [true, false] => "the tools folder does not exist",
            [false, true] => "the filters folder does not exist",
            [false, false] => "neither folder exists",
        }
    }

    /// Returns the folder of the plugins of a kind and their modules.
    pub fn folder(&self, kind: Kind) -> &Path {
        match kind {
            Kind::Filter => &self.filters,
            Kind::Tool => &self.tools,
            Kind::Action => &self.actions,
        }
    }

    /// Returns a plugin's file with this text in the form of the history.
    pub fn source(&self, plugin: &Plugin, text: Arc<str>) -> Source {
        Source::new(plugin.kind.as_str(), self.place(plugin.kind, &plugin.path), text)
    }

    /// Returns a path relative to the folder of its kind.
    pub fn place(&self, kind: Kind, path: &Path) -> String {
        path.strip_prefix(self.folder(kind)).unwrap_or(path).display().to_string()
    }

    /// Returns the settings of a plugin.
    pub(super) fn plugin(&self, kind: Kind, id: &str) -> PluginPlan {
        let configured = self.plugins.get(&(kind, id.to_owned())).cloned();
        configured.unwrap_or_else(|| PluginPlan::default().scaled(self.time_scale))
    }

    /// Returns `true` if the configuration enables a plugin, which is the default.
    pub(super) fn is_enabled(&self, kind: Kind, id: &str) -> bool {
        self.plugins.get(&(kind, id.to_owned())).is_none_or(|plan| plan.enabled)
    }

    /// Returns `true` if the configuration puts a filter in audit mode; `None` if its script decides.
    pub(super) fn audits(&self, id: &str) -> Option<bool> {
        let plan = self.plugins.get(&(Kind::Filter, id.to_owned()))?;
        Some(plan.mode? == FilterMode::Audit)
    }

    /// Returns the kind of a file by the folder that contains it.
    pub(super) fn kind_of(&self, path: &Path) -> Kind {
        // A folder may be within another; the innermost one decides.
        let depth = |kind: &Kind| self.folder(*kind).components().count();
        let around = [Kind::Tool, Kind::Action, Kind::Filter].into_iter();
        let around = around.filter(|kind| path.starts_with(self.folder(*kind)));
        around.max_by_key(depth).unwrap_or(Kind::Filter)
    }

    /// Returns the provider with a configured name.
    pub(super) fn provider(&self, name: &str) -> Result<&Arc<dyn Provider>, Error> {
        let found = self.providers.iter().map(|plan| &plan.provider).find(|provider| provider.name() == name);
        found.ok_or_else(|| Error::Host(format!("unknown provider `{name}`")))
    }

    /// Returns the provider that answers for a configured model.
    pub(super) fn serves<'a>(&'a self, model: &'a ModelPlan) -> Result<&'a Arc<dyn Provider>, Error> {
        match &model.fallback {
            Some(fallback) => Ok(fallback),
            None => self.provider(&model.provider),
        }
    }

    /// Returns the provider that passes a name through, and the name at that provider.
    pub(super) fn passes<'a>(&'a self, name: &'a str) -> Option<(&'a Arc<dyn Provider>, &'a str)> {
        let providers = &self.providers;
        let listed = providers.iter().find_map(|plan| match &plan.passes {
            Passes::These(names) if names.iter().any(|known| known == name) => Some((&plan.provider, name)),
            _ => None,
        });
        if listed.is_some() {
            return listed;
        }
        let prefixed = name.split_once('/').and_then(|(prefix, rest)| {
            let plan = providers.iter().find(|plan| plan.provider.name() == prefix)?;
            match &plan.passes {
                Passes::Everything => Some((&plan.provider, rest)),
                Passes::These(names) if names.iter().any(|known| known == rest) => {
                    Some((&plan.provider, rest))
                }
                _ => None,
            }
        });
        if prefixed.is_some() {
            return prefixed;
        }
        let mut open = providers.iter().filter(|plan| plan.passes == Passes::Everything);
        match (open.next(), open.next()) {
            (Some(only), None) => Some((&only.provider, name)),
            _ => None,
        }
    }
}

impl Plan {
    /// Returns the configured models that a name at a provider may mean: those with this name in any spelling. If there
    /// are none, those whose name it contains, such as `vendor/NAME` and `NAME:tag`, or that has it after a vendor.
    pub(super) fn meant_by(&self, provider: &str, name: &str) -> Vec<&ModelPlan> {
        let kind =
            self.providers.iter().find(|plan| plan.provider.name() == provider).map_or("", |plan| plan.kind);
        let name = usual(kind, name);
        let all = |is_meant: &dyn Fn(&str) -> bool| -> Vec<&ModelPlan> {
            let leads = |(own, model): &(String, String)| own == provider && is_meant(&usual(kind, model));
            self.models.iter().filter(|model| model.leads_to.iter().any(leads)).collect()
        };
        let same = all(&|own| own == name);
        if !same.is_empty() {
            return same;
        }
        // The server of llama.cpp has one model, which answers to any name; OpenRouter chooses one itself for others.
        let is_any = kind == "llamacpp"
            || name.starts_with("openrouter/")
            || name.starts_with('~')
            || name.contains("@preset/");
        all(&|own| {
            is_any || contains(&name, own) || own.strip_suffix(&name).is_some_and(|rest| rest.ends_with('/'))
        })
    }

    /// Returns the configured model with this name.
    pub fn model(&self, name: &str) -> Option<&ModelPlan> {
        self.models.iter().find(|model| model.name == name)
    }

    /// Returns the configured model with the prices of a called one: the requested model, or another one with prices that is
    /// called so. Other calls cost what the requested model costs.
    pub(super) fn priced(&self, requested: &str, called: CalledModel<'_>) -> Option<&ModelPlan> {
        let own = self.model(requested);
        let leads =
            |(provider, model): &(String, String)| provider == called.provider && model == called.model;
        let mut all =
            own.into_iter().chain(&self.models).filter(|model| !model.facts.field("price").is_empty());
        let first = all.clone().find(|model| model.leads_to.first().is_some_and(leads));
        first.or_else(|| all.find(|model| model.leads_to.iter().any(leads))).or(own)
    }

    /// Returns the configured models that a provider may answer for.
    pub(super) fn models_of(&self, provider: &str) -> impl Iterator<Item = &ModelPlan> {
        let leads = move |model: &&ModelPlan| model.leads_to.iter().any(|(own, _)| own == provider);
        self.models.iter().filter(leads)
    }

    /// Returns `true` if callers pay at least one provider with their own keys.
    pub fn has_callers_keys(&self) -> bool {
        self.providers.iter().any(|plan| plan.is_paid_by_callers)
    }

    /// Returns the models that are known without a request to a provider.
    pub(super) fn listed(&self) -> Json {
        let configured = self.models.iter().map(|model| model.facts.clone());
        let passed = self.providers.iter().flat_map(|plan| match &plan.passes {
            Passes::These(names) => names.iter().map(|name| passed(name, plan.provider.name())).collect(),
            Passes::Nothing | Passes::Everything => Vec::new(),
        });
        configured.chain(passed).collect::<Vec<_>>().into()
    }
}

/// Returns a passed-through model in the form that scripts see.
pub(super) fn passed(name: &str, provider: &str) -> Json {
    Json::from([("id", name.into()), ("name", name.into()), ("provider", provider.into())])
}

/// The prompts and resources that scripts and mounted servers provide to MCP clients.
#[derive(Clone, Default)]
pub struct Offers {
    /// The prompts, with unique names; `metadata.prompt` of a specification is the declaration.
    pub prompts: Vec<Tool>,
    /// Functions that return the contents of resources; `metadata.resources` and `metadata.templates` list
    /// the resources.
    pub resources: Vec<Tool>,
    /// Functions that complete arguments; `metadata.of` is the prompt or the resource template.
    pub completions: Vec<Tool>,
}
