//! The result of one look at a folder.

use super::file::Read;
use crate::problem::{Code, Problem};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Files that are saved together follow each other within this time.
pub(crate) const REST: Duration = Duration::from_millis(25);

/// The result of one look at a folder.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Files that could be read, by id. Of two files with one id the later path counts.
    pub files: BTreeMap<Arc<str>, Arc<Read>>,
    /// Files that could not, and files that share an id.
    pub problems: Vec<Problem>,
    /// Links to no file and folders with a script's name. For a plugin that is known they count as deleted.
    pub dangling: Vec<Problem>,
    /// Files whose id a later file has.
    pub shadowed: Vec<Arc<Read>>,
    /// The time of a file's latest change.
    pub latest: Option<SystemTime>,
    /// `true` if files changed during the look: the texts may be of different moments.
    pub is_torn: bool,
    /// Folders that are there and could not be listed: what is in them is not known.
    pub unlisted: Vec<PathBuf>,
    /// Files that are not plugins: scripts import them.
    pub modules: Vec<PathBuf>,
    /// Files of tests beside their scripts.
    pub tests: Vec<PathBuf>,
}

impl Found {
    /// Returns `true` if somebody seems to be in the middle of saving.
    pub fn is_restless(&self) -> bool {
        let age = self.latest.and_then(|latest| latest.elapsed().ok());
        self.is_torn || age.is_some_and(|age| age < REST)
    }

    /// Joins the results of looks at different folders.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.files.extend(other.files);
        self.problems.extend(other.problems);
        self.dangling.extend(other.dangling);
        self.shadowed.extend(other.shadowed);
        self.unlisted.extend(other.unlisted);
        self.modules.extend(other.modules);
        self.tests.extend(other.tests);
        self.latest = self.latest.max(other.latest);
        self.is_torn |= other.is_torn;
        self
    }

    /// Returns `true` if there is a file of that id, readable or not.
    pub fn knows(&self, id: &str) -> bool {
        self.files.contains_key(id) || self.problems.iter().any(|problem| problem.id == id)
    }

    /// Adds a file; of two with one id the later one counts, and both are told.
    pub(super) fn add(&mut self, read: Arc<Read>) {
        let id = read.file.id.clone();
        let path = read.file.path.clone();
        let Some(earlier) = self.files.insert(id.clone(), read) else { return };
        let twice = |path: &Path, other: &Path, what: &str| {
            Problem::new(Code::SameId, &id, path, format!("two files have the id `{id}`: {what}"))
                .help(format!("rename this one or {}", other.display()))
                .warning()
        };
        let other = &earlier.file.path;
        self.problems.push(twice(other, &path, "this one is not used"));
        self.problems.push(twice(&path, other, "this one is used"));
        self.shadowed.push(earlier);
    }

    /// Returns `true` if a file may well be there although it was not found.
    pub fn leaves_open(&self, path: &Path) -> bool {
        self.unlisted.iter().any(|folder| path.starts_with(folder))
    }
}
