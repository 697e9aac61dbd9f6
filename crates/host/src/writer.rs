//! Whoever holds the host's writer may change files and store without anything going live in between.

use crate::plan::Plan;
use crate::plugin::Given;
use crate::reload::compiler::aside;
use crate::reload::state::Reload;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::MutexGuard;
use valvehouse_json::Json;
use valvehouse_script::{Kind, Problem, Script, read_text};
use valvehouse_store::{Kv, Store, StoreError};

/// The writer of a host, or one that stands in for it where no host is.
pub struct Writer<'a>(Held<'a>);

enum Held<'a> {
    Hosts(MutexGuard<'a, Reload>),
    Own(Box<Reload>),
}

impl Deref for Held<'_> {
    type Target = Reload;

    fn deref(&self) -> &Reload {
        match self {
            Self::Hosts(reload) => reload,
            Self::Own(reload) => reload,
        }
    }
}

impl<'a> Writer<'a> {
    pub(super) async fn held(mut reload: MutexGuard<'a, Reload>) -> Result<Self, StoreError> {
        reload.read_store().await?;
        Ok(Self(Held::Hosts(reload)))
    }

    /// One of its own, for commands: hosts that run follow by themselves.
    pub async fn alone(plan: Arc<Plan>, store: Arc<dyn Store>) -> Result<Writer<'static>, StoreError> {
        let mut reload = Reload::new(plan, store, Arc::<Kv>::default()).await?;
        reload.read_store().await?;
        Ok(Writer(Held::Own(Box::new(reload))))
    }

    /// What the configuration says.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Where valves, switches and histories are kept.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Compiles a text as it would be if it stood in that file: with the plugin's settings, grants and
    /// valves, which these take the place of.
    pub fn compile(
        &self,
        kind: Kind,
        path: &Path,
        text: &str,
        valves: Option<&Json>,
    ) -> Result<Script, Vec<Problem>> {
        aside(|| {
            let read =
                read_text(kind, self.0.plan.folder(kind), path, text).map_err(|problem| vec![problem])?;
            let given = self.0.given(&read.file.id);
            let valves = valves.map_or(given.valves, Json::copy);
            self.0.compile(&read.file, &Given { valves, ..given })
        })
    }

    /// What operators have set for a plugin.
    pub fn stored_valves(&self, id: &str) -> Json {
        self.0.given(id).valves
    }

    /// Does what waits for the disk without holding up the turns of this thread.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        aside(work)
    }
}
