//! The source files of one script, and the file of each function.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_dialect::syntax::rename;

/// One source file of a script.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
}

/// The source files of a script, and the file of each closure.
#[derive(Debug)]
pub(crate) struct Sources {
    script: Source,
    /// The modules, in the order of their prefixes.
    modules: Vec<Source>,
    /// The modules of closures, by the names that Rhai gives the closures.
    closures: HashMap<String, usize>,
}

impl Sources {
    pub(crate) fn new(path: &Path, text: impl Into<Arc<str>>) -> Self {
        let script = Source { path: path.to_owned(), text: text.into() };
        Self { script, modules: Vec::new(), closures: HashMap::new() }
    }

    /// Adds a module and the closures in it.
    pub(crate) fn add(&mut self, source: Source, closures: impl IntoIterator<Item = String>) {
        let index = self.modules.len();
        self.modules.push(source);
        self.closures.extend(closures.into_iter().map(|name| (name, index)));
    }

    /// Returns the script's own file.
    pub(crate) fn script(&self) -> &Source {
        &self.script
    }

    /// Returns the file of a called function. Errors in functions of the host belong to their caller. `given` is
    /// the source that Rhai reports, which is only meaningful for the prefixed names of modules.
    pub(crate) fn of<'a>(&'a self, function: &str, given: &str, caller: &'a Source) -> &'a Source {
        let index = rename::split(function)
            .map(|(index, _)| index)
            .or_else(|| self.closures.get(function).copied())
            .or_else(|| {
                rename::split(given).filter(|_| !function.starts_with("anon$")).map(|(index, _)| index)
            });
        match index.and_then(|index| self.modules.get(index)) {
            Some(module) => module,
            None if valvehouse_script_std::engine::arities(function).is_some() => caller,
            None => &self.script,
        }
    }
}
