//! A scan of the folders and the store, which creates the next snapshot. Nothing is removed before its
//! replacement has loaded.

use super::compiler::aside;
use super::guards;
use super::last_good;
use super::state::{PriorLook, Reload};
use crate::builtin;
use crate::catalog::Catalog;
use crate::plugin::{LazyValue, OperatorSettings, Plugin, Plugins, State};
use crate::report::{Change, Report};
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_config::Grants;
use valvehouse_script::{Code, Diagnostic, FolderScan, Kind, claims_of};
use valvehouse_store::{GuardChange, now};

/// The delay of the next scan while files are changing, and the maximum time for which a scan waits for files
/// to be saved.
pub(crate) const NEXT_LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_millis(100);
/// The delay of the next scan while a file is being compiled.
pub(crate) const WHILE_COMPILING: Duration = Duration::from_millis(25);
/// The delay after which a missing file is checked again.
const SECOND_LOOK: Duration = Duration::from_millis(150);

/// The outcome of a scan.
pub(crate) struct Outcome {
    /// The next snapshot; `None` if nothing changed.
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) report: Report,
    /// The applied generation of the store; `None` while its changes are not applied yet.
    pub(crate) stored_generation: Option<u64>,
    /// The delay of the next scan if more changes are expected.
    pub(crate) again: Option<Duration>,
    /// Plugins whose files are still being compiled; a scan after [`WHILE_COMPILING`] may get them.
    pub(crate) compiling: Vec<Arc<str>>,
}

impl Outcome {
    /// Creates the outcome of a scan that waits, so that changes that belong together go live together.
    fn later(again: Duration, generation: u64, began: Instant) -> Self {
        let report = Report { generation, changes: Vec::new(), took: began.elapsed() };
        Self { snapshot: None, report, stored_generation: None, again: Some(again), compiling: Vec::new() }
    }

    /// Creates the outcome of a scan without changes.
    fn nothing_new(stored_generation: u64, generation: u64, began: Instant) -> Self {
        let report = Report { generation, changes: Vec::new(), took: began.elapsed() };
        Self {
            snapshot: None,
            report,
            stored_generation: Some(stored_generation),
            again: None,
            compiling: Vec::new(),
        }
    }
}

impl Reload {
    /// Scans the folders and the store. Only data to be set aside is written. An outage of the store does not
    /// affect changes in the folders.
    pub(crate) async fn look(&mut self, current: Option<&Snapshot>) -> Outcome {
        let (began, looked_at) = (Instant::now(), now());
        self.is_serving = current.is_some();
        if let Err(error) = self.read_store().await {
            tracing::warn!("cannot read the store, continuing with its last known state: {error}");
        }
        let outage = self.store.outage();
        if std::mem::replace(&mut self.last.is_away, outage.is_some()) != outage.is_some() {
            self.last.settled = None;
        }
        self.last.touched.extend(self.compiler.quarantine.refresh());
        let empty = BTreeMap::new();
        let before = current.map_or(&empty, |snapshot| &snapshot.plugins);
        let generation = current.map_or(0, |current| current.generation);
        let folders = aside(|| self.look_at_folders());
        if current.is_some() && self.is_settled(&folders) {
            (self.waiting, self.looked_at) = (None, looked_at);
            return Outcome::nothing_new(self.stored.generation.unwrap_or(0), generation, began);
        }
        let mut found = self.one_space(&folders, before);
        // A folder that cannot be listed may contain unknown guards, so its problem is treated like one.
        // Known guards keep running.
        for problem in found.problems.iter_mut().filter(|problem| found.unlisted.contains(&problem.path)) {
            if !self.knows_nothing && !before.contains_key(problem.id.as_str()) {
                problem.id.clear();
            }
        }
        let may_wait = current.is_some() && self.waiting.get_or_insert(began).elapsed() < PATIENCE;
        if may_wait && found.is_restless() {
            return Outcome::later(NEXT_LOOK, generation, began);
        }
        let is_patient = self.waiting.is_some_and(|since| since.elapsed() < guards::PATIENCE);
        if current.is_some() && is_patient && self.is_guard_being_saved(&found, before) {
            return Outcome::later(NEXT_LOOK, generation, began);
        }
        if let Err(error) = self.set_aside_for_new(&found, before).await {
            tracing::warn!("cannot distinguish new files from removed plugins of the same ids: {error}");
        }
        let is_known = |id: &str| {
            let runs = |plugin: &Arc<Plugin>| plugin.script.is_some() || plugin.state == State::Missing;
            before.get(id).is_some_and(runs)
                || self.stored.last_good.get(id).is_some_and(|version| !version.source.is_empty())
        };
        let unreadable = guards::unreadable(&found, is_known, |path| self.beginning(path));
        let (mut plugins, mut changes, compiling) = aside(|| self.next_plugins(&found, &unreadable, before));
        self.compiler.keep_only(&compiling);
        if self.undo.is_some() {
            if !compiling.is_empty() {
                // Scripts of the store go live together.
                let later = Outcome::later(WHILE_COMPILING, generation, began);
                return Outcome { compiling, ..later };
            }
            if self.is_refused(&found, &plugins, before) {
                // The next scan reports the reason.
                let same = Outcome::nothing_new(self.stored.generation.unwrap_or(0), generation, began);
                return Outcome { again: Some(NEXT_LOOK), ..same };
            }
        }
        let unsettled = self.remember_vanished(&found, &unreadable, before, &mut plugins, &mut changes);
        if may_wait && unsettled {
            // The replacement may be there at the next scan; both changes go live together.
            return Outcome::later(SECOND_LOOK, generation, began);
        }
        (self.waiting, self.looked_at) = (None, looked_at);
        self.add_lost_guards(&found, &mut plugins, &mut changes);
        changes.extend(self.newly_granted());
        let catalog = Catalog::new(&self.native_tools(), &plugins, &self.plan);
        let is_a_plugins = |problem: &&Diagnostic| {
            plugins.get(&*problem.id).is_some_and(|plugin| plugin.state.problems().contains(problem))
        };
        let beside = found.problems.iter().filter(|problem| !is_a_plugins(problem));
        let aside = self.problems_of_aside(&plugins);
        self.scheduled.forget_removed(&plugins);
        if compiling.is_empty() {
            self.report_part(&found, &plugins);
        }
        let failing = self.scheduled.problems(&plugins);
        let others = catalog.problems.iter().chain(&self.plan.problems).chain(&self.plan.mounted.problems);
        let refused = self.refused.as_ref().map(|refused| refused.problem(&self.plan));
        let polled = self.problem_of_polling();
        let away = outage.map(|outage| self.problem_of_outage(&outage));
        let others = others.chain(&aside).chain(&failing).chain(&refused).chain(&polled).chain(&away);
        let problems: Vec<Diagnostic> = beside.chain(others).cloned().collect();
        let known = current.map_or(&[][..], |current| &current.problems);
        changes.extend(unknown(&problems, known).cloned().map(Change::Diagnostic));
        let problems_gone = current.is_some_and(|current| current.problems != problems);
        let replanned = current.is_some_and(|current| !current.is_of(&self.plan));

        // Another scan checks whether a missing file is back or its removal is confirmed.
        let is_missed = unsettled || plugins.values().any(|plugin| plugin.state == State::Missing);
        let snapshot = (current.is_none() || !changes.is_empty() || problems_gone || replanned).then(|| {
            let tools = catalog.tools.into_iter().map(|tool| {
                let metrics = self.compiler.uses.of(tool.name());
                tool.counting(metrics)
            });
            let tools = tools.collect();
            Snapshot::new(generation + 1, plugins, problems, tools, self.plan.clone())
                .offering(catalog.offered)
        });
        let generation = snapshot.as_ref().map_or(generation, |snapshot| snapshot.generation);
        self.last.touched.clear();
        self.knows_nothing = false;
        self.last.settled = (!is_missed && compiling.is_empty())
            .then(|| PriorLook { plan: self.plan.clone(), found: folders });
        Outcome {
            snapshot,
            report: Report { generation, changes, took: began.elapsed() },
            stored_generation: compiling.is_empty().then(|| self.stored.generation.unwrap_or(0)),
            again: unsettled.then_some(SECOND_LOOK),
            compiling,
        }
    }

    /// Returns `true` if folders and store are unchanged since everything went live.
    fn is_settled(&self, folders: &[Arc<FolderScan>; 3]) -> bool {
        let is_same = |settled: &PriorLook| {
            let mut both = settled.found.iter().zip(folders);
            Arc::ptr_eq(&settled.plan, &self.plan) && both.all(|(then, now)| Arc::ptr_eq(then, now))
        };
        self.last.touched.is_empty() && self.last.settled.as_ref().is_some_and(is_same)
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

    /// Scans the folders.
    fn look_at_folders(&mut self) -> [Arc<FolderScan>; 3] {
        if let Some(found) = self.found_in_store() {
            return found;
        }
        Kind::ALL.map(|kind| self.loader.look_again(kind, self.plan.folder(kind)))
    }

    /// Merges the folders. Ids are shared by all kinds, because operators refer to plugins by id. A tool
    /// never replaces a filter with the same id, since that could remove a guard; an action replaces neither.
    fn one_space(&self, folders: &[Arc<FolderScan>; 3], before: &Plugins) -> FolderScan {
        let [filters, mut tools, mut actions] = folders.each_ref().map(|found| FolderScan::clone(found));
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
        give_way(&mut tools, Kind::Tool, |id| is_filters(id).then_some(Kind::Filter));
        let is_tools = |id: &str| tools.files.contains_key(id) || of_tools.contains(id);
        give_way(&mut actions, Kind::Action, |id| match is_filters(id) {
            true => Some(Kind::Filter),
            false => is_tools(id).then_some(Kind::Tool),
        });
        filters.and(tools).and(actions)
    }

    /// Keeps a plugin whose file is missing for the first time until the next scan, because the file may be
    /// back by then.
    fn remember_vanished(
        &mut self,
        found: &FolderScan,
        unreadable: &BTreeMap<Arc<str>, &Diagnostic>,
        before: &Plugins,
        plugins: &mut Plugins,
        changes: &mut Vec<Change>,
    ) -> bool {
        let mut gone = BTreeSet::new();
        if self.sources().is_some() {
            // A set of scripts in the store is always complete.
            return false;
        }
        for (id, plugin) in before {
            let known = found.files.contains_key(id) || unreadable.contains_key(id);
            if known || found.leaves_open(&plugin.path) || plugin.state == State::Missing {
                continue;
            }
            if !self.last.missed.contains(id) {
                gone.insert(id.clone());
                plugins.insert(id.clone(), plugin.clone());
                changes.retain(|change| change.id() != Some(&**id));
            }
        }
        self.last.missed = gone;
        !self.last.missed.is_empty()
    }

    /// Adds guards whose files were removed while no host ran.
    fn add_lost_guards(&self, found: &FolderScan, plugins: &mut Plugins, changes: &mut Vec<Change>) {
        for version in self.stored.last_good.values().filter(|version| last_good::is_guards(version)) {
            let is_known = plugins.contains_key(version.id.as_str());
            if is_known
                || self.stored.is_confirmed(&version.id, &GuardChange::Gone)
                || self.has_moved(&version.id, found)
            {
                continue;
            }
            let id: Arc<str> = version.id.as_str().into();
            let (_, global) = claims_of(&version.source);
            let plugin = Plugin {
                id: id.clone(),
                kind: Kind::Filter,
                path: PathBuf::from(&version.path),
                script: None,
                state: State::Missing,
                hash: "".into(),
                pending: None,
                security: true,
                global,
                was_configured: false,
                enabled: true,
                incarnation: 0,
                users: Arc::default(),
                given: OperatorSettings::default(),
                held_for: Arc::default(),
                acts: LazyValue::default(),
                brings: LazyValue::default(),
            };
            plugins.insert(id.clone(), Arc::new(self.switched(plugin)));
            changes.push(Change::Missing(id));
        }
    }
}

/// Removes the files whose id belongs to a plugin of another kind.
fn give_way(found: &mut FolderScan, kind: Kind, taken_by: impl Fn(&str) -> Option<Kind>) {
    // Errors of such a file are not problems of that plugin.
    let problems = found.problems.iter_mut();
    problems.filter(|problem| taken_by(&problem.id).is_some()).for_each(|problem| problem.id.clear());
    let ids: Vec<Arc<str>> = found.files.keys().cloned().collect();
    for id in ids {
        let Some(owner) = taken_by(&id) else { continue };
        if let Some(read) = found.files.remove(&id) {
            let what =
                format!("`{id}` is the id of a {}; this {} is not used", owner.as_str(), kind.as_str());
            let problem = Diagnostic::new(Code::SameId, "", &read.file.path, what);
            found.problems.push(problem.help("rename one of the two files"));
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
