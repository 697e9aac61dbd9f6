//! Extracts the text of each kind of document.

use super::archive::Archive;
use super::error::DocumentError;
use super::limits::{MAX_TEXT, bounded};
use super::markup::{self, Part, attribute, decode};

/// The maximum number of empty columns before a cell.
const MAX_COLUMNS: usize = 256;
/// The maximum number of shared texts of a workbook.
const MAX_SHARED: usize = 1_000_000;
/// The number of parts between two checks of `is_stopped`.
const CHECK_EVERY: usize = 1_024;

const WORD: &str = "word/document.xml";
const WORKBOOK: &str = "xl/workbook.xml";
const SHARED: &str = "xl/sharedStrings.xml";
const SHEETS: &str = "xl/worksheets/sheet";
const SLIDES: &str = "ppt/slides/slide";

/// Returns `true` if the bytes begin with the signature of an archive.
pub(super) fn is_office(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

/// Returns the text of a document: one line per paragraph or row, cells separated by tabs, sheets and slides by an
/// empty line. `is_stopped` is called often, and ends the reading when it returns `true`.
///
/// # Errors
/// Returns an error if it is not a DOCX, XLSX or PPTX file, is damaged or encrypted, exceeds a limit, or is stopped.
pub(super) fn text(bytes: &[u8], is_stopped: &dyn Fn() -> bool) -> Result<String, DocumentError> {
    let mut archive = Archive::read(bytes)?;
    let parts = Parts { is_stopped };
    if archive.has(WORD) {
        return of_paragraphs(&archive.file(WORD, is_stopped)?, parts);
    }
    let mut text = String::new();
    if archive.has(WORKBOOK) {
        let shared = match archive.has(SHARED) {
            true => shared_texts(&archive.file(SHARED, is_stopped)?, parts)?,
            false => Vec::new(),
        };
        for name in numbered(archive.names(SHEETS), SHEETS) {
            add(&mut text, &of_sheet(&archive.file(&name, is_stopped)?, &shared, parts)?)?;
        }
        return Ok(text);
    }
    let slides = numbered(archive.names(SLIDES), SLIDES);
    if slides.is_empty() {
        return Err(DocumentError::Unknown);
    }
    for name in slides {
        add(&mut text, &of_paragraphs(&archive.file(&name, is_stopped)?, parts)?)?;
    }
    Ok(text)
}

/// Reads the parts of XML documents until the reading is stopped.
#[derive(Clone, Copy)]
struct Parts<'a> {
    is_stopped: &'a dyn Fn() -> bool,
}

impl Parts<'_> {
    /// Iterates over the parts of an XML document; the last one is an error if the reading is stopped.
    fn of<'x>(self, xml: &'x str) -> impl Iterator<Item = Result<Part<'x>, DocumentError>> {
        markup::parts(xml).enumerate().map(move |(place, part)| {
            match place % CHECK_EVERY == CHECK_EVERY - 1 && (self.is_stopped)() {
                true => Err(DocumentError::Stopped),
                false => Ok(part),
            }
        })
    }
}

/// Appends a sheet or a slide.
fn add(text: &mut String, part: &str) -> Result<(), DocumentError> {
    if !text.is_empty() && !part.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(part);
    bounded(text)
}

/// Returns the names with a number after the prefix, sorted by number.
fn numbered(names: Vec<String>, beginning: &str) -> Vec<String> {
    let number = |name: &String| name.strip_prefix(beginning)?.strip_suffix(".xml")?.parse::<u32>().ok();
    let mut known: Vec<(u32, String)> =
        names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    known.sort();
    known.into_iter().map(|(_, name)| name).collect()
}

/// Returns the paragraphs of a document or slide, one per line; a table row is one line.
fn of_paragraphs(xml: &str, parts: Parts<'_>) -> Result<String, DocumentError> {
    let (mut text, mut is_text, mut cells) = (String::new(), false, 0_usize);
    for part in parts.of(xml) {
        match part? {
            Part::Start("t", _, is_empty) => is_text = !is_empty,
            Part::End("t") => is_text = false,
            Part::Text(some) if is_text => decode(some, &mut text)?,
            Part::Start("tab", ..) => text.push('\t'),
            Part::Start("br" | "cr", ..) => text.push('\n'),
            Part::Start("tc", _, false) => {
                if cells > 0 && !text.is_empty() {
                    text.push('\t');
                }
                cells += 1;
            }
            // The paragraphs of a cell belong to the line of its row.
            Part::End("p") if cells == 0 => text.push('\n'),
            Part::End("p") => text.push(' '),
            Part::End("tr") => {
                cells = 0;
                text.push('\n');
            }
            _ => {}
        }
        bounded(&text)?;
    }
    let lines: Vec<&str> = text.lines().map(|line| line.trim_matches(' ')).collect();
    Ok(lines.join("\n").trim_matches('\n').replace(" \t", "\t"))
}

/// Returns the shared strings that cells refer to.
fn shared_texts(xml: &str, parts: Parts<'_>) -> Result<Vec<String>, DocumentError> {
    let (mut texts, mut own, mut sum) = (Vec::new(), String::new(), 0);
    let (mut is_text, mut is_reading_aid) = (false, false);
    for part in parts.of(xml) {
        match part? {
            Part::Start("si", _, is_empty) => {
                own = String::new();
                if is_empty {
                    texts.push(String::new());
                }
            }
            Part::End("si") => texts.push(std::mem::take(&mut own)),
            Part::Start("rPh", _, false) => is_reading_aid = true,
            Part::End("rPh") => is_reading_aid = false,
            Part::Start("t", _, is_empty) => is_text = !is_empty,
            Part::End("t") => is_text = false,
            Part::Text(some) if is_text && !is_reading_aid => {
                sum += some.len();
                decode(some, &mut own)?;
            }
            _ => {}
        }
        if sum > MAX_TEXT {
            return Err(DocumentError::TooLarge { what: "text", limit_mb: MAX_TEXT >> 20 });
        }
        if texts.len() > MAX_SHARED {
            return Err(DocumentError::TooMany { what: "shared texts", limit: MAX_SHARED });
        }
    }
    Ok(texts)
}

/// Returns the rows of a sheet as lines. A formula is represented by its stored value.
fn of_sheet(xml: &str, shared: &[String], parts: Parts<'_>) -> Result<String, DocumentError> {
    let (mut text, mut column, mut kind, mut value) = (String::new(), 0, "", String::new());
    let mut is_value = false;
    for part in parts.of(xml) {
        match part? {
            Part::Start("row", _, false) => column = 0,
            Part::Start("c", attributes, is_empty) => {
                let at = attribute(attributes, "r").and_then(column_of).unwrap_or(column);
                for _ in column..at.min(MAX_COLUMNS) {
                    text.push('\t');
                }
                column = at.max(column);
                kind = attribute(attributes, "t").unwrap_or("");
                value.clear();
                if is_empty {
                    continue;
                }
            }
            Part::Start("v" | "t", _, is_empty) => is_value = !is_empty,
            Part::End("v" | "t") => is_value = false,
            Part::Text(some) if is_value => decode(some, &mut value)?,
            Part::End("c") => {
                let own = match kind {
                    "s" => value.trim().parse::<usize>().ok().and_then(|place| shared.get(place)),
                    _ => Some(&value),
                };
                // A cell must not contain line breaks.
                own.iter().flat_map(|own| own.chars()).for_each(|letter| {
                    text.push(if letter.is_control() { ' ' } else { letter });
                });
            }
            Part::End("row") => {
                text.truncate(text.trim_end_matches('\t').len());
                text.push('\n');
            }
            _ => {}
        }
        bounded(&text)?;
    }
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Returns the column index of a cell reference: 1 for `B7`.
fn column_of(name: &str) -> Option<usize> {
    let letters = name.bytes().take_while(u8::is_ascii_uppercase).take(4);
    let number = letters.fold(0_usize, |number, letter| number * 26 + usize::from(letter - b'A') + 1);
    number.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::DeflateEncoder;
    use std::io::Write as _;

    fn read(bytes: &[u8]) -> Result<String, DocumentError> {
        text(bytes, &|| false)
    }

    /// Returns an archive of these files, packed with deflate.
    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, text) in files {
            let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            let packed = packed.finish().unwrap();
            let head = u32::try_from(bytes.len()).unwrap();
            let sizes = [packed.len() as u32, text.len() as u32].map(u32::to_le_bytes).concat();
            let common = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &sizes].concat();
            let length = (name.len() as u16).to_le_bytes();
            bytes.extend([b"PK\x03\x04", &common[..], &length, &[0, 0], name.as_bytes(), &packed].concat());
            let rest = [&length[..], &[0; 12], &head.to_le_bytes()].concat();
            directory.extend([&b"PK\x01\x02\x14\0"[..], &common, &rest, name.as_bytes()].concat());
        }
        let (at, count) = (bytes.len() as u32, (files.len() as u16).to_le_bytes());
        let end = [
            b"PK\x05\x06\0\0\0\0",
            &count[..],
            &count,
            &(directory.len() as u32).to_le_bytes(),
            &at.to_le_bytes(),
            &[0, 0],
        ];
        [bytes, directory, end.concat()].concat()
    }

    #[test]
    fn paragraphs_and_tables_of_a_document_are_lines() {
        let xml = "<w:document><w:p><w:r><w:t>One &amp; </w:t></w:r><w:r><w:t xml:space=\"preserve\">two</w:t><w:tab/><w:t>x</w:t></w:r></w:p>\
            <w:p/><w:tbl><w:tr><w:tc><w:p><w:t>a</w:t></w:p></w:tc><w:tc><w:p><w:t>b</w:t></w:p></w:tc></w:tr></w:tbl><w:p><w:instrText>no</w:instrText><w:t>end</w:t></w:p></w:document>";
        assert_eq!(read(&archive(&[(WORD, xml)])).unwrap(), "One & two\tx\na\tb\nend");
    }

    #[test]
    fn cells_of_a_sheet_are_separated_by_tabs() {
        let sheet = "<worksheet><sheetData><row r=\"1\"><c r=\"A1\" t=\"s\"><v>1</v></c><c r=\"C1\"><f>1+1</f><v>2.5</v></c></row>\
            <row r=\"2\"><c r=\"B2\" t=\"inlineStr\"><is><t>in\nline</t></is></c><c r=\"C2\"/></row></sheetData></worksheet>";
        let shared =
            "<sst><si><t>zero</t></si><si><r><t>o</t></r><r><t>ne</t></r><rPh><t>no</t></rPh></si></sst>";
        let files = [
            (WORKBOOK, "<workbook/>"),
            (SHARED, shared),
            ("xl/worksheets/sheet10.xml", "<row><c><v>last</v></c></row>"),
            ("xl/worksheets/sheet2.xml", sheet),
        ];
        assert_eq!(read(&archive(&files)).unwrap(), "one\t\t2.5\n\tin line\n\nlast");
    }

    #[test]
    fn slides_are_in_their_order() {
        let slide = |text: &str| format!("<p:sld><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>");
        let (first, tenth) = (slide("first"), slide("tenth"));
        let files = [("ppt/slides/slide10.xml", &*tenth), ("ppt/slides/slide1.xml", &*first)];
        assert_eq!(read(&archive(&files)).unwrap(), "first\n\ntenth");
    }

    #[test]
    fn invalid_and_oversized_documents_are_errors() {
        assert!(matches!(read(b""), Err(DocumentError::Damaged(_))));
        assert_eq!(read(&archive(&[("a.txt", "hello")])), Err(DocumentError::Unknown));
        let bomb = format!("<w:t>{}</w:t>", " ".repeat(80 << 20));
        assert!(matches!(read(&archive(&[(WORD, &bomb)])), Err(DocumentError::TooLarge { what: "XML", .. })));
        let long = format!("<w:p><w:t>{}</w:t></w:p>", "x".repeat(MAX_TEXT + 1));
        assert!(matches!(
            read(&archive(&[(WORD, &long)])),
            Err(DocumentError::TooLarge { what: "text", .. })
        ));
        let whole = archive(&[(WORD, "<w:p><w:t>a</w:t></w:p>")]);
        for cut in 0..whole.len() {
            let _ = read(&whole[..cut]);
            let mut changed = whole.clone();
            changed[cut] ^= 0xff;
            let _ = read(&changed);
        }
    }

    #[test]
    fn reading_stops_in_every_part_of_a_document() {
        use std::cell::Cell;
        let many = |part: &str| part.repeat(200_000);
        let documents = [
            archive(&[(WORD, &many("<w:p/>"))]),
            archive(&[("ppt/slides/slide1.xml", &many("<a:p/>"))]),
            archive(&[(WORKBOOK, ""), (SHARED, &many("<si/>"))]),
            archive(&[(WORKBOOK, ""), ("xl/worksheets/sheet1.xml", &many("<row/>"))]),
        ];
        for document in documents {
            let checks = Cell::new(0);
            let count = || {
                checks.set(checks.get() + 1);
                false
            };
            text(&document, &count).unwrap();
            // Each of them ends the reading: while the file is unpacked, and while its parts are read.
            assert!(checks.get() > 100, "{}", checks.get());
            for last in [1, 5, checks.get() / 2, checks.get()] {
                checks.set(0);
                let stopped = text(&document, &|| {
                    count();
                    checks.get() >= last
                });
                assert_eq!((stopped, checks.get()), (Err(DocumentError::Stopped), last));
            }
        }
    }

    #[test]
    fn unpacking_stops_before_the_file_is_read() {
        // One part, so that only the unpacking can be stopped.
        let document = archive(&[(WORD, &"x".repeat(1 << 20))]);
        assert_eq!(text(&document, &|| true), Err(DocumentError::Stopped));
        assert_eq!(read(&document), Ok(String::new()));
    }

    #[test]
    fn a_text_of_many_ampersands_is_searched_once() {
        // Searched to its end for each of them, this took minutes.
        let ampersands = "&".repeat(MAX_TEXT);
        let xml = format!("<w:p><w:t>{ampersands}</w:t></w:p>");
        assert_eq!(
            read(&archive(&[(WORD, &xml)])),
            Err(DocumentError::TooLarge { what: "text", limit_mb: 4 })
        );
        let xml = format!("<w:t>{}</w:t>", &ampersands[1..]);
        assert_eq!(read(&archive(&[(WORD, &xml)])).map(|text| text.len()), Ok(MAX_TEXT - 1));
    }

    #[test]
    fn empty_shared_texts_are_limited() {
        let shared = "<si/>".repeat(MAX_SHARED + 1);
        let files = [(WORKBOOK, ""), (SHARED, &*shared)];
        let limit = DocumentError::TooMany { what: "shared texts", limit: MAX_SHARED };
        assert_eq!(read(&archive(&files)), Err(limit));
    }
}
