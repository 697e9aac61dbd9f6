//! From [`Json`] to bytes.

use super::{Json, Number};
use std::fmt;
use std::io::Write as _;

/// The value is nested deeper than can be written; only a script that nests on purpose gets here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nested deeper than {LIMIT} levels")]
pub struct TooDeep;

/// Deeper than anything that can be read, shallow enough for any thread's stack.
const LIMIT: usize = 512;

impl Json {
    /// Compact JSON.
    pub fn encode(&self) -> Result<Vec<u8>, TooDeep> {
        let mut out = Vec::with_capacity(256);
        self.encode_into(&mut out)?;
        Ok(out)
    }

    /// Compact JSON at the end of what is there.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), TooDeep> {
        write(self, out, 0)
    }

    /// JSON for people, indented.
    pub fn pretty(&self, indent: usize) -> String {
        let mut out = Vec::new();
        let value = serde_json::Value::from(self);
        let spaces = " ".repeat(indent);
        let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
        let mut writer = serde_json::Serializer::with_formatter(&mut out, formatter);
        match serde::Serialize::serialize(&value, &mut writer) {
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(_) => self.to_string(),
        }
    }
}

fn write(value: &Json, out: &mut Vec<u8>, depth: usize) -> Result<(), TooDeep> {
    if depth > LIMIT {
        return Err(TooDeep);
    }
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(number) => write_number(number, out),
        Json::Text(text) => write_string(text, out),
        Json::Array(array) => {
            out.push(b'[');
            array.with(|items| {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write(item, out, depth + 1)?;
                }
                Ok(())
            })?;
            out.push(b']');
        }
        Json::Object(object) => {
            out.push(b'{');
            let (mut first, mut result) = (true, Ok(()));
            object.for_each(|key, value| {
                if result.is_err() {
                    return;
                }
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                result = write(value, out, depth + 1);
            });
            result?;
            out.push(b'}');
        }
    }
    Ok(())
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = match number {
        Number::Int(value) => write!(out, "{value}"),
        Number::Unsigned(value) => write!(out, "{value}"),
        Number::Float(value) => write!(out, "{value:?}"),
        Number::Spelt(text) => write!(out, "{text}"),
    };
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(super::scan::plain(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else { break };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control => {
                let _ = write!(out, "\\u{control:04x}");
            }
        }
        rest = after;
    }
    out.push(b'"');
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.encode() {
            Ok(bytes) => f.write_str(&String::from_utf8_lossy(&bytes)),
            Err(error) => write!(f, "({error})"),
        }
    }
}
