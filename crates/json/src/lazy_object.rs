//! A scanner for the entries of an object that creates no values, for code that needs a few fields of a body
//! that is passed through unchanged.

use crate::entries::KeyFilter;
use crate::scan;
use crate::value::MAX_DEPTH;

/// Calls `entry` with the raw text of each key and value, in order. Returns `false` if the text is not a JSON
/// object or a key has escapes; `entry` may have been called before that is detected.
pub fn scan_object<'a>(text: &'a [u8], entry: impl FnMut(&'a str, &'a str)) -> bool {
    scan_object_and_list(text, "", entry, |_| ())
}

/// Reads the outermost entries of a JSON object like [`scan_object`], and calls `member` with each entry of the objects
/// in the list under the key `list`, as bytes of UTF-8, and with `None` after each item. Keys of items may have escapes.
pub fn scan_object_and_list<'a>(
    text: &'a [u8],
    list: &str,
    mut entry: impl FnMut(&'a str, &'a str),
    mut member: impl FnMut(Option<(&'a [u8], &'a [u8])>),
) -> bool {
    let Ok(text) = simdutf8::basic::from_utf8(text) else { return false };
    let bytes = text.as_bytes();
    let mut object = LazyObject { bytes, at: 0 };
    let read = object.members(b'{', b'}', |own| {
        let (key, is_plain) = own.key()?;
        let (key, first) = (is_plain.then(|| &text[key.0..key.1])?, own.peek()?);
        let start = own.at;
        if first == b'[' && key == list {
            own.members(b'[', b']', |own| {
                match own.peek()? {
                    b'{' => own.object(2, |key, value| {
                        member(Some((&bytes[key.0..key.1], &bytes[value.0..value.1])))
                    })?,
                    _ => own.value(2)?,
                }
                member(None);
                Some(())
            })?;
        } else {
            own.value(1)?;
        }
        entry(key, &text[start..own.at]);
        Some(())
    });
    scan::skip_space(object.bytes, &mut object.at);
    read.is_some() && object.at == text.len()
}

/// An object of plain values.
pub(super) struct Flat {
    pub(super) length: usize,
    pub(super) keys: KeyFilter,
    /// Set if all values are strings that are not empty.
    pub(super) has_only_texts: bool,
}

/// Returns the object that starts here if it has only plain values, no escapes in keys and, as far as a quick check
/// shows, no repeated keys.
pub(super) fn flat(text: &str) -> Option<Flat> {
    let mut object = LazyObject { bytes: text.as_bytes(), at: 0 };
    let (mut keys, mut has_only_texts) = (KeyFilter::default(), true);
    object.members(b'{', b'}', |own| {
        let (key, is_plain) = own.key()?;
        match own.peek()? {
            b'{' | b'[' => None,
            first if is_plain && keys.add(&own.bytes[key.0..key.1]) => {
                has_only_texts &= first == b'"' && own.bytes.get(own.at + 1) != Some(&b'"');
                own.value(0)
            }
            _ => None,
        }
    })?;
    Some(Flat { length: object.at, keys, has_only_texts })
}

/// Returns the text of such an object from the value of a key on.
pub(super) fn from_value_of<'a>(text: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let mut object = LazyObject { bytes: text, at: 1 };
    while object.peek()? == b'"' {
        let rest = &text[object.at + 1..];
        let is_wanted = rest.get(key.len()) == Some(&b'"') && rest.starts_with(key.as_bytes());
        let length = if is_wanted { key.len() } else { rest.iter().position(|byte| *byte == b'"')? };
        object.at += length + 2;
        object.take(b':')?;
        object.peek()?;
        if is_wanted {
            return text.get(object.at..);
        }
        object.value(0)?;
        if object.peek()? == b',' {
            object.at += 1;
        }
    }
    None
}

/// Returns the raw text of the JSON value at the start of `text`; `None` if `text` does not start with a value. Does not
/// check that the value is valid UTF-8.
pub fn raw_value(text: &[u8]) -> Option<&[u8]> {
    let mut object = LazyObject { bytes: text, at: 0 };
    object.value(0)?;
    text.get(..object.at)
}

/// The start and end positions of a text.
type Span = (usize, usize);

struct LazyObject<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl LazyObject<'_> {
    /// Returns the next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        scan::peek(self.bytes, &mut self.at)
    }

    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn object(&mut self, depth: usize, mut entry: impl FnMut(Span, Span)) -> Option<()> {
        self.members(b'{', b'}', |own| {
            let (key, is_plain) = own.key()?;
            // Only the keys of the outermost object are read.
            if depth == 0 && !is_plain {
                return None;
            }
            own.peek()?;
            let start = own.at;
            own.value(depth + 1)?;
            entry(key, (start, own.at));
            Some(())
        })
    }

    /// Scans a key and its colon. Returns its span, and `true` if it has no escapes.
    #[inline(always)]
    fn key(&mut self) -> Option<(Span, bool)> {
        self.peek()?;
        let start = self.at + 1;
        let is_plain = self.string()?;
        let key = (start, self.at - 1);
        self.take(b':')?;
        Some((key, is_plain))
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.members(b'[', b']', |own| own.value(depth + 1))
    }

    /// Scans the members between two brackets, separated by commas.
    fn members(
        &mut self,
        open: u8,
        close: u8,
        mut member: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.take(open)?;
        if self.peek()? == close {
            return self.take(close);
        }
        loop {
            member(self)?;
            match self.peek()? {
                b',' => self.at += 1,
                byte if byte == close => return self.take(close),
                _ => return None,
            }
        }
    }

    #[inline(always)]
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            first => self.other(first, depth),
        }
    }

    /// Scans a value that is not a string.
    fn other(&mut self, first: u8, depth: usize) -> Option<()> {
        match first {
            b'{' | b'[' if depth >= MAX_DEPTH => None,
            b'{' => self.object(depth, |_, _| ()),
            b'[' => self.array(depth),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    /// Scans a string. Returns `true` if it has no escapes.
    #[inline(always)]
    fn string(&mut self) -> Option<bool> {
        let (end, is_plain) = scan::string(self.bytes, self.at)?;
        self.at = end;
        Some(is_plain)
    }

    fn number(&mut self) -> Option<()> {
        self.skip(|byte| byte == b'-', 1);
        match self.bytes.get(self.at)? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.skip(|byte| byte == b'.', 1) {
            self.digits()?;
        }
        if self.skip(|byte| matches!(byte, b'e' | b'E'), 1) {
            self.skip(|byte| matches!(byte, b'+' | b'-'), 1);
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        self.skip(|byte| byte.is_ascii_digit(), usize::MAX).then_some(())
    }

    /// Skips up to `most` matching bytes. Returns `true` if any was skipped.
    fn skip(&mut self, is: impl Fn(u8) -> bool, most: usize) -> bool {
        let skipped = self.bytes[self.at..].iter().take(most).take_while(|byte| is(**byte)).count();
        self.at += skipped;
        skipped > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;
    use proptest::prelude::*;

    fn entries(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut all = Vec::new();
        scan_object(text.as_bytes(), |key, value| all.push((key, value))).then_some(all)
    }

    #[test]
    fn a_lazy_object_reads_raw_fields() {
        let text = r#" { "a" : [1, {"b":"]}\"\\"}] ,"c":-0.5e+2,"":null,"d":"\u00e4" } "#;
        let all = [("a", r#"[1, {"b":"]}\"\\"}]"#), ("c", "-0.5e+2"), ("", "null"), ("d", "\"\\u00e4\"")];
        assert_eq!(entries(text).unwrap(), all);
        assert_eq!(entries("{}").unwrap(), []);
    }

    #[test]
    fn a_lazy_object_declines_other_values_and_escaped_keys() {
        for text in [
            "",
            "[]",
            "1",
            "{",
            "{}x",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            r#"{"a\u0062":1}"#,
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":tru}",
            "{\"a\":\"\n\"}",
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12"}"#,
        ] {
            assert_eq!(entries(text), None, "{text}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert_eq!(entries(&deep), None);
        assert!(entries(&deep.replace("[[", "[").replace("]]", "]")).is_some());
    }

    proptest! {
        /// The parser accepts exactly the texts that the scanner accepts.
        #[test]
        fn a_lazy_object_accepts_what_the_parser_accepts(text in r#"\{("[a-b]{0,2}":([0-9.e-]{1,4}|"[a-z\\"u0-9]{0,7}"|\[[0-9,\[\]]{0,5}\]|null|\{\}),?){0,3}\}"#) {
            let parsed = Json::parse(text.as_bytes()).is_ok();
            let scanned = entries(&text).is_some();
            prop_assert!(scanned || !parsed, "only the parser takes {text}");
            prop_assert!(parsed || !scanned, "only the scan takes {text}");
        }
    }
}
