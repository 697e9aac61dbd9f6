//! The state of the writer between two scans, and its results for a single plugin.

use super::compiler::Compiler;
use super::last_good::restored;
use super::rows::{Confirmations, StoreRows};
use super::scripts::{RefusedGeneration, Scripts, Undo};
use crate::background::AfterAnswers;
use crate::builtin;
use crate::models::ScriptModels;
use crate::plan::Plan;
use crate::plugin::{OperatorSettings, Plugins, ScriptSettings};
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;
use valvehouse_config::Grants;
use valvehouse_core::metrics::Tools;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_script::crash::Quarantine;
use valvehouse_script::{
    Diagnostic, FolderScan, Kind, Lists, LoadedFile, Loader, ScheduledCall, Script, Settings, SourceFile,
};
use valvehouse_store::{Aside, Kv, LastGood, Store, StoreError, VectorIndex};

/// The writer's memory between two looks.
pub(crate) struct Reload {
    pub(crate) plan: Arc<Plan>,
    pub(super) loader: Loader,
    pub(crate) store: Arc<dyn Store>,
    pub(super) compiler: Compiler,
    pub(super) stored: StoreRows,
    /// Plugins whose stored rows changed since the last snapshot.
    pub(super) touched: HashSet<String>,
    /// The plan and the files that the last snapshot was made of.
    pub(super) settled: Option<PriorLook>,
    /// The grants of the native tools at the last look, in their order.
    pub(super) native_grants: Vec<Grants>,
    /// The costs of calls of tools, by their names.
    pub(super) uses: Tools,
    /// Last good versions that the store remembers, for files that do not load at the start.
    pub(super) last_good: HashMap<String, LastGood>,
    /// The changes of guards that operators have confirmed.
    pub(super) confirmed: Confirmations,
    /// Guards whose last good versions were taken from their histories.
    pub(super) restored: HashSet<String>,
    /// The values of removed plugins that are set aside.
    pub(super) aside: Vec<Aside>,
    /// New files under the ids of removed plugins, as long as the values of those are not set aside.
    pub(super) strangers: HashSet<String>,
    /// It only looks, and writes nothing at all.
    pub(crate) only_looks: bool,
    /// A snapshot that stays live meanwhile.
    pub(super) is_serving: bool,
    /// Nothing is remembered and nothing was looked at: a file that cannot be read may be a guard's.
    pub(super) knows_nothing: bool,
    /// The store was away at the last look.
    pub(crate) is_away: bool,
    /// Plugins whose last good versions are not in the store yet.
    pub(super) unsaved: HashSet<String>,
    /// Files that were gone at the last look: a save by rename leaves a gap.
    pub(super) vanished: BTreeSet<Arc<str>>,
    /// The time at which the first of the collected changes was found.
    pub(super) waiting: Option<Instant>,
    /// The start of the look that was through last, in milliseconds since 1970.
    pub(super) looked_at: i64,
    /// The versions that are not run, since they ended the process.
    pub(super) quarantine: Quarantine,
    /// The lists that functions of plugins returned when they were called last.
    pub(super) lists: HashMap<String, Lists>,
    /// The functions that failed when they were called last, and why.
    pub(super) failing: BTreeMap<(String, ScheduledCall), String>,
    /// Plugins whose histories went on while they were looked at: how they stand is written down by the next look.
    pub(super) unwritten: BTreeSet<Arc<str>>,
    /// The scripts of the store; `None` where they come from folders.
    pub(super) scripts: Option<Scripts>,
    /// The state before the scripts that are tried now.
    pub(super) undo: Option<Box<Undo>>,
    /// The latest generation of the store, where this host does not take it.
    pub(crate) refused: Option<RefusedGeneration>,
}

/// The input of a look that is through: the same again is not new.
pub(super) struct PriorLook {
    pub(super) plan: Arc<Plan>,
    /// The files in the folders of filters, tools and actions.
    pub(super) found: [Arc<FolderScan>; 3],
}

impl Reload {
    pub(crate) async fn new(plan: Arc<Plan>, store: Arc<dyn Store>, kv: Arc<Kv>) -> Result<Self, StoreError> {
        let last_good: HashMap<String, LastGood> =
            store.last_good().await?.into_iter().map(|version| (version.id.clone(), version)).collect();
        let (last_good, restored) = restored(last_good, store.doubted_guards().await?, &plan);
        Ok(Self {
            quarantine: Quarantine::of(&plan.project).and(&plan.quarantined),
            plan,
            loader: Loader::default(),
            compiler: Compiler::new(kv, &store),
            store,
            stored: StoreRows::default(),
            touched: HashSet::new(),
            settled: None,
            native_grants: Vec::new(),
            uses: Tools::default(),
            is_serving: false,
            knows_nothing: last_good.is_empty(),
            last_good,
            confirmed: HashMap::new(),
            restored,
            aside: Vec::new(),
            strangers: HashSet::new(),
            only_looks: false,
            is_away: false,
            unsaved: HashSet::new(),
            vanished: BTreeSet::new(),
            waiting: None,
            looked_at: 0,
            lists: HashMap::new(),
            failing: BTreeMap::new(),
            unwritten: BTreeSet::new(),
            scripts: None,
            undo: None,
            refused: None,
        })
    }

    /// The first generation where there is nothing at all.
    pub(crate) fn empty(&self) -> Snapshot {
        Snapshot::new(1, BTreeMap::new(), Vec::new(), Vec::new(), self.plan.clone())
    }

    /// Tools that are not scripts, as far as they are granted.
    pub(super) fn native_tools(&self) -> Vec<Tool> {
        let own = builtin::tools(&|id| self.grants(id), &self.compiler.kv);
        let further = self.plan.native_tools.iter().chain(&self.plan.mounted.tools);
        own.into_iter().chain(further.cloned()).collect()
    }

    /// Returns the grants of a plugin or native tool, by the configuration and the store.
    pub(super) fn grants(&self, id: &str) -> Grants {
        let configured = self.plan.grants.get(id).cloned().unwrap_or_default();
        self.stored_for(&self.stored.grants, id).map_or(configured.clone(), |stored| configured.merge(stored))
    }

    /// Returns the stored values of a plugin; `None` if they may belong to a removed one of the same id.
    pub(super) fn stored_for<'a, T>(&self, stored: &'a HashMap<String, T>, id: &str) -> Option<&'a T> {
        stored.get(id).filter(|_| !self.strangers.contains(id))
    }

    /// Returns what operators give a plugin now.
    pub(crate) fn given(&self, id: &str) -> OperatorSettings {
        let valves = self.stored_for(&self.stored.valves, id).cloned().unwrap_or_default();
        let plans = Kind::ALL.map(|kind| self.plan.plugin(kind, id).settings);
        let configured = ScriptSettings {
            budgets: plans.each_ref().map(|plan| [plan.stream, plan.hook, plan.tool]),
            valves: plans.map(|plan| plan.configured),
            breaker: self.plan.breaker,
        };
        let quarantined = self.quarantine.of_plugin(id);
        let lists = self.lists.get(id).map_or_else(Lists::default, Clone::clone);
        OperatorSettings { valves, grants: self.grants(id), configured: Some(configured), quarantined, lists }
    }

    /// Takes the list that a function of a plugin returned, or the reason for which its call failed; returns `true` if that
    /// is news for the next look.
    pub(crate) fn set_list(&mut self, id: &str, what: ScheduledCall, result: Result<Json, String>) -> bool {
        let key = (id.to_owned(), what);
        let is_news = match result {
            Err(why) => {
                self.failing.get(&key) != Some(&why) && {
                    self.failing.insert(key, why);
                    true
                }
            }
            Ok(list) => {
                let recovered = self.failing.remove(&key).is_some();
                let lists = self.lists.entry(id.to_owned()).or_default();
                let differs = what != ScheduledCall::Tick && lists.get(what) != Some(&list);
                if differs {
                    lists.set(what, list);
                }
                recovered || differs
            }
        };
        if is_news {
            self.touched.insert(id.to_owned());
        }
        is_news
    }

    /// Forgets the lists of plugins that are gone: another one may take the id.
    pub(super) fn forget_lists(&mut self, plugins: &Plugins) {
        self.lists.retain(|id, _| plugins.contains_key(id.as_str()));
        self.failing.retain(|(id, _), _| plugins.contains_key(id.as_str()));
    }

    /// The problems of functions that failed when they were called last.
    pub(super) fn problems_of_schedule(&self, plugins: &Plugins) -> Vec<Diagnostic> {
        let problem = |((id, what), why): (&(String, ScheduledCall), &String)| {
            let script = plugins.get(id.as_str())?.script.as_ref()?;
            let is_there = script.scheduled().iter().any(|(scheduled, _)| scheduled == what);
            is_there.then(|| Diagnostic::of_scheduled(&script.file, *what, why))
        };
        self.failing.iter().filter_map(problem).collect()
    }

    /// Returns the way from scripts to the models of their host.
    pub(crate) fn asking(&self) -> Arc<ScriptModels> {
        self.compiler.asking.clone()
    }

    /// Returns the vectors of scripts and the memories of users.
    pub(crate) fn vectors(&self) -> VectorIndex {
        self.compiler.vectors.clone()
    }

    /// Returns the queue of what scripts do after answers.
    pub(crate) fn after(&self) -> Arc<AfterAnswers> {
        self.compiler.after.clone()
    }

    /// Returns the settings with which a file is compiled now.
    pub(crate) fn settings_of(&self, file: &SourceFile, given: &OperatorSettings) -> Settings {
        self.compiler.settings_of(&self.plan, file, given)
    }

    pub(crate) fn compile(
        &self,
        file: &SourceFile,
        given: &OperatorSettings,
    ) -> Result<Script, Vec<Diagnostic>> {
        self.compiler.compile(&self.plan, file, given)
    }

    /// The same of a file that a look found; returns `None` if it takes long, and a later look gets the script.
    pub(super) fn compile_soon(
        &self,
        read: &LoadedFile,
        given: &OperatorSettings,
    ) -> Option<Result<Script, Vec<Diagnostic>>> {
        // Before anything is live nothing can be delayed.
        if !self.is_serving {
            return Some(self.compile(&read.file, given));
        }
        self.compiler.compile_soon(&self.plan, read, given)
    }
}
