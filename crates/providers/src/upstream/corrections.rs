//! The changes that services demanded by refusing requests, by model: later requests are right at once.

use compact_str::CompactString;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_wire::service::{self, Adaptation, Correction, ServiceKind};

/// The maximum number of models whose changes are kept.
const MAX_MODELS: usize = 1_000;
/// The maximum number of changes of one model.
const MAX_CHANGES: usize = 16;
/// The maximum number of refusals after which one request is changed.
pub(super) const MAX_REFUSALS: usize = 3;
/// The time after which a change is forgotten: the service may accept more by then.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// The known changes, by model.
#[derive(Default)]
pub(super) struct Corrections(Mutex<HashMap<CompactString, Vec<(Correction, Instant)>>>);

impl Corrections {
    /// Returns the changes for a model.
    fn of(&self, model: &str) -> Vec<Correction> {
        let known = self.0.lock();
        let young = known.get(model).into_iter().flatten().filter(|(_, since)| since.elapsed() < MAX_AGE);
        young.map(|(correction, _)| correction.clone()).collect()
    }

    /// Returns `true` if requests for a model are sent unchanged.
    pub(super) fn are_none(&self, model: &str) -> bool {
        !self.0.lock().contains_key(model)
    }

    /// Returns a request with the changes that are known for its model; `None` if there are none.
    pub(super) fn known(&self, kind: ServiceKind, model: &str, request: &Json) -> Option<Adaptation> {
        if self.are_none(model) {
            return None;
        }
        service::correct(kind, request, &self.of(model)).ok().flatten()
    }

    /// Keeps changes with which the service accepted a request.
    pub(super) fn keep(&self, model: &str, changes: Vec<Correction>) {
        let mut known = self.0.lock();
        if changes.iter().all(|change| !change.is_lasting())
            || known.len() >= MAX_MODELS && !known.contains_key(model)
        {
            return;
        }
        let own = known.entry(model.into()).or_default();
        own.retain(|(old, since)| since.elapsed() < MAX_AGE && !changes.contains(old));
        let now = Instant::now();
        own.extend(changes.into_iter().filter(Correction::is_lasting).map(|change| (change, now)));
        own.truncate(MAX_CHANGES);
    }
}

/// Returns the request that a service may accept after it refused one, and the changes; `None` if its refusal does not tell
/// or demands a change that was made.
pub(super) fn after(
    kind: ServiceKind,
    error: &Error,
    request: &Json,
    made: &[Correction],
) -> Option<(Vec<Correction>, Adaptation)> {
    let Error::Answered { provider, status, body, .. } = error else { return None };
    let (changes, changed) = service::learn(kind, *status, body, request)?;
    if changes.iter().any(|change| made.contains(change)) {
        return None;
    }
    tracing::info!(
        provider,
        "the service refuses a request ({status}); it is changed and sent again: {error}"
    );
    Some((changes, changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_applies_to_later_requests_of_the_model() {
        let request = Json::parse(br#"{"max_tokens":64000,"temperature":0,"x":1}"#).unwrap();
        let refusal = |message: &str| {
            let body = Json::from([("error", Json::from([("message", message.into())]))]);
            Error::Answered { provider: "p".into(), status: 400, body, retry_after: None }
        };
        let corrections = Corrections::default();
        let kind = ServiceKind::Compatible;
        let tokens = refusal("max_tokens is too large: at most 4096");
        let (mut changes, changed) = after(kind, &tokens, &request, &[]).unwrap();
        assert_eq!(changed.body.to_string(), r#"{"max_tokens":4096,"temperature":0,"x":1}"#);
        assert!(after(kind, &tokens, &request, &changes).is_none(), "this change was made");
        let unknown = refusal("Unsupported parameter: 'temperature' is not supported with this model");
        let (more, changed) = after(kind, &unknown, &changed.body, &changes).unwrap();
        assert_eq!(changed.body.to_string(), r#"{"max_tokens":4096,"x":1}"#);
        changes.extend(more);
        corrections.keep("m", changes);
        let known =
            |model: &str| corrections.known(kind, model, &request).map(|known| known.body.to_string());
        assert_eq!(known("m").unwrap(), r#"{"max_tokens":4096,"x":1}"#);
        assert_eq!(known("other"), None);
        assert!(after(kind, &refusal("temperature must be a number"), &request, &[]).is_none());
    }
}
