//! Reads one file with the modules it imports, and defines the result of a folder's scan.

use super::listing::{READABLE, Stamp, TESTS};
use crate::diagnostic::{Code, Diagnostic};
use crate::load::imports::{Imports, MAX_SOURCE, ModuleFinder, is_module};
use crate::load::source::{Kind, SourceFile};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use valvehouse_core::text::hex;
use valvehouse_grants::read_regular;

const SPLIT: &str = "split it, or move data into valves or the store";

/// A loaded file.
#[derive(Debug, Clone)]
pub struct LoadedFile {
    /// The file with its text.
    pub file: SourceFile,
    /// The SHA-256 of its text and of the modules it imports, in hexadecimal digits.
    pub hash: Arc<str>,
}

/// Reads one file, at any path, and the modules it imports from its plugin folder.
///
/// # Errors
/// Returns a problem if the file cannot be read.
pub fn read_file(kind: Kind, root: &Path, path: &Path) -> Result<LoadedFile, Diagnostic> {
    let what = if is_module(root, path) { As::Module } else { As::Plugin };
    with_imports(read(what, kind, path, &stamp_of(path)?)?, root)
}

/// Reads a file with this text instead of its content on disk.
///
/// # Errors
/// Returns a problem if an imported file cannot be read.
pub fn read_text(kind: Kind, root: &Path, path: &Path, text: &str) -> Result<LoadedFile, Diagnostic> {
    with_imports(read_bytes(As::Plugin, kind, path, text.as_bytes().to_vec())?, root)
}

/// Reads a file of tests and the modules it imports. Its id is that of its script.
///
/// # Errors
/// Returns a problem if the file cannot be read.
pub fn read_tests(kind: Kind, root: &Path, path: &Path) -> Result<SourceFile, Diagnostic> {
    let tests = with_imports(read(As::Tests, kind, path, &stamp_of(path)?)?, root)?.file;
    let id = script_of_tests(path).map(|script| stem_of(&script));
    Ok(SourceFile { id: id.map_or(tests.id, Into::into), ..tests })
}

/// Returns the path of a script's tests.
pub fn tests_of_script(script: &Path) -> PathBuf {
    script.with_extension("test.rhai")
}

/// Returns the path of the script that a file of tests belongs to; `None` if the path is not that of a test file.
pub fn script_of_tests(tests: &Path) -> Option<PathBuf> {
    let name = tests.file_name()?.to_str()?.strip_suffix(TESTS).filter(|name| !name.is_empty())?;
    Some(tests.with_file_name(format!("{name}.rhai")))
}

pub(super) fn stamp_of(path: &Path) -> Result<Stamp, Diagnostic> {
    let unreadable =
        |error| Diagnostic::new(Code::Unreadable, "", path, format!("cannot read this file: {error}"));
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(error).help(READABLE))?;
    Ok(Stamp::of(&metadata))
}

/// Adds the modules that a script imports.
fn with_imports(script: LoadedFile, root: &Path) -> Result<LoadedFile, Diagnostic> {
    let kind = script.file.kind;
    let mut finding = ModuleFinder::below(root);
    let imports = Imports::of(&mut finding, &script.file.path, &script.file.text, &mut |path| {
        Ok(read(As::Module, kind, path, &stamp_of(path)?)?.file.text)
    });
    Ok(if imports.is_empty() { script } else { importing(&script, imports) })
}

pub(super) fn importing(script: &LoadedFile, imports: Imports) -> LoadedFile {
    let hash = imports.hash_with(&script.hash).into();
    LoadedFile { file: script.file.clone().importing(imports), hash }
}

/// The role in which a file is read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum As {
    Plugin,
    Module,
    Tests,
}

pub(super) fn read(what: As, kind: Kind, path: &Path, stamp: &Stamp) -> Result<LoadedFile, Diagnostic> {
    let stem = stem_of(path);
    let problem = |code, message: String| Diagnostic::new(code, &stem, path, message);
    if what == As::Plugin {
        check_name(path)?;
    }
    // Opening a pipe would block, and a device may be endless.
    if !stamp.is_file {
        return Err(problem(Code::Unreadable, "cannot read this file: it is not a regular file".into())
            .help("replace it with a text file"));
    }
    if stamp.len > MAX_SOURCE as u64 {
        return Err(problem(Code::TooLong, too_long(stamp.len)).help(SPLIT));
    }
    let unreadable =
        |error| problem(Code::Unreadable, format!("cannot read this file: {error}")).help(READABLE);
    // One byte more than the limit, so that a file that grew meanwhile is rejected.
    let bytes = read_regular(path, MAX_SOURCE as u64 + 1).map_err(unreadable)?;
    read_bytes(what, kind, path, bytes)
}

/// Checks that a file's name is a valid plugin id.
pub(super) fn check_name(path: &Path) -> Result<(), Diagnostic> {
    let stem = stem_of(path);
    let problem = |message: String| Diagnostic::new(Code::BadId, &stem, path, message);
    if !is_id(&stem) {
        return Err(problem(format!("invalid plugin id `{stem}`"))
            .help("rename the file: an id has 1 to 64 characters of a-z, 0-9, `_` and `-`"));
    }
    if path.extension().is_none_or(|ending| ending != "rhai") {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        return Err(problem(format!("invalid file name: expected the extension `.rhai`, got `.{ending}`"))
            .help(format!("rename the file to {stem}.rhai")));
    }
    Ok(())
}

fn too_long(length: u64) -> String {
    format!("the file has {} KB; it exceeded its limit of {} KB", length / 1024, MAX_SOURCE / 1024)
}

fn stem_of(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

pub(super) fn read_bytes(
    what: As,
    kind: Kind,
    path: &Path,
    bytes: Vec<u8>,
) -> Result<LoadedFile, Diagnostic> {
    let stem = stem_of(path);
    let problem = |code, message: String| Diagnostic::new(code, &stem, path, message);
    if bytes.len() > MAX_SOURCE {
        return Err(problem(Code::TooLong, too_long(bytes.len() as u64)).help(SPLIT));
    }
    let hash = hex(&Sha256::digest(&bytes));
    let text = String::from_utf8(bytes).map_err(|error| {
        problem(
            Code::NoText,
            format!(
                "the file is not UTF-8 text: invalid byte at offset {}",
                error.utf8_error().valid_up_to()
            ),
        )
        .help("save it as UTF-8; a script is a text file")
    })?;
    if text.trim().is_empty() {
        return Err(problem(Code::Empty, "the file is empty".into()).help(match (what, kind) {
            (As::Tests, _) => "write a test: fn test_it_works() { assert_eq(1 + 1, 2); }",
            (As::Module, _) => "write at least one function, or delete the file",
            (As::Plugin, Kind::Filter) => "write at least one hook: fn inlet(body) { body }",
            (As::Plugin, Kind::Tool) => "write the function of the tool: fn handler(args) { args }",
            (As::Plugin, Kind::Action) => "write the function of the action: fn action(body) { }",
        }));
    }
    if text.contains('\0') {
        return Err(problem(Code::NoText, "the file is not a script: it contains NUL bytes".into())
            .help("replace it with a text file"));
    }
    Ok(LoadedFile { file: SourceFile::new(kind, stem, path, text), hash: hash.into() })
}

/// Returns the start of a file that cannot be loaded, as lossy UTF-8; "" if it cannot be read.
pub fn beginning(path: &Path) -> String {
    let mut bytes = Vec::new();
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = std::fs::File::open(path)
    {
        // Bytes read before an error are used.
        let _ = file.take(MAX_SOURCE as u64).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns `true` if a file's stem is a valid plugin id.
pub fn is_id(stem: &str) -> bool {
    (1..=64).contains(&stem.len())
        && stem
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
}

/// The result of a scan of a folder.
#[derive(Debug, Clone, Default)]
pub struct FolderScan {
    /// The readable files by id. If two files have the same id, the one with the later path is used.
    pub files: BTreeMap<Arc<str>, Arc<LoadedFile>>,
    /// The problems of unreadable files and of files that share an id.
    pub problems: Vec<Diagnostic>,
    /// Links to missing files, and folders with a script's name. For a known plugin, they count as deleted.
    pub dangling: Vec<Diagnostic>,
    /// The files whose id a later file has.
    pub shadowed: Vec<Arc<LoadedFile>>,
    /// The time of the latest change of a file.
    pub latest: Option<SystemTime>,
    /// `true` if files changed during the scan: the texts may be of different points in time.
    pub is_torn: bool,
    /// The folders that exist but cannot be listed; their content is unknown.
    pub unlisted: Vec<PathBuf>,
    /// The files that scripts import.
    pub modules: Vec<PathBuf>,
    /// The files of tests.
    pub tests: Vec<PathBuf>,
}

impl FolderScan {
    /// Merges the scan of another folder.
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

    /// Returns `true` if there is a file with this id, readable or not.
    pub fn knows(&self, id: &str) -> bool {
        self.files.contains_key(id) || self.problems.iter().any(|problem| problem.id == id)
    }

    /// Adds a file. If two files have the same id, the later one is used and both are reported.
    pub(super) fn add(&mut self, read: Arc<LoadedFile>) {
        let id = read.file.id.clone();
        let path = read.file.path.clone();
        let Some(earlier) = self.files.insert(id.clone(), read) else { return };
        let twice = |path: &Path, other: &Path, what: &str| {
            Diagnostic::new(Code::SameId, &id, path, format!("duplicate plugin id `{id}`: {what}"))
                .help(format!("rename this file or {}", other.display()))
                .warning()
        };
        let other = &earlier.file.path;
        self.problems.push(twice(other, &path, "this file is not used"));
        self.problems.push(twice(&path, other, "this file is used"));
        self.shadowed.push(earlier);
    }

    /// Returns `true` if a file may exist although it was not found.
    pub fn leaves_open(&self, path: &Path) -> bool {
        self.unlisted.iter().any(|folder| path.starts_with(folder))
    }
}
