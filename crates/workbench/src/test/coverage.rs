//! The coverage of scripts by tests, as a table.

use super::runner::{FileCoverage, FileRan};
use std::ops::RangeInclusive;
use valvehouse_terminal::{Paint, report};

/// The maximum number of line ranges listed per file.
const MAX_LISTED: usize = 12;

/// Returns a table with a row per script, and a row for the total.
pub(super) fn table(files: &[FileRan], paint: Paint) -> String {
    let head = ["script", "called", "lines", "not reached"].map(|word| paint.dim(word)).to_vec();
    let mut rows = vec![head];
    let (mut called, mut lines) = (Part::default(), Part::default());
    for file in files {
        let Some(covered) = &file.covered else { continue };
        let (own_called, own_lines) = (covered.calls(), covered.lines());
        (called, lines) = (called.and(own_called), lines.and(own_lines));
        let name = report::near(&file.script).display().to_string();
        let missing = covered.missing().join(", ");
        rows.push(vec![
            name,
            own_called.ratio_text(paint),
            own_lines.ratio_text(paint),
            paint.yellow(&missing),
        ]);
    }
    rows.push(vec!["all scripts".to_owned(), called.ratio_text(paint), lines.ratio_text(paint)]);
    valvehouse_terminal::table(&rows)
}

/// A count of covered items.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Part {
    pub(super) reached: usize,
    pub(super) all: usize,
}

impl Part {
    fn and(self, other: Self) -> Self {
        Self { reached: self.reached + other.reached, all: self.all + other.all }
    }

    /// Returns the percentage, rounded down, so that only complete coverage is 100.
    pub(super) fn percent(self) -> usize {
        (self.reached * 100).checked_div(self.all).unwrap_or(100)
    }

    fn ratio_text(self, paint: Paint) -> String {
        let text = format!("{}/{} {} %", self.reached, self.all, self.percent());
        if self.reached == self.all { paint.green(&text) } else { paint.yellow(&text) }
    }
}

impl FileCoverage {
    pub(super) fn calls(&self) -> Part {
        let reached = self.called.iter().filter(|(_, called)| *called).count();
        Part { reached, all: self.called.len() }
    }

    pub(super) fn lines(&self) -> Part {
        Part { reached: self.lines.ran().len(), all: self.lines.runnable().len() }
    }

    /// Returns the functions that were not called and the lines that did not run.
    fn missing(&self) -> Vec<String> {
        let names = self.called.iter().filter(|(_, called)| !called).map(|(name, _)| name.clone());
        let ranges = self.lines.missing();
        let more = ranges.len().saturating_sub(MAX_LISTED);
        let more = (more > 0).then(|| format!("… and {more} more"));
        names.chain(ranges.iter().take(MAX_LISTED).map(line_range)).chain(more).collect()
    }
}

/// Returns a range of lines as `12-15`, or a single line.
pub(super) fn line_range(lines: &RangeInclusive<usize>) -> String {
    match lines.start() == lines.end() {
        true => lines.start().to_string(),
        false => format!("{}-{}", lines.start(), lines.end()),
    }
}
