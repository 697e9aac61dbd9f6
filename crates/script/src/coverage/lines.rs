//! A set of lines of a file that many calls add to at a time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Lines, from 1: a bit each.
#[derive(Debug)]
pub(crate) struct Lines(Box<[AtomicU64]>);

impl Lines {
    pub(super) fn new(count: usize) -> Self {
        Self((0..=count / 64).map(|_| AtomicU64::new(0)).collect())
    }

    /// A line that the file does not have is left out.
    pub(crate) fn add(&self, line: usize) {
        let (word, bit) = place(line);
        // Most lines run many times.
        if let Some(word) = self.0.get(word)
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn has(&self, line: usize) -> bool {
        let (word, bit) = place(line);
        self.0.get(word).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// In their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        (1..=self.0.len() * 64).filter(|line| self.has(*line))
    }
}

fn place(line: usize) -> (usize, u64) {
    let index = line.wrapping_sub(1);
    (index / 64, 1 << (index % 64))
}
