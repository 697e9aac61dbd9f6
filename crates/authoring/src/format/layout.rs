//! Lines and their indentation.

use super::lexeme::{Kind, Lexeme, lex};
use super::spacing::{gap, roles};

/// The number of blanks per level.
const INDENT: usize = 4;

/// The reason why a text cannot be formatted, and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
#[non_exhaustive]
pub struct FormatError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The reason.
    pub message: String,
}

impl FormatError {
    fn at(source: &str, at: usize, message: impl Into<String>) -> Self {
        let before = &source[..at];
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let (line, column) = (before.matches('\n').count() + 1, before[start..].chars().count() + 1);
        Self { line, column, message: message.into() }
    }
}

/// The maximum nesting of brackets, which is also the limit of Rhai.
const MAX_NESTING: usize = 256;

/// An open bracket.
struct Open<'a> {
    sign: &'a str,
    at: usize,
    /// The level of its line.
    level: usize,
}

/// Returns a script's text in the standard layout, with the same tokens and comments.
///
/// # Errors
///
/// Returns an error if a bracket, text or comment is not closed, a closing bracket has no opening one, brackets are
/// nested more than 256 deep, or a carriage return has no line feed.
pub fn format(source: &str) -> Result<String, FormatError> {
    let (mark, text) = match source.strip_prefix('\u{feff}') {
        Some(text) => ("\u{feff}", text),
        None => ("", source),
    };
    // Rhai ends a line comment there, but editors show no line break.
    if let Some(at) = bare_return(text) {
        let why = "a carriage return without a line feed; write a line break in its place";
        return Err(FormatError::at(text, at, why));
    }
    let lexemes = lex(text).map_err(|at| FormatError::at(text, at, "unclosed text or comment"))?;
    let formatted = written(text, &lexemes)?;
    // A final check that the layout has not changed the tokens.
    let again =
        lex(&formatted).map_err(|_| FormatError::at(text, 0, "the formatted text would be invalid"))?;
    if let Some((lexeme, _)) = lexemes
        .iter()
        .zip(again.iter().map(Some).chain(std::iter::repeat(None)))
        .find(|(lexeme, again)| again.is_none_or(|again| again.text != lexeme.text))
    {
        return Err(FormatError::at(text, lexeme.at, "this token would change"));
    }
    Ok(format!("{mark}{formatted}"))
}

/// Returns the position of a carriage return without a line feed.
fn bare_return(text: &str) -> Option<usize> {
    let is_bare = |at: usize| !text[at + 1..].starts_with('\n');
    text.match_indices('\r').map(|(at, _)| at).find(|at| is_bare(*at))
}

fn written(text: &str, lexemes: &[Lexeme<'_>]) -> Result<String, FormatError> {
    let line_break = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let roles = roles(lexemes);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut level = 0;
    for (index, lexeme) in lexemes.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| (&lexemes[before], roles[before]));
        match before.filter(|_| lexeme.breaks == 0) {
            Some(before) => out.push_str(&" ".repeat(gap(before, (lexeme, roles[index])))),
            None => {
                level = level_of(lexemes, index, &open);
                if let Some((before, _)) = before {
                    out.push_str(line_break);
                    if lexeme.breaks > 1 && !is_opening(before) && !is_closing(lexeme) {
                        out.push_str(line_break);
                    }
                }
                out.push_str(&" ".repeat(level * INDENT));
            }
        }
        out.push_str(lexeme.text);
        if is_opening(lexeme) {
            if open.len() == MAX_NESTING {
                return Err(FormatError::at(
                    text,
                    lexeme.at,
                    format!("more than {MAX_NESTING} open brackets"),
                ));
            }
            open.push(Open { sign: lexeme.text, at: lexeme.at, level });
        } else if is_closing(lexeme) {
            close(text, lexeme, &mut open)?;
        }
    }
    if let Some(open) = open.last() {
        let message = format!("unclosed `{}`", open.sign);
        return Err(FormatError::at(text, open.at, message));
    }
    if !out.is_empty() {
        out.push_str(line_break);
    }
    Ok(out)
}

fn close(text: &str, lexeme: &Lexeme<'_>, open: &mut Vec<Open<'_>>) -> Result<(), FormatError> {
    let closes = |open: &Open<'_>| {
        matches!((open.sign, lexeme.text), ("(", ")") | ("[" | "?[", "]") | ("{" | "#{", "}"))
    };
    match open.pop() {
        Some(opened) if closes(&opened) => Ok(()),
        Some(opened) => Err(FormatError::at(text, opened.at, format!("unclosed `{}`", opened.sign))),
        None => Err(FormatError::at(text, lexeme.at, format!("unexpected `{}`", lexeme.text))),
    }
}

fn is_opening(lexeme: &Lexeme<'_>) -> bool {
    lexeme.is_sign(&["(", "[", "?[", "{", "#{"])
}

fn is_closing(lexeme: &Lexeme<'_>) -> bool {
    lexeme.is_sign(&[")", "]", "}"])
}

/// Returns the level of the line that begins with a lexeme.
fn level_of(lexemes: &[Lexeme<'_>], index: usize, open: &[Open<'_>]) -> usize {
    let on_line = lexemes[index..].iter().enumerate().take_while(|(nth, next)| *nth == 0 || next.breaks == 0);
    let closing = on_line.take_while(|(_, next)| is_closing(next)).count();
    if closing > 0 {
        // A line that closes brackets has the level of the outermost opening line.
        return open
            .len()
            .checked_sub(closing)
            .and_then(|outermost| open.get(outermost))
            .map_or(0, |open| open.level);
    }
    let inner = open.last().map_or(0, |open| open.level + 1);
    inner + usize::from(goes_on(lexemes, index))
}

/// Returns `true` if a line continues the expression of the previous line.
fn goes_on(lexemes: &[Lexeme<'_>], index: usize) -> bool {
    let code = |lexeme: &&Lexeme<'_>| lexeme.kind != Kind::Comment;
    let (before, lexeme) = (lexemes[..index].iter().rfind(code), &lexemes[index]);
    let Some(before) = before else { return false };
    if is_opening(before) || before.is_sign(&[";", ","]) {
        return false;
    }
    // A comment has the level of the code after it.
    let Some(lexeme) = std::iter::once(lexeme).chain(&lexemes[index + 1..]).find(code) else { return false };
    if is_closing(lexeme) || lexeme.is_sign(&[",", ";"]) {
        return false;
    }
    if before.is_sign(&["}"]) {
        const AFTER_BLOCK: [&str; 15] =
            [".", "?.", "?[", "??", "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "/", "%"];
        return lexeme.is_sign(&AFTER_BLOCK);
    }
    // Excludes a statement after one without `;`.
    let begins = ["fn", "let", "const", "import", "private", "export"];
    !(lexeme.kind == Kind::Word
        && begins.contains(&lexeme.text)
        && !before.is_sign(&["="])
        && before.text != "private")
}
