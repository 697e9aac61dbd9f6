//! Documents with escapes of half a surrogate pair, which a text cannot hold.

use crate::parse::ParseError;
use crate::scan::hex4;
use crate::value::Json;

impl Json {
    /// Parses one JSON document, in which an escape of half a surrogate pair is read as U+FFFD: services that cut texts
    /// by their UTF-16 units send the halves of an emoji apart.
    ///
    /// # Errors
    /// Returns the errors of [`Json::parse`] for everything else.
    pub fn parse_lenient(document: &[u8]) -> Result<Self, ParseError> {
        Self::parse(document).or_else(|error| match without_lone_surrogates(document) {
            Some(repaired) => Self::parse(&repaired),
            None => Err(error),
        })
    }
}

/// Returns a document with U+FFFD in place of each escape of half a surrogate pair; `None` if it has none.
pub fn without_lone_surrogates(document: &[u8]) -> Option<Vec<u8>> {
    let unit = |at: usize| document.get(at..)?.strip_prefix(b"\\u").and_then(hex4).map(|(unit, _)| unit);
    let (mut repaired, mut at) = (None, 0);
    while let Some(found) = document.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == b'\\')) {
        let start = at + found;
        at = match unit(start) {
            Some(0xd800..0xdc00) if matches!(unit(start + 6), Some(0xdc00..0xe000)) => start + 12,
            Some(0xd800..0xe000) => {
                let repaired = repaired.get_or_insert_with(|| document.to_vec());
                repaired[start..start + 6].copy_from_slice(b"\\ufffd");
                start + 6
            }
            // The next byte may be a backslash that begins no escape.
            _ => start + 2,
        };
    }
    repaired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_everything_else_is_strict() {
        for (document, text) in [
            (r#""a\ud83d""#, Some("a\u{fffd}")),
            (r#""\uDE00b\ud83d\ud83d\ude00""#, Some("\u{fffd}b\u{fffd}\u{1f600}")),
            (r#""\\ud83d\ud83d\n""#, Some("\\ud83d\u{fffd}\n")),
            (r#""\ud83d\u0041""#, Some("\u{fffd}A")),
            (r#""\ud83"#, None),
            (r#""\ud83d"#, None),
            (r#""\ud83d\"#, None),
            (r#""\x""#, None),
        ] {
            let read = Json::parse_lenient(document.as_bytes()).ok();
            assert_eq!(read, text.map(Json::from), "{document}");
        }
        assert!(Json::parse(br#""a\ud83d""#).is_err(), "documents are strict");
    }
}
