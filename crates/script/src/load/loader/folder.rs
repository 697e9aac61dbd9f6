//! Scans folders repeatedly.

use super::file::{As, FolderScan, LoadedFile, importing, read, stamp_of};
use super::listing::{ListedFile, Listing, Stamp};
use crate::declare::manifest::claims_of;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::imports::{Imports, ModuleFinder};
use crate::load::source::Kind;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Caches files, so that unchanged ones are not read again.
#[derive(Debug, Default)]
pub struct Loader {
    seen: HashMap<PathBuf, Entry>,
    /// The latest scripts, including the modules they import.
    whole: HashMap<PathBuf, Whole>,
    looked: HashMap<(Kind, PathBuf), LastLook>,
    /// The number of times a file was read.
    pub(super) reads: u64,
    /// The number of reads whose files have to be read again even if their stamps are unchanged.
    unsure: u64,
}

#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    read_at: SystemTime,
    content: Result<Arc<LoadedFile>, Diagnostic>,
}

/// A script on its own, and with the modules it imports.
#[derive(Debug)]
struct Whole {
    own: Arc<LoadedFile>,
    whole: Arc<LoadedFile>,
}

/// The latest scan of a folder.
#[derive(Debug)]
struct LastLook {
    listing: Listing,
    found: Arc<FolderScan>,
    /// `true` if an equal listing guarantees the same files.
    is_sure: bool,
}

impl Loader {
    /// Scans a folder and its subfolders. A missing folder counts as empty.
    pub fn look(&mut self, kind: Kind, folder: &Path) -> FolderScan {
        let found = self.look_again(kind, folder);
        self.looked.clear();
        Arc::unwrap_or_clone(found)
    }

    /// Scans a folder like [`Loader::look`], but returns the previous result if nothing has changed.
    pub fn look_again(&mut self, kind: Kind, folder: &Path) -> Arc<FolderScan> {
        let listing = Listing::of(folder);
        let key = (kind, folder.to_owned());
        if let Some(before) = self.looked.get(&key)
            && before.is_sure
            && before.listing == listing
        {
            return before.found.clone();
        }
        let (reads, unsure) = (self.reads, self.unsure);
        let mut found = FolderScan {
            problems: listing.problems.clone(),
            dangling: listing.dangling.clone(),
            unlisted: listing.problems.iter().map(|problem| problem.path.clone()).collect(),
            tests: listing.tests.clone(),
            latest: listing.scripts.iter().filter_map(|listed| listed.stamp.changed).max(),
            ..FolderScan::default()
        };
        let mut finding = ModuleFinder::below(folder);
        let mut imported = HashSet::new();
        for ListedFile { path, stamp, is_module } in &listing.scripts {
            if *is_module {
                found.modules.push(path.clone());
                if kind == Kind::Filter {
                    found.problems.extend(self.guard_among_modules(path, stamp));
                }
                continue;
            }
            match self.read_plugin(kind, path, stamp, &mut finding, &mut imported) {
                Ok(read) => found.add(read),
                Err(problem) => found.problems.push(problem),
            }
        }
        let listed: HashSet<&Path> = listing.scripts.iter().map(|listed| &*listed.path).collect();
        let forget = |path: &PathBuf| path.starts_with(folder) && !listed.contains(&**path);
        self.seen.retain(|path, _| !forget(path));
        self.whole.retain(|path, _| !forget(path));
        // Otherwise, an equal listing may hide a change of an imported file.
        let is_certain =
            finding.found_all() && imported.iter().all(|path: &PathBuf| listed.contains(&**path));
        found.is_torn = self.reads != reads && listing.scripts != Listing::of(folder).scripts;
        let is_sure = is_certain && self.unsure == unsure && !found.is_torn;
        let found = Arc::new(found);
        self.looked.insert(key, LastLook { listing, found: found.clone(), is_sure });
        found
    }

    /// Reports a module that claims to be a guard: it would never run.
    fn guard_among_modules(&mut self, path: &Path, stamp: &Stamp) -> Option<Diagnostic> {
        let read = self.read(As::Module, Kind::Filter, path, stamp).ok()?;
        claims_of(&read.file.text).0.then(|| {
            let what = "`security: true` has no effect: files in `lib` and files whose name starts with `_` \
                        are not filters";
            Diagnostic::new(Code::UnclearGuard, &read.file.id, path, what)
                .help("move the file to the filters, or remove `security: true`")
        })
    }

    fn read_plugin(
        &mut self,
        kind: Kind,
        path: &Path,
        stamp: &Stamp,
        finding: &mut ModuleFinder<'_>,
        imported: &mut HashSet<PathBuf>,
    ) -> Result<Arc<LoadedFile>, Diagnostic> {
        let own = self.read(As::Plugin, kind, path, stamp)?;
        let imports = Imports::of(finding, path, &own.file.text, &mut |path| {
            imported.insert(path.to_owned());
            Ok(self.read(As::Module, kind, path, &stamp_of(path)?)?.file.text.clone())
        });
        if imports.is_empty() {
            return Ok(own);
        }
        let before = self.whole.get(path);
        if let Some(Whole { whole, .. }) =
            before.filter(|before| Arc::ptr_eq(&before.own, &own) && before.whole.file.imports == imports)
        {
            return Ok(whole.clone());
        }
        let whole = Arc::new(importing(&own, imports));
        self.whole.insert(path.to_owned(), Whole { own, whole: whole.clone() });
        Ok(whole)
    }

    fn read(
        &mut self,
        what: As,
        kind: Kind,
        path: &Path,
        stamp: &Stamp,
    ) -> Result<Arc<LoadedFile>, Diagnostic> {
        if let Some(seen) = self.seen.get(path)
            && seen.stamp == *stamp
            && !stamp.is_fresh(seen.read_at)
        {
            return seen.content.clone();
        }
        let read_at = SystemTime::now();
        self.reads += 1;
        self.unsure += u64::from(stamp.is_fresh(read_at));
        let content = read(what, kind, path, stamp).map(Arc::new);
        self.seen.insert(path.to_owned(), Entry { stamp: *stamp, read_at, content: content.clone() });
        content
    }
}
