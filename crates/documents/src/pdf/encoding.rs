//! The letters of one-byte codes: base encodings and names of glyphs.

use super::object::Object;

/// A table of 256 codes; `'\0'` is a code without a letter.
pub(super) type Letters = [char; 256];

/// Codes 128 to 159 of Windows-1252.
const WINDOWS: &str = "€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ";
/// Codes 128 to 255 of Mac OS Roman.
const MAC: &str = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»… ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\0ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ";
/// Codes 161 to 251 of the standard encoding.
const STANDARD: &str = "¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ\0–†‡·\0¶•‚„”»…‰\0¿\0`´ˆ˜¯˘˙¨\0˚¸\0˝˛ˇ—\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0Æ\0ª\0\0\0\0ŁØŒº\0\0\0\0\0æ\0\0\0ı\0\0łøœß";
/// Names of glyphs and the codes of their letters, one a line.
const GLYPHS: &str = include_str!("glyphs.txt");

/// Returns the table of a base encoding: of Windows or of Mac OS, otherwise the standard one.
pub(super) fn base(name: &str) -> Letters {
    let mut letters = ['\0'; 256];
    for code in 32..127_u8 {
        letters[usize::from(code)] = char::from(code);
    }
    let mut put = |from: usize, text: &str| {
        for (place, letter) in letters[from..].iter_mut().zip(text.chars()) {
            *place = letter;
        }
    };
    match name {
        "WinAnsiEncoding" => {
            put(128, WINDOWS);
            (160..=255).for_each(|code| put(usize::from(code), char::from(code).encode_utf8(&mut [0; 4])));
        }
        "MacRomanEncoding" => put(128, MAC),
        _ => {
            put(39, "’");
            put(96, "‘");
            put(161, STANDARD);
        }
    }
    letters
}

/// Applies the list of differences: numbers are codes, names the glyphs of this code and the following ones.
pub(super) fn differ(letters: &mut Letters, differences: &[Object]) {
    let mut code = 0;
    for item in differences {
        if let Some(number) = item.index() {
            code = number;
        } else if let Some(name) = item.name() {
            if let Some(place) = letters.get_mut(code) {
                *place = letter(name).unwrap_or('\0');
            }
            code = code.saturating_add(1);
        }
    }
}

/// Returns the letter that the name of a glyph means.
fn letter(name: &str) -> Option<char> {
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return Some(letter);
    }
    let known = GLYPHS.lines().find_map(|line| {
        let code = line.strip_prefix(name)?.strip_prefix(" U+")?;
        char::from_u32(u32::from_str_radix(code, 16).ok()?)
    });
    known.or_else(|| match name {
        "f_f" => Some('ﬀ'),
        "f_i" => Some('ﬁ'),
        "f_l" => Some('ﬂ'),
        "f_f_i" => Some('ﬃ'),
        "f_f_l" => Some('ﬄ'),
        _ => {
            let digits = name.strip_prefix("uni").or_else(|| name.strip_prefix('u'))?;
            let is_code =
                (4..=6).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_code.then(|| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32))?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_letter() {
        for line in GLYPHS.lines() {
            let name = line.split(' ').next().unwrap();
            assert!(letter(name).is_some_and(|letter| letter != '\0'), "{line}");
        }
        let known = ["A", "eacute", "germandbls", "Scaron", "fi", "omega", "summation", "uni20AC", "u1F980"];
        assert_eq!(known.map(|name| letter(name).unwrap()).iter().collect::<String>(), "AéßŠﬁω∑€🦀");
        assert_eq!(["a.sc", "f_i", "g12", ".notdef"].map(letter), [Some('a'), Some('ﬁ'), None, None]);
    }

    #[test]
    fn encodings_differ_above_ascii() {
        let codes = |name, codes: [usize; 4]| codes.map(|code| base(name)[code]).iter().collect::<String>();
        assert_eq!(codes("WinAnsiEncoding", [0x41, 0x80, 0x97, 0xe9]), "A€—é");
        assert_eq!(codes("MacRomanEncoding", [0x41, 0x8e, 0xd1, 0xdb]), "Aé—€");
        assert_eq!(codes("StandardEncoding", [0x27, 0xae, 0xd0, 0xfb]), "’ﬁ—ß");
        assert_eq!(codes("StandardEncoding", [0xe1, 0xe8, 0xf1, 0xf5]), "ÆŁæı");
        let mut letters = base("");
        let differences = [Object::Number(65.0), Object::Name("eacute".into()), Object::Name("g7".into())];
        differ(&mut letters, &differences);
        assert_eq!([letters[65], letters[66], letters[67]], ['é', '\0', 'C']);
    }
}
