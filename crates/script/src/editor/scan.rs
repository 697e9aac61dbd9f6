//! A text as words, literals, signs and comments; it never fails.

use std::ops::Range;

/// The kind of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    /// A string, or a part of one around `${…}`.
    Text,
    Comment,
    Sign,
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
    /// The other bracket of a pair, by its place among the tokens.
    pub(super) pair: Option<usize>,
    /// The bracket that it stands in.
    pub(super) within: Option<usize>,
}

/// Signs of more than one character that mean something here; the others are read one by one.
const LONG_SIGNS: [&str; 18] = [
    "#{", "${", "::", "?.", "?[", "??", "..=", "..", "=>", "==", "!=", "<=", ">=", "+=", "-=", "&&", "||",
    "*=",
];

/// The pieces of a text but blanks, in order.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut scan = Scan { text, at: 0, tokens: Vec::new(), open: Vec::new() };
    while scan.at < text.len() {
        scan.next();
    }
    scan.tokens
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// Brackets that are open.
    open: Vec<usize>,
}

impl Scan<'_> {
    fn next(&mut self) {
        let rest = &self.text[self.at..];
        let Some(letter) = rest.chars().next() else { return };
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        match letter {
            _ if letter.is_whitespace() || letter == '\u{feff}' => self.at += letter.len_utf8(),
            _ if rest.starts_with("//") => {
                let length = rest.find('\n').unwrap_or(rest.len());
                self.push(Kind::Comment, length);
            }
            _ if rest.starts_with("/*") => self.push(Kind::Comment, block(rest)),
            '"' => self.push(Kind::Text, quoted(rest)),
            '`' => self.template(1),
            '\'' => self.push(Kind::Text, character(rest)),
            _ if letter.is_ascii_digit() => {
                // `1..5` is a range, `1.5` a number, `5.sqrt()` a call.
                let whole = rest.find(|letter: char| !is_word(letter)).unwrap_or(rest.len());
                let behind = &rest[whole..];
                let digits = behind
                    .strip_prefix('.')
                    .filter(|behind| behind.starts_with(|digit: char| digit.is_ascii_digit()));
                let point = digits.map_or(0, |digits| {
                    1 + digits.find(|letter: char| !is_word(letter)).unwrap_or(digits.len())
                });
                self.push(Kind::Number, whole + point);
            }
            _ if is_word(letter) => {
                let length = rest.find(|letter: char| !is_word(letter)).unwrap_or(rest.len());
                self.push(Kind::Word, length);
            }
            _ => self.sign(rest, letter),
        }
    }

    fn sign(&mut self, rest: &str, letter: char) {
        let long = LONG_SIGNS.iter().find(|sign| rest.starts_with(**sign) && **sign != "${");
        let sign = long.copied().unwrap_or(&rest[..letter.len_utf8()]);
        match sign {
            "(" | "[" | "{" | "#{" | "?[" => self.open(sign.len()),
            ")" | "]" | "}" => self.close(sign),
            _ => self.push(Kind::Sign, sign.len()),
        }
    }

    fn open(&mut self, length: usize) {
        let place = self.tokens.len();
        self.push(Kind::Sign, length);
        self.open.push(place);
    }

    /// Closes the nearest bracket that fits; those that were left open in it end here too.
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
        if self.text[self.tokens[opened].at.clone()] == *"${" {
            self.template(0);
        }
    }

    /// A string of backticks up to its end, or to a `${` in it.
    fn template(&mut self, skip: usize) {
        let rest = &self.text[self.at..];
        let end = rest[skip..].find('`').map_or(rest.len(), |end| end + skip + 1);
        match rest[..end].find("${") {
            Some(hole) => {
                self.push(Kind::Text, hole);
                self.open(2);
            }
            None => self.push(Kind::Text, end),
        }
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let at = self.at..self.at + length;
        self.at = at.end;
        self.tokens.push(Token { kind, at, pair: None, within: self.open.last().copied() });
    }
}

/// Returns the length of a block comment; it may hold others.
fn block(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of a string. One that is not closed ends with its line, unless the line goes on.
fn quoted(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '"' => return at + 1,
            '\n' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character, `'x'` or `'\n'`; a lone quote is one.
fn character(text: &str) -> usize {
    let line = text[1..].find(['\'', '\n']).map(|end| end + 1);
    match line {
        Some(end) if text[end..].starts_with('\'') && end <= 12 => {
            if &text[1..end] == "\\" {
                (end + 2).min(text.len())
            } else {
                end + 1
            }
        }
        _ => 1,
    }
}
