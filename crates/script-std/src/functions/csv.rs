//! `csv::…`: reads and writes tables as text.

use super::argument::{AnyArray, AnyMap, RhaiResultOf, fail};
use super::output::{Pulse, Text, check_size, check_walk};
use super::table::{self, MAX_CELLS};
use super::waiting::Options;
use csv_core::{ReadFieldResult, Reader, ReaderBuilder, WriteResult, Writer, WriterBuilder};
use rhai::plugin::*;
use std::collections::HashSet;
use valvehouse_dialect::call::redaction::excerpt;
use valvehouse_dialect::value::{Shape, live};
use valvehouse_json::{Json, Object};

/// The number of bytes that are read between two checks of the budgets.
const SLICE: usize = 64 << 10;
/// The number of passes over a table: cells are split, checked and stored.
const WALKS: u64 = 4;

#[export_module]
pub(super) mod functions {
    /// Parses a table and returns its rows: maps, whose keys are the names in the first row. All values are texts.
    #[rhai_fn(return_raw)]
    pub fn parse(text: &str) -> RhaiResultOf<Dynamic> {
        read(text, b',', true)
    }

    /// Like `csv::parse` with options: `header: false` returns arrays, including the first row; `delimiter` is the
    /// separator of values (`","`).
    #[rhai_fn(return_raw, name = "parse")]
    pub fn parse_with(text: &str, options: AnyMap) -> RhaiResultOf<Dynamic> {
        let options = Options::of("csv::parse", &options)?;
        read(text, delimiter(&options)?, options.truth_or("header", true)?)
    }

    /// Writes rows as a table: maps, whose keys are the first row, or arrays. Values are texts, numbers, booleans, and
    /// `()` for an empty field.
    #[rhai_fn(return_raw)]
    pub fn write(rows: AnyArray) -> RhaiResultOf<String> {
        written(&rows, b',', None)
    }

    /// Like `csv::write` with options: `columns` lists the keys of the maps in their order; `delimiter` is the separator
    /// of values (`","`).
    #[rhai_fn(return_raw, name = "write")]
    pub fn write_with(rows: AnyArray, options: AnyMap) -> RhaiResultOf<String> {
        let options = Options::of("csv::write", &options)?;
        let columns = table::columns("csv::write", &options)?;
        written(&rows, delimiter(&options)?, columns)
    }
}

fn delimiter(options: &Options<'_>) -> RhaiResultOf<u8> {
    let Some(value) = options.value("delimiter") else { return Ok(b',') };
    match value.as_immutable_string_ref().as_ref().map(|text| text.as_bytes()) {
        Ok([byte]) if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Ok(*byte),
        _ => Err(options.wrong("`delimiter` must be one ASCII character, not a quote or a line break")),
    }
}

fn read(text: &str, delimiter: u8, has_header: bool) -> RhaiResultOf<Dynamic> {
    let function = "csv::parse";
    check_size(function, text.len())?;
    check_walk(text, WALKS)?;
    let mut cells = Cells::new(text, delimiter);
    let mut names: Vec<String> = Vec::new();
    if has_header {
        names = cells.row(function)?.unwrap_or_else(Vec::new);
        let mut known = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !known.insert(name.as_str())) {
            return Err(fail(
                function,
                format!("duplicate column `{}`; read rows as arrays with header: false", excerpt(twice)),
            ));
        }
    }
    let width: usize = names.iter().map(String::len).sum();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = cells.row(function)? {
        cells.pulse.beat()?;
        bytes += width + row.iter().map(String::len).sum::<usize>();
        check_size(function, bytes)?;
        if !has_header {
            rows.push(Json::from(row.into_iter().map(Json::from).collect::<Vec<_>>()));
            continue;
        }
        if row.len() != names.len() {
            let (number, has, wants) = (rows.len() + 2, row.len(), names.len());
            return Err(fail(
                function,
                format!(
                    "row {number} has {has} values, expected {wants} as in the first row; read rows as \
                     arrays with header: false"
                ),
            ));
        }
        let entries = names.iter().zip(row).map(|(name, cell)| (name.as_str().into(), cell.into()));
        rows.push(entries.collect::<Object>().into());
    }
    Ok(live(&rows.into(), Shape::Plain))
}

/// The cells of a table, row by row.
struct Cells<'a> {
    rest: &'a [u8],
    reader: Reader,
    /// A buffer for the text of the largest cell.
    buffer: Vec<u8>,
    count: usize,
    pulse: Pulse,
}

impl<'a> Cells<'a> {
    fn new(text: &'a str, delimiter: u8) -> Self {
        let reader = ReaderBuilder::new().delimiter(delimiter).build();
        Self { rest: text.as_bytes(), reader, buffer: vec![0; 4 << 10], count: 0, pulse: Pulse::new() }
    }

    /// Returns the next row; `None` at the end.
    fn row(&mut self, function: &str) -> RhaiResultOf<Option<Vec<String>>> {
        let (mut row, mut length) = (Vec::new(), 0);
        loop {
            // An empty slice means that nothing is left to read.
            let slice = &self.rest[..self.rest.len().min(SLICE)];
            let (result, taken, put) = self.reader.read_field(slice, &mut self.buffer[length..]);
            self.rest = &self.rest[taken..];
            length += put;
            match result {
                ReadFieldResult::InputEmpty => self.pulse.beat()?,
                ReadFieldResult::OutputFull => self.buffer.resize(self.buffer.len() * 2, 0),
                ReadFieldResult::End => return Ok(None),
                ReadFieldResult::Field { record_end } => {
                    self.count += 1;
                    if self.count > MAX_CELLS {
                        return Err(fail(
                            function,
                            format!("the table exceeded its limit of {MAX_CELLS} values"),
                        ));
                    }
                    // A valid text that is cut at ASCII characters stays valid.
                    row.push(String::from_utf8_lossy(&self.buffer[..length]).into_owned());
                    length = 0;
                    if record_end {
                        return Ok(Some(row));
                    }
                }
            }
        }
    }
}

fn written(rows: &Dynamic, delimiter: u8, columns: Option<Vec<String>>) -> RhaiResultOf<String> {
    let function = "csv::write";
    let mut table = Table {
        writer: WriterBuilder::new().delimiter(delimiter).build(),
        text: Text::new(function),
        buffer: vec![0; 4 << 10],
        pulse: Pulse::new(),
    };
    table::each_row(function, rows, columns, |cells| table.row(cells.iter().map(table::text)))?;
    Ok(table.text.finish())
}

/// A table that is being written.
struct Table {
    writer: Writer,
    text: Text,
    buffer: Vec<u8>,
    pulse: Pulse,
}

impl Table {
    fn row(&mut self, cells: impl Iterator<Item = String>) -> RhaiResultOf<()> {
        self.pulse.beat()?;
        for (index, cell) in cells.enumerate() {
            if index > 0 {
                self.put(|writer, buffer| {
                    let (result, put) = writer.delimiter(buffer);
                    (result, 0, put)
                })?;
            }
            let mut rest = cell.as_bytes();
            self.put(|writer, buffer| {
                let (result, taken, put) = writer.field(rest, buffer);
                rest = &rest[taken..];
                (result, taken, put)
            })?;
        }
        self.put(|writer, buffer| {
            let (result, put) = writer.terminator(buffer);
            (result, 0, put)
        })
    }

    fn put(
        &mut self,
        mut step: impl FnMut(&mut Writer, &mut [u8]) -> (WriteResult, usize, usize),
    ) -> RhaiResultOf<()> {
        let mut whole = Vec::new();
        loop {
            let (result, _, put) = step(&mut self.writer, &mut self.buffer);
            whole.extend_from_slice(&self.buffer[..put]);
            if result == WriteResult::InputEmpty {
                // Only parts of texts and ASCII characters.
                return self.text.push(&String::from_utf8_lossy(&whole));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn tables_are_read_and_written() {
        gives(&[
            (
                r#"csv::parse("b,a\n1,\"x, \"\"y\"\"\n\"\r\n2,\n")"#,
                r#"[{"b":"1","a":"x, \"y\"\n"},{"b":"2","a":""}]"#,
            ),
            (r#"csv::parse("")"#, "[]"),
            (r#"csv::parse("a\n")"#, "[]"),
            (r#"csv::parse("\ufeffä;b\n1;ü\n", #{ delimiter: ";" })"#, r#"[{"ä":"1","b":"ü"}]"#),
            (r#"csv::parse("a,b\nc", #{ header: false })"#, r#"[["a","b"],["c"]]"#),
            (
                r#"csv::write([["a", 1, 2.5, true, ()], ["x \"y\"", "a,b", "a\nb", "", " "]])"#,
                r#""a,1,2.5,true,\n\"x \"\"y\"\"\",\"a,b\",\"a\nb\",, \n""#,
            ),
            (r#"csv::write(json::parse("[{\"b\": 1, \"a\": 2}, {\"a\": 3}]"))"#, r#""b,a\n1,2\n,3\n""#),
            (
                r#"csv::write([#{ a: 1, b: 2 }], #{ columns: ["b", "a", "c"], delimiter: "\t" })"#,
                r#""b\ta\tc\n2\t1\t\n""#,
            ),
            ("csv::write([])", r#""""#),
            (
                r#"let t = csv::write([["ä" + big(9_000) + ",", "é"]]); regex::is_match(json::stringify(csv::parse(t, #{ header: false })), "^..\"äx+,\",\"é\"..$")"#,
                "true",
            ),
            (
                r#"let t = csv::parse("a," + big(50_000) + "\n1,2\n", #{ header: false }); regex::is_match(json::stringify(t), "^..\"a\",\"x+\".,.\"1\",\"2\"..$")"#,
                "true",
            ),
        ]);
    }

    #[test]
    fn an_invalid_table_is_an_error_with_its_place() {
        refuses(&[
            (r#"csv::parse("a,b\n1,2\n3")"#, "row 3 has 1 values, expected 2"),
            (r#"csv::parse("a,a\n1,2")"#, "duplicate column `a`"),
            (r#"csv::parse("a", #{ delimiter: "ab" })"#, "`delimiter` must be one ASCII character"),
            (r#"csv::parse("a", #{ delimiter: "\"" })"#, "`delimiter` must be one ASCII character"),
            (r#"csv::parse("a", #{ headers: true })"#, "did you mean `header`"),
            ("csv::write([1])", "row 0 must be an array like the first, not number"),
            ("csv::write([#{ a: 1 }, #{ b: 1 }])", "unknown column `b` in row 1"),
            ("csv::write([#{ a: 1 }, [1]])", "row 1 must be a map like the first, not array"),
            ("csv::write([[[1]]])", "convert it with json::stringify(value)"),
            ("csv::write(5)", "`rows` must be an array, not number"),
            ("csv::parse(big(9_000_000))", "at most 8 MiB"),
            (
                r#"let t = ""; t.pad(300_000, "a,"); csv::parse(t, #{ header: false })"#,
                "limit of 100000 values",
            ),
            ("let s = big(1_000_000); csv::write([[s, s, s, s, s, s, s, s, s]])", "at most 8 MiB"),
        ]);
    }
}
