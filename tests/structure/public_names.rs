//! The public names of the libraries that others depend on: those of the root package and of `valvehouse-core`.
//!
//! `public_names.txt` lists the modules, types, functions and constants that a reader of their documentation finds, a
//! line each. A name that comes, goes or moves is a change of that file:
//! `VALVEHOUSE_UPDATE=1 cargo test --test structure public_names`.

use crate::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use syn::{Item, UseTree, Visibility};

/// The list of the names.
const LIST: &str = "tests/structure/public_names.txt";

/// The libraries and their root files.
const LIBRARIES: &[(&str, &str)] =
    &[("valvehouse", "src/lib.rs"), ("valvehouse_core", "crates/core/src/lib.rs")];

/// The main names for users of the library; both libraries have them at their root.
const FRONT_PAGE: &[&str] =
    &["ChatRequest", "Context", "Error", "Filter", "Kernel", "Provider", "Tool", "Verdict"];

#[test]
fn the_public_names_equal_the_list() {
    let found = names();
    if std::env::var_os("VALVEHOUSE_UPDATE").is_some() {
        let lines: Vec<&str> = found.iter().map(String::as_str).collect();
        std::fs::write(root().join(LIST), lines.join("\n") + "\n").unwrap();
    }
    let listed: BTreeSet<String> =
        std::fs::read_to_string(root().join(LIST)).unwrap().lines().map(str::to_owned).collect();
    let new: Vec<String> = found.difference(&listed).map(|name| format!("+ {name}")).collect();
    let gone: Vec<String> = listed.difference(&found).map(|name| format!("- {name}")).collect();
    let changes = [new, gone].concat();
    assert!(
        changes.is_empty(),
        "public names changed; if that is meant: VALVEHOUSE_UPDATE=1 cargo test --test structure public_names\n{}",
        changes.join("\n")
    );
}

#[test]
fn the_front_pages_list_the_main_names() {
    let found = names();
    for (library, _) in LIBRARIES {
        for name in FRONT_PAGE {
            assert!(found.contains(&format!("{library}::{name}")), "{library} has no {name} at its top");
        }
    }
}

/// Returns the public names of all libraries by their paths.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (library, file) in LIBRARIES {
        let file = root().join(file);
        read(&file, file.parent().unwrap(), library, &mut names);
    }
    assert!(names.len() > 200, "only {} names", names.len());
    names
}

/// Adds the public names of a file and of its public modules, which are in `folder`.
fn read(file: &Path, folder: &Path, path: &str, names: &mut BTreeSet<String>) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    for item in parsed.items {
        let (visibility, name) = match &item {
            Item::Const(item) => (&item.vis, item.ident.to_string()),
            Item::Enum(item) => (&item.vis, item.ident.to_string()),
            Item::Fn(item) => (&item.vis, item.sig.ident.to_string()),
            Item::Mod(item) => (&item.vis, item.ident.to_string()),
            Item::Static(item) => (&item.vis, item.ident.to_string()),
            Item::Struct(item) => (&item.vis, item.ident.to_string()),
            Item::Trait(item) => (&item.vis, item.ident.to_string()),
            Item::Type(item) => (&item.vis, item.ident.to_string()),
            Item::Use(item) if is_public(&item.vis) => {
                used(&item.tree, &mut |name| {
                    names.insert(format!("{path}::{name}"));
                });
                continue;
            }
            _ => continue,
        };
        if !is_public(visibility) {
            continue;
        }
        let within = format!("{path}::{name}");
        names.insert(within.clone());
        if matches!(&item, Item::Mod(module) if module.content.is_none()) {
            let (file, inner) = module_file(folder, &name);
            read(&file, &inner, &within, names);
        }
    }
}

/// Returns the file of a module and the folder of its submodules.
fn module_file(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let inner = folder.join(name);
    let beside = folder.join(format!("{name}.rs"));
    let file = if beside.is_file() { beside } else { inner.join("mod.rs") };
    (file, inner)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns the names that a `use` imports: for `a::{self as b, C, d::E as F}` these are b, C and F.
fn used(tree: &UseTree, found: &mut dyn FnMut(String)) {
    match tree {
        UseTree::Path(path) => used(&path.tree, &mut |name| {
            found(if name == "self" { path.ident.to_string() } else { name });
        }),
        UseTree::Name(name) => found(name.ident.to_string()),
        UseTree::Rename(name) => found(name.rename.to_string()),
        UseTree::Glob(_) => found("*".to_owned()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| used(tree, found)),
    }
}
