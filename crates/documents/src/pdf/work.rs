//! The limits of reading one PDF file. Every token, byte searched and byte unpacked counts.

use super::super::error::DocumentError;
use std::cell::Cell;

/// The maximum number of bytes that the read streams unpack to in total.
pub(super) const MAX_UNPACKED: usize = 64 << 20;
/// The maximum number of steps: tokens, and units of [`BYTES_PER_STEP`].
const MAX_STEPS: usize = 100_000_000;
/// The maximum number of codes, or ranges of codes, that all fonts list.
const MAX_CODES: usize = 5_000_000;
/// The number of bytes that count as one step.
const BYTES_PER_STEP: usize = 16;
/// The number of steps between two checks of `is_stopped`, as a power of two.
const CHECK_EVERY: u32 = 12;

/// The work done so far.
pub(super) struct Work<'a> {
    steps: Cell<usize>,
    unpacked: Cell<usize>,
    kept: Cell<usize>,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> Work<'a> {
    /// Starts at zero; `is_stopped` is called often, and ends the work when it returns `true`.
    pub(super) fn new(is_stopped: &'a dyn Fn() -> bool) -> Self {
        Self { steps: Cell::new(0), unpacked: Cell::new(0), kept: Cell::new(0), is_stopped }
    }

    /// Counts one step.
    ///
    /// # Errors
    /// Returns an error if the limit is exceeded or the work is stopped.
    pub(super) fn step(&self) -> Result<(), DocumentError> {
        self.steps(1)
    }

    /// Counts bytes that were read or searched.
    ///
    /// # Errors
    /// Returns an error if the limit is exceeded or the work is stopped.
    pub(super) fn bytes(&self, count: usize) -> Result<(), DocumentError> {
        self.steps(count.div_ceil(BYTES_PER_STEP))
    }

    fn steps(&self, count: usize) -> Result<(), DocumentError> {
        let before = self.steps.get();
        let now = before.saturating_add(count);
        self.steps.set(now);
        if now > MAX_STEPS {
            return Err(DocumentError::TooMany { what: "steps to read it", limit: MAX_STEPS });
        }
        match now >> CHECK_EVERY != before >> CHECK_EVERY && (self.is_stopped)() {
            true => Err(DocumentError::Stopped),
            false => Ok(()),
        }
    }

    /// Counts a code that a font lists, as long as fonts are in memory.
    ///
    /// # Errors
    /// Returns an error if the limit is exceeded or the work is stopped.
    pub(super) fn keep(&self) -> Result<(), DocumentError> {
        self.kept.set(self.kept.get() + 1);
        match self.kept.get() > MAX_CODES {
            true => Err(DocumentError::TooMany { what: "codes of fonts", limit: MAX_CODES }),
            false => self.step(),
        }
    }

    /// Counts unpacked bytes.
    ///
    /// # Errors
    /// Returns an error if the limit is exceeded or the work is stopped.
    pub(super) fn unpack(&self, count: usize) -> Result<(), DocumentError> {
        self.unpacked.set(self.unpacked.get().saturating_add(count));
        match self.unpacked.get() > MAX_UNPACKED {
            true => Err(DocumentError::TooLarge { what: "unpacked streams", limit_mb: MAX_UNPACKED >> 20 }),
            false => self.bytes(count),
        }
    }
}
