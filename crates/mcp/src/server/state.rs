//! The state of a call that waits for an answer, as clients carry it: sealed, bound to its owner and its exact request,
//! and of limited life.

use rmcp::ErrorData;
use std::time::{SystemTime, UNIX_EPOCH};
use valvehouse_json::Json;

/// The life of a state, in seconds.
const LIFE: u64 = 3_600;

/// The answers and host calls of a call so far, and the question that is open.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// The answers, by the hash of their question.
    pub(super) answers: Json,
    /// The recorded results of host calls.
    pub(super) host_calls: Json,
    /// The hash of the open question.
    pub(super) open: Option<String>,
}

impl State {
    /// The state as text that only hosts of this store can read, and only for the same request.
    pub(super) fn sealed(&self, about: &str, seal: impl FnOnce(&str, &str) -> String) -> String {
        let plain = Json::from([
            ("answers", self.answers.copy()),
            ("host_calls", self.host_calls.copy()),
            ("open", self.open.as_deref().map_or(Json::Null, Json::from)),
            ("until", i64::try_from(now() + LIFE).unwrap_or(i64::MAX).into()),
        ]);
        seal(&plain.to_string(), about)
    }

    /// Reads what [`State::sealed`] wrote about the same request.
    ///
    /// # Errors
    /// Returns an error for clients if it was changed, belongs to another request or owner, or is too old.
    pub(super) fn open(
        sealed: &str,
        about: &str,
        unseal: impl FnOnce(&str, &str) -> Option<String>,
    ) -> Result<Self, ErrorData> {
        let wrong = |why: &str| {
            ErrorData::invalid_params(
                format!("cannot go on with this requestState: {why}; send the request again without it"),
                None,
            )
        };
        let plain = unseal(sealed, about)
            .ok_or_else(|| wrong("it was changed, or belongs to another request, key or host"))?;
        let state = Json::parse(plain.as_bytes()).map_err(|_| wrong("it cannot be read"))?;
        let until =
            state.get("until").and_then(|until| until.as_i64()).and_then(|until| u64::try_from(until).ok());
        if until.is_none_or(|until| until < now()) {
            return Err(wrong("it is too old"));
        }
        let part = |name: &str| state.field(name);
        Ok(Self {
            answers: part("answers"),
            host_calls: part("host_calls"),
            open: state.text("open").map(String::from),
        })
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_store::seal::SealKey;

    #[test]
    fn a_state_opens_only_for_the_request_it_was_made_for() {
        let key = SealKey::of(&"k".repeat(64)).unwrap();
        let state = State { open: Some("abc".into()), answers: Json::object(), host_calls: Json::Null };
        let sealed = state.sealed("ann tools/call pay {}", |text, about| key.seal(text, about));
        let open = |sealed: &str, about: &str, key: &SealKey| {
            State::open(sealed, about, |text, about| key.open(text, about))
        };
        assert_eq!(open(&sealed, "ann tools/call pay {}", &key).unwrap().open.as_deref(), Some("abc"));
        assert!(open(&sealed, "bob tools/call pay {}", &key).is_err());
        assert!(open(&format!("{sealed}x"), "ann tools/call pay {}", &key).is_err());
        let other = SealKey::of(&"o".repeat(64)).unwrap();
        assert!(open(&sealed, "ann tools/call pay {}", &other).is_err());
    }
}
