//! The parser from bytes to [`Json`], in one pass, preserving key order and the spelling of numbers.
//!
//! No library preserves both without slowing down other users of its numbers. The accepted language is tested
//! against `serde_json`, which also provides the error messages.

use crate::entries::Unread;
use crate::lazy_object::Flat;
use crate::number::Number;
use crate::string::{self, Invalid};
use crate::text::Text;
use crate::value::{Array, Json, MAX_DEPTH, Object};
use crate::{lazy_object, scan};
use bytes::Bytes;
use compact_str::CompactString;
use std::borrow::Cow;
use std::fmt;

/// The error of a parser, with line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    message: String,
    has_too_many_values: bool,
}

impl ParseError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), has_too_many_values: false }
    }

    /// Returns `true` if the document has more values than the parser allows.
    pub fn has_too_many_values(&self) -> bool {
        self.has_too_many_values
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ParseError {}

/// The maximum number of values in a document, unless the caller sets another one. A value takes more memory than its
/// text: `[]` takes 40 times as much.
const MAX_VALUES: usize = 2 << 20;

impl Json {
    /// Parses one JSON document.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a JSON document, are nested deeper than [`MAX_DEPTH`], or have more than
    /// 2,097,152 values.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        parse(bytes, MAX_VALUES)
    }

    /// Parses one JSON document with at most this many values.
    ///
    /// # Errors
    /// Returns an error if there are more values, and the errors of [`Json::parse`].
    pub fn parse_within(bytes: &[u8], most_values: usize) -> Result<Self, ParseError> {
        parse(bytes, most_values)
    }

    /// Parses one JSON document lazily: long strings, and objects of plain values in lists, stay in the
    /// document until they are read. If the body is passed on, this saves most of the work and a second copy in
    /// memory.
    ///
    /// # Errors
    /// Returns the errors of [`Json::parse`].
    pub fn parse_shared(document: &Bytes) -> Result<Self, ParseError> {
        parse_shared(document)
    }

    /// Parses one JSON document with at most this many values, as [`Json::parse_shared`] does. Also returns the
    /// approximate number of its values.
    ///
    /// # Errors
    /// Returns an error if there are more values, and the errors of [`Json::parse`].
    pub fn parse_shared_within(document: &Bytes, most_values: usize) -> Result<(Self, usize), ParseError> {
        read(document, most_values, Some(document))
    }
}

fn parse(bytes: &[u8], most_values: usize) -> Result<Json, ParseError> {
    read(bytes, most_values, None).map(|(json, _)| json)
}

pub(super) fn parse_shared(document: &Bytes) -> Result<Json, ParseError> {
    read(document, MAX_VALUES, Some(document)).map(|(json, _)| json)
}

fn read(bytes: &[u8], most_values: usize, shared: Option<&Bytes>) -> Result<(Json, usize), ParseError> {
    let text = simdutf8::compat::from_utf8(bytes)
        .map_err(|error| ParseError::new(format!("invalid UTF-8 after byte {}", error.valid_up_to())))?;
    let left = most_values.saturating_add(1);
    let mut parser = Parser { left, shared, ..Parser::new(text, SLOTS) };
    match parser.document() {
        Ok(value) => Ok((value, left - parser.left)),
        Err(Invalid) if parser.left == 0 => {
            Err(ParseError { message: format!("more than {most_values} values"), has_too_many_values: true })
        }
        Err(Invalid) => Err(explain(bytes, parser.depth)),
    }
}

/// Returns the entries of an object that was verified to have plain values.
pub(super) fn entries(spelling: &Bytes) -> Vec<(CompactString, Json)> {
    let Ok(text) = simdutf8::basic::from_utf8(spelling) else { return Vec::new() };
    let mut parser = Parser { shared: Some(spelling), at: 1, ..Parser::new(text, SLOTS) };
    parser.entries().unwrap_or_default()
}

/// Parses again with `serde_json` to determine the error and its position.
fn explain(bytes: &[u8], depth: usize) -> ParseError {
    if depth > MAX_DEPTH {
        return ParseError::new(format!("nested deeper than {MAX_DEPTH} levels"));
    }
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Err(error) => ParseError::new(error.to_string()),
        Ok(_) => ParseError::new("not a JSON document"),
    }
}

/// A parser that creates values in the slot where they wait for the end of their container, so that
/// results are small. Moving a new string costs as much as creating it.
struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// The entries of the open containers, the innermost last; elements of arrays have no key. A container
    /// takes its own from the end when it closes, into memory of exactly the right size.
    slots: Vec<(CompactString, Json)>,
    /// The number of values that may still follow, plus one.
    left: usize,
    /// The document, if long strings stay in it.
    shared: Option<&'a Bytes>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, slots: usize) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            depth: 0,
            slots: Vec::with_capacity(slots),
            left: usize::MAX,
            shared: None,
        }
    }

    fn document(&mut self) -> Result<Json, Invalid> {
        self.slots.push(EMPTY);
        self.value()?;
        scan::skip_space(self.bytes, &mut self.at);
        if self.at < self.bytes.len() {
            return Err(Invalid);
        }
        self.slots.pop().map(|(_, document)| document).ok_or(Invalid)
    }

    /// Returns the next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Result<u8, Invalid> {
        scan::peek(self.bytes, &mut self.at).ok_or(Invalid)
    }

    /// Returns the most recently opened slot.
    fn slot(&mut self) -> Result<&mut (CompactString, Json), Invalid> {
        self.slots.last_mut().ok_or(Invalid)
    }

    fn put(&mut self, value: Json) -> Result<(), Invalid> {
        self.slot()?.1 = value;
        Ok(())
    }

    /// Parses a value into the most recently opened slot.
    fn value(&mut self) -> Result<(), Invalid> {
        self.left -= 1;
        if self.left == 0 {
            return Err(Invalid);
        }
        match self.peek()? {
            b'"' => {
                if let Some(kept) = self.kept()? {
                    return self.put(Json::Text(kept));
                }
                let text = string::read(self.text, &mut self.at)?;
                let Json::Text(place) = &mut self.slot()?.1 else { return Err(Invalid) };
                put_text(text, place.plain_mut().ok_or(Invalid)?);
                Ok(())
            }
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => Err(Invalid),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<(), Invalid>) -> Result<(), Invalid> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Invalid);
        }
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn word(&mut self, word: &str, value: Json) -> Result<(), Invalid> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            self.put(value)
        } else {
            Err(Invalid)
        }
    }

    fn object(&mut self) -> Result<(), Invalid> {
        let entries = self.entries()?;
        self.put(Json::Object(Object::new(entries)))
    }

    /// Parses the entries and the end of an object.
    fn entries(&mut self) -> Result<Vec<(CompactString, Json)>, Invalid> {
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(Vec::new());
        }
        let start = self.slots.len();
        loop {
            let key = self.key()?;
            self.slots.push((key, EMPTY.1));
            self.value()?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(self.slots.split_off(start));
                }
                _ => return Err(Invalid),
            }
        }
    }

    /// Returns an object of plain values, such as a message, that is long enough to stay in its document.
    fn unread(&mut self) -> Result<Option<Unread>, Invalid> {
        let Some(document) = self.shared else { return Ok(None) };
        if self.peek()? != b'{' || self.depth >= MAX_DEPTH {
            return Ok(None);
        }
        let found = lazy_object::flat(&self.text[self.at..]).filter(|flat| flat.length >= KEPT);
        if found.is_some() {
            self.left = self.left.saturating_sub(UNREAD_VALUES);
            if self.left == 0 {
                return Err(Invalid);
            }
        }
        Ok(found.map(|Flat { length, keys, has_only_texts }| {
            let start = self.at;
            self.at += length;
            Unread { spelling: document.slice(start..self.at), keys, has_only_texts }
        }))
    }

    /// Parses a key and its colon.
    #[inline]
    fn key(&mut self) -> Result<CompactString, Invalid> {
        if self.peek()? != b'"' {
            return Err(Invalid);
        }
        let key = string::read(self.text, &mut self.at)?;
        if self.peek()? != b':' {
            return Err(Invalid);
        }
        self.at += 1;
        Ok(key.into())
    }

    fn array(&mut self) -> Result<(), Invalid> {
        if self.peek()? == b']' {
            self.at += 1;
            return self.put(Json::array());
        }
        let start = self.slots.len();
        loop {
            match self.unread()? {
                Some(unread) => self.slots.push((EMPTY.0, Json::Object(Object::unread(unread)))),
                None => {
                    self.slots.push(EMPTY);
                    self.value()?;
                }
            }
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    let items = self.slots.drain(start..).map(|(_, item)| item).collect();
                    return self.put(Json::Array(Array::new(items)));
                }
                _ => return Err(Invalid),
            }
        }
    }

    fn digits(&mut self) -> Result<(), Invalid> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if self.at == start { Err(Invalid) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), Invalid> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.put(Json::Number(Number::from_spelling(&self.text[start..self.at])))
    }

    /// Returns a string that is long enough to stay in its document.
    fn kept(&mut self) -> Result<Option<Text>, Invalid> {
        let Some(document) = self.shared else { return Ok(None) };
        let (end, _) = scan::string(self.bytes, self.at).ok_or(Invalid)?;
        if end - self.at < KEPT {
            return Ok(None);
        }
        let start = std::mem::replace(&mut self.at, end);
        Ok(Some(Text::raw(document.slice(start..end))))
    }
}

/// A newly opened slot, into which strings can be written.
const EMPTY: (CompactString, Json) = (CompactString::const_new(""), Json::Text(Text::empty()));

/// The initial number of slots, which suffices for most events.
const SLOTS: usize = 16;

/// The number of values for which an object counts that stays in its document.
const UNREAD_VALUES: usize = 4;

/// The minimum length, including quotes, of a string that stays in its document.
const KEPT: usize = 64;

/// Writes a string to an empty slot.
fn put_text(text: Cow<'_, str>, place: &mut CompactString) {
    match text {
        Cow::Borrowed(text) if text.len() <= size_of::<CompactString>() => place.push_str(text),
        Cow::Borrowed(text) => *place = text.into(),
        Cow::Owned(text) => *place = text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepted(text: &[u8]) -> bool {
        serde_json::from_slice::<serde_json::Value>(text).is_ok()
    }

    #[test]
    fn invalid_json_has_the_error_of_serde_json() {
        let cases: &[&str] = &[
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":}",
            "{\"a\" 1}",
            "nul",
            "01",
            "1.",
            "-",
            "1e",
            "\"\\x\"",
            "\"\u{1}\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "[1] 2",
            "{\"a\":1,}",
            "+1",
            ".5",
            "NaN",
            "'a'",
            "\"a",
            "\"\\u12\"",
        ];
        for case in cases {
            let error = Json::parse(case.as_bytes()).expect_err(case);
            assert!(!accepted(case.as_bytes()), "{case}");
            assert!(error.to_string().contains("line"), "{case}: {error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert!(Json::parse(deep.as_bytes()).unwrap_err().to_string().contains("128"));
        let fits = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(Json::parse(fits.as_bytes()).is_ok());
    }

    #[test]
    fn the_number_of_values_can_be_bounded() {
        let text = br#"{"a": [1, {}], "b": "[,,,,]"}"#;
        assert!(Json::parse_within(text, 5).is_ok());
        assert_eq!(Json::parse_within(text, 4).unwrap_err().to_string(), "more than 4 values");
        assert!(Json::parse_within(b"[1, x]", 4).unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn numbers_keep_their_notation() {
        for text in
            ["1e2", "1.10", "18446744073709551615", "123456789012345678901234567890", "-0", "1.0", "1E-7"]
        {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_repeated_key_keeps_its_first_position_and_last_value() {
        let large: String = (0..40).map(|index| format!(r#","{}":{index}"#, index % 25)).collect();
        for text in [
            r#"{"a":1,"b":2,"a":3}"#.to_owned(),
            r#"{"a":1,"\u0061":{"x":[]}}"#.to_owned(),
            format!(r#"{{"a":0{large}}}"#),
        ] {
            let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
            let parsed = Json::parse(text.as_bytes()).unwrap();
            assert_eq!(parsed.to_string(), expected.to_string());
            assert!(parsed.is_changed(), "{text}");
            let within = format!(r#"[{{"x":{text}}}]"#);
            assert!(Json::parse_shared(&within.into()).unwrap().is_changed(), "{text}");
            assert!(!Json::parse(expected.to_string().as_bytes()).unwrap().is_changed(), "{text}");
        }
    }

    #[test]
    fn strings_are_read_at_every_length_with_and_without_escapes() {
        for length in 0..64 {
            let plain = format!("{}{}", "ü".repeat(length / 2), "x".repeat(length % 2));
            for text in [plain.clone(), format!("{plain}\n"), format!("\"{plain}\\")] {
                let value = Json::from([(text.as_str(), Json::from(vec![Json::from(text.as_str())]))]);
                let bytes = value.encode().unwrap();
                assert_eq!(Json::parse(&bytes).unwrap(), value);
            }
        }
    }

    fn shared(text: &str) -> Result<Json, ParseError> {
        Json::parse_shared(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_long_text_borrows_its_document_and_keeps_its_notation() {
        let long = format!(r#""\u00e4\/{}\ud83d\ude00""#, "x".repeat(80));
        let document = Bytes::from(format!(r#"{{"a":{long},"b":"\u00e4","c":[{long}]}}"#));
        let json = Json::parse_shared(&document).unwrap();
        let raw = |json: &Json| String::from_utf8(json.encode_raw().unwrap()).unwrap();
        assert_eq!(raw(&json), format!(r#"{{"a":{long},"b":"ä","c":[{long}]}}"#));
        let text = format!("ä/{}😀", "x".repeat(80));
        assert_eq!(json.text("a").unwrap(), text);
        assert_eq!(json.get("a"), Some(text.as_str().into()));
        assert_eq!(json.deep_clone(), Json::parse(&document).unwrap());
        json.set("a", "short").unwrap();
        assert_eq!(raw(&json), format!(r#"{{"a":"short","b":"ä","c":[{long}]}}"#));
        assert_eq!(json.to_string(), format!(r#"{{"a":"short","b":"ä","c":["{text}"]}}"#), "decoded");
    }

    #[test]
    fn a_document_with_too_many_values_is_an_error_and_unread_messages_count() {
        let within =
            |text: &str, most| Json::parse_shared_within(&Bytes::copy_from_slice(text.as_bytes()), most);
        assert_eq!(within("[1,2,3]", 4).unwrap().1, 4);
        let error = within("[1,2,3]", 3).unwrap_err();
        assert!(error.has_too_many_values() && error.to_string() == "more than 3 values", "{error}");
        assert!(!within("[1,2,", 100).unwrap_err().has_too_many_values());
        let message = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(80));
        let messages = format!("[{message},{message},{message}]");
        assert_eq!(within(&messages, 100).unwrap().1, 1 + 3 * UNREAD_VALUES);
        for most in 0..=3 * UNREAD_VALUES {
            assert!(within(&messages, most).unwrap_err().has_too_many_values(), "{most}");
        }
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        assert!(Json::parse(many.as_bytes()).unwrap_err().has_too_many_values());
        assert!(shared(&many).unwrap_err().has_too_many_values());
    }

    #[test]
    fn an_unread_message_borrows_its_document() {
        let message = format!(r#"{{ "role": "user", "content": "\u00e4{}" }}"#, "x".repeat(80));
        let document = Bytes::from(format!(r#"{{"messages":[{message},{message}],"user":"u"}}"#));
        let body = Json::parse_shared(&document).unwrap();
        body.set("user", "v").unwrap();
        let messages = body.get("messages").unwrap();
        assert_eq!(messages.at(0).unwrap().text("role").unwrap(), "user");
        let raw = |json: &Json| String::from_utf8(json.encode_raw().unwrap()).unwrap();
        assert_eq!(raw(&body), format!(r#"{{"messages":[{message},{message}],"user":"v"}}"#));
        messages.at(0).unwrap().set("content", "other").unwrap();
        let changed = r#"{"role":"user","content":"other"}"#;
        assert_eq!(raw(&body), format!(r#"{{"messages":[{changed},{message}],"user":"v"}}"#));
        assert!(messages.is_changed());
        let read_only =
            Json::parse_shared(&document).unwrap().freeze().get("messages").unwrap().at(0).unwrap();
        assert_eq!(read_only.set("role", "tool"), Err(crate::MisplacedValue::ReadOnly));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::vec((any::<String>(), inner), 0..8)
                    .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parsing_and_writing_agree_with_serde_json(value in json()) {
            let text = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(Json::parse(text.as_bytes()).unwrap().to_string(), text);
            let pretty = serde_json::to_vec_pretty(&value).unwrap();
            prop_assert_eq!(serde_json::Value::from(&Json::parse(&pretty).unwrap()), value);
        }

        /// The property also covers objects of plain values in lists.
        #[test]
        fn unread_values_equal_read_ones(objects in prop::collection::vec(r#"\{("(a|b|role|\\u0061)": ?("[a-z\\"u0-9é]{0,40}"|-?[0-9.e]{1,4}|true|null|\[\]|\{\}),? ?){0,4}\}"#, 0..4), key in "(a|b|c|role)") {
            let text = format!("[{}]", objects.join(","));
            match (Json::parse(text.as_bytes()), shared(&text)) {
                (Ok(read), Ok(kept)) => {
                    let raw = kept.encode_raw().unwrap();
                    prop_assert_eq!(&Json::parse(&raw).unwrap(), &read, "written unread");
                    let copy = kept.deep_clone();
                    // By a repeated key.
                    let is_changed = read.is_changed();
                    prop_assert_eq!(kept.is_changed(), is_changed);
                    for (one, other) in kept.items().iter().zip(read.items()) {
                        prop_assert_eq!(one.text(&key), other.text(&key));
                        let has = |it: &Json| it.as_object().map(|it| it.contains(&key));
                        prop_assert_eq!(has(one), has(&other));
                        prop_assert_eq!(one.get(&key), other.get(&key));
                        let _ = one.set("new", 1_i64);
                    }
                    let is_new = read.items().iter().any(|it| it.as_object().is_some());
                    prop_assert_eq!(kept.is_changed(), is_new || is_changed);
                    prop_assert_eq!(copy.to_string(), read.to_string());
                }
                (read, kept) => prop_assert_eq!(read, kept),
            }
        }

        /// The property covers long strings with all escapes, read at once or later.
        #[test]
        fn borrowed_values_equal_owned_ones(text in r#"\["([a-z ]{0,40}|é|\\[\\"/bfnrt]|\\u[0-9a-fA-F]{4}|\\u[dD][89a-bA-B][0-9a-f]{2}\\u[dD][c-fC-F][0-9a-f]{2}){0,12}"\]"#) {
            match (Json::parse(text.as_bytes()), shared(&text)) {
                (Ok(read), Ok(kept)) => {
                    prop_assert_eq!(&Json::parse(kept.to_string().as_bytes()).unwrap(), &read, "written unread");
                    prop_assert_eq!(kept, read);
                }
                (read, kept) => prop_assert_eq!(read, kept),
            }
        }

        #[test]
        fn the_parser_accepts_exactly_what_serde_json_accepts(text in r#"[\[\]{}:,"\\a-f0-9eE.+\- u]{0,24}"#) {
            // Except for surrogates and depth, both accept the same documents.
            prop_assert_eq!(Json::parse(text.as_bytes()).is_ok(), accepted(text.as_bytes()), "{}", text);
            prop_assert_eq!(shared(&text).is_ok(), accepted(text.as_bytes()), "{}", text);
        }
    }
}
