//! A text open in the editor, and positions of the protocol: lines from 0, and columns in UTF-16 units.

use lsp_types::{Position, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use valvehouse_authoring::editor::Sketch;
use valvehouse_json::Json;
use valvehouse_script::Diagnostic;
use valvehouse_script::diagnostic::Fix;

/// An open text.
pub(super) struct Document {
    pub(super) path: PathBuf,
    pub(super) text: Arc<str>,
    pub(super) sketch: Sketch,
    pub(super) version: Option<i32>,
    /// The time at which it is checked next.
    pub(super) due: Option<Instant>,
    /// The problems of the text at its last check.
    pub(super) found: Vec<CheckedDiagnostic>,
    /// The failures of its tests, until the text changes.
    pub(super) failed: Vec<lsp_types::Diagnostic>,
    /// The effective valves of the last text that compiled, with secrets left out.
    pub(super) valves: Option<Json>,
}

/// A problem and its fix.
pub(super) struct CheckedDiagnostic {
    pub(super) diagnostic: lsp_types::Diagnostic,
    pub(super) fix: Option<Fix>,
}

impl Document {
    pub(super) fn new(path: PathBuf, text: &str, version: Option<i32>) -> Self {
        Self {
            path,
            text: text.into(),
            sketch: Sketch::of(text),
            version,
            due: Some(Instant::now()),
            found: Vec::new(),
            failed: Vec::new(),
            valves: None,
        }
    }
}

/// Returns the byte offset of a position; one after the end of its line is moved to that end.
pub(super) fn byte_at(text: &str, position: Position) -> usize {
    let start = match position.line {
        0 => 0,
        line => match text.match_indices('\n').nth(line as usize - 1) {
            Some((end, _)) => end + 1,
            None => return text.len(),
        },
    };
    let line = text[start..].split_once('\n').map_or(&text[start..], |(line, _)| line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut units = position.character as usize;
    for (at, letter) in line.char_indices() {
        if units < letter.len_utf16() {
            return start + at;
        }
        units -= letter.len_utf16();
    }
    start + line.len()
}

/// Returns the position of a byte offset.
pub(super) fn position_of(text: &str, byte: usize) -> Position {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    let before = &text[..byte];
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Position::new(number(before.matches('\n').count()), number(before[start..].encode_utf16().count()))
}

pub(super) fn range_of(text: &str, bytes: &std::ops::Range<usize>) -> Range {
    Range::new(position_of(text, bytes.start), position_of(text, bytes.end))
}

/// Returns the range of a problem: its word, its line without a column, or the first line if it concerns
/// the whole file.
pub(super) fn range_of_problem(text: &str, problem: &Diagnostic) -> Range {
    let line = problem.line.unwrap_or(1).saturating_sub(1);
    let row = text.split('\n').nth(line).unwrap_or_default();
    // Columns do not count the byte order mark of a file.
    let mark = usize::from(line == 0 && row.starts_with('\u{feff}'));
    let (from, width) = match problem.column {
        Some(column) => (column - 1 + mark, problem.width()),
        None => (0, row.trim_end().chars().count().max(1)),
    };
    let units = |letters: usize| row.chars().take(letters).map(char::len_utf16).sum::<usize>();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let place = |letters| Position::new(number(line), number(units(letters)));
    Range::new(place(from), place(from + width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use valvehouse_script::Code;

    #[test]
    fn positions_are_counted_in_utf_16() {
        let text = "fn f() {\r\n  let s = \"😀ä\"; body\n}";
        let byte = text.find("body").unwrap();
        let position = position_of(text, byte);
        assert_eq!((position.line, position.character), (1, 17));
        assert_eq!(byte_at(text, position), byte);
        for (at, _) in text.char_indices().filter(|(_, letter)| !matches!(letter, '\r' | '\n')) {
            assert_eq!(byte_at(text, position_of(text, at)), at);
        }
        assert_eq!(byte_at(text, Position::new(0, 99)), 8);
        assert_eq!(byte_at(text, Position::new(99, 0)), text.len());
        let inside_the_emoji = Position::new(1, 12);
        assert!(text.is_char_boundary(byte_at(text, inside_the_emoji)));
    }

    #[test]
    fn a_problem_covers_its_word_after_an_emoji() {
        let text = "let s = \"😀\"; wrong;";
        let mut problem = Diagnostic::new(Code::Syntax, "x", Path::new("x.rhai"), "no");
        problem.line = Some(1);
        problem.column = Some(14);
        problem.excerpt = text.into();
        let range = range_of_problem(text, &problem);
        assert_eq!((range.start.character, range.end.character), (14, 19));
        let whole = range_of_problem(text, &Diagnostic::new(Code::Syntax, "x", Path::new("x.rhai"), "no"));
        assert_eq!((whole.start.character, whole.end.character), (0, 20));
    }
}
