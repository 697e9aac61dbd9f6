//! The place of an error in a script, as its message names it.

use super::Diagnostic;
use std::path::Path;

/// The place that a message names: `filters/x.rhai:3:5: why`.
pub struct ErrorPlace<'a> {
    /// The file.
    pub path: &'a Path,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted in letters from 1.
    pub column: usize,
    /// The reason.
    pub why: &'a str,
}

impl<'a> ErrorPlace<'a> {
    /// Returns the place that a cause names; `None` if it names none.
    pub fn of(cause: &'a str) -> Option<Self> {
        let (place, why) = cause.split_once(": ")?;
        let mut parts = place.rsplitn(3, ':');
        let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { path: Path::new(parts.next()?), line, column, why })
    }

    /// Returns the line of a text.
    pub fn excerpt(&self, text: &'a str) -> Option<&'a str> {
        text.trim_start_matches('\u{feff}').lines().nth(self.line.checked_sub(1)?)
    }
}

impl Diagnostic {
    /// Returns the problem at the place that its message names; `None` if `text_of` returns no text of that file.
    pub fn at_named_place(&self, text_of: impl FnOnce(&Path) -> Option<String>) -> Option<Self> {
        let named = ErrorPlace::of(&self.message)?;
        let text = text_of(named.path)?;
        let excerpt = named.excerpt(&text)?.trim_end().to_owned();
        let (line, column) = (Some(named.line), Some(named.column));
        let (path, message) = (named.path.to_owned(), named.why.to_owned());
        Some(Self { path, line, column, excerpt, message, ..self.clone() })
    }
}
