//! Anthropic's error types.

/// Anthropic's error types with their HTTP statuses.
const KINDS: [(&str, u16); 10] = [
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// Returns the HTTP status of an Anthropic error type. An error within a stream has no other status.
pub fn status_of(kind: &str) -> Option<u16> {
    KINDS.iter().find(|(own, _)| *own == kind).map(|(_, status)| *status)
}

/// Returns the Anthropic error type of an HTTP status.
pub fn kind_of_status(status: u16) -> &'static str {
    let own = KINDS.iter().find(|(_, own)| *own == status);
    own.map_or(if status < 500 { "invalid_request_error" } else { "api_error" }, |(kind, _)| kind)
}
