//! A plugin of the host: its script, and the state of its file.

use crate::rejection::refuser;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use valvehouse_config::Grants;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::filter::{FilterEntry, Hook};
use valvehouse_dialect::budget::Budget;
use valvehouse_dialect::crash::QuarantineEntry;
use valvehouse_json::Json;
use valvehouse_script::{
    Diagnostic, Kind, Lists, LoadedFile, Pipe, ScheduledCall, Script, ScriptCallbacks, ScriptedTool,
    ServedTool, UserValves,
};
use valvehouse_store::GuardChange;

/// The state of a plugin in relation to its file.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// The current file runs.
    Live,
    /// The current file does not load; the last good version runs.
    Stale(Vec<Diagnostic>),
    /// The file has never loaded.
    Broken(Vec<Diagnostic>),
    /// The file of a guard is missing, and its removal is not confirmed.
    Missing,
}

impl State {
    /// Returns the name of the state.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Stale(_) => "stale",
            Self::Broken(_) => "broken",
            Self::Missing => "missing",
        }
    }

    /// Returns the problems of the file.
    pub fn problems(&self) -> &[Diagnostic] {
        match self {
            Self::Stale(problems) | Self::Broken(problems) => problems,
            Self::Live | Self::Missing => &[],
        }
    }
}

/// A plugin of a snapshot; it is immutable.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// Its id.
    pub id: Arc<str>,
    /// The kind of plugin.
    pub kind: Kind,
    /// Its file.
    pub path: PathBuf,
    /// The running script, if any.
    pub script: Option<Arc<Script>>,
    /// The state in relation to its file.
    pub state: State,
    /// The hash of the current file, which differs from that of the running script if the state is stale.
    pub(crate) hash: Arc<str>,
    /// The pending change of a guard that an operator may confirm.
    pub pending: Option<GuardChange>,
    /// `true` for a guard: requests are rejected if it cannot run.
    pub security: bool,
    /// `true` if it runs for every model.
    pub global: bool,
    /// The models that no longer list this guard. It runs for them until an operator confirms the change.
    pub(crate) held_for: Arc<[String]>,
    /// `true` for a guard that had one of the values that it needs: without them it rejects requests.
    pub(crate) was_configured: bool,
    /// `true` if the plugin is enabled.
    pub enabled: bool,
    /// `true` for a filter in audit mode: its verdicts are counted and traced instead of applied.
    pub audited: bool,
    /// The number that distinguishes successive plugins with the same id.
    pub incarnation: u64,
    /// The valves that users set for themselves.
    pub users: Arc<UserValves>,
    /// The valves and grants that operators set.
    pub(crate) given: OperatorSettings,
    /// The filter entry for chains, created on first use.
    pub(crate) acts: LazyValue<Option<FilterEntry>>,
    /// The tools of the script, created on first use.
    pub(crate) brings: LazyValue<Vec<ScriptedTool>>,
}

/// Plugins by id.
pub(crate) type Plugins = BTreeMap<Arc<str>, Arc<Plugin>>;

/// The valves, grants and lists that a plugin is compiled with; a change of them requires a recompilation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OperatorSettings {
    /// The stored values of its valves.
    pub(crate) valves: Json,
    /// The grants of the configuration and of the store.
    pub(crate) grants: Grants,
    /// The valves and limits of the configuration.
    pub(crate) configured: Option<ScriptSettings>,
    /// Its quarantined versions, which ended the process before.
    pub(crate) quarantined: Vec<QuarantineEntry>,
    /// The lists that its functions returned last.
    pub(crate) lists: Lists,
}

impl OperatorSettings {
    /// Returns the settings without the lists.
    pub(crate) fn without_lists(&self) -> Self {
        Self { lists: Lists::default(), ..self.clone() }
    }
}

/// The settings of a script, except its grants.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScriptSettings {
    /// The valves and budgets as a filter, a tool and an action; the folder of the file determines the kind.
    pub(crate) valves: [Json; 3],
    pub(crate) budgets: [[Budget; 3]; 3],
    pub(crate) breaker: BreakerSettings,
}

impl Plugin {
    /// Returns a plugin without a script.
    pub(crate) fn new(id: Arc<str>, kind: Kind, path: PathBuf, given: OperatorSettings) -> Self {
        Self {
            id,
            kind,
            path,
            script: None,
            state: State::Missing,
            hash: "".into(),
            pending: None,
            security: false,
            global: false,
            held_for: Arc::default(),
            was_configured: false,
            enabled: true,
            audited: false,
            incarnation: 0,
            users: Arc::default(),
            given,
            acts: LazyValue::default(),
            brings: LazyValue::default(),
        }
    }

    /// Returns `true` if the plugin is up to date with its file.
    pub(crate) fn is_of(&self, read: &LoadedFile) -> bool {
        self.hash == read.hash && self.path == read.file.path && self.state != State::Missing
    }

    /// Returns the filter entry for chains; `None` if the plugin has nothing to do there.
    pub fn filter(&self) -> Option<FilterEntry> {
        self.acts.or_made(|| self.as_filter()).clone()
    }

    fn as_filter(&self) -> Option<FilterEntry> {
        match &self.script {
            _ if self.kind != Kind::Filter => None,
            Some(script) if self.refusal().is_none() => {
                if script.hooks().next().is_none() && !script.has_done() {
                    return None;
                }
                Some(
                    script
                        .clone()
                        .into_filter(self.users.clone())
                        .audited(self.audited)
                        .guarding(self.security),
                )
            }
            _ => self.refusal().map(|message| refuser(&self.id, message)),
        }
    }

    /// Returns the effect of its verdicts: `enforce` or `audit`.
    pub fn mode(&self) -> &'static str {
        if self.audited { "audit" } else { "enforce" }
    }

    /// Returns its callbacks if it listens to agents.
    pub(crate) fn callbacks(&self) -> Option<ScriptCallbacks> {
        let script = self.script.as_ref().filter(|_| self.state != State::Missing)?;
        script.clone().into_callbacks(self.users.clone())
    }

    /// Returns the reason for rejecting requests if the plugin is a guard that cannot run.
    pub fn refusal(&self) -> Option<String> {
        let (cause, help) = self.refusal_cause()?;
        Some(format!("the guard `{}` {cause}; {help}", self.id))
    }

    /// Returns why the plugin rejects requests if it is a guard that cannot run, and how to solve it.
    pub(crate) fn refusal_cause(&self) -> Option<(String, String)> {
        if !self.security || self.audited || !self.enabled {
            return None;
        }
        let id = &self.id;
        let (cause, help) = match (&self.state, &self.script) {
            (State::Missing, _) => (
                "is missing",
                format!("an operator has to restore its file, or run: valvehouse confirm {id}"),
            ),
            (_, None) if self.pending.is_some() => (
                "has a change that waits for an operator",
                format!("undo the change, or run: valvehouse confirm {id}"),
            ),
            (State::Broken(_), _) | (_, None) => {
                ("does not load", format!("an operator has to fix it: valvehouse check {id}"))
            }
            _ if self.was_configured && self.is_idle() && self.has_values() => {
                let needs = self.needs();
                let first = needs.first().map_or("VALVE", |name| name.as_str());
                return Some((
                    format!("has no effect until {} is set again", needs.join(" or ")),
                    format!("an operator has to run: valvehouse valves set {id} {first}=…"),
                ));
            }
            _ => return None,
        };
        Some((cause.to_owned(), help))
    }

    /// Returns `true` if any of its valves is set in the configuration or in the store.
    pub(crate) fn has_values(&self) -> bool {
        let layers = self.script.iter().flat_map(|script| script.valve_layers());
        layers.into_iter().any(|layer| layer.values.as_object().is_some_and(|values| !values.is_empty()))
    }

    /// Returns the tools of the script with their filters; empty if it is disabled.
    pub(crate) fn tools(&self) -> &[ScriptedTool] {
        self.brings.or_made(|| match &self.script {
            Some(script) if self.kind == Kind::Tool && self.enabled => script.tools(&self.users),
            _ => Vec::new(),
        })
    }

    /// Returns the prompts and resources of the script; empty if it is disabled.
    pub(crate) fn served(&self) -> Vec<ServedTool> {
        match &self.script {
            Some(script) if self.kind == Kind::Tool && self.enabled => script.served(&self.users),
            _ => Vec::new(),
        }
    }

    /// Returns `true` if its tools are listed in the background and the first list has not arrived.
    pub(crate) fn awaits_tools(&self) -> bool {
        let lists =
            |script: &Arc<Script>| script.scheduled().iter().any(|(what, _)| *what == ScheduledCall::Tools);
        self.enabled
            && self.given.lists.get(ScheduledCall::Tools).is_none()
            && self.script.as_ref().is_some_and(lists)
    }

    /// Returns the models that the script provides; `None` if it is disabled or its file is missing.
    pub(crate) fn pipe(&self) -> Option<Pipe> {
        let script = self.script.as_ref().filter(|_| self.enabled && self.state != State::Missing)?;
        script.clone().into_pipe(self.users.clone())
    }

    /// Returns the title, or the id if the title is missing.
    pub fn title(&self) -> &str {
        self.script.as_ref().map_or(&self.id, |script| script.manifest.title(&self.id))
    }

    /// Returns the priority of a filter in the chain, or of an action's buttons; `None` for a tool.
    pub fn priority(&self) -> Option<f64> {
        self.script.as_ref().filter(|_| self.kind != Kind::Tool).map(|script| script.priority())
    }

    /// Returns the names of the functions that the host calls: hooks, callbacks, ticks, models and actions.
    pub fn hooks(&self) -> Vec<&'static str> {
        let hooks = self.script.iter().flat_map(|script| script.hooks()).map(|hook| hook.name());
        let callbacks = self.script.iter().flat_map(|script| script.callbacks()).map(|one| one.name());
        let pipes = self.script.iter().any(|script| !script.offers().is_empty());
        let done = self.script.iter().filter(|script| script.has_done()).map(|_| "done");
        let ticks = self.script.iter().flat_map(|script| script.scheduled());
        let ticks = ticks.filter(|(what, _)| *what == ScheduledCall::Tick).map(|(what, _)| what.as_str());
        let action = self.script.iter().any(|script| !script.buttons().is_empty());
        let hooks = hooks.chain(done).chain(ticks).chain(callbacks).chain(pipes.then_some("pipe"));
        hooks.chain(action.then_some("action")).collect()
    }

    /// Returns the names of its tools.
    pub fn tool_names(&self) -> Vec<&str> {
        self.script.iter().flat_map(|script| script.tool_names()).collect()
    }

    /// Returns the hooks of a guard that run only in chats with models of this host, since Open WebUI cannot
    /// call them one by one. Empty for other filters.
    pub fn hooks_of_chats_only(&self) -> Vec<&'static str> {
        match &self.script {
            Some(script) if self.security => chats_only(script),
            _ => Vec::new(),
        }
    }

    /// Returns the valves of a user, with secrets masked; null if the script declares no user valves.
    pub fn valves_of_user(&self, user: &str) -> Json {
        let schema = self.script.as_ref().and_then(|script| script.manifest.user_valves.as_ref());
        let values = self.users.by_user.get(user).unwrap_or(&self.users.default);
        schema.map_or(Json::Null, |schema| schema.mask(values))
    }

    /// Returns the valves of which at least one must have a value for the filter to run.
    pub fn needs(&self) -> &[String] {
        self.script.as_ref().map_or(&[], |script| &script.manifest.needs)
    }

    /// Returns `true` if it does nothing with the current values of its valves.
    pub fn is_idle(&self) -> bool {
        let Some(script) = &self.script else { return false };
        let needs = self.needs();
        let is_set = |values: &Json| {
            needs.iter().any(|name| values.get(name).is_some_and(|value| !is_nothing(&value)))
        };
        let users = self.users.by_user.values().chain([&self.users.default]);
        !needs.is_empty() && !is_set(&script.valves) && !users.into_iter().any(is_set)
    }

    /// Returns `true` if it runs only for requests that enable it.
    pub fn is_toggle(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.manifest.toggle)
    }
}

/// Returns the hooks of a script that run in chats only, since Open WebUI cannot call them one by one.
pub fn chats_only(script: &Script) -> Vec<&'static str> {
    let hooks = script.hooks().filter(|hook| !matches!(hook, Hook::Inlet | Hook::Outlet));
    hooks.map(Hook::name).collect()
}

/// Returns a sentence that explains the limit of hooks that run in chats only.
pub fn chats_only_in_words(id: &str, hooks: &[&str]) -> String {
    format!(
        "the guard `{id}` does not run its {} if Open WebUI calls filters one by one (pipelines); it runs in chats with models of this host",
        hooks.join(", ")
    )
}

/// Returns `true` if a valve's value is empty.
pub(crate) fn is_nothing(value: &Json) -> bool {
    value.is_empty() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// A value that is created on first use. A clone starts without a value.
pub(crate) struct LazyValue<T>(OnceLock<T>);

impl<T> LazyValue<T> {
    pub(crate) fn or_made(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }
}

impl<T> Default for LazyValue<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Clone for LazyValue<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> std::fmt::Debug for LazyValue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "made" } else { "not made yet" })
    }
}
