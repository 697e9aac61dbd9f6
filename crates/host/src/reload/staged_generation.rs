//! The test of a generation of scripts in the store: it is applied completely, with its valves, or not at
//! all.

use super::last_good::is_guards;
use super::rows::StoreRows;
use super::scripts::{RefusedGeneration, RefusedSet, Scripts};
use super::state::Reload;
use crate::plugin::{Plugin, Plugins, State};
use std::path::Path;
use std::sync::Arc;
use valvehouse_config::ScriptSource;
use valvehouse_script::{Diagnostic, FolderScan, Severity, SourceSet, beginning};
use valvehouse_store::{StoreError, StoredSettings};

/// The maximum number of reported problems of a rejected set.
const MAX_REPORTED: usize = 5;

impl Reload {
    /// Returns the texts of the current set; `None` if scripts come from folders.
    pub(crate) fn sources(&self) -> Option<&SourceSet> {
        self.stored.scripts.as_ref().map(|scripts| &*scripts.sources)
    }

    /// Returns the text of a file that cannot be loaded, up to the maximum size of a script.
    pub(super) fn beginning(&self, path: &Path) -> String {
        match self.sources() {
            Some(sources) => sources.text(path).map_or_else(String::new, |text| text.to_string()),
            None => beginning(path),
        }
    }

    /// Reads the scripts that belong to settings of the store; `None` if the current ones do. The outer error
    /// is that of the store; the inner one is the reason for rejecting the scripts.
    pub(super) async fn scripts_with(
        &mut self,
        settings: &StoredSettings,
    ) -> Result<Result<Option<Scripts>, RefusedSet>, StoreError> {
        if self.plan.source == ScriptSource::Folder {
            return Ok(Ok(None));
        }
        let Some(set) = &settings.scripts else {
            let is_new = self.stored.scripts.as_ref().is_none_or(|scripts| scripts.generation > 0);
            return Ok(Ok(is_new.then(|| Scripts::none(&self.plan))));
        };
        if self.stored.scripts.as_ref().is_some_and(|scripts| scripts.generation == set.generation) {
            return Ok(Ok(None));
        }
        let files = self.store.script_files(set.generation).await?;
        match Scripts::open(set, &files, &self.plan) {
            Ok(scripts) => Ok(Ok(Some(scripts))),
            // A host that has no scripts yet starts with the latest set that it can run.
            Err(refused) if self.stored.scripts.is_none() => {
                self.refuse_set(settings.generation, refused);
                for earlier in self.store.script_sets().await?.into_iter().skip(1) {
                    let files = self.store.script_files(earlier.generation).await?;
                    if let Ok(scripts) = Scripts::open(&earlier, &files, &self.plan) {
                        return Ok(Ok(Some(scripts)));
                    }
                }
                Ok(Ok(Some(Scripts::none(&self.plan))))
            }
            Err(why) => Ok(Err(why)),
        }
    }

    /// Applies a set that is tested from the next scan on. The first set of a host is not tested.
    pub(super) fn try_scripts(&mut self, scripts: Scripts, before: StoreRows) {
        let scripts = self.stored.scripts.replace(scripts);
        if self.clock.is_serving {
            self.undo.get_or_insert_with(|| Box::new(StoreRows { scripts, ..before }));
        }
    }

    /// Rejects a set that this host cannot run at all; the current settings stay in force.
    pub(super) fn refuse_set(&mut self, generation: u64, refused: RefusedSet) {
        let is_missing = |id: &String| !self.stored.last_good.get(id).is_some_and(is_guards);
        let missing = refused.guards.into_iter().filter(is_missing).collect();
        self.refuse(generation, refused.why, missing);
    }

    /// Rejects a generation: the settings and scripts before it stay in force.
    fn refuse(&mut self, generation: u64, why: String, missing_guards: Vec<String>) {
        let refused = RefusedGeneration { generation, why, missing_guards, in_part: false };
        tracing::error!("{}; the previous generation stays in force", refused.message());
        // The next scan reports it.
        self.last.settled = None;
        self.refused = Some(refused);
    }

    /// Reports the scripts of the current generation that do not load here. A starting host runs such a
    /// generation in part; a running one rejects it.
    pub(super) fn report_part(&mut self, found: &FolderScan, plugins: &Plugins) {
        let is_known = self.refused.as_ref().is_some_and(|refused| !refused.in_part);
        if self.plan.source == ScriptSource::Folder || is_known {
            return;
        }
        let problems = problems_of(found, plugins, &Plugins::new());
        let is_missing = |plugin: &&Arc<Plugin>| plugin.security && plugin.script.is_none();
        let refused = (!problems.is_empty()).then(|| RefusedGeneration {
            generation: self.stored.generation.unwrap_or(0),
            why: first_of(&problems),
            missing_guards: plugins.values().filter(is_missing).map(|plugin| plugin.id.to_string()).collect(),
            in_part: true,
        });
        if let Some(refused) = refused.as_ref().filter(|refused| self.refused.as_ref() != Some(*refused)) {
            tracing::error!("{}; its other scripts are in force", refused.message());
        }
        self.refused = refused;
    }

    /// Ends the test of a set once all scripts are compiled. Returns `true` if the set is rejected and the
    /// previous state is in force again.
    pub(super) fn is_refused(&mut self, found: &FolderScan, plugins: &Plugins, before: &Plugins) -> bool {
        let Some(undo) = self.undo.take() else { return false };
        let problems = problems_of(found, plugins, before);
        if problems.is_empty() {
            self.refused = None;
            return false;
        }
        let why = first_of(&problems);
        let generation = self.stored.generation.unwrap_or(0);
        let missing =
            self.stored.scripts.as_ref().map_or_else(Vec::new, |scripts| scripts.missing_guards(before));
        self.last.touched.extend(undo.unlike(&self.stored));
        self.stored = *undo;
        self.refuse(generation, why, missing);
        true
    }
}

/// Returns the first problems in one line, with the number of the others.
fn first_of(problems: &[String]) -> String {
    let more = problems.len().saturating_sub(MAX_REPORTED);
    let mut first = problems[..problems.len().min(MAX_REPORTED)].join("; ");
    if more > 0 {
        first.push_str(&format!("; and {more} more"));
    }
    first
}

/// Returns the reasons for rejecting a set: scripts that do not load here, guards that would be weakened or
/// removed, and files that are not scripts.
fn problems_of(found: &FolderScan, plugins: &Plugins, before: &Plugins) -> Vec<String> {
    let is_new = |id: &Arc<str>, state: &State| {
        let known = before.get(id);
        let is_other_file = match (known, found.files.get(id)) {
            (Some(known), Some(read)) => !known.is_of(read),
            (None, _) => true,
            (Some(_), None) => false,
        };
        is_other_file || known.is_none_or(|known| known.state != *state)
    };
    let unwell =
        plugins.iter().filter(|(id, plugin)| plugin.state != State::Live && is_new(id, &plugin.state));
    let problem = |(id, plugin): (&Arc<str>, &Arc<Plugin>)| match plugin.state.problems().first() {
        Some(problem) => {
            let help = problem.help.as_ref().map_or_else(String::new, |help| format!(" ({help})"));
            format!("`{id}`: {}{help}", problem.message)
        }
        None => format!(
            "the guard `{id}` is missing; add it again, or to accept its removal, run: valvehouse confirm {id}"
        ),
    };
    let files = found.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let is_a_plugins = |problem: &&Diagnostic| plugins.contains_key(&*problem.id);
    let files = files.filter(|problem| !is_a_plugins(problem));
    unwell.map(problem).chain(files.map(|problem| problem.message.clone())).collect()
}
