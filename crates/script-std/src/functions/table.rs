//! The rows of a table that a script writes, as CSV or as a workbook.

use super::argument::{RhaiResultOf, fail, items, unfit};
use super::waiting::Options;
use rhai::Dynamic;
use valvehouse_dialect::call::redaction::excerpt;
use valvehouse_dialect::value::json_of;
use valvehouse_json::Json;

/// The maximum number of cells per call, because a native's memory is not checked meanwhile.
pub(super) const MAX_CELLS: usize = 100_000;

/// Returns the option `columns`: the keys of the maps, in their order.
pub(super) fn columns(function: &str, options: &Options<'_>) -> RhaiResultOf<Option<Vec<String>>> {
    let Some(columns) = options.value("columns") else { return Ok(None) };
    let names = items(function, "columns", &columns)?.into_iter().map(|name| {
        let text = name.into_immutable_string();
        text.map(|text| text.to_string()).map_err(|_| fail(function, "`columns` must be an array of texts"))
    });
    names.collect::<RhaiResultOf<Vec<String>>>().map(Some)
}

/// Calls `write` with the cells of each row: texts, numbers, booleans and null. Rows are arrays, or maps, whose keys are
/// the first row.
pub(super) fn each_row(
    function: &'static str,
    rows: &Dynamic,
    columns: Option<Vec<String>>,
    mut write: impl FnMut(&[Json]) -> RhaiResultOf<()>,
) -> RhaiResultOf<()> {
    let Json::Array(rows) = json_of(rows)? else { return Err(unfit(function, "rows", "an array", rows)) };
    let first = || {
        let row = rows.items().first().and_then(Json::as_object)?.keys();
        Some(row.into_iter().map(Into::into).collect())
    };
    let columns: Option<Vec<String>> = columns.or_else(first);
    let mut count = 0;
    let mut write = |cells: &[Json]| {
        count += cells.len();
        if count > MAX_CELLS {
            return Err(fail(function, format!("the table would exceed its limit of {MAX_CELLS} values")));
        }
        write(cells)
    };
    if let Some(columns) = &columns {
        write(&columns.iter().map(|name| name.as_str().into()).collect::<Vec<_>>())?;
    }
    for (index, row) in rows.items().iter().enumerate() {
        let cells = match (row, &columns) {
            (Json::Array(cells), None) => cells.items(),
            (Json::Object(cells), Some(columns)) => {
                if let Some(other) =
                    cells.keys().into_iter().find(|key| !columns.iter().any(|name| name == key))
                {
                    let other = excerpt(&other);
                    return Err(fail(
                        function,
                        format!("unknown column `{other}` in row {index}; name all columns in `columns`"),
                    ));
                }
                columns.iter().map(|name| row.field(name)).collect()
            }
            (other, _) => {
                let expected = if columns.is_some() { "a map" } else { "an array" };
                return Err(fail(
                    function,
                    format!("row {index} must be {expected} like the first, not {}", other.kind()),
                ));
            }
        };
        if let Some(other) = cells.iter().find(|cell| cell.as_array().is_some() || cell.as_object().is_some())
        {
            return Err(fail(
                function,
                format!(
                    "cannot write a value of row {index}: it is {}; convert it with json::stringify(value)",
                    other.kind()
                ),
            ));
        }
        write(&cells)?;
    }
    Ok(())
}

/// Returns the text of a cell.
pub(super) fn text(cell: &Json) -> String {
    match cell {
        Json::Text(text) => text.to_string(),
        Json::Null => String::new(),
        other => other.to_string(),
    }
}
