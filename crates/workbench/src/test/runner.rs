//! The parallel run of tests, which reports the files in order, and the options of a run.

use clap::Args;
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
use valvehouse_dialect::instrument::Coverage;
use valvehouse_host::app;
use valvehouse_script::{Diagnostic, Settings};
use valvehouse_terminal::{Case, Exit};

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
pub(crate) fn running(
    cases: Vec<Case>,
    config: &Config,
    options: &TestOptions,
) -> impl Stream<Item = FileRan> + use<> {
    let jobs = options.jobs.or_else(|| available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let places = Arc::new(Semaphore::new(jobs));
    let nothing_granted = HashMap::new();
    let files: Vec<_> = cases
        .into_iter()
        .map(|case| {
            let settings = app::settings_of(config, &nothing_granted, case.script.kind, &case.script.id);
            file(case, settings, options.clone(), places.clone())
        })
        .collect();
    stream::iter(files).buffered(jobs.saturating_add(1))
}

async fn file(case: Case, settings: Settings, options: TestOptions, places: Arc<Semaphore>) -> FileRan {
    let (id, script) = (case.script.id.to_string(), case.script.path.clone());
    let tests = case.tests.path.clone();
    let coverage = options.coverage.then(|| Coverage::of(&case.script.text));
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
    let is_meant = |test: &&Test| options.filter.as_deref().is_none_or(|text| test.name.contains(text));
    let suite_options = SuiteOptions { update: options.update, coverage: coverage.clone() };
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

impl TestOptions {
    /// Returns the options for all tests with this text in their names, one at a time.
    pub(crate) fn one_by_one(filter: Option<String>) -> Self {
        Self { filter, jobs: Some(NonZeroUsize::MIN), ..Self::default() }
    }
}

/// The options of `valvehouse test`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Examples:
  valvehouse test                             all tests of filters/ and tools/
  valvehouse test filters/turn_limit.rhai     tests of one script; the test file's path works too
  valvehouse test turn_limit weather          by id
  valvehouse test --filter refused            tests with this text in their names
  valvehouse test --coverage                  show the hooks and lines that they reach
  valvehouse test --update                    rewrite the files of assert_golden
  valvehouse test --junit target/tests.xml    write a report for CI

The tests of filters/turn_limit.rhai are in filters/turn_limit.test.rhai: functions `fn test_…()` that call
the script's hooks and check the results. Each runs in isolation, with its own kv and clock. Nothing
outside is accessed: the test defines the answers of models, hosts, people and files. The script has the
project's budgets and the default values of its valves.

Exit codes: 1 a test failed, 65 a file does not compile, 2 no such test.")]
pub struct TestOptions {
    /// Run these test files, scripts, folders or ids [default: all]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Run only tests with this text in their names
    #[arg(long, short, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Rewrite the files of assert_golden with the current values
    #[arg(long)]
    pub update: bool,
    /// Show the hooks, tools and lines of the scripts that the tests reach
    #[arg(long)]
    pub coverage: bool,
    /// Set the number of parallel test workers [default: number of CPUs]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Show the output of passing tests too
    #[arg(long)]
    pub show_output: bool,
}
