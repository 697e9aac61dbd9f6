//! The state of the writer between two scans.

use super::clock::Clock;
use super::compiler::{CompileResult, Compiler};
use super::last_good::restored;
use super::rows::StoreRows;
use super::scheduled::ScheduledResults;
use super::scripts::RefusedGeneration;
use crate::access::IssuedKeys;
use crate::builtin;
use crate::plan::Plan;
use crate::plugin::{OperatorSettings, ScriptSettings};
use crate::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use valvehouse_config::Grants;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_script::{FolderScan, Kind, Lists, LoadedFile, Loader, ScheduledCall, SourceFile};
use valvehouse_store::{Aside, Kv, LastGood, Store, StoreError};

/// The state of the writer between two scans.
pub(crate) struct Reload {
    pub(crate) plan: Arc<Plan>,
    pub(crate) store: Arc<Store>,
    pub(super) loader: Loader,
    pub(crate) compiler: Compiler,
    pub(super) clock: Clock,
    pub(super) last: LastScan,
    pub(super) stored: StoreRows,
    /// The contents of the store before the scripts that are being tested.
    pub(super) undo: Option<Box<StoreRows>>,
    /// The latest generation of the store if this host rejected it.
    pub(crate) refused: Option<RefusedGeneration>,
    pub(crate) removed: RemovedPlugins,
    pub(super) scheduled: ScheduledResults,
    pub(super) unrecorded: RecordQueue,
    pub(crate) issued_keys: Arc<IssuedKeys>,
}

/// The last scan, which the next one is compared with.
#[derive(Default)]
pub(super) struct LastScan {
    /// The input of the last snapshot; `None` if the next scan has to consider every plugin.
    pub(super) settled: Option<PriorLook>,
    /// Plugins whose stored rows changed since the last snapshot.
    pub(super) touched: HashSet<String>,
    /// Plugins whose files were missing.
    pub(super) missed: BTreeSet<Arc<str>>,
    /// The grants of the native tools, in their order.
    pub(super) native_grants: Vec<Grants>,
    /// `true` if the store was unavailable.
    pub(super) is_away: bool,
}

/// The input of a complete scan; an equal input needs no new snapshot.
pub(super) struct PriorLook {
    pub(super) plan: Arc<Plan>,
    /// The files in the folders of filters, tools and actions.
    pub(super) found: [Arc<FolderScan>; 3],
}

impl PartialEq for PriorLook {
    fn eq(&self, other: &Self) -> bool {
        let mut both = self.found.iter().zip(&other.found);
        Arc::ptr_eq(&self.plan, &other.plan) && both.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

/// The stored values of removed plugins.
#[derive(Default)]
pub(crate) struct RemovedPlugins {
    /// The values that are set aside.
    pub(super) aside: Vec<Aside>,
    /// New files under the ids of removed plugins whose values are not set aside yet.
    pub(super) strangers: HashSet<String>,
    /// `true` if nothing may be written, so that no values are set aside.
    pub(crate) only_looks: bool,
}

/// The changes that are live and not recorded in the store yet.
#[derive(Default)]
pub(super) struct RecordQueue {
    /// Plugins whose last good versions are not stored yet.
    pub(super) versions: HashSet<String>,
    /// Plugins whose histories changed during the scan; the next scan records them.
    pub(super) histories: BTreeSet<Arc<str>>,
    /// `true` after an outage of the store: anything may be missing there.
    pub(super) is_everything: bool,
}

impl Reload {
    pub(crate) async fn new(plan: Arc<Plan>, store: Arc<Store>, kv: Arc<Kv>) -> Result<Self, StoreError> {
        let last_good: HashMap<String, LastGood> =
            store.last_good().await?.into_iter().map(|version| (version.id.clone(), version)).collect();
        let (last_good, restored) = restored(last_good, store.doubted_guards().await?, &plan);
        Ok(Self {
            compiler: Compiler::new(kv, &store, &plan),
            plan,
            store,
            loader: Loader::default(),
            clock: Clock::default(),
            last: LastScan::default(),
            stored: StoreRows { last_good, restored, ..StoreRows::default() },
            undo: None,
            refused: None,
            removed: RemovedPlugins::default(),
            scheduled: ScheduledResults::default(),
            unrecorded: RecordQueue::default(),
            issued_keys: Arc::default(),
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
        stored.get(id).filter(|_| !self.removed.strangers.contains(id))
    }

    /// Returns `true` before the first snapshot if the store has no last good versions: an unreadable file
    /// may be a guard.
    pub(super) fn knows_nothing(&self) -> bool {
        !self.clock.is_serving && self.stored.last_good.is_empty()
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
        let lists = self.scheduled.lists.get(id).map_or_else(Lists::default, Clone::clone);
        // The grants of a native tool are not those of a script, such as a draft with its id.
        let grants = if builtin::is_guarded(id) { Grants::default() } else { self.grants(id) };
        OperatorSettings { valves, grants, configured: Some(configured), quarantined, lists }
    }

    /// Stores the list that a function of a plugin returned, or the reason why the call failed. Returns
    /// `true` if that changes the next scan.
    pub(crate) fn set_list(&mut self, id: &str, what: ScheduledCall, result: Result<Json, String>) -> bool {
        let is_news = self.scheduled.set(id, what, result);
        if is_news {
            self.last.touched.insert(id.to_owned());
        }
        is_news
    }

    /// Compiles a file with these settings.
    pub(crate) fn compile(&self, file: &SourceFile, given: &OperatorSettings) -> CompileResult {
        let read = LoadedFile { file: file.clone(), hash: "".into() };
        self.compiler.job(&self.plan, read, given.clone()).run()
    }
}
