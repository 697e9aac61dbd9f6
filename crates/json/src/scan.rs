//! Search for the end of strings, sixteen bytes at a time, in safe code.

use wide::u8x16;

/// Returns the number of leading bytes that are not a quote, a backslash or a control character.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    let (blocks, rest) = bytes.as_chunks();
    for (at, block) in blocks.iter().enumerate() {
        let found = specials(*block);
        if found != 0 {
            return at * BLOCK + found.trailing_zeros() as usize;
        }
    }
    let at = bytes.len() - rest.len();
    at + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

/// Returns the length of the JSON string that starts here, including its quotes, and `true` if it has no
/// escapes.
pub(super) fn string(text: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut is_plain) = (text.starts_with(b"\"").then_some(1)?, true);
    // All special bytes of a block are found at once, because texts with quotes or line breaks have an escape
    // every few words.
    while at < text.len() {
        let mut found = specials(block(&text[at..]));
        let mut next = at + BLOCK;
        while found != 0 {
            let place = at + found.trailing_zeros() as usize;
            if text[place] == b'"' {
                return Some((place + 1, is_plain));
            }
            is_plain = false;
            let after = text.len() - after_escape(&text[place..])?.len();
            if after >= next {
                next = after;
                break;
            }
            found &= u32::MAX << (after - at);
        }
        at = next;
    }
    None
}

/// Returns the first bytes, padded with spaces.
#[inline]
fn block(bytes: &[u8]) -> [u8; BLOCK] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut block = [b' '; BLOCK];
        block[..bytes.len()].copy_from_slice(bytes);
        block
    })
}

/// Returns the text after the escape that starts here, if it is valid.
fn after_escape(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => Some(after),
        [b'\\', b'u', digits @ ..] => {
            let (first, after) = hex4(digits)?;
            match first {
                0xd800..0xdc00 => {
                    let (second, after) = hex4(after.strip_prefix(b"\\u")?)?;
                    (0xdc00..0xe000).contains(&second).then_some(after)
                }
                0xdc00..0xe000 => None,
                _ => Some(after),
            }
        }
        _ => None,
    }
}

/// Returns the value of four hexadecimal digits and the text after them.
pub(super) fn hex4(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, after) = text.split_first_chunk::<4>()?;
    let value = digits
        .iter()
        .try_fold(0, |value, &digit| char::from(digit).to_digit(16).map(|digit| value << 4 | digit))?;
    Some((value, after))
}

pub(super) const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The number of bytes processed at a time.
const BLOCK: usize = 16;

/// Returns a bit for each special byte, the lowest bit for the first byte.
#[inline]
fn specials(block: [u8; BLOCK]) -> u32 {
    let bytes = u8x16::new(block);
    let is_control = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    let found = bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\')) | is_control;
    found.to_bitmask()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parts of generated strings, including their ends and invalid characters.
    const PIECES: &str =
        r#"[a-zäß ]{1,18}|\\["\\/bfnrt]|\\u[0-9a-f]{4}|\\ud8[0-9a-f]{2}\\udc[0-9a-f]{2}|["\\\n]"#;

    proptest! {
        #[test]
        fn the_scan_agrees_with_a_bytewise_search(bytes in prop::collection::vec(any::<u8>(), 0..64), plain_text in "[a-zäß]{0,32}") {
            let bytes = [plain_text.as_bytes(), &bytes].concat();
            let slow = bytes.iter().position(|&byte| is_special(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain(&bytes), slow);
        }

        #[test]
        fn the_scan_finds_string_ends_and_invalid_strings(pieces in prop::collection::vec(PIECES, 0..12), rest in "[ -~]{0,40}") {
            let text = format!("\"{}\"{rest}", pieces.concat());
            let whole = serde_json::Deserializer::from_str(&text).into_iter::<String>().next();
            let slow = whole.and_then(Result::ok).map(|_| ());
            let found = string(text.as_bytes());
            prop_assert_eq!(found.map(|_| ()), slow, "{}", text);
            if let Some((length, is_plain)) = found {
                prop_assert!(serde_json::from_str::<String>(&text[..length]).is_ok(), "{length} of {text}");
                prop_assert_eq!(is_plain, !text[..length].contains('\\'));
            }
        }
    }
}
