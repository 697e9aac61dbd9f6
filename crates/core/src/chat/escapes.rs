//! Escapes of letters in the JSON text of a tool's arguments, such as `\u00e9`, which many services write for all but
//! ASCII letters. Guards search the letters.
//!
//! Texts in arguments can be JSON themselves, with escapes such as `\\u00e9`. They are searched with all escapes
//! resolved, but sent as they are unless a guard changes them: in another text, `\\u00e9` are six characters.

use compact_str::CompactString;

/// Replaces the escapes of letters by the letters. Also returns the start of an incomplete escape at the end.
pub(super) fn resolve(text: &str) -> (CompactString, &str) {
    let mut out = CompactString::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let (letter, length) = match read(escape) {
            Read::Incomplete => return (out, escape),
            Read::Letter(letter, length) => (letter, length),
            Read::Other(length) => (None, length),
        };
        match letter {
            Some(letter) => out.push(letter),
            None => out.push_str(&escape[..length]),
        }
        rest = &escape[length..];
    }
    out.push_str(rest);
    (out, "")
}

/// Returns a text with its escapes of letters resolved.
pub(super) fn resolved(text: CompactString) -> CompactString {
    if !text.contains('\\') {
        return text;
    }
    let (mut out, rest) = resolve(&text);
    out.push_str(rest);
    out
}

/// Returns a text with its escapes of letters resolved, and with those in texts that are JSON themselves.
pub(super) fn resolved_below(text: &str) -> CompactString {
    let text = resolved(text.into());
    if !has_below(&text) {
        return text;
    }
    parts_below(&text).map(|(_, part)| part).collect()
}

/// Returns `true` if a text may have escapes in texts that are JSON themselves.
pub(super) fn has_below(text: &str) -> bool {
    text.contains("\\\\")
}

/// Returns the parts of a text, each with its length in bytes: single characters, and runs of backslashes with the
/// letter that they escape in a text below.
pub(super) fn parts_below(text: &str) -> impl Iterator<Item = (usize, CompactString)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let backslashes = rest.len() - rest.trim_start_matches('\\').len();
        let (length, part) = match backslashes {
            0 => (first.len_utf8(), CompactString::from(&rest[..first.len_utf8()])),
            // Each level of JSON doubles them, so a power of two belongs to the letter.
            many => match read(&rest[many - 1..]) {
                Read::Letter(Some(letter), length) => {
                    let mut part = CompactString::from(&rest[..many - (1 << many.trailing_zeros())]);
                    part.push(letter);
                    (many - 1 + length, part)
                }
                _ => (many, rest[..many].into()),
            },
        };
        rest = &rest[length..];
        Some((length, part))
    })
}

/// Returns the length of the end of a text that may become an escape, in bytes.
pub(super) fn begun_below(text: &str) -> usize {
    let Some(at) = text.rfind('\\') else { return 0 };
    match read(&text[at..]) {
        Read::Incomplete => text.len() - text[..at].trim_end_matches('\\').len(),
        _ => 0,
    }
}

/// An escape, with its length in bytes.
enum Read {
    /// The text ends before the escape does.
    Incomplete,
    /// `\u…` or `\/`, and the letter unless JSON requires its escape.
    Letter(Option<char>, usize),
    Other(usize),
}

fn read(escape: &str) -> Read {
    let bytes = escape.as_bytes();
    match bytes.get(1) {
        None => return Read::Incomplete,
        Some(b'u') => {}
        Some(b'/') => return Read::Letter(Some('/'), 2),
        Some(_) => return Read::Other(1 + escape[1..].chars().next().map_or(0, char::len_utf8)),
    }
    let unit = |from: usize| match escape.get(from..from + 4) {
        Some(digits) => u32::from_str_radix(digits, 16).map_err(|_| ()).map(Some),
        None => Ok(None),
    };
    let first = match unit(2) {
        Ok(Some(first)) => first,
        Ok(None) if bytes.len() < 6 => return Read::Incomplete,
        _ => return Read::Other(2),
    };
    let (code, length) = match first {
        0xD800..0xDC00 => match (bytes.get(6), bytes.get(7)) {
            (None, _) | (Some(b'\\'), None) => return Read::Incomplete,
            (Some(b'\\'), Some(b'u')) => match unit(8) {
                Ok(Some(second @ 0xDC00..0xE000)) => {
                    (0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00), 12)
                }
                Ok(None) if bytes.len() < 12 => return Read::Incomplete,
                _ => return Read::Letter(None, 6),
            },
            _ => return Read::Letter(None, 6),
        },
        code => (code, 6),
    };
    let letter = char::from_u32(code).filter(|letter| !letter.is_control() && !['"', '\\'].contains(letter));
    Read::Letter(letter, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_json::Json;

    #[test]
    fn escapes_of_letters_are_resolved_and_those_that_json_requires_stay() {
        for (text, out, rest) in [
            (r#"{"a":"sk\u002dA\u00e9"}"#, r#"{"a":"sk-Aé"}"#, ""),
            (r#"\ud83d\ude00!"#, "😀!", ""),
            (r#"\u0022\u005c\u000a\n\\u0041\""#, r#"\u0022\u005c\u000a\n\\u0041\""#, ""),
            (r#"\ud83dx\ude00"#, r#"\ud83dx\ude00"#, ""),
            (r#"\uzzzz\u-041"#, r#"\uzzzz\u-041"#, ""),
            (r"a\", "a", r"\"),
            (r"a\u00", "a", r"\u00"),
            (r"a\ud83d\ude", "a", r"\ud83d\ude"),
            (r"\é\u00e", r"\é", r"\u00e"),
        ] {
            assert_eq!(resolve(text), (out.into(), rest), "{text}");
        }
        assert_eq!(resolved(r"\u0041\u00".into()), r"A\u00");
        assert_eq!(resolved(r"1\/2\\/3".into()), r"1/2\\/3");
    }

    #[test]
    fn escapes_in_texts_below_are_resolved() {
        let mut text = r"SEC\u0052ET a\/b \u0022".to_owned();
        for _ in 0..4 {
            assert!(resolved_below(&text).contains("SECRET a/b"), "{text}");
            text = Json::from(text.as_str()).to_string();
            assert!(Json::parse(resolved_below(&text).as_bytes()).is_ok(), "{text}");
        }
        for (text, below) in
            [(r"\\\u0041", r"\\A"), (r"\\\\\\u0041", r"\\\\A"), (r"\\n\\u000a\\\\", r"\\n\\u000a\\\\")]
        {
            assert_eq!(resolved_below(text), below, "{text}");
        }
        for (text, length) in
            [(r"a\\", 2), (r"a\\u", 3), (r"a\\u004", 6), (r"a\\u0041", 0), (r"a\\n", 0), ("a", 0)]
        {
            assert_eq!(begun_below(text), length, "{text}");
        }
    }
}
