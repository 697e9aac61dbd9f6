//! The imports of a script, which are read with its file and stored with its text.
//!
//! `import "lib/words" as words;` names a file in the plugin folder: it is searched first next to the importing
//! file, then from the top of the folder. Only `_name.rhai` and files in a folder `lib` can be imported; files
//! outside of the plugin folder are never read.

use crate::diagnostic::{Code, Diagnostic};
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_core::text::hex;
use valvehouse_json::Json;

/// The maximum length of a file's text, in bytes.
pub const MAX_SOURCE: usize = 256 * 1024;
/// The maximum number of modules that one script may import, directly or indirectly.
const MAX_MODULES: usize = 32;
/// The maximum length of the text of all of them, in bytes.
const MAX_TEXT: usize = 2 * MAX_SOURCE;
/// The maximum length of a module's name, in bytes.
const MAX_NAME: usize = 200;

/// The file of a module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModuleFile {
    /// Its path within the plugin folder, without `.rhai`, which identifies it.
    pub(crate) key: String,
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
}

/// The target of one `import`.
#[derive(Debug, Clone, PartialEq)]
struct Import {
    /// The module that contains the import; "" for the script.
    from: String,
    name: String,
    /// The module, or a problem, which is reported at the import.
    found: Result<ModuleFile, Diagnostic>,
}

/// The targets of the imports of a script and of its modules.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imports(Arc<Vec<Import>>);

impl Imports {
    /// Finds and reads all imports of a script, including indirect ones. `read` reads a file that was found.
    pub(crate) fn of(
        finding: &mut ModuleFinder<'_>,
        path: &Path,
        text: &str,
        read: &mut dyn FnMut(&Path) -> Result<Arc<str>, Diagnostic>,
    ) -> Self {
        let mut imports: Vec<Import> = Vec::new();
        if !text.contains("import") {
            return Self::default();
        }
        let mut known = BTreeSet::new();
        let mut length = 0;
        let key = key_of(finding.root, path);
        // A module that is checked on its own imports under its own name; its tests do not.
        let from = if is_module_key(&key) && !key.ends_with(".test") { key.clone() } else { String::new() };
        let mut unread = vec![(from, folder_of(&key).to_owned(), Arc::<str>::from(text))];
        while let Some((from, folder, text)) = unread.pop() {
            for name in named_in(&text) {
                let found = match finding.find(&folder, &name, read) {
                    Ok(module) if known.insert(module.key.clone()) => {
                        length += module.text.len();
                        if known.len() > MAX_MODULES || length > MAX_TEXT {
                            Err(too_much())
                        } else {
                            let folder = folder_of(&module.key).to_owned();
                            unread.push((module.key.clone(), folder, module.text.clone()));
                            Ok(module)
                        }
                    }
                    found => found,
                };
                imports.push(Import { from: from.clone(), name, found });
            }
        }
        Self(imports.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the texts of all modules.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|import| import.found.as_ref().ok()).map(|module| &*module.text)
    }

    /// Returns the target of an `import` in a module ("" for the script); `None` if it was not searched.
    pub(crate) fn get(&self, from: &str, name: &str) -> Option<&Result<ModuleFile, Diagnostic>> {
        let import = self.0.iter().find(|import| import.from == from && import.name == name)?;
        Some(&import.found)
    }

    /// Returns a hash of a script's text and of all its modules.
    pub(crate) fn hash_with(&self, own: &str) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(own);
        for Import { from, name, found } in self.0.iter() {
            [from, name].into_iter().for_each(|text| add(text));
            match found {
                Ok(module) => [&module.key, &*module.text].into_iter().for_each(&mut add),
                Err(problem) => add(&problem.message),
            }
        }
        hex(&hash.finalize())
    }

    /// Converts the targets to JSON for the store, from which they can be read without the files.
    pub fn to_json(&self) -> Json {
        let found = self.0.iter().filter_map(|import| Some((import, import.found.as_ref().ok()?)));
        let entries = found.map(|(import, module)| {
            Json::from([
                ("from", import.from.as_str().into()),
                ("name", import.name.as_str().into()),
                ("key", module.key.as_str().into()),
                ("text", (*module.text).into()),
            ])
        });
        entries.collect::<Vec<_>>().into()
    }

    /// Reads the targets from the JSON of the store, for a plugin folder.
    pub fn from_json(json: &Json, root: &Path) -> Self {
        let entries = json.items();
        let import = |entry: &Json| {
            let text = |key: &str| entry.text(key).map(String::from);
            let key = text("key")?;
            let path = path_of(root, &key);
            let module = ModuleFile { key, path, text: text("text")?.into() };
            Some(Import { from: text("from")?, name: text("name")?, found: Ok(module) })
        };
        Self(entries.iter().filter_map(import).collect::<Vec<_>>().into())
    }
}

/// Returns `true` if a file in a plugin folder is a module and not a plugin.
pub fn is_module(root: &Path, path: &Path) -> bool {
    is_module_key(&key_of(root, path))
}

/// Returns a file's path within a plugin folder, without `.rhai`.
pub(crate) fn key_of(root: &Path, path: &Path) -> String {
    let within = path.strip_prefix(root).unwrap_or(path).with_extension("");
    within.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn is_module_key(key: &str) -> bool {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    name.starts_with('_') || folder.split('/').any(|part| part == "lib")
}

/// Files that replace those on disk.
pub(crate) trait Contents {
    /// Returns `true` if there is a file with this path.
    fn has(&self, path: &Path) -> bool;
}

/// The modules in a plugin folder at one point in time; each is searched once.
pub(crate) struct ModuleFinder<'a> {
    root: &'a Path,
    /// The files that replace those on disk.
    instead: Option<&'a dyn Contents>,
    /// The results by the importing folder and the imported name.
    found: HashMap<(String, String), Result<ModuleFile, Diagnostic>>,
}

impl<'a> ModuleFinder<'a> {
    pub(crate) fn below(root: &'a Path) -> Self {
        Self { root, instead: None, found: HashMap::new() }
    }

    /// Creates a finder that uses only these files and none on disk.
    pub(crate) fn within(root: &'a Path, files: &'a dyn Contents) -> Self {
        Self { root, instead: Some(files), found: HashMap::new() }
    }

    /// Returns `true` if every searched file exists.
    pub(crate) fn found_all(&self) -> bool {
        self.found.values().all(Result::is_ok)
    }

    fn find(
        &mut self,
        folder: &str,
        name: &str,
        read: &mut dyn FnMut(&Path) -> Result<Arc<str>, Diagnostic>,
    ) -> Result<ModuleFile, Diagnostic> {
        let wanted = (folder.to_owned(), name.to_owned());
        let read = || {
            let key = find(self.root, self.instead, folder, name)?;
            let path = path_of(self.root, &key);
            Ok(ModuleFile { text: read(&path)?, key, path })
        };
        self.found.entry(wanted).or_insert_with(read).clone()
    }
}

/// Resolves a module's name to its path within the plugin folder.
fn find(root: &Path, instead: Option<&dyn Contents>, folder: &str, name: &str) -> Result<String, Diagnostic> {
    let problem = |message: String| Diagnostic::new(Code::NoModule, "", Path::new(""), message);
    if !is_name(name) {
        return Err(problem(format!("invalid module path `{}`", name.chars().take(80).collect::<String>()))
            .help(
                "write a path within the plugin folder, of letters, digits, `_`, `-` and `/`, such as \
                   \"lib/words\"",
            ));
    }
    let beside = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    for key in [beside.as_str(), name] {
        let path = path_of(root, key);
        if !instead.map_or_else(|| path.is_file(), |files| files.has(&path)) {
            continue;
        }
        if !is_module_key(key) {
            return Err(problem(format!("cannot import `{name}`: it is a plugin, not a module"))
                .help("rename the file to `_name.rhai`, or move it to a folder `lib`"));
        }
        if instead.is_some() {
            return Ok(key.to_owned());
        }
        let inside = path.canonicalize().and_then(|path| Ok(path.starts_with(root.canonicalize()?)));
        if !inside.unwrap_or(false) {
            return Err(problem(format!("cannot import `{name}`: its link leads out of the plugin folder"))
                .help("replace the link with the file"));
        }
        return Ok(key.to_owned());
    }
    let looked = path_of(root, &beside);
    Err(problem(format!("unknown module `{name}`"))
        .help(format!("create one of these files: {}", looked.display())))
}

/// Returns `true` if a name consists of letters, digits, `_`, `-` and `/`, so that it cannot leave the folder.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    name.len() <= MAX_NAME && name.split('/').all(is_part)
}

fn path_of(root: &Path, key: &str) -> PathBuf {
    root.join(format!("{key}.rhai"))
}

fn folder_of(key: &str) -> &str {
    key.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn too_much() -> Diagnostic {
    let message = format!(
        "the imports exceeded their limit of {MAX_MODULES} modules with {} KB in total",
        MAX_TEXT / 1024
    );
    Diagnostic::new(Code::TooManyModules, "", Path::new(""), message)
        .help("split the script, or remove unused imports")
}

/// Returns the names that a text imports.
pub fn imported_by(text: &str) -> Vec<String> {
    named_in(text).into_iter().collect()
}

/// The maximum number of characters that are read between the quotes after `import`.
const MAX_QUOTED: usize = 1_024;

/// Returns the texts that follow the word `import`, including those in comments: a module that is not imported is
/// merely read.
fn named_in(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut names = BTreeSet::new();
    for (at, word) in text.match_indices("import") {
        if text[..at].ends_with(is_part) {
            continue;
        }
        let rest = text[at + word.len()..].trim_start();
        let Some(quote) = rest.chars().next().filter(|quote| ['"', '`'].contains(quote)) else { continue };
        // A longer text is not a name. The limit also bounds the search after each unclosed quote.
        let mut letters = rest[1..].char_indices().take(MAX_QUOTED);
        if let Some((end, _)) = letters.find(|(_, letter)| *letter == quote) {
            names.insert(rest[1..=end].to_owned());
        }
        if names.len() > MAX_MODULES {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_cannot_leave_the_folder() {
        for good in ["words", "_words", "lib/words", "lib/a-b/C_1"] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(201);
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "lib/../x",
            "lib//x",
            "lib/",
            "a.b",
            "a b",
            "a\0b",
            "a\\b",
            "ä",
            &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn imports_are_found_in_any_layout() {
        let text = "import \"a\" as a;\nimport\n  `b` as b; important \"c\"; reimport \"d\"";
        assert_eq!(named_in(text).into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
