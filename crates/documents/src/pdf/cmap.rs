//! Tables from the codes of a font to letters, as fonts embed them.

use super::super::error::DocumentError;
use super::object::{Lexer, Object};
use super::ranges::Ranges;
use super::work::Work;

/// The maximum number of operands of an operator.
const MAX_OPERANDS: usize = 1_000;
/// The maximum number of bytes of the letters of a code.
const MAX_LETTERS: usize = 64;

/// A table of letters, and the lengths of codes.
#[derive(Debug)]
pub(super) struct Cmap {
    /// The places of the letters of the first code.
    letters: Ranges<(u32, u32)>,
    /// The letters of all codes.
    text: String,
    /// The ranges of codes: the number of bytes, the first and the last code.
    codes: Vec<(usize, u32, u32)>,
}

impl Cmap {
    /// Reads a table. Unknown operators are skipped.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn read(bytes: &[u8], work: &Work<'_>) -> Result<Self, DocumentError> {
        let mut cmap = Self { letters: Ranges::new(), text: String::new(), codes: Vec::new() };
        let (mut operands, mut lexer) = (Vec::new(), Lexer::of_content(bytes, work));
        while let Some(object) = lexer.next()? {
            let Object::Word(word) = object else {
                if operands.len() < MAX_OPERANDS {
                    operands.push(object);
                }
                continue;
            };
            match &*word {
                "endcodespacerange" => {
                    for pair in operands.chunks_exact(2) {
                        if let [Object::Text(low), Object::Text(high)] = pair
                            && (1..=4).contains(&low.len())
                            && cmap.codes.len() < 100
                        {
                            cmap.codes.push((low.len(), code(low), code(high)));
                        }
                    }
                }
                "endbfchar" => {
                    for pair in operands.chunks_exact(2) {
                        if let [Object::Text(from), to] = pair {
                            cmap.add(code(from), code(from), to, work)?;
                        }
                    }
                }
                "endbfrange" => {
                    for three in operands.chunks_exact(3) {
                        match three {
                            [Object::Text(low), Object::Text(_), Object::List(each)] => {
                                for (offset, to) in (0_u32..).zip(each.iter()) {
                                    let from = code(low).saturating_add(offset);
                                    cmap.add(from, from, to, work)?;
                                }
                            }
                            [Object::Text(low), Object::Text(high), to] => {
                                cmap.add(code(low), code(high), to, work)?;
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            operands.clear();
        }
        cmap.letters.sort();
        Ok(cmap)
    }

    fn add(&mut self, low: u32, high: u32, to: &Object, work: &Work<'_>) -> Result<(), DocumentError> {
        let Object::Text(to) = to else { return Ok(()) };
        let start = self.text.len();
        self.text.push_str(&utf16(&to[..to.len().min(MAX_LETTERS)]));
        // Streams unpack to less than that.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.letters.add(low, high, (place(start), place(self.text.len())), work)
    }

    /// Returns `true` if the table defines the lengths of codes.
    pub(super) fn has_lengths(&self) -> bool {
        !self.codes.is_empty()
    }

    /// Returns the length of the first code, in bytes.
    pub(super) fn length(&self, bytes: &[u8]) -> usize {
        let mut number = 0;
        for (length, byte) in (1..=4).zip(bytes) {
            number = number << 8 | u32::from(*byte);
            if self.codes.iter().any(|(own, low, high)| *own == length && (*low..=*high).contains(&number)) {
                return length;
            }
        }
        self.codes.first().map_or(2, |(length, ..)| *length)
    }

    /// Appends the letters of a code. Returns `false` if it has none.
    pub(super) fn write(&self, code: u32, to: &mut String) -> bool {
        let Some((low, (start, end))) = self.letters.get(code) else { return false };
        let (offset, letters) = (code - low, &self.text[start as usize..end as usize]);
        let mut all = letters.chars();
        let Some(last) = all.next_back() else { return true };
        to.push_str(all.as_str());
        to.extend(u32::from(last).checked_add(offset).and_then(char::from_u32));
        true
    }
}

/// Returns the code of these bytes.
pub(super) fn code(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |code, byte| code << 8 | u32::from(*byte))
}

/// Decodes UTF-16 in big-endian order.
pub(super) fn utf16(bytes: &[u8]) -> String {
    // A letter of one byte is damaged, and means itself.
    if let [one] = bytes {
        return char::from(*one).to_string();
    }
    let units = bytes.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    char::decode_utf16(units).filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_lengths_and_letters() {
        let text = b"/CIDInit /ProcSet findresource begin 2 begincodespacerange <00> <7F> <8000> <FFFF> \
            endcodespacerange 2 beginbfchar <01> <0041> <8001> <D83EDD80> endbfchar 2 beginbfrange \
            <10> <12> <00660061> <20> <21> [<0078> <0079>] endbfrange endcmap";
        let cmap = Cmap::read(text, &Work::new(&|| false)).unwrap();
        assert!(cmap.has_lengths());
        assert_eq!([cmap.length(b"\x01"), cmap.length(b"\x80\x01")], [1, 2]);
        let mut letters = String::new();
        for code in [1, 0x8001, 0x10, 0x12, 0x21] {
            assert!(cmap.write(code, &mut letters));
        }
        assert_eq!(letters, "A🦀fafcy");
        assert!(!cmap.write(2, &mut letters) && !cmap.write(0x13, &mut letters));
    }
}
