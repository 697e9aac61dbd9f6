//! The uses between files.

use crate::Uses;
use crate::modules::{File, ModulePath, Modules};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Item, UseTree};

/// Returns the arrows of a package, each with the first line that causes it.
pub(crate) fn all(modules: &Modules) -> Uses<'_> {
    let mut arrows = Uses::new();
    for (at, file) in modules.iter() {
        let mut finder = Finder { modules, at, file, arrows: &mut arrows };
        file.items.iter().for_each(|item| finder.visit_item(item));
    }
    arrows
}

struct Finder<'a, 'b> {
    modules: &'a Modules,
    at: &'a ModulePath,
    file: &'a File,
    arrows: &'b mut Uses<'a>,
}

impl Finder<'_, '_> {
    fn found(&mut self, path: &[String], line: usize) {
        let Some(target) = self.modules.defining(self.at, path) else { return };
        if target.path != self.file.path {
            let written = format!("{}:{line}: {}", self.file.path.display(), path.join("::"));
            self.arrows.entry((&self.file.path, &target.path)).or_insert(written);
        }
    }

    fn imports(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.imports(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.imports(tree, before)),
            UseTree::Glob(_) => {}
            UseTree::Name(name) => {
                let path: Vec<String> = before.iter().cloned().chain([name.ident.to_string()]).collect();
                self.found(&path, name.ident.span().start().line);
            }
            UseTree::Rename(rename) => {
                let path: Vec<String> = before.iter().cloned().chain([rename.ident.to_string()]).collect();
                self.found(&path, rename.ident.span().start().line);
            }
        }
    }

    /// Finds paths in the arguments of macros, which are not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.end_path(&mut path, line);
                    }
                    line = name.span().start().line;
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(point) if point.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Group(group) => {
                    self.end_path(&mut path, line);
                    self.tokens(group.stream());
                }
                _ => self.end_path(&mut path, line),
            }
        }
        self.end_path(&mut path, line);
    }

    fn end_path(&mut self, path: &mut Vec<String>, line: usize) {
        if path.len() > 1 {
            self.found(path, line);
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Finder<'_, '_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            // A re-export is not a use.
            Item::Use(use_) if !matches!(use_.vis, syn::Visibility::Inherited) && is_list(self.file) => {}
            Item::Use(use_) => self.imports(&use_.tree, &mut Vec::new()),
            item => syn::visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.found(&names, path.segments[0].ident.span().start().line);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }
}

fn is_list(file: &File) -> bool {
    ["mod.rs", "lib.rs"].iter().any(|name| file.path.ends_with(name))
}
