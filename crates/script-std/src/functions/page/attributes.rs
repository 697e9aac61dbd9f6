//! The attributes in a start tag.

use html_escape::decode_html_entities;
use std::borrow::Cow;

/// Returns the attributes in the text between the name of a tag and its `>`: names as written, and decoded values (`""`
/// without one).
pub(crate) fn attributes(text: &str) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return None;
        }
        // As in browsers, a name may begin with `=`.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/'));
        let (name, behind) = rest.split_at(end.map_or(rest.len(), |end| first + end));
        rest = behind.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let Some(value) = rest.strip_prefix('=') else { return Some((name, Cow::Borrowed(""))) };
        let value = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let (value, behind) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            _ => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
        };
        rest = behind;
        Some((name, decode_html_entities(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_browsers_read_them() {
        for (text, expected) in [
            ("", vec![]),
            (" a='1' B=\"2 > 1\" c=3/ d", vec![("a", "1"), ("B", "2 > 1"), ("c", "3/"), ("d", "")]),
            (" href = x?a=1&amp;b=2 /", vec![("href", "x?a=1&b=2")]),
            ("\n\tchecked\n", vec![("checked", "")]),
            (" a='1'b='2", vec![("a", "1"), ("b", "2")]),
            (" =x ==y", vec![("=x", "=y")]),
            (" ä='é'", vec![("ä", "é")]),
        ] {
            let read: Vec<(&str, String)> =
                attributes(text).map(|(name, value)| (name, value.into_owned())).collect();
            let expected: Vec<(&str, String)> =
                expected.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
            assert_eq!(read, expected, "{text}");
        }
    }
}
