//! The scripts that come with the binary, as `filters/` and `tools/` had them when it was built.

use super::options::ShippedFiles;
use std::path::Path;
use valvehouse_script::{Kind, frontmatter, imported_by, is_module};

/// A script that comes along.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shipped {
    pub(super) kind: Kind,
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    /// Its path, without `.rhai`.
    stem: &'static str,
    /// All files that come along.
    files: ShippedFiles,
}

/// All of them, filters first, each kind by id.
pub(super) fn all(files: ShippedFiles) -> Vec<Shipped> {
    let mut all: Vec<Shipped> = files.iter().filter_map(|(path, text)| script(files, path, text)).collect();
    all.sort_by_key(|shipped| (shipped.kind, shipped.id));
    all
}

/// None for what is a test, a module, or beside one.
fn script(files: ShippedFiles, path: &'static str, text: &'static str) -> Option<Shipped> {
    let (folder, within) = path.split_once('/')?;
    let stem = path.strip_suffix(".rhai").filter(|stem| !stem.ends_with(".test"))?;
    let kind = if folder == "tools" { Kind::Tool } else { Kind::Filter };
    let id = stem.rsplit('/').next()?;
    (!is_module(Path::new(""), Path::new(within))).then_some(Shipped { kind, id, text, stem, files })
}

impl Shipped {
    /// A value of its opening comment.
    pub(super) fn says(&self, key: &str) -> String {
        let said = frontmatter(self.text).into_iter().find(|(name, _)| name == key);
        said.map(|(_, value)| value).unwrap_or_default()
    }

    /// Its groups.
    pub(super) fn tags(&self) -> Vec<String> {
        let said = [self.says("tags"), self.says("tag")].join(",");
        said.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
    }

    /// Its test, and what lies beside that: the ends of the paths behind its id, and texts.
    pub(super) fn beside(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let stem = self.stem;
        self.files.iter().filter_map(move |(path, text)| {
            let end = path.strip_prefix(stem)?;
            (end == ".test.rhai" || end.starts_with(".golden/")).then_some((end, *text))
        })
    }

    /// The modules that it imports, directly or not: paths within the folder of its kind, and texts.
    pub(super) fn modules(&self) -> Vec<(&'static str, &'static str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        let tests = self.beside().filter(|(end, _)| end.ends_with(".rhai")).map(|(_, text)| text);
        let mut unread: Vec<&str> = std::iter::once(self.text).chain(tests).collect();
        while let Some(text) = unread.pop() {
            for name in imported_by(text) {
                let Some((path, text)) = module(self.files, self.kind, &name) else { continue };
                if !found.iter().any(|(known, _)| *known == path) {
                    found.push((path, text));
                    unread.push(text);
                }
            }
        }
        found
    }
}

fn module(files: ShippedFiles, kind: Kind, name: &str) -> Option<(&'static str, &'static str)> {
    let folder = if kind == Kind::Tool { "tools/" } else { "filters/" };
    files.iter().find_map(|(path, text)| {
        let within = path.strip_prefix(folder)?;
        // A module beside the importing one is imported by its name alone.
        let stem = within.strip_suffix(".rhai")?;
        (stem == name || stem.strip_prefix("lib/") == Some(name)).then_some((within, *text))
    })
}
