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
use valvehouse_core::metrics::PluginMetrics;
use valvehouse_core::valve::SecretGroup;
use valvehouse_executor::STACK;
use valvehouse_script::{Diagnostic, LoadedFile, Script, Settings, SourceFile};
use valvehouse_store::{Kv, Store, VectorIndex};

/// The parts of a host that all of its scripts share.
pub(super) struct Compiler {
    pub(super) kv: Arc<Kv>,
    /// The vectors of scripts and the memories of users.
    pub(super) vectors: VectorIndex,
    pub(super) chats: Arc<StoredChats>,
    pub(super) secrets: SecretGroup,
    pub(super) asking: Arc<ScriptModels>,
    pub(super) after: Arc<AfterAnswers>,
    /// The costs of calls by plugin, for all its versions.
    metrics: Mutex<HashMap<String, Arc<PluginMetrics>>>,
    /// Compilations in progress.
    compiling: CompileJobs,
}

impl Compiler {
    pub(super) fn new(kv: Arc<Kv>, store: &Arc<Store>) -> Self {
        Self {
            kv,
            vectors: VectorIndex::new(store.clone()),
            chats: Arc::new(StoredChats(store.clone())),
            secrets: SecretGroup::default(),
            asking: Arc::default(),
            after: AfterAnswers::new(),
            metrics: Mutex::default(),
            compiling: CompileJobs::default(),
        }
    }

    /// Compiles a file, unless its version is quarantined.
    pub(super) fn compile(
        &self,
        plan: &Plan,
        file: &SourceFile,
        given: &OperatorSettings,
    ) -> Result<Script, Vec<Diagnostic>> {
        Diagnostic::of_quarantine(file, &given.quarantined).map_or(Ok(()), |problem| Err(vec![problem]))?;
        Script::compile(file, &self.settings_of(plan, file, given))
    }

    /// Compiles a file found by a scan. Returns `None` if it takes long; a later scan gets the script.
    pub(super) fn compile_soon(
        &self,
        plan: &Arc<Plan>,
        read: &LoadedFile,
        given: &OperatorSettings,
    ) -> Option<CompileResult> {
        if let Some(problem) = Diagnostic::of_quarantine(&read.file, &given.quarantined) {
            return Some(Err(vec![problem]));
        }
        self.compiling.soon(read, given, plan, &self.settings_of(plan, &read.file, given))
    }

    /// Starts a scan: marks all compilations as unrequested.
    pub(super) fn begin(&self) {
        self.compiling.begin();
    }

    /// Ends a scan: drops the compilations that it did not request, and returns the ids of the others.
    pub(super) fn end(&self) -> Vec<Arc<str>> {
        self.compiling.end()
    }

    pub(super) fn settings_of(&self, plan: &Plan, file: &SourceFile, given: &OperatorSettings) -> Settings {
        Settings {
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
            metrics: self.metrics.lock().entry(file.id.to_string()).or_default().clone(),
            breaker: plan.breaker,
            is_served: true,
            ..plan.plugin(file.kind, &file.id).settings
        }
    }
}

/// The time for which a scan waits for a file to compile.
const SOON: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2_000 } else { 100 });

type CompileResult = Result<Script, Vec<Diagnostic>>;

/// The compilations in progress, by plugin id.
#[derive(Default)]
struct CompileJobs(Mutex<HashMap<Arc<str>, Job>>);

struct Job {
    read: LoadedFile,
    given: OperatorSettings,
    plan: Arc<Plan>,
    result: Receiver<CompileResult>,
    /// `true` if the last scan requested it.
    is_wanted: bool,
}

impl CompileJobs {
    /// Starts a scan: marks all compilations as unrequested.
    fn begin(&self) {
        self.0.lock().values_mut().for_each(|job| job.is_wanted = false);
    }

    /// Ends a scan: drops the compilations that it did not request, and returns the ids of the others.
    fn end(&self) -> Vec<Arc<str>> {
        let mut jobs = self.0.lock();
        jobs.retain(|_, job| job.is_wanted);
        jobs.keys().cloned().collect()
    }

    /// Compiles a file. Returns `None` if that takes long; a later scan gets the result.
    fn soon(
        &self,
        read: &LoadedFile,
        given: &OperatorSettings,
        plan: &Arc<Plan>,
        settings: &Settings,
    ) -> Option<CompileResult> {
        let id = read.file.id.clone();
        let is_of = |job: &Job| {
            job.read.hash == read.hash
                && job.read.file.path == read.file.path
                && job.read.file.kind == read.file.kind
                && job.given == *given
                && Arc::ptr_eq(&job.plan, plan)
        };
        let known = self.0.lock().remove(&id).filter(is_of);
        let (mut job, patience) = match known {
            Some(job) => (job, Duration::ZERO),
            None => {
                let (sender, result) = channel();
                let (file, settings) = (read.file.clone(), settings.clone());
                let compile = move || {
                    // A scan that has found another text no longer waits for this one.
                    let _ = sender.send(Script::compile(&file, &settings));
                };
                let named = std::thread::Builder::new().name("compiles".into()).stack_size(STACK);
                if let Err(error) = named.spawn(compile) {
                    tracing::warn!(
                        "cannot compile {} in a separate process: {error}",
                        read.file.path.display()
                    );
                }
                let job = Job {
                    read: read.clone(),
                    given: given.clone(),
                    plan: plan.clone(),
                    result,
                    is_wanted: true,
                };
                (job, SOON)
            }
        };
        match job.result.recv_timeout(patience) {
            Ok(compiled) => Some(compiled),
            Err(RecvTimeoutError::Timeout) => {
                job.is_wanted = true;
                self.0.lock().insert(id, job);
                None
            }
            // The thread could not be started.
            Err(RecvTimeoutError::Disconnected) => Some(Script::compile(&read.file, settings)),
        }
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
