//! Where strings end: eight bytes at a time, in safe arithmetic.

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGH: u64 = ONES << 7;

/// How many bytes at the start are neither a quote, a backslash nor a control character.
pub(super) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

/// How long the string of JSON is that begins here, with its quotes, and whether it has no escapes.
pub(super) fn string(text: &[u8]) -> Option<(usize, bool)> {
    let (mut rest, mut is_plain) = (text.strip_prefix(b"\"")?, true);
    loop {
        rest = &rest[plain(rest)..];
        match rest {
            [b'"', after @ ..] => return Some((text.len() - after.len(), is_plain)),
            [b'\\', after @ ..] => rest = after_escape(after)?,
            _ => return None,
        }
        is_plain = false;
    }
}

/// What follows an escape of which the backslash was read.
fn after_escape(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..] => Some(after),
        [b'u', digits @ ..] => {
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

/// The number of four hex digits, and what follows them.
pub(super) fn hex4(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, after) = text.split_first_chunk::<4>()?;
    let value = digits
        .iter()
        .try_fold(0, |value, &digit| char::from(digit).to_digit(16).map(|digit| value << 4 | digit))?;
    Some((value, after))
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The high bit of each byte that is special; bits above the first one found may be wrong, which
/// is why only the lowest is read.
const fn specials(word: u64) -> u64 {
    let quote = zeros(word ^ (ONES * b'"' as u64));
    let backslash = zeros(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGH
}

const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_look_at_each_byte_finds(bytes in prop::collection::vec(any::<u8>(), 0..64), plain_text in "[a-zäß]{0,32}") {
            let bytes = [plain_text.as_bytes(), &bytes].concat();
            let slow = bytes.iter().position(|&byte| is_special(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain(&bytes), slow);
        }
    }
}
