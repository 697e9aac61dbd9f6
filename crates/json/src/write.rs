//! The writer from [`Json`] to bytes.

use crate::number::Number;
use crate::value::Json;
use crate::walk::Repeats;
use bytes::Bytes;
use std::fmt;
use std::io::Write as _;

/// The reason why a value cannot be written; only scripts can create such values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritable {
    /// The value is nested deeper than 512 levels.
    TooDeep,
    /// The text exceeds this limit in bytes.
    TooLarge(usize),
    /// The value contains the same containers in too many places.
    Repeated,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep => write!(f, "nested deeper than {LIMIT} levels"),
            Self::TooLarge(limit) => write!(f, "larger than {limit} bytes as JSON"),
            Self::Repeated => f.write_str("too large to write: it contains the same values many times"),
        }
    }
}

impl std::error::Error for Unwritable {}

/// The maximum nesting depth: deeper than any parsed value, and safe for the stack of any thread.
const LIMIT: usize = 512;

/// The maximum number of bytes written for repeated containers. A value without repetitions is limited by its
/// own memory size.
pub const REPEATED: usize = 16 << 20;

impl Json {
    /// Writes compact JSON.
    ///
    /// # Errors
    /// Returns an error if the value is nested too deep or repeats too much.
    pub fn encode(&self) -> Result<Vec<u8>, Unwritable> {
        let mut out = Vec::with_capacity(256);
        self.encode_into(&mut out)?;
        Ok(out)
    }

    /// Appends compact JSON to `out`.
    ///
    /// # Errors
    /// Returns an error if the value is nested too deep or repeats too much.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        Writer::new(out, usize::MAX).value(self, 0)
    }

    /// Writes JSON for the next recipient. Unread parts and strings of a parsed document are written in their
    /// original spelling.
    ///
    /// # Errors
    /// Returns an error if the value is nested too deep or repeats too much.
    pub fn encode_raw(&self) -> Result<Vec<u8>, Unwritable> {
        // Reserving the length avoids repeated copies of a long body.
        let length = self.spelt_length(MAX_NESTING, &mut { MAX_VALUES });
        let mut out = Vec::with_capacity(256 + (length + length / 64).min(REPEATED));
        self.encode_raw_into(&mut out)?;
        Ok(out)
    }

    /// Appends JSON to `out` as [`Json::encode_raw`] does.
    ///
    /// # Errors
    /// Returns an error if the value is nested too deep or repeats too much.
    pub fn encode_raw_into(&self, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        Writer { as_raw: true, ..Writer::new(out, usize::MAX) }.value(self, 0)
    }

    /// Writes compact JSON of at most `most` bytes.
    ///
    /// # Errors
    /// Returns an error if the text would be longer, or if the value is nested too deep or repeats too much.
    pub fn encode_within(&self, most: usize) -> Result<Vec<u8>, Unwritable> {
        let mut out = Vec::new();
        Writer::new(&mut out, most).value(self, 0)?;
        if out.len() > most { Err(Unwritable::TooLarge(most)) } else { Ok(out) }
    }

    /// Returns indented JSON for display.
    pub fn pretty(&self, indent: usize) -> String {
        let mut out = Vec::new();
        let value = serde_json::Value::from(self);
        let spaces = " ".repeat(indent);
        let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
        let mut writer = serde_json::Serializer::with_formatter(&mut out, formatter);
        match serde_core::Serialize::serialize(&value, &mut writer) {
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(_) => self.to_string(),
        }
    }
}

/// The maximum depth, and below it the maximum number of values, that are searched for long texts.
const MAX_NESTING: usize = 4;
const MAX_VALUES: usize = 10_000;

impl Json {
    /// Returns the approximate number of bytes that are written in their original spelling.
    fn spelt_length(&self, depth: usize, left: &mut usize) -> usize {
        let Some(fewer) = left.checked_sub(1) else { return 0 };
        *left = fewer;
        match self {
            Self::Text(text) => text.spelling().map_or(0, Bytes::len),
            Self::Array(array) if depth > 0 => {
                array.with(|items| items.iter().map(|item| item.spelt_length(depth - 1, left)).sum())
            }
            Self::Object(object) if depth > 0 => {
                let mut length = object.with_spelling(<[u8]>::len).unwrap_or(0);
                object.each_read(|value| length += value.spelt_length(depth - 1, left));
                length
            }
            _ => 0,
        }
    }
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    most: usize,
    written: Repeats,
    /// The number of repeated bytes that may still be written.
    left: usize,
    /// The position at which the current repetition must end.
    end: Option<usize>,
    as_raw: bool,
}

impl<'a> Writer<'a> {
    fn new(out: &'a mut Vec<u8>, most: usize) -> Self {
        Self { out, most, written: Repeats::default(), left: REPEATED, end: None, as_raw: false }
    }

    fn value(&mut self, value: &Json, depth: usize) -> Result<(), Unwritable> {
        match value {
            Json::Null => self.out.extend_from_slice(b"null"),
            Json::Bool(true) => self.out.extend_from_slice(b"true"),
            Json::Bool(false) => self.out.extend_from_slice(b"false"),
            Json::Number(number) => write_number(number, self.out),
            Json::Text(text) => match text.spelling().filter(|_| self.as_raw) {
                Some(spelling) => self.out.extend_from_slice(spelling),
                None => string(text, self.out),
            },
            Json::Array(_) | Json::Object(_) => return self.container(value, depth),
        }
        Ok(())
    }

    fn container(&mut self, value: &Json, depth: usize) -> Result<(), Unwritable> {
        if depth > LIMIT {
            return Err(Unwritable::TooDeep);
        }
        if self.out.len() > self.most {
            return Err(Unwritable::TooLarge(self.most));
        }
        if self.end.is_some_and(|end| self.out.len() > end) {
            return Err(Unwritable::Repeated);
        }
        if self.end.is_some() || !self.written.is_repeated(value) {
            return self.inside(value, depth);
        }
        let end = self.out.len() + self.left;
        self.end = Some(end);
        self.inside(value, depth)?;
        self.end = None;
        self.left = end.checked_sub(self.out.len()).ok_or(Unwritable::Repeated)?;
        Ok(())
    }

    fn inside(&mut self, value: &Json, depth: usize) -> Result<(), Unwritable> {
        match value {
            Json::Array(array) => {
                self.out.push(b'[');
                array.with(|items| {
                    for (index, item) in items.iter().enumerate() {
                        if index > 0 {
                            self.out.push(b',');
                        }
                        self.value(item, depth + 1)?;
                    }
                    Ok(())
                })?;
                self.out.push(b']');
            }
            Json::Object(object) => {
                let written = |spelling: &[u8]| self.out.extend_from_slice(spelling);
                if self.as_raw && object.with_spelling(written).is_some() {
                    return Ok(());
                }
                self.out.push(b'{');
                let (mut first, mut result) = (true, Ok(()));
                object.for_each(|key, value| {
                    if result.is_err() {
                        return;
                    }
                    if !std::mem::take(&mut first) {
                        self.out.push(b',');
                    }
                    string(key, self.out);
                    self.out.push(b':');
                    result = self.value(value, depth + 1);
                });
                result?;
                self.out.push(b'}');
            }
            _ => {}
        }
        Ok(())
    }
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    match number {
        Number::Int(value) => out.extend_from_slice(buffer.format(*value).as_bytes()),
        Number::Unsigned(value) => out.extend_from_slice(buffer.format(*value).as_bytes()),
        // Writing to a vector cannot fail.
        Number::Float(value) => _ = write!(out, "{value:?}"),
        Number::Raw(text) => _ = write!(out, "{text}"),
    }
}

/// Writes a text as a JSON string.
fn string(text: &str, out: &mut Vec<u8>) {
    let text = text.as_bytes();
    out.reserve(text.len() + 2);
    out.push(b'"');
    let plain = crate::scan::plain(text);
    out.extend_from_slice(&text[..plain]);
    if plain < text.len() {
        escaped(&text[plain..], out);
    }
    out.push(b'"');
}

/// Writes the inside of a string from its first special byte on.
#[inline(never)]
fn escaped(mut rest: &[u8], out: &mut Vec<u8>) {
    while !rest.is_empty() {
        // Escapes often follow each other, and a scan for each takes longer than the escape.
        let end = rest.iter().position(|&byte| !crate::scan::is_special(byte)).unwrap_or(rest.len());
        let (special, after) = rest.split_at(end);
        special.iter().for_each(|&byte| escape(byte, out));
        let (plain, after) = after.split_at(crate::scan::plain(after));
        out.extend_from_slice(plain);
        rest = after;
    }
}

/// Writes a quote, a backslash or a control character.
fn escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let [high, low] = [byte >> 4, byte & 0xf].map(|digit| DIGITS[usize::from(digit)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.encode() {
            Ok(bytes) => f.write_str(&String::from_utf8_lossy(&bytes)),
            Err(error) => write!(f, "({error})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_escaped_like_serde_json() {
        let all: String = (0..0x300_u32).filter_map(char::from_u32).collect();
        let rows = ["\u{1}\"\\\n\u{1f}\u{8}\u{c}".repeat(9), format!("\"{all}\u{0}x{all}"), all];
        for text in rows.iter().map(String::as_str).chain(["", "\"", "a\u{7f}"]) {
            assert_eq!(Json::from(text).to_string(), serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn a_shared_value_is_written_at_each_place_up_to_a_limit() {
        let long = Json::from(vec![Json::from("x".repeat(1 << 20))]);
        let twice = Json::from(vec![long.clone(), long.clone()]);
        assert_eq!(twice.encode().unwrap().len(), 2 * (1 << 20) + 2 * 4 + 3);
        let often = Json::from(vec![long.clone(); 18]);
        assert_eq!(often.encode(), Err(Unwritable::Repeated));
        let large: Vec<Json> = (0..100).map(|_| vec![Json::from("x".repeat(1 << 20))].into()).collect();
        assert!(Json::from(large).encode().is_ok());
        let doubled = (0..100).fold(long, |inner, _| vec![inner.clone(), inner].into());
        assert_eq!(doubled.encode(), Err(Unwritable::Repeated));
    }

    #[test]
    fn writing_stops_at_the_requested_length() {
        let value = Json::from(vec![Json::from("12345"), Json::array()]);
        assert_eq!(value.encode_within(12).unwrap(), br#"["12345",[]]"#);
        assert_eq!(value.encode_within(11), Err(Unwritable::TooLarge(11)));
    }
}
