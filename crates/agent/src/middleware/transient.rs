//! Failures that may be gone when the same is tried again.

use regex::Regex;
use std::sync::OnceLock;
use valvehouse_core::tool::ToolError;

/// Statuses that say "not now" rather than "not so".
const NOT_NOW: [u16; 8] = [408, 425, 429, 502, 503, 504, 522, 529];

/// The words with which programs report that a connection, a service or the time was missing.
const WORDS: &str = r"(?ix)
    timed?[\ -]?out | did\ not\ end\ within | deadline\ exceeded | temporar(y|ily) | try\ again | too\ many\ requests
    | rate[\ -]?limit | overloaded | unavailable | bad\ gateway
    | connection\ (was\ )?(refused|reset|closed|aborted|lost) | connection\ error | broken\ pipe
    | (cannot|could\ not|failed\ to)\ (connect|reach) | unreachable | name\ resolution
    | \b(status|http|answered|code)\W{0,3}(408|425|429|500|502|503|504|522|529)\b";

/// Returns `true` if a tool's failure may be. Most failures come without a status of their own and count as 500: their
/// words decide.
pub(super) fn is_transient(error: &ToolError) -> bool {
    static PATTERN: OnceLock<Regex> = OnceLock::new();
    let pattern =
        PATTERN.get_or_init(|| Regex::new(WORDS).expect("the pattern is a constant that a test reads"));
    match error {
        ToolError { fatal: true, .. } => false,
        ToolError { status, .. } if NOT_NOW.contains(status) => true,
        ToolError { status: 400..500, .. } | ToolError { is_answer: true, .. } => false,
        ToolError { message, .. } => pattern.is_match(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_get_better_is_told_from_what_will_not() {
        let with = |status, message: &str| ToolError { status, ..ToolError::from(message) };
        for message in [
            "tool weather did not end within 30000 ms",
            "request timed out",
            "connection refused (os error 111)",
            "https://x.example answered 503",
            "HTTP 429",
            "status: 502",
            "cannot reach db.example",
            "Try again later",
        ] {
            assert!(is_transient(&with(500, message)), "{message}");
        }
        for message in
            ["no such city", "division by zero", "row 503 is missing", "tool x panicked", "answered 404"]
        {
            assert!(!is_transient(&with(500, message)), "{message}");
        }
        assert!(is_transient(&with(429, "no")) && is_transient(&with(503, "no")));
        assert!(!is_transient(&with(400, "request timed out")) && !is_transient(&with(404, "timeout")));
        assert!(!is_transient(&with(503, "no").fatal()));
    }
}
