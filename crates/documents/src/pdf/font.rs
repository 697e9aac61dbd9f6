//! Fonts: the letters and widths of their codes.

use super::super::error::DocumentError;
use super::super::limits::MAX_TEXT;
use super::cmap::{Cmap, code, utf16};
use super::encoding::{Letters, base, differ};
use super::file::File;
use super::object::{Dict, Lexer, Object};
use super::ranges::Ranges;

/// The widths of Helvetica from the space to the tilde, for the fonts that files need not describe.
const HELVETICA: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278,
    500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// A font.
pub(super) struct Font {
    /// The letters of codes as the font lists them.
    listed: Option<Cmap>,
    kind: Kind,
    widths: Widths,
}

/// The form of codes.
enum Kind {
    /// One byte.
    Simple(Box<Letters>),
    /// The lengths in a table.
    Ranges(Cmap),
    /// Two bytes.
    Wide,
    /// The two or four bytes of UTF-16.
    Utf16,
}

/// The widths of codes, in widths of the letter m.
struct Widths {
    known: Ranges<f64>,
    default: f64,
    /// Uses the widths of Helvetica for other codes.
    is_standard: bool,
}

/// A glyph of a text.
pub(super) struct Glyph {
    pub(super) width: f64,
    /// The one-byte code 32, to which the spacing of words applies.
    pub(super) is_space: bool,
    /// `true` if the font defines its letters.
    pub(super) has_letters: bool,
}

impl Font {
    /// Reads a font.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn read(file: &File<'_>, dict: &Dict) -> Result<Self, DocumentError> {
        let listed = match file.data(dict.get("ToUnicode"))? {
            Some(bytes) => Some(Cmap::read(&bytes, file.work)?),
            None => None,
        };
        let encoding = file.resolve(dict.get("Encoding"))?;
        let kind = dict.get("Subtype").name().unwrap_or("");
        if kind != "Type0" {
            let letters = simple(file, dict, &encoding, kind == "TrueType")?;
            return Ok(Self { listed, kind: Kind::Simple(letters), widths: Widths::simple(file, dict)? });
        }
        let below = match file.resolve(dict.get("DescendantFonts"))? {
            Object::List(fonts) => file.dict(fonts.first().unwrap_or(&Object::Null))?,
            _ => Dict::default(),
        };
        let kind = match encoding.name() {
            Some(name) if name.contains("UTF16") || name.contains("UCS2") => Kind::Utf16,
            Some(name) if name.starts_with("Identity") => Kind::Wide,
            // The codes of other named tables have the lengths that the list of letters repeats.
            Some(_) => match file.data(dict.get("ToUnicode"))? {
                Some(bytes) => Kind::ranges(Cmap::read(&bytes, file.work)?),
                None => Kind::Wide,
            },
            None => match file.data(dict.get("Encoding"))? {
                Some(bytes) => Kind::ranges(Cmap::read(&bytes, file.work)?),
                None => Kind::Wide,
            },
        };
        Ok(Self { listed, kind, widths: Widths::wide(file, &below)? })
    }

    /// Reads the glyphs of a text: calls `each` with its bytes' letters in `to`.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded.
    pub(super) fn glyphs(
        &self,
        file: &File<'_>,
        text: &[u8],
        to: &mut String,
        mut each: impl FnMut(&Glyph),
    ) -> Result<(), DocumentError> {
        let mut rest = text;
        while !rest.is_empty() {
            file.work.step()?;
            let length = match &self.kind {
                Kind::Simple(_) => 1,
                Kind::Ranges(cmap) => cmap.length(rest),
                Kind::Wide | Kind::Utf16 => 2,
            };
            let (own, behind) = rest.split_at(length.clamp(1, rest.len()));
            rest = behind;
            let code = code(own);
            let has_letters = self.letters(own, code, to);
            if to.len() > MAX_TEXT {
                return Err(DocumentError::TooLarge { what: "text", limit_mb: MAX_TEXT >> 20 });
            }
            each(&Glyph { width: self.widths.of(code), is_space: own == b" ", has_letters });
        }
        Ok(())
    }

    fn letters(&self, own: &[u8], code: u32, to: &mut String) -> bool {
        if self.listed.as_ref().is_some_and(|listed| listed.write(code, to)) {
            return true;
        }
        match &self.kind {
            Kind::Simple(letters) => match letters[usize::from(own[0])] {
                '\0' => false,
                letter => {
                    to.push(letter);
                    true
                }
            },
            Kind::Utf16 => {
                to.push_str(&utf16(own));
                true
            }
            Kind::Ranges(_) | Kind::Wide => false,
        }
    }
}

impl Kind {
    fn ranges(cmap: Cmap) -> Self {
        match cmap.has_lengths() {
            true => Self::Ranges(cmap),
            false => Self::Wide,
        }
    }
}

/// Returns the letters of one-byte codes.
fn simple(
    file: &File<'_>,
    dict: &Dict,
    encoding: &Object,
    is_true_type: bool,
) -> Result<Box<Letters>, DocumentError> {
    let (mut name, mut differences) = (encoding.clone(), Object::Null);
    if let Object::Dict(own) = encoding {
        name = file.resolve(own.get("BaseEncoding"))?;
        differences = file.resolve(own.get("Differences"))?;
    }
    let mut letters = Box::new(match name.name() {
        Some(name) => base(name),
        // Without an encoding, most TrueType fonts of files have the codes of Windows.
        None if is_true_type => base("WinAnsiEncoding"),
        None => embedded(file, dict)?,
    });
    if let Object::List(differences) = differences {
        differ(&mut letters, &differences);
    }
    Ok(letters)
}

/// Returns the letters of codes as an embedded Type 1 font has them: `dup 12 /fi put …`. Other fonts have the standard
/// ones.
fn embedded(file: &File<'_>, dict: &Dict) -> Result<Letters, DocumentError> {
    let mut letters = base("");
    let descriptor = file.dict(dict.get("FontDescriptor"))?;
    let Some(program) = file.data(descriptor.get("FontFile"))? else { return Ok(letters) };
    let Some(at) = memchr::memmem::find(&program, b"/Encoding") else { return Ok(letters) };
    let (mut lexer, mut entry) = (Lexer::of_content(&program[at..], file.work), Vec::new());
    while let Some(object) = DocumentError::skip_damage(lexer.next())? {
        match object {
            word if word.is_word("put") => differ(&mut letters, &entry),
            Object::Word(word) if matches!(&*word, "def" | "readonly" | "currentdict" | "eexec") => {
                break;
            }
            Object::Word(_) => entry.clear(),
            object if entry.len() < 256 => entry.push(object),
            _ => {}
        }
    }
    Ok(letters)
}

impl Widths {
    /// Reads the widths of a font with one-byte codes.
    fn simple(file: &File<'_>, dict: &Dict) -> Result<Self, DocumentError> {
        // Fonts of drawings have a scale of their own.
        let scale = match file.resolve(dict.get("FontMatrix"))? {
            Object::List(matrix) => matrix.first().and_then(Object::number).unwrap_or(0.001).abs(),
            _ => 0.001,
        };
        let mut known = Ranges::new();
        let first = file.resolve(dict.get("FirstChar"))?.index().unwrap_or(0);
        let Object::List(widths) = file.resolve(dict.get("Widths"))? else {
            let name = dict.get("BaseFont").name().unwrap_or("");
            let is_mono = name.contains("Courier") || name.contains("Mono");
            return Ok(Self { known, default: 0.6, is_standard: !is_mono });
        };
        for (code, width) in (first..256).zip(widths.iter()) {
            if let (Some(width), Ok(code)) = (file.resolve(width)?.number(), u32::try_from(code)) {
                known.add(code, code, width * scale, file.work)?;
            }
        }
        known.sort();
        let descriptor = file.dict(dict.get("FontDescriptor"))?;
        let missing = descriptor.get("MissingWidth").number().unwrap_or(0.0);
        Ok(Self { known, default: missing * scale, is_standard: false })
    }

    /// Reads the widths of a font with longer codes: `code [width …]` and `first last width`.
    fn wide(file: &File<'_>, dict: &Dict) -> Result<Self, DocumentError> {
        let default = file.resolve(dict.get("DW"))?.number().unwrap_or(1_000.0) / 1_000.0;
        let mut known = Ranges::new();
        if let Object::List(items) = file.resolve(dict.get("W"))? {
            let mut rest = &items[..];
            while let [first, second, behind @ ..] = rest {
                file.work.step()?;
                let first = first.index().and_then(|first| u32::try_from(first).ok()).unwrap_or(u32::MAX);
                rest = behind;
                if let Object::List(widths) = file.resolve(second)? {
                    for (code, width) in (first..u32::MAX).zip(widths.iter()) {
                        known.add(code, code, width.number().unwrap_or(0.0) / 1_000.0, file.work)?;
                    }
                } else if let [width, behind @ ..] = behind {
                    let last = second.index().and_then(|last| u32::try_from(last).ok()).unwrap_or(first);
                    known.add(first, last, width.number().unwrap_or(0.0) / 1_000.0, file.work)?;
                    rest = behind;
                }
            }
        }
        known.sort();
        Ok(Self { known, default, is_standard: false })
    }

    fn of(&self, code: u32) -> f64 {
        if let Some((_, width)) = self.known.get(code) {
            return width;
        }
        let standard = (code as usize).checked_sub(32).and_then(|place| HELVETICA.get(place));
        match standard.filter(|_| self.is_standard) {
            Some(width) => f64::from(*width) / 1_000.0,
            None => self.default,
        }
    }
}
