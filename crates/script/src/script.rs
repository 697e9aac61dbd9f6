//! A compiled script, and what can be asked of it.

use super::action::ActionFunction;
use super::call::Caller;
use super::callbacks::CallbackFunction;
use super::diagnostic::Diagnostic;
use super::hooks::{HookFunction, Param};
use super::interpreter::Interpreter;
use super::manifest::Manifest;
use super::pipe::PipeFunction;
use super::resources::Resources;
use super::settings::Settings;
use super::source::SourceFile;
use super::sources::Sources;
use super::tool::{ServedFunction, ToolFunction};
use rhai::{AST, Engine};
use std::sync::Arc;
use valvehouse_core::breaker::Breaker;
use valvehouse_core::filter::Hook;
use valvehouse_core::metrics::{PluginMetrics, PromptCacheCounter};
use valvehouse_json::Json;

/// The last place in the chain that a script may have: behind it are the host's own filters, which ask for
/// approval and tell of calls.
pub(super) const MAX_PRIORITY: f64 = 9997.0;

/// A compiled script with its valves folded in. Frozen: another value makes another script.
pub struct Script {
    /// The file it comes from.
    pub file: SourceFile,
    /// Its declarations about itself.
    pub manifest: Manifest,
    /// Its effective valves; read-only.
    pub valves: Json,
    /// The identity of its calls.
    pub(super) caller: Arc<Caller>,
    /// The same for calls in the background, whose breaker refuses no request.
    pub(super) behind: Arc<Caller>,
    /// Warnings about code that loads and is not meant: valves that no longer fit, hooks spelt almost right.
    pub warnings: Vec<Diagnostic>,
    /// The circuit breaker of its calls.
    pub breaker: Arc<Breaker>,
    /// The requests in which its hooks kept the prompt cache of the service.
    pub prompt_cache: Arc<PromptCacheCounter>,
    pub(super) hooks: Vec<HookFunction>,
    pub(super) callbacks: Vec<CallbackFunction>,
    /// The parameters of `fn done`, where there is one.
    pub(super) done: Option<Vec<Param>>,
    /// The parameters of `fn tick`, where it is called from time to time.
    pub(super) tick: Option<Vec<Param>>,
    /// The circuit breaker of its callbacks; their failures do not open the breaker of its hooks.
    pub(super) listening: Breaker,
    pub(super) tools: Vec<ToolFunction>,
    /// Its prompts and resources.
    pub(super) served: Vec<ServedFunction>,
    pub(super) pipe: Option<PipeFunction>,
    pub(super) action: Option<ActionFunction>,
    pub(super) waiting: bool,
    /// `true` if it looks at streams through a window, in which text may wait.
    pub(super) has_windows: bool,
    pub(super) engine: Engine,
    pub(super) ast: AST,
    /// The hooks of which syntax shows that no call takes long.
    pub(super) cheap: Vec<Hook>,
    pub(super) interpreter: Interpreter,
    pub(super) settings: Settings,
    pub(super) resources: Arc<Resources>,
    /// Its own file and those of its modules.
    pub(super) sources: Sources,
}

impl Script {
    /// The plugin's id.
    pub fn id(&self) -> &str {
        &self.file.id
    }

    /// Returns the place of its hooks in the chain.
    pub fn priority(&self) -> f64 {
        let priority = match self.manifest.priority {
            Some(priority) if self.valves.get("priority").is_none() => priority,
            _ => valvehouse_core::valve::priority(&self.valves),
        };
        priority.min(MAX_PRIORITY)
    }

    /// Returns the values that its valves were made of, over those that it declares: the configuration's, and
    /// the store's.
    pub fn valve_layers(&self) -> [&Json; 2] {
        [&self.settings.configured, &self.settings.stored]
    }

    /// Returns the cost of its calls, regardless of the version that ran.
    pub fn metrics(&self) -> &PluginMetrics {
        &self.settings.metrics
    }

    /// The moments it acts at.
    pub fn hooks(&self) -> impl Iterator<Item = Hook> {
        self.hooks.iter().map(|function| function.hook)
    }

    /// Returns `true` if it has a function `done`, which runs when a client has its answer.
    pub fn has_done(&self) -> bool {
        self.done.is_some()
    }

    /// Returns `true` if a call may wait.
    pub(super) fn waits(&self) -> bool {
        self.waiting
    }

    /// Returns `true` if a hook's syntax shows that no call of it takes long.
    pub(super) fn is_bounded(&self, hook: Hook) -> bool {
        self.cheap.contains(&hook)
    }

    pub(super) fn hook(&self, hook: Hook) -> Option<&HookFunction> {
        self.hooks.iter().find(|function| function.hook == hook)
    }

    /// Its functions: names and parameters.
    pub(super) fn functions(&self) -> impl Iterator<Item = rhai::ScriptFnMetadata<'_>> {
        self.ast.iter_functions()
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({})", self.file.path.display())
    }
}
