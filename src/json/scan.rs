//! Where the plain part of a string ends: eight bytes at a time, in safe arithmetic.

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
