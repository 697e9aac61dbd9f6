//! A generation in which nothing that scripts do leaves the process or stays.

use crate::builtin;
use crate::catalog::Shelf;
use crate::plugin::{Plugin, State};
use crate::snapshot::Snapshot;
use std::sync::Arc;
use valvehouse_config::Grants;
use valvehouse_script::{Other, Rehearsal, Script};
use valvehouse_store::{Kv, VectorIndex};

impl Snapshot {
    /// The same generation with every script rehearsed on a copy of what it keeps, or of what is kept
    /// elsewhere, and native tools without grants. Models are asked as ever.
    pub fn rehearsed(&self, reaches: Rehearsal, kept: Option<&Arc<Kv>>) -> Self {
        let plugins = self.plugins.iter();
        let plugins = plugins.map(|(id, plugin)| (id.clone(), Arc::new(of(plugin, reaches, kept)))).collect();
        let native = builtin::tools(&|_| Grants::default(), kept.unwrap_or(&Arc::default()));
        let plan = self.served.plan.clone();
        let shelf = Shelf::new(&native, &plugins, &plan);
        Self::new(self.generation, plugins, self.problems.clone(), shelf.tools, plan).offering(shelf.offered)
    }
}

fn of(plugin: &Plugin, reaches: Rehearsal, kept: Option<&Arc<Kv>>) -> Plugin {
    // Where the values come from elsewhere, the store may be closed.
    let vectors = kept.map(|_| VectorIndex::default());
    let rehearsed = |script: &Arc<Script>| {
        script.with(Other { kv: kept.cloned(), vectors: vectors.clone(), ..Other::default() })
    };
    match plugin.script.as_ref().map(rehearsed) {
        Some(Ok(script)) => Plugin { script: Some(Arc::new(script.rehearsed(reaches))), ..plugin.clone() },
        // It has just loaded with the same text and valves.
        Some(Err(problems)) => Plugin { script: None, state: State::Broken(problems), ..plugin.clone() },
        None => plugin.clone(),
    }
}
