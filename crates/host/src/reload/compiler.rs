//! The compiler of plugins: the parts that all scripts of a host share, and slow compilations, which run
//! apart from the scan that found the files so that they do not delay other changes.

use crate::background::AfterAnswers;
use crate::chats::StoredChats;
use crate::models::ScriptModels;
use crate::plan::Plan;
use crate::plugin::OperatorSettings;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use valvehouse_core::metrics::{PluginMetrics, Tools};
use valvehouse_core::valve::SecretGroup;
use valvehouse_dialect::crash::Quarantine;
use valvehouse_executor::STACK;
use valvehouse_script::{Diagnostic, LoadedFile, Script, Settings};
use valvehouse_store::{Kv, Store, VectorIndex};

/// The time for which a scan waits for a file to compile.
const SOON: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2_000 } else { 100 });

pub(super) type CompileResult = Result<Script, Vec<Diagnostic>>;

/// The parts of a host that all of its scripts share.
pub(crate) struct Compiler {
    pub(super) kv: Arc<Kv>,
    /// The vectors of scripts and the memories of users.
    pub(crate) vectors: VectorIndex,
    pub(super) chats: Arc<StoredChats>,
    pub(crate) secrets: SecretGroup,
    pub(crate) asking: Arc<ScriptModels>,
    pub(crate) after: Arc<AfterAnswers>,
    /// The quarantined versions, which ended the process before.
    pub(super) quarantine: Quarantine,
    /// The costs of calls by tool name.
    pub(super) uses: Tools,
    /// The costs of calls by plugin, for all its versions.
    metrics: Mutex<HashMap<String, Arc<PluginMetrics>>>,
    /// The compilations in progress, by plugin id.
    compiling: Mutex<HashMap<Arc<str>, StartedJob>>,
}

impl Compiler {
    pub(super) fn new(kv: Arc<Kv>, store: &Arc<Store>, plan: &Plan) -> Self {
        Self {
            kv,
            vectors: VectorIndex::new(store.clone()),
            chats: Arc::new(StoredChats(store.clone())),
            secrets: SecretGroup::default(),
            asking: Arc::default(),
            after: AfterAnswers::new(),
            quarantine: Quarantine::of(&plan.project).and(&plan.quarantined),
            uses: Tools::default(),
            metrics: Mutex::default(),
            compiling: Mutex::default(),
        }
    }

    /// Prepares the compilation of a file.
    pub(crate) fn job(&self, plan: &Arc<Plan>, read: LoadedFile, given: OperatorSettings) -> CompileJob {
        let settings = Settings {
            stored: given.valves.clone(),
            grants: given.grants.clone(),
            kv: self.kv.clone(),
            vectors: self.vectors.clone(),
            chats: Some(self.chats.clone()),
            secrets: self.secrets.clone(),
            models: Some(self.asking.clone()),
            tools: Some(self.asking.clone()),
            background: Some(self.after.clone()),
            lists: given.lists.clone(),
            metrics: self.metrics.lock().entry(read.file.id.to_string()).or_default().clone(),
            breaker: plan.breaker,
            is_served: true,
            ..plan.plugin(read.file.kind, &read.file.id).settings
        };
        CompileJob { read, given, plan: plan.clone(), settings, is_strict: false }
    }

    /// Compiles a file found by a scan; if the settings are strict, its warnings are errors. If a snapshot is live, that happens in a thread of its own. Returns
    /// `None` if it takes long; a later scan gets the script.
    pub(super) fn compile_soon(&self, mut job: CompileJob, is_serving: bool) -> Option<CompileResult> {
        job.is_strict = job.plan.strict;
        if !is_serving {
            return Some(job.run());
        }
        let id = job.read.file.id.clone();
        let known = self.compiling.lock().remove(&id).filter(|(known, _)| known.is_same(&job));
        let ((job, result), timeout) = match known {
            Some(known) => (known, Duration::ZERO),
            None => {
                let (job, (sender, result)) = (Arc::new(job), channel());
                let started = job.clone();
                // A scan that has found another text no longer waits for this one.
                let compile = move || _ = sender.send(started.run());
                let named = std::thread::Builder::new().name("compiles".into()).stack_size(STACK);
                if let Err(error) = named.spawn(compile) {
                    let path = job.read.file.path.display();
                    tracing::warn!("cannot compile {path} in a separate process: {error}");
                }
                ((job, result), SOON)
            }
        };
        match result.recv_timeout(timeout) {
            Ok(compiled) => Some(compiled),
            Err(RecvTimeoutError::Timeout) => {
                self.compiling.lock().insert(id, (job, result));
                None
            }
            // The thread could not be started.
            Err(RecvTimeoutError::Disconnected) => Some(job.run()),
        }
    }

    /// Drops the compilations of other plugins than these: no scan needs them.
    pub(super) fn keep_only(&self, ids: &[Arc<str>]) {
        self.compiling.lock().retain(|id, _| ids.contains(id));
    }
}

type StartedJob = (Arc<CompileJob>, Receiver<CompileResult>);

/// A text to compile with all inputs of the compilation.
pub struct CompileJob {
    read: LoadedFile,
    given: OperatorSettings,
    plan: Arc<Plan>,
    settings: Settings,
    /// `true` if warnings are errors.
    is_strict: bool,
}

impl CompileJob {
    /// Compiles the text, unless its version is quarantined.
    pub(crate) fn run(&self) -> CompileResult {
        if let Some(problem) = Diagnostic::of_quarantine(&self.read.file, &self.given.quarantined) {
            return Err(vec![problem]);
        }
        let script = Script::compile(&self.read.file, &self.settings)?;
        let warnings = if self.is_strict { script.findings() } else { Vec::new() };
        match warnings.is_empty() {
            true => Ok(script),
            false => Err(warnings.into_iter().map(Diagnostic::error).collect()),
        }
    }

    /// Returns `true` if another job has the same inputs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.read.hash == other.read.hash
            && self.read.file.path == other.read.file.path
            && self.read.file.kind == other.read.file.kind
            && self.given == other.given
            && Arc::ptr_eq(&self.plan, &other.plan)
    }
}

/// Runs slow work, such as a compilation, without blocking the other tasks of this thread.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // The runtime has no other thread to move tasks to.
        _ => work(),
    }
}
