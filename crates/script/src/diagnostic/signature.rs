//! Parameters with types and defaults, as Python and TypeScript write them.

use super::comprehension::closing;
use std::ops::Range;
use valvehouse_dialect::syntax::spans::is_part;

/// Returns the parameters of the function whose type or default is at a byte of a line: their range, up to the body,
/// and the names alone.
pub fn in_row(row: &str, at: usize) -> Option<(Range<usize>, String)> {
    let begins = row.get(..at)?.rfind("fn ")?;
    let open = begins + row[begins..at].find('(')?;
    let is_given = row[at..].starts_with([':', '=', '-']) || row[..at].trim_end().ends_with([':', '=']);
    let close = closing(row, open)?;
    let behind = &row[close + 1..];
    let is_signature = behind.trim_start().starts_with(['{', '-']) || behind.trim().is_empty();
    if !is_given || row[open..at].contains('{') || !is_signature {
        return None;
    }
    let parts =
        row[open + 1..close].split(',').map(|part| part.split([':', '=']).next().unwrap_or(part).trim());
    let is_name = |name: &&str| *name != "self" && !name.is_empty() && name.chars().all(is_part);
    let names: Vec<&str> = parts.filter(is_name).collect();
    let returned = behind.find('{').filter(|_| behind.trim_start().starts_with("->"));
    let end = close + 1 + returned.map_or(0, |body| behind[..body].trim_end().len());
    Some((open..end, names.join(", ")))
}
