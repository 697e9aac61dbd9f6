//! `valvehouse check`: looks for mistakes in scripts; nothing of them runs, no store is touched.

use super::args;
use super::exit::{Exit, Failure};
use super::output::{Output, count};
use super::report;
use crate::app;
use crate::config::Config;
use crate::json::Json;
use crate::script::{Found, Loader, Problem, Read, Script, Severity, read_file};
use crate::words::did_you_mean;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn run(asked: &args::Check, config: &Config, out: &Output) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    if asked.paths.is_empty() {
        findings.folder(&config.folders.filters, config);
    }
    for path in &asked.paths {
        findings.asked(path, config)?;
    }
    findings.tell(out)?;
    let counts = |problem: &Problem| asked.strict || problem.severity == Severity::Error;
    Ok(if findings.problems.iter().any(counts) { Exit::Findings } else { Exit::Done })
}

/// What was found in which files.
#[derive(Default)]
struct Findings {
    files: BTreeSet<PathBuf>,
    problems: Vec<Problem>,
}

impl Findings {
    /// Checks what a word of the command line means: a file, a folder, or the id of a filter.
    fn asked(&mut self, word: &Path, config: &Config) -> Result<(), Failure> {
        let in_project = config.project.join(word);
        match [word, &in_project].into_iter().find(|path| path.exists()) {
            Some(folder) if folder.is_dir() => self.folder(folder, config),
            Some(file) if file.extension().is_some_and(|extension| extension == "rhai") => {
                self.read(read_file(file), file, config);
            }
            Some(file) => {
                let file = file.display();
                return Err(Failure::data(format!("{file} is no script: a script's name ends in .rhai")));
            }
            None => self.id(&word.to_string_lossy(), config)?,
        }
        Ok(())
    }

    fn id(&mut self, id: &str, config: &Config) -> Result<(), Failure> {
        let mut found = Loader::default().look(&config.folders.filters);
        let known = |id: &str| found.files.contains_key(id) || found.problems.iter().any(|it| it.id == id);
        if !known(id) {
            let hint = did_you_mean(id, found.files.keys().map(|id| &**id));
            return Err(Failure::data(format!("there is no file, folder or filter `{id}`{hint}")));
        }
        found.files.retain(|other, _| **other == *id);
        found.problems.retain(|problem| problem.id == id);
        self.found(found, config);
        Ok(())
    }

    fn folder(&mut self, folder: &Path, config: &Config) {
        self.found(Loader::default().look(folder), config);
    }

    fn found(&mut self, found: Found, config: &Config) {
        for problem in found.problems {
            if problem.path.is_file() {
                self.files.insert(problem.path.clone());
            }
            self.problems.push(problem);
        }
        for read in found.files.into_values() {
            let path = read.file.path.clone();
            self.read(Ok(read), &path, config);
        }
    }

    fn read(&mut self, read: Result<Read, Problem>, path: &Path, config: &Config) {
        self.files.insert(path.to_owned());
        let problems = match read {
            Err(problem) => vec![problem],
            Ok(read) => match Script::compile(&read.file, &app::settings_of(config, &read.file.id)) {
                Ok(script) => script.warnings,
                Err(problems) => problems,
            },
        };
        self.problems.extend(problems);
    }

    fn tell(&mut self, out: &Output) -> Result<(), Failure> {
        self.problems.sort_by(|a, b| (&a.path, a.line, a.column).cmp(&(&b.path, b.line, b.column)));
        if out.is_json() {
            let errors = self.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
            out.json(&Json::from([
                ("checked", self.files.len().into()),
                ("errors", errors.into()),
                ("warnings", (self.problems.len() - errors).into()),
                ("problems", report::all_as_json(&self.problems)),
            ]))?;
            return Ok(());
        }
        for problem in &self.problems {
            out.line(&format!("{}\n", report::shown(problem, out.results())))?;
        }
        let (files, problems) = (count(self.files.len(), "file"), count(self.problems.len(), "problem"));
        out.line(&format!("checked {files}, {problems}"))?;
        Ok(())
    }
}
