//! Lists the entries of a plugin folder with their stamps, without opening files.

use crate::diagnostic::{Code, Diagnostic};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The time within which another save may result in the same stamp.
const STAMP_GRAIN: Duration = Duration::from_secs(2);
/// The maximum nesting of folders.
pub(super) const MAX_NESTING: usize = 16;
/// The suffix of a test file's name: `turn_limit.test.rhai` belongs to `turn_limit.rhai`.
pub(super) const TESTS: &str = ".test.rhai";

/// The help for a file that cannot be read.
pub(super) const READABLE: &str = "give the host's user permission to read it";

/// A folder and its subfolders at the time of a scan.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listing {
    /// The scripts and modules, sorted by path.
    pub(super) scripts: Vec<ListedFile>,
    /// The files of tests, sorted by path.
    pub(super) tests: Vec<PathBuf>,
    /// The problems of folders that exist but cannot be listed.
    pub(super) problems: Vec<Diagnostic>,
    /// Entries with a script's name that do not lead to a file.
    pub(super) dangling: Vec<Diagnostic>,
}

/// A script or module.
#[derive(Debug, PartialEq)]
pub(super) struct ListedFile {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    /// `true` if it is a module.
    pub(super) is_module: bool,
}

/// The stamp that distinguishes states of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stamp {
    pub(super) len: u64,
    pub(super) is_file: bool,
    pub(super) changed: Option<SystemTime>,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self {
            len: metadata.len(),
            is_file: metadata.is_file(),
            changed: changed(metadata),
            modified: metadata.modified().ok(),
            inode,
        }
    }

    /// Returns `true` if a later save could result in the same stamp.
    pub(super) fn is_fresh(&self, read_at: SystemTime) -> bool {
        match self.modified {
            Some(modified) => {
                read_at.duration_since(modified).is_ok_and(|age| age < STAMP_GRAIN) || modified > read_at
            }
            None => true,
        }
    }
}

/// Returns the time of the latest change of a file. On Unix, this includes a rename, which does not change the
/// modification time, and it cannot be set back.
fn changed(metadata: &Metadata) -> Option<SystemTime> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let seconds = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
        let nanos = Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(seconds + nanos)
    }
    #[cfg(not(unix))]
    metadata.modified().ok()
}

impl Listing {
    /// Lists a folder and its subfolders. A missing folder counts as empty.
    pub(super) fn of(folder: &Path) -> Self {
        let mut listing = Self::default();
        listing.add(folder, 0, false);
        listing
    }

    /// Adds a folder. Sorting the names of each folder results in paths in order and is cheaper than sorting paths.
    fn add(&mut self, folder: &Path, depth: usize, in_lib: bool) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let what = format!("cannot list this folder: {error}");
                // The problem of a plugin folder applies to all plugins that may be in it.
                let id = if depth == 0 { folder.file_name() } else { None };
                let id = id.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                self.problems.push(Diagnostic::new(Code::Unreadable, &id, folder, what).help(READABLE));
                return;
            }
        };
        let mut named: Vec<_> = entries.flatten().map(|entry| (entry.file_name(), entry)).collect();
        named.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, entry) in named {
            let name = name.to_string_lossy();
            // Hidden files, files of editors, and files that Kubernetes keeps next to its links.
            if name.starts_with(['.', '#']) || name.ends_with('~') {
                continue;
            }
            // A name such as `Guard.RHAI` is reported but never loaded.
            let is_script = name.to_lowercase().ends_with(".rhai");
            if !is_script && entry.file_type().is_ok_and(|found| found.is_file()) {
                continue;
            }
            // The metadata of the entry itself needs no further path lookup. A dangling link counts as deleted.
            let metadata = entry.metadata().ok().and_then(|own| match own.is_symlink() {
                true => std::fs::metadata(entry.path()).ok(),
                false => Some(own),
            });
            let Some(metadata) = metadata else {
                if is_script {
                    self.dangling
                        .push(no_file(&entry.path(), "cannot read this link: its target does not exist"));
                }
                continue;
            };
            if metadata.is_dir() {
                if is_script {
                    self.dangling.push(no_file(&entry.path(), "cannot read this script: it is a folder"));
                }
                if !name.starts_with('_') && depth < MAX_NESTING {
                    self.add(&entry.path(), depth + 1, in_lib || name == "lib");
                }
            } else if name.ends_with(TESTS) {
                self.tests.push(entry.path());
            } else if is_script {
                let (path, stamp) = (entry.path(), Stamp::of(&metadata));
                self.scripts.push(ListedFile { path, stamp, is_module: in_lib || name.starts_with('_') });
            }
        }
    }
}

fn no_file(path: &Path, what: &str) -> Diagnostic {
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
    Diagnostic::new(Code::Unreadable, &stem, path, what).help("replace it with a text file, or delete it")
}
