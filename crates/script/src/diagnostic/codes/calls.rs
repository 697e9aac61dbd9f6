//! Codes of calls of functions.

use super::codes;

codes! {
    /// V501 an invalid pattern
    ///
    /// Patterns run in linear time and do not support look-ahead, look-behind and back-references.
    ///
    /// Wrong:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.found = regex::find(body.messages.last().text, "foo(?=bar)");
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// fn inlet(body) {
    ///     body.found = regex::captures(body.messages.last().text, "(foo)bar");
    /// }
    /// ```
    BadPattern;

}
