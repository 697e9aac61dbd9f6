//! The modules of a package, as far as its names need them.

use crate::relative;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::{Attribute, Item, UseTree, Visibility};

/// The names of a module's path, from the root of its package.
pub(crate) type ModulePath = Vec<String>;

/// The maximum number of names in a path; this ends imports that refer to each other.
const MAX_PATH: usize = 12;

/// All modules of a package.
pub(crate) struct Modules(BTreeMap<ModulePath, File>);

/// One file.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// The items of the file, without tests.
    pub(crate) items: Vec<Item>,
    /// The names that the file defines.
    defined: HashSet<String>,
    /// The imported names with their paths.
    imported: HashMap<String, Vec<String>>,
    /// The modules that are imported with `*`.
    globs: Vec<Vec<String>>,
    /// The lines of items other than module declarations and re-exports.
    pub(crate) logic: Vec<usize>,
    /// The modules that are declared for tests only.
    for_tests: Vec<String>,
}

/// Reads every file below a folder.
pub(crate) fn read(source: &Path) -> Modules {
    let mut modules: BTreeMap<ModulePath, File> = BTreeMap::new();
    collect(source, &mut Vec::new(), &mut modules);
    assert!(!modules.is_empty(), "{} has no files", source.display());
    let for_tests: Vec<ModulePath> = modules
        .iter()
        .flat_map(|(at, file)| {
            file.for_tests.iter().map(move |name| [&at[..], std::slice::from_ref(name)].concat())
        })
        .collect();
    modules.retain(|at, _| !for_tests.iter().any(|tests| at.starts_with(tests)));
    Modules(modules)
}

fn collect(folder: &Path, path: &mut ModulePath, modules: &mut BTreeMap<ModulePath, File>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" {
            continue;
        }
        if file.is_dir() {
            path.push(name);
            collect(&file, path, modules);
            path.pop();
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let mut own = path.clone();
            if !["lib", "main", "mod"].contains(&name.as_str()) {
                own.push(name.clone());
            }
            let previous = modules.insert(own, parse(&file));
            let is_binary = name == "main" || previous.is_some_and(|other| other.path.ends_with("main.rs"));
            assert!(
                is_binary || !folder.with_extension("rs").is_file() || !file.ends_with("mod.rs"),
                "{name} twice"
            );
        }
    }
}

fn parse(path: &Path) -> File {
    let text = std::fs::read_to_string(path).unwrap();
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (tests, items): (Vec<Item>, Vec<Item>) =
        parsed.items.into_iter().partition(|item| is_test(attributes(item)));
    let for_tests = tests.iter().filter(|item| matches!(item, Item::Mod(_))).filter_map(name_of).collect();
    let mut file = File {
        path: relative(path),
        defined: HashSet::new(),
        imported: HashMap::new(),
        globs: Vec::new(),
        logic: Vec::new(),
        for_tests,
        items: Vec::new(),
    };
    for item in &items {
        match item {
            Item::Mod(module) if module.content.is_none() => {}
            Item::ExternCrate(_) => {}
            Item::Use(use_) => {
                file.import(&use_.tree, &mut Vec::new());
                if matches!(use_.vis, Visibility::Inherited) {
                    file.logic.push(use_.span().start().line);
                }
            }
            item => {
                file.defined.extend(name_of(item));
                file.logic.push(item.span().start().line);
            }
        }
    }
    file.items = items;
    file
}

impl File {
    fn import(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Glob(_) => self.globs.push(before.clone()),
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last() {
                    self.imported.insert(last.clone(), before.clone());
                }
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                let path = before.iter().cloned().chain([name.clone()]).collect();
                self.imported.insert(name, path);
            }
            UseTree::Rename(rename) => {
                let mut path = before.clone();
                if rename.ident != "self" {
                    path.push(rename.ident.to_string());
                }
                self.imported.insert(rename.rename.to_string(), path);
            }
        }
    }
}

impl Modules {
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.0.values()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ModulePath, &File)> {
        self.0.iter()
    }

    /// Returns the file that defines a path; `None` if another package does.
    pub(crate) fn defining(&self, at: &ModulePath, path: &[String]) -> Option<&File> {
        self.resolve(at, path, &mut HashSet::new())
    }

    fn resolve(
        &self,
        at: &ModulePath,
        path: &[String],
        seen: &mut HashSet<(ModulePath, Vec<String>)>,
    ) -> Option<&File> {
        if path.len() > MAX_PATH || !seen.insert((at.clone(), path.to_vec())) {
            return None;
        }
        let mut module = at.clone();
        let mut rest = path;
        let mut is_first = true;
        while let Some((name, after)) = rest.split_first() {
            match name.as_str() {
                "crate" if is_first => module = Vec::new(),
                "self" => {}
                "super" => {
                    module.pop()?;
                }
                name => {
                    let file = self.0.get(&module)?;
                    let mut inner = module.clone();
                    inner.push(name.to_owned());
                    if self.0.contains_key(&inner) {
                        module = inner;
                    } else if file.defined.contains(name) {
                        return Some(file);
                    } else if let Some(from) = file.imported.get(name) {
                        // `use serde_json::serde_json` names a crate and not the import itself.
                        if from.first().is_some_and(|first| first == name) {
                            return None;
                        }
                        let full: Vec<String> = from.iter().chain(after).cloned().collect();
                        return self.resolve(&module, &full, seen);
                    } else {
                        let globs = file.globs.iter();
                        return globs
                            .filter_map(|glob| {
                                let full: Vec<String> = glob.iter().chain(rest).cloned().collect();
                                self.resolve(&module, &full, seen)
                            })
                            .next();
                    }
                }
            }
            is_first = false;
            rest = after;
        }
        None
    }
}

/// Returns `true` if an item is for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = quote::quote!(#attribute).to_string().replace(' ', "");
        text.contains("cfg(test)") || text.contains("cfg(all(test") || text == "#[test]"
    })
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
