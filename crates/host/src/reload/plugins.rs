//! The plugins of the next snapshot. Each is unchanged, recompiled, or kept although its file does not load
//! or would weaken a guard.

use super::guards::{Cause, WeakenedGuard};
use super::last_good;
use super::parallel;
use super::state::Reload;
use crate::plugin::{LazyValue, OperatorSettings, Plugin, Plugins, State};
use crate::report::Change;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use valvehouse_core::valve::Layer;
use valvehouse_json::Json;
use valvehouse_script::{
    Code, Diagnostic, FolderScan, Imports, Kind, LoadedFile, Script, SourceFile, UserValves, claims_of,
};
use valvehouse_store::GuardChange;

/// The outcome of a scan for one plugin.
enum Next {
    Is(Arc<Plugin>, Option<Change>),
    Gone,
    /// The file is still being compiled; the plugin stays unchanged.
    Later,
}

impl From<(Arc<Plugin>, Option<Change>)> for Next {
    fn from((plugin, change): (Arc<Plugin>, Option<Change>)) -> Self {
        Self::Is(plugin, change)
    }
}

impl Reload {
    /// Returns the next state of every plugin, the changes, and the plugins that are still being compiled.
    pub(super) fn next_plugins(
        &self,
        found: &FolderScan,
        unreadable: &BTreeMap<Arc<str>, &Diagnostic>,
        before: &Plugins,
    ) -> (Plugins, Vec<Change>, Vec<Arc<str>>) {
        // The three sequences are sorted, so sorting only merges them.
        let mut ids: Vec<&Arc<str>> =
            found.files.keys().chain(before.keys()).chain(unreadable.keys()).collect();
        ids.sort();
        ids.dedup();
        let obeys_the_plan =
            self.last.settled.as_ref().is_some_and(|settled| Arc::ptr_eq(&settled.plan, &self.plan));
        let (mut plugins, mut changes, mut others) = (Vec::with_capacity(ids.len()), Vec::new(), Vec::new());
        for id in ids {
            let read = found.files.get(id);
            let known = before.get(id);
            let is_as_it_was = match (read, known) {
                (Some(read), Some(known)) => {
                    obeys_the_plan && !self.last.touched.contains(&**id) && known.is_of(read)
                }
                // The folder could not be listed: the plugin stays unchanged.
                (None, Some(known)) => !unreadable.contains_key(id) && found.leaves_open(&known.path),
                (_, None) => false,
            };
            match known.filter(|_| is_as_it_was) {
                Some(known) => plugins.push((id.clone(), known.clone())),
                None => others.push((id, read.ok_or(unreadable.get(id).copied()), known)),
            }
        }
        let next = |(id, read, known): &(&Arc<str>, Result<&Arc<LoadedFile>, _>, _)| {
            self.next(id, read.map(|read| &**read), *known, found)
        };
        // A running host leaves the other processors to its requests.
        let next: Vec<_> = match before.is_empty() {
            true => parallel::each(&others, next),
            false => others.iter().map(next).collect(),
        };
        let mut compiling = Vec::new();
        for ((id, _, known), next) in others.into_iter().zip(next) {
            match next {
                Next::Is(plugin, change) => {
                    plugins.push((id.clone(), plugin));
                    changes.extend(change);
                }
                Next::Gone => changes.push(Change::Removed(id.clone())),
                Next::Later => {
                    plugins.extend(known.map(|known| (id.clone(), known.clone())));
                    compiling.push(id.clone());
                }
            }
        }
        (plugins.into_iter().collect(), changes, compiling)
    }

    /// Returns the next state of a plugin: unchanged, recompiled, or kept although its file does not load or
    /// would weaken a guard.
    fn next(
        &self,
        id: &Arc<str>,
        read: Result<&LoadedFile, Option<&Diagnostic>>,
        before: Option<&Arc<Plugin>>,
        found: &FolderScan,
    ) -> Next {
        let given = self.given(id);
        let read = match read {
            Ok(read) => read,
            Err(Some(problem)) => {
                let kept = self.keep(id, problem.path.clone(), vec![problem.clone()], before, given, found);
                return self.compared(kept, before).into();
            }
            Err(None) => {
                // The plugin is removed, unless it is a guard whose removal is not confirmed.
                let Some(plugin) = before.filter(|_| self.is_guard(id, before)) else { return Next::Gone };
                if self.stored.is_confirmed(id, &GuardChange::Gone) || self.has_moved(id, found) {
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
        let job = self.compiler.job(&self.plan, read.clone(), given.clone());
        let Some(compiled) = self.compiler.compile_soon(job, self.is_serving) else { return Next::Later };
        let next = match compiled {
            Ok(script) => self.loaded(read, script, before, given, found),
            Err(problems) => {
                let kept = self.keep(id, read.file.path.clone(), problems, before, given, found);
                Plugin { hash: read.hash.clone(), ..kept }
            }
        };
        self.compared(next, before).into()
    }

    /// Returns the plugin of a file that loads; the file runs unless it would weaken a guard.
    fn loaded(
        &self,
        read: &LoadedFile,
        script: Script,
        before: Option<&Arc<Plugin>>,
        given: OperatorSettings,
        found: &FolderScan,
    ) -> Plugin {
        let id = &read.file.id;
        match self.weakened(id, read, &script, before, found) {
            Some(WeakenedGuard { problem, pending, by: Cause::Settings }) => {
                let live = self.live(read, script, given);
                Plugin { state: State::Stale(vec![problem]), pending: Some(pending), ..live }
            }
            Some(WeakenedGuard { problem, pending, by: Cause::File }) => {
                let path =
                    self.baseline(id, before).map_or_else(|| read.file.path.clone(), |known| known.path);
                let kept = self.keep(id, path, vec![problem], before, given, found);
                Plugin { hash: read.hash.clone(), pending: Some(pending), ..kept }
            }
            None if self.is_guard(id, before) => self.live(read, script, given),
            None => match self.other_guard(id, &read.file.path, found) {
                Some(path) => {
                    let what = format!("{} has the id of this guard", read.file.path.display());
                    let problem = Diagnostic::new(Code::SameId, id, &path, what);
                    let problems = vec![problem.help("rename one of the two")];
                    let kept = self.keep(id, path, problems, None, given, found);
                    Plugin { hash: read.hash.clone(), ..kept }
                }
                None => self.live(read, script, given),
            },
        }
    }

    fn live(&self, read: &LoadedFile, script: Script, given: OperatorSettings) -> Plugin {
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
            was_configured: false,
            enabled: true,
            incarnation: 0,
            users: Arc::default(),
            given,
            held_for: Arc::default(),
            acts: LazyValue::default(),
            brings: LazyValue::default(),
        })
    }

    /// Returns the last good version in place of a file that does not load; without one, nothing runs. If another
    /// file with its id declares itself a guard, that one is missed.
    fn keep(
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
        let recompiled = |file: &SourceFile| self.compile(file, &given).ok().map(Arc::new);
        let script = match before.and_then(|before| before.script.as_ref()) {
            Some(script) if before.is_some_and(|before| before.given == given) => Some(script.clone()),
            // A revoked grant is revoked from the running version as well.
            Some(script) => recompiled(&script.file).or_else(|| {
                let is_allowed = |before: &Arc<Plugin>| {
                    before.given.grants == given.grants && before.given.quarantined == given.quarantined
                };
                before.is_some_and(is_allowed).then(|| script.clone())
            }),
            // The stored version is not signed.
            None if self.plan.runs_signed_only() => None,
            None => {
                self.stored.last_good.get(&**id).filter(|version| last_good::has_loaded(version)).and_then(
                    |version| {
                        let imports = Imports::from_json(&version.imports, self.plan.folder(kind));
                        let file = SourceFile::new(kind, id.clone(), &path, version.source.as_str());
                        recompiled(&file.importing(imports))
                    },
                )
            }
        };
        let beginning = self.beginning(&path);
        let (claims, is_global) = match kind {
            Kind::Filter => claims_of(&beginning),
            Kind::Tool => (false, true),
            Kind::Action => (false, claims_of(&beginning).1),
        };
        // A version that was not a guard must not run in place of a guard.
        let script = script.filter(|script| script.manifest.security || !claims);
        let (security, global) = match (&script, self.stored.last_good.get(&**id)) {
            (Some(script), _) => (script.manifest.security, script.manifest.global),
            (None, Some(version)) if version.security => (true, claims_of(&version.source).1),
            (None, known) => {
                // An unreadable plugin may be a guard.
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
            was_configured: false,
            enabled: true,
            incarnation: 0,
            users: Arc::default(),
            given,
            held_for: Arc::default(),
            acts: LazyValue::default(),
            brings: LazyValue::default(),
        })
    }

    /// Applies the current switches of operators and valves of users to a plugin.
    pub(super) fn switched(&self, mut plugin: Plugin) -> Plugin {
        plugin.incarnation = self.incarnation(&plugin.id);
        plugin.was_configured = self.stored.is_confirmed(&plugin.id, &GuardChange::Configured);
        let switch = self.stored_for(&self.stored.switches, &plugin.id);
        let is_on = switch.and_then(|switch| switch.enabled);
        plugin.enabled = is_on.unwrap_or_else(|| self.plan.is_enabled(plugin.kind, &plugin.id))
            || self.is_held_on(&plugin.id);
        if let Some(script) = &plugin.script {
            plugin.global = switch.and_then(|switch| switch.global).unwrap_or(script.manifest.global)
                || self.is_held_wide(&plugin.id) && script.manifest.global;
            if plugin.security && !plugin.global {
                plugin.held_for = self.models_lost_by(&plugin.id).into();
                // Clients of a removed model may use another model now, so the guard runs for all of them.
                let is_gone = |name: &String| !self.plan.models.iter().any(|model| model.name == *name);
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

    /// Returns the plugin and its changes. An unchanged plugin keeps its pointer.
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
            _ if before.given.lists != next.given.lists
                && before.given.without_lists() == next.given.without_lists() =>
            {
                Some(Change::Listed(id))
            }
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
}
