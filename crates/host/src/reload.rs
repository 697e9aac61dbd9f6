//! From what the folders and the store say now to the next snapshot. One writer at a time.
//!
//! Every tick reads the folder afresh and compares content: a lost event costs a delay, never a
//! wrong state. Nothing is taken away before what takes its place has loaded.

pub(crate) mod aside;
mod compiling;
mod guards;

use super::crowd;
use super::kept::Kept;
use super::plan::Plan;
use super::plugin::{Configured, Given, Plugin, State};
use super::shelf::Shelf;
use super::snapshot::Snapshot;
use crate::builtin;
use crate::models::Asking;
use crate::report::{Change, Report};
use compiling::Compiling;
use guards::{Cause, Confirmations, Weakened};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use valvehouse_config::Grants;
use valvehouse_core::figures::{Figures, Tools};
use valvehouse_core::tool::Tool;
use valvehouse_core::valve::SecretGroup;
use valvehouse_json::Json;
use valvehouse_script::crash::Quarantine;
use valvehouse_script::{
    Code, Found, Imports, Kind, Loader, Problem, Read, Script, Settings, SourceFile, UserValves,
};
use valvehouse_store::{Aside, Confirmed, Kv, LastGood, Seen, Store, StoreError, StoredValves, Switch, now};

/// By id.
type Plugins = BTreeMap<Arc<str>, Arc<Plugin>>;

/// The writer's memory between two looks.
pub(super) struct Reload {
    pub(super) plan: Arc<Plan>,
    loader: Loader,
    pub(super) store: Arc<dyn Store>,
    kv: Arc<Kv>,
    secrets: SecretGroup,
    pub(super) asking: Arc<Asking>,
    stored: Stored,
    /// Whose rows in the store are other ones than those that went live last.
    touched: HashSet<String>,
    /// What went live last was made of this.
    settled: Option<Settled>,
    /// What the native tools could reach at the last look, in their order.
    native_grants: Vec<Grants>,
    /// What calls have cost, by plugin: whichever version of it ran.
    figures: Mutex<HashMap<String, Arc<Figures>>>,
    /// The same of tools, by their names.
    uses: Tools,
    /// Last good versions that the store remembers, for files that do not load at the start.
    last_good: HashMap<String, LastGood>,
    /// The changes of guards that operators have confirmed.
    confirmed: Confirmations,
    /// Guards whose last good versions were taken from their histories.
    restored: HashSet<String>,
    /// The values of removed plugins that are set aside.
    aside: Vec<Aside>,
    /// New files under the ids of removed plugins, as long as the values of those are not set aside.
    strangers: HashSet<String>,
    /// It only looks, and writes nothing at all.
    pub(super) only_looks: bool,
    /// A snapshot is live that goes on meanwhile.
    is_serving: bool,
    /// Nothing is remembered and nothing was looked at: a file that cannot be read may be a guard's.
    knows_nothing: bool,
    /// Files that were gone at the last look: a save by rename leaves a gap.
    vanished: BTreeSet<Arc<str>>,
    /// Since when news wait for each other.
    waiting: Option<Instant>,
    /// When the look that was through last began, in milliseconds since 1970.
    looked_at: i64,
    /// The versions that are not run, since they ended the process.
    quarantine: Quarantine,
    /// Files that take long to compile.
    compiling: Compiling,
    /// Plugins whose histories went on while they were looked at: how they stand is written down by the next look.
    unwritten: BTreeSet<Arc<str>>,
}

/// What a look came to, once it was through: the same again is no news.
struct Settled {
    plan: Arc<Plan>,
    /// What was found in the folders of filters and of tools.
    found: [Arc<Found>; 2],
}

/// When what is under way is looked at again, and how long files may go on being saved.
pub(super) const NEXT_LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_millis(100);
/// The delay of the next look while a file is still being compiled.
pub(super) const WHILE_COMPILING: Duration = Duration::from_millis(25);
/// When a vanished file is looked for again.
const SECOND_LOOK: Duration = Duration::from_millis(150);

/// What the store says, as of a generation.
#[derive(Default)]
struct Stored {
    generation: Option<u64>,
    valves: HashMap<String, Json>,
    user_valves: HashMap<String, Vec<(String, Json)>>,
    switches: HashMap<String, Switch>,
    grants: HashMap<String, Grants>,
    /// The models that listed a guard which runs for those alone.
    guarded: HashMap<String, BTreeSet<String>>,
}

impl Stored {
    fn new(generation: u64, valves: Vec<StoredValves>, switches: Vec<Switch>) -> Self {
        let mut stored = Self { generation: Some(generation), ..Self::default() };
        for row in valves {
            match row.user {
                Some(user) => stored.user_valves.entry(row.plugin).or_default().push((user, row.values)),
                None => {
                    stored.valves.insert(row.plugin, row.values);
                }
            }
        }
        stored.switches = switches.into_iter().map(|switch| (switch.plugin.clone(), switch)).collect();
        stored
    }

    /// The plugins and native tools that these say something else of than those.
    fn unlike(&self, other: &Self) -> HashSet<String> {
        let parts = [
            unlike(&self.valves, &other.valves),
            unlike(&self.user_valves, &other.user_valves),
            unlike(&self.switches, &other.switches),
            unlike(&self.grants, &other.grants),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// The keys under which two maps have not the same.
fn unlike<T: PartialEq>(one: &HashMap<String, T>, other: &HashMap<String, T>) -> Vec<String> {
    let new = one.iter().filter(|(key, value)| other.get(*key) != Some(value)).map(|(key, _)| key);
    new.chain(other.keys().filter(|key| !one.contains_key(*key))).cloned().collect()
}

/// The outcome of a look for one plugin.
enum Next {
    Is(Arc<Plugin>, Option<Change>),
    Gone,
    /// Its file takes long to compile: until then it stays as it is.
    Later,
}

impl From<(Arc<Plugin>, Option<Change>)> for Next {
    fn from((plugin, change): (Arc<Plugin>, Option<Change>)) -> Self {
        Self::Is(plugin, change)
    }
}

/// What came of a look.
pub(super) struct Outcome {
    /// The next snapshot, when anything changed.
    pub(super) snapshot: Option<Snapshot>,
    pub(super) report: Report,
    /// The store's generation that is applied now; None while its news wait.
    pub(super) stored_generation: Option<u64>,
    /// Look again after this: something is about to come, or to come back.
    pub(super) again: Option<Duration>,
    /// Plugins whose files take long to compile: a look after [`WHILE_COMPILING`] may get them.
    pub(super) compiling: Vec<Arc<str>>,
}

impl Outcome {
    /// Nothing yet: what is on its way goes live together.
    fn later(again: Duration, generation: u64, began: Instant) -> Self {
        let report = Report { generation, changes: Vec::new(), took: began.elapsed() };
        Self { snapshot: None, report, stored_generation: None, again: Some(again), compiling: Vec::new() }
    }

    /// Everything is as it was.
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
    pub(super) async fn new(plan: Arc<Plan>, store: Arc<dyn Store>, kv: Arc<Kv>) -> Result<Self, StoreError> {
        let last_good: HashMap<String, LastGood> =
            store.last_good().await?.into_iter().map(|version| (version.id.clone(), version)).collect();
        let (last_good, restored) = guards::restored(last_good, store.doubted_guards().await?, &plan);
        Ok(Self {
            quarantine: Quarantine::of(&plan.project).and(&plan.quarantined),
            plan,
            loader: Loader::default(),
            store,
            kv,
            secrets: SecretGroup::default(),
            compiling: Compiling::default(),
            asking: Arc::default(),
            stored: Stored::default(),
            touched: HashSet::new(),
            settled: None,
            native_grants: Vec::new(),
            figures: Mutex::default(),
            uses: Tools::default(),
            is_serving: false,
            knows_nothing: last_good.is_empty(),
            last_good,
            confirmed: HashMap::new(),
            restored,
            aside: Vec::new(),
            strangers: HashSet::new(),
            only_looks: false,
            vanished: BTreeSet::new(),
            waiting: None,
            looked_at: 0,
            unwritten: BTreeSet::new(),
        })
    }

    /// Looks at folders and store, and writes only what it sets aside. A store that is away costs its news, not the
    /// folder's.
    pub(super) async fn look(&mut self, current: Option<&Snapshot>) -> Outcome {
        let (began, looked_at) = (Instant::now(), now());
        self.is_serving = current.is_some();
        if let Err(error) = self.read_store().await {
            tracing::warn!("going on with what is known of the store: {error}");
        }
        self.touched.extend(self.quarantine.refresh());
        let empty = BTreeMap::new();
        let before = current.map_or(&empty, |snapshot| &snapshot.plugins);
        let generation = current.map_or(0, |current| current.generation);
        let folders = aside(|| self.look_at_folders());
        if current.is_some() && self.is_settled(&folders) {
            (self.waiting, self.looked_at) = (None, looked_at);
            return Outcome::nothing_new(self.stored.generation.unwrap_or(0), generation, began);
        }
        let mut found = self.one_space(&folders, before);
        // Guards that nobody knows of yet may be in a folder that cannot be listed: it stands for them. Those that are
        // known go on without it.
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
            tracing::warn!("cannot tell new files from removed plugins of the same ids: {error}");
        }
        let is_known = |id: &str| {
            let runs = |plugin: &Arc<Plugin>| plugin.script.is_some() || plugin.state == State::Missing;
            before.get(id).is_some_and(runs)
                || self.last_good.get(id).is_some_and(|version| !version.source.is_empty())
        };
        let unreadable = guards::unreadable(&found, is_known);
        self.compiling.begin();
        let (mut plugins, mut changes) = aside(|| self.next_plugins(&found, &unreadable, before));
        let compiling = self.compiling.end();
        let unsettled = self.remember_vanished(&found, &unreadable, before, &mut plugins, &mut changes);
        if may_wait && unsettled {
            // At the next look what takes its place may be there: they go together.
            return Outcome::later(SECOND_LOOK, generation, began);
        }
        (self.waiting, self.looked_at) = (None, looked_at);
        self.add_lost_guards(&found, &mut plugins, &mut changes);
        changes.extend(self.newly_granted());
        let shelf = Shelf::new(&self.native_tools(), &plugins, &self.plan);
        let is_a_plugins = |problem: &&Problem| {
            plugins.get(&*problem.id).is_some_and(|plugin| plugin.state.problems().contains(problem))
        };
        let beside = found.problems.iter().filter(|problem| !is_a_plugins(problem));
        let aside = self.problems_of_aside(&plugins);
        let others = shelf.problems.iter().chain(&self.plan.problems).chain(&aside);
        let problems: Vec<Problem> = beside.chain(others).cloned().collect();
        let known = current.map(|current| current.problems.as_slice()).unwrap_or_default();
        changes.extend(unknown(&problems, known).cloned().map(Change::Problem));
        let problems_gone = current.is_some_and(|current| current.problems != problems);
        let replanned = current.is_some_and(|current| !current.is_of(&self.plan));

        // A file that is missed is looked for again, and whether its removal is confirmed.
        let is_missed = unsettled || plugins.values().any(|plugin| plugin.state == State::Missing);
        let snapshot = (current.is_none() || !changes.is_empty() || problems_gone || replanned).then(|| {
            let tools = shelf.tools.into_iter().map(|tool| {
                let figures = self.uses.of(tool.name());
                tool.counting(figures)
            });
            Snapshot::new(generation + 1, plugins, problems, tools.collect(), self.plan.clone())
        });
        let generation = snapshot.as_ref().map_or(generation, |snapshot| snapshot.generation);
        self.touched.clear();
        self.knows_nothing = false;
        self.settled =
            (!is_missed && compiling.is_empty()).then(|| Settled { plan: self.plan.clone(), found: folders });
        Outcome {
            snapshot,
            report: Report { generation, changes, took: began.elapsed() },
            stored_generation: compiling.is_empty().then(|| self.stored.generation.unwrap_or(0)),
            again: unsettled.then_some(SECOND_LOOK),
            compiling,
        }
    }

    /// Whether the folders and the store are as they were when everything went live.
    fn is_settled(&self, folders: &[Arc<Found>; 2]) -> bool {
        let is_same = |settled: &Settled| {
            let mut both = settled.found.iter().zip(folders);
            Arc::ptr_eq(&settled.plan, &self.plan) && both.all(|(then, now)| Arc::ptr_eq(then, now))
        };
        self.touched.is_empty() && self.settled.as_ref().is_some_and(is_same)
    }

    /// Every plugin as it is next, and what is new about them.
    fn next_plugins(
        &self,
        found: &Found,
        unreadable: &BTreeMap<Arc<str>, &Problem>,
        before: &Plugins,
    ) -> (Plugins, Vec<Change>) {
        // They come in order already: of that, sorting makes one.
        let mut ids: Vec<&Arc<str>> =
            found.files.keys().chain(before.keys()).chain(unreadable.keys()).collect();
        ids.sort();
        ids.dedup();
        let obeys_the_plan =
            self.settled.as_ref().is_some_and(|settled| Arc::ptr_eq(&settled.plan, &self.plan));
        let (mut plugins, mut changes, mut others) = (Vec::with_capacity(ids.len()), Vec::new(), Vec::new());
        for id in ids {
            let read = found.files.get(id);
            let known = before.get(id);
            let is_as_it_was = match (read, known) {
                (Some(read), Some(known)) => {
                    obeys_the_plan && !self.touched.contains(&**id) && known.is_of(read)
                }
                // Not found where nothing could be looked for: it stays as it is.
                (None, Some(known)) => !unreadable.contains_key(id) && found.leaves_open(&known.path),
                (_, None) => false,
            };
            match known.filter(|_| is_as_it_was) {
                Some(known) => plugins.push((id.clone(), known.clone())),
                None => others.push((id, read.ok_or(unreadable.get(id).copied()), known)),
            }
        }
        let next = |(id, read, known): &(&Arc<str>, Result<&Arc<Read>, _>, _)| {
            self.next(id, read.map(|read| &**read), *known, found)
        };
        // Who serves already does that with the other processors.
        let next: Vec<_> = match before.is_empty() {
            true => crowd::each(&others, next),
            false => others.iter().map(next).collect(),
        };
        for ((id, _, known), next) in others.into_iter().zip(next) {
            match next {
                Next::Is(plugin, change) => {
                    plugins.push((id.clone(), plugin));
                    changes.extend(change);
                }
                Next::Gone => changes.push(Change::Removed(id.clone())),
                Next::Later => plugins.extend(known.map(|known| (id.clone(), known.clone()))),
            }
        }
        (plugins.into_iter().collect(), changes)
    }

    /// Native tools that reach something else than before: no file of theirs could tell.
    fn newly_granted(&mut self) -> Vec<Change> {
        let now: Vec<Grants> = builtin::GUARDED.iter().map(|(id, _)| self.grants(id)).collect();
        let before = std::mem::replace(&mut self.native_grants, now);
        let both = builtin::GUARDED.iter().zip(&self.native_grants).zip(before);
        let changed = both.filter(|((_, now), before)| *now != before);
        changed.map(|(((id, _), _), _)| Change::Settings((*id).into())).collect()
    }

    /// The first generation where there is nothing at all.
    pub(super) fn empty(&self) -> Snapshot {
        Snapshot::new(1, BTreeMap::new(), Vec::new(), Vec::new(), self.plan.clone())
    }

    /// Both folders as they are now.
    fn look_at_folders(&mut self) -> [Arc<Found>; 2] {
        [Kind::Filter, Kind::Tool].map(|kind| self.loader.look_again(kind, self.plan.folder(kind)))
    }

    /// Both folders in one. A tool's file never takes the place of a filter: ids are one space, since
    /// operators name plugins by them, and a guard could drop out so.
    fn one_space(&self, folders: &[Arc<Found>; 2], before: &Plugins) -> Found {
        let [filters, mut tools] = folders.each_ref().map(|found| Found::clone(found));
        let unread: HashSet<&str> = filters.problems.iter().map(|problem| &*problem.id).collect();
        let is_taken = |id: &str| {
            let filter = before.get(id).filter(|plugin| plugin.kind == Kind::Filter);
            filters.files.contains_key(id)
                || unread.contains(id)
                || filter.is_some_and(|filter| filter.security || filters.leaves_open(&filter.path))
                || self.last_good.get(id).is_some_and(|version| version.security)
        };
        // What is wrong with a tool's file is no problem of the filter's.
        tools
            .problems
            .iter_mut()
            .filter(|problem| is_taken(&problem.id))
            .for_each(|problem| problem.id.clear());
        let taken: Vec<Arc<str>> = tools.files.keys().filter(|id| is_taken(id)).cloned().collect();
        for id in taken {
            if let Some(read) = tools.files.remove(&id) {
                let what = format!("`{id}` is the id of a filter; this tool is not used");
                let problem = Problem::new(Code::SameId, "", &read.file.path, what);
                tools.problems.push(problem.help("rename one of the two files"));
            }
        }
        filters.and(tools)
    }

    /// Tools that are no scripts, as far as they are granted.
    fn native_tools(&self) -> Vec<Tool> {
        let own = builtin::tools(&|id| self.grants(id), &self.kv);
        own.into_iter().chain(self.plan.native_tools.iter().cloned()).collect()
    }

    pub(super) async fn read_store(&mut self) -> Result<(), StoreError> {
        // The number first: a change in between costs one more look and is never missed.
        let generation = self.store.generation().await?;
        if self.stored.generation != Some(generation) {
            let valves = self.store.all_valves().await?;
            guards::check_sealed(&valves, &self.last_good)?;
            let switches = self.store.switches().await?;
            let grants = self.read_grants().await;
            let mut confirmed = Confirmations::new();
            for (id, what) in self.store.confirmed().await? {
                confirmed.entry(id).or_default().insert(what);
            }
            let last_good = self.store.last_good().await?;
            let aside = self.store.set_aside().await?;
            let mut guarded: HashMap<String, BTreeSet<String>> = HashMap::new();
            for (id, model) in self.store.guarded_models().await? {
                guarded.entry(id).or_default().insert(model);
            }
            let stored = Stored { grants, guarded, ..Stored::new(generation, valves, switches) };
            self.touched.extend(stored.unlike(&self.stored));
            self.touched.extend(unlike(&confirmed, &self.confirmed));
            self.follow_aside(aside);
            self.confirmed = confirmed;
            let last_good: HashMap<String, LastGood> =
                last_good.into_iter().map(|version| (version.id.clone(), version)).collect();
            let doubted = match guards::has_lost(&self.last_good, &last_good) {
                true => self.store.doubted_guards().await?,
                false => Vec::new(),
            };
            let (last_good, restored) = guards::restored(last_good, doubted, &self.plan);
            self.restored = restored;
            let last_good = self.with_known_guards(last_good);
            self.touched.extend(unlike(&last_good, &self.last_good));
            (self.stored, self.last_good) = (stored, last_good);
        }
        Ok(())
    }

    /// What is granted by command. What cannot be read grants nothing, and is said.
    async fn read_grants(&self) -> HashMap<String, Grants> {
        let rows = self.store.grants().await.unwrap_or_else(|error| {
            tracing::warn!("no stored grant counts: {error}");
            Vec::new()
        });
        let read = |(id, row): (String, Json)| match Grants::from_json(&row, &self.plan.project) {
            Ok(grants) => Some((id, grants)),
            Err(wrong) => {
                tracing::warn!(
                    "the stored grants of {id} do not count: {}; put them right: valvehouse grant {id} --revoke",
                    wrong.join("; ")
                );
                None
            }
        };
        rows.into_iter().filter_map(read).collect()
    }

    /// What a plugin or native tool may reach, by the configuration and the store.
    fn grants(&self, id: &str) -> Grants {
        let configured = self.plan.grants.get(id).cloned().unwrap_or_default();
        self.stored_for(&self.stored.grants, id).map_or(configured.clone(), |stored| configured.merge(stored))
    }

    /// Returns the stored values of a plugin; `None` if they may belong to a removed one of the same id.
    fn stored_for<'a, T>(&self, stored: &'a HashMap<String, T>, id: &str) -> Option<&'a T> {
        stored.get(id).filter(|_| !self.strangers.contains(id))
    }

    /// A plugin as it is next: unchanged, compiled anew, or kept although its file does not load or would
    /// weaken a guard.
    fn next(
        &self,
        id: &Arc<str>,
        read: Result<&Read, Option<&Problem>>,
        before: Option<&Arc<Plugin>>,
        found: &Found,
    ) -> Next {
        let given = self.given(id);
        let read = match read {
            Ok(read) => read,
            Err(Some(problem)) => {
                let kept = self.keep(id, problem.path.clone(), vec![problem.clone()], before, given);
                return self.compared(kept, before).into();
            }
            Err(None) => {
                // Gone, or a guard that stays missed.
                let Some(plugin) = before.filter(|_| self.is_guard(id, before)) else { return Next::Gone };
                if self.is_confirmed(id, &Confirmed::Gone) || self.has_moved(id, found) {
                    return Next::Gone;
                }
                let missing = Plugin { state: State::Missing, pending: None, ..(**plugin).clone() };
                return self.compared(self.switched(missing), before).into();
            }
        };
        if let Some(before) = before
            && before.is_of(read)
            && before.given == given
            && before.pending.is_none()
            && !self.is_held_on(id)
            && !self.is_held_wide(id)
            && self.models_lost_by(id).is_empty()
        {
            let same = self.switched((**before).clone());
            return self.compared(same, Some(before)).into();
        }
        let Some(compiled) = self.compile_soon(read, &given) else { return Next::Later };
        let next = match compiled {
            Ok(script) => self.loaded(read, script, before, given, found),
            Err(problems) => {
                let kept = self.keep(id, read.file.path.clone(), problems, before, given);
                Plugin { hash: read.hash.clone(), ..kept }
            }
        };
        self.compared(next, before).into()
    }

    /// A file that loads: it runs, unless a guard would be lost by that.
    fn loaded(
        &self,
        read: &Read,
        script: Script,
        before: Option<&Arc<Plugin>>,
        given: Given,
        found: &Found,
    ) -> Plugin {
        let id = &read.file.id;
        match self.weakened(id, read, &script, before, found) {
            Some(Weakened { problem, pending, by: Cause::Settings }) => {
                let live = self.live(read, script, given);
                Plugin { state: State::Stale(vec![problem]), pending: Some(pending), ..live }
            }
            Some(Weakened { problem, pending, by: Cause::File }) => {
                let path =
                    self.baseline(id, before).map_or_else(|| read.file.path.clone(), |known| known.path);
                let kept = self.keep(id, path, vec![problem], before, given);
                Plugin { hash: read.hash.clone(), pending: Some(pending), ..kept }
            }
            None if self.is_guard(id, before) => self.live(read, script, given),
            None => match guards::shadowed_guard(read, found) {
                Some(guard) => {
                    let path = guard.file.path.clone();
                    let what = format!("{} has the id of this guard", read.file.path.display());
                    let problem = Problem::new(Code::SameId, id, &path, what);
                    let kept = self.keep(id, path, vec![problem.help("rename one of the two")], None, given);
                    Plugin { hash: read.hash.clone(), ..kept }
                }
                None => self.live(read, script, given),
            },
        }
    }

    /// What operators give a plugin now.
    pub(super) fn given(&self, id: &str) -> Given {
        let valves = self.stored_for(&self.stored.valves, id).cloned().unwrap_or_default();
        let plans = [Kind::Filter, Kind::Tool].map(|kind| self.plan.plugin(kind, id).settings);
        let configured = Configured {
            budgets: plans.each_ref().map(|plan| [plan.stream, plan.hook, plan.tool]),
            valves: plans.map(|plan| plan.configured),
            breaker: self.plan.breaker,
        };
        let quarantined = self.quarantine.of_plugin(id);
        Given { valves, grants: self.grants(id), configured: Some(configured), quarantined }
    }

    pub(super) fn compile(&self, file: &SourceFile, given: &Given) -> Result<Script, Vec<Problem>> {
        Problem::of_quarantine(file, &given.quarantined).map_or(Ok(()), |problem| Err(vec![problem]))?;
        Script::compile(file, &self.settings_of(file, given))
    }

    /// The same of a file that a look found; returns `None` if it takes long, and a later look gets the script.
    fn compile_soon(&self, read: &Read, given: &Given) -> Option<Result<Script, Vec<Problem>>> {
        // Before anything is live nothing can be delayed.
        if !self.is_serving {
            return Some(self.compile(&read.file, given));
        }
        if let Some(problem) = Problem::of_quarantine(&read.file, &given.quarantined) {
            return Some(Err(vec![problem]));
        }
        self.compiling.soon(read, given, &self.plan, &self.settings_of(&read.file, given))
    }

    fn settings_of(&self, file: &SourceFile, given: &Given) -> Settings {
        Settings {
            stored: given.valves.clone(),
            grants: given.grants.clone(),
            kv: self.kv.clone(),
            secrets: self.secrets.clone(),
            models: Some(self.asking.clone()),
            figures: self.figures.lock().entry(file.id.to_string()).or_default().clone(),
            breaker: self.plan.breaker,
            is_served: true,
            ..self.plan.plugin(file.kind, &file.id).settings
        }
    }

    fn live(&self, read: &Read, script: Script, given: Given) -> Plugin {
        let kind = read.file.kind;
        let security = script.manifest.security && kind == Kind::Filter;
        let global = script.manifest.global;
        self.switched(Plugin {
            id: read.file.id.clone(),
            kind,
            path: read.file.path.clone(),
            script: Some(Arc::new(script)),
            state: State::Live,
            hash: read.hash.clone(),
            pending: None,
            security,
            global,
            enabled: true,
            users: Arc::default(),
            given,
            held_for: Arc::default(),
            acts: Kept::default(),
            brings: Kept::default(),
        })
    }

    /// The last good version in place of a file that does not load; without one, nothing runs.
    fn keep(
        &self,
        id: &Arc<str>,
        path: PathBuf,
        problems: Vec<Problem>,
        before: Option<&Arc<Plugin>>,
        given: Given,
    ) -> Plugin {
        let kind = self.plan.kind_of(&path);
        let before = before.filter(|before| before.kind == kind);
        let recompiled = |file: &SourceFile| self.compile(file, &given).ok().map(Arc::new);
        let script = match before.and_then(|before| before.script.as_ref()) {
            Some(script) if before.is_some_and(|before| before.given == given) => Some(script.clone()),
            // What was taken back is taken back, from what runs as well.
            Some(script) => recompiled(&script.file).or_else(|| {
                let is_allowed = |before: &Arc<Plugin>| {
                    before.given.grants == given.grants && before.given.quarantined == given.quarantined
                };
                before.is_some_and(is_allowed).then(|| script.clone())
            }),
            None => {
                self.last_good.get(&**id).filter(|version| guards::has_loaded(version)).and_then(|version| {
                    let imports = Imports::from_json(&version.imports, self.plan.folder(kind));
                    let file = SourceFile::new(kind, id.clone(), &path, version.source.as_str());
                    recompiled(&file.importing(imports))
                })
            }
        };
        let said = valvehouse_script::beginning(&path);
        let (claims, is_global) = match kind {
            Kind::Filter => valvehouse_script::says_of_itself(&said),
            Kind::Tool => (false, true),
        };
        // A version that was no guard does not stand in for one.
        let script = script.filter(|script| script.manifest.security || !claims);
        let (security, global) = match (&script, self.last_good.get(&**id)) {
            (Some(script), _) => (script.manifest.security, script.manifest.global),
            (None, Some(version)) if version.security => {
                (true, valvehouse_script::says_of_itself(&version.source).1)
            }
            (None, known) => {
                // What nobody can read may be a guard.
                let was_unread = before.is_some_and(|before| before.security && before.script.is_none());
                let is_unread = known.is_none()
                    && (self.knows_nothing || was_unread)
                    && problems.iter().any(|one| one.code == Code::Unreadable);
                (claims || is_unread || self.is_guard(id, before), is_global)
            }
        };
        self.switched(Plugin {
            id: id.clone(),
            kind,
            path,
            state: if script.is_some() { State::Stale(problems) } else { State::Broken(problems) },
            script,
            hash: "".into(),
            pending: None,
            security: security && kind == Kind::Filter,
            global,
            enabled: true,
            users: Arc::default(),
            given,
            held_for: Arc::default(),
            acts: Kept::default(),
            brings: Kept::default(),
        })
    }

    /// With the operator's switches and the users' valves as they are stored now.
    fn switched(&self, mut plugin: Plugin) -> Plugin {
        let switch = self.stored_for(&self.stored.switches, &plugin.id);
        let is_on = switch.and_then(|switch| switch.enabled);
        plugin.enabled = is_on.unwrap_or_else(|| self.plan.is_enabled(plugin.kind, &plugin.id))
            || self.is_held_on(&plugin.id);
        if let Some(script) = &plugin.script {
            plugin.global = switch.and_then(|switch| switch.global).unwrap_or(script.manifest.global)
                || self.is_held_wide(&plugin.id) && script.manifest.global;
            if plugin.security && !plugin.global {
                plugin.held_for = self.models_lost_by(&plugin.id).into();
            }
            if let Some(schema) = &script.manifest.user_valves {
                let rows = self
                    .stored_for(&self.stored.user_valves, &plugin.id)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let effective = |values: &Json| schema.effective(&[values]).0.freeze();
                plugin.users = Arc::new(UserValves {
                    by_user: rows.iter().map(|(user, values)| (user.clone(), effective(values))).collect(),
                    default: effective(&Json::Null),
                });
            }
        }
        plugin
    }

    /// The plugin, and what is new about it. What is not new keeps its old pointer.
    fn compared(&self, next: Plugin, before: Option<&Arc<Plugin>>) -> (Arc<Plugin>, Option<Change>) {
        let id = next.id.clone();
        let Some(before) = before else {
            let change = match &next.state {
                State::Live => Change::Loaded(id),
                State::Stale(problems) => Change::Stale(id, problems.clone()),
                State::Broken(problems) => Change::Broken(id, problems.clone()),
                State::Missing => Change::Missing(id),
            };
            return (Arc::new(next), Some(change));
        };
        let change = match (&before.state, &next.state) {
            (_, State::Live) if before.hash != next.hash || before.path != next.path => {
                Some(Change::Updated(id))
            }
            (old, State::Live) if *old != State::Live => Some(Change::Updated(id)),
            (_, State::Stale(problems)) if before.pending != next.pending => {
                Some(Change::Stale(id, problems.clone()))
            }
            (_, State::Broken(problems)) if before.security != next.security => {
                Some(Change::Broken(id, problems.clone()))
            }
            (old, State::Stale(problems)) if *old != next.state => Some(Change::Stale(id, problems.clone())),
            (old, State::Broken(problems)) if *old != next.state => {
                Some(Change::Broken(id, problems.clone()))
            }
            (old, State::Missing) if *old != State::Missing => Some(Change::Missing(id)),
            _ if before.given != next.given
                || before.users.by_user != next.users.by_user
                || before.enabled != next.enabled
                || before.security != next.security
                || before.pending != next.pending
                || before.global != next.global
                || before.held_for != next.held_for =>
            {
                Some(Change::Settings(id))
            }
            _ => None,
        };
        match change {
            None if before.hash == next.hash => (before.clone(), None),
            change => (Arc::new(next), change),
        }
    }

    /// A file that is gone for the first time may be on its way back: it keeps running until the
    /// next look.
    fn remember_vanished(
        &mut self,
        found: &Found,
        unreadable: &BTreeMap<Arc<str>, &Problem>,
        before: &Plugins,
        plugins: &mut Plugins,
        changes: &mut Vec<Change>,
    ) -> bool {
        let mut gone = BTreeSet::new();
        for (id, plugin) in before {
            let known = found.files.contains_key(id) || unreadable.contains_key(id);
            if known || found.leaves_open(&plugin.path) || plugin.state == State::Missing {
                continue;
            }
            if !self.vanished.contains(id) {
                gone.insert(id.clone());
                plugins.insert(id.clone(), plugin.clone());
                changes.retain(|change| change.id() != Some(&**id));
            }
        }
        self.vanished = gone;
        !self.vanished.is_empty()
    }

    /// Guards whose files went away while no host ran.
    fn add_lost_guards(&self, found: &Found, plugins: &mut Plugins, changes: &mut Vec<Change>) {
        for version in self.last_good.values().filter(|version| guards::is_guards(version)) {
            let is_known = plugins.contains_key(version.id.as_str());
            if is_known
                || self.is_confirmed(&version.id, &Confirmed::Gone)
                || self.has_moved(&version.id, found)
            {
                continue;
            }
            let id: Arc<str> = version.id.as_str().into();
            let (_, global) = valvehouse_script::says_of_itself(&version.source);
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
                enabled: true,
                users: Arc::default(),
                given: Given::default(),
                held_for: Arc::default(),
                acts: Kept::default(),
                brings: Kept::default(),
            };
            plugins.insert(id.clone(), Arc::new(self.switched(plugin)));
            changes.push(Change::Missing(id));
        }
    }

    /// Files that went away while no host ran; guards are missed by themselves.
    pub(super) async fn record_lost(&mut self, snapshot: &Snapshot) {
        let spans = self.store.spans().await.unwrap_or_default().into_iter();
        let unknown = spans.filter(|span| !span.is_gone && !snapshot.plugins.contains_key(&*span.plugin));
        let lost: BTreeSet<Arc<str>> = unknown.map(|span| span.plugin.into()).collect();
        // In a folder that cannot be listed they may well be there.
        if self.plan.folders().iter().all(|folder| folder.read_dir().is_ok() || !folder.exists()) {
            self.record(snapshot, lost).await;
        }
    }

    /// Writes down how these plugins stand, and those for which it was too late the last time.
    async fn record(&mut self, snapshot: &Snapshot, mut ids: BTreeSet<Arc<str>>) {
        ids.append(&mut self.unwritten);
        if ids.is_empty() {
            return;
        }
        let seen: Vec<Seen> = ids.iter().filter_map(|id| seen(snapshot, id, self.looked_at)).collect();
        match self.store.record(&seen).await {
            Ok(late) => self.unwritten = late.into_iter().map(Arc::from).collect(),
            Err(error) => tracing::warn!("what changed is missing in the histories of plugins: {error}"),
        }
    }

    /// Whether something is still to be written down: a look that comes soon does it.
    pub(super) fn is_behind(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Remembers what loaded, forgets what is gone, and writes both down in their histories.
    pub(super) async fn save(&mut self, snapshot: &Snapshot, changes: &[Change]) {
        let of_files =
            |change: &&Change| matches!(change, Change::Loaded(_) | Change::Updated(_) | Change::Removed(_));
        let ids = changes.iter().filter(of_files).filter_map(Change::id).map(Arc::from).collect();
        self.record(snapshot, ids).await;
        let mut good = Vec::new();
        for change in changes {
            if let Change::Loaded(id) | Change::Updated(id) = change
                && let Some(plugin) = snapshot.plugins.get(id)
                && let (State::Live, Some(script)) = (&plugin.state, &plugin.script)
            {
                let known = self.last_good.get(&**id).is_some_and(|version| version.hash == *plugin.hash);
                if !known {
                    good.push(LastGood {
                        id: id.to_string(),
                        path: plugin.path.display().to_string(),
                        hash: plugin.hash.to_string(),
                        source: script.file.text.to_string(),
                        imports: script.file.imports.to_json(),
                        security: plugin.security,
                        saved_at: now(),
                    });
                }
            }
        }
        let broken = changes.iter().filter_map(|change| snapshot.plugins.get(change.id()?));
        good.extend(broken.filter_map(|plugin| self.unloaded(plugin)));
        self.save_switched_off(&good).await;
        self.save_guarded_models(snapshot).await;
        if !good.is_empty() {
            if let Err(error) = self.store.save_last_good(&good).await {
                tracing::warn!("last good versions are not remembered across a restart: {error}");
            }
            for version in good.iter().filter(|version| version.security) {
                // As in the store: what was confirmed of an earlier version says nothing of this one.
                if let Some(confirmed) = self.confirmed.get_mut(&version.id) {
                    confirmed.retain(|what| matches!(what, Confirmed::Off | Confirmed::Narrow));
                }
            }
            self.last_good.extend(good.into_iter().map(|version| (version.id.clone(), version)));
        }
        for change in changes {
            if let Change::Removed(id) = change {
                self.last_good.remove(&**id);
                if let Err(error) = self.store.forget_last_good(id).await {
                    tracing::warn!(plugin = &**id, "its last good version is not forgotten: {error}");
                }
            }
        }
    }
}

/// A plugin's file as it was found: what is in it, where it loads, or that it is gone.
fn seen(snapshot: &Snapshot, id: &str, at: i64) -> Option<Seen> {
    let source = match snapshot.plugins.get(id) {
        Some(plugin) if plugin.state == State::Live => {
            let text = plugin.script.as_ref()?.file.text.clone();
            Some(snapshot.plan().source(plugin, text))
        }
        Some(_) => return None,
        None => None,
    };
    Some(Seen { plugin: id.to_owned(), source, at })
}

/// Does what may take a while, such as compiling, without holding up the turns of this thread.
pub(super) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread to go on.
        _ => work(),
    }
}

/// The problems that are not among those that are known.
fn unknown<'a>(problems: &'a [Problem], known: &[Problem]) -> impl Iterator<Item = &'a Problem> {
    let mut by_path: HashMap<&Path, Vec<&Problem>> = HashMap::new();
    for problem in known {
        by_path.entry(&problem.path).or_default().push(problem);
    }
    let is_known =
        move |problem: &&Problem| by_path.get(&*problem.path).is_some_and(|known| known.contains(problem));
    problems.iter().filter(move |problem| !is_known(problem)).collect::<Vec<_>>().into_iter()
}
