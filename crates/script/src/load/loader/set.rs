//! A set of texts that replaces the files of a folder.

use super::file::{As, FolderScan, LoadedFile, check_name, importing, read_bytes};
use super::listing::{MAX_NESTING, TESTS};
use crate::declare::manifest::claims_of;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::imports::{Contents, Imports, ModuleFinder};
use crate::load::source::Kind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An immutable set of texts by the paths of the files they replace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceSet(BTreeMap<PathBuf, Arc<str>>);

impl FromIterator<(PathBuf, Arc<str>)> for SourceSet {
    fn from_iter<T: IntoIterator<Item = (PathBuf, Arc<str>)>>(files: T) -> Self {
        Self(files.into_iter().collect())
    }
}

impl Contents for SourceSet {
    fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }
}

impl SourceSet {
    /// Returns the text of a path.
    pub fn text(&self, path: &Path) -> Option<&Arc<str>> {
        self.0.get(path)
    }

    /// Scans the files of a folder like [`Loader::look`](super::Loader::look).
    pub fn look(&self, kind: Kind, folder: &Path) -> FolderScan {
        let mut found = FolderScan::default();
        let mut finding = ModuleFinder::within(folder, self);
        for (path, text) in &self.0 {
            match Role::of(folder, path) {
                None => {}
                Some(Role::Tests) => found.tests.push(path.clone()),
                Some(Role::Module) => {
                    found.modules.push(path.clone());
                    if kind == Kind::Filter && claims_of(text).0 {
                        let what = "`security: true` has no effect: files in `lib` and files whose name \
                                    starts with `_` are not filters";
                        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
                        let problem = Diagnostic::new(Code::UnclearGuard, &stem, path, what);
                        let help = "move the file to the filters, or remove `security: true`";
                        found.problems.push(problem.help(help));
                    }
                }
                Some(Role::Plugin) => match self.read(kind, path, text, &mut finding) {
                    Ok(read) => found.add(Arc::new(read)),
                    Err(problem) => found.problems.push(problem),
                },
            }
        }
        found
    }

    /// Reads a text as if it were that file, with the modules it imports from the set.
    ///
    /// # Errors
    /// Returns a problem if the text is not a valid script file.
    pub fn read_text(
        &self,
        kind: Kind,
        root: &Path,
        path: &Path,
        text: &str,
    ) -> Result<LoadedFile, Diagnostic> {
        self.read(kind, path, text, &mut ModuleFinder::within(root, self))
    }

    fn read(
        &self,
        kind: Kind,
        path: &Path,
        text: &str,
        finding: &mut ModuleFinder<'_>,
    ) -> Result<LoadedFile, Diagnostic> {
        check_name(path)?;
        let own = read_bytes(As::Plugin, kind, path, text.as_bytes().to_vec())?;
        let imports = Imports::of(finding, path, &own.file.text, &mut |path| match self.text(path) {
            Some(text) => Ok(read_bytes(As::Module, kind, path, text.as_bytes().to_vec())?.file.text),
            None => {
                Err(Diagnostic::new(Code::Unreadable, "", path, "this file is not part of the given files"))
            }
        });
        Ok(if imports.is_empty() { own } else { importing(&own, imports) })
    }
}

/// The role of a file, determined by its path within its folder.
enum Role {
    Plugin,
    Module,
    Tests,
}

impl Role {
    /// Returns the role; `None` for files that a scan of a folder skips too.
    fn of(folder: &Path, path: &Path) -> Option<Self> {
        let within = path.strip_prefix(folder).ok()?;
        let parts: Vec<_> = within.iter().map(|part| part.to_string_lossy()).collect();
        let (name, folders) = parts.split_last()?;
        let is_passed = |name: &str| name.starts_with(['.', '#']) || name.ends_with('~');
        let is_hidden = folders.iter().any(|folder| is_passed(folder) || folder.starts_with('_'));
        let is_script = name.to_lowercase().ends_with(".rhai");
        if is_hidden || is_passed(name) || !is_script || folders.len() > MAX_NESTING {
            return None;
        }
        Some(match name.ends_with(TESTS) {
            true => Self::Tests,
            false if name.starts_with('_') || folders.iter().any(|folder| folder == "lib") => Self::Module,
            false => Self::Plugin,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::loader::Loader;

    const FILES: [(&str, &str); 10] = [
        ("a.rhai", "import \"lib/words\" as words;\nfn inlet(body) { words::f(body) }"),
        ("a.test.rhai", "fn test_it() {}"),
        ("lib/words.rhai", "import \"more\" as more;\nfn f(body) { body }"),
        ("lib/more.rhai", "fn g() { 1 }"),
        ("deep/er/b.rhai", "import \"nowhere\" as n;\nfn inlet(body) {}"),
        ("_mod.rhai", "//! security: true\nfn h() { 2 }"),
        ("_old/c.rhai", "fn inlet(body) {}"),
        (".hidden.rhai", "fn inlet(body) {}"),
        ("Bad Name.rhai", "fn inlet(body) {}"),
        ("empty.rhai", "  \n"),
    ];

    #[test]
    fn a_stored_set_loads_like_the_same_files_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in FILES {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let set: SourceSet =
            FILES.iter().map(|(path, text)| (folder.path().join(path), Arc::from(*text))).collect();
        let on_disk = Loader::default().look(Kind::Filter, folder.path());
        // Nothing is read from disk.
        let root = folder.path().to_owned();
        folder.close().unwrap();
        let found = set.look(Kind::Filter, &root);
        let hashes = |found: &FolderScan| {
            found.files.iter().map(|(id, read)| (id.clone(), read.hash.clone())).collect::<Vec<_>>()
        };
        let problems = |found: &FolderScan| {
            let mut problems: Vec<_> = found
                .problems
                .iter()
                .map(|problem| (problem.path.clone(), problem.code, problem.message.clone()))
                .collect();
            problems.sort_by(|a, b| a.0.cmp(&b.0));
            problems
        };
        assert_eq!(hashes(&found), hashes(&on_disk));
        assert_eq!(hashes(&found).len(), 2, "{:?}", hashes(&found));
        assert_eq!(problems(&found), problems(&on_disk));
        assert_eq!((&found.modules, &found.tests), (&on_disk.modules, &on_disk.tests));
    }
}
