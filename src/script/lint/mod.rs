//! What loads and is surely not meant: warnings of `check`, of editors and while one writes; a host that
//! only loads a script has no use for them.
//!
//! A lint that is wrong is worse than none: each of these warns only where it is sure.

mod calls;
mod capabilities;
mod flow;
mod loops;
mod quotes;
mod returns;
mod tree;
mod valves;
mod view;
mod words;

#[cfg(test)]
mod tests;

use super::Script;
use super::problem::{MOST_TOLD, Problem};
use super::source::{Kind, SourceFile};
use super::{endings, engine, imports};
use rhai::OptimizationLevel;
use std::path::Path;
use view::View;

impl Script {
    /// What is surely not meant in it, beside its [`Script::warnings`].
    pub fn lints(&self) -> Vec<Problem> {
        all(&self.file, Some(self), "")
    }

    /// The same of a module that is looked at by itself.
    pub fn lints_of_module(file: &SourceFile, root: &Path) -> Vec<Problem> {
        all(file, None, &imports::key_of(root, &file.path))
    }
}

fn all(file: &SourceFile, script: Option<&Script>, key: &str) -> Vec<Problem> {
    let source = file.text.trim_start_matches('\u{feff}');
    let mut engine = engine::new();
    engine.set_optimization_level(OptimizationLevel::None);
    // What does not parse is told by whoever compiles it.
    let code = match script {
        Some(script) if script.file.kind == Kind::Filter => endings::settled(source),
        _ => source.into(),
    };
    let Ok(ast) = engine.compile(&*code) else { return Vec::new() };
    let view = View::of(file, source, &ast, script, key);
    let families = [
        calls::look,
        valves::look,
        words::look,
        capabilities::look,
        returns::look,
        flow::look,
        loops::look,
        quotes::look,
    ];
    let found = families.into_iter().flat_map(|look| look(&view).into_iter().take(MOST_TOLD));
    let mut found: Vec<Problem> = found.map(Problem::warning).collect();
    found.sort_by_key(|problem| (problem.line, problem.column));
    found.dedup_by(|a, b| a.code == b.code && a.place() == b.place());
    found
}
