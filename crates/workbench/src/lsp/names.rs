//! Go to definition, find references, and rename, in all files of a project.

use super::diagnostics::imported;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use valvehouse_authoring::editor::{Place, Sketch};
use valvehouse_script::{script_of_tests, tests_of_script};

/// The maximum number of files that are searched.
const MAX_FILES: usize = 2_000;
/// The maximum depth of folders that are searched.
const MAX_DEPTH: usize = 16;

/// The texts of a project's files: those open in the editor, else those on disk.
pub(super) struct Texts<'a> {
    pub(super) root: PathBuf,
    pub(super) read: &'a dyn Fn(&Path) -> Option<String>,
}

/// The place of a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declaration {
    pub(super) path: PathBuf,
    pub(super) at: Range<usize>,
}

/// Ranges in files, with the text of each file.
pub(super) type Uses = BTreeMap<PathBuf, (String, Vec<Range<usize>>)>;

impl Texts<'_> {
    /// Returns the declaration of the name at a byte offset; the top of a file for the file itself.
    pub(super) fn declaration(&self, path: &Path, sketch: &Sketch, at: usize) -> Option<Declaration> {
        match sketch.definition(at) {
            Some(Place::Here(at)) => Some(Declaration { path: path.to_owned(), at }),
            Some(Place::In { import, name }) => {
                let path = imported(path, &import)?;
                let there = Sketch::of(&(self.read)(&path)?);
                let at = name.and_then(|name| there.declared(&name)).unwrap_or(0..0);
                Some(Declaration { path, at })
            }
            // Tests may call the functions of their script.
            None => {
                let script = script_of_tests(path).filter(|_| sketch.is_called_at(at))?;
                let name = sketch.name_at(at)?.name;
                let at = Sketch::of(&(self.read)(&script)?).declared(&name)?;
                Some(Declaration { path: script, at })
            }
        }
    }

    /// Returns all uses of a declaration, including itself.
    pub(super) fn uses(&self, declaration: &Declaration) -> Uses {
        let mut uses = Uses::new();
        let Some(declared) = (self.read)(&declaration.path) else { return uses };
        let name = declared[declaration.at.clone()].to_owned();
        if name.is_empty() {
            return uses;
        }
        for path in self.files(declaration) {
            let Some(text) = (self.read)(&path).filter(|text| text.contains(&name)) else { continue };
            let sketch = Sketch::of(&text);
            let is_meant = |at: &Range<usize>| {
                self.declaration(&path, &sketch, at.start).is_some_and(|other| {
                    other.at == declaration.at && is_same(&other.path, &declaration.path)
                })
            };
            let places: Vec<Range<usize>> = sketch.places_of(&name).into_iter().filter(is_meant).collect();
            if !places.is_empty() {
                uses.insert(path, (text, places));
            }
        }
        uses
    }

    /// Returns the files in which a declaration may be used.
    fn files(&self, declaration: &Declaration) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::from([declaration.path.clone()]);
        let tests = tests_of_script(&declaration.path);
        if tests.is_file() {
            files.insert(tests);
        }
        within(&self.root, 0, &mut files);
        // A file is searched once, even if links lead to it.
        let mut seen = BTreeSet::new();
        files
            .into_iter()
            .filter(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())))
            .collect()
    }

    /// Returns the ranges to change for a new name, or the reason why the declaration cannot be
    /// renamed.
    pub(super) fn renamed(&self, declaration: &Declaration, name: &str) -> Result<Uses, String> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_name = name.chars().all(is_part) && !name.starts_with(|letter: char| letter.is_ascii_digit());
        if name.is_empty() || !is_name || RESERVED.contains(&name) {
            return Err(format!(
                "invalid name `{name}`: expected letters, digits and `_`, and not a reserved word"
            ));
        }
        let uses = self.uses(declaration);
        for (path, (text, _)) in &uses {
            let sketch = Sketch::of(text);
            // An existing use of the new name would refer to the declaration.
            let taken = sketch
                .places_of(name)
                .into_iter()
                .find(|at| !text[..at.start].trim_end().ends_with('.') && !text[..at.start].ends_with("::"));
            if let Some(at) = taken {
                let line = text[..at.start].matches('\n').count() + 1;
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Err(format!(
                    "cannot rename it: `{name}` is used in {file}, line {line}; choose another name"
                ));
            }
        }
        Ok(uses)
    }
}

/// The reserved words, which are invalid names.
const RESERVED: [&str; 30] = [
    "let", "const", "if", "else", "for", "while", "loop", "do", "until", "in", "switch", "return", "throw",
    "try", "catch", "fn", "private", "import", "export", "as", "break", "continue", "true", "false", "this",
    "global", "call", "Fn", "eval", "type_of",
];

fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn within(folder: &Path, depth: usize, files: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_foreign = ["node_modules", "target"].iter().any(|name| path.ends_with(name));
        if is_hidden || is_foreign || files.len() >= MAX_FILES {
            continue;
        }
        if path.is_dir() {
            if depth < MAX_DEPTH {
                within(&path, depth + 1, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rhai") {
            files.insert(path);
        }
    }
}
