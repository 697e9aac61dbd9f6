//! Collects the findings of all rules for a file.

use super::list::rules;
use super::tree::{View, modules};
use crate::check::final_statement;
use crate::diagnostic::{Diagnostic, MAX_PROBLEMS};
use crate::load::source::{Kind, SourceFile};
use crate::load::{imports, link};
use crate::script::Script;
use crate::settings::Settings;
use rhai::OptimizationLevel;
use std::path::Path;
use valvehouse_dialect::syntax::tokens;
use valvehouse_script_std::engine;

impl Script {
    /// Returns all problems of a file: the reasons why it does not load, or probable mistakes.
    pub fn check(file: &SourceFile, settings: &Settings) -> Vec<Diagnostic> {
        Self::compile(file, settings).map_or_else(|problems| problems, |script| script.findings())
    }

    /// Returns all problems of a module on its own; the importing script may have more.
    pub fn check_module(file: &SourceFile, root: &Path) -> Vec<Diagnostic> {
        let key = imports::key_of(root, &file.path);
        [link::check(file, &key), all(file, None, &key)].concat()
    }

    /// Returns all probable mistakes: its [`Script::warnings`], and those that only authors need to see.
    pub fn findings(&self) -> Vec<Diagnostic> {
        [self.lints(), self.warnings.clone()].concat()
    }

    /// Returns the probable mistakes that only authors need to see.
    pub fn lints(&self) -> Vec<Diagnostic> {
        all(&self.file, Some(self), "")
    }
}

fn all(file: &SourceFile, script: Option<&Script>, key: &str) -> Vec<Diagnostic> {
    let source = file.text.trim_start_matches('\u{feff}');
    let mut engine = engine::new();
    engine.set_optimization_level(OptimizationLevel::None);
    // The compiler reports syntax errors.
    let code = match script {
        Some(script) if script.file.kind == Kind::Filter => final_statement::settled(source),
        _ => source.into(),
    };
    let Ok(ast) = tokens::compile(&engine, &code) else { return Vec::new() };
    let view = View::of(file, source, &ast, script, modules(file, &ast, key));
    let found = rules().filter_map(|rule| rule.find);
    let found = found.flat_map(|find| find(&view).into_iter().take(MAX_PROBLEMS));
    let mut found: Vec<Diagnostic> = found.map(Diagnostic::warning).collect();
    found.sort_by_key(|problem| (problem.line, problem.column));
    found.dedup_by(|a, b| a.code == b.code && a.place() == b.place());
    found
}
