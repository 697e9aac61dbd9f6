//! The state of the writer between two scans, and its results for a single plugin.

use super::compiler::{CompileResult, Compiler};
use super::last_good::restored;
use super::rows::StoreRows;
use super::scripts::RefusedGeneration;
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
use valvehouse_core::tool::Tool;
use valvehouse_core::valve::SecretGroup;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, FolderScan, Kind, Lists, LoadedFile, Loader, ScheduledCall, SourceFile};
use valvehouse_store::{Aside, Kv, LastGood, Store, StoreError, VectorIndex};

/// The state of the writer between two scans.
pub(crate) struct Reload {
    pub(crate) plan: Arc<Plan>,
    pub(super) loader: Loader,
    pub(crate) store: Arc<Store>,
    pub(crate) compiler: Compiler,
    pub(super) stored: StoreRows,
    /// Plugins whose stored rows changed since the last snapshot.
    pub(super) touched: HashSet<String>,
    /// The plan and the files that the last snapshot was created from.
    pub(super) settled: Option<PriorLook>,
    /// The grants of the native tools at the last scan, in their order.
    pub(super) native_grants: Vec<Grants>,
    /// The set-aside values of removed plugins.
    pub(super) aside: Vec<Aside>,
    /// New files under the ids of removed plugins whose values are not set aside yet.
    pub(super) strangers: HashSet<String>,
    /// `true` if nothing may be written.
    pub(crate) only_looks: bool,
    /// `true` if a snapshot is live during the scan.
    pub(super) is_serving: bool,
    /// `true` before the first scan if the store has no last good versions: an unreadable file may be a
    /// guard.
    pub(super) knows_nothing: bool,
    /// `true` if the store was unavailable at the last scan.
    pub(crate) is_away: bool,
    /// Plugins whose last good versions are not stored yet.
    pub(super) unsaved: HashSet<String>,
    /// Files that were missing at the last scan: a save by renaming leaves a gap.
    pub(super) vanished: BTreeSet<Arc<str>>,
    /// The time at which the first of the collected changes was found.
    pub(super) waiting: Option<Instant>,
    /// The start of the last complete scan, in milliseconds since 1970.
    pub(super) looked_at: i64,
    /// The lists that functions of plugins returned last.
    pub(super) lists: HashMap<String, Lists>,
    /// The functions whose last call failed, with the reason.
    pub(super) failing: BTreeMap<(String, ScheduledCall), String>,
    /// Plugins whose histories changed during the scan; the next scan records them.
    pub(super) unwritten: BTreeSet<Arc<str>>,
    /// The contents of the store before the scripts that are being tested.
    pub(super) undo: Option<Box<StoreRows>>,
    /// The latest generation of the store if this host rejected it.
    pub(crate) refused: Option<RefusedGeneration>,
}

/// The input of a complete scan; an equal input needs no new snapshot.
pub(super) struct PriorLook {
    pub(super) plan: Arc<Plan>,
    /// The files in the folders of filters, tools and actions.
    pub(super) found: [Arc<FolderScan>; 3],
}

impl Reload {
    pub(crate) async fn new(plan: Arc<Plan>, store: Arc<Store>, kv: Arc<Kv>) -> Result<Self, StoreError> {
        let last_good: HashMap<String, LastGood> =
            store.last_good().await?.into_iter().map(|version| (version.id.clone(), version)).collect();
        let (last_good, restored) = restored(last_good, store.doubted_guards().await?, &plan);
        Ok(Self {
            compiler: Compiler::new(kv, &store, &plan),
            plan,
            loader: Loader::default(),

            store,
            touched: HashSet::new(),
            settled: None,
            native_grants: Vec::new(),
            is_serving: false,
            knows_nothing: last_good.is_empty(),
            stored: StoreRows { last_good, restored, ..StoreRows::default() },
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
            undo: None,
            refused: None,
        })
    }

    /// Returns the first generation of a host without any plugins.
    pub(crate) fn empty(&self) -> Snapshot {
        Snapshot::new(1, BTreeMap::new(), Vec::new(), Vec::new(), self.plan.clone())
    }

    /// Returns the tools that are not scripts and that are granted.
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

    /// Returns the stored values of a plugin; `None` if they may belong to a removed plugin with the same id.
    pub(super) fn stored_for<'a, T>(&self, stored: &'a HashMap<String, T>, id: &str) -> Option<&'a T> {
        stored.get(id).filter(|_| !self.strangers.contains(id))
    }

    /// Returns the current settings of a plugin.
    pub(crate) fn given(&self, id: &str) -> OperatorSettings {
        let valves = self.stored_for(&self.stored.valves, id).cloned().unwrap_or_default();
        let plans = Kind::ALL.map(|kind| self.plan.plugin(kind, id).settings);
        let configured = ScriptSettings {
            budgets: plans.each_ref().map(|plan| [plan.stream, plan.hook, plan.tool]),
            valves: plans.map(|plan| plan.configured),
            breaker: self.plan.breaker,
        };
        let quarantined = self.compiler.quarantine.of_plugin(id);
        let lists = self.lists.get(id).map_or_else(Lists::default, Clone::clone);
        OperatorSettings { valves, grants: self.grants(id), configured: Some(configured), quarantined, lists }
    }

    /// Stores the list that a function of a plugin returned, or the reason why the call failed. Returns
    /// `true` if that changes the next scan.
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

    /// Drops the lists of removed plugins, because another plugin may get the id.
    pub(super) fn forget_lists(&mut self, plugins: &Plugins) {
        self.lists.retain(|id, _| plugins.contains_key(id.as_str()));
        self.failing.retain(|(id, _), _| plugins.contains_key(id.as_str()));
    }

    /// Returns the diagnostics of functions whose last call failed.
    pub(super) fn problems_of_schedule(&self, plugins: &Plugins) -> Vec<Diagnostic> {
        let problem = |((id, what), why): (&(String, ScheduledCall), &String)| {
            let script = plugins.get(id.as_str())?.script.as_ref()?;
            let is_there = script.scheduled().iter().any(|(scheduled, _)| scheduled == what);
            is_there.then(|| Diagnostic::of_scheduled(&script.file, *what, why))
        };
        self.failing.iter().filter_map(problem).collect()
    }

    /// Returns the access of scripts to the models of their host.
    pub(crate) fn asking(&self) -> Arc<ScriptModels> {
        self.compiler.asking.clone()
    }

    /// Returns the vectors of scripts and the memories of users.
    pub(crate) fn vectors(&self) -> VectorIndex {
        self.compiler.vectors.clone()
    }

    /// Returns the secrets of all running plugins and of their users.
    pub(crate) fn secrets(&self) -> SecretGroup {
        self.compiler.secrets.clone()
    }

    /// Returns the queue of tasks that scripts run after their answers.
    pub(crate) fn after(&self) -> Arc<AfterAnswers> {
        self.compiler.after.clone()
    }

    /// Compiles a file with these settings.
    pub(crate) fn compile(&self, file: &SourceFile, given: &OperatorSettings) -> CompileResult {
        let read = LoadedFile { file: file.clone(), hash: "".into() };
        self.compiler.job(&self.plan, read, given.clone()).run()
    }
}
