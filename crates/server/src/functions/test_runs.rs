//! `POST /api/v1/functions/id/{id}/test`: runs the tests of a plugin on its script or on an unsaved text, as
//! `valvehouse test` does. They reach nothing outside, and nothing is stored.

use super::function::{FunctionAnswer, FunctionPath, answer, content};
use crate::api::{Body, JsonOf, Path};
use crate::auth::Operator;
use crate::problem::{self, ProblemReport};
use axum::Extension;
use axum::extract::State;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_authoring::testing::{Suite, SuiteOptions, Test, TestFailure, TestResult};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::shortened;
use valvehouse_core::trace::ValueChange;
use valvehouse_host::Plugin;
use valvehouse_host::admin::AdminError;
use valvehouse_host::app::{self, App};
use valvehouse_script::{Diagnostic, SourceFile, read_tests, read_text, tests_of_script};

/// The time limit of all tests of a run.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of runs at a time.
const MAX_RUNS: usize = 4;
/// The maximum length of a message or a value, in bytes.
const MAX_SHOWN: usize = 4_096;
/// The maximum number of differences of a failure, and of lines that a test printed.
const MAX_LISTED: usize = 50;

/// The operators whose tests run now.
#[derive(Default)]
pub(super) struct TestRuns(Mutex<HashSet<String>>);

/// A run, which ends when it is dropped.
struct TestRun {
    runs: Arc<TestRuns>,
    by: String,
}

impl TestRun {
    fn begin(runs: Arc<TestRuns>, by: String) -> Result<Self, Error> {
        let mut running = runs.0.lock();
        let why = match running.len() {
            _ if running.contains(&by) => "a run of yours is in progress; stop it, or wait for its end",
            MAX_RUNS.. => "other operators run tests; try again in a moment",
            _ => {
                running.insert(by.clone());
                drop(running);
                return Ok(Self { runs, by });
            }
        };
        let message = format!("cannot run the tests: {why}");
        let kind = RequestErrorKind::Conflict;
        Err(Error::Request { message, param: None, code: Some("tests_running"), kind })
    }
}

impl Drop for TestRun {
    fn drop(&mut self) {
        self.runs.0.lock().remove(&self.by);
    }
}

/// The text to test.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({"content": "fn inlet(body) { body }"}))]
pub(super) struct TestRequest {
    /// The text to test instead of the script of the plugin; nothing is stored.
    content: Option<String>,
}

/// The results of a plugin's tests.
#[derive(Serialize, JsonSchema)]
pub(super) struct TestReport {
    /// The path of the file with the tests, which need not exist.
    file: String,
    /// The text of that file; null if the plugin has no tests.
    content: Option<String>,
    tests: Vec<TestOutcome>,
    /// The reasons why no test can be run.
    problems: Vec<PlacedProblem>,
    /// The number of tests that were not run or completed within the limit of a run, 60 s.
    not_run: usize,
    took_ms: f64,
}

/// The result of a test.
#[derive(Serialize, JsonSchema)]
struct TestOutcome {
    /// The name of its function.
    name: String,
    /// The line of its function.
    line: usize,
    passed: bool,
    took_ms: f64,
    /// The reason for a failure: in the script, if the script failed, then in the test.
    problems: Vec<PlacedProblem>,
    /// The changes from the expected to the actual value. A long value is a part of its text.
    differences: Vec<JsonOf<ValueChange>>,
    /// The lines that the script and the test printed.
    printed: Vec<String>,
}

/// A problem and the file that it concerns.
#[derive(Serialize, JsonSchema)]
struct PlacedProblem {
    #[serde(flatten)]
    problem: ProblemReport,
    #[schemars(extend("enum" = ["script", "tests", "other"]))]
    file: &'static str,
}

/// Handles `POST /api/v1/functions/id/{id}/test`.
pub(super) async fn run(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
    Extension(runs): Extension<Arc<TestRuns>>,
    Body(TestRequest { content: draft }): Body<TestRequest>,
) -> FunctionAnswer<TestReport> {
    let ran = async {
        let plugin = app.admin.plugin(&id)?;
        let _run = TestRun::begin(runs, by)?;
        tested(&app, &plugin, draft.unwrap_or_else(|| content(&plugin))).await
    };
    answer(&app, ran.await)
}

/// Runs the tests of a plugin one after the other.
async fn tested(app: &App, plugin: &Plugin, text: String) -> Result<TestReport, AdminError> {
    let (begun, path) = (Instant::now(), tests_of_script(&plugin.path));
    let reporter = Reporter { app, plugin, text: &text, tests: &path };
    let mut report = TestReport {
        file: problem::near(app, &path).display().to_string(),
        content: None,
        tests: Vec::new(),
        problems: Vec::new(),
        not_run: 0,
        took_ms: 0.0,
    };
    if !path.is_file() {
        return Ok(report);
    }
    let settings = app::settings_of(&app.latest.lock(), &HashMap::new(), plugin.kind, &plugin.id);
    let (kind, root) = (plugin.kind, app::folder_of(&app.config, plugin.kind).to_owned());
    let (script, own, tests) = (plugin.path.clone(), text.clone(), path.clone());
    let open = move || {
        let tests = read_tests(kind, &root, &tests).map_err(|problem| (None, vec![problem]))?;
        let suite = read_text(kind, &root, &script, &own).map_err(|problem| vec![problem]);
        let suite = suite.and_then(|script| Suite::open(&script.file, &tests, &settings));
        suite.map_err(|problems| (Some(tests), problems))
    };
    let opened = tokio::task::spawn_blocking(open).await;
    let suite = match opened.map_err(|error| Error::Host(format!("cannot compile the tests: {error}")))? {
        Ok(suite) => suite,
        Err((tests, problems)) => {
            report.content = tests.map(|tests: SourceFile| tests.text.to_string());
            report.problems = problems.iter().map(|problem| reporter.placed(problem)).collect();
            return Ok(report);
        }
    };
    report.content = Some(suite.file().text.to_string());
    let options = SuiteOptions::default();
    for (number, test) in suite.tests().iter().enumerate() {
        let rest = TIMEOUT.saturating_sub(begun.elapsed());
        let run = suite.run(&test.name, &options);
        let Ok(result) = tokio::time::timeout(rest, run).await else {
            report.not_run = suite.tests().len() - number;
            break;
        };
        report.tests.push(reporter.outcome(test, &result));
    }
    report.took_ms = ms(begun.elapsed());
    Ok(report)
}

/// Describes results for the page.
struct Reporter<'a> {
    app: &'a App,
    plugin: &'a Plugin,
    text: &'a str,
    tests: &'a PathBuf,
}

impl Reporter<'_> {
    fn outcome(&self, test: &Test, result: &TestResult) -> TestOutcome {
        let failed = result.failed.as_ref();
        let lines = result.printed.iter().take(MAX_LISTED);
        TestOutcome {
            name: test.name.clone(),
            line: test.line,
            passed: failed.is_none(),
            took_ms: ms(result.took),
            problems: failed.map_or_else(Vec::new, |failed| self.failure(failed)),
            differences: failed.map_or_else(Vec::new, differences),
            printed: lines.map(|(level, text)| shortened(format!("{level} {text}"), MAX_SHOWN)).collect(),
        }
    }

    /// Returns the problem in the script, if it failed itself, and that in the test.
    fn failure(&self, TestFailure { problem, .. }: &TestFailure) -> Vec<PlacedProblem> {
        let text_of = |path: &std::path::Path| (path == self.plugin.path).then(|| self.text.to_owned());
        let in_script = problem.at_named_place(text_of);
        in_script.iter().chain([problem]).map(|problem| self.placed(problem)).collect()
    }

    fn placed(&self, problem: &Diagnostic) -> PlacedProblem {
        let file = match &problem.path {
            path if *path == self.plugin.path => "script",
            path if path == self.tests => "tests",
            _ => "other",
        };
        let message = shortened(problem.message.clone(), MAX_SHOWN);
        let shown = Diagnostic { message, ..problem.clone() };
        PlacedProblem { problem: problem::report(self.app, &shown, Some(&self.plugin.id), "file"), file }
    }
}

fn differences(failed: &TestFailure) -> Vec<JsonOf<ValueChange>> {
    let differences = failed.differences().into_iter().take(MAX_LISTED).map(|change| {
        let change = change.to_json();
        for key in ["before", "after"] {
            let text = change.get(key).map(|value| value.to_string());
            if let Some(text) = text.filter(|text| text.len() > MAX_SHOWN) {
                // A new object accepts any text.
                change.put(key, shortened(text, MAX_SHOWN));
            }
        }
        change.into()
    });
    differences.collect()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
