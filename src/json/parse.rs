//! From bytes to [`Json`], in one pass, keeping key order and the spelling of numbers.
//!
//! Our own, because no library keeps both without slowing everybody else's numbers down. What it
//! accepts is checked against `serde_json` by the tests; that library also words the errors.

use super::container::Builder;
use super::{Array, Json, MAX_DEPTH, Number};
use compact_str::CompactString;

/// Why bytes are no JSON, with line and column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

struct Invalid;

pub(super) fn parse(bytes: &[u8]) -> Result<Json, ParseError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ParseError(format!("invalid UTF-8 after byte {}", error.valid_up_to())))?;
    let mut parser = Parser { text, bytes, at: 0, depth: 0 };
    let value = parser.document();
    value.map_err(|Invalid| explain(bytes, parser.depth))
}

/// The slow way again, only to say what is wrong and where.
fn explain(bytes: &[u8], depth: usize) -> ParseError {
    if depth > MAX_DEPTH {
        return ParseError(format!("nested deeper than {MAX_DEPTH} levels"));
    }
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Err(error) => ParseError(error.to_string()),
        Ok(_) => ParseError("not a JSON document".into()),
    }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<Json, Invalid> {
        let value = self.value()?;
        self.skip_space();
        if self.at == self.bytes.len() { Ok(value) } else { Err(Invalid) }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Result<u8, Invalid> {
        self.skip_space();
        self.bytes.get(self.at).copied().ok_or(Invalid)
    }

    fn value(&mut self) -> Result<Json, Invalid> {
        match self.peek()? {
            b'"' => self.string().map(Json::Text),
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => Err(Invalid),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json, Invalid>) -> Result<Json, Invalid> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Invalid);
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, Invalid> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(Invalid)
        }
    }

    fn object(&mut self) -> Result<Json, Invalid> {
        let mut object = Builder::default();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(object.finish());
        }
        loop {
            if self.peek()? != b'"' {
                return Err(Invalid);
            }
            let key = self.string()?;
            if self.peek()? != b':' {
                return Err(Invalid);
            }
            self.at += 1;
            let value = self.value()?;
            object.insert(key, value);
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(object.finish());
                }
                _ => return Err(Invalid),
            }
        }
    }

    fn array(&mut self) -> Result<Json, Invalid> {
        let mut items = Vec::new();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Json::Array(Array::new(items)));
        }
        loop {
            items.push(self.value()?);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(Json::Array(Array::new(items)));
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

    fn number(&mut self) -> Result<Json, Invalid> {
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
        Ok(Json::Number(Number::from_spelling(&self.text[start..self.at])))
    }

    /// A string; `at` stands on its opening quote.
    fn string(&mut self) -> Result<CompactString, Invalid> {
        self.at += 1;
        let start = self.at;
        self.skip_plain();
        match self.bytes.get(self.at) {
            Some(b'"') => {
                let text = CompactString::new(&self.text[start..self.at]);
                self.at += 1;
                Ok(text)
            }
            Some(b'\\') => self.escaped_string(start),
            _ => Err(Invalid),
        }
    }

    /// Moves on to the next quote, backslash or control character.
    fn skip_plain(&mut self) {
        self.at += super::scan::plain(&self.bytes[self.at..]);
    }

    fn escaped_string(&mut self, start: usize) -> Result<CompactString, Invalid> {
        let mut text = String::with_capacity(self.at - start + 64);
        text.push_str(&self.text[start..self.at]);
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text.into());
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                _ => return Err(Invalid),
            }
            let start = self.at;
            self.skip_plain();
            text.push_str(&self.text[start..self.at]);
        }
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
        let digits = self.bytes.get(self.at..self.at + 4).ok_or(Invalid)?;
        self.at += 4;
        digits.iter().try_fold(0, |code, &digit| {
            char::from(digit).to_digit(16).map(|digit| code << 4 | digit).ok_or(Invalid)
        })
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
    fn what_serde_json_refuses_is_refused_with_its_words() {
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
    fn numbers_keep_their_spelling() {
        for text in
            ["1e2", "1.10", "18446744073709551615", "123456789012345678901234567890", "-0", "1.0", "1E-7"]
        {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().to_string(), text);
        }
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
        fn reads_and_writes_as_serde_json_does(value in json()) {
            let text = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(Json::parse(text.as_bytes()).unwrap().to_string(), text);
            let pretty = serde_json::to_vec_pretty(&value).unwrap();
            prop_assert_eq!(serde_json::Value::from(&Json::parse(&pretty).unwrap()), value);
        }

        #[test]
        fn never_disagrees_about_what_json_is(text in r#"[\[\]{}:,"\\a-f0-9eE.+\- u]{0,24}"#) {
            // Surrogates and depth aside, both accept the same documents.
            prop_assert_eq!(Json::parse(text.as_bytes()).is_ok(), accepted(text.as_bytes()), "{}", text);
        }
    }
}
