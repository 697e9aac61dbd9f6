//! From a folder to the script files in it; what cannot be read is a problem beside the others.
//!
//! A look at the folder costs a `stat` per file. A file is read again when its stamp changed, or
//! when it was read so soon after it was written that another save could wear the same stamp. Where no
//! stamp is another one, the look before says what there is.

use super::imports::{Finding, Imports, MAX_SOURCE, is_module};
use super::listing::{Listed, Listing, READABLE, Stamp, TESTS};
use super::manifest::says_of_itself;
use super::problem::{Code, Problem};
use super::source::{Kind, SourceFile};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use valvehouse_core::words::hex;

/// Files that are saved together follow each other within this time.
pub(super) const REST: Duration = Duration::from_millis(25);
const SPLIT: &str = "split it, or move data into valves or the store";

/// What one look at a folder found.
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
        self.dangling.extend(other.dangling);
        self.shadowed.extend(other.shadowed);
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

    /// Adds a file; of two with one id the later one counts, and both are told.
    fn add(&mut self, read: Arc<Read>) {
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
    /// Scripts with all that they import, as they were put together last.
    whole: HashMap<PathBuf, Whole>,
    looked: HashMap<(Kind, PathBuf), Looked>,
    /// How many times a file was read.
    reads: u64,
    /// How many of them are to be read again whatever their stamps say.
    unsure: u64,
}

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    read_at: SystemTime,
    content: Result<Arc<Read>, Problem>,
}

/// A script alone, and with everything that it imports.
#[derive(Debug)]
struct Whole {
    own: Arc<Read>,
    whole: Arc<Read>,
}

/// The last look at a folder.
#[derive(Debug)]
struct Looked {
    listing: Listing,
    found: Arc<Found>,
    /// Whether the same listing has to mean the same files.
    is_sure: bool,
}

impl Loader {
    /// Looks at a folder and the folders in it. A folder that is not there is empty.
    pub fn look(&mut self, kind: Kind, folder: &Path) -> Found {
        let found = self.look_again(kind, folder);
        self.looked.clear();
        Arc::unwrap_or_clone(found)
    }

    /// The same; gives what the look before gave when there is nothing else to find.
    pub fn look_again(&mut self, kind: Kind, folder: &Path) -> Arc<Found> {
        let listing = Listing::of(folder);
        let key = (kind, folder.to_owned());
        if let Some(before) = self.looked.get(&key)
            && before.is_sure
            && before.listing == listing
        {
            return before.found.clone();
        }
        let (reads, unsure) = (self.reads, self.unsure);
        let (mut found, is_certain) = self.read_all(kind, folder, &listing);
        found.is_torn = self.reads != reads && listing.scripts != Listing::of(folder).scripts;
        let is_sure = is_certain && self.unsure == unsure && !found.is_torn;
        let found = Arc::new(found);
        self.looked.insert(key, Looked { listing, found: found.clone(), is_sure });
        found
    }

    /// Reads what a listing names; also answers whether the listing alone says when to read again.
    fn read_all(&mut self, kind: Kind, folder: &Path, listing: &Listing) -> (Found, bool) {
        let mut found = Found {
            problems: listing.problems.clone(),
            dangling: listing.dangling.clone(),
            unlisted: listing.problems.iter().map(|problem| problem.path.clone()).collect(),
            tests: listing.tests.clone(),
            latest: listing.scripts.iter().filter_map(|listed| listed.stamp.changed).max(),
            ..Found::default()
        };
        let mut finding = Finding::below(folder);
        let mut imported = HashSet::new();
        for Listed { path, stamp, is_module } in &listing.scripts {
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
        let is_certain =
            finding.found_all() && imported.iter().all(|path: &PathBuf| listed.contains(&**path));
        (found, is_certain)
    }

    /// A module that claims to be a guard: nothing of it would ever run.
    fn guard_among_modules(&mut self, path: &Path, stamp: &Stamp) -> Option<Problem> {
        let read = self.read(As::Module, Kind::Filter, path, stamp).ok()?;
        says_of_itself(&read.file.text).0.then(|| {
            let what = "this claims to be a guard, and no file in `lib` or with a `_` in front is a filter";
            Problem::new(Code::UnclearGuard, &read.file.id, path, what)
                .help("move it to where filters are, or take `security: true` out")
        })
    }

    fn read_plugin(
        &mut self,
        kind: Kind,
        path: &Path,
        stamp: &Stamp,
        finding: &mut Finding<'_>,
        imported: &mut HashSet<PathBuf>,
    ) -> Result<Arc<Read>, Problem> {
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

    fn read(&mut self, what: As, kind: Kind, path: &Path, stamp: &Stamp) -> Result<Arc<Read>, Problem> {
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
        self.seen.insert(path.to_owned(), Seen { stamp: *stamp, read_at, content: content.clone() });
        content
    }
}

/// Reads one file, wherever it is, and what it imports from its plugin folder.
pub fn read_file(kind: Kind, root: &Path, path: &Path) -> Result<Read, Problem> {
    let what = if is_module(root, path) { As::Module } else { As::Plugin };
    with_imports(read(what, kind, path, &stamp_of(path)?)?, root)
}

/// The same of a file that is about to have this text.
pub fn read_text(kind: Kind, root: &Path, path: &Path, text: &str) -> Result<Read, Problem> {
    with_imports(read_bytes(As::Plugin, kind, path, text.as_bytes().to_vec())?, root)
}

/// Reads a file of tests and what it imports. Its id is that of its script.
pub fn read_tests(kind: Kind, root: &Path, path: &Path) -> Result<SourceFile, Problem> {
    let tests = with_imports(read(As::Tests, kind, path, &stamp_of(path)?)?, root)?.file;
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

fn stamp_of(path: &Path) -> Result<Stamp, Problem> {
    let unreadable =
        |error| Problem::new(Code::Unreadable, "", path, format!("cannot read this file: {error}"));
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(error).help(READABLE))?;
    Ok(Stamp::of(&metadata))
}

/// A script with everything that it imports.
fn with_imports(script: Read, root: &Path) -> Result<Read, Problem> {
    let kind = script.file.kind;
    let mut finding = Finding::below(root);
    let imports = Imports::of(&mut finding, &script.file.path, &script.file.text, &mut |path| {
        Ok(read(As::Module, kind, path, &stamp_of(path)?)?.file.text)
    });
    Ok(if imports.is_empty() { script } else { importing(&script, imports) })
}

fn importing(script: &Read, imports: Imports) -> Read {
    let hash = imports.hash_with(&script.hash).into();
    Read { file: script.file.clone().importing(imports), hash }
}

/// What a file is read as.
#[derive(Clone, Copy, PartialEq)]
enum As {
    Plugin,
    Module,
    Tests,
}

fn read(what: As, kind: Kind, path: &Path, stamp: &Stamp) -> Result<Read, Problem> {
    let stem = stem_of(path);
    let problem = |code, message: String| Problem::new(code, &stem, path, message);
    if what == As::Plugin && !is_id(&stem) {
        return Err(problem(Code::BadId, format!("`{stem}` cannot be an id"))
            .help("name the file with a-z, 0-9, `_` and `-` only, at most 64 of them"));
    }
    if what == As::Plugin && path.extension().is_none_or(|ending| ending != "rhai") {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        return Err(problem(Code::BadId, format!("a script's name ends in `.rhai`, not in `.{ending}`"))
            .help(format!("rename the file to {stem}.rhai")));
    }
    // A pipe would hold up whoever opens it, a device may have no end.
    if !stamp.is_file {
        return Err(
            problem(Code::Unreadable, "this is no regular file".into()).help("put a text file in its place")
        );
    }
    if stamp.len > MAX_SOURCE as u64 {
        return Err(problem(Code::TooLong, too_long(stamp.len)).help(SPLIT));
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

#[cfg(test)]
mod tests;
