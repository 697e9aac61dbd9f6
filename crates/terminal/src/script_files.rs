//! Files named on the command line: the folder of plugins that a script belongs to, and the tests beside it.

use crate::report;
use std::path::{Path, PathBuf};
use valvehouse_config::Config;
use valvehouse_host::app;
use valvehouse_script::{Code, Kind, Problem, SourceFile, is_module, read_file, read_tests, script_of_tests};

/// A file or folder among plugins.
pub struct Placed {
    /// The kind of plugins in the folder.
    pub kind: Kind,
    /// The folder that imports are looked for in.
    pub root: PathBuf,
    /// As the folder names it, however it was named here.
    pub path: PathBuf,
}

impl Placed {
    /// Returns the folder of plugins that a path belongs to.
    pub fn of(config: &Config, path: &Path) -> Self {
        Self::in_folder_of(app::kind_of(config, path), config, path)
    }

    /// The same of a file that may not be saved yet, and will have this text.
    pub fn of_text(config: &Config, path: &Path, text: &str) -> Self {
        let kind = match path {
            path if path.is_file() => app::kind_of(config, path),
            path if path.starts_with(&config.folders.tools) => Kind::Tool,
            path if path.starts_with(&config.folders.filters) => Kind::Filter,
            _ => Kind::guess(text),
        };
        Self::in_folder_of(kind, config, path)
    }

    fn in_folder_of(kind: Kind, config: &Config, path: &Path) -> Self {
        let root = match kind {
            Kind::Filter => &config.folders.filters,
            Kind::Tool => &config.folders.tools,
        };
        let within = path.canonicalize().ok().zip(root.canonicalize().ok());
        let within = within.and_then(|(path, root)| Some(path.strip_prefix(root).ok()?.to_owned()));
        let (root, path) = match within {
            Some(within) => (root.clone(), root.join(within)),
            None if path.is_dir() => (path.to_owned(), path.to_owned()),
            None if path.starts_with(root) => (root.clone(), path.to_owned()),
            None => (path.parent().unwrap_or(Path::new("")).to_owned(), path.to_owned()),
        };
        Self { kind, root, path }
    }
}

/// A file of tests and the script it is about.
#[derive(Debug)]
pub struct Case {
    /// The script.
    pub script: SourceFile,
    /// Its tests.
    pub tests: SourceFile,
}

/// A file of tests with its script.
///
/// # Errors
///
/// Returns the problem of a file that cannot be read, or that has no script beside it.
pub fn case(kind: Kind, root: &Path, path: &Path) -> Result<Case, Problem> {
    let tests = read_tests(kind, root, path)?;
    let script = script_of_tests(path).unwrap_or_default();
    if !script.is_file() {
        let problem = Problem::new(Code::NoTest, &tests.id, path, "these tests have no script beside them");
        let help = format!(
            "they are about {}: rename one of the two, or delete the tests",
            report::near(&script).display()
        );
        return Err(problem.help(help));
    }
    let read = read_file(kind, root, &script)?.file;
    // A module is tested function by function, in whichever folder it lies.
    let kind = if is_module(root, &script) { Kind::Filter } else { kind };
    Ok(Case { script: SourceFile { kind, ..read }, tests })
}
