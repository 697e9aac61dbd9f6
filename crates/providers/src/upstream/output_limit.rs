//! The limits of services for the tokens of an answer, as their refusals name them.
//!
//! The Messages API requires `max_tokens`, so its clients send the limit of Anthropic's models to every service.

use compact_str::CompactString;
use parking_lot::Mutex;
use std::collections::HashMap;
use valvehouse_core::error::Error;
use valvehouse_core::error_code::message_of;
use valvehouse_json::{Json, Object};

/// The fields with the maximum number of tokens of an answer.
const FIELDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];
/// The words of which one is in a refusal of such a field.
const WORDS: [&str; 5] =
    ["max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "completion tokens"];
/// The least number that is taken for a limit.
const MIN_LIMIT: i64 = 256;
/// The maximum number of models whose limits are kept.
const MAX_MODELS: usize = 1_000;

/// The known limits, by model.
#[derive(Default)]
pub(super) struct OutputLimits(Mutex<HashMap<CompactString, i64>>);

impl OutputLimits {
    /// Returns a request within the known limit of its model; `None` if it is.
    pub(super) fn lowered(&self, model: &str, request: &Json) -> Option<Json> {
        let limit = *self.0.lock().get(model)?;
        with_limit(request, limit)
    }

    /// Returns a request within the limit that an error names for its model; `None` if it names none. A limit that
    /// depends on the length of the request is not kept.
    pub(super) fn learned(&self, model: &str, request: &Json, error: &Error) -> Option<Json> {
        let Error::Answered { status: 400 | 413 | 422, body, .. } = error else { return None };
        let asked = FIELDS.iter().filter_map(|name| request.integer(name)).max()?;
        let (limit, is_fixed) = limit_in(&message_of(body)?, asked)?;
        let mut known = self.0.lock();
        if is_fixed && (known.len() < MAX_MODELS || known.contains_key(model)) {
            known.insert(model.into(), limit);
        }
        with_limit(request, limit)
    }
}

fn with_limit(request: &Json, limit: i64) -> Option<Json> {
    let is_over = |name: &&&str| request.integer(name).is_some_and(|asked| asked > limit);
    let over: Vec<&str> = FIELDS.iter().filter(is_over).copied().collect();
    let fields = request.entries().into_iter();
    let fields = fields.map(|(key, value)| match over.contains(&&*key) {
        true => (key, limit.into()),
        false => (key, value),
    });
    (!over.is_empty()).then(|| fields.collect::<Object>().into())
}

/// Returns the limit that a refusal names, and `true` if it is the same for all requests.
fn limit_in(refusal: &str, asked: i64) -> Option<(i64, bool)> {
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

    #[test]
    fn a_learned_limit_applies_to_later_requests_of_the_model() {
        let request = Json::parse(br#"{"max_tokens":64000,"x":1}"#).unwrap();
        let body = Json::parse(br#"{"error":{"message":"max_tokens is too large: at most 4096"}}"#).unwrap();
        let error = Error::Answered { provider: "p".into(), status: 400, body, retry_after: None };
        let limits = OutputLimits::default();
        assert_eq!(limits.lowered("m", &request), None);
        let lowered = limits.learned("m", &request, &error).unwrap();
        assert_eq!(lowered.to_string(), r#"{"max_tokens":4096,"x":1}"#);
        assert_eq!(limits.lowered("m", &request), Some(lowered.clone()));
        assert_eq!((limits.lowered("m", &lowered), limits.lowered("other", &request)), (None, None));
    }
}
