//! Slices of texts. A range that a text does not have gives an empty text.

use std::slice::SliceIndex;

/// Returns the slice of a text at a byte range.
pub(crate) fn part(text: &str, range: impl SliceIndex<str, Output = str>) -> &str {
    text.get(range).unwrap_or("")
}

/// Returns the first name of a dotted path.
pub(crate) fn first_name(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

/// Returns the last name of a dotted path.
pub(crate) fn last_name(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, last)| last)
}
