//! The command: selects tests, runs them, and shows the results.

use super::discovery::TestSelection;
use super::runner::{FileRan, Sum, TestOptions, running};
use super::summary::SummaryStyle;
use super::{coverage, json_report, junit};
use futures::StreamExt;
use std::time::Instant;
use valvehouse_config::Config;
use valvehouse_core::text::count;
use valvehouse_terminal::{CommandError, Console, Exit};

/// Runs tests and shows the results.
///
/// # Errors
///
/// Returns the reason why they cannot be run.
pub async fn run(options: TestOptions, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let found = TestSelection::of(&options.paths, config)?;
    let (begun, mut files) = (Instant::now(), Vec::new());
    let shown =
        SummaryStyle { paint: out.results(), output: options.show_output, failures_only: out.is_quiet() };
    if !out.is_json() {
        for problem in &found.problems {
            out.line(&format!("{}\n", shown.problem(problem)))?;
        }
    }
    let mut runs = Box::pin(running(found.cases, config, &options));
    while let Some(file) = runs.next().await {
        if !out.is_json() && !file.is_silent() && (!out.is_quiet() || file.has_failed()) {
            out.line(&shown.file(&file))?;
        }
        files.push(file);
    }
    drop(runs);
    let sum = Sum::of(&files, &found.problems, begun.elapsed());
    if let Some(path) = &options.junit {
        junit::write(&files, &found.problems, sum.took, path)?;
    }
    if sum.tests == 0 && sum.unreadable == 0 {
        return none(&options, &files, out);
    }
    if out.is_json() {
        out.json(&json_report::report_json(&files, &found.problems, &found.untested, &sum))?;
    } else {
        if options.coverage {
            out.line(&format!("{}\n", coverage::table(&files, out.results())))?;
        }
        out.line(&shown.sum(&sum))?;
        if !found.untested.is_empty() {
            out.note(&shown.untested(&found.untested));
        }
    }
    Ok(sum.exit())
}

/// Reports that no test was run: there are none, or none matches the filter.
fn none(options: &TestOptions, files: &[FileRan], out: &Console) -> Result<Exit, CommandError> {
    let Some(text) = &options.filter else {
        out.note("no tests found: write tests next to a script, as in filters/turn_limit.test.rhai");
        return Ok(Exit::Done);
    };
    let known: Vec<&str> = files.iter().flat_map(FileRan::known).collect();
    let listed: String = known.iter().take(MAX_LISTED).map(|name| format!("\n  {name}")).collect();
    let more = known.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("\n  … and {more} more") } else { String::new() };
    let known = count(known.len(), "test");
    Err(CommandError::usage(format!(
        "unknown test: no name contains `{text}`; there are {known}:{listed}{more}"
    )))
}

/// The maximum number of listed test names.
const MAX_LISTED: usize = 40;
