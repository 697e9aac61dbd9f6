//! Runs tests in parallel, and reports the files in their order.
//!
//! The options of a run of tests.

use futures::future::join_all;
use futures::{Stream, StreamExt, stream};
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::sync::Semaphore;
use valvehouse_config::Config;
use valvehouse_host::app;
use valvehouse_script::testing::{Suite, SuiteOptions, Test, TestResult};
use valvehouse_script::{Coverage, Diagnostic, Settings};
use valvehouse_terminal::{Case, Exit};

/// The tests to run, and the way in which they are run.
#[derive(Debug, Clone)]
pub(crate) struct How {
    /// Only those with this in their name.
    pub(crate) filter: Option<String>,
    pub(crate) update: bool,
    pub(crate) coverage: bool,
    /// So many at a time.
    pub(crate) jobs: usize,
}

impl How {
    pub(super) fn asked(asked: &TestOptions) -> Self {
        let jobs = asked.jobs.or_else(|| available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        Self { filter: asked.filter.clone(), update: asked.update, coverage: asked.coverage, jobs }
    }
}

/// All tests, one by another.
impl Default for How {
    fn default() -> Self {
        Self { filter: None, update: false, coverage: false, jobs: 1 }
    }
}

/// The outcome of a test file.
pub(crate) struct FileRan {
    /// The plugin's id.
    pub(crate) id: String,
    pub(crate) script: PathBuf,
    pub(crate) tests: PathBuf,
    /// The outcome of its tests, or the reason for which there was nothing to run.
    pub(crate) result: Result<Vec<TestRan>, Vec<Diagnostic>>,
    /// Tests it has, also those that were not meant.
    all: Vec<Test>,
    pub(crate) covered: Option<FileCoverage>,
}

/// The outcome of a test.
pub(crate) struct TestRan {
    pub(crate) test: Test,
    pub(crate) ran: TestResult,
}

/// The lines of its script that the tests of a file reach.
pub(crate) struct FileCoverage {
    /// Hooks, tools and what else a host calls: whether it was.
    pub(crate) called: Vec<(String, bool)>,
    pub(crate) lines: Arc<Coverage>,
}

impl FileRan {
    /// Its tests that were run.
    pub(crate) fn tests(&self) -> &[TestRan] {
        self.result.as_deref().unwrap_or(&[])
    }

    /// The names of all its tests.
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|test| test.name.as_str())
    }

    /// Returns `true` if there is nothing to tell: none of its tests was meant.
    pub(crate) fn is_silent(&self) -> bool {
        self.result.as_ref().is_ok_and(Vec::is_empty)
    }
}

/// Runs the tests of these files. What comes, comes in their order, as soon as it can.
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
        // It only ends otherwise where compiling panicked, which was told.
        tokio::task::spawn_blocking(opened).await.unwrap_or_else(|_| Err(Vec::new()))
    };
    let suite = match suite {
        Ok(suite) => suite,
        Err(problems) => {
            return FileRan { id, script, tests, result: Err(problems), all: Vec::new(), covered: None };
        }
    };
    let is_meant = |test: &&Test| how.filter.as_deref().is_none_or(|text| test.name.contains(text));
    let asked = SuiteOptions { update: how.update, coverage: coverage.clone() };
    let runs = suite.tests().iter().filter(is_meant).map(|test| {
        let (suite, asked, places) = (&suite, &asked, &places);
        async move {
            let _place = places.acquire().await;
            TestRan { test: test.clone(), ran: suite.run(&test.name, asked).await }
        }
    });
    let ran = join_all(runs).await;
    let covered = coverage.map(|lines| covered(&suite, &ran, lines));
    FileRan { id, script, tests, result: Ok(ran), all: suite.tests().to_vec(), covered }
}

fn covered(suite: &Suite, ran: &[TestRan], lines: Arc<Coverage>) -> FileCoverage {
    let mut called: BTreeSet<String> = lines.called();
    called.extend(ran.iter().flat_map(|test| test.ran.called.iter().cloned()));
    let wanted = suite.script().called_by_host();
    FileCoverage {
        called: wanted.into_iter().map(|name| (name.clone(), called.contains(&name))).collect(),
        lines,
    }
}

/// The outcome of all files together.
pub(crate) struct Sum {
    pub(crate) files: usize,
    pub(crate) tests: usize,
    pub(crate) failed: usize,
    /// Files that do not compile, or cannot be read.
    pub(crate) unreadable: usize,
    /// Golden files that were written.
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

/// The tests to run, and what is shown and written of them.
#[derive(Debug, Clone, Default)]
pub struct TestOptions {
    /// Test files, scripts, folders or ids; all tests of the project where there are none.
    pub paths: Vec<PathBuf>,
    /// A text that the names of tests have to contain.
    pub filter: Option<String>,
    /// Rewrites golden files.
    pub update: bool,
    /// Shows the hooks, tools and lines that tests reach.
    pub coverage: bool,
    /// The number of tests that run at a time; without it as many as there are processors.
    pub jobs: Option<NonZeroUsize>,
    /// The file for a report as JUnit's XML.
    pub junit: Option<PathBuf>,
    /// Shows the output of passing tests.
    pub show_output: bool,
}
