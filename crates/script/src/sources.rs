//! The files of one script: where a function stands when something goes wrong in it.

use super::rename;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One file of a script.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
}

/// The files of a script, and which of them a function is from.
#[derive(Debug)]
pub(crate) struct Sources {
    script: Source,
    /// In the order of their prefixes.
    modules: Vec<Source>,
    /// Modules that closures are from, by the names Rhai gives those.
    closures: HashMap<String, usize>,
}

impl Sources {
    pub(crate) fn new(path: &Path, text: impl Into<Arc<str>>) -> Self {
        let script = Source { path: path.to_owned(), text: text.into() };
        Self { script, modules: Vec::new(), closures: HashMap::new() }
    }

    /// With one more module, and the closures in it.
    pub(super) fn add(&mut self, source: Source, closures: impl IntoIterator<Item = String>) {
        let index = self.modules.len();
        self.modules.push(source);
        self.closures.extend(closures.into_iter().map(|name| (name, index)));
    }

    /// The script itself.
    pub(super) fn script(&self) -> &Source {
        &self.script
    }

    /// The file of a function that was called; functions of the host stay where they are called.
    /// `given` is what Rhai takes for the source, which only modules' own names tell.
    pub(super) fn of<'a>(&'a self, function: &str, given: &str, caller: &'a Source) -> &'a Source {
        let index = rename::split(function)
            .map(|(index, _)| index)
            .or_else(|| self.closures.get(function).copied())
            .or_else(|| {
                rename::split(given).filter(|_| !function.starts_with("anon$")).map(|(index, _)| index)
            });
        match index.and_then(|index| self.modules.get(index)) {
            Some(module) => module,
            None if super::engine::arities(function).is_some() => caller,
            None => &self.script,
        }
    }
}
