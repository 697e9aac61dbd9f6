//! A scan of the folders and the store, which creates the next snapshot. Nothing is removed before its
//! replacement has loaded.

use super::clock::{Due, Wait};
use super::compiler::aside;
use super::plugins::NextPlugins;
use super::scripts::Scripts;
use super::state::{PriorLook, Reload};
use crate::builtin;
use crate::catalog::Catalog;
use crate::plugin::{Plugins, State};
use crate::report::{Change, Report};
use crate::snapshot::Snapshot;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use valvehouse_config::{Grants, ScriptSource};
use valvehouse_script::{Code, Diagnostic, FolderScan, Kind};

/// The outcome of a scan.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The next snapshot with its report; `None` if nothing changed.
    pub(crate) next: Option<(Snapshot, Report)>,
    /// The applied generation of the store; `None` while its changes are not applied yet.
    pub(crate) stored_generation: Option<u64>,
    pub(crate) due: Due,
}

impl Outcome {
    /// Returns the outcome of a scan that ends here, because the changes wait for this.
    fn waits(wait: Wait) -> Self {
        Self { due: Due { wait: Some(wait), compiling: Vec::new() }, ..Self::default() }
    }
}

impl Reload {
    /// Scans the folders and the store. Only data to be set aside is written. An outage of the store does not
    /// affect changes in the folders.
    pub(crate) async fn look(&mut self, current: Option<&Snapshot>) -> Outcome {
        self.clock.begin(current.is_some());
        self.follow_store().await;
        let none = Plugins::new();
        let before = current.map_or(&none, |snapshot| &snapshot.plugins);
        let folders = aside(|| self.look_at_folders());
        let input = PriorLook { plan: self.plan.clone(), found: folders };
        if current.is_some() && self.last.touched.is_empty() && self.last.settled.as_ref() == Some(&input) {
            self.clock.collected();
            return Outcome { stored_generation: self.applied(), ..Outcome::default() };
        }
        let found = self.one_space(&input.found, before);
        if let Some(wait) = self.saving(&found, before) {
            return Outcome::waits(wait);
        }
        if let Err(error) = self.set_aside_for_new(&found, before).await {
            tracing::warn!("cannot distinguish new files from removed plugins of the same ids: {error}");
        }
        let mut next = aside(|| {
            let unreadable = self.unreadable(&found, before);
            self.next_plugins(&found, &unreadable, before)
        });
        self.compiler.keep_only(&next.compiling);
        if self.undo.is_some() && !next.compiling.is_empty() {
            // Scripts of the store go live together.
            let compiling = next.compiling;
            return Outcome { due: Due { wait: Some(Wait::Compiling), compiling }, ..Outcome::default() };
        }
        if self.is_refused(&found, &next.plugins, before) {
            // The next scan reports the reason.
            return Outcome { stored_generation: self.applied(), ..Outcome::waits(Wait::Recording) };
        }
        self.last.missed = std::mem::take(&mut next.missed);
        if next.has_vanished && self.clock.allows(Wait::Vanished) {
            // The replacement may be there at the next scan; both changes go live together.
            return Outcome::waits(Wait::Vanished);
        }
        self.clock.collected();
        self.add_lost_guards(&found, &mut next);
        self.finish(current, input, found, next)
    }

    /// Reads the store and the list of quarantined versions if they have changed. After an outage of the store,
    /// anything may be missing there.
    async fn follow_store(&mut self) {
        if let Err(error) = self.read_store().await {
            tracing::warn!("cannot read the store, continuing with its last known state: {error}");
        }
        let is_away = self.store.outage().is_some();
        let was_away = std::mem::replace(&mut self.last.is_away, is_away);
        if was_away != is_away {
            self.last.settled = None;
        }
        self.unrecorded.is_everything |= was_away && !is_away;
        self.last.touched.extend(self.compiler.quarantine.refresh());
    }

    fn applied(&self) -> Option<u64> {
        Some(self.stored.generation.unwrap_or(0))
    }

    /// Creates the next snapshot, unless everything is as it was.
    fn finish(
        &mut self,
        current: Option<&Snapshot>,
        input: PriorLook,
        found: FolderScan,
        next: NextPlugins,
    ) -> Outcome {
        let NextPlugins { plugins, mut changes, compiling, has_vanished, .. } = next;
        changes.extend(self.newly_granted());
        let catalog = Catalog::new(&self.native_tools(), &plugins, &self.plan);
        self.scheduled.forget_removed(&plugins);
        if compiling.is_empty() {
            self.report_part(&found, &plugins);
        }
        let problems = self.problems(&found, &plugins, &catalog.problems);
        let known = current.map_or(&[][..], |current| &current.problems);
        changes.extend(unknown(&problems, known).cloned().map(Change::Diagnostic));
        let is_same = changes.is_empty()
            && current.is_some_and(|current| current.problems == problems && current.is_of(&self.plan));
        // Another scan checks whether a missing file is back or its removal is confirmed.
        let is_missed = has_vanished || plugins.values().any(|plugin| plugin.state == State::Missing);
        self.last.settled = Some(input).filter(|_| !is_missed && compiling.is_empty());
        self.last.touched.clear();
        let next = (!is_same).then(|| {
            let generation = current.map_or(0, |current| current.generation) + 1;
            let tools = catalog.tools.into_iter().map(|tool| {
                let metrics = self.compiler.uses.of(tool.name());
                tool.counting(metrics)
            });
            let snapshot = Snapshot::new(generation, plugins, problems, tools.collect(), self.plan.clone())
                .offering(catalog.offered);
            (snapshot, Report { generation, changes, took: self.clock.elapsed() })
        });
        let stored_generation = self.applied().filter(|_| compiling.is_empty());
        let wait = has_vanished.then_some(Wait::Vanished);
        Outcome { next, stored_generation, due: Due { wait, compiling } }
    }

    /// Returns the diagnostics that do not belong to one plugin.
    fn problems(&self, found: &FolderScan, plugins: &Plugins, of_catalog: &[Diagnostic]) -> Vec<Diagnostic> {
        let is_a_plugins = |problem: &&Diagnostic| {
            plugins.get(&*problem.id).is_some_and(|plugin| plugin.state.problems().contains(problem))
        };
        let mut problems: Vec<Diagnostic> =
            found.problems.iter().filter(|problem| !is_a_plugins(problem)).cloned().collect();
        let of_plan = self.plan.problems.iter().chain(&self.plan.mounted.problems);
        problems.extend(of_catalog.iter().chain(of_plan).cloned());
        problems.extend(self.problems_of_aside(plugins));
        problems.extend(self.scheduled.problems(plugins));
        problems.extend(self.refused.as_ref().map(|refused| refused.problem(&self.plan)));
        problems.extend(self.problem_of_polling());
        problems.extend(self.store.outage().map(|outage| self.problem_of_outage(&outage)));
        problems
    }

    /// Returns the diagnostic for a store that cannot notify its hosts of changes.
    fn problem_of_polling(&self) -> Option<Diagnostic> {
        self.store.is_polled().then(|| {
            let file = self.plan.project.join(valvehouse_config::FILE);
            let message = "store.url points to a pooler in transaction mode, which does not pass notifications on; the store is polled ten times a second";
            let help = "set store.listen_url to the URL of the database itself";
            Diagnostic::new(Code::StorePolled, "", &file, message).help(help).warning()
        })
    }

    /// Returns the native tools whose grants changed; they have no files that could change.
    fn newly_granted(&mut self) -> Vec<Change> {
        let now: Vec<Grants> = builtin::GUARDED.iter().map(|(id, _)| self.grants(id)).collect();
        let before = std::mem::replace(&mut self.last.native_grants, now);
        let both = builtin::GUARDED.iter().zip(&self.last.native_grants).zip(before);
        let changed = both.filter(|((_, now), before)| *now != before);
        changed.map(|(((id, _), _), _)| Change::Settings((*id).into())).collect()
    }

    /// Scans the folders, or returns the files of the current set in the store.
    fn look_at_folders(&mut self) -> [Arc<FolderScan>; 3] {
        match (&self.stored.scripts, self.plan.source) {
            (Some(scripts), _) => scripts.found.clone(),
            // The store was not read yet. Files on disk are not part of a set in the store.
            (None, ScriptSource::Store) => Scripts::none(&self.plan).found,
            (None, ScriptSource::Folder) => {
                Kind::ALL.map(|kind| self.loader.look_again(kind, self.plan.folder(kind)))
            }
        }
    }

    /// Merges the folders. Ids are shared by all kinds, because operators refer to plugins by id. A tool
    /// never replaces a filter with the same id, since that could remove a guard; an action replaces neither. No file has
    /// the id of a native tool, whose grants it would use.
    fn one_space(&self, folders: &[Arc<FolderScan>; 3], before: &Plugins) -> FolderScan {
        let [mut filters, mut tools, mut actions] = folders.each_ref().map(|found| FolderScan::clone(found));
        for (found, kind) in [&mut filters, &mut tools, &mut actions].into_iter().zip(Kind::ALL) {
            give_way(found, kind, |id| builtin::is_guarded(id).then_some("tool of the host"));
        }
        let unread = |found: &FolderScan| -> HashSet<String> {
            found.problems.iter().map(|problem| problem.id.clone()).collect()
        };
        let (of_filters, of_tools) = (unread(&filters), unread(&tools));
        let is_filters = |id: &str| {
            let filter = before.get(id).filter(|plugin| plugin.kind == Kind::Filter);
            filters.files.contains_key(id)
                || of_filters.contains(id)
                || filter.is_some_and(|filter| filter.security || filters.leaves_open(&filter.path))
                || self.stored.last_good.get(id).is_some_and(|version| version.security)
        };
        give_way(&mut tools, Kind::Tool, |id| is_filters(id).then_some(Kind::Filter.as_str()));
        let is_tools = |id: &str| tools.files.contains_key(id) || of_tools.contains(id);
        give_way(&mut actions, Kind::Action, |id| match is_filters(id) {
            true => Some(Kind::Filter.as_str()),
            false => is_tools(id).then_some(Kind::Tool.as_str()),
        });
        let mut found = filters.and(tools).and(actions);
        // A folder that cannot be listed may contain unknown guards, so its problem is treated like one.
        // Known guards keep running.
        for problem in found.problems.iter_mut().filter(|problem| found.unlisted.contains(&problem.path)) {
            if !self.knows_nothing() && !before.contains_key(problem.id.as_str()) {
                problem.id.clear();
            }
        }
        found
    }
}

/// Removes the files whose id belongs to a plugin of another kind, or to a native tool.
fn give_way(found: &mut FolderScan, kind: Kind, taken_by: impl Fn(&str) -> Option<&'static str>) {
    // Errors of such a file are not problems of that plugin.
    let problems = found.problems.iter_mut();
    problems.filter(|problem| taken_by(&problem.id).is_some()).for_each(|problem| problem.id.clear());
    let ids: Vec<Arc<str>> = found.files.keys().cloned().collect();
    for id in ids {
        let Some(owner) = taken_by(&id) else { continue };
        if let Some(read) = found.files.remove(&id) {
            let what = format!("`{id}` is the id of a {owner}; this {} is not used", kind.as_str());
            let problem = Diagnostic::new(Code::SameId, "", &read.file.path, what);
            found.problems.push(problem.help("rename this file"));
        }
    }
}

/// Returns the problems that are not known yet.
fn unknown<'a>(problems: &'a [Diagnostic], known: &[Diagnostic]) -> impl Iterator<Item = &'a Diagnostic> {
    let mut by_path: HashMap<&Path, Vec<&Diagnostic>> = HashMap::new();
    for problem in known {
        by_path.entry(&problem.path).or_default().push(problem);
    }
    let is_known =
        move |problem: &&Diagnostic| by_path.get(&*problem.path).is_some_and(|known| known.contains(problem));
    problems.iter().filter(move |problem| !is_known(problem)).collect::<Vec<_>>().into_iter()
}
