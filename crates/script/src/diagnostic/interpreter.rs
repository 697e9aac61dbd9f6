//! Facts that the parser gives only in words: the one place that reads its messages.

use rhai::ParseErrorType;

/// Returns `true` if this token is missing.
pub(super) fn expects(kind: &ParseErrorType, token: &str) -> bool {
    matches!(kind, ParseErrorType::MissingToken(missing, _) if missing == token)
}

/// Returns `true` if a `,` is missing between the arguments of a call.
pub(super) fn separates_arguments(kind: &ParseErrorType) -> bool {
    is_missing(kind, ",", "to separate the arguments")
}

/// Returns `true` if a `,` is missing between the parameters of a function.
pub(super) fn separates_parameters(kind: &ParseErrorType) -> bool {
    is_missing(kind, ",", "to separate the parameters")
}

/// Returns `true` if the `)` of an expression in brackets is missing.
pub(super) fn closes_brackets(kind: &ParseErrorType) -> bool {
    is_missing(kind, ")", "for a matching (")
}

fn is_missing(kind: &ParseErrorType, token: &str, why: &str) -> bool {
    matches!(kind, ParseErrorType::MissingToken(missing, said) if missing == token && said.starts_with(why))
}
