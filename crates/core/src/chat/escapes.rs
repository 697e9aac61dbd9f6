//! Escapes of letters in the JSON text of a tool's arguments, such as `\u00e9`, which many services write for all but
//! ASCII letters. Guards search the letters.

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
    if !text.contains("\\u") {
        return text;
    }
    let (mut out, rest) = resolve(&text);
    out.push_str(rest);
    out
}

/// An escape, with its length in bytes.
enum Read {
    /// The text ends before the escape does.
    Incomplete,
    /// `\u…`, and the letter unless JSON requires its escape.
    Letter(Option<char>, usize),
    Other(usize),
}

fn read(escape: &str) -> Read {
    let bytes = escape.as_bytes();
    match bytes.get(1) {
        None => return Read::Incomplete,
        Some(b'u') => {}
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
    }
}
