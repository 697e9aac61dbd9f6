//! Values of ranges of codes, in little memory.

use super::super::error::DocumentError;
use super::work::Work;

/// Values by ranges of codes.
#[derive(Debug)]
pub(super) struct Ranges<T>(Vec<(u32, u32, T)>);

impl<T: Copy> Ranges<T> {
    /// Returns a table without values.
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds the value of a range. Later ranges hide earlier ones with the same first code.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn add(
        &mut self,
        low: u32,
        high: u32,
        value: T,
        work: &Work<'_>,
    ) -> Result<(), DocumentError> {
        work.keep()?;
        self.0.push((low, high, value));
        Ok(())
    }

    /// Sorts the ranges, as [`Ranges::get`] requires.
    pub(super) fn sort(&mut self) {
        self.0.sort_by_key(|(low, ..)| *low);
    }

    /// Returns the first code and the value of the range of a code.
    pub(super) fn get(&self, code: u32) -> Option<(u32, T)> {
        let behind = self.0.partition_point(|(low, ..)| *low <= code);
        let (low, high, value) = self.0.get(behind.checked_sub(1)?)?;
        (code <= *high).then_some((*low, *value))
    }
}
