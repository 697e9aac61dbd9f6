//! Text literals: their escapes and the expressions in f-strings.

use super::ast::{ExprKind, FormatPart};
use super::error::SyntaxError;
use super::lexer::Lexer;
use super::parser::Parser;
use super::token::{TextToken, Token};
use crate::text::part;

/// The maximum depth of f-strings inside f-strings.
const MAX_NESTED: usize = 4;

impl Parser {
    /// Joins adjacent text literals.
    pub(super) fn texts(&mut self, tokens: &[(TextToken, Token)]) -> Result<ExprKind, SyntaxError> {
        let is_bytes = tokens.iter().any(|(text, _)| text.is_bytes);
        if !tokens.iter().any(|(text, _)| text.is_format) {
            let all: String =
                tokens.iter().map(|(text, _)| unescape(&text.raw, text.is_raw, text.is_bytes)).collect();
            return Ok(if is_bytes { ExprKind::Bytes(all) } else { ExprKind::Text(all) });
        }
        let mut parts = Vec::new();
        for (text, token) in tokens {
            if text.is_format {
                self.format_nesting += 1;
                if self.format_nesting > MAX_NESTED {
                    return Err(SyntaxError::new(
                        token.line,
                        token.column,
                        "format texts are nested too deeply",
                    ));
                }
                let read = self.format_parts(&text.raw, text.is_raw, token);
                self.format_nesting -= 1;
                read?.into_iter().for_each(|part| add(&mut parts, part));
            } else {
                add(&mut parts, FormatPart::Text(unescape(&text.raw, text.is_raw, false)));
            }
        }
        Ok(ExprKind::Format(parts))
    }

    /// Splits an f-string into its texts and values.
    fn format_parts(
        &mut self,
        raw: &str,
        is_raw: bool,
        token: &Token,
    ) -> Result<Vec<FormatPart>, SyntaxError> {
        let wrong = |message: &str| SyntaxError::new(token.line, token.column, message);
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = raw;
        while let Some(next) = rest.chars().next() {
            match next {
                '{' if rest.starts_with("{{") => {
                    text.push('{');
                    rest = part(rest, 2..);
                }
                '}' => {
                    text.push('}');
                    rest = part(rest, if rest.starts_with("}}") { 2 } else { 1 }..);
                }
                // `\N{…}` is a character by name; its braces hold no value.
                '\\' if !is_raw => {
                    let length = if rest.starts_with("\\N{") {
                        rest.find('}').map_or(rest.len(), |end| end + 1)
                    } else {
                        1 + rest.chars().nth(1).map_or(0, char::len_utf8)
                    };
                    text.push_str(rest.get(..length).unwrap_or(rest));
                    rest = part(rest, length..);
                }
                '{' => {
                    if !text.is_empty() {
                        parts.push(FormatPart::Text(unescape(&text, is_raw, false)));
                        text.clear();
                    }
                    let inner = part(rest, 1..);
                    let field =
                        Field::split(inner).ok_or_else(|| wrong("`{` of a format text is not closed"))?;
                    parts.push(self.format_value(&field, is_raw, token)?);
                    rest = part(inner, field.length..);
                }
                _ => {
                    text.push(next);
                    rest = part(rest, next.len_utf8()..);
                }
            }
        }
        if !text.is_empty() {
            parts.push(FormatPart::Text(unescape(&text, is_raw, false)));
        }
        Ok(parts)
    }

    fn format_value(
        &mut self,
        field: &Field<'_>,
        is_raw: bool,
        token: &Token,
    ) -> Result<FormatPart, SyntaxError> {
        let tokens = Lexer::read_expression(field.value, token.line, token.column)?;
        let value = self.within(tokens, |parser| parser.expressions_to_end())?;
        let format = match field.format {
            Some(format) => {
                self.format_nesting += 1;
                if self.format_nesting > MAX_NESTED {
                    return Err(SyntaxError::new(
                        token.line,
                        token.column,
                        "format texts are nested too deeply",
                    ));
                }
                let parts = self.format_parts(format, is_raw, token);
                self.format_nesting -= 1;
                parts?
            }
            None => Vec::new(),
        };
        let is_debug = field.is_debug.then(|| field.value.to_owned());
        Ok(FormatPart::Value { value, conversion: field.conversion, format, is_debug })
    }
}

/// A replacement field of an f-string: the text between its braces, split into parts.
struct Field<'a> {
    value: &'a str,
    conversion: Option<char>,
    format: Option<&'a str>,
    is_debug: bool,
    /// The length in bytes, including the closing brace.
    length: usize,
}

impl<'a> Field<'a> {
    /// Splits the text after an opening brace.
    fn split(text: &'a str) -> Option<Self> {
        let mut depth = 0_usize;
        let mut quote: Option<(char, bool)> = None;
        let mut value_end = None;
        let mut conversion = None;
        let mut format_start = None;
        let mut is_debug = false;
        let mut chars = text.char_indices();
        while let Some((at, next)) = chars.next() {
            let after = part(text, at + next.len_utf8()..);
            if let Some((open, is_long)) = quote {
                let triple: String = [open, open].into_iter().collect();
                if next == '\\' {
                    chars.next();
                } else if next == open && is_long && after.starts_with(&triple) {
                    chars.nth(1);
                    quote = None;
                } else if next == open && !is_long {
                    quote = None;
                }
                continue;
            }
            match next {
                '"' | '\'' if format_start.is_none() => {
                    let triple: String = [next, next].into_iter().collect();
                    let is_long = after.starts_with(&triple);
                    if is_long {
                        chars.nth(1);
                    }
                    quote = Some((next, is_long));
                }
                '(' | '[' | '{' => depth += 1,
                '}' if depth == 0 => {
                    let value = text.get(..value_end.unwrap_or(at))?;
                    let format = format_start.and_then(|start| text.get(start..at));
                    return Some(Self { value, conversion, format, is_debug, length: at + 1 });
                }
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                '!' if depth == 0 && value_end.is_none() && !after.starts_with('=') => {
                    value_end = Some(at);
                    conversion = after.chars().next();
                }
                ':' if depth == 0 && format_start.is_none() => {
                    value_end.get_or_insert(at);
                    format_start = Some(at + 1);
                }
                '=' if depth == 0 && value_end.is_none() => {
                    let before = text.get(..at)?.chars().next_back();
                    let is_alone =
                        !before.is_some_and(|last| "=!<>".contains(last)) && !after.starts_with('=');
                    if is_alone && after.trim_start().starts_with(['}', '!', ':']) {
                        is_debug = true;
                        value_end = Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn add(parts: &mut Vec<FormatPart>, part: FormatPart) {
    match (parts.last_mut(), part) {
        (Some(FormatPart::Text(last)), FormatPart::Text(text)) => last.push_str(&text),
        (_, part) => parts.push(part),
    }
}

/// Resolves the escapes of a text literal.
pub(super) fn unescape(raw: &str, is_raw: bool, is_bytes: bool) -> String {
    let raw = raw.replace("\r\n", "\n");
    if is_raw || !raw.contains('\\') {
        return raw;
    }
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(next) = chars.next() {
        if next != '\\' {
            out.push(next);
            continue;
        }
        let Some(escape) = chars.next() else {
            out.push('\\');
            break;
        };
        let mut digits = |most: usize, radix: u32, first: Option<char>| {
            let mut value = first.and_then(|digit| digit.to_digit(radix)).unwrap_or(0);
            let mut count = usize::from(first.is_some());
            while count < most {
                let Some(digit) = chars.peek().and_then(|digit| digit.to_digit(radix)) else { break };
                value = value.wrapping_mul(radix).wrapping_add(digit);
                chars.next();
                count += 1;
            }
            char::from_u32(value).unwrap_or('\u{fffd}')
        };
        let resolved = match escape {
            '\n' => continue,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            '\\' | '\'' | '"' => escape,
            'x' => digits(2, 16, None),
            'u' if !is_bytes => digits(4, 16, None),
            'U' if !is_bytes => digits(8, 16, None),
            '0'..='7' => digits(3, 8, Some(escape)),
            other => {
                out.push('\\');
                other
            }
        };
        out.push(resolved);
    }
    out
}
