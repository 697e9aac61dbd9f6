//! Splits a text into words, literals, signs and comments; never fails.

use std::ops::Range;
use valvehouse_dialect::syntax::spans::{self, SpanKind};

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    /// A string, or a part of one around `${…}`.
    Text,
    Comment,
    Sign,
}

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
    /// The index of the matching bracket.
    pub(super) pair: Option<usize>,
    /// The index of the enclosing bracket.
    pub(super) within: Option<usize>,
}

/// Returns the tokens of a text in order, without whitespace.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut scan = Scan { text, at: 0, tokens: Vec::new(), open: Vec::new() };
    for (piece, range) in spans::of(text) {
        scan.at = range.start;
        match piece {
            SpanKind::Code => {
                while scan.at < range.end {
                    scan.next(range.end);
                }
            }
            SpanKind::Comment => scan.push(Kind::Comment, range.len()),
            SpanKind::Quotes | SpanKind::Backticks => scan.push(Kind::Text, range.len()),
        }
    }
    scan.tokens
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// The indexes of open brackets.
    open: Vec<usize>,
}

impl Scan<'_> {
    /// Reads one token of code, up to `end`.
    fn next(&mut self, end: usize) {
        let rest = &self.text[self.at..end];
        let Some(letter) = rest.chars().next() else { return };
        match letter {
            _ if letter.is_whitespace() || letter == '\u{feff}' => self.at += letter.len_utf8(),
            _ if letter.is_ascii_digit() => self.push(Kind::Number, spans::number(rest)),
            _ if spans::is_part(letter) => self.push(Kind::Word, spans::word(rest)),
            _ => self.sign(rest),
        }
    }

    fn sign(&mut self, rest: &str) {
        // The code of a text in backticks begins and ends with signs of its own.
        let length = if rest.starts_with("${") { 2 } else { spans::sign(rest) };
        match &rest[..length] {
            "(" | "[" | "{" | "#{" | "${" | "?[" => self.open(length),
            sign @ (")" | "]" | "}") => self.close(sign),
            _ => self.push(Kind::Sign, length),
        }
    }

    fn open(&mut self, length: usize) {
        let place = self.tokens.len();
        self.push(Kind::Sign, length);
        self.open.push(place);
    }

    /// Closes the nearest matching bracket, and all open brackets within it.
    fn close(&mut self, sign: &str) {
        let fits = |open: &&usize| {
            let open = &self.text[self.tokens[**open].at.clone()];
            matches!((open, sign), ("(", ")") | ("[" | "?[", "]") | ("{" | "#{" | "${", "}"))
        };
        let place = self.tokens.len();
        let Some(depth) = self.open.iter().rposition(|open| fits(&open)) else {
            self.push(Kind::Sign, sign.len());
            return;
        };
        let opened = self.open[depth];
        self.open.truncate(depth);
        self.push(Kind::Sign, sign.len());
        self.tokens[opened].pair = Some(place);
        self.tokens[place].pair = Some(opened);
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let at = self.at..self.at + length;
        self.at = at.end;
        self.tokens.push(Token { kind, at, pair: None, within: self.open.last().copied() });
    }
}
