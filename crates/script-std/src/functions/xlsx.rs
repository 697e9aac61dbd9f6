//! `xlsx::…`: writes tables as workbooks.
//!
//! A workbook is an archive of five small documents. Texts are written into their cells, so that no list of texts is
//! needed. A library for it is larger than all other documents of this crate together.

use super::argument::{AnyArray, AnyMap, RhaiResultOf, fail};
use super::output::{Pulse, Text, check_size};
use super::table;
use super::waiting::Options;
use flate2::{Compression, Crc, write::DeflateEncoder};
use rhai::Blob;
use rhai::plugin::*;
use std::io::Write as _;
use valvehouse_json::Json;

const WRITE: &str = "xlsx::write";
/// The maximum length of a text in a cell, in UTF-16 units, as programs for tables define it.
const MAX_CELL: usize = 32_767;
/// The maximum number of columns.
const MAX_COLUMNS: usize = 16_384;
/// The maximum length of the name of a sheet, and the characters that it may not contain.
const MAX_NAME: usize = 31;
const NOT_IN_NAMES: [char; 7] = ['[', ']', ':', '*', '?', '/', '\\'];
/// The number of bytes that are compressed between two checks of the budgets.
const SLICE: usize = 64 << 10;

#[export_module]
pub(super) mod functions {
    /// Writes rows as a workbook of one sheet: maps, whose keys are the first row, or arrays. Values are texts, numbers,
    /// booleans, and `()` for an empty cell. Texts stay texts, also those that look like formulas.
    #[rhai_fn(return_raw)]
    pub fn write(rows: AnyArray) -> RhaiResultOf<Blob> {
        workbook(&rows, None, "Sheet1")
    }

    /// Like `xlsx::write` with options: `columns` lists the keys of the maps in their order; `sheet` is the name of the
    /// sheet (`"Sheet1"`).
    #[rhai_fn(return_raw, name = "write")]
    pub fn write_with(rows: AnyArray, options: AnyMap) -> RhaiResultOf<Blob> {
        let options = Options::of(WRITE, &options)?;
        let sheet = match options.value("sheet") {
            None => "Sheet1".into(),
            Some(name) => {
                name.into_immutable_string().map_err(|_| options.wrong("`sheet` must be a text"))?
            }
        };
        let is_fitting = !sheet.trim().is_empty()
            && sheet.encode_utf16().count() <= MAX_NAME
            && !sheet.contains(NOT_IN_NAMES)
            && !sheet.starts_with('\'')
            && !sheet.ends_with('\'');
        if !is_fitting {
            return Err(options.wrong(
                "`sheet` must have 1 to 31 characters, without [ ] : * ? / \\ and without a quote at its ends",
            ));
        }
        workbook(&rows, table::columns(WRITE, &options)?, &sheet)
    }
}

fn workbook(rows: &Dynamic, columns: Option<Vec<String>>, sheet: &str) -> RhaiResultOf<Blob> {
    let mut pulse = Pulse::new();
    let mut name = Text::new(WRITE);
    push_escaped(&mut name, sheet)?;
    let mut cells = Text::new(WRITE);
    cells.push(SHEET_START)?;
    let mut number = 0;
    table::each_row(WRITE, rows, columns, |row| {
        pulse.beat()?;
        number += 1;
        push_row(&mut cells, number, row)
    })?;
    cells.push(SHEET_END)?;
    let book = WORKBOOK.replace("NAME", &name.finish());
    let mut archive = Archive { bytes: Vec::new(), directory: Vec::new(), count: 0, pulse };
    archive.add("[Content_Types].xml", TYPES)?;
    archive.add("_rels/.rels", RELATIONS)?;
    archive.add("xl/workbook.xml", &book)?;
    archive.add("xl/_rels/workbook.xml.rels", BOOK_RELATIONS)?;
    archive.add("xl/worksheets/sheet1.xml", &cells.finish())?;
    Ok(archive.finish())
}

const TYPES: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">"#,
    r#"<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>"#,
    r#"<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>"#,
    r#"<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>"#,
    "</Types>"
);
const RELATIONS: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">"#,
    r#"<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/>"#,
    "</Relationships>"
);
const WORKBOOK: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">"#,
    r#"<sheets><sheet name="NAME" sheetId="1" r:id="rId1"/></sheets></workbook>"#
);
const BOOK_RELATIONS: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">"#,
    r#"<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/>"#,
    "</Relationships>"
);
const SHEET_START: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>"#
);
const SHEET_END: &str = "</sheetData></worksheet>";

fn push_row(out: &mut Text, number: usize, cells: &[Json]) -> RhaiResultOf<()> {
    if cells.len() > MAX_COLUMNS {
        return Err(fail(WRITE, format!("row {number} exceeds the limit of {MAX_COLUMNS} columns")));
    }
    out.push(&format!("<row r=\"{number}\">"))?;
    for (column, cell) in cells.iter().enumerate() {
        let place = || format!("{}{number}", letters(column));
        match cell {
            Json::Null => {}
            Json::Bool(is_true) => {
                out.push(&format!("<c r=\"{}\" t=\"b\"><v>{}</v></c>", place(), u8::from(*is_true)))?;
            }
            Json::Text(text) => {
                if text.len() > MAX_CELL && text.encode_utf16().count() > MAX_CELL {
                    let place = place();
                    return Err(fail(
                        WRITE,
                        format!("the text for {place} exceeds the limit of {MAX_CELL} characters in a cell"),
                    ));
                }
                out.push(&format!("<c r=\"{}\" t=\"inlineStr\"><is><t xml:space=\"preserve\">", place()))?;
                push_escaped(out, text)?;
                out.push("</t></is></c>")?;
            }
            number => out.push(&format!("<c r=\"{}\"><v>{number}</v></c>", place()))?,
        }
    }
    out.push("</row>")
}

/// Returns the name of a column: A to Z, AA, AB and so on.
fn letters(column: usize) -> String {
    let (mut rest, mut letters) = (column + 1, Vec::new());
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'A' + (rest % 26) as u8));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

/// Adds a text. A character that XML does not allow becomes the replacement character.
fn push_escaped(out: &mut Text, text: &str) -> RhaiResultOf<()> {
    let is_special = |letter: char| {
        matches!(letter, '&' | '<' | '>' | '"' | '\r' | '\u{fffe}' | '\u{ffff}')
            || letter < ' ' && !matches!(letter, '\t' | '\n')
    };
    let mut rest = text;
    while let Some(at) = rest.find(is_special) {
        out.push(&rest[..at])?;
        let letter = rest[at..].chars().next().unwrap_or('\u{fffd}');
        out.push(match letter {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\r' => "&#13;",
            _ => "\u{fffd}",
        })?;
        rest = &rest[at + letter.len_utf8()..];
    }
    out.push(rest)
}

/// A ZIP archive that is being written.
struct Archive {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
    pulse: Pulse,
}

impl Archive {
    fn add(&mut self, name: &str, text: &str) -> RhaiResultOf<()> {
        let start = self.bytes.len();
        let mut crc = Crc::new();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        for slice in text.as_bytes().chunks(SLICE) {
            self.pulse.beat()?;
            crc.update(slice);
            encoder.write_all(slice).map_err(|error| fail(WRITE, error.to_string()))?;
        }
        let packed = encoder.finish().map_err(|error| fail(WRITE, error.to_string()))?;
        check_size(WRITE, start + packed.len())?;
        // Version 2.0, deflated, 1 January 1980: the same rows give the same bytes.
        let mut head = Vec::new();
        for field in [20_u16, 0, 8, 0, 0x21] {
            head.extend(field.to_le_bytes());
        }
        for field in [crc.sum(), length(packed.len()), length(text.len())] {
            head.extend(field.to_le_bytes());
        }
        head.extend([u16::try_from(name.len()).unwrap_or(u16::MAX), 0].map(u16::to_le_bytes).concat());
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&head);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(packed);
        self.directory.extend(b"PK\x01\x02\x14\0");
        self.directory.extend(&head);
        // No comment, disk or attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(length(start).to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count += 1;
        Ok(())
    }

    fn finish(mut self) -> Blob {
        let start = self.bytes.len();
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06\0\0\0\0");
        self.bytes.extend([self.count, self.count].map(u16::to_le_bytes).concat());
        self.bytes.extend([length(self.directory.len()), length(start)].map(u32::to_le_bytes).concat());
        self.bytes.extend([0; 2]);
        self.bytes
    }
}

/// Returns a length as a field of an archive; all lengths are below 8 MiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::workbook;
    use crate::functions::tests::{gives, refuses};
    use valvehouse_dialect::value::dynamic_of;
    use valvehouse_documents::DocumentKind;
    use valvehouse_json::Json;

    #[test]
    fn a_workbook_has_the_rows_that_were_written() {
        for (rows, columns, text) in [
            (
                r#"[["a", 1, 2.5, true, null], ["x & <y> \"z\"", "", -3, false, "=1+1"]]"#,
                None,
                "a\t1\t2.5\t1\nx & <y> \"z\"\t\t-3\t0\t=1+1",
            ),
            (r#"[{"a": 1, "b": 2}, {"a": 3}]"#, None, "a\tb\n1\t2\n3"),
            (r#"[{"a": 1, "b": 2}]"#, Some(vec!["b".to_owned(), "a".to_owned()]), "b\ta\n2\t1"),
            (r#"[["ä😀\u0001", "b c"]]"#, None, "ä😀\u{fffd}\tb c"),
        ] {
            let rows = dynamic_of(&Json::parse(rows.as_bytes()).unwrap());
            let book = workbook(&rows, columns, "R&D <1>").unwrap();
            let kind = DocumentKind::of(&book).expect("a workbook is an archive");
            assert_eq!(kind.text(&book, &|| false).unwrap().trim_end(), text);
        }
        gives(&[
            ("xlsx::write([]).len() > 500", "true"),
            ("xlsx::write([[1, \"x\"]]) == xlsx::write([[1, \"x\"]])", "true"),
        ]);
    }

    #[test]
    fn columns_are_named_like_in_programs_for_tables() {
        let names = [0, 25, 26, 51, 52, 701, 702, 16_383].map(super::letters);
        assert_eq!(names, ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA", "XFD"]);
    }

    #[test]
    fn an_invalid_workbook_is_an_error_with_its_place() {
        refuses(&[
            ("xlsx::write(5)", "`rows` must be an array, not number"),
            ("xlsx::write([1])", "row 0 must be an array like the first, not number"),
            ("xlsx::write([[[1]]])", "convert it with json::stringify(value)"),
            ("xlsx::write([#{ a: 1 }, #{ b: 1 }])", "unknown column `b` in row 1"),
            (r#"xlsx::write([], #{ sheets: "x" })"#, "did you mean `sheet`"),
            (r#"xlsx::write([], #{ sheet: "a/b" })"#, "`sheet` must have 1 to 31 characters"),
            (r#"xlsx::write([], #{ sheet: "" })"#, "`sheet` must have 1 to 31 characters"),
            ("xlsx::write([], #{ sheet: 1 })", "`sheet` must be a text"),
            ("xlsx::write([[1, big(40_000)]])", "the text for B1 exceeds the limit of 32767 characters"),
            ("let r = []; r.pad(16_385, 1); xlsx::write([r])", "row 1 exceeds the limit of 16384 columns"),
            (
                "let r = []; r.pad(1_000, 1); let all = []; all.pad(101, r); xlsx::write(all)",
                "limit of 100000 values",
            ),
            ("let r = []; r.pad(300, big(30_000)); xlsx::write([r])", "at most 8 MiB"),
        ]);
    }
}
