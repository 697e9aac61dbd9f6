//! Decides whether the size of its input made a call fail. Such a failure is not one of the plugin: any client can
//! cause it, so it must not open the plugin's circuit breaker for other clients.

use crate::budget::ExceededLimit;
use crate::value::limits::max_text;
use rhai::EvalAltResult;
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_json::{Json, MAX_DEPTH, Repeats};

/// The size from which a list or a text that is split exceeds the limit of one value, in elements or bytes.
const MANY: usize = 100_000;
/// The maximum number of elements and keys of an ordinary input.
const MAX_ELEMENTS: usize = 10_000;
/// The maximum number of bytes of text in an ordinary input.
const MAX_BYTES: usize = 1 << 20;
/// The maximum nesting of an ordinary input.
const MAX_NESTING: usize = 24;

/// A limit of scripts that a larger input can exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReachedLimit {
    /// The length of a text.
    Text,
    /// The size of one value, or the nesting of calls.
    Value,
    /// The operations, the time or the memory of a call.
    Budget,
}

impl ReachedLimit {
    /// Returns the limit that ended a call, if any.
    pub fn of(error: &EvalAltResult) -> Option<Self> {
        match error.unwrap_inner() {
            EvalAltResult::ErrorDataTooLarge(what, _) if what.to_lowercase().contains("string") => {
                Some(Self::Text)
            }
            EvalAltResult::ErrorDataTooLarge(..) | EvalAltResult::ErrorStackOverflow(_) => Some(Self::Value),
            EvalAltResult::ErrorTerminated(why, _) => match *why.read_lock::<ExceededLimit>()? {
                ExceededLimit::Text(_) => Some(Self::Text),
                ExceededLimit::Operations(_)
                | ExceededLimit::Memory(_)
                | ExceededLimit::Held(_)
                | ExceededLimit::Time(_) => Some(Self::Budget),
                ExceededLimit::Wall(_)
                | ExceededLimit::Over
                | ExceededLimit::Paused
                | ExceededLimit::Replay => None,
            },
            _ => None,
        }
    }
}

/// Adds to the failure of a call that its input caused it, if the input is extraordinarily large or nested.
/// `noted` is the size of the input before the call, in bytes, or 0 if it is unknown: a script that enlarges its
/// input itself is at fault. With a `limit`, the failure has a rejection that names it.
pub fn attributed(
    failure: PluginError,
    summary: &str,
    limit: Option<ReachedLimit>,
    input: &Json,
    noted: usize,
) -> PluginError {
    let size = InputSize::of(input);
    if !size.explains(limit, if noted == 0 { usize::MAX } else { noted }) {
        return failure;
    }
    let rejection = limit.map(|limit| Box::new(size.rejection(limit, summary)));
    PluginError { is_by_request: true, rejection, ..failure }
}

/// The size of an input. A value that occurs several times counts once.
#[derive(Debug, Default, PartialEq, Eq)]
struct InputSize {
    /// The bytes of all texts and keys.
    bytes: usize,
    /// The bytes of the longest text.
    longest: usize,
    /// The elements of lists and the keys of maps.
    elements: usize,
    /// The number of nested levels.
    depth: usize,
}

impl InputSize {
    fn of(input: &Json) -> Self {
        let mut size = Self::default();
        size.add(input, 0, &mut Repeats::default());
        size
    }

    fn add(&mut self, value: &Json, depth: usize, met: &mut Repeats) {
        self.depth = self.depth.max(depth);
        if depth > MAX_DEPTH || met.is_repeated(value) {
            return;
        }
        match value {
            Json::Text(text) => {
                self.bytes += text.len();
                self.longest = self.longest.max(text.len());
            }
            Json::Array(items) => items.with(|items| {
                self.elements += items.len();
                items.iter().for_each(|item| self.add(item, depth + 1, met));
            }),
            Json::Object(fields) => {
                self.elements += fields.len();
                fields.for_each(|key, value| {
                    self.bytes += key.len();
                    self.add(value, depth + 1, met);
                });
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// Returns `true` if an input of this size explains a failure. `noted` is the size before the call.
    fn explains(&self, limit: Option<ReachedLimit>, noted: usize) -> bool {
        let most = match limit {
            Some(ReachedLimit::Text | ReachedLimit::Value) => MANY,
            Some(ReachedLimit::Budget) | None => MAX_BYTES,
        };
        // Nesting explains the nesting of calls, not a budget. The size before the call has 64 bytes for each
        // container, and 5 for each key of an object that was not read.
        let is_nested = limit == Some(ReachedLimit::Value) && self.depth.min(noted / 64) > MAX_NESTING;
        self.bytes.min(noted) > most || self.elements.min(noted / 5) > MAX_ELEMENTS || is_nested
    }

    fn rejection(&self, limit: ReachedLimit, summary: &str) -> Rejection {
        let most = max_text();
        if limit == ReachedLimit::Text && self.longest > most {
            return too_long(most);
        }
        let limit = match limit {
            ReachedLimit::Value if self.elements > MANY => {
                format!("it exceeded the limit of {MANY} elements of a list")
            }
            ReachedLimit::Text => format!("its texts exceeded the limit of {} MB of one text", most >> 20),
            ReachedLimit::Value => format!("the plugin failed: {summary}"),
            ReachedLimit::Budget => format!("the plugin {summary}"),
        };
        Rejection::new(format!("cannot process a request of this size: {limit}; shorten the request"))
            .with_status(413)
    }
}

fn too_long(limit: usize) -> Rejection {
    Rejection::new(format!(
        "cannot read a text of the request: it exceeded its limit of {} MB; shorten it, or raise [server] \
         max_text_mb",
        limit >> 20
    ))
    .with_status(413)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Json {
        (0..depth).fold(Json::Null, |inner, _| Json::from(vec![inner]))
    }

    #[test]
    fn an_input_explains_a_failure_if_it_is_large_or_nested() {
        let explains = |input: &Json, limit| InputSize::of(input).explains(limit, usize::MAX);
        let text = |bytes: usize| Json::from([("text", "x".repeat(bytes).into())]);
        let list = |items: usize| Json::from(vec![Json::Null; items]);
        assert!(!explains(&text(MANY / 2), Some(ReachedLimit::Text)));
        assert!(explains(&text(MANY), Some(ReachedLimit::Value)));
        assert!(!explains(&text(MANY), Some(ReachedLimit::Budget)) && !explains(&text(MANY), None));
        assert!(explains(&text(MAX_BYTES), Some(ReachedLimit::Budget)));
        assert!(!explains(&list(MAX_ELEMENTS), None) && explains(&list(MAX_ELEMENTS + 1), None));
        let value = Some(ReachedLimit::Value);
        assert!(!explains(&nested(MAX_NESTING), value) && explains(&nested(MAX_NESTING + 1), value));
        assert!(!explains(&nested(100), None) && !explains(&nested(100), Some(ReachedLimit::Budget)));
    }

    #[test]
    fn a_script_that_enlarges_a_small_request_is_at_fault() {
        let large = Json::from(vec![Json::from("x".repeat(MAX_BYTES + 1))]);
        let failure = |noted| attributed(PluginError::new("failed"), "failed", None, &large, noted);
        assert!(!failure(500).is_by_request && failure(2 * MAX_BYTES).is_by_request);
        let small = Json::parse(br#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#).unwrap();
        let noted = small.size_estimate();
        let nested = |limit| attributed(PluginError::new("failed"), "failed", limit, &nested(100), noted);
        assert!(!nested(Some(ReachedLimit::Value)).is_by_request && !nested(None).is_by_request);
    }

    #[test]
    fn a_value_that_occurs_often_counts_once() {
        let mut doubled = Json::from(vec![Json::from("x")]);
        for _ in 0..100 {
            doubled = Json::from(vec![doubled.clone(), doubled]);
        }
        let size = InputSize::of(&doubled);
        assert_eq!((size.bytes, size.elements), (1, 201));
    }
}
