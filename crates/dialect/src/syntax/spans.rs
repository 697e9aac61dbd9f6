//! Splits a script's text into code, comments and texts, even if it does not parse.

use std::ops::Range;

/// The maximum nesting of interpolated texts.
const MAX_NESTED: usize = 32;

/// Signs of more than one character; longer ones precede their prefixes.
const LONG_SIGNS: [&str; 40] = [
    "**=", "<<=", ">>=", "===", "!==", "..=", "...", "::<", "#{", "::", "?.", "?[", "??", "..", "=>", "==",
    "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "&&", "||", "**", "<<", ">>", "++",
    "--", "->", "<-", ":=", ":;", "|>", "<|",
];

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Text outside of comments and quotes.
    Code,
    /// A line comment or a block comment.
    Comment,
    /// A text in double or single quotes, including the quotes.
    Quotes,
    /// The parts of a text in backticks outside of `${…}`.
    Backticks,
}

/// Returns `true` for a letter of names and numbers.
pub fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the length of the name at the beginning of a text.
pub fn word(text: &str) -> usize {
    text.find(|letter| !is_part(letter)).unwrap_or(text.len())
}

/// Returns the length of a number: `1..5` is a range, `1.5` a number, `5.sqrt()` a call.
pub fn number(text: &str) -> usize {
    let mut end = word(text);
    let is_digit = |letter: char| letter.is_ascii_digit();
    if let Some(digits) = text[end..].strip_prefix('.').filter(|digits| digits.starts_with(is_digit)) {
        end += 1 + word(digits);
    }
    let is_exponent = text[..end].ends_with(['e', 'E']) && !text.starts_with("0x") && !text.starts_with("0X");
    if let Some(digits) =
        text[end..].strip_prefix(['+', '-']).filter(|digits| is_exponent && digits.starts_with(is_digit))
    {
        end += 1 + word(digits);
    }
    end
}

/// Returns the length of the operator, bracket or other sign at the beginning of a text.
pub fn sign(text: &str) -> usize {
    if text.strip_prefix("!in").is_some_and(|rest| !rest.starts_with(is_part)) {
        return 3;
    }
    let long = LONG_SIGNS.iter().find(|sign| text.starts_with(**sign)).map(|sign| sign.len());
    long.unwrap_or_else(|| text.chars().next().map_or(0, char::len_utf8))
}

/// Returns the spans of a script in order; each byte belongs to one of them.
pub fn of(source: &str) -> Vec<(SpanKind, Range<usize>)> {
    let mut cutter = Cutter::new(source);
    cutter.code(false);
    cutter.pieces
}

/// Returns the length of the text in quotes or backticks at the beginning of a source, with its `${…}`; `None` if there is
/// none or if it is not closed.
pub fn text(source: &str) -> Option<usize> {
    let mut cutter = Cutter::new(source);
    let (length, is_closed) = match source.chars().next()? {
        quote @ ('"' | '\'') => quoted(source, quote),
        '#' => raw(source)?,
        _ => {
            cutter.backticks();
            (cutter.at, !cutter.is_open && !cutter.is_cut)
        }
    };
    is_closed.then_some(length)
}

/// Returns `true` if all brackets, texts in backticks and block comments of a text are closed. A surplus closing
/// bracket does not matter: the parser reports it.
pub fn is_whole(text: &str) -> bool {
    let mut cutter = Cutter::new(text);
    cutter.code(false);
    let mut depth = 0_u32;
    for (piece, range) in &cutter.pieces {
        let brackets = text[range.clone()].chars().filter(|letter| "()[]{}".contains(*letter));
        for bracket in brackets.filter(|_| *piece == SpanKind::Code) {
            match (bracket, depth.checked_sub(1)) {
                ('(' | '[' | '{', _) => depth += 1,
                (_, Some(less)) => depth = less,
                (_, None) => return true,
            }
        }
    }
    // A quoted text that continues on the next line ends with a backslash.
    let last = cutter.pieces.last().map(|(piece, range)| (*piece, &text[range.clone()]));
    let goes_on =
        matches!(last, Some((SpanKind::Quotes, end)) if end.trim_end_matches(['\n', '\r']).ends_with('\\'));
    depth == 0 && !cutter.is_open && !goes_on
}

/// Returns the source with blanks in place of comments and texts; positions do not change.
pub fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    for (piece, range) in of(source) {
        let text = &source[range];
        if piece == SpanKind::Code {
            code.push_str(text);
        } else {
            code.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        }
    }
    code
}

struct Cutter<'a> {
    source: &'a str,
    at: usize,
    /// The start of the current span.
    began: usize,
    /// The number of enclosing texts in backticks.
    nesting: usize,
    /// The position up to which no `'` is closed, so that each line is searched once.
    uncharacterized: usize,
    /// `true` if the text ends within a comment or backticks.
    is_open: bool,
    /// `true` if a text in double quotes is not closed, or one in backticks is nested too deep.
    is_cut: bool,
    pieces: Vec<(SpanKind, Range<usize>)>,
}

impl<'a> Cutter<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            source,
            at: 0,
            began: 0,
            nesting: 0,
            uncharacterized: 0,
            is_open: false,
            is_cut: false,
            pieces: Vec::new(),
        }
    }

    /// Reads code until the end, or until the bracket that closes `${`.
    fn code(&mut self, is_inserted: bool) {
        let mut depth = 0_u32;
        while let Some(letter) = self.next() {
            match letter {
                '{' | '}' => {
                    self.at += 1;
                    if letter == '}' && is_inserted && depth == 0 {
                        break;
                    }
                    depth = if letter == '{' { depth + 1 } else { depth.saturating_sub(1) };
                }
                '/' if self.rest().starts_with("//") => {
                    let length = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.piece(SpanKind::Comment, length);
                }
                '/' if self.rest().starts_with("/*") => {
                    let (length, is_closed) = comment(self.rest());
                    self.is_open |= !is_closed;
                    self.piece(SpanKind::Comment, length);
                }
                '"' => {
                    let (length, is_closed) = quoted(self.rest(), '"');
                    self.is_cut |= !is_closed;
                    self.piece(SpanKind::Quotes, length);
                }
                '\'' => match self.character() {
                    Some(length) => self.piece(SpanKind::Quotes, length),
                    None => self.at += 1,
                },
                '#' => match raw(self.rest()) {
                    Some((length, _)) => self.piece(SpanKind::Quotes, length),
                    // None of these `#` starts a raw text, so all are skipped at once.
                    None => self.at += hashes(self.rest()),
                },
                '`' => self.backticks(),
                letter => self.at += letter.len_utf8(),
            }
        }
        self.end(SpanKind::Code);
    }

    fn backticks(&mut self) {
        self.end(SpanKind::Code);
        self.at += 1;
        let mut is_closed = false;
        while let Some(letter) = self.next() {
            if letter == '`' {
                self.at += 1;
                is_closed = true;
                break;
            }
            if self.rest().starts_with("${") && self.nesting < MAX_NESTED {
                self.end(SpanKind::Backticks);
                self.at += 2;
                self.nesting += 1;
                self.code(true);
                self.nesting -= 1;
            } else {
                self.is_cut |= self.rest().starts_with("${");
                self.at += letter.len_utf8();
            }
        }
        self.is_open |= !is_closed;
        self.end(SpanKind::Backticks);
    }

    /// Returns the length of `'x'` in bytes; `None` if the quote is not closed, as in a comment of another
    /// language.
    fn character(&mut self) -> Option<usize> {
        if self.at < self.uncharacterized {
            return None;
        }
        let (length, is_closed) = quoted(self.rest(), '\'');
        if !is_closed {
            self.uncharacterized = self.at + length;
        }
        is_closed.then_some(length)
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    /// Adds a span of this length, in bytes.
    fn piece(&mut self, piece: SpanKind, length: usize) {
        self.end(SpanKind::Code);
        self.at += length;
        self.end(piece);
    }

    fn end(&mut self, piece: SpanKind) {
        if self.began < self.at {
            self.pieces.push((piece, self.began..self.at));
        }
        self.began = self.at;
    }
}

/// Returns the length of a block comment, and `true` if it is closed. Comments may be nested.
pub fn comment(text: &str) -> (usize, bool) {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return (at, true);
            }
        } else {
            at += 1;
        }
    }
    (text.len(), false)
}

/// Returns the length of a quoted text, and `true` if it is closed; otherwise it ends with its line.
fn quoted(text: &str, quote: char) -> (usize, bool) {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return (at, false),
            letter if letter == quote => return (at + 1, true),
            _ => {}
        }
    }
    (text.len(), false)
}

fn hashes(text: &str) -> usize {
    text.len() - text.trim_start_matches('#').len()
}

/// Returns the length of a raw text `#"…"#`, and `true` if it is closed.
fn raw(text: &str) -> Option<(usize, bool)> {
    let hashes = hashes(text);
    let inner = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(inner.find(&end).map_or((text.len(), false), |at| (hashes + 1 + at + end.len(), true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_not_code() {
        for (source, code) in [
            ("a // b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"a "b\"c" d"#, "a d"),
            ("`a${b(`c${d}`)}e` f", "${b( ${d} )} f"),
            ("a '\"' b \"c", "a b"),
            ("a #\"b \" c\"# d", "a d"),
            ("ü 'ä", "ü 'ä"),
        ] {
            let found = code_only(source);
            assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), code, "{source}");
            assert_eq!(found.len(), source.len(), "{source}");
        }
    }

    #[test]
    fn closed_input_is_complete() {
        for text in [
            "1 + 1",
            "let a = [1, 2];",
            "fn f(x) {\n  x + 1\n}",
            "\"a { in a text\"",
            "'{'",
            "'\\'' // {",
            "`a ${b[\"}\"]} {`",
            "`two `` backticks {`",
            "/* { /* ( */ */ 1",
            "1 }",
            "\"never ends",
            "",
        ] {
            assert!(is_whole(text), "{text}");
        }
    }

    #[test]
    fn open_input_continues_on_the_next_line() {
        for text in [
            "fn f(x) {",
            "#{ a: [1,",
            "`over\nlines",
            "`${ f(",
            "`${ \"`\" ",
            "/* a comment",
            "f(\"{\"",
            "\"goes on \\",
        ] {
            assert!(!is_whole(text), "{text}");
        }
    }
}
