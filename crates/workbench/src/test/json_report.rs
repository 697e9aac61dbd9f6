//! The results of tests as JSON.

use super::coverage;
use super::runner::{FileCoverage, FileRan, Sum, TestRan};
use std::path::{Path, PathBuf};
use std::time::Duration;
use valvehouse_json::Json;
use valvehouse_script::Diagnostic;
use valvehouse_terminal::report;

/// Returns all results as one object.
pub(crate) fn report_json(
    files: &[FileRan],
    problems: &[Diagnostic],
    untested: &[PathBuf],
    sum: &Sum,
) -> Json {
    Json::from([
        ("tests", sum.tests.into()),
        ("passed", (sum.tests - sum.failed).into()),
        ("failed", sum.failed.into()),
        ("not_run", sum.unreadable.into()),
        ("took_ms", ms(sum.took)),
        ("files", files.iter().filter(|file| !file.is_silent()).map(file_json).collect::<Vec<_>>().into()),
        ("problems", report::all_as_json(problems)),
        ("untested", untested.iter().map(|script| path(script)).collect::<Vec<_>>().into()),
    ])
}

/// Returns the results of one file.
fn file_json(file: &FileRan) -> Json {
    let problems = file.result.as_ref().err().map_or(&[][..], Vec::as_slice);
    let json = Json::from([
        ("id", file.id.as_str().into()),
        ("file", path(&file.tests)),
        ("script", path(&file.script)),
        ("tests", file.tests().iter().map(test_json).collect::<Vec<_>>().into()),
        ("problems", report::all_as_json(problems)),
    ]);
    if let Some(covered) = &file.covered {
        json.put("coverage", coverage_json(covered));
    }
    json
}

fn test_json(TestRan { test, ran }: &TestRan) -> Json {
    let line = |(level, text): &(&str, String)| {
        Json::from([("level", (*level).into()), ("text", text.as_str().into())])
    };
    let json = Json::from([
        ("name", test.name.as_str().into()),
        ("line", test.line.into()),
        ("passed", ran.failed.is_none().into()),
        ("took_ms", ms(ran.took)),
        ("called", ran.called.iter().map(|name| name.as_str().into()).collect::<Vec<Json>>().into()),
        ("printed", ran.printed.iter().map(line).collect::<Vec<_>>().into()),
        ("written", ran.written.iter().map(|written| path(written)).collect::<Vec<_>>().into()),
    ]);
    if let Some(failed) = &ran.failed {
        let changes: Vec<Json> = failed.differences().iter().map(|change| change.to_json()).collect();
        json.put("problem", report::as_json(&failed.problem));
        json.put("differences", changes);
        if let Some((actual, expected)) = &failed.compared {
            json.put("actual", actual.clone());
            json.put("expected", expected.clone());
        }
    }
    json
}

fn coverage_json(covered: &FileCoverage) -> Json {
    let names = |is_called: bool| {
        let names = covered.called.iter().filter(|(_, called)| *called == is_called);
        names.map(|(name, _)| name.as_str().into()).collect::<Vec<Json>>()
    };
    let missing = covered.lines.missing();
    let lines = covered.lines();
    Json::from([
        ("called", names(true).into()),
        ("not_called", names(false).into()),
        ("lines", lines.all.into()),
        ("lines_run", lines.reached.into()),
        (
            "lines_not_run",
            missing.iter().map(|range| coverage::line_range(range).into()).collect::<Vec<Json>>().into(),
        ),
    ])
}

fn path(path: &Path) -> Json {
    report::near(path).display().to_string().into()
}

fn ms(time: Duration) -> Json {
    ((time.as_secs_f64() * 1e6).round() / 1e3).into()
}
