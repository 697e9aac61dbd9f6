//! Splits a script's text into the tokens that the formatter moves; only whitespace is dropped.

use valvehouse_dialect::syntax::spans::{self, is_part, number, sign, word};

/// The kind of a lexeme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    Number,
    /// A quoted text or character of any kind, including its interpolations.
    Text,
    Comment,
    Sign,
}

/// A token or comment, and the whitespace before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lexeme<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Its byte position in the text.
    pub(super) at: usize,
    /// The number of line breaks before it.
    pub(super) breaks: usize,
    /// The number of blanks before it, if all whitespace before it is spaces.
    pub(super) blanks: usize,
}

impl Lexeme<'_> {
    pub(super) fn is_line_comment(&self) -> bool {
        self.kind == Kind::Comment && !self.text.starts_with("/*")
    }

    pub(super) fn is_sign(&self, signs: &[&str]) -> bool {
        self.kind == Kind::Sign && signs.contains(&self.text)
    }
}

/// Returns the lexemes of a text in order. Fails with the position of an unclosed text or comment.
pub(super) fn lex(source: &str) -> Result<Vec<Lexeme<'_>>, usize> {
    let mut lexemes = Vec::new();
    let (mut at, mut end) = (0, 0);
    while let Some(letter) = source[at..].chars().next() {
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        let rest = &source[at..];
        let (kind, length) = match letter {
            '#' if at == 0 && rest.starts_with("#!") => (Kind::Comment, line(rest)),
            _ if rest.starts_with("//") => (Kind::Comment, line(rest)),
            _ if rest.starts_with("/*") => (Kind::Comment, comment(rest).ok_or(at)?),
            '"' | '\'' | '`' => (Kind::Text, text(rest, letter).ok_or(at)?),
            '#' if is_raw(rest) => (Kind::Text, text(rest, letter).ok_or(at)?),
            _ if letter.is_ascii_digit() => (Kind::Number, number(rest)),
            _ if is_part(letter) => (Kind::Word, word(rest)),
            _ => (Kind::Sign, sign(rest)),
        };
        let before = &source[end..at];
        let is_spaces = before.bytes().all(|byte| byte == b' ');
        lexemes.push(Lexeme {
            kind,
            text: &rest[..length],
            at,
            breaks: before.matches('\n').count(),
            blanks: if is_spaces { before.len() } else { usize::from(!before.is_empty()) },
        });
        at += length;
        end = at;
    }
    Ok(lexemes)
}

/// Returns the length of a line comment, without a carriage return.
fn line(text: &str) -> usize {
    let line = text.split('\n').next().unwrap_or(text);
    line.trim_end_matches('\r').len()
}

/// Returns the length of a block comment, which may be nested; `None` if it is not closed.
fn comment(text: &str) -> Option<usize> {
    let (length, is_closed) = spans::comment(text);
    is_closed.then_some(length)
}

/// Returns the length of a text; `None` if it is not closed.
fn text(rest: &str, quote: char) -> Option<usize> {
    let mut length = spans::text(rest)?;
    // A doubled quote is an escaped one.
    while quote != '#' && rest[length..].starts_with(quote) {
        length += spans::text(&rest[length..])?;
    }
    Some(length)
}

fn is_raw(text: &str) -> bool {
    text.trim_start_matches('#').starts_with('"')
}
