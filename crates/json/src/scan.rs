//! Search for the end of strings, sixteen bytes at a time and sixty-four in long texts, in safe code.

use wide::u8x16;

/// Returns the number of leading bytes that are not a quote, a backslash or a control character.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    // Most keys and values end in the first block.
    match bytes.first_chunk().map(|block| specials(*block)) {
        Some(0) => long_plain(bytes),
        Some(found) => found.trailing_zeros() as usize,
        None => bytes.iter().position(|&byte| is_special(byte)).unwrap_or(bytes.len()),
    }
}

/// Does the same for bytes whose first block is plain.
#[inline(never)]
fn long_plain(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks();
    let (groups, _) = blocks[1..].as_chunks();
    let skipped = 1 + BLOCKS * groups.iter().take_while(|group| !has_special(group)).count();
    for (at, block) in blocks.iter().enumerate().skip(skipped) {
        let found = specials(*block);
        if found != 0 {
            return at * BLOCK + found.trailing_zeros() as usize;
        }
    }
    // The last block overlaps bytes that are known to be plain.
    match bytes.last_chunk().map(|last| specials(*last)) {
        Some(found) if found != 0 => bytes.len() - BLOCK + found.trailing_zeros() as usize,
        _ => bytes.len(),
    }
}

/// Moves to the next byte that is not white space and returns it.
#[inline(always)]
pub(super) fn peek(text: &[u8], at: &mut usize) -> Option<u8> {
    // Many writers put one space after colons and commas.
    if text.get(*at) == Some(&b' ') {
        *at += 1;
    }
    let byte = *text.get(*at)?;
    if byte > b' ' {
        return Some(byte);
    }
    skip_space(text, at);
    text.get(*at).copied()
}

/// Moves to the next byte that is not white space.
#[inline(never)]
pub(super) fn skip_space(text: &[u8], at: &mut usize) {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(*at) {
        *at += 1;
    }
}

/// Returns the place after the JSON string that starts at a place, and `true` if it has no escapes.
#[inline(always)]
pub(super) fn string(text: &[u8], at: usize) -> Option<(usize, bool)> {
    let (b'"', inside) = text.get(at..)?.split_first()? else { return None };
    // Most keys and values end in the first block.
    if let Some(block) = inside.first_chunk() {
        let found = specials(*block);
        let end = at + 1 + found.trailing_zeros() as usize;
        if found != 0 && text[end] == b'"' {
            return Some((end + 1, true));
        }
    }
    long_string(text, at + 1)
}

/// Returns the place after the string whose inside starts at a place, and `true` if it has no escapes.
#[inline(never)]
fn long_string(text: &[u8], mut at: usize) -> Option<(usize, bool)> {
    // The place of the last escape, 0 if there is none.
    let mut last = 0;
    // All special bytes of a group are found at once, because texts with quotes or line breaks have an escape
    // every few words.
    while at < text.len() {
        let mut found = specials_of_group(&group(&text[at..]));
        let mut next = at + size_of::<Group>();
        while found != 0 {
            let first = found.trailing_zeros();
            let place = at + first as usize;
            if let Some([b'\\', escape]) = text.get(place..place + 2)
                && IS_SHORT_ESCAPE[usize::from(*escape)]
            {
                found &= !(0b11 << first);
                last = place;
                continue;
            }
            match text.get(place)? {
                b'"' => return Some((place + 1, last == 0)),
                b'\\' => last = place,
                _ => return None,
            }
            let after = text.len() - after_unicode_escape(&text[place..])?.len();
            if after >= next {
                next = after;
                break;
            }
            found &= u64::MAX << (after - at);
        }
        at = next.max(last + 2);
    }
    None
}

/// Returns the first bytes, padded with spaces.
#[inline]
fn group(bytes: &[u8]) -> Group {
    let (blocks, _) = bytes.as_chunks();
    blocks.first_chunk().copied().unwrap_or_else(|| {
        let mut group = [[b' '; BLOCK]; BLOCKS];
        let length = bytes.len().min(size_of::<Group>());
        group.as_flattened_mut()[..length].copy_from_slice(&bytes[..length]);
        group
    })
}

/// The bytes that form an escape with the backslash before them.
const IS_SHORT_ESCAPE: [bool; 256] = {
    let mut is_short = [false; 256];
    let mut rest: &[u8] = br#""\/bfnrt"#;
    while let [byte, others @ ..] = rest {
        is_short[*byte as usize] = true;
        rest = others;
    }
    is_short
};

/// Returns the text after the escape of a code unit or a surrogate pair that starts here, if it is valid.
fn after_unicode_escape(text: &[u8]) -> Option<&[u8]> {
    let (first, after) = hex4(text.strip_prefix(b"\\u")?)?;
    match first {
        0xd800..0xdc00 => {
            let (second, after) = hex4(after.strip_prefix(b"\\u")?)?;
            (0xdc00..0xe000).contains(&second).then_some(after)
        }
        0xdc00..0xe000 => None,
        _ => Some(after),
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
/// The number of blocks processed at a time in long texts.
const BLOCKS: usize = 4;

type Group = [[u8; BLOCK]; BLOCKS];

/// Returns a bit for each special byte, the lowest bit for the first byte.
#[inline]
fn specials(block: [u8; BLOCK]) -> u32 {
    marked(block).to_bitmask()
}

/// Returns a bit for each special byte of a group, the lowest bit for the first byte.
#[inline]
fn specials_of_group(group: &Group) -> u64 {
    group.iter().rev().fold(0, |found, block| found << BLOCK | u64::from(specials(*block)))
}

/// Returns `true` if one of the blocks has a special byte.
#[inline]
fn has_special(group: &Group) -> bool {
    let [a, b, c, d] = group.map(marked);
    (a | b | c | d).to_bitmask() != 0
}

/// Sets all bits of each special byte, and clears those of other bytes.
#[inline]
fn marked(block: [u8; BLOCK]) -> u8x16 {
    let bytes = u8x16::new(block);
    let is_control = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
    bytes.simd_eq(u8x16::splat(b'"')) | bytes.simd_eq(u8x16::splat(b'\\')) | is_control
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The parts of generated strings, including their ends and invalid characters.
    const PIECES: &str = r#"[a-zäß ]{1,18}|[a-z ]{60,140}|\\["\\/bfnrt]|\\u[0-9a-f]{4}|\\ud8[0-9a-f]{2}\\udc[0-9a-f]{2}|["\\\n]"#;

    proptest! {
        #[test]
        fn the_scan_agrees_with_a_bytewise_search(bytes in prop::collection::vec(any::<u8>(), 0..64), plain_text in "[a-zäß]{0,300}") {
            let bytes = [plain_text.as_bytes(), &bytes].concat();
            let slow = bytes.iter().position(|&byte| is_special(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(plain(&bytes), slow);
        }

        #[test]
        fn the_scan_finds_string_ends_and_invalid_strings(pieces in prop::collection::vec(PIECES, 0..12), rest in "[ -~]{0,40}") {
            let text = format!("\"{}\"{rest}", pieces.concat());
            let whole = serde_json::Deserializer::from_str(&text).into_iter::<String>().next();
            let slow = whole.and_then(Result::ok).map(|_| ());
            let found = string(text.as_bytes(), 0);
            prop_assert_eq!(found.map(|_| ()), slow, "{}", text);
            if let Some((length, is_plain)) = found {
                prop_assert!(serde_json::from_str::<String>(&text[..length]).is_ok(), "{length} of {text}");
                prop_assert_eq!(is_plain, !text[..length].contains('\\'));
            }
        }
    }
}
