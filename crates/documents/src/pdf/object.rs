//! The objects of a PDF file, read token by token.

use super::super::error::DocumentError;
use super::work::Work;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The maximum nesting of arrays and dictionaries.
const MAX_DEPTH: usize = 64;
/// The maximum number of objects in one object.
const MAX_PARTS: usize = 200_000;

/// An object, or an operator of a content stream. Clones are cheap, whatever its size.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Object {
    /// `null`, and whatever is missing.
    #[default]
    Null,
    Number(f64),
    Name(Rc<str>),
    Text(Rc<[u8]>),
    List(Rc<[Object]>),
    Dict(Dict),
    /// A dictionary with bytes of the file.
    Stream(Rc<Stream>),
    /// A reference to the object of this number.
    Reference(u32),
    /// Any other word: an operator, `obj`, `true`, or a delimiter without its counterpart.
    Word(Rc<str>),
}

/// A dictionary.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Dict(Rc<BTreeMap<Rc<str>, Object>>);

/// A stream.
#[derive(Debug, PartialEq)]
pub(super) struct Stream {
    pub(super) dict: Dict,
    /// The place of its packed bytes in the file.
    pub(super) place: std::ops::Range<usize>,
}

impl Object {
    /// Returns the number, if it is one.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the number as an index; fractions are cut off. `None` for negative numbers.
    pub(super) fn index(&self) -> Option<usize> {
        self.number().filter(|number| *number >= 0.0).map(|number| number as usize)
    }

    /// Returns the name, if it is one.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Returns `true` for this word.
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if **own == *word)
    }
}

impl Dict {
    /// Returns an entry, not resolved; `Null` if there is none.
    pub(super) fn get(&self, key: &str) -> &Object {
        self.0.get(key).unwrap_or(&Object::Null)
    }

    /// Returns an entry under one of two keys.
    pub(super) fn either(&self, key: &str, short: &str) -> &Object {
        self.0.get(key).unwrap_or_else(|| self.get(short))
    }

    /// Returns `true` for clones of the same dictionary.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Sets an entry.
    pub(super) fn set(&mut self, key: &str, value: Object) {
        Rc::make_mut(&mut self.0).insert(key.into(), value);
    }

    /// Adds entries. Of keys in both, the new values are used, or with `keeps` the old ones.
    pub(super) fn merge(&mut self, other: &Self, keeps: bool) {
        let own = Rc::make_mut(&mut self.0);
        for (key, value) in other.0.iter() {
            match keeps {
                true => drop(own.entry(key.clone()).or_insert_with(|| value.clone())),
                false => drop(own.insert(key.clone(), value.clone())),
            }
        }
    }
}

/// Reads objects from bytes.
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    parts: usize,
    /// Reads `1 0 R` as a reference. Content streams have none.
    has_references: bool,
    work: &'a Work<'a>,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\0' | b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

fn is_regular(byte: u8) -> bool {
    !is_space(byte) && !b"()<>[]{}/%".contains(&byte)
}

impl<'a> Lexer<'a> {
    /// Reads the objects of a file.
    pub(super) fn new(bytes: &'a [u8], at: usize, work: &'a Work<'a>) -> Self {
        Self { bytes, at, parts: 0, has_references: true, work }
    }

    /// Reads the operands and operators of a content stream.
    pub(super) fn of_content(bytes: &'a [u8], work: &'a Work<'a>) -> Self {
        Self { has_references: false, ..Self::new(bytes, 0, work) }
    }

    /// Returns the position behind the last object.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reads the next object; `None` at the end.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn next(&mut self) -> Result<Option<Object>, DocumentError> {
        self.parts = 0;
        self.object(0)
    }

    /// Skips the bytes of an inline image, from `ID` to behind `EI`.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn skip_image(&mut self) -> Result<(), DocumentError> {
        let from = self.at;
        for end in memchr::memmem::find_iter(self.rest(), b"EI") {
            let (before, behind) = (from + end, from + end + 2);
            let is_between = before > from && self.bytes.get(before - 1).is_some_and(|byte| is_space(*byte));
            if is_between && self.bytes.get(behind).is_none_or(|byte| is_space(*byte)) {
                self.at = behind;
                return self.work.bytes(behind - from);
            }
        }
        self.at = self.bytes.len();
        self.work.bytes(self.at.saturating_sub(from))
    }

    /// Moves to the first byte of a stream's data, behind the line of `stream`.
    pub(super) fn skip_to_data(&mut self) -> usize {
        if self.peek() == Some(b'\r') {
            self.at += 1;
        }
        if self.peek() == Some(b'\n') {
            self.at += 1;
        }
        self.at
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    fn take(&mut self, is_part: impl Fn(u8) -> bool) -> Result<&'a [u8], DocumentError> {
        let rest = self.rest();
        let length = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
        self.at += length;
        self.work.bytes(length)?;
        Ok(&rest[..length])
    }

    fn skip_space(&mut self) -> Result<(), DocumentError> {
        loop {
            self.take(is_space)?;
            if self.peek() != Some(b'%') {
                return Ok(());
            }
            self.take(|byte| !matches!(byte, b'\r' | b'\n'))?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Option<Object>, DocumentError> {
        if depth > MAX_DEPTH {
            return Err(DocumentError::Damaged("its objects are nested too deeply"));
        }
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(DocumentError::TooMany { what: "parts of an object", limit: MAX_PARTS });
        }
        self.work.step()?;
        self.skip_space()?;
        let Some(first) = self.peek() else { return Ok(None) };
        let object = match first {
            b'/' => {
                self.at += 1;
                Object::Name(self.name()?.into())
            }
            b'(' => Object::Text(self.literal()?.into()),
            b'<' if self.rest().starts_with(b"<<") => {
                self.at += 2;
                Object::Dict(self.dict(depth)?)
            }
            b'<' => Object::Text(self.hexadecimal()?.into()),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while let Some(item) = self.object(depth + 1)? {
                    match item {
                        item if item.is_word("]") || item.is_word("endobj") => break,
                        item => items.push(item),
                    }
                }
                Object::List(items.into())
            }
            b'>' if self.rest().starts_with(b">>") => {
                self.at += 2;
                Object::Word(">>".into())
            }
            b')' | b'>' | b']' | b'{' | b'}' => {
                self.at += 1;
                Object::Word(char::from(first).to_string().into())
            }
            b'+' | b'-' | b'.' | b'0'..=b'9' => self.number_or_reference()?,
            _ => {
                let word = self.take(is_regular)?;
                match word {
                    b"null" => Object::Null,
                    word => Object::Word(String::from_utf8_lossy(word).into()),
                }
            }
        };
        Ok(Some(object))
    }

    fn dict(&mut self, depth: usize) -> Result<Dict, DocumentError> {
        let mut entries = BTreeMap::new();
        while let Some(key) = self.object(depth + 1)? {
            match key {
                Object::Name(key) => match self.object(depth + 1)? {
                    Some(word) if word.is_word(">>") || word.is_word("endobj") => break,
                    Some(value) => {
                        entries.insert(key, value);
                    }
                    None => break,
                },
                word if word.is_word(">>") || word.is_word("endobj") => break,
                _ => {}
            }
        }
        Ok(Dict(Rc::new(entries)))
    }

    fn name(&mut self) -> Result<String, DocumentError> {
        let raw = self.take(is_regular)?;
        let (mut name, mut rest) = (Vec::with_capacity(raw.len()), raw);
        while let Some((first, behind)) = rest.split_first() {
            let code = behind
                .get(..2)
                .filter(|_| *first == b'#')
                .and_then(|two| Some(digit(two[0])? << 4 | digit(two[1])?));
            name.push(code.unwrap_or(*first));
            rest = if code.is_some() { &behind[2..] } else { behind };
        }
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    fn number_or_reference(&mut self) -> Result<Object, DocumentError> {
        let raw = self.take(|byte| matches!(byte, b'+' | b'-' | b'.' | b'0'..=b'9'))?;
        if self.has_references && raw.iter().all(u8::is_ascii_digit) {
            let behind = self.at;
            self.take(is_space)?;
            let generation = self.take(|byte| byte.is_ascii_digit())?;
            self.take(is_space)?;
            let is_end = self.bytes.get(self.at + 1).is_none_or(|byte| !is_regular(*byte));
            if !generation.is_empty() && generation.len() <= 5 && self.peek() == Some(b'R') && is_end {
                self.at += 1;
                let number = std::str::from_utf8(raw).ok().and_then(|raw| raw.parse().ok());
                return Ok(number.map_or(Object::Null, Object::Reference));
            }
            self.at = behind;
        }
        let (mut number, mut scale, mut is_negative) = (0.0, None, false);
        for byte in raw {
            match byte {
                b'-' => is_negative = true,
                b'.' if scale.is_none() => scale = Some(1.0),
                digit @ b'0'..=b'9' => {
                    let digit = f64::from(digit - b'0');
                    match &mut scale {
                        Some(scale) => {
                            *scale /= 10.0;
                            number += digit * *scale;
                        }
                        None => number = number * 10.0 + digit,
                    }
                }
                _ => {}
            }
        }
        Ok(Object::Number(if is_negative { -number } else { number }))
    }

    fn hexadecimal(&mut self) -> Result<Vec<u8>, DocumentError> {
        self.at += 1;
        let raw = self.take(|byte| byte != b'>')?;
        self.at += 1;
        Ok(from_hexadecimal(raw))
    }

    fn literal(&mut self) -> Result<Vec<u8>, DocumentError> {
        let from = self.at;
        self.at += 1;
        let (mut text, mut open) = (Vec::new(), 1_usize);
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'(' => open += 1,
                b')' => open -= 1,
                b'\\' => {
                    self.escape(&mut text);
                    continue;
                }
                _ => {}
            }
            if open == 0 {
                break;
            }
            text.push(byte);
        }
        self.work.bytes(self.at - from)?;
        Ok(text)
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, text: &mut Vec<u8>) {
        let Some(byte) = self.peek() else { return };
        self.at += 1;
        match byte {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'\r' if self.peek() == Some(b'\n') => self.at += 1,
            b'\r' | b'\n' => {}
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.peek() else { break };
                    code = code << 3 | u32::from(digit - b'0');
                    self.at += 1;
                }
                text.push((code & 0xff) as u8);
            }
            other => text.push(other),
        }
    }
}

/// Returns the bytes of hexadecimal digits, up to `>`; other characters are skipped, a missing last digit is 0.
pub(super) fn from_hexadecimal(raw: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> =
        raw.iter().take_while(|byte| **byte != b'>').filter_map(|byte| digit(*byte)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)).collect()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_as_written() {
        let work = Work::new(&|| false);
        let text = b"<< /A#42 [1 -2.5 (a\\(b(c)\\101\\\nd) <4 1 4> 7 0 R true] % no\n/N null /S/T >> stream";
        let mut lexer = Lexer::new(text, 0, &work);
        let Some(Object::Dict(dict)) = lexer.next().unwrap() else { panic!() };
        let expected = [
            Object::Number(1.0),
            Object::Number(-2.5),
            Object::Text(b"a(b(c)Ad"[..].into()),
            Object::Text([0x41, 0x40].into()),
            Object::Reference(7),
            Object::Word("true".into()),
        ];
        assert_eq!(dict.get("AB"), &Object::List(expected.into()));
        assert_eq!((dict.get("N"), dict.get("S").name()), (&Object::Null, Some("T")));
        assert!(lexer.next().unwrap().unwrap().is_word("stream"));
        assert_eq!(lexer.next().unwrap(), None);
        let mut content = Lexer::of_content(b"1 0 R Tj", &work);
        assert_eq!(content.next().unwrap(), Some(Object::Number(1.0)));
    }

    #[test]
    fn nesting_and_parts_are_limited() {
        let work = Work::new(&|| false);
        let deep = [b"[".repeat(100), b"<</A".repeat(100)].concat();
        assert!(matches!(Lexer::new(&deep, 0, &work).next(), Err(DocumentError::Damaged(_))));
        let many = [b"[".to_vec(), b"0 ".repeat(MAX_PARTS + 1)].concat();
        assert!(matches!(Lexer::new(&many, 0, &work).next(), Err(DocumentError::TooMany { .. })));
    }
}
