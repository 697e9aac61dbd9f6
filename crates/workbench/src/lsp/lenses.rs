//! Code lenses that run tests, and inlay hints with the values of valves.

use super::diagnostics::diagnostic;
use super::document::{Document, position_of, range_of};
use crate::test::{TestOptions, TestSelection, running};
use futures::StreamExt;
use lsp_types::{CodeLens, Command, InlayHint, InlayHintLabel, InlayHintTooltip, MessageType, Range, Url};
use serde_json::Value;
use std::path::{Path, PathBuf};
use valvehouse_config::Config;
use valvehouse_core::text::{count, shortened};
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, script_of_tests, tests_of_script};

/// The command that runs the tests of a file; its arguments are the URI of the file and optionally the name
/// of a test.
pub(super) const RUN_TESTS: &str = "valvehouse.runTests";
/// The maximum number of characters shown of a value.
const MAX_VALUE: usize = 32;

/// Returns the code lenses of a text: for its own tests, or for those of the test file next to it.
pub(super) fn lenses(document: &Document, uri: &Url) -> Vec<CodeLens> {
    let lens = |range: Range, title: String, arguments: Vec<Value>| CodeLens {
        range,
        command: Some(Command { title, command: RUN_TESTS.to_owned(), arguments: Some(arguments) }),
        data: None,
    };
    let top = Range::new(position_of(&document.text, 0), position_of(&document.text, 0));
    if script_of_tests(&document.path).is_none() {
        let tests = tests_of_script(&document.path);
        let Some(tests) = Url::from_file_path(&tests).ok().filter(|_| tests.is_file()) else {
            return Vec::new();
        };
        return vec![lens(top, "Run tests".into(), vec![tests.as_str().into()])];
    }
    let tests = document.sketch.tests();
    let all = (tests.len() > 1)
        .then(|| lens(top, format!("Run {}", count(tests.len(), "test")), vec![uri.as_str().into()]));
    let each = tests.iter().map(|test| {
        let range = range_of(&document.text, &test.at);
        lens(range, "Run test".into(), vec![uri.as_str().into(), test.name.as_str().into()])
    });
    all.into_iter().chain(each).collect()
}

/// Returns hints with the effective values of the valves that a text reads.
pub(super) fn hints(document: &Document, within: Range) -> Vec<InlayHint> {
    let Some(valves) = &document.valves else { return Vec::new() };
    let uses = document.sketch.valve_uses().into_iter();
    uses.filter_map(|valve| {
        let position = position_of(&document.text, valve.at.end);
        let value = valves.get(&valve.name).and_then(|value| shown(&value))?;
        (within.start <= position && position <= within.end).then(|| InlayHint {
            position,
            label: InlayHintLabel::String(format!("= {value}")),
            kind: None,
            text_edits: None,
            tooltip: Some(InlayHintTooltip::String(
                "The effective value of the valve in this project".into(),
            )),
            padding_left: Some(true),
            padding_right: None,
            data: None,
        })
    })
    .collect()
}

fn shown(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::Array(list) => Some(count(list.items().len(), "element")),
        Json::Object(_) => Some(count(value.entries().len(), "key")),
        other => Some(shortened(other.to_string(), MAX_VALUE)),
    }
}

/// The outcome of a test run that the editor requested.
pub(super) struct TestsRan {
    /// The test file.
    pub(super) path: PathBuf,
    pub(super) kind: MessageType,
    pub(super) message: String,
    /// The problems of the failed tests.
    pub(super) problems: Vec<Diagnostic>,
}

impl TestsRan {
    /// Returns the problems as diagnostics of an open file.
    pub(super) fn diagnostics(&self, document: &Document) -> Vec<lsp_types::Diagnostic> {
        self.problems.iter().map(|problem| diagnostic(document, problem)).collect()
    }
}

/// Runs the tests of a file, or one of them.
pub(super) async fn run(path: &Path, name: Option<&str>, config: &Config) -> Result<TestsRan, String> {
    let selection = TestSelection::of(&[path.to_owned()], config).map_err(|error| error.message)?;
    let mut problems = selection.problems;
    let (mut passed, mut failed) = (0_usize, 0_usize);
    let options = TestOptions::one_by_one(name.map(str::to_owned));
    let mut files = Box::pin(running(selection.cases, config, &options));
    while let Some(file) = files.next().await {
        match file.result {
            Err(found) => problems.extend(found),
            Ok(tests) => {
                // The filter also matches parts of names.
                for test in tests.into_iter().filter(|test| name.is_none_or(|name| test.test.name == name)) {
                    match test.ran.failed {
                        None => passed += 1,
                        Some(failure) => {
                            failed += 1;
                            problems.push(failure.problem);
                        }
                    }
                }
            }
        }
    }
    let (kind, message) = match (passed, failed, problems.first()) {
        (0, 0, Some(problem)) => (MessageType::ERROR, format!("cannot run the tests: {}", problem.message)),
        (0, 0, None) => (MessageType::WARNING, "no tests found".to_owned()),
        (passed, 0, _) => (MessageType::INFO, format!("{} passed", count(passed, "test"))),
        (passed, failed, problem) => {
            let first = problem.map_or("", |problem| problem.message.as_str());
            let all = count(passed + failed, "test");
            (MessageType::ERROR, format!("{failed} of {all} failed: {first}"))
        }
    };
    Ok(TestsRan { path: path.to_owned(), kind, message, problems })
}
