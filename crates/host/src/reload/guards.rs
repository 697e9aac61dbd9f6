//! The protections of a guard, the losses that a change would cause, and their confirmation by operators.
//!
//! A guard is compared with its last good version. A change that would weaken it is pending: the last good
//! version keeps running until an operator confirms exactly this change.

use super::last_good::{has_loaded, is_guards};
use super::state::Reload;
use crate::coverage::covers;
use crate::plugin::{Plugin, Plugins, State};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::filter::Hook;
use valvehouse_core::text::hex;
use valvehouse_script::{
    Code, Diagnostic, ENDPOINTS, FolderScan, Imports, Kind, LoadedFile, Script, Severity, SourceFile,
    claims_of, is_id,
};
use valvehouse_store::{GuardChange, LastGood};

/// The time without writes after which a change of a guard's file is applied.
const REST: Duration = Duration::from_millis(120);
/// The time after which the file of a guard is read although it is still being written.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The version of a guard that changes are measured against.
pub(super) struct Baseline {
    pub(super) path: PathBuf,
    hash: String,
    /// `None` if it has never loaded, or no longer loads.
    script: Option<Arc<Script>>,
    has_loaded: bool,
    /// `true` if it is quarantined because it ended the process; a different text releases it.
    is_quarantined: bool,
}

/// A change of a guard that an operator has to confirm.
pub(super) struct WeakenedGuard {
    pub(super) problem: Diagnostic,
    pub(super) pending: GuardChange,
    pub(super) by: Cause,
}

/// The origin of a change.
pub(super) enum Cause {
    /// The file changed; the last good version keeps running.
    File,
    /// The settings changed; they do not apply to the guard yet.
    Settings,
}

impl Reload {
    /// Returns the version that changes of a guard are compared with; `None` if the id does not belong to a
    /// guard.
    pub(super) fn baseline(&self, id: &str, before: Option<&Arc<Plugin>>) -> Option<Baseline> {
        let before = before.filter(|plugin| plugin.security && plugin.script.is_some());
        let Some(row) = self.stored.last_good.get(id) else {
            let plugin = before?;
            let (path, hash) = (plugin.path.clone(), plugin.hash.to_string());
            return Some(Baseline {
                path,
                hash,
                script: plugin.script.clone(),
                has_loaded: true,
                is_quarantined: false,
            });
        };
        if !is_guards(row) {
            return None;
        }
        let runs = before.and_then(|plugin| plugin.script.clone());
        let runs = runs.filter(|script| *script.file.text == row.source && script.manifest.security);
        let script = runs.or_else(|| self.stored_version(row).map(Arc::new));
        let has_loaded = has_loaded(row);
        let is_quarantined =
            self.compiler.quarantine.of_plugin(&row.id).iter().any(|version| version.hash == row.hash);
        let (path, hash) = (PathBuf::from(&row.path), row.hash.clone());
        Some(Baseline { path, hash, script, has_loaded, is_quarantined })
    }

    /// Returns `true` if an id belongs to a guard, without compiling the stored version.
    pub(super) fn is_guard(&self, id: &str, before: Option<&Arc<Plugin>>) -> bool {
        match self.stored.last_good.get(id) {
            Some(row) => is_guards(row),
            None => before.is_some_and(|plugin| plugin.security && plugin.script.is_some()),
        }
    }

    fn stored_version(&self, row: &LastGood) -> Option<Script> {
        if !has_loaded(row) {
            return None;
        }
        let imports = Imports::from_json(&row.imports, self.plan.folder(Kind::Filter));
        let file = SourceFile::new(Kind::Filter, row.id.as_str(), &row.path, row.source.as_str());
        self.compile(&file.importing(imports), &self.given(&row.id)).ok()
    }

    /// Returns the change by which a file or the settings would weaken the guard with this id; `None` if the
    /// change is harmless or confirmed.
    pub(super) fn weakened(
        &self,
        id: &str,
        read: &LoadedFile,
        script: &Script,
        before: Option<&Arc<Plugin>>,
        found: &FolderScan,
    ) -> Option<WeakenedGuard> {
        let baseline = self.baseline(id, before)?;
        let path = &read.file.path;
        if *read.hash != *baseline.hash {
            let mut lost = match &baseline.script {
                Some(old) => losses(old, script),
                None if script.manifest.security && (!baseline.has_loaded || baseline.is_quarantined) => {
                    Vec::new()
                }
                None if script.manifest.security => {
                    vec!["everything its last good version does: that version no longer loads".to_owned()]
                }
                None => vec!["`security: true`".to_owned()],
            };
            let is_shadowed = found.shadowed.iter().any(|other| other.file.path == baseline.path);
            let is_unread =
                found.problems.iter().any(|problem| problem.path == baseline.path && is_unreadable(problem));
            if *path != baseline.path && (is_shadowed || is_unread) {
                lost.push(format!("its place: {} has the same id", path.display()));
            }
            let pending = change(&read.hash, &lost);
            if !lost.is_empty() && !self.stored.is_confirmed(id, &pending) {
                let what = format!("the guard `{id}` would lose {}", lost.join(", "));
                return Some(WeakenedGuard {
                    problem: waiting(id, path, &what, &baseline),
                    pending,
                    by: Cause::File,
                });
            }
        }
        if self.is_held_on(id) {
            let by = match self.stored.switches.get(id).and_then(|switch| switch.enabled) {
                Some(_) => "a switch in the store that no operator has set".to_owned(),
                None => format!("`[filters.{id}] enabled = false`"),
            };
            let what = format!("the guard `{id}` would be switched off by {by}");
            let problem = waiting(id, path, &what, &baseline);
            return Some(WeakenedGuard { problem, pending: GuardChange::Off, by: Cause::Settings });
        }
        if self.is_held_wide(id) && script.manifest.global {
            let what = format!(
                "the guard `{id}` would lose the models that do not list it, by a switch in the store that no operator has set"
            );
            let problem = waiting(id, path, &what, &baseline);
            return Some(WeakenedGuard { problem, pending: GuardChange::Narrow, by: Cause::Settings });
        }
        let lost = self.models_lost_by(id);
        (!lost.is_empty() && !script.manifest.global).then(|| {
            let models: Vec<String> = lost.iter().map(|model| format!("`{model}`")).collect();
            let what = format!(
                "the guard `{id}` would lose models that no longer list it or are gone: {}",
                models.join(", ")
            );
            let problem = waiting(id, path, &what, &baseline);
            WeakenedGuard { problem, pending: unlisted(&lost), by: Cause::Settings }
        })
    }

    /// Returns the models that stopped listing a guard without a confirmation.
    pub(super) fn models_lost_by(&self, id: &str) -> Vec<String> {
        let lost = self.models_unlisting(id);
        if lost.is_empty() || self.stored.is_confirmed(id, &unlisted(&lost)) { Vec::new() } else { lost }
    }

    pub(super) fn models_unlisting(&self, id: &str) -> Vec<String> {
        let Some(guarded) = self.stored.guarded.get(id) else { return Vec::new() };
        let lists = |model: &str| {
            let model = self.plan.models.iter().find(|known| known.name == model);
            model.is_some_and(|model| model.filters.iter().any(|listed| listed == id))
        };
        guarded.iter().filter(|model| !lists(model)).cloned().collect()
    }

    /// Returns `true` if a guard runs although the settings or a stored switch disable it: the change is not
    /// confirmed. Switching a guard off as an operator confirms it.
    pub(super) fn is_held_on(&self, id: &str) -> bool {
        self.is_off(id)
            && self.stored.last_good.get(id).is_some_and(|row| row.security)
            && !self.stored.is_confirmed(id, &GuardChange::Off)
    }

    pub(super) fn is_off(&self, id: &str) -> bool {
        let switched = self.stored.switches.get(id).and_then(|switch| switch.enabled);
        !switched.unwrap_or_else(|| self.plan.is_enabled(Kind::Filter, id))
    }

    /// Returns `true` if a guard runs for models that do not list it, despite a stored switch.
    pub(super) fn is_held_wide(&self, id: &str) -> bool {
        self.stored.switches.get(id).is_some_and(|switch| switch.global == Some(false))
            && self.stored.last_good.get(id).is_some_and(|row| row.security)
            && !self.stored.is_confirmed(id, &GuardChange::Narrow)
    }

    /// Returns `true` if the file of a guard that has never loaded has another id now.
    pub(super) fn has_moved(&self, id: &str, found: &FolderScan) -> bool {
        let Some(row) = self.stored.last_good.get(id) else { return false };
        !has_loaded(row) && found.files.iter().any(|(other, read)| **other != *id && *read.hash == *row.hash)
    }

    /// Returns `true` if the file of a present guard has changed and the latest write is more recent than [`REST`]:
    /// the save may be incomplete.
    pub(super) fn is_guard_being_saved(&self, found: &FolderScan, before: &Plugins) -> bool {
        let age = found.latest.and_then(|latest| latest.elapsed().ok());
        let is_other = |(id, plugin): (&Arc<str>, &Arc<Plugin>)| {
            plugin.security
                && plugin.state != State::Missing
                && found.files.get(id).is_some_and(|read| !plugin.is_of(read))
        };
        age.is_some_and(|age| age < REST) && before.iter().any(is_other)
    }
}

/// Returns the confirmation that these models may stop listing a guard.
pub(super) fn unlisted(models: &[String]) -> GuardChange {
    change("unlisted", models)
}

/// Returns the diagnostic of a pending change, with the command that confirms it.
fn waiting(id: &str, path: &Path, what: &str, baseline: &Baseline) -> Diagnostic {
    let meanwhile = match &baseline.script {
        Some(_) => "its last good version keeps running",
        None => "requests are refused",
    };
    Diagnostic::new(
        Code::GuardWeakened,
        id,
        path,
        format!("{what}; {meanwhile} until the change is confirmed"),
    )
    .help(format!("undo the change, or if it is intended, run: valvehouse confirm {id}"))
}

/// Describes the losses if `next` replaces `before` as the version of a guard, one phrase per loss.
fn losses(before: &Script, next: &Script) -> Vec<String> {
    let (old, new) = (&before.manifest, &next.manifest);
    let mut lost = Vec::new();
    if old.security && !new.security {
        lost.push("`security: true`".to_owned());
    }
    let hooks = before.hooks().filter(|hook| !next.hooks().any(|other| other == *hook));
    lost.extend(hooks.map(|hook: Hook| format!("the hook `{hook}`")));
    if old.global && !new.global {
        lost.push("the models that do not list it (`global: false`)".to_owned());
    }
    if !old.toggle && new.toggle {
        lost.push("the requests that do not ask for it (`toggle`)".to_owned());
    }
    let uncovered = ENDPOINTS.into_iter().filter(|name| covers(old, name) && !covers(new, name));
    lost.extend(uncovered.map(|name| format!("the endpoint `{name}`")));
    if old.hold && !new.hold {
        lost.push("`hold: true`".to_owned());
    }
    if old.on_tool_error && !new.on_tool_error {
        lost.push("the tool calls that failed (`on_tool_error`)".to_owned());
    }
    let (old, new) = (before.file.text.trim_end(), next.file.text.trim_end());
    let holds_code = |cut: &str| ["fn", "Valves", "import"].iter().any(|part| cut.contains(part));
    if old.strip_prefix(new).is_some_and(holds_code) {
        lost.push("its end: the file ends where the last good version continues".to_owned());
    }
    lost
}

/// Returns the confirmation of a change: it covers exactly this content with these losses.
fn change(hash: &str, lost: &[String]) -> GuardChange {
    let mut digest = Sha256::new();
    for part in std::iter::once(hash).chain(lost.iter().map(String::as_str)) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    GuardChange::Change(hex(&digest.finalize()))
}

impl Reload {
    /// Returns another file with the id of this one that declares itself a guard, whether it can be read or not:
    /// it is unknown which of the two is meant.
    pub(super) fn other_guard(&self, id: &str, path: &Path, found: &FolderScan) -> Option<PathBuf> {
        let shadowed = found.shadowed.iter().filter(|other| *other.file.id == *id);
        let shadowed = shadowed.map(|other| (&other.file.path, Some(&other.file.text)));
        let unreadable = found.problems.iter().filter(|problem| problem.id == id && is_unreadable(problem));
        let unreadable = unreadable.map(|problem| (&problem.path, None));
        let is_other = |other: &Path| other != path && self.plan.kind_of(other) == Kind::Filter;
        let mut others = shadowed.chain(unreadable).filter(|(other, _)| is_other(other));
        let claims = |(other, text): &(&PathBuf, Option<&Arc<str>>)| match text {
            Some(text) => claims_of(text).0,
            None => claims_of(&self.beginning(other)).0,
        };
        others.find(claims).map(|(other, _)| other.clone())
    }
}

/// Returns `true` if a file could not be read; a duplicate id is another problem of a file that can.
fn is_unreadable(problem: &Diagnostic) -> bool {
    problem.severity == Severity::Error && problem.code != Code::UnclearGuard
}

/// Returns the problems of unreadable files, by id. Files whose name is not a valid id are included if they
/// declare themselves guards.
pub(super) fn unreadable(
    found: &FolderScan,
    is_known: impl Fn(&str) -> bool,
    beginning: impl Fn(&Path) -> String,
) -> BTreeMap<Arc<str>, &Diagnostic> {
    let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
    let dangling = found.dangling.iter().filter(|problem| !is_known(&problem.id));
    let all = found.problems.iter().filter(is_error).chain(dangling);
    all.filter(|problem| !problem.id.is_empty() && !found.files.contains_key(problem.id.as_str()))
        .filter(|problem| is_id(&problem.id) || claims_of(&beginning(&problem.path)).0)
        .map(|problem| (problem.id.as_str().into(), problem))
        .collect()
}
