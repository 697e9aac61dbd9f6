//! Parts of texts. A place that a text does not have is an empty part.

use std::slice::SliceIndex;

/// Returns the part of a text at a range of bytes.
pub(crate) fn part(text: &str, range: impl SliceIndex<str, Output = str>) -> &str {
    text.get(range).unwrap_or("")
}

/// Returns the first name of a path with dots.
pub(crate) fn first_name(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

/// Returns the last name of a path with dots.
pub(crate) fn last_name(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, last)| last)
}
