//! The plugins of the next snapshot: each moves to the state that [`Reload::next`] decides.

use super::clock::Wait;
use super::last_good;
use super::life::{Life, Sight};
use super::parallel;
use super::state::Reload;
use crate::plugin::{OperatorSettings, Plugin, Plugins, State};
use crate::report::Change;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_core::valve::Layer;
use valvehouse_json::Json;
use valvehouse_script::{
    Code, Diagnostic, FolderScan, Imports, Kind, Script, SourceFile, UserValves, claims_of,
};
use valvehouse_store::{GuardChange, LastGood};

/// The plugins after a scan.
#[derive(Default)]
pub(super) struct NextPlugins {
    pub(super) plugins: Plugins,
    pub(super) changes: Vec<Change>,
    /// Plugins whose files are still being compiled.
    pub(super) compiling: Vec<Arc<str>>,
    /// Plugins without a file.
    pub(super) missed: BTreeSet<Arc<str>>,
    /// `true` if a file is missing for the first time.
    pub(super) has_vanished: bool,
}

/// One plugin after a scan; `None` if it is gone or was never there.
struct NextPlugin {
    plugin: Option<Arc<Plugin>>,
    change: Option<Change>,
    wait: Option<Wait>,
}

impl Reload {
    /// Moves every plugin to its next state. Those whose file, rows and plan are unchanged stay as they are.
    pub(super) fn next_plugins(
        &self,
        found: &FolderScan,
        unreadable: &BTreeMap<Arc<str>, &Diagnostic>,
        before: &Plugins,
    ) -> NextPlugins {
        // The three sequences are sorted, so sorting only merges them.
        let mut ids: Vec<&Arc<str>> =
            found.files.keys().chain(before.keys()).chain(unreadable.keys()).collect();
        ids.sort();
        ids.dedup();
        let settled = self.last.settled.as_ref();
        let obeys_the_plan = settled.is_some_and(|settled| Arc::ptr_eq(&settled.plan, &self.plan));
        let (mut plugins, mut others) = (Vec::with_capacity(ids.len()), Vec::new());
        for id in ids {
            let known = before.get(id);
            let (sight, is_same) = match (found.files.get(id), unreadable.get(id)) {
                (Some(read), _) => {
                    let is_same = |known: &Arc<Plugin>| {
                        obeys_the_plan && !self.last.touched.contains(&**id) && known.is_of(read)
                    };
                    (Sight::File(read), known.is_some_and(is_same))
                }
                (None, Some(problem)) => (Sight::Unreadable(problem), false),
                // A folder that could not be listed may still have the file.
                (None, None) => (Sight::Nothing, known.is_some_and(|known| found.leaves_open(&known.path))),
            };
            match known.filter(|_| is_same) {
                Some(known) => plugins.push((id.clone(), known.clone())),
                None => others.push((id, sight, known)),
            }
        }
        let next = |(id, sight, known): &(&Arc<str>, Sight<'_>, Option<&Arc<Plugin>>)| {
            self.next_plugin(id, *sight, *known, found)
        };
        // A running host leaves the other processors to its requests.
        let moved: Vec<NextPlugin> = match before.is_empty() {
            true => parallel::each(&others, next),
            false => others.iter().map(next).collect(),
        };
        let mut result = NextPlugins::default();
        for ((id, sight, _), next) in others.into_iter().zip(moved) {
            result.missed.extend(matches!(sight, Sight::Nothing).then(|| id.clone()));
            result.compiling.extend((next.wait == Some(Wait::Compiling)).then(|| id.clone()));
            result.has_vanished |= next.wait == Some(Wait::Vanished);
            plugins.extend(next.plugin.map(|plugin| (id.clone(), plugin)));
            result.changes.extend(next.change);
        }
        result.plugins = plugins.into_iter().collect();
        result
    }

    /// Adds the guards whose files were removed while no host ran.
    pub(super) fn add_lost_guards(&self, found: &FolderScan, next: &mut NextPlugins) {
        for row in self.stored.last_good.values().filter(|row| last_good::is_guards(row)) {
            let id: Arc<str> = row.id.as_str().into();
            if !next.plugins.contains_key(&id) {
                let lost = self.next_plugin(&id, Sight::Nothing, None, found);
                next.changes.extend(lost.change.filter(|_| lost.plugin.is_some()));
                next.plugins.extend(lost.plugin.map(|plugin| (id, plugin)));
            }
        }
    }

    /// Moves a plugin to its next state.
    fn next_plugin(
        &self,
        id: &Arc<str>,
        sight: Sight<'_>,
        before: Option<&Arc<Plugin>>,
        found: &FolderScan,
    ) -> NextPlugin {
        let given = self.given(id);
        let next = match self.next(id, sight, before, &given, found) {
            Life::Waits(wait) => {
                return NextPlugin { plugin: before.cloned(), change: None, wait: Some(wait) };
            }
            Life::Gone => {
                return NextPlugin { plugin: None, change: Some(Change::Removed(id.clone())), wait: None };
            }
            Life::Same(plugin) => (*plugin).clone(),
            Life::Live { script, hash, pending } => {
                let (problem, pending) = pending.unzip();
                let state = problem.map_or(State::Live, |problem| State::Stale(vec![problem]));
                let (security, global) = (script.manifest.security, script.manifest.global);
                let (kind, path) = (script.file.kind, script.file.path.clone());
                let security = security && kind == Kind::Filter;
                let plugin = Plugin::new(id.clone(), kind, path, given);
                Plugin { script: Some(script), state, hash, pending, security, global, ..plugin }
            }
            Life::Held { path, hash, problems, pending } => {
                let held = self.held_plugin(id, path, problems, before, given, found);
                Plugin { hash, pending, ..held }
            }
            Life::Missing => {
                let known = before.map_or_else(|| self.lost_guard(id), |before| (**before).clone());
                Plugin { state: State::Missing, pending: None, ..known }
            }
        };
        let next = self.switched(next);
        let change = change(before, &next);
        let is_same = |before: &&Arc<Plugin>| change.is_none() && before.hash == next.hash;
        // An unchanged plugin keeps its pointer.
        let plugin = before.filter(is_same).cloned().unwrap_or_else(|| Arc::new(next));
        NextPlugin { plugin: Some(plugin), change, wait: None }
    }

    /// Returns the plugin of a file that does not run. If another file with its id declares itself a guard,
    /// that one is missed.
    fn held_plugin(
        &self,
        id: &Arc<str>,
        path: PathBuf,
        problems: Vec<Diagnostic>,
        before: Option<&Arc<Plugin>>,
        given: OperatorSettings,
        found: &FolderScan,
    ) -> Plugin {
        let kind = self.plan.kind_of(&path);
        let is_plain = kind == Kind::Filter && !claims_of(&self.beginning(&path)).0;
        let other = is_plain.then(|| self.other_guard(id, &path, found)).flatten();
        let path = other.unwrap_or(path);
        let before = before.filter(|before| before.kind == kind);
        let beginning = self.beginning(&path);
        let (claims, is_global) = match kind {
            Kind::Filter => claims_of(&beginning),
            Kind::Tool => (false, true),
            Kind::Action => (false, claims_of(&beginning).1),
        };
        // A version that was not a guard must not run in place of a guard.
        let script = self.last_good_script(id, (kind, &path), before, &given);
        let script = script.filter(|script| script.manifest.security || !claims);
        let (security, global) = match (&script, self.stored.last_good.get(&**id)) {
            (Some(script), _) => (script.manifest.security, script.manifest.global),
            (None, Some(version)) if version.security => (true, claims_of(&version.source).1),
            (None, known) => {
                // An unreadable plugin may be a guard.
                let was_unread = before.is_some_and(|before| before.security && before.script.is_none());
                let is_unread = known.is_none()
                    && (self.knows_nothing() || was_unread)
                    && problems.iter().any(|one| one.code == Code::Unreadable);
                (claims || is_unread || self.is_guard(id, before), is_global)
            }
        };
        Plugin {
            state: if script.is_some() { State::Stale(problems) } else { State::Broken(problems) },
            script,
            security: security && kind == Kind::Filter,
            global,
            ..Plugin::new(id.clone(), kind, path, given)
        }
    }

    /// Returns the version that keeps running in place of a file: the running one, or the stored one.
    fn last_good_script(
        &self,
        id: &str,
        (kind, path): (Kind, &Path),
        before: Option<&Arc<Plugin>>,
        given: &OperatorSettings,
    ) -> Option<Arc<Script>> {
        let Some((before, script)) = before.and_then(|before| Some((before, before.script.as_ref()?))) else {
            let row = self.stored.last_good.get(id)?;
            // The stored version is not signed.
            let may_run = !self.plan.runs_signed_only();
            return may_run.then(|| self.stored_version(row, kind, path, given)).flatten();
        };
        if before.given == *given {
            return Some(script.clone());
        }
        // A revoked grant is revoked from the running version as well.
        let is_allowed = before.given.grants == given.grants && before.given.quarantined == given.quarantined;
        let compiled = self.compile(&script.file, given).ok().map(Arc::new);
        compiled.or_else(|| is_allowed.then(|| script.clone()))
    }

    /// Compiles a last good version of the store; `None` if it has never loaded, or no longer loads.
    pub(super) fn stored_version(
        &self,
        row: &LastGood,
        kind: Kind,
        path: &Path,
        given: &OperatorSettings,
    ) -> Option<Arc<Script>> {
        if !last_good::has_loaded(row) {
            return None;
        }
        let imports = Imports::from_json(&row.imports, self.plan.folder(kind));
        let file = SourceFile::new(kind, row.id.as_str(), path, row.source.as_str());
        self.compile(&file.importing(imports), given).ok().map(Arc::new)
    }

    /// Returns the plugin of a guard that is known only from the store.
    fn lost_guard(&self, id: &Arc<str>) -> Plugin {
        let row = self.stored.last_good.get(&**id);
        let (path, global) =
            row.map_or_else(Default::default, |row| (PathBuf::from(&row.path), claims_of(&row.source).1));
        let given = OperatorSettings::default();
        Plugin { security: true, global, ..Plugin::new(id.clone(), Kind::Filter, path, given) }
    }

    /// Applies the current switches of operators and valves of users to a plugin.
    pub(super) fn switched(&self, mut plugin: Plugin) -> Plugin {
        plugin.incarnation = self.incarnation(&plugin.id);
        plugin.was_configured = self.stored.is_confirmed(&plugin.id, &GuardChange::Configured);
        let switch = self.stored_for(&self.stored.switches, &plugin.id);
        let is_on = switch.and_then(|switch| switch.enabled);
        plugin.enabled = is_on.unwrap_or_else(|| self.plan.is_enabled(plugin.kind, &plugin.id))
            || self.is_held_on(&plugin.id);
        let is_declared = plugin.script.as_ref().is_some_and(|script| script.manifest.audit);
        plugin.audited = plugin.kind == Kind::Filter
            && !self.is_held_enforced(&plugin.id)
            && switch
                .and_then(|switch| switch.audit)
                .or_else(|| self.plan.audits(&plugin.id))
                .unwrap_or(is_declared);
        if let Some(script) = &plugin.script {
            plugin.global = switch.and_then(|switch| switch.global).unwrap_or(script.manifest.global)
                || self.is_held_wide(&plugin.id) && script.manifest.global;
            if plugin.security && !plugin.global {
                plugin.held_for = self.models_lost_by(&plugin.id).into();
                // Clients of a removed model may use another model now, so the guard runs for all of them.
                let is_gone = |name: &String| self.plan.model(name).is_none();
                plugin.global = plugin.held_for.iter().any(is_gone);
            }
            if let Some(schema) = &script.manifest.user_valves {
                let rows =
                    self.stored_for(&self.stored.user_valves, &plugin.id).map_or(&[][..], Vec::as_slice);
                rows.iter().for_each(|(_, values)| self.compiler.secrets.add_user(schema, values));
                let effective = |values: &Json| schema.effective(&[Layer::lenient(values)]).0.freeze();
                plugin.users = Arc::new(UserValves {
                    by_user: rows.iter().map(|(user, values)| (user.clone(), effective(values))).collect(),
                    default: effective(&Json::Null),
                });
            }
        }
        plugin
    }
}

/// Returns the change by which a plugin replaces its previous state; `None` if none is visible.
fn change(before: Option<&Arc<Plugin>>, next: &Plugin) -> Option<Change> {
    let id = next.id.clone();
    let is_moved = |before: &Arc<Plugin>| {
        before.state != next.state
            || match next.state {
                State::Live => before.hash != next.hash || before.path != next.path,
                State::Stale(_) => before.pending != next.pending,
                State::Broken(_) => before.security != next.security,
                State::Missing => false,
            }
    };
    let Some(before) = before.filter(|before| !is_moved(before)) else {
        return Some(match &next.state {
            State::Live if before.is_none() => Change::Loaded(id),
            State::Live => Change::Updated(id),
            State::Stale(problems) => Change::Stale(id, problems.clone()),
            State::Broken(problems) => Change::Broken(id, problems.clone()),
            State::Missing => Change::Missing(id),
        });
    };
    let is_listed =
        before.given.lists != next.given.lists && before.given.without_lists() == next.given.without_lists();
    let is_set = before.given != next.given
        || before.users.by_user != next.users.by_user
        || before.enabled != next.enabled
        || before.audited != next.audited
        || before.security != next.security
        || before.pending != next.pending
        || before.global != next.global
        || before.held_for != next.held_for;
    match is_listed {
        true => Some(Change::Listed(id)),
        false => is_set.then_some(Change::Settings(id)),
    }
}
