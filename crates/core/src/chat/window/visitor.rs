//! The trait for functions that process texts through a window.

use compact_str::CompactString;

/// A function that changes texts through a window.
pub trait WindowVisitor {
    /// The error type of the function.
    type Error;

    /// Returns the changed text. The result must not depend on how the text is divided over calls.
    ///
    /// # Errors
    /// Returns the error of the function.
    fn changed(&mut self, text: &str) -> Result<CompactString, Self::Error>;

    /// Returns the number of bytes at the end of a text that could become part of a match.
    ///
    /// # Errors
    /// Returns the error of the function.
    fn unfinished(&mut self, text: &str) -> Result<usize, Self::Error>;

    /// Counts stored texts, calls and deltas that are visited for an event.
    fn visits(&mut self, count: usize) {
        let _ = count;
    }
}

/// Returns the number of bytes to withhold at the end of a text if only the maximum match length in characters
/// is known. It starts at the beginning of a word if there is one nearby.
pub fn last_words(text: &str, characters: usize) -> usize {
    let back = |from: usize| {
        let mut starts = text[..from].char_indices().rev();
        characters.checked_sub(1).map_or(from, |n| starts.nth(n).map_or(0, |(at, _)| at))
    };
    let cut = back(text.len());
    let nearby = back(cut);
    let space = text[nearby..cut].char_indices().rev().find(|(_, letter)| letter.is_whitespace());
    text.len() - space.map_or(cut, |(at, letter)| nearby + at + letter.len_utf8())
}
