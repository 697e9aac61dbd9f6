//! A test file with its script.

use super::environment::{self, On, TestEnvironment};
use super::failure::{self, TestFailure};
use super::functions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::filter::Hook;
use valvehouse_dialect::budget::Budget;
use valvehouse_dialect::instrument::Coverage;
use valvehouse_executor::{self as executor, Workload};
use valvehouse_script::Script;
use valvehouse_script::diagnostic::{Code, Diagnostic};
use valvehouse_script::{Settings, SourceFile};

/// The time limit of one test, including waiting.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A test file and its script. The tests are independent and may run concurrently.
pub struct Suite {
    /// The script with its declared valves.
    compiled: Arc<Script>,
    tests: Arc<Script>,
    listed: Vec<Test>,
    settings: Settings,
}

/// One test of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The name of its function.
    pub name: String,
    /// The line of the function, from 1.
    pub line: usize,
}

/// The options of a test run.
#[derive(Debug, Clone, Default)]
pub struct SuiteOptions {
    /// Writes the golden files instead of comparing values with them.
    pub update: bool,
    /// The recorder of the script's lines that run.
    pub coverage: Option<Arc<Coverage>>,
}

/// The result of a test.
#[derive(Debug, Clone)]
pub struct TestResult {
    /// The wall-clock time.
    pub took: Duration,
    /// The failure, if it failed.
    pub failed: Option<TestFailure>,
    /// The lines that the script and the test printed: the level and the line.
    pub printed: Vec<(&'static str, String)>,
    /// The hooks, tools and pipes of the script that ran.
    pub called: Vec<String>,
    /// The files that were written because of [`SuiteOptions::update`].
    pub written: Vec<PathBuf>,
}

impl Suite {
    /// Reads and compiles both files. The budgets of `settings` apply to the script, but not the valves and grants
    /// of an operator: a test sets what it needs.
    ///
    /// # Errors
    /// Returns all problems of the script and its tests.
    pub fn open(
        script: &SourceFile,
        tests: &SourceFile,
        settings: &Settings,
    ) -> Result<Self, Vec<Diagnostic>> {
        let compiled = environment::declared(script, settings)?;
        let compiled_tests = Script::compile_tests(tests, settings, functions::modules())?;
        let listed = listed(&compiled_tests);
        let misplaced = compiled_tests
            .functions()
            .find(|function| function.name.starts_with("test_") && !function.params.is_empty());
        if let Some(function) = misplaced {
            let problem = Diagnostic::of(
                Code::TestWithParameters,
                tests,
                format!("the test `{}` must not have parameters", function.name),
            );
            let problem = problem.at_function(&tests.text, function.name);
            return Err(vec![
                problem.help("remove the parameters, or rename the function if it is not a test"),
            ]);
        }
        if listed.is_empty() {
            let problem = Diagnostic::of(Code::NoTest, tests, "the file has no tests");
            return Err(vec![problem.help("write one: fn test_it_works() { assert_eq(1 + 1, 2); }")]);
        }
        Ok(Self { compiled, tests: Arc::new(compiled_tests), listed, settings: settings.clone() })
    }

    /// Returns all problems of the test file or its script.
    pub fn check(script: &SourceFile, tests: &SourceFile, settings: &Settings) -> Vec<Diagnostic> {
        let opened = Self::open(script, tests, settings);
        opened.map_or_else(|problems| problems, |suite| suite.tests.warnings.clone())
    }

    /// Returns its tests, in source order.
    pub fn tests(&self) -> &[Test] {
        &self.listed
    }

    /// Returns the script's hooks.
    pub fn hooks(&self) -> impl Iterator<Item = Hook> {
        self.compiled.hooks()
    }

    /// Returns the script, with its declared valves.
    pub fn script(&self) -> &Arc<Script> {
        &self.compiled
    }

    /// Returns the test file.
    pub fn file(&self) -> &SourceFile {
        &self.tests.file
    }

    /// Runs one of its tests in its own environment.
    pub async fn run(&self, test: &str, options: &SuiteOptions) -> TestResult {
        let begun = Instant::now();
        let golden = (golden_folder(&self.tests.file.path), options.update);
        let on = On { name: test.to_owned(), golden, coverage: options.coverage.clone() };
        let environment = TestEnvironment::new(&self.compiled, &self.settings, on);
        let failed = self.failed(test, &environment).await;
        TestResult {
            took: begun.elapsed(),
            failed,
            printed: environment.lines(),
            called: environment.called(),
            written: std::mem::take(&mut environment.written.lock()),
        }
    }

    async fn failed(&self, test: &str, environment: &Arc<TestEnvironment>) -> Option<TestFailure> {
        let (tests, on, name) = (self.tests.clone(), environment.clone(), test.to_owned());
        let budget = Budget { wall: TIMEOUT, hurries_people: true, ..self.settings.tool };
        let run = executor::run(Workload::Blocking, move || {
            let result = tests.call_test(&name, (&on.settings, on.clock.clone()), &on.turn(), budget);
            result.err().map(|error| {
                let tested = on.made().ok().map(|made| made.own.script);
                let (wrong, known) = (on.wrong.lock().take(), functions::test_functions());
                failure::describe(&tests, tested.as_deref(), &name, &error, wrong, known)
            })
        });
        let failed = run.await.unwrap_or_else(|error| {
            let problem = Diagnostic::of(Code::TestFailed, &self.tests.file, error.to_string());
            Some(TestFailure { problem, compared: None })
        });
        // The script may have caught the error of a missing answer.
        failed.or_else(|| {
            let why = environment.model.unanswered()?;
            let problem = Diagnostic::of(Code::TestFailed, &self.tests.file, why);
            Some(TestFailure { problem: problem.at_function(&self.tests.file.text, test), compared: None })
        })
    }
}

/// Returns the tests among the functions of a file, in source order.
fn listed(tests: &Script) -> Vec<Test> {
    let mut listed: Vec<Test> = Vec::new();
    for function in tests.functions() {
        let is_test = function.name.starts_with("test_") && function.params.is_empty();
        if is_test && !listed.iter().any(|known| known.name == function.name) {
            let place =
                Diagnostic::of(Code::NoTest, &tests.file, "").at_function(&tests.file.text, function.name);
            listed.push(Test { name: function.name.to_owned(), line: place.line.unwrap_or(1) });
        }
    }
    listed.sort_by_key(|test| test.line);
    listed
}

/// Returns the folder of golden files: `filters/turn_limit.golden` for `filters/turn_limit.test.rhai`.
fn golden_folder(tests: &Path) -> PathBuf {
    let name = tests.file_name().unwrap_or(tests.as_os_str()).to_string_lossy();
    tests.with_file_name(format!("{}.golden", name.trim_end_matches(".test.rhai")))
}
