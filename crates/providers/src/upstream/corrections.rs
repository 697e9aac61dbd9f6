//! The changes that services demanded by refusing requests, by client and model: later requests are right at once, and no
//! client changes the requests of another one.

use compact_str::CompactString;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_wire::service::{self, Adaptation, Correction, ServiceKind};

/// The maximum number of clients with their models whose changes are kept.
const MAX_CLIENTS: usize = 10_000;
/// The maximum number of changes of one client and model.
const MAX_CHANGES: usize = 16;
/// The maximum number of refusals after which one request is changed.
pub(super) const MAX_REFUSALS: usize = 3;
/// The time after which a change is forgotten: the service may accept more by then.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// The known changes, by client and model.
#[derive(Default)]
pub(super) struct Corrections(Mutex<HashMap<Asker, Vec<(Correction, Instant)>>>);

/// A client, by the name of its key, and its model.
pub(super) type Asker = (Option<CompactString>, CompactString);

/// Returns the client of an exchange and its model.
pub(super) fn asker(exchange: &Exchange, model: &str) -> Asker {
    let trace = exchange.trace();
    (trace.and_then(|trace| trace.key()).map(CompactString::from), model.into())
}

fn is_young((_, since): &(Correction, Instant)) -> bool {
    since.elapsed() < MAX_AGE
}

impl Corrections {
    /// Returns `true` if changes are kept for a client and model.
    pub(super) fn has(&self, asker: impl FnOnce() -> Asker) -> bool {
        let known = self.0.lock();
        !known.is_empty() && known.contains_key(&asker())
    }

    /// Returns a request with the changes that are known for its client and model; `None` if there are none.
    pub(super) fn known(&self, kind: ServiceKind, asker: &Asker, request: &Json) -> Option<Adaptation> {
        let known = self.0.lock();
        let young = known.get(asker)?.iter().filter(|change| is_young(change));
        let changes: Vec<Correction> = young.map(|(correction, _)| correction.clone()).collect();
        drop(known);
        service::correct(kind, request, &changes).ok().flatten()
    }

    /// Keeps changes with which the service accepted a request.
    pub(super) fn keep(&self, asker: Asker, changes: Vec<Correction>) {
        if changes.iter().all(|change| !change.is_lasting()) {
            return;
        }
        let mut known = self.0.lock();
        if known.len() >= MAX_CLIENTS {
            known.retain(|_, changes| changes.iter().any(is_young));
        }
        if known.len() >= MAX_CLIENTS && !known.contains_key(&asker) {
            return;
        }
        let own = known.entry(asker).or_default();
        own.retain(|change| is_young(change) && !changes.contains(&change.0));
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
    fn a_change_applies_to_later_requests_of_the_client_and_model() {
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
        let of = |key: &str, model: &str| (Some(key.into()), model.into());
        corrections.keep(of("ann", "m"), changes);
        let known = |asker| corrections.known(kind, &asker, &request).map(|known| known.body.to_string());
        assert_eq!(known(of("ann", "m")).unwrap(), r#"{"max_tokens":4096,"x":1}"#);
        assert_eq!(known(of("ann", "other")), None);
        assert_eq!(known(of("bob", "m")), None);
        assert!(after(kind, &refusal("temperature must be a number"), &request, &[]).is_none());
    }
}
