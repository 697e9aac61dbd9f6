//! The selection of tests: from the arguments of the command line to test files and their scripts.

use std::path::{Path, PathBuf};
use valvehouse_config::Config;
use valvehouse_core::text::did_you_mean;
use valvehouse_host::app;
use valvehouse_script::{Diagnostic, Kind, Loader, script_of_tests, tests_of_script};
use valvehouse_terminal::{Case, CommandError, ScriptPlace, case, report};

/// The selected tests.
#[derive(Debug, Default)]
pub(crate) struct TestSelection {
    /// The test files, sorted by path.
    pub(crate) cases: Vec<Case>,
    /// The problems of files that cannot be read, and of tests without a script.
    pub(crate) problems: Vec<Diagnostic>,
    /// The scripts without tests.
    pub(crate) untested: Vec<PathBuf>,
}

impl TestSelection {
    /// Returns the tests of these paths and ids; all tests of the project if there are none.
    pub(crate) fn of(words: &[PathBuf], config: &Config) -> Result<Self, CommandError> {
        let mut found = Self::default();
        if words.is_empty() {
            for (kind, folder) in app::folders_of(config) {
                found.folder(&ScriptPlace { kind, root: folder.to_owned(), path: folder.to_owned() });
            }
        }
        for word in words {
            found.named(word, config)?;
        }
        found.cases.sort_by(|a, b| a.tests.path.cmp(&b.tests.path));
        found.cases.dedup_by(|a, b| a.tests.path == b.tests.path);
        found.problems.sort_by(|a, b| a.path.cmp(&b.path));
        found.problems.dedup();
        Ok(found)
    }

    fn named(&mut self, word: &Path, config: &Config) -> Result<(), CommandError> {
        let in_project = config.project.join(word);
        match [word, &in_project].into_iter().find(|path| path.exists()) {
            Some(folder) if folder.is_dir() => self.folder(&ScriptPlace::of(config, folder)),
            Some(file) if file.extension().is_some_and(|extension| extension == "rhai") => {
                self.file(file, config)?;
            }
            Some(file) => {
                let file = report::near(file);
                let file = file.display();
                return Err(CommandError::usage(format!(
                    "{file} is not a script: expected a name that ends in .rhai"
                )));
            }
            None => self.id(&word.to_string_lossy(), config)?,
        }
        Ok(())
    }

    fn folder(&mut self, folder: &ScriptPlace) {
        let looked = Loader::default().look(folder.kind, &folder.root);
        for tests in looked.tests.iter().filter(|tests| tests.starts_with(&folder.path)) {
            self.tests(folder.kind, &folder.root, tests);
        }
        let scripts = looked.files.values().map(|read| &read.file.path);
        let here = scripts.filter(|script| script.starts_with(&folder.path));
        self.untested.extend(here.filter(|script| !tests_of_script(script).is_file()).cloned());
        let unlisted = looked.problems.into_iter().filter(|problem| looked.unlisted.contains(&problem.path));
        self.problems.extend(unlisted);
    }

    /// Adds a test file, or the tests of a script.
    fn file(&mut self, file: &Path, config: &Config) -> Result<(), CommandError> {
        let ScriptPlace { kind, root, path } = ScriptPlace::of(config, file);
        if script_of_tests(&path).is_some() {
            self.tests(kind, &root, &path);
            return Ok(());
        }
        let tests = tests_of_script(&path);
        if !tests.is_file() {
            let (script, tests) = (report::near(file), report::near(&tests));
            let (script, tests) = (script.display(), tests.display());
            return Err(CommandError::usage(format!("{script} has no tests: write them in {tests}")));
        }
        self.tests(kind, &root, &tests);
        Ok(())
    }

    fn id(&mut self, id: &str, config: &Config) -> Result<(), CommandError> {
        let mut known = Vec::new();
        for (kind, folder) in app::folders_of(config) {
            let looked = Loader::default().look(kind, folder);
            if let Some(read) = looked.files.get(id) {
                return self.file(&read.file.path, config);
            }
            known.extend(looked.files.into_keys());
        }
        let hint = did_you_mean(id, known.iter().map(|id| &**id));
        Err(CommandError::usage(format!("unknown file, folder or plugin `{id}`{hint}")))
    }

    fn tests(&mut self, kind: Kind, root: &Path, path: &Path) {
        match case(kind, root, path) {
            Ok(case) => self.cases.push(case),
            Err(problem) => self.problems.push(problem),
        }
    }
}
