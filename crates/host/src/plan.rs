//! The plan of the host from the configuration: plugins' settings, providers, models.

use crate::offers::Offers;
use crate::plugin::Plugin;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_agent::middleware::Middleware;
use valvehouse_config::{Grants, ScriptSource};
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::error::Error;
use valvehouse_core::kernel::ModelDefaults;
use valvehouse_core::provider::Provider;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_script::crash::QuarantineEntry;
use valvehouse_script::{Diagnostic, Kind, Settings};
use valvehouse_store::Source;

/// Everything a host is built from that is not in the folders or the store.
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
    /// The key of minisign that scripts of the store have to be signed with.
    pub public_key: Option<String>,
    /// The settings of single plugins, by kind and id.
    pub plugins: HashMap<(Kind, String), PluginPlan>,
    /// The grants of the configuration, by the id of a plugin or native tool.
    pub grants: HashMap<String, Grants>,
    /// The settings of the circuit breakers of plugins.
    pub breaker: BreakerSettings,
    /// The providers that serve models, in order.
    pub providers: Vec<ProviderPlan>,
    /// Models with words of their own.
    pub models: Vec<ModelPlan>,
    /// The model that embeds texts of scripts that name none, and memories.
    pub embedding_model: Option<String>,
    /// Further tools that are not scripts.
    pub native_tools: Vec<Tool>,
    /// The tools of other servers, as they stand now.
    pub mounted: MountedOffers,
    /// Versions of plugins that are not run, beside those that the project's list names.
    pub quarantined: Vec<QuarantineEntry>,
    /// The problems of newer settings that could not replace these.
    pub problems: Vec<Diagnostic>,
}

/// Tools of other servers, which come and go while the host runs.
#[derive(Clone, Default)]
pub struct MountedOffers {
    /// The tools that are offered, each name once.
    pub tools: Vec<Tool>,
    /// The prompts and resources for clients of MCP.
    pub offered: Offers,
    /// The problems for operators: servers that are away, tools that wait for approval.
    pub problems: Vec<Diagnostic>,
}

/// The settings of one plugin.
#[derive(Debug, Clone)]
pub struct PluginPlan {
    /// Values for its valves, and its budget.
    pub settings: Settings,
    /// Set if the plugin is switched on.
    pub enabled: bool,
}

impl Default for PluginPlan {
    fn default() -> Self {
        Self { settings: Settings::default(), enabled: true }
    }
}

/// One service and which of its names reach it without being configured.
#[derive(Clone)]
pub struct ProviderPlan {
    /// The service.
    pub provider: Arc<dyn Provider>,
    /// Names that are passed through.
    pub passes: Passes,
    /// The first steps of its routes beside chats; `None` for all that its kind may have.
    pub routes: Option<Vec<String>>,
    /// Set if each caller's own key is passed on.
    pub is_paid_by_callers: bool,
}

/// The model names that a provider passes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passes {
    /// Only what `[[models]]` names.
    Nothing,
    /// Any name: `provider/model`, or bare where there is one such provider.
    Everything,
    /// These names.
    These(Vec<String>),
}

/// A configured model.
#[derive(Clone)]
pub struct ModelPlan {
    /// The name for clients.
    pub name: String,
    /// The provider that serves it.
    pub provider: String,
    /// The models of providers that may answer for it, as `(provider, model)`: its own first, then its fallbacks.
    pub leads_to: Vec<(String, String)>,
    /// The same with others behind it, where it has fallbacks.
    pub fallback: Option<Arc<dyn Provider>>,
    /// Filters with `global: false` that run for it.
    pub filters: Vec<String>,
    /// Tools it is offered: ids and `tag:x`.
    pub tools: Vec<String>,
    /// Actions with `global: false` that its answers have.
    pub actions: Vec<String>,
    /// The rest.
    pub settings: ModelDefaults,
    /// The value of `__model__` for scripts.
    pub facts: Json,
    /// Stores conversations of the model.
    pub memory: bool,
    /// The middleware that holds it to its limits.
    pub middleware: Vec<Middleware>,
}

impl ModelPlan {
    /// Returns `true` if a model of a provider may answer for this one. Services take other spellings of a name for
    /// the same.
    pub(super) fn may_lead_to(&self, provider: &str, model: &str) -> bool {
        let usual = |name: &str| {
            let name = name.trim().to_lowercase();
            let name = name.strip_prefix("models/").unwrap_or(&name);
            name.strip_suffix(":latest").unwrap_or(name).to_owned()
        };
        self.leads_to.iter().any(|(own, leads_to)| own == provider && usual(leads_to) == usual(model))
    }
}

impl Plan {
    /// Returns `true` if scripts run only where a signed set has them.
    pub(crate) fn runs_signed_only(&self) -> bool {
        self.source == ScriptSource::Store && self.public_key.is_some()
    }

    /// The folders of scripts.
    pub(super) fn folders(&self) -> [PathBuf; 3] {
        Kind::ALL.map(|kind| self.folder(kind).to_owned())
    }

    /// The folders that are watched.
    pub(super) fn watched(&self) -> Vec<PathBuf> {
        match self.source {
            ScriptSource::Folder => self.folders().to_vec(),
            ScriptSource::Store => Vec::new(),
        }
    }

    /// The existence of the folders to look at, in words.
    pub fn folders_exist(&self) -> &'static str {
        if self.source == ScriptSource::Store {
            return "scripts come from the store";
        }
        // Projects without actions need no folder of them.
        match [Kind::Filter, Kind::Tool].map(|kind| self.folder(kind).is_dir()) {
            [true, true] => "both folders exist",
            [true, false] => "the tools folder does not exist",
            [false, true] => "the filters folder does not exist",
            [false, false] => "neither folder exists",
        }
    }

    /// The folder of plugins of a kind, and of their modules.
    pub fn folder(&self, kind: Kind) -> &Path {
        match kind {
            Kind::Filter => &self.filters,
            Kind::Tool => &self.tools,
            Kind::Action => &self.actions,
        }
    }

    /// A plugin's file with this text, as histories keep it.
    pub fn source(&self, plugin: &Plugin, text: Arc<str>) -> Source {
        Source::new(plugin.kind.as_str(), self.place(plugin.kind, &plugin.path), text)
    }

    /// A path within the folder of its kind.
    pub fn place(&self, kind: Kind, path: &Path) -> String {
        path.strip_prefix(self.folder(kind)).unwrap_or(path).display().to_string()
    }

    /// The settings of a plugin.
    pub(super) fn plugin(&self, kind: Kind, id: &str) -> PluginPlan {
        self.plugins.get(&(kind, id.to_owned())).cloned().unwrap_or_default()
    }

    /// Returns `true` if the configuration enables a plugin, which is the default.
    pub(super) fn is_enabled(&self, kind: Kind, id: &str) -> bool {
        self.plugins.get(&(kind, id.to_owned())).is_none_or(|plan| plan.enabled)
    }

    /// The kind of a file, by the folder it lies in.
    pub(super) fn kind_of(&self, path: &Path) -> Kind {
        // One folder may lie within another: the nearest counts.
        let depth = |kind: &Kind| self.folder(*kind).components().count();
        let around = [Kind::Tool, Kind::Action, Kind::Filter].into_iter();
        let around = around.filter(|kind| path.starts_with(self.folder(*kind)));
        around.max_by_key(depth).unwrap_or(Kind::Filter)
    }

    /// The provider of a configured name.
    pub(super) fn provider(&self, name: &str) -> Result<&Arc<dyn Provider>, Error> {
        let found = self.providers.iter().map(|plan| &plan.provider).find(|provider| provider.name() == name);
        found.ok_or_else(|| Error::Host(format!("unknown provider `{name}`")))
    }

    /// The provider that answers for a configured model.
    pub(super) fn serves<'a>(&'a self, model: &'a ModelPlan) -> Result<&'a Arc<dyn Provider>, Error> {
        match &model.fallback {
            Some(fallback) => Ok(fallback),
            None => self.provider(&model.provider),
        }
    }

    /// The provider that passes a name through, and the name it uses.
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
    /// Returns `true` if callers pay some provider with keys of their own.
    pub fn has_callers_keys(&self) -> bool {
        self.providers.iter().any(|plan| plan.is_paid_by_callers)
    }

    /// The models that are known without asking a provider.
    pub(super) fn listed(&self) -> Json {
        let configured = self.models.iter().map(|model| model.facts.clone());
        let passed = self.providers.iter().flat_map(|plan| match &plan.passes {
            Passes::These(names) => names.iter().map(|name| passed(name, plan.provider.name())).collect(),
            Passes::Nothing | Passes::Everything => Vec::new(),
        });
        configured.chain(passed).collect::<Vec<_>>().into()
    }
}

/// A model that is passed through, as scripts see it.
pub(super) fn passed(name: &str, provider: &str) -> Json {
    Json::from([("id", name.into()), ("name", name.into()), ("provider", provider.into())])
}
