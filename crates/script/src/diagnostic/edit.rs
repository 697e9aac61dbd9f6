//! The edits that fix one problem, and the position of the problem.

use super::finding::Diagnostic;
use std::ops::Range;
use valvehouse_dialect::syntax::spans;

/// An edit of a script that fixes a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// The description of the edit, such as "Replace with `()`".
    pub title: String,
    /// The replacements, which do not overlap.
    pub edits: Vec<FixEdit>,
}

/// A replacement in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixEdit {
    /// The range of replaced bytes.
    pub at: Range<usize>,
    /// The new text.
    pub text: String,
}

impl Fix {
    /// Creates a fix of one replacement.
    pub fn new(title: impl Into<String>, at: Range<usize>, text: impl Into<String>) -> Self {
        Self { title: title.into(), edits: vec![FixEdit { at, text: text.into() }] }
    }

    /// Creates a replacement whose new text is also its description.
    pub fn replace(at: Range<usize>, text: &str) -> Self {
        Self::new(format!("Replace with `{text}`"), at, text)
    }

    /// Adds a replacement.
    #[must_use]
    pub fn and(mut self, at: Range<usize>, text: impl Into<String>) -> Self {
        self.edits.push(FixEdit { at, text: text.into() });
        self
    }

    /// Returns a text with the edits applied.
    pub fn applied(&self, source: &str) -> String {
        let mut edits: Vec<&FixEdit> = self.edits.iter().collect();
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.at.start));
        let mut text = source.to_owned();
        for edit in edits {
            text.replace_range(edit.at.clone(), &edit.text);
        }
        text
    }
}

/// The position of a problem in its text.
pub struct Spot<'a> {
    /// The text.
    pub source: &'a str,
    /// The text with blanks in place of comments and string contents.
    pub code: String,
    /// The byte position of the problem.
    pub at: usize,
    /// The range of its line, without the line break.
    pub line: Range<usize>,
}

impl<'a> Spot<'a> {
    /// Finds the position of a problem; `None` if its line has changed since.
    pub fn of(problem: &Diagnostic, source: &'a str) -> Option<Self> {
        let (line, column) = (problem.line?, problem.column?);
        let start: usize = source.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let row = source.get(start..)?.split('\n').next()?.trim_end_matches('\r');
        // Columns do not count a byte order mark.
        let mark = usize::from(line == 1 && row.starts_with('\u{feff}'));
        let within = row.char_indices().nth(column - 1 + mark).map_or(row.len(), |(at, _)| at);
        // The text may have changed since.
        let is_same = row.trim_start_matches('\u{feff}').trim_end() == problem.excerpt;
        is_same.then(|| Self {
            source,
            code: spans::code_only(source),
            at: start + within,
            line: start..start + row.len(),
        })
    }

    /// Returns the line.
    pub fn row(&self) -> &'a str {
        &self.source[self.line.clone()]
    }

    /// Returns the code of the line, without comments and string contents.
    pub fn code_row(&self) -> &str {
        &self.code[self.line.clone()]
    }

    /// Creates a replacement of a range of the line.
    pub fn replace_in_line(&self, at: Range<usize>, text: &str) -> Fix {
        Fix::replace(self.line.start + at.start..self.line.start + at.end, text)
    }

    /// Returns the line before the position.
    pub fn before(&self) -> &'a str {
        &self.source[self.line.start..self.at]
    }

    /// Returns the line from the position.
    pub fn rest(&self) -> &'a str {
        &self.source[self.at..self.line.end]
    }

    /// Returns the range of the name that begins at a byte.
    pub fn name_at(&self, at: usize) -> Option<Range<usize>> {
        let length = self.source[at..].find(|letter| !is_part(letter)).unwrap_or(self.source.len() - at);
        (length > 0).then(|| at..at + length)
    }

    /// Returns the range of a whole word in the line's code, the nearest to the problem.
    pub fn word(&self, word: &str) -> Option<Range<usize>> {
        let row = self.code_row();
        let is_whole =
            |at: &usize| !row[..*at].ends_with(is_part) && !row[at + word.len()..].starts_with(is_part);
        let places = row.match_indices(word).map(|(at, _)| at).filter(is_whole);
        let nearest = places.map(|at| self.line.start + at).min_by_key(|at| at.abs_diff(self.at))?;
        Some(nearest..nearest + word.len())
    }

    /// Returns the range of a sign in the line's code, the nearest to the problem.
    pub fn sign(&self, sign: &str) -> Option<Range<usize>> {
        let places = self.code_row().match_indices(sign).map(|(at, _)| self.line.start + at);
        let nearest = places.min_by_key(|at| at.abs_diff(self.at))?;
        Some(nearest..nearest + sign.len())
    }
}

/// Returns `true` for a character of a name.
pub fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the length of a text in double quotes at the start.
pub fn quoted(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('"')?;
    let mut is_escaped = false;
    for (at, letter) in inner.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 2),
            _ => {}
        }
    }
    None
}
