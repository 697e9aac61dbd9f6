//! Splits a script's text into the tokens that the formatter moves; only whitespace is dropped.

use valvehouse_script::spans::{self, is_part, number, sign, word};

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
            '"' | '\'' => (Kind::Text, quoted(rest, letter).ok_or(at)?),
            '`' => (Kind::Text, template(rest).ok_or(at)?),
            '#' if is_raw(rest) => (Kind::Text, raw(rest).ok_or(at)?),
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

/// Returns the length of a quoted text; a doubled quote is an escaped one.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '\n' => return None,
            letter if letter == quote => match letters.peek() {
                Some((_, next)) if *next == quote => drop(letters.next()),
                _ => return Some(at + letter.len_utf8()),
            },
            _ => {}
        }
    }
    None
}

/// Returns the length of a text in backticks, including its `${…}`.
fn template(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        let rest = &text[at..];
        let letter = rest.chars().next()?;
        if rest.starts_with("``") {
            at += 2;
        } else if letter == '`' {
            return Some(at + 1);
        } else if let Some(code) = rest.strip_prefix("${") {
            at += 2 + hole(code)?;
        } else {
            at += letter.len_utf8();
        }
    }
}

/// Returns the length of the code after `${`, including the closing bracket.
fn hole(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        let rest = &text[at..];
        let letter = rest.chars().next()?;
        at += match letter {
            '}' if depth == 0 => return Some(at + 1),
            '}' => {
                depth -= 1;
                1
            }
            '{' => {
                depth += 1;
                1
            }
            '"' | '\'' => quoted(rest, letter)?,
            '`' => template(rest)?,
            _ if rest.starts_with("//") => line(rest),
            _ if rest.starts_with("/*") => comment(rest)?,
            '#' if is_raw(rest) => raw(rest)?,
            letter => letter.len_utf8(),
        };
    }
}

fn is_raw(text: &str) -> bool {
    text.trim_start_matches('#').starts_with('"')
}

/// Returns the length of a raw text `#"…"#`.
fn raw(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let end = format!("\"{}", &text[..hashes]);
    let inner = &text[hashes + 1..];
    inner.find(&end).map(|at| hashes + 1 + at + end.len())
}
