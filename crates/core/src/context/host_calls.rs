//! The host calls of a step that may pause, with their results.
//!
//! A step that pauses for an answer runs again from its start. Calls with external effects must not be
//! repeated: each is recorded in the order in which its plugin made it, and returns the recorded result when
//! the step runs again.

use crate::text::hex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use valvehouse_json::{Json, Object};

/// The maximum size in bytes of the results recorded for one step.
const MAX_BYTES: usize = 8 << 20;
/// The maximum number of calls recorded for one step.
const MAX_CALLS: usize = 20_000;

/// The result of a host call.
#[derive(Debug, Clone, PartialEq)]
pub enum HostResult {
    /// The returned value.
    Value(Json),
    /// The error message.
    Failure(String),
    /// A value without a JSON form; the call is repeated.
    Unknown,
}

/// The handling of a host call.
#[derive(Debug, PartialEq)]
pub enum HostCall {
    /// The call was made before the pause; this is its result.
    Known(HostResult),
    /// The call is new; its result is recorded at this position.
    New(usize),
    /// The call is new and not recorded, because it is part of another call or exceeds the limit.
    Unrecorded,
    /// Another call, with this name, was made at this position before the pause.
    Differs(String),
}

/// The host calls of all plugins in one step.
#[derive(Debug, Default)]
pub(super) struct HostCalls {
    plugins: HashMap<String, Sequence>,
    count: usize,
    bytes: usize,
}

/// The host calls of one plugin.
#[derive(Debug, Default)]
struct Sequence {
    calls: Vec<(String, Option<HostResult>)>,
    next: usize,
    /// The nesting depth of calls, such as those within the function passed to `kv::update`.
    depth: usize,
    /// The number of log lines and events written before the pause, and in this run of the step.
    reports_before_pause: u64,
    reports: u64,
}

impl HostCalls {
    /// Starts or restarts the step.
    pub(super) fn begin(&mut self) {
        for sequence in self.plugins.values_mut() {
            (sequence.next, sequence.depth, sequence.reports) = (0, 0, 0);
        }
    }

    pub(super) fn call(&mut self, by: &str, name: &str, arguments: &Json) -> HostCall {
        if self.plugins.get(by).is_some_and(|sequence| sequence.depth > 0) {
            return HostCall::Unrecorded;
        }
        let call = format!("{name} {}", hex(&Sha256::digest(arguments.to_string())));
        let sequence = self.plugins.entry(by.to_owned()).or_default();
        match sequence.calls.get(sequence.next) {
            Some((known, _)) if *known != call => {
                let name = known.split_once(' ').map_or(&**known, |(name, _)| name);
                return HostCall::Differs(name.to_owned());
            }
            Some((_, Some(result))) => {
                sequence.next += 1;
                return HostCall::Known(match result {
                    HostResult::Value(value) => HostResult::Value(value.deep_clone()),
                    other => other.clone(),
                });
            }
            // The call was interrupted.
            Some((_, None)) => sequence.calls.truncate(sequence.next),
            None => {}
        }
        if self.count >= MAX_CALLS || self.bytes >= MAX_BYTES {
            return HostCall::Unrecorded;
        }
        self.count += 1;
        if self.count == MAX_CALLS {
            tracing::warn!(
                plugin = by,
                "cannot record more than {MAX_CALLS} host calls of a step; later ones are made again if it pauses"
            );
        }
        let place = sequence.next;
        sequence.calls.push((call, None));
        sequence.next += 1;
        sequence.depth += 1;
        HostCall::New(place)
    }

    /// Returns a name for the position between a plugin's calls: the number of calls made, and the nesting
    /// depth.
    pub(super) fn place_of(&self, by: &str) -> String {
        let (next, depth) = self.plugins.get(by).map_or((0, 0), |calls| (calls.next, calls.depth));
        format!("{next}.{depth}")
    }

    /// Records the result of a new call; `None` if it was interrupted.
    pub(super) fn end(&mut self, by: &str, place: usize, result: Option<HostResult>) {
        let Some(sequence) = self.plugins.get_mut(by) else { return };
        sequence.depth = sequence.depth.saturating_sub(1);
        self.bytes += match &result {
            Some(HostResult::Value(value)) => value.size_estimate(),
            Some(HostResult::Failure(message)) => message.len(),
            _ => 0,
        };
        if let Some((_, own)) = sequence.calls.get_mut(place) {
            *own = result;
        }
    }

    /// Counts a log line or an event. Returns `true` if it was already written before the pause.
    pub(super) fn was_reported(&mut self, by: &str) -> bool {
        let sequence = self.plugins.entry(by.to_owned()).or_default();
        sequence.reports += 1;
        let was_reported = sequence.reports <= sequence.reports_before_pause;
        sequence.reports_before_pause = sequence.reports_before_pause.max(sequence.reports);
        was_reported
    }

    /// Converts the records to an object by plugin; null if there are none.
    pub(super) fn to_json(&self) -> Json {
        let plugins = self.plugins.iter().map(|(plugin, sequence)| {
            let ended = sequence.calls.iter().map_while(|(call, result)| {
                let result = match result.as_ref()? {
                    HostResult::Value(value) => ("value", value.deep_clone()),
                    HostResult::Failure(message) => ("failure", message.as_str().into()),
                    HostResult::Unknown => ("unknown", true.into()),
                };
                Some(Json::from([("call", call.as_str().into()), result]))
            });
            let calls: Vec<Json> = ended.collect();
            let reports = i64::try_from(sequence.reports_before_pause).unwrap_or(i64::MAX);
            (plugin.as_str().into(), Json::from([("calls", calls.into()), ("told", reports.into())]))
        });
        let plugins: Object = plugins.collect();
        if plugins.is_empty() { Json::Null } else { Json::Object(plugins) }
    }

    /// Reads an object created by [`HostCalls::to_json`].
    pub(super) fn from_json(json: &Json) -> Self {
        let mut read = Self::default();
        for (plugin, sequence) in json.entries() {
            let reports_before_pause = sequence.count("told");
            let calls = sequence.list("calls");
            let calls = calls.iter().map_while(|call| {
                let result = match (call.get("value"), call.text("failure")) {
                    (Some(value), _) => HostResult::Value(value.deep_clone()),
                    (None, Some(message)) => HostResult::Failure(message.into()),
                    (None, None) => HostResult::Unknown,
                };
                Some((call.text("call")?.into(), Some(result)))
            });
            let sequence = Sequence { calls: calls.collect(), reports_before_pause, ..Sequence::default() };
            read.count += sequence.calls.len();
            read.plugins.insert(plugin.to_string(), sequence);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(calls: &mut HostCalls, name: &str, arguments: i64, result: i64) {
        match calls.call("a", name, &arguments.into()) {
            HostCall::New(place) => calls.end("a", place, Some(HostResult::Value(result.into()))),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn repeated_host_calls_find_their_results_in_order() {
        let mut calls = HostCalls::default();
        made(&mut calls, "kv::incr", 1, 5);
        made(&mut calls, "kv::incr", 1, 6);
        assert!(!calls.was_reported("a"));
        let mut calls = HostCalls::from_json(&calls.to_json());
        calls.begin();
        for expected in [5i64, 6] {
            let known = HostCall::Known(HostResult::Value(expected.into()));
            assert_eq!(calls.call("a", "kv::incr", &1i64.into()), known);
        }
        assert!(calls.was_reported("a") && !calls.was_reported("a"));
        assert_eq!(calls.call("a", "kv::incr", &1i64.into()), HostCall::New(2));
    }

    #[test]
    fn a_different_call_at_a_recorded_position_is_not_replayed() {
        let mut calls = HostCalls::default();
        made(&mut calls, "http::post", 1, 200);
        calls.begin();
        for (name, arguments) in [("kv::incr", 1i64), ("http::post", 2)] {
            let differs = HostCall::Differs("http::post".into());
            assert_eq!(calls.call("a", name, &arguments.into()), differs);
        }
        assert_eq!(calls.call("b", "kv::incr", &1i64.into()), HostCall::New(0), "another plugin");
    }

    #[test]
    fn nested_and_unfinished_calls_are_not_recorded() {
        let mut calls = HostCalls::default();
        let HostCall::New(outer) = calls.call("a", "kv::update", &Json::Null) else { panic!() };
        assert_eq!(calls.call("a", "kv::get", &Json::Null), HostCall::Unrecorded);
        calls.end("a", outer, Some(HostResult::Unknown));
        assert_eq!(calls.call("a", "http::get", &Json::Null), HostCall::New(1));
        calls.end("a", 1, None);
        let mut calls = HostCalls::from_json(&calls.to_json());
        calls.begin();
        assert_eq!(calls.call("a", "kv::update", &Json::Null), HostCall::Known(HostResult::Unknown));
        assert_eq!(calls.call("a", "http::get", &Json::Null), HostCall::New(1));
    }
}
