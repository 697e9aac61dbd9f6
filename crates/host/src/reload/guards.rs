//! The protections of a guard, the losses that a change would cause, and their confirmation by operators.
//!
//! A guard is compared with its last good version. A change that would weaken it is pending: the last good
//! version keeps running until an operator confirms exactly this change.

use super::last_good::{has_loaded, is_guards};
use super::state::Reload;
use crate::coverage::covers;
use crate::plan::ModelPlan;
use crate::plugin::{Plugin, Plugins, State, is_nothing};
use crate::status::consequence;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_core::filter::Hook;
use valvehouse_core::text::hex;
use valvehouse_script::{
    Code, Diagnostic, ENDPOINTS, FolderScan, Kind, LoadedFile, Script, Severity, claims_of, is_id,
};
use valvehouse_store::{GuardChange, LastGood};

/// The version of a guard that changes are measured against.
enum Baseline<'a> {
    /// The last good version in the store.
    Stored(&'a LastGood),
    /// The running version, if none is stored.
    Running(&'a Plugin),
}

impl Baseline<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::Stored(row) => Path::new(&row.path),
            Self::Running(plugin) => &plugin.path,
        }
    }

    fn hash(&self) -> &str {
        match self {
            Self::Stored(row) => &row.hash,
            Self::Running(plugin) => &plugin.hash,
        }
    }

    fn has_loaded(&self) -> bool {
        match self {
            Self::Stored(row) => has_loaded(row),
            Self::Running(_) => true,
        }
    }
}

/// A change of a guard that an operator has to confirm.
pub(super) struct WeakenedGuard {
    pub(super) problem: Diagnostic,
    pub(super) pending: GuardChange,
    pub(super) by: Cause,
}

/// The origin of a change.
pub(super) enum Cause {
    /// The file changed; the last good version, which was in this file, keeps running.
    File(PathBuf),
    /// The settings changed; they do not apply to the guard yet.
    Settings,
}

impl Reload {
    /// Returns the version that changes of a guard are compared with; `None` if the id does not belong to a
    /// guard.
    fn baseline<'a>(&'a self, id: &str, before: Option<&'a Arc<Plugin>>) -> Option<Baseline<'a>> {
        match self.stored.last_good.get(id) {
            Some(row) => is_guards(row).then_some(Baseline::Stored(row)),
            None => {
                let running = before.filter(|plugin| plugin.security && plugin.script.is_some())?;
                Some(Baseline::Running(running))
            }
        }
    }

    /// Returns `true` if an id belongs to a guard.
    pub(super) fn is_guard(&self, id: &str, before: Option<&Arc<Plugin>>) -> bool {
        self.baseline(id, before).is_some()
    }

    /// Returns the script of a baseline; `None` if it has never loaded, or no longer loads.
    fn script_of(&self, baseline: &Baseline<'_>, before: Option<&Arc<Plugin>>) -> Option<Arc<Script>> {
        let runs = before.filter(|plugin| plugin.security).and_then(|plugin| plugin.script.clone());
        match baseline {
            Baseline::Running(plugin) => plugin.script.clone(),
            Baseline::Stored(row) => runs
                .filter(|script| *script.file.text == row.source && script.manifest.security)
                .or_else(|| {
                    let path = Path::new(&row.path);
                    self.stored_version(row, Kind::Filter, path, &self.given(&row.id))
                }),
        }
    }

    /// Returns the change by which a file or the settings would weaken the guard with this id; `None` if the
    /// change is harmless or confirmed.
    pub(super) fn weakened(
        &self,
        read: &LoadedFile,
        script: &Script,
        before: Option<&Arc<Plugin>>,
        found: &FolderScan,
    ) -> Option<WeakenedGuard> {
        let id = &*read.file.id;
        let baseline = self.baseline(id, before)?;
        let is_changed = *read.hash != *baseline.hash();
        // An unchanged file loads, and so does the equal last good version.
        let old = if is_changed { self.script_of(&baseline, before) } else { None };
        let lost = match is_changed {
            true => self.lost_by_file(&baseline, old.as_deref(), read, script, found),
            false => Vec::new(),
        };
        let by_file = change(&read.hash, &lost);
        let (what, pending, by) = match lost.is_empty() || self.stored.is_confirmed(id, &by_file) {
            false => (format!("lose {}", lost.join(", ")), by_file, Cause::File(baseline.path().to_owned())),
            true => {
                let (what, pending) = self.lost_by_settings(id, script)?;
                (what, pending, Cause::Settings)
            }
        };
        let meanwhile = match old.is_some() || !is_changed && baseline.has_loaded() {
            true => "its last good version keeps running",
            false => consequence(
                !self.is_off(id) || self.is_held_on(id),
                self.audits(id) == Some(true) && !self.is_held_enforced(id),
            ),
        };
        let what = format!("the guard `{id}` would {what}; {meanwhile} until the change is confirmed");
        let help = format!("undo the change, or if it is intended, run: valvehouse confirm {id}");
        let problem = Diagnostic::new(Code::GuardWeakened, id, &read.file.path, what).help(help);
        Some(WeakenedGuard { problem, pending, by })
    }

    /// Describes the losses if a changed file replaced the version of a guard, one phrase per loss.
    fn lost_by_file(
        &self,
        baseline: &Baseline<'_>,
        old: Option<&Script>,
        read: &LoadedFile,
        script: &Script,
        found: &FolderScan,
    ) -> Vec<String> {
        let is_quarantined = || {
            let versions = self.compiler.quarantine.of_plugin(&read.file.id);
            versions.iter().any(|version| version.hash == baseline.hash())
        };
        let mut lost = match old {
            Some(old) => losses(old, script),
            None if !script.manifest.security => vec!["`security: true`".to_owned()],
            // A different text releases a quarantined version.
            None if !baseline.has_loaded() || is_quarantined() => Vec::new(),
            None => vec!["everything its last good version does: that version no longer loads".to_owned()],
        };
        let (path, before) = (&*read.file.path, baseline.path());
        let is_shadowed = found.shadowed.iter().any(|other| other.file.path == before);
        let is_unread = found.problems.iter().any(|problem| problem.path == before && is_unreadable(problem));
        if path != before && (is_shadowed || is_unread) {
            lost.push(format!("its place: {} has the same id", path.display()));
        }
        lost
    }

    /// Returns the change by which the settings would weaken a guard, as a clause and as its confirmation.
    fn lost_by_settings(&self, id: &str, script: &Script) -> Option<(String, GuardChange)> {
        if self.is_held_on(id) {
            let by = match self.stored.switches.get(id).and_then(|switch| switch.enabled) {
                Some(_) => "a switch in the store that no operator has set".to_owned(),
                None => format!("`[filters.{id}] enabled = false`"),
            };
            return Some((format!("be switched off by {by}"), GuardChange::Off));
        }
        if self.is_held_enforced(id) {
            let by = match self.stored.switches.get(id).and_then(|switch| switch.audit) {
                Some(_) => "a switch in the store that no operator has set".to_owned(),
                None => format!("`[filters.{id}] mode`"),
            };
            return Some((format!("be put in audit mode by {by}"), GuardChange::Audit));
        }
        if self.is_held_wide(id) && script.manifest.global {
            let what =
                "lose the models that do not list it, by a switch in the store that no operator has set";
            return Some((what.to_owned(), GuardChange::Narrow));
        }
        let lost = self.models_lost_by(id);
        (!lost.is_empty() && !script.manifest.global).then(|| {
            let models: Vec<String> =
                lost.iter().map(|model| format!("`{}`", model.trim_start_matches(UPSTREAM))).collect();
            let what = format!("lose models that no longer list it or are gone: {}", models.join(", "));
            (what, unlisted(&lost))
        })
    }

    /// Returns `true` if the settings of a guard wait for a confirmation.
    pub(super) fn is_held(&self, id: &str) -> bool {
        self.is_held_on(id)
            || self.is_held_enforced(id)
            || self.is_held_wide(id)
            || !self.models_lost_by(id).is_empty()
    }

    /// Returns the models that stopped listing a guard without a confirmation.
    pub(super) fn models_lost_by(&self, id: &str) -> Vec<String> {
        let lost = self.models_unlisting(id);
        if lost.is_empty() || self.stored.is_confirmed(id, &unlisted(&lost)) { Vec::new() } else { lost }
    }

    pub(super) fn models_unlisting(&self, id: &str) -> Vec<String> {
        let Some(guarded) = self.stored.guarded.get(id) else { return Vec::new() };
        let is_configured = |name: &str| self.plan.model(name);
        let is_lost = |name: &&String| match name.strip_prefix(UPSTREAM) {
            None => !is_configured(name).is_some_and(|model| lists(model, id)),
            // Clients may still reach it by its own name.
            Some(name) => self.plan.passes(name).is_some_and(|(provider, upstream)| {
                is_configured(name).is_none()
                    && name.split_once('/') == Some((provider.name(), upstream))
                    && !self.plan.meant_by(provider.name(), upstream).iter().any(|model| lists(model, id))
            }),
        };
        guarded.iter().filter(is_lost).cloned().collect()
    }

    /// Returns the models that list a guard, and the names that these have at their providers.
    pub(super) fn models_of(&self, id: &str) -> BTreeSet<String> {
        let models = self.plan.models.iter().filter(|model| lists(model, id));
        let names = models.flat_map(|model| {
            let upstream =
                model.leads_to.iter().map(|(provider, name)| format!("{UPSTREAM}{provider}/{name}"));
            upstream.chain([model.name.clone()])
        });
        names.collect()
    }

    /// Returns `true` if a guard runs although the settings or a stored switch disable it: the change is not
    /// confirmed. Switching a guard off as an operator confirms it.
    pub(super) fn is_held_on(&self, id: &str) -> bool {
        self.is_off(id)
            && self.stored.last_good.get(id).is_some_and(|row| row.security)
            && !self.stored.is_confirmed(id, &GuardChange::Off)
    }

    /// Returns `true` if the verdicts of a guard apply although the settings or a stored switch put it in audit mode: the
    /// change is not confirmed.
    pub(super) fn is_held_enforced(&self, id: &str) -> bool {
        self.audits(id) == Some(true)
            && self.stored.last_good.get(id).is_some_and(|row| row.security)
            && !self.stored.is_confirmed(id, &GuardChange::Audit)
    }

    /// Returns `true` if a stored switch or the settings put a filter in audit mode; `None` if its script decides.
    pub(super) fn audits(&self, id: &str) -> Option<bool> {
        let switched = self.stored.switches.get(id).and_then(|switch| switch.audit);
        switched.or_else(|| self.plan.audits(id))
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
}

/// The begin of a model's name at its provider, among the models of a guard.
const UPSTREAM: char = '→';

fn lists(model: &ModelPlan, guard: &str) -> bool {
    model.filters.iter().any(|listed| listed == guard)
}

/// Returns the confirmation that these models may stop listing a guard.
pub(super) fn unlisted(models: &[String]) -> GuardChange {
    change("unlisted", models)
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
    if !old.audit && new.audit {
        lost.push("the effect of its verdicts (`mode: audit`)".to_owned());
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
    let is_idle = |script: &Script| {
        let needs = &script.manifest.needs;
        !needs.is_empty()
            && needs.iter().all(|name| script.valves.get(name).is_none_or(|own| is_nothing(&own)))
    };
    if !is_idle(before) && is_idle(next) {
        lost.push(format!(
            "its effect: no valve of `needs` has a value ({})",
            next.manifest.needs.join(", ")
        ));
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
    /// Returns the problems of unreadable files, by id. Files whose name is not a valid id are included if they
    /// declare themselves guards.
    pub(super) fn unreadable<'a>(
        &self,
        found: &'a FolderScan,
        before: &Plugins,
    ) -> BTreeMap<Arc<str>, &'a Diagnostic> {
        let is_known = |id: &str| {
            let runs = |plugin: &Arc<Plugin>| plugin.script.is_some() || plugin.state == State::Missing;
            let version = self.stored.last_good.get(id);
            before.get(id).is_some_and(runs) || version.is_some_and(|version| !version.source.is_empty())
        };
        let is_error = |problem: &&Diagnostic| problem.severity == Severity::Error;
        let dangling = found.dangling.iter().filter(|problem| !is_known(&problem.id));
        let all = found.problems.iter().filter(is_error).chain(dangling);
        all.filter(|problem| !problem.id.is_empty() && !found.files.contains_key(problem.id.as_str()))
            .filter(|problem| is_id(&problem.id) || claims_of(&self.beginning(&problem.path)).0)
            .map(|problem| (problem.id.as_str().into(), problem))
            .collect()
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_script::{Settings, SourceFile};

    fn guard(head: &str, code: &str) -> Script {
        let text = format!("/*\nsecurity: true\n{head}\n*/\n{code}");
        let file = SourceFile::new(Kind::Filter, "guard", "filters/guard.rhai", text);
        Script::compile(&file, &Settings::default()).unwrap()
    }

    #[test]
    fn each_loss_of_a_guard_is_named() {
        const CODE: &str = "fn inlet(body) { body }\nfn post_invocation(ctx) { ctx }";
        let plain = || guard("title: x", CODE);
        let with = |line: &str| guard("title: x", &format!("{line}\n{CODE}"));
        for (before, next, loss) in [
            (guard("hold: true", CODE), plain(), "`hold: true`"),
            (plain(), guard("mode: audit", CODE), "`mode: audit`"),
            (plain(), guard("global: false", CODE), "`global: false`"),
            (plain(), with("const toggle = true;"), "`toggle`"),
            (with("const on_tool_error = true;"), plain(), "`on_tool_error`"),
            (with("const endpoints = [\"chat\", \"embeddings\"];"), plain(), "the endpoint `embeddings`"),
            (plain(), guard("title: x", "fn inlet(body) { body }"), "the hook `post_invocation`"),
            (guard("title: x", &format!("{CODE}\nfn more() {{ 1 }}")), plain(), "its end"),
        ] {
            let lost = losses(&before, &next);
            assert!(lost.iter().any(|lost| lost.contains(loss)), "{loss}: {lost:?}");
            assert!(!losses(&next, &before).iter().any(|lost| lost.contains(loss)), "{loss}");
        }
    }
}
