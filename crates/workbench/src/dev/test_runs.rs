//! Test runs after a save of tests or their scripts, shown as `valvehouse test` does.

use super::view::View;
use crate::test::{FileRan, Sum, SummaryStyle, TestOptions, TestSelection, report_json, running};
use futures::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use valvehouse_config::Config;
use valvehouse_core::text::count;
use valvehouse_host::app;
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, Kind, Loader};
use valvehouse_terminal::{Paint, clean};

/// The test files of a project.
pub(super) struct Tests {
    folders: [(Kind, PathBuf); 3],
    loader: Loader,
    /// The modification time of each test file.
    seen: BTreeMap<PathBuf, Option<SystemTime>>,
}

impl Tests {
    /// Finds the test files of a project.
    pub(super) fn of(config: &Config) -> Self {
        let folders = app::folders_of(config).map(|(kind, folder)| (kind, folder.to_owned()));
        let mut tests = Self { folders, loader: Loader::default(), seen: BTreeMap::new() };
        tests.saved();
        tests
    }

    /// Returns the folders of the test files.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|(_, folder)| folder.clone())
    }

    /// Returns the test files that are new or were saved since the last call.
    pub(super) fn saved(&mut self) -> BTreeSet<PathBuf> {
        let mut now = BTreeMap::new();
        for (kind, folder) in &self.folders {
            for file in self.loader.look(*kind, folder).tests {
                let saved = std::fs::metadata(&file).and_then(|metadata| metadata.modified());
                now.insert(file, saved.ok());
            }
        }
        let is_new = |(file, saved): &(&PathBuf, &Option<SystemTime>)| self.seen.get(*file) != Some(*saved);
        let saved = now.iter().filter(is_new).map(|(file, _)| file.clone()).collect();
        self.seen = now;
        saved
    }

    /// Returns all test files.
    pub(super) fn all(&mut self) -> BTreeSet<PathBuf> {
        self.saved();
        self.seen.keys().cloned().collect()
    }
}

/// The outcome of a test run.
pub(super) struct TestRun {
    files: Vec<FileRan>,
    /// The problems of files that cannot be read.
    problems: Vec<Diagnostic>,
    took: Duration,
}

/// Runs the tests of these files.
pub(super) async fn run(files: BTreeSet<PathBuf>, config: &Config) -> TestRun {
    let begun = Instant::now();
    // The file may have been deleted meanwhile.
    let files: Vec<PathBuf> = files.into_iter().filter(|file| file.is_file()).collect();
    let found = match files.is_empty() {
        true => TestSelection::default(),
        // Existing files are valid arguments.
        false => TestSelection::of(&files, config).unwrap_or_default(),
    };
    let files = running(found.cases, config, &TestOptions::one_by_one(None)).collect().await;
    TestRun { files, problems: found.problems, took: begun.elapsed() }
}

impl TestRun {
    /// Shows the outcome, file by file; with `in_sum`, only the number of files that passed.
    pub(super) fn show(&self, in_sum: bool, view: &View) {
        let sum = Sum::of(&self.files, &self.problems, self.took);
        if view.is_json() {
            let event = report_json(&self.files, &self.problems, &[], &sum);
            event.put("event", "tests");
            return view.event(|_| String::new(), || event);
        }
        let shown = SummaryStyle { paint: view.paint(), output: false, failures_only: false };
        for file in self.files.iter().filter(|file| !(in_sum && is_well(file))) {
            view.event(|paint| in_lines(file, &shown, paint), || Json::Null);
        }
        for problem in &self.problems {
            view.event(
                |paint| format!("tests {}\n{}", paint.red("cannot be read"), shown.problem(problem)),
                || Json::Null,
            );
        }
        if in_sum {
            view.event(|_| shown.sum(&sum), || Json::Null);
        }
    }
}

fn is_well(file: &FileRan) -> bool {
    file.result.is_ok() && file.tests().iter().all(|test| test.ran.failed.is_none())
}

fn in_lines(file: &FileRan, shown: &SummaryStyle, paint: Paint) -> String {
    let id = paint.bold(&file.id);
    let tests = match &file.result {
        Ok(tests) => tests,
        Err(problems) => {
            let list: String =
                problems.iter().map(|problem| format!("\n{}", shown.problem(problem))).collect();
            return format!("tests of {id} {}{list}", paint.red("do not compile"));
        }
    };
    let failed = tests.iter().filter_map(|test| Some((test, test.ran.failed.as_ref()?)));
    let failed: Vec<_> = failed.collect();
    if failed.is_empty() {
        return format!("tests of {id}: {}", paint.green(&format!("{} passed", count(tests.len(), "test"))));
    }
    let mut text =
        format!("tests of {id}: {}", paint.red(&format!("{} of {} failed", failed.len(), tests.len())));
    for (test, why) in failed {
        text.push_str(&format!(
            "\n{} {}{}",
            paint.red("failed"),
            paint.bold(&test.test.name),
            shown.failed(why)
        ));
        for (level, line) in &test.ran.printed {
            text.push_str(&format!("\n        {} {}", paint.dim(level), clean(line)));
        }
    }
    text
}
