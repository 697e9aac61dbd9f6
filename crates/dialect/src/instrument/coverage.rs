//! Records the executed lines and functions of a script, for `valvehouse test --coverage`.
//!
//! Rhai could report every statement it runs, but at a cost for every call of every host. Here only a script that
//! is compiled for coverage pays, through a probe before each statement.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The line coverage of one script over all recorded calls, without the modules it imports.
#[derive(Debug)]
pub struct Coverage {
    /// The lines at which a statement begins.
    runnable: Lines,
    ran: Lines,
    /// The functions that were called.
    called: Mutex<BTreeSet<String>>,
}

impl Coverage {
    /// Creates a recorder for the text of a file.
    pub fn of(text: &str) -> Arc<Self> {
        let count = text.lines().count();
        Self { runnable: Lines::new(count), ran: Lines::new(count), called: Mutex::default() }.into()
    }

    /// Returns the set in which runnable lines are recorded.
    pub(crate) fn runnable_lines(&self) -> &Lines {
        &self.runnable
    }

    /// Records that a line ran.
    pub(crate) fn add_run(&self, line: usize) {
        self.ran.add(line);
    }

    /// Records that a function was called.
    pub(crate) fn add_call(&self, function: &str) {
        self.called.lock().insert(function.to_owned());
    }

    /// Returns the numbers of the runnable lines, from 1.
    pub fn runnable(&self) -> Vec<usize> {
        self.runnable.iter().collect()
    }

    /// Returns the numbers of the lines that ran.
    pub fn ran(&self) -> Vec<usize> {
        self.ran.iter().collect()
    }

    /// Returns the functions that were called, without closures.
    pub fn called(&self) -> BTreeSet<String> {
        self.called.lock().clone()
    }

    /// Returns the ranges of runnable lines that did not run. Lines that are not runnable do not split a range.
    pub fn missing(&self) -> Vec<RangeInclusive<usize>> {
        let mut missing: Vec<RangeInclusive<usize>> = Vec::new();
        let mut goes_on = false;
        for line in self.runnable.iter() {
            let is_missing = !self.ran.has(line);
            match missing.last_mut() {
                Some(range) if is_missing && goes_on => *range = *range.start()..=line,
                _ if is_missing => missing.push(line..=line),
                _ => {}
            }
            goes_on = is_missing;
        }
        missing
    }
}

/// A set of line numbers, from 1, with one bit per line.
#[derive(Debug)]
pub(crate) struct Lines(Box<[AtomicU64]>);

impl Lines {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..=count / 64).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds a line; ignores numbers beyond the end of the file.
    pub(crate) fn add(&self, line: usize) {
        let (word, bit) = place(line);
        // Most lines run many times, so a read avoids most writes.
        if let Some(word) = self.0.get(word)
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn has(&self, line: usize) -> bool {
        let (word, bit) = place(line);
        self.0.get(word).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Returns the lines in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (1..=self.0.len() * 64).filter(|line| self.has(*line))
    }
}

fn place(line: usize) -> (usize, u64) {
    let index = line.wrapping_sub(1);
    (index / 64, 1 << (index % 64))
}
