//! A compiled script and its properties.

use super::action::ActionFunction;
use super::callbacks::CallbackFunction;
use super::diagnostic::Diagnostic;
use super::pipe::PipeFunction;
use super::settings::Settings;
use super::tool::{ServedFunction, ToolFunction};
use crate::declare::hooks::{DONE, HookFunction, Param};
use crate::declare::manifest::Manifest;
use crate::load::source::SourceFile;
use crate::load::sources::Sources;
use rhai::{AST, Engine};
use std::sync::Arc;
use valvehouse_core::breaker::Breaker;
use valvehouse_core::filter::Hook;
use valvehouse_core::metrics::{PluginMetrics, PromptCacheCounter};
use valvehouse_core::valve::Layer;
use valvehouse_dialect::call::ScriptCaller;
use valvehouse_dialect::call::resources::Resources;
use valvehouse_dialect::interpreter::Interpreter;
use valvehouse_dialect::value::KeyOrders;
use valvehouse_json::Json;

/// The largest priority of a script. The host's own filters run after it: they ask for approval and report calls.
pub(super) const MAX_PRIORITY: f64 = 9997.0;

/// A compiled script with its valves folded in. It is immutable: other valves require a new script.
pub struct Script {
    /// The source file.
    pub file: SourceFile,
    /// The declarations of the file.
    pub manifest: Manifest,
    /// The effective valves; read-only.
    pub valves: Json,
    /// The configured values of the valves, with secrets from the environment.
    pub(super) configured: Json,
    /// The identity of its calls.
    pub(super) caller: Arc<ScriptCaller>,
    /// The identity of its background calls, with a circuit breaker of its own.
    pub(super) behind: Arc<ScriptCaller>,
    /// Warnings about code that loads but is probably wrong: unknown valves, misspelled hooks.
    pub warnings: Vec<Diagnostic>,
    /// The circuit breaker of its calls.
    pub breaker: Arc<Breaker>,
    /// Counts the requests in which its hooks preserved the provider's prompt cache.
    pub prompt_cache: Arc<PromptCacheCounter>,
    pub(super) hooks: Vec<HookFunction>,
    pub(super) callbacks: Vec<CallbackFunction>,
    /// The parameters of `fn done`; `None` if the function is missing.
    pub(super) done: Option<Vec<Param>>,
    /// The parameters of `fn tick`; `None` if it is not called.
    pub(super) tick: Option<Vec<Param>>,
    /// The circuit breaker of its callbacks; their failures do not open the breaker of its hooks.
    pub(super) listening: Breaker,
    pub(super) tools: Vec<ToolFunction>,
    /// Its prompts and resources.
    pub(super) served: Vec<ServedFunction>,
    pub(super) pipe: Option<PipeFunction>,
    pub(super) action: Option<ActionFunction>,
    pub(super) waiting: bool,
    /// `true` if it processes streams through windows, which hold back text.
    pub(super) has_windows: bool,
    pub(super) engine: Engine,
    pub(super) ast: AST,
    /// The key orders of its map literals.
    pub(super) orders: KeyOrders,
    /// The hooks whose syntax proves that every call is short.
    pub(super) cheap: Vec<Hook>,
    pub(super) interpreter: Interpreter,
    pub(super) settings: Settings,
    pub(super) resources: Arc<Resources>,
    /// Its own source text and those of its modules.
    pub(super) sources: Sources,
}

impl Script {
    /// Returns the plugin's id.
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// Returns the position of its hooks in the chain.
    pub fn priority(&self) -> f64 {
        let priority = match self.manifest.priority {
            Some(priority) if self.valves.get("priority").is_none() => priority,
            _ => valvehouse_core::valve::priority(&self.valves),
        };
        priority.min(MAX_PRIORITY)
    }

    /// Returns the values that override the declared valves: those of the configuration and those of the store.
    pub fn valve_layers(&self) -> [Layer<'_>; 2] {
        [Layer::exact(&self.configured), Layer::lenient(&self.settings.stored)]
    }

    /// Returns the metrics of its calls, across all versions.
    pub fn metrics(&self) -> &PluginMetrics {
        &self.settings.metrics
    }

    /// Returns the hooks that the script has.
    pub fn hooks(&self) -> impl Iterator<Item = Hook> {
        self.hooks.iter().map(|function| function.hook)
    }

    /// Returns `true` if it has a function `done`, which runs after the client has received the answer.
    pub fn has_done(&self) -> bool {
        self.done.is_some()
    }

    /// Returns `true` if a call may wait for something outside of the script.
    pub(super) fn waits(&self) -> bool {
        self.waiting
    }

    /// Returns `true` if a hook's syntax proves that every call is short.
    pub(super) fn is_bounded(&self, hook: Hook) -> bool {
        self.cheap.contains(&hook)
    }

    pub(super) fn hook(&self, hook: Hook) -> Option<&HookFunction> {
        self.hooks.iter().find(|function| function.hook == hook)
    }

    /// Returns the names of the functions that a host calls: hooks, callbacks, tools, `pipe`, `action`.
    pub fn called_by_host(&self) -> Vec<String> {
        let hooks = self.hooks().map(|hook| hook.name().to_owned());
        let callbacks = self.callbacks().map(|callback| callback.name().to_owned());
        let tools = self.tools.iter().map(|tool| tool.name().to_owned());
        let pipe = self.pipe.iter().map(|_| "pipe".to_owned());
        let done = self.has_done().then(|| DONE.to_owned());
        let action = self.action.iter().map(|_| "action".to_owned());
        hooks.chain(done).chain(callbacks).chain(tools).chain(pipe).chain(action).collect()
    }

    /// Returns its functions with their parameters.
    pub fn functions(&self) -> impl Iterator<Item = rhai::ScriptFnMetadata<'_>> {
        self.ast.iter_functions()
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({})", self.file.path.display())
    }
}
