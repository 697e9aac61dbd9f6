//! The limits of services for the tokens of an answer, as their refusals name them.
//!
//! The Messages API requires `max_tokens`, so its clients send the limit of Anthropic's models to every service.

use super::draft::Draft;
use super::kind::ServiceKind;
use crate::messages::request::MAX_TOKENS;
use valvehouse_json::Json;

/// The fields with the maximum number of tokens of an answer.
const FIELDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];
/// The words of which one is in a refusal of such a field.
const WORDS: [&str; 5] =
    ["max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "completion tokens"];
/// The least number that is taken for a limit.
const MIN_LIMIT: i64 = 256;

/// Returns the largest number of tokens that a request asks for. A service with the Messages API always receives one.
pub(super) fn asked(kind: ServiceKind, request: &Json) -> i64 {
    let asked = FIELDS.iter().filter_map(|name| request.integer(name)).max();
    asked.unwrap_or(if kind.is_messages() { MAX_TOKENS } else { 0 })
}

/// Lowers the fields with the maximum number of tokens to a limit.
pub(super) fn lower(draft: &mut Draft, kind: ServiceKind, limit: i64) {
    for name in FIELDS {
        if draft.given(name).and_then(|asked| asked.as_i64()).is_some_and(|asked| asked > limit) {
            draft.set(name, limit.into(), FIELDS[1]);
        }
    }
    let is_default = kind.is_messages() && FIELDS.iter().all(|name| draft.given(name).is_none());
    if is_default && limit < MAX_TOKENS {
        draft.set(FIELDS[1], limit.into(), FIELDS[1]);
    }
}

/// Returns the limit that a refusal names, and `true` if it is the same for all requests.
pub(super) fn limit_in(refusal: &str, asked: i64) -> Option<(i64, bool)> {
    if !WORDS.iter().any(|word| refusal.contains(word)) {
        return None;
    }
    let before =
        |words: &[&str]| words.iter().find_map(|word| numbers(refusal.split_once(word)?.0).last().copied());
    let after = |word: &str| numbers(refusal.split_once(word)?.1).first().copied();
    let is_one = |limit: &i64| (MIN_LIMIT..asked).contains(limit);
    if let Some(context) = after("context length") {
        let input =
            before(&[" input tokens", " tokens in the messages", " in the messages", " in the input"])?;
        return Some((context.checked_sub(input).filter(is_one)?, false));
    }
    numbers(refusal).into_iter().filter(is_one).max().map(|limit| (limit, true))
}

/// Returns the whole numbers in a text.
fn numbers(text: &str) -> Vec<i64> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != ',');
    words.filter_map(|word| word.trim_matches(',').replace(',', "").parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_found_in_the_refusals_of_services() {
        for (message, limit) in [
            (
                "max_tokens is too large: 64000. This model supports at most 16384 completion tokens, whereas you provided 64000.",
                Some((16_384, true)),
            ),
            ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", Some((8_192, true))),
            (
                "`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than the `context_window` for this model",
                Some((16_384, true)),
            ),
            ("expected a value <= 12,288, but got 64,000 instead: max_tokens", Some((12_288, true))),
            (
                "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku-20241022",
                Some((8_192, true)),
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 64001 tokens and your request has 1234 input tokens (64000 > 64001 - 1234).",
                Some((62_767, false)),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                None,
            ),
            ("max_tokens must be a number", None),
        ] {
            assert_eq!(limit_in(message, 64_000), limit, "{message}");
        }
    }
}
