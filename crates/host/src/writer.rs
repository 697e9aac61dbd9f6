//! The lock of the host's writer. Its holder may change files and the store without anything going live in
//! between.

use crate::plan::Plan;
use crate::plugin::OperatorSettings;
use crate::reload::compiler::{CompileJob, aside};
use crate::reload::state::Reload;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::MutexGuard;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, Kind, Script, SourceSet, read_text};
use valvehouse_store::{Kv, Store, StoreError};

/// The lock of a host's writer, or a writer of its own without a host.
pub struct ReloadLock<'a>(Lock<'a>);

enum Lock<'a> {
    Hosts(MutexGuard<'a, Reload>),
    Own(Box<Reload>),
}

impl Deref for Lock<'_> {
    type Target = Reload;

    fn deref(&self) -> &Reload {
        match self {
            Self::Hosts(reload) => reload,
            Self::Own(reload) => reload,
        }
    }
}

impl<'a> ReloadLock<'a> {
    pub(super) async fn held(mut reload: MutexGuard<'a, Reload>) -> Result<Self, StoreError> {
        // The stored data comes from a snapshot during an outage and cannot be changed.
        if let Some(outage) = reload.store.outage() {
            return Err(outage.error);
        }
        reload.read_store().await?;
        Ok(Self(Lock::Hosts(reload)))
    }

    /// Creates a writer for a command; running hosts follow its changes.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn alone(plan: Arc<Plan>, store: Arc<Store>) -> Result<ReloadLock<'static>, StoreError> {
        let mut reload = Reload::new(plan, store, Arc::<Kv>::default()).await?;
        reload.read_store().await?;
        Ok(ReloadLock(Lock::Own(Box::new(reload))))
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns the texts of scripts in the store; `None` if scripts come from folders.
    pub(crate) fn sources(&self) -> Option<&SourceSet> {
        self.0.sources()
    }

    /// Prepares the compilation of a text in place of a file, with the settings and grants of the plugin;
    /// `valves` replaces the stored values.
    ///
    /// # Errors
    /// Returns the problem if the file or one of its imports cannot be read.
    pub fn compile_job(
        &self,
        kind: Kind,
        path: &Path,
        text: &str,
        valves: Option<&Json>,
    ) -> Result<CompileJob, Diagnostic> {
        let folder = self.0.plan.folder(kind);
        let read = match self.0.sources() {
            Some(sources) => sources.read_text(kind, folder, path, text)?,
            None => read_text(kind, folder, path, text)?,
        };
        let given = self.0.given(&read.file.id);
        let given = OperatorSettings { valves: valves.map_or(given.valves, Json::deep_clone), ..given };
        Ok(self.0.compiler.job(&self.0.plan, read, given))
    }

    /// Compiles a text, or returns the result of a compilation made before the lock was taken if all its
    /// inputs are unchanged.
    ///
    /// # Errors
    /// Returns every problem of the script.
    pub fn compile(
        &self,
        kind: Kind,
        path: &Path,
        text: &str,
        valves: Option<&Json>,
        before: Option<CompiledText>,
    ) -> Result<Script, Vec<Diagnostic>> {
        let job = aside(|| self.compile_job(kind, path, text, valves)).map_err(|problem| vec![problem])?;
        match before {
            Some(before) if before.job.is_same(&job) => before.result,
            _ => aside(|| job.run()),
        }
    }

    /// Returns the valves that operators set for a plugin.
    pub fn stored_valves(&self, id: &str) -> Json {
        self.0.given(id).valves
    }

    /// Runs work that waits for the disk without blocking the other tasks of this thread.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        aside(work)
    }
}

/// The result of compiling a text.
pub struct CompiledText {
    job: CompileJob,
    result: Result<Script, Vec<Diagnostic>>,
}

impl CompiledText {
    /// Compiles a text without blocking the other tasks of this thread and without the lock.
    pub(crate) fn of(job: CompileJob) -> Self {
        let result = aside(|| job.run());
        Self { job, result }
    }
}
