//! The facts that lints know of a file: its functions with their bodies, and all the words in it.

use super::tree::{self, Node};
use crate::imports::ModuleFile;
use crate::manifest::Manifest;
use crate::problem::{Code, Problem};
use crate::source::SourceFile;
use crate::syntax::statements_of;
use crate::{Script, engine};
use rhai::{AST, Expr, OptimizationLevel, Position, ScriptFuncDef, Stmt};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A file as lints see it.
pub(super) struct View<'a> {
    pub(super) file: &'a SourceFile,
    pub(super) source: &'a str,
    /// None for a module.
    pub(super) script: Option<&'a Script>,
    /// Closures, too.
    pub(super) functions: Vec<Body>,
    /// The functions of imported modules, by the names the file gives them, with the number of their
    /// arguments. None where a module cannot be read.
    pub(super) modules: BTreeMap<String, Option<BTreeSet<(String, usize)>>>,
    /// Behind a dot, anywhere in the file.
    pub(super) properties: HashSet<String>,
    /// Texts in quotes, anywhere in the file.
    pub(super) texts: HashSet<String>,
    /// Keys that are given a value, in a map or behind a dot.
    pub(super) written: HashSet<String>,
}

/// A function and what it does.
pub(super) struct Body {
    pub(super) name: String,
    pub(super) params: Vec<String>,
    pub(super) statements: Vec<Stmt>,
}

impl Body {
    pub(super) fn is_closure(&self) -> bool {
        self.name.starts_with("anon$")
    }

    fn of(function: &ScriptFuncDef) -> Self {
        let params = function.params.iter().map(ToString::to_string).collect();
        Self { name: function.name.to_string(), params, statements: statements_of(function) }
    }
}

impl<'a> View<'a> {
    pub(super) fn of(
        file: &'a SourceFile,
        source: &'a str,
        ast: &AST,
        script: Option<&'a Script>,
        key: &str,
    ) -> Self {
        let functions = ast.iter_fn_def().map(|function| Body::of(function));
        let mut view = Self {
            file,
            source,
            script,
            functions: functions.collect(),
            modules: modules(file, ast, key),
            properties: HashSet::new(),
            texts: HashSet::new(),
            written: HashSet::new(),
        };
        view.note_words(ast.statements());
        let functions = std::mem::take(&mut view.functions);
        functions.iter().for_each(|function| view.note_words(&function.statements));
        view.functions = functions;
        view
    }

    pub(super) fn manifest(&self) -> Option<&'a Manifest> {
        self.script.map(|script| &script.manifest)
    }

    /// A problem at a place of the file.
    pub(super) fn problem(&self, code: Code, position: Position, message: impl Into<String>) -> Problem {
        Problem::of(code, self.file, message).at(self.source, position)
    }

    fn note_words(&mut self, statements: &[Stmt]) {
        tree::each(statements, &mut |node, _| match node {
            Node::Expr(Expr::Property(property, _)) => {
                self.properties.insert(property.2.to_string());
            }
            Node::Expr(Expr::StringConstant(text, _)) => {
                self.texts.insert(text.to_string());
            }
            Node::Expr(Expr::Map(map, _)) => {
                self.written.extend(map.0.iter().map(|(key, _)| key.name.to_string()));
            }
            Node::Stmt(Stmt::Assignment(assignment)) => {
                if let Some(tree::Link::Property(name, _)) = tree::chain(&assignment.1.lhs).1.last() {
                    self.written.insert((*name).to_owned());
                }
            }
            _ => {}
        });
    }
}

fn modules(file: &SourceFile, ast: &AST, key: &str) -> BTreeMap<String, Option<BTreeSet<(String, usize)>>> {
    let mut modules = BTreeMap::new();
    for statement in ast.statements() {
        let Stmt::Import(import, _) = statement else { continue };
        let found = tree::text(&import.0).and_then(|name| file.imports.get(key, name)?.as_ref().ok());
        modules.insert(import.1.name.to_string(), found.and_then(functions_of));
    }
    modules
}

fn functions_of(module: &ModuleFile) -> Option<BTreeSet<(String, usize)>> {
    let mut engine = engine::new();
    engine.set_optimization_level(OptimizationLevel::None);
    let ast = engine.compile(module.text.trim_start_matches('\u{feff}')).ok()?;
    Some(ast.iter_functions().map(|function| (function.name.to_owned(), function.params.len())).collect())
}
