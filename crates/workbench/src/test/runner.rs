//! The parallel run of tests, which reports the files in order, and the options of a run.

use futures::future::join_all;
use futures::{Stream, StreamExt, stream};
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::sync::Semaphore;
use valvehouse_authoring::testing::{Suite, SuiteOptions, Test, TestResult};
use valvehouse_config::Config;
use valvehouse_host::app;
use valvehouse_script::{Coverage, Diagnostic, Settings};
use valvehouse_terminal::{Case, Exit};

/// The options of a run.
#[derive(Debug, Clone)]
pub(crate) struct How {
    /// The text that the names of tests have to contain.
    pub(crate) filter: Option<String>,
    pub(crate) update: bool,
    pub(crate) coverage: bool,
    /// The maximum number of tests that run at a time.
    pub(crate) jobs: usize,
}

impl How {
    pub(super) fn of(options: &TestOptions) -> Self {
        let jobs = options.jobs.or_else(|| available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        Self { filter: options.filter.clone(), update: options.update, coverage: options.coverage, jobs }
    }
}

/// Runs all tests, one at a time.
impl Default for How {
    fn default() -> Self {
        Self { filter: None, update: false, coverage: false, jobs: 1 }
    }
}

/// The outcome of a test file.
pub(crate) struct FileRan {
    /// The id of the plugin.
    pub(crate) id: String,
    pub(crate) script: PathBuf,
    pub(crate) tests: PathBuf,
    /// The outcomes of its tests, or the reason why it cannot be run.
    pub(crate) result: Result<Vec<TestRan>, Vec<Diagnostic>>,
    /// All tests of the file, including those that do not match the filter.
    all: Vec<Test>,
    pub(crate) covered: Option<FileCoverage>,
}

/// The outcome of a test.
pub(crate) struct TestRan {
    pub(crate) test: Test,
    pub(crate) ran: TestResult,
}

/// The coverage of a script by the tests of a file.
pub(crate) struct FileCoverage {
    /// The functions that a host calls, such as hooks and tools; `true` if a test called it.
    pub(crate) called: Vec<(String, bool)>,
    pub(crate) lines: Arc<Coverage>,
}

impl FileRan {
    /// Returns its tests that were run.
    pub(crate) fn tests(&self) -> &[TestRan] {
        self.result.as_deref().unwrap_or(&[])
    }

    /// Returns the names of all its tests.
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|test| test.name.as_str())
    }

    /// Returns `true` if a test failed, or the file cannot be run.
    pub(crate) fn has_failed(&self) -> bool {
        self.result.as_ref().map_or(true, |tests| tests.iter().any(|test| test.ran.failed.is_some()))
    }

    /// Returns `true` if none of its tests matches the filter.
    pub(crate) fn is_silent(&self) -> bool {
        self.result.as_ref().is_ok_and(Vec::is_empty)
    }
}

/// Runs the tests of these files. The outcomes are returned in order, each as soon as possible.
pub(crate) fn running(cases: Vec<Case>, config: &Config, how: &How) -> impl Stream<Item = FileRan> + use<> {
    let places = Arc::new(Semaphore::new(how.jobs));
    let nothing_granted = HashMap::new();
    let files: Vec<_> = cases
        .into_iter()
        .map(|case| {
            let settings = app::settings_of(config, &nothing_granted, case.script.kind, &case.script.id);
            file(case, settings, how.clone(), places.clone())
        })
        .collect();
    stream::iter(files).buffered(how.jobs.saturating_add(1))
}

async fn file(case: Case, settings: Settings, how: How, places: Arc<Semaphore>) -> FileRan {
    let (id, script) = (case.script.id.to_string(), case.script.path.clone());
    let tests = case.tests.path.clone();
    let coverage = how.coverage.then(|| Coverage::of(&case.script));
    let suite = {
        let _place = places.acquire().await;
        let opened = move || Suite::open(&case.script, &case.tests, &settings);
        // Only a panic during compilation leads here; it was logged.
        tokio::task::spawn_blocking(opened).await.unwrap_or_else(|_| Err(Vec::new()))
    };
    let suite = match suite {
        Ok(suite) => suite,
        Err(problems) => {
            return FileRan { id, script, tests, result: Err(problems), all: Vec::new(), covered: None };
        }
    };
    let is_meant = |test: &&Test| how.filter.as_deref().is_none_or(|text| test.name.contains(text));
    let suite_options = SuiteOptions { update: how.update, coverage: coverage.clone() };
    let runs = suite.tests().iter().filter(is_meant).map(|test| {
        let (suite, suite_options, places) = (&suite, &suite_options, &places);
        async move {
            let _place = places.acquire().await;
            TestRan { test: test.clone(), ran: suite.run(&test.name, suite_options).await }
        }
    });
    let ran = join_all(runs).await;
    let covered = coverage.map(|lines| covered(&suite, &ran, lines));
    FileRan { id, script, tests, result: Ok(ran), all: suite.tests().to_vec(), covered }
}

fn covered(suite: &Suite, ran: &[TestRan], lines: Arc<Coverage>) -> FileCoverage {
    let mut called: BTreeSet<String> = lines.called();
    called.extend(ran.iter().flat_map(|test| test.ran.called.iter().cloned()));
    let callable = suite.script().called_by_host();
    FileCoverage {
        called: callable.into_iter().map(|name| (name.clone(), called.contains(&name))).collect(),
        lines,
    }
}

/// The totals of all files.
pub(crate) struct Sum {
    pub(crate) files: usize,
    pub(crate) tests: usize,
    pub(crate) failed: usize,
    /// The number of files that do not compile or cannot be read.
    pub(crate) unreadable: usize,
    /// The number of golden files that were written.
    pub(crate) written: usize,
    pub(crate) took: Duration,
}

impl Sum {
    pub(crate) fn of(files: &[FileRan], problems: &[Diagnostic], took: Duration) -> Self {
        let tests = || files.iter().flat_map(FileRan::tests);
        let broken = files.iter().filter(|file| file.result.is_err()).count();
        Self {
            files: files.iter().filter(|file| !file.is_silent()).count(),
            tests: tests().count(),
            failed: tests().filter(|test| test.ran.failed.is_some()).count(),
            unreadable: broken + problems.len(),
            written: tests().map(|test| test.ran.written.len()).sum(),
            took,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match (self.unreadable, self.failed) {
            (0, 0) => Exit::Done,
            (0, _) => Exit::Findings,
            _ => Exit::Data,
        }
    }
}

/// The options of `valvehouse test`.
#[derive(Debug, Clone, Default)]
pub struct TestOptions {
    /// The test files, scripts, folders or ids; empty for all tests of the project.
    pub paths: Vec<PathBuf>,
    /// The text that the names of tests have to contain.
    pub filter: Option<String>,
    /// `true` to rewrite golden files.
    pub update: bool,
    /// `true` to show the hooks, tools and lines that tests reach.
    pub coverage: bool,
    /// The maximum number of tests that run at a time; `None` for the number of CPUs.
    pub jobs: Option<NonZeroUsize>,
    /// The file for a report in the XML format of JUnit.
    pub junit: Option<PathBuf>,
    /// `true` to show the output of passing tests.
    pub show_output: bool,
}
