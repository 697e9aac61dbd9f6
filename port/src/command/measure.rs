//! The share of a folder of plugins that can be ported.

use super::files;
use super::host::Host;
use super::output::{Exit, Failure, line};
use super::run::stem;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use valvehouse_port::{Draft, MAX_BYTES, PortError};

/// The maximum depth of folders that are measured.
const MAX_DEPTH: usize = 16;

/// The counts for one kind of plugins.
#[derive(Default)]
struct Row {
    files: usize,
    accepted: usize,
    lines: usize,
    translated: usize,
}

/// The counts of a folder.
#[derive(Default)]
struct Counts {
    rows: BTreeMap<&'static str, Row>,
    skipped: BTreeMap<&'static str, usize>,
    /// Of drafts that are not accepted, by the code of their first error.
    codes: BTreeMap<String, usize>,
}

/// Ports all plugins of a folder in memory, and shows the counts.
pub(super) fn run(folder: &Path, host: &Host<'_>, is_json: bool) -> Result<Exit, Failure> {
    let mut plugins = Vec::new();
    files::find(folder, MAX_DEPTH, &mut plugins)
        .map_err(|error| Failure::data(format!("cannot read {}: {error}", folder.display())))?;
    plugins.sort();
    let mut counts = Counts::default();
    for path in &plugins {
        let skipped = match files::read_text(path, MAX_BYTES) {
            Err(_) => "cannot be read",
            Ok(source) => match valvehouse_port::port(&source, &stem(path)) {
                Ok(draft) => {
                    counts.add(&draft, path, host, is_json)?;
                    continue;
                }
                Err(error) => reason(&error),
            },
        };
        *counts.skipped.entry(skipped).or_default() += 1;
    }
    if !is_json {
        counts.print()?;
    }
    Ok(Exit::Done)
}

impl Counts {
    fn add(&mut self, draft: &Draft, path: &Path, host: &Host<'_>, is_json: bool) -> Result<(), Failure> {
        let Some(problems) = host.check(draft, path)? else {
            return Err(Failure::data(
                "cannot count what `check` accepts: `valvehouse` is neither beside this program nor on the path; \
                 install it, or name its file in the variable VALVEHOUSE",
            ));
        };
        let first = problems.iter().find(|problem| problem.is_error());
        let row = self.rows.entry(draft.kind.as_str()).or_default();
        row.files += 1;
        row.lines += draft.lines.all;
        row.translated += draft.lines.translated();
        match first {
            None if draft.is_empty => *self.codes.entry("no hook".to_owned()).or_default() += 1,
            None => row.accepted += 1,
            Some(problem) => *self.codes.entry(problem.text("code").to_owned()).or_default() += 1,
        }
        if is_json {
            let row = json!({
                "file": path.display().to_string(),
                "kind": draft.kind.as_str(),
                "lines": draft.lines.all,
                "translated": draft.lines.translated(),
                "accepted": first.is_none(),
                "problem": first.map_or("", |problem| problem.text("message")),
            });
            line(&row.to_string())?;
        }
        Ok(())
    }

    fn print(&self) -> Result<(), Failure> {
        line("kind     files  accepted     lines  translated")?;
        for (kind, row) in &self.rows {
            line(&format!(
                "{kind:<8} {:>5}  {:>3} ({:>3} %) {:>8}  {:>8} %",
                row.files,
                row.accepted,
                share(row.accepted, row.files),
                row.lines,
                share(row.translated, row.lines)
            ))?;
        }
        for (code, files) in &self.codes {
            line(&format!("not accepted for {code}: {}", count(*files)))?;
        }
        for (reason, files) in &self.skipped {
            line(&format!("not ported, {reason}: {}", count(*files)))?;
        }
        Ok(())
    }
}

fn share(part: usize, all: usize) -> usize {
    (part * 100).checked_div(all).unwrap_or(0)
}

fn count(files: usize) -> String {
    format!("{files} file{}", if files == 1 { "" } else { "s" })
}

fn reason(error: &PortError) -> &'static str {
    match error {
        PortError::Syntax(_) => "not Python",
        PortError::TooLong => "too long",
        PortError::NoPlugin => "no plugin",
        _ => "other",
    }
}
