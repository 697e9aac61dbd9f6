//! Splits the text of a file into tokens.

use super::error::SyntaxError;
use super::token::{TextToken, Token, TokenKind};
use crate::text::part;
use std::iter::Peekable;
use std::str::Chars;

/// The maximum number of indentation levels, which is Python's own limit.
const MAX_INDENTATION: usize = 100;

/// The operators, longest first.
const OPERATORS: [&str; 48] = [
    "**=", "//=", "<<=", ">>=", "...", "!=", "**", "//", "<<", ">>", "<=", ">=", "==", "->", "+=", "-=",
    "*=", "/=", "%=", "&=", "|=", "^=", "@=", ":=", "<>", "(", ")", "[", "]", "{", "}", ",", ":", ";", ".",
    "=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "@",
];

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) line: usize,
    /// The text after `#`, trimmed.
    pub(crate) text: String,
    /// `true` if the line has nothing but the comment.
    pub(crate) is_alone: bool,
}

pub(super) struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    rest: &'a str,
    line: usize,
    column: usize,
    /// The open brackets with their lines and columns; line ends inside brackets are ignored.
    brackets: Vec<(char, usize, usize)>,
    /// The widths of the open indentations, with tabs of eight columns and of one.
    indents: Vec<(usize, usize)>,
    tokens: Vec<Token>,
    comments: Vec<Comment>,
}

impl<'a> Lexer<'a> {
    /// Returns the tokens and the comments of a text.
    pub(super) fn read(text: &'a str) -> Result<(Vec<Token>, Vec<Comment>), SyntaxError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lexer = Self::at(text, 1, 1);
        lexer.run()?;
        Ok((lexer.tokens, lexer.comments))
    }

    /// Returns the tokens of an expression inside a text; `line` and `column` are those of its first
    /// character.
    pub(super) fn read_expression(
        text: &'a str,
        line: usize,
        column: usize,
    ) -> Result<Vec<Token>, SyntaxError> {
        let mut lexer = Self::at(text, line, column);
        lexer.brackets.push(('(', line, column));
        while lexer.peek().is_some() {
            lexer.token()?;
        }
        if lexer.brackets.len() > 1 {
            return Err(lexer.error("a bracket is not closed"));
        }
        lexer.push(TokenKind::End);
        Ok(lexer.tokens)
    }

    fn at(text: &'a str, line: usize, column: usize) -> Self {
        Self {
            chars: text.chars().peekable(),
            rest: text,
            line,
            column,
            brackets: Vec::new(),
            indents: vec![(0, 0)],
            tokens: Vec::new(),
            comments: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), SyntaxError> {
        let mut line_begins = true;
        while self.peek().is_some() {
            if line_begins && self.brackets.is_empty() {
                line_begins = false;
                self.indentation()?;
                continue;
            }
            line_begins = self.token()?;
        }
        if let Some((open, line, column)) = self.brackets.last() {
            return Err(SyntaxError::new(*line, *column, format!("`{open}` is not closed")));
        }
        if self.tokens.last().is_some_and(|last| !matches!(last.kind, TokenKind::Newline | TokenKind::Dedent))
        {
            self.push(TokenKind::Newline);
        }
        for _ in 1..self.indents.len() {
            self.push(TokenKind::Dedent);
        }
        self.push(TokenKind::End);
        Ok(())
    }

    /// Reads the indentation of a line.
    fn indentation(&mut self) -> Result<(), SyntaxError> {
        let (mut width, mut letters) = (0, 0);
        loop {
            match self.peek() {
                Some(' ') => width += 1,
                Some('\t') => width = width / 8 * 8 + 8,
                Some('\u{c}') => width = 0,
                _ => break,
            }
            letters = if width == 0 { 0 } else { letters + 1 };
            self.bump();
        }
        if matches!(self.peek(), None | Some('\n' | '\r' | '#')) {
            return Ok(());
        }
        // Two lines must compare alike for every width of a tab, as in Python.
        if self.indents.iter().any(|(wide, narrow)| width.cmp(wide) != letters.cmp(narrow)) {
            return Err(self.error("tabs and spaces are mixed in the indentation; use one of them"));
        }
        let deepest = self.indents.last().map_or(0, |(wide, _)| *wide);
        if width > deepest {
            if self.indents.len() >= MAX_INDENTATION {
                return Err(self.error(format!("more than {MAX_INDENTATION} levels of indentation")));
            }
            self.indents.push((width, letters));
            self.push(TokenKind::Indent);
            return Ok(());
        }
        while self.indents.last().is_some_and(|(deepest, _)| width < *deepest) {
            self.indents.pop();
            self.push(TokenKind::Dedent);
        }
        if self.indents.last().is_none_or(|(deepest, _)| *deepest != width) {
            return Err(self.error("the indentation does not match that of an outer line"));
        }
        Ok(())
    }

    /// Reads one token, white space or a comment. Returns `true` at the end of a line.
    fn token(&mut self) -> Result<bool, SyntaxError> {
        let Some(next) = self.peek() else { return Ok(false) };
        match next {
            '\n' | '\r' => {
                self.line_end();
                return Ok(true);
            }
            ' ' | '\t' | '\u{c}' => {
                self.bump();
            }
            '#' => self.comment(),
            '\\' => {
                self.bump();
                if !matches!(self.peek(), Some('\n' | '\r')) {
                    return Err(self.error("unexpected character after `\\`"));
                }
                self.skip_line_end();
            }
            '0'..='9' => self.number(),
            '.' if self.rest.chars().nth(1).is_some_and(|digit| digit.is_ascii_digit()) => self.number(),
            '"' | '\'' => self.text("")?,
            _ if next == '_' || next.is_alphabetic() => self.name()?,
            _ => self.operator()?,
        }
        Ok(false)
    }

    fn line_end(&mut self) {
        let is_blank = matches!(
            self.tokens.last().map(|last| &last.kind),
            None | Some(TokenKind::Newline | TokenKind::Indent | TokenKind::Dedent)
        );
        if self.brackets.is_empty() && !is_blank {
            self.push(TokenKind::Newline);
        }
        self.skip_line_end();
    }

    fn skip_line_end(&mut self) {
        if self.peek() == Some('\r') {
            self.bump();
            if self.peek() != Some('\n') {
                self.line += 1;
                self.column = 1;
                return;
            }
        }
        self.bump();
    }

    fn comment(&mut self) {
        let line = self.line;
        let is_alone = self.tokens.last().is_none_or(|last| last.end_line < line)
            || matches!(
                self.tokens.last().map(|last| &last.kind),
                Some(TokenKind::Newline | TokenKind::Indent | TokenKind::Dedent)
            );
        let mut text = String::new();
        while let Some(next) = self.peek().filter(|next| !matches!(next, '\n' | '\r')) {
            text.push(next);
            self.bump();
        }
        let text = text.trim_start_matches('#').trim().to_owned();
        self.comments.push(Comment { line, text, is_alone });
    }

    fn number(&mut self) {
        let (line, column) = (self.line, self.column);
        let mut text = String::new();
        while let Some(next) = self.peek() {
            let is_sign = matches!(next, '+' | '-')
                && text.ends_with(['e', 'E'])
                && !text.starts_with("0x")
                && !text.starts_with("0X");
            if !(next.is_ascii_alphanumeric() || next == '.' || next == '_' || is_sign) {
                break;
            }
            // A number may touch the word after it, as in `1if x else y`; it ends at a letter that cannot be
            // part of it.
            if next.is_ascii_alphabetic() && !belongs_to_number(&text, next) {
                break;
            }
            if next != '_' {
                text.push(next);
            }
            self.bump();
        }
        self.push_at(TokenKind::Number(text), line, column);
    }

    fn name(&mut self) -> Result<(), SyntaxError> {
        let (line, column) = (self.line, self.column);
        let mut name = String::new();
        while let Some(next) = self.peek().filter(|next| *next == '_' || next.is_alphanumeric()) {
            name.push(next);
            self.bump();
        }
        let is_prefix = name.len() <= 2 && name.chars().all(|letter| "rRbBuUfFtT".contains(letter));
        if is_prefix && matches!(self.peek(), Some('"' | '\'')) {
            return self.text_at(&name, line, column);
        }
        self.push_at(TokenKind::Name(name), line, column);
        Ok(())
    }

    fn text(&mut self, prefix: &str) -> Result<(), SyntaxError> {
        self.text_at(prefix, self.line, self.column)
    }

    /// Reads a text literal, starting at its first quote.
    fn text_at(&mut self, prefix: &str, line: usize, column: usize) -> Result<(), SyntaxError> {
        let unclosed = || SyntaxError::new(line, column, "a text is not closed");
        let prefix = prefix.to_ascii_lowercase();
        let is_raw = prefix.contains('r');
        let is_format = prefix.contains(['f', 't']);
        let quote = self.bump().ok_or_else(unclosed)?;
        let triple = [quote, quote];
        let is_long = self.rest.chars().take(2).eq(triple);
        if is_long {
            self.bump();
            self.bump();
        }
        let mut raw = String::new();
        // The open braces of an f-string; since Python 3.12, its own quote may occur inside them.
        let mut braces = 0_usize;
        loop {
            let next = self.peek().ok_or_else(unclosed)?;
            if next == quote && braces == 0 {
                if !is_long {
                    self.bump();
                    break;
                }
                if self.rest.chars().skip(1).take(2).eq(triple) {
                    for _ in 0..3 {
                        self.bump();
                    }
                    break;
                }
            }
            if !is_long && matches!(next, '\n' | '\r') && braces == 0 {
                return Err(unclosed());
            }
            if next == '\\' && (braces == 0 || !is_format) {
                raw.push(next);
                self.bump();
                let escaped = self.peek().ok_or_else(unclosed)?;
                raw.push(escaped);
                self.bump();
                continue;
            }
            if is_format {
                if braces > 0 && matches!(next, '"' | '\'') {
                    self.nested_text(&mut raw, quote, is_long).ok_or_else(unclosed)?;
                    continue;
                }
                match next {
                    '{' if braces == 0 && self.rest.chars().nth(1) == Some('{') => {
                        raw.push_str("{{");
                        self.bump();
                        self.bump();
                        continue;
                    }
                    '{' => braces += 1,
                    '}' => braces = braces.saturating_sub(1),
                    _ => {}
                }
            }
            raw.push(next);
            self.bump();
        }
        let token = TextToken { raw, is_raw, is_bytes: prefix.contains('b'), is_format };
        self.push_at(TokenKind::Text(token), line, column);
        Ok(())
    }

    /// Copies a text literal inside the braces of an f-string, with its quotes.
    fn nested_text(&mut self, raw: &mut String, outer: char, is_long: bool) -> Option<()> {
        let quote = self.bump()?;
        raw.push(quote);
        let long_quote = [quote, quote];
        let is_nested_long = !(is_long && quote == outer) && self.rest.chars().take(2).eq(long_quote);
        if is_nested_long {
            raw.extend(long_quote);
            self.bump();
            self.bump();
        }
        loop {
            let next = self.bump()?;
            raw.push(next);
            if next == '\\' {
                raw.push(self.bump()?);
            } else if next == quote {
                if !is_nested_long {
                    return Some(());
                }
                if self.rest.chars().take(2).eq(long_quote) {
                    raw.extend(long_quote);
                    self.bump();
                    self.bump();
                    return Some(());
                }
            }
        }
    }

    fn operator(&mut self) -> Result<(), SyntaxError> {
        let (line, column) = (self.line, self.column);
        let found = OPERATORS.into_iter().find(|operator| self.rest.starts_with(operator));
        let Some(operator) = found else {
            if self.rest.starts_with('!') && self.brackets.len() == 1 {
                // `!r` ends the expression of a replacement field.
                return Err(self.error("unexpected `!`"));
            }
            let next = self.peek().unwrap_or_default();
            return Err(self.error(format!("unexpected character `{}`", next.escape_default())));
        };
        match operator {
            "(" | "[" | "{" => self.brackets.push((operator.chars().next().unwrap_or('('), line, column)),
            ")" | "]" | "}" => {
                let open = match operator {
                    ")" => '(',
                    "]" => '[',
                    _ => '{',
                };
                match self.brackets.pop() {
                    Some((last, ..)) if last == open => {}
                    Some((last, ..)) => {
                        return Err(self.error(format!("`{operator}` does not close `{last}`")));
                    }
                    None => return Err(self.error(format!("unexpected `{operator}`"))),
                }
            }
            _ => {}
        }
        for _ in operator.chars() {
            self.bump();
        }
        self.push_at(TokenKind::Op(operator), line, column);
        Ok(())
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().copied()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.chars.next()?;
        self.rest = part(self.rest, next.len_utf8()..);
        if next == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(next)
    }

    fn push(&mut self, kind: TokenKind) {
        self.push_at(kind, self.line, self.column);
    }

    fn push_at(&mut self, kind: TokenKind, line: usize, column: usize) {
        self.tokens.push(Token { kind, line, column, end_line: self.line });
    }

    fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.line, self.column, message)
    }
}

/// Returns `true` if a letter continues a number.
fn belongs_to_number(text: &str, letter: char) -> bool {
    let is_based = |marks: &[&str]| marks.iter().any(|mark| text.starts_with(mark));
    if is_based(&["0x", "0X"]) {
        return letter.is_ascii_hexdigit();
    }
    match letter {
        'x' | 'X' | 'o' | 'O' | 'b' | 'B' => text == "0",
        'e' | 'E' => !text.contains(['e', 'E']),
        'j' | 'J' => true,
        _ => false,
    }
}
