//! The life of a plugin: what becomes of it when a scan has seen its file.
//!
//! ```text
//! saved → Waits (being saved) → Waits (being compiled) → Live: the file runs
//!                                                      ↘ Held: the last good version stays
//! gone  → Waits (missing for the first time) → Gone, or Missing for a guard: requests are rejected
//! ```
//! [`Reload::next`] alone decides for one plugin, [`Reload::saving`] for all; [`Wait`] has the times at which
//! a scan looks again.

use super::clock::Wait;
use super::guards::{Cause, WeakenedGuard};
use super::state::Reload;
use crate::plugin::{OperatorSettings, Plugin, Plugins, State};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_script::{Code, Diagnostic, FolderScan, LoadedFile, Script};
use valvehouse_store::GuardChange;

/// The observation of a scan for one plugin.
#[derive(Clone, Copy)]
pub(super) enum Sight<'a> {
    File(&'a LoadedFile),
    /// A file that cannot be read.
    Unreadable(&'a Diagnostic),
    Nothing,
}

/// The state of a plugin after a scan.
pub(super) enum Life {
    /// The plugin stays as it is until a later scan.
    Waits(Wait),
    /// The file and the settings are those that already run.
    Same(Arc<Plugin>),
    /// The file runs, for a guard without the settings that an operator has to confirm.
    Live {
        script: Arc<Script>,
        hash: Arc<str>,
        pending: Option<(Diagnostic, GuardChange)>,
    },
    /// The file does not run; a change that would weaken a guard has to be confirmed. The last good version
    /// keeps running. Without one, nothing runs, and a guard rejects requests.
    Held {
        path: PathBuf,
        hash: Arc<str>,
        problems: Vec<Diagnostic>,
        pending: Option<GuardChange>,
    },
    /// The file of a guard is missing, and its removal is not confirmed: requests are rejected.
    Missing,
    Gone,
}

impl Reload {
    /// Returns the reason for which all plugins stay as they are: a file may be saved only in part. Files that
    /// are saved together go live together.
    pub(super) fn saving(&mut self, found: &FolderScan, before: &Plugins) -> Option<Wait> {
        let age = found.latest.and_then(|latest| latest.elapsed().ok());
        let is_recent = |wait: Wait| age.is_some_and(|age| age < wait.rest());
        if self.clock.allows(Wait::Saving) && (found.is_torn || is_recent(Wait::Saving)) {
            return Some(Wait::Saving);
        }
        let is_changed_guard = |(id, plugin): (&Arc<str>, &Arc<Plugin>)| {
            plugin.security
                && plugin.state != State::Missing
                && found.files.get(id).is_some_and(|read| !plugin.is_of(read))
        };
        let waits = self.clock.allows(Wait::SavingGuard) && is_recent(Wait::SavingGuard);
        (waits && before.iter().any(is_changed_guard)).then_some(Wait::SavingGuard)
    }

    /// Decides the next state of a plugin.
    pub(super) fn next(
        &self,
        id: &str,
        sight: Sight<'_>,
        before: Option<&Arc<Plugin>>,
        given: &OperatorSettings,
        found: &FolderScan,
    ) -> Life {
        let held = |path: &Path, hash: &str, problems, pending| Life::Held {
            path: path.to_owned(),
            hash: hash.into(),
            problems,
            pending,
        };
        let read = match sight {
            Sight::File(read) => read,
            Sight::Unreadable(problem) => return held(&problem.path, "", vec![problem.clone()], None),
            Sight::Nothing if self.is_missed_first(id, before) => return Life::Waits(Wait::Vanished),
            Sight::Nothing if !self.is_guard(id, before) => return Life::Gone,
            Sight::Nothing if self.stored.is_confirmed(id, &GuardChange::Gone) => return Life::Gone,
            Sight::Nothing if self.has_moved(id, found) => return Life::Gone,
            Sight::Nothing => return Life::Missing,
        };
        let is_same = |before: &&Arc<Plugin>| {
            before.is_of(read) && before.given == *given && before.pending.is_none() && !self.is_held(id)
        };
        if let Some(before) = before.filter(is_same) {
            return Life::Same(before.clone());
        }
        let (path, hash) = (&*read.file.path, &read.hash);
        let job = self.compiler.job(&self.plan, read.clone(), given.clone());
        let script = match self.compiler.compile_soon(job, self.clock.is_serving) {
            None => return Life::Waits(Wait::Compiling),
            Some(Err(problems)) => return held(path, hash, problems, None),
            Some(Ok(script)) => script,
        };
        let pending = match self.weakened(read, &script, before, found) {
            None => None,
            Some(WeakenedGuard { problem, pending, by: Cause::Settings }) => Some((problem, pending)),
            Some(WeakenedGuard { problem, pending, by: Cause::File(path) }) => {
                return held(&path, hash, vec![problem], Some(pending));
            }
        };
        if !self.is_guard(id, before)
            && let Some(other) = self.other_guard(id, path, found)
        {
            let what = format!("{} has the id of this guard", path.display());
            let problem = Diagnostic::new(Code::SameId, id, &other, what).help("rename one of the two");
            return held(&other, hash, vec![problem], None);
        }
        Life::Live { script: Arc::new(script), hash: hash.clone(), pending }
    }

    /// Returns `true` if the file of a plugin is missing and was there at the last scan. A set of scripts in
    /// the store is always complete.
    fn is_missed_first(&self, id: &str, before: Option<&Arc<Plugin>>) -> bool {
        before.is_some_and(|before| before.state != State::Missing)
            && !self.last.missed.contains(id)
            && self.sources().is_none()
    }
}
