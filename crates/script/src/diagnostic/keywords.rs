//! Statements of other languages, and their counterparts in Rhai.

use super::cause::{Cause, Syntax};
use super::explanation::Foreign;
use super::finding::Diagnostic;
use rhai::Position;

/// A keyword of another language, and the hint.
const KEYWORDS: [(&str, &str); 16] = [
    ("await", "remove `await`; functions of the host wait without it"),
    ("async", "write `fn`; functions of the host wait without `await`"),
    ("del", "write `map.remove(\"key\")` for a key, `list.remove(index)` for an element"),
    ("global", "store values of a turn in `state`, and values of several turns in kv::"),
    ("nonlocal", "change the variable itself; a closure shares the variables around it"),
    ("assert", "write `if … { throw \"why\"; }`; tests have `assert(condition)`"),
    ("yield", "write `yield_text(text)` in `fn pipe(body)`, or return a list"),
    ("raise", "write `throw \"why\";`, or `deny(\"why\", 403);` with a status"),
    ("with", "write `let text = files::read(path);`, which opens and closes the file"),
    ("elif", "write `else if`"),
    ("match", "write `switch value { 1 => a, _ => b }`"),
    ("var", "write `let`"),
    ("new", "remove `new`: a map is `#{ key: value }`, an error is `throw \"why\"`"),
    ("typeof", "write `type_of(value)`"),
    ("pass", "remove it; a block may be empty: `{ }`"),
    ("is", "write `==`; `()` stands for no value, as in `x == ()`"),
];

/// Explains the foreign keyword before or at the position of a problem.
pub(super) fn at_place(before: &str, at: &str) -> Option<Foreign> {
    let before = before.trim_end();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let last = before.rsplit(|letter| !is_part(letter)).next().unwrap_or_default();
    let is_name = before[..before.len() - last.len()].trim_end().ends_with(['.', ':', '#']);
    let first = at.split(|letter| !is_part(letter)).next().unwrap_or_default();
    let known = KEYWORDS.iter().find(|(word, _)| *word == last && !is_name);
    // Between two operands, the word is an operator.
    let operator = || KEYWORDS.iter().find(|(word, _)| *word == "is" && *word == first && !before.is_empty());
    let (word, help) = *known.or_else(operator)?;
    Some(Foreign::keyword(word, help).because(match word {
        "elif" => Cause::written("elif", "else if"),
        "var" => Cause::written("var", "let"),
        "async" => Cause::Needless("async "),
        "await" => Cause::Needless("await "),
        "raise" => Cause::Foreign(Syntax::Raise),
        "is" => Cause::Foreign(Syntax::Is),
        _ => Cause::Other,
    }))
}

/// A whole line of Python; the parser reports it at the start of the next line.
pub(super) struct Line {
    /// `true` for `import`, `false` for `pass`.
    pub(super) is_import: bool,
    pub(super) place: Position,
}

/// Finds `import x`, `from x import y` or `pass` in the line of a problem or the one before it.
pub(super) fn line_before(problem: &Diagnostic, source: &str) -> Option<Line> {
    let until = source.lines().enumerate().take(problem.line.unwrap_or(0));
    let until: Vec<(usize, &str)> = until.filter(|(_, line)| !line.trim().is_empty()).collect();
    until.into_iter().rev().take(2).find_map(|(index, line)| {
        let text = line.trim();
        let is_import =
            (text.starts_with("import ") || text.starts_with("from ")) && !text.contains(['"', ';', '(']);
        let column = line.chars().count() - line.trim_start().chars().count() + 1;
        let place = Position::new(u16::try_from(index + 1).ok()?, u16::try_from(column).ok()?);
        (is_import || text == "pass").then_some(Line { is_import, place })
    })
}
