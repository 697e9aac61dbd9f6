//! From a folder to the script files in it; what cannot be read is a problem beside the others.
//!
//! A look at the folder costs a `stat` per file. A file is read again when its stamp changed, or
//! when it was read so soon after it was written that another save could wear the same stamp.

use super::imports::{Imports, is_module};
use super::problem::{Code, Problem};
use super::source::{Kind, MAX_SOURCE, SourceFile};
use crate::words::hex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A save within this time of the last one may leave the same stamp.
const STAMP_GRAIN: Duration = Duration::from_secs(2);
/// Files that are saved together follow each other within this time.
pub(super) const REST: Duration = Duration::from_millis(25);
/// How what cannot be read is mended.
const READABLE: &str = "let the user that the host runs as read it";
const SPLIT: &str = "split it, or move data into valves or the store";
/// Folders inside folders.
const MAX_NESTING: usize = 16;

/// How the name of a file of tests ends: `turn_limit.test.rhai` stands beside `turn_limit.rhai`.
const TESTS: &str = ".test.rhai";

/// What one look at a folder found.
#[derive(Debug, Default)]
pub struct Found {
    /// Files that could be read, by id. Of two files with one id the later path counts.
    pub files: BTreeMap<Arc<str>, Read>,
    /// Files that could not, and files that share an id.
    pub problems: Vec<Problem>,
    /// When the latest change of a file was.
    pub latest: Option<SystemTime>,
    /// Whether files changed during the look: what was read may be of different moments.
    pub is_torn: bool,
    /// Folders that are there and could not be listed: what is in them is not known.
    pub unlisted: Vec<PathBuf>,
    /// Files that are no plugins: scripts import them.
    pub modules: Vec<PathBuf>,
    /// Files of tests beside their scripts.
    pub tests: Vec<PathBuf>,
}

impl Found {
    /// Whether somebody seems to be in the middle of saving.
    pub fn is_restless(&self) -> bool {
        let age = self.latest.and_then(|latest| latest.elapsed().ok());
        self.is_torn || age.is_some_and(|age| age < REST)
    }

    /// What two looks at different folders found.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.files.extend(other.files);
        self.problems.extend(other.problems);
        self.unlisted.extend(other.unlisted);
        self.modules.extend(other.modules);
        self.tests.extend(other.tests);
        self.latest = self.latest.max(other.latest);
        self.is_torn |= other.is_torn;
        self
    }

    /// Whether there is a file of that id, readable or not.
    pub fn knows(&self, id: &str) -> bool {
        self.files.contains_key(id) || self.problems.iter().any(|problem| problem.id == id)
    }

    /// Whether a file may well be there although it was not found.
    pub fn leaves_open(&self, path: &Path) -> bool {
        self.unlisted.iter().any(|folder| path.starts_with(folder))
    }
}

/// A file as it was read.
#[derive(Debug, Clone)]
pub struct Read {
    /// Its text.
    pub file: SourceFile,
    /// SHA-256 of its bytes and those of what it imports, hex.
    pub hash: Arc<str>,
}

/// Remembers what was read, so that unchanged files are not read again.
#[derive(Debug, Default)]
pub struct Loader {
    seen: HashMap<PathBuf, Seen>,
    /// How many times a file was read.
    reads: u64,
}

#[derive(Debug, Clone)]
struct Seen {
    stamp: Stamp,
    read_at: SystemTime,
    content: Result<Read, Problem>,
}

#[derive(Debug, Clone, PartialEq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    changed: Option<SystemTime>,
    inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        let modified = metadata.modified().ok();
        Self { len: metadata.len(), modified, changed: changed(metadata), inode }
    }

    /// Whether a later save could not be told from this one by its stamp.
    fn is_fresh(&self, read_at: SystemTime) -> bool {
        match self.modified {
            Some(modified) => {
                read_at.duration_since(modified).is_ok_and(|age| age < STAMP_GRAIN) || modified > read_at
            }
            None => true,
        }
    }
}

/// When a file became what it is and where it is. On Unix that counts a rename, which leaves the
/// time of modification as it was, and nobody can set it back.
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

impl Loader {
    /// Looks at a folder and the folders in it. A folder that is not there is empty.
    pub fn look(&mut self, kind: Kind, folder: &Path) -> Found {
        let mut found = Found::default();
        let mut paths = Vec::new();
        collect(folder, 0, &mut paths, &mut found);
        paths.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.tests.sort();
        found.latest = paths.iter().filter_map(|(_, metadata)| changed(metadata)).max();
        let stamps = stamps(&paths);
        let before = self.reads;
        let (modules, plugins) = paths.into_iter().partition(|(path, _)| is_module(folder, path));
        let (modules, plugins): (Files, Files) = (modules, plugins);
        found.modules = modules.into_iter().map(|(path, _)| path).collect();
        for (path, metadata) in &plugins {
            match self.read_plugin(kind, folder, path, metadata) {
                Ok(read) => {
                    let id = read.file.id.clone();
                    if let Some(earlier) = found.files.insert(id.clone(), read) {
                        let other = earlier.file.path;
                        let twice = |path: &Path, other: &Path, what: &str| {
                            Problem::new(
                                Code::SameId,
                                &id,
                                path,
                                format!("two files have the id `{id}`: {what}"),
                            )
                            .help(format!("rename this one or {}", other.display()))
                            .warning()
                        };
                        found.problems.push(twice(&other, path, "this one is not used"));
                        found.problems.push(twice(path, &other, "this one is used"));
                    }
                }
                Err(problem) => found.problems.push(problem),
            }
        }
        self.seen.retain(|path, _| !path.starts_with(folder) || stamps.contains_key(path));
        found.is_torn = self.reads != before && stamps != stamps_in(folder);
        found
    }

    fn read_plugin(
        &mut self,
        kind: Kind,
        root: &Path,
        path: &Path,
        metadata: &Metadata,
    ) -> Result<Read, Problem> {
        let plugin = self.read(As::Plugin, kind, path, metadata)?;
        with_imports(plugin, root, &mut |path| {
            Ok(self.read(As::Module, kind, path, &metadata_of(path)?)?.file.text)
        })
    }

    fn read(&mut self, what: As, kind: Kind, path: &Path, metadata: &Metadata) -> Result<Read, Problem> {
        let stamp = Stamp::of(metadata);
        if let Some(seen) = self.seen.get(path)
            && seen.stamp == stamp
            && !stamp.is_fresh(seen.read_at)
        {
            return seen.content.clone();
        }
        let read_at = SystemTime::now();
        self.reads += 1;
        let content = read(what, kind, path, metadata);
        self.seen.insert(path.to_owned(), Seen { stamp, read_at, content: content.clone() });
        content
    }
}

/// Reads one file, wherever it is, and what it imports from its plugin folder.
pub fn read_file(kind: Kind, root: &Path, path: &Path) -> Result<Read, Problem> {
    let what = if is_module(root, path) { As::Module } else { As::Plugin };
    let read = |what, path: &Path| read(what, kind, path, &metadata_of(path)?);
    with_imports(read(what, path)?, root, &mut |path| Ok(read(As::Module, path)?.file.text))
}

/// The same of a file that is about to have this text.
pub fn read_text(kind: Kind, root: &Path, path: &Path, text: &str) -> Result<Read, Problem> {
    let own = read_bytes(As::Plugin, kind, path, text.as_bytes().to_vec())?;
    with_imports(own, root, &mut |path| Ok(read(As::Module, kind, path, &metadata_of(path)?)?.file.text))
}

/// Reads a file of tests and what it imports. Its id is that of its script.
pub fn read_tests(kind: Kind, root: &Path, path: &Path) -> Result<SourceFile, Problem> {
    let read = |what, path: &Path| read(what, kind, path, &metadata_of(path)?);
    let own = read(As::Tests, path)?;
    let tests = with_imports(own, root, &mut |path| Ok(read(As::Module, path)?.file.text))?.file;
    let id = script_of_tests(path).map(|script| stem_of(&script));
    Ok(SourceFile { id: id.map_or(tests.id, Into::into), ..tests })
}

/// Where the tests of a script are.
pub fn tests_of_script(script: &Path) -> PathBuf {
    script.with_extension("test.rhai")
}

/// The script that tests are of; none where that is no file of tests.
pub fn script_of_tests(tests: &Path) -> Option<PathBuf> {
    let name = tests.file_name()?.to_str()?.strip_suffix(TESTS).filter(|name| !name.is_empty())?;
    Some(tests.with_file_name(format!("{name}.rhai")))
}

fn metadata_of(path: &Path) -> Result<Metadata, Problem> {
    let unreadable =
        |error| Problem::new(Code::Unreadable, "", path, format!("cannot read this file: {error}"));
    std::fs::metadata(path).map_err(|error| unreadable(error).help(READABLE))
}

/// A script with everything that it imports.
fn with_imports(
    script: Read,
    root: &Path,
    read: &mut dyn FnMut(&Path) -> Result<Arc<str>, Problem>,
) -> Result<Read, Problem> {
    let imports = Imports::of(root, &script.file.path, &script.file.text, read);
    if imports.is_empty() {
        return Ok(script);
    }
    let hash = imports.hash_with(&script.hash).into();
    Ok(Read { file: script.file.importing(imports), hash })
}

/// What a file is read as.
#[derive(Clone, Copy, PartialEq)]
enum As {
    Plugin,
    Module,
    Tests,
}

type Files = Vec<(PathBuf, Metadata)>;

fn stamps(files: &Files) -> HashMap<PathBuf, Stamp> {
    files.iter().map(|(path, metadata)| (path.clone(), Stamp::of(metadata))).collect()
}

fn stamps_in(folder: &Path) -> HashMap<PathBuf, Stamp> {
    let mut files = Vec::new();
    collect(folder, 0, &mut files, &mut Found::default());
    stamps(&files)
}

fn collect(folder: &Path, depth: usize, paths: &mut Files, found: &mut Found) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            found.problems.push(
                Problem::new(Code::Unreadable, "", folder, format!("cannot list this folder: {error}"))
                    .help(READABLE),
            );
            found.unlisted.push(folder.to_owned());
            return;
        }
    };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        // Hidden files, editors' own, and what Kubernetes keeps beside its links.
        if name.starts_with(['.', '#']) || name.ends_with('~') {
            continue;
        }
        // Follows links: a link that points nowhere is as good as deleted.
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.is_dir() {
            if !name.starts_with('_') && depth < MAX_NESTING {
                collect(&path, depth + 1, paths, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rhai") {
            if name.ends_with(TESTS) {
                found.tests.push(path);
            } else {
                paths.push((path, metadata));
            }
        }
    }
}

fn read(what: As, kind: Kind, path: &Path, metadata: &Metadata) -> Result<Read, Problem> {
    let stem = stem_of(path);
    let problem = |code, message: String| Problem::new(code, &stem, path, message);
    if what == As::Plugin && !is_id(&stem) {
        return Err(problem(Code::BadId, format!("`{stem}` cannot be an id"))
            .help("name the file with a-z, 0-9, `_` and `-` only, at most 64 of them"));
    }
    // A pipe would hold up whoever opens it, a device may have no end.
    if !metadata.is_file() {
        return Err(
            problem(Code::Unreadable, "this is no regular file".into()).help("put a text file in its place")
        );
    }
    if metadata.len() > MAX_SOURCE as u64 {
        return Err(problem(Code::TooLong, too_long(metadata.len())).help(SPLIT));
    }
    let unreadable =
        |error| problem(Code::Unreadable, format!("cannot read this file: {error}")).help(READABLE);
    let bytes = std::fs::read(path).map_err(unreadable)?;
    read_bytes(what, kind, path, bytes)
}

fn too_long(length: u64) -> String {
    format!("the file has {} KB; at most {} KB are read", length / 1024, MAX_SOURCE / 1024)
}

fn stem_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read_bytes(what: As, kind: Kind, path: &Path, bytes: Vec<u8>) -> Result<Read, Problem> {
    let stem = stem_of(path);
    let problem = |code, message: String| Problem::new(code, &stem, path, message);
    if bytes.len() > MAX_SOURCE {
        return Err(problem(Code::TooLong, too_long(bytes.len() as u64)).help(SPLIT));
    }
    let hash = hex(&Sha256::digest(&bytes));
    let text = String::from_utf8(bytes).map_err(|error| {
        problem(
            Code::NoText,
            format!("not UTF-8 text: byte {} is no character", error.utf8_error().valid_up_to()),
        )
        .help("save it as UTF-8; a script is a text file")
    })?;
    if text.trim().is_empty() {
        return Err(problem(Code::Empty, "the file is empty".into()).help(match (what, kind) {
            (As::Tests, _) => "write a test: fn test_it_works() { assert_eq(1 + 1, 2); }",
            (As::Module, _) => "write at least one function, or delete the file",
            (As::Plugin, Kind::Filter) => "write at least one hook: fn inlet(body) { body }",
            (As::Plugin, Kind::Tool) => "write what runs when it is called: fn handler(args) { args }",
        }));
    }
    if text.contains('\0') {
        return Err(problem(Code::NoText, "the file holds NUL bytes; it is no script".into())
            .help("put a text file in its place"));
    }
    Ok(Read { file: SourceFile::new(kind, stem, path, text), hash: hash.into() })
}

/// How a file begins that cannot be loaded, as far as it is text; "" where it cannot be read.
pub fn beginning(path: &Path) -> String {
    let mut bytes = Vec::new();
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = std::fs::File::open(path)
    {
        // What was read before an error is all there is.
        let _ = file.take(MAX_SOURCE as u64).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a file's stem may be a plugin's id.
pub fn is_id(stem: &str) -> bool {
    (1..=64).contains(&stem.len())
        && stem
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
}
