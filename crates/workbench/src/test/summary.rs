//! The results of tests as text.

use super::runner::{FileRan, Sum, TestRan};
use std::path::PathBuf;
use std::time::Duration;
use valvehouse_authoring::testing::TestFailure;
use valvehouse_core::text::count;
use valvehouse_json::Json;
use valvehouse_script::Diagnostic;
use valvehouse_terminal::report;
use valvehouse_terminal::{Paint, clean, files, table, trace_view::difference};

/// The style of the results.
pub(crate) struct SummaryStyle {
    pub(crate) paint: Paint,
    /// `true` to show the output of passing tests.
    pub(crate) output: bool,
    /// `true` to show failed tests only.
    pub(crate) failures_only: bool,
}

impl SummaryStyle {
    /// Returns the results of a file: a line per test, with the reasons of failures below.
    pub(crate) fn file(&self, file: &FileRan) -> String {
        let name = self.paint.bold(&report::near(&file.tests).display().to_string());
        match &file.result {
            Ok(tests) => format!("{name}\n{}\n", self.tests(tests)),
            Err(problems) => {
                let texts: Vec<String> = problems.iter().map(|problem| self.problem(problem)).collect();
                format!("{name}  {}\n\n{}\n", self.paint.red("cannot be run"), texts.join("\n\n"))
            }
        }
    }

    /// Returns the problem of a file.
    pub(crate) fn problem(&self, problem: &Diagnostic) -> String {
        report::shown(problem, self.paint)
    }

    fn tests(&self, tests: &[TestRan]) -> String {
        let is_shown = |test: &&TestRan| !self.failures_only || test.ran.failed.is_some();
        let tests: Vec<&TestRan> = tests.iter().filter(is_shown).collect();
        let rows: Vec<Vec<String>> = tests.iter().map(|test| self.row(test)).collect();
        let aligned = table(&rows);
        let lines = aligned.lines().zip(tests).map(|(line, test)| format!("{line}{}", self.below(test)));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn row(&self, TestRan { test, ran }: &TestRan) -> Vec<String> {
        let outcome = match ran.failed {
            None => self.paint.green("ok"),
            Some(_) => self.paint.red("FAIL"),
        };
        let written: Vec<String> =
            ran.written.iter().map(|path| report::near(path).display().to_string()).collect();
        let wrote = if written.is_empty() { String::new() } else { format!("wrote {}", written.join(", ")) };
        let name = test.name.trim_start_matches("test_").to_owned();
        vec![format!("  {outcome}"), name, ms(ran.took), self.paint.yellow(&wrote)]
    }

    /// Returns the reason for a failure, and the printed text.
    fn below(&self, TestRan { ran, .. }: &TestRan) -> String {
        let mut text = ran.failed.as_ref().map_or_else(String::new, |failed| self.failed(failed));
        if (self.output || ran.failed.is_some()) && !ran.printed.is_empty() {
            text.push_str(&format!("\n      {}", self.paint.dim("printed:")));
            for (level, line) in &ran.printed {
                text.push_str(&format!("\n        {} {}", self.paint.dim(level), clean(line)));
            }
        }
        if ran.failed.is_some() { format!("{text}\n") } else { text }
    }

    /// Returns the place, the reason and the differences of a failure.
    pub(crate) fn failed(&self, failed: &TestFailure) -> String {
        let problem = Diagnostic { message: shortened(&failed.problem.message), ..failed.problem.clone() };
        let mut text = match problem.at_named_place(|path| files::read_text(path, files::MAX_INPUT).ok()) {
            // The place in the script is shown first, as it is the most useful to its author.
            Some(of_script) => {
                let called = format!("called at {}: ", presentable(&problem));
                let called = self.paint.dim(&format!("{called}{}", clean(problem.excerpt.trim())));
                format!("\n{}\n      {called}", self.problem(&of_script))
            }
            None => format!("\n{}", self.problem(&problem)),
        };
        let changes: Vec<Json> = failed.differences().iter().map(|change| change.to_json()).collect();
        for change in changes.iter().filter(|change| change.text("path").as_deref() == Some("")) {
            change.put("path", "the whole value");
        }
        if !changes.is_empty() {
            let legend = [self.paint.red("- expected"), self.paint.green("+ actual")].join("  ");
            text.push_str(&format!("\n      {legend}{}", difference(&changes, self.paint)));
        }
        text
    }

    /// Returns the totals of all files.
    pub(crate) fn sum(&self, sum: &Sum) -> String {
        let passed = self.paint.green(&format!("{} passed", sum.tests - sum.failed));
        let mut parts = vec![passed];
        if sum.failed > 0 {
            parts.push(self.paint.red(&format!("{} failed", sum.failed)));
        }
        if sum.unreadable > 0 {
            parts.push(self.paint.red(&format!("{} that cannot be run", count(sum.unreadable, "file"))));
        }
        if sum.written > 0 {
            parts.push(self.paint.yellow(&format!("{} written", count(sum.written, "golden file"))));
        }
        let (tests, files) = (count(sum.tests, "test"), count(sum.files, "file"));
        format!("{tests} in {files}: {}, in {}", parts.join(", "), ms(sum.took))
    }

    /// Returns the line about scripts without tests.
    pub(crate) fn untested(&self, scripts: &[PathBuf]) -> String {
        let names = scripts.iter().map(|script| report::near(script).display().to_string());
        let verb = if scripts.len() == 1 { "has" } else { "have" };
        let names = names.collect::<Vec<_>>().join(", ");
        format!("{} {verb} no tests: {names}", count(scripts.len(), "script"))
    }
}

/// Returns a message with its paths relative to the current folder.
fn shortened(message: &str) -> String {
    match std::env::current_dir() {
        Ok(here) => message.replace(&format!("{}/", here.display()), ""),
        Err(_) => message.to_owned(),
    }
}

fn presentable(problem: &Diagnostic) -> String {
    Diagnostic { path: report::near(&problem.path), ..problem.clone() }.place()
}

pub(super) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1_000.0;
    if ms >= 1_000.0 { format!("{:.2} s", ms / 1_000.0) } else { format!("{ms:.2} ms") }
}
