//! Decoding of JSON strings.

use crate::scan;
use std::borrow::Cow;

/// The error of an invalid JSON string.
pub(super) struct Invalid;

/// The initial capacity for a string with escapes.
const MADE: usize = 256;

/// Reads the string whose opening quote is at `at`, and moves `at` past its closing quote. Only a string with
/// escapes is allocated.
#[inline]
pub(super) fn read<'a>(text: &'a str, at: &mut usize) -> Result<Cow<'a, str>, Invalid> {
    let start = *at + 1;
    let end = start + scan::plain(text.as_bytes().get(start..).unwrap_or(b""));
    if text.as_bytes().get(end) == Some(&b'"') {
        *at = end + 1;
        return Ok(Cow::Borrowed(text.get(start..end).ok_or(Invalid)?));
    }
    let mut reader = Reader { text, bytes: text.as_bytes(), at: end };
    let result = reader.escaped(start);
    *at = reader.at;
    result.map(Cow::Owned)
}

/// Returns the text of a verified JSON string.
pub(super) fn decode(spelling: &[u8]) -> Box<str> {
    let result = simdutf8::basic::from_utf8(spelling).ok().map(|text| read(text, &mut 0));
    match result {
        Some(Ok(text)) => text.into_owned().into(),
        Some(Err(Invalid)) | None => Box::default(),
    }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Reads the rest of a string with escapes; the text from `start` on has none so far.
    fn escaped(&mut self, mut start: usize) -> Result<String, Invalid> {
        let text = self.text;
        let mut made = String::with_capacity(MADE.max(2 * (self.at - start)));
        loop {
            made.push_str(text.get(start..self.at).ok_or(Invalid)?);
            self.at += 1;
            match self.bytes.get(self.at - 1) {
                Some(b'"') => break,
                Some(b'\\') => made.push(self.escape()?),
                _ => return Err(Invalid),
            }
            start = self.at;
            self.skip_plain();
        }
        if made.capacity() > made.len() + made.len() / 4 + 16 {
            made.shrink_to_fit();
        }
        Ok(made)
    }

    /// Moves to the next quote, backslash or control character.
    fn skip_plain(&mut self) {
        self.at += scan::plain(self.bytes.get(self.at..).unwrap_or(b""));
    }

    fn escape(&mut self) -> Result<char, Invalid> {
        let byte = *self.bytes.get(self.at).ok_or(Invalid)?;
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(Invalid),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, Invalid> {
        let first = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&first) {
            if !self.bytes[self.at..].starts_with(b"\\u") {
                return Err(Invalid);
            }
            self.at += 2;
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(Invalid);
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or(Invalid)
    }

    fn hex4(&mut self) -> Result<u32, Invalid> {
        let (value, _) = self.bytes.get(self.at..).and_then(scan::hex4).ok_or(Invalid)?;
        self.at += 4;
        Ok(value)
    }
}
