//! The functions that look at texts through a window.

use compact_str::CompactString;

/// Looks at texts through a window, and changes them.
pub trait WindowVisitor {
    /// The error of a look.
    type Error;

    /// The text as it shall be. What it makes of a text must not depend on where that was cut.
    fn changed(&mut self, text: &str) -> Result<CompactString, Self::Error>;

    /// The number of bytes at the end of a text that could become something else with what follows.
    fn unfinished(&mut self, text: &str) -> Result<usize, Self::Error>;
}

/// The end of a text of which only the largest number of characters of a match is known: at the beginning of a word,
/// when there is one near.
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
