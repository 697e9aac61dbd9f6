//! The results of tests in the XML format of JUnit, which CI systems read.

use super::runner::{FileRan, TestRan};
use super::summary::SummaryStyle;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::path::Path;
use std::time::Duration;
use valvehouse_script::Diagnostic;
use valvehouse_terminal::{CommandError, Exit, PLAIN, report};

/// Writes the file, and creates its folder if necessary.
pub(super) fn write(
    files: &[FileRan],
    problems: &[Diagnostic],
    took: Duration,
    path: &Path,
) -> Result<(), CommandError> {
    let failed =
        |why: String| CommandError::new(Exit::Internal, format!("cannot write {}: {why}", path.display()));
    let text = report(files, problems, took).to_string().map_err(|why| failed(why.to_string()))?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|why| failed(why.to_string()))?;
    }
    std::fs::write(path, text).map_err(|why| failed(why.to_string()))
}

fn report(files: &[FileRan], problems: &[Diagnostic], took: Duration) -> Report {
    let mut report = Report::new("valvehouse");
    report.set_time(took);
    for file in files.iter().filter(|file| !file.is_silent()) {
        let name = report::near(&file.tests).display().to_string();
        let mut suite = TestSuite::new(name.as_str());
        suite.set_time(file.tests().iter().map(|test| test.ran.took).sum());
        suite.add_test_cases(file.tests().iter().map(|test| case(test, &name)));
        if let Err(problems) = &file.result {
            suite.add_test_case(broken(problems, &name));
        }
        report.add_test_suite(suite);
    }
    for problem in problems {
        let name = report::near(&problem.path).display().to_string();
        let mut suite = TestSuite::new(name.as_str());
        suite.add_test_case(broken(std::slice::from_ref(problem), &name));
        report.add_test_suite(suite);
    }
    report
}

fn case(TestRan { test, ran }: &TestRan, file: &str) -> TestCase {
    let status = match &ran.failed {
        None => TestCaseStatus::success(),
        Some(failed) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(failed.problem.message.as_str()).set_type(failed.problem.code.id());
            status.set_description(PLAIN_TEXT.failed(failed).trim());
            status
        }
    };
    let mut case = TestCase::new(test.name.as_str(), status);
    case.set_classname(file).set_time(ran.took);
    case.extra.insert("file".into(), file.into());
    case.extra.insert("line".into(), test.line.to_string().into());
    let printed: String = ran.printed.iter().map(|(level, line)| format!("{level} {line}\n")).collect();
    if !printed.is_empty() {
        case.set_system_out(printed);
    }
    case
}

/// Returns a file that cannot be run as a test with an error.
fn broken(problems: &[Diagnostic], file: &str) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    if let Some(first) = problems.first() {
        status.set_message(first.message.as_str()).set_type(first.code.id());
    }
    let texts: Vec<String> = problems.iter().map(|problem| PLAIN_TEXT.problem(problem)).collect();
    status.set_description(texts.join("\n\n"));
    let mut case = TestCase::new("it compiles", status);
    case.set_classname(file).set_time(Duration::ZERO);
    case.extra.insert("file".into(), file.into());
    case
}

const PLAIN_TEXT: SummaryStyle = SummaryStyle { paint: PLAIN, output: false, failures_only: false };
