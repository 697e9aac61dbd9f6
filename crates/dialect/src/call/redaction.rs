//! Redacts the secrets of the running call in texts: those of its valves and of its user.

use crate::{budget, call};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;
use valvehouse_core::context::Turn;
use valvehouse_core::valve::{Redactor, ValveSchema};
use valvehouse_json::Json;

/// The number of bytes compared with secrets that is charged as one operation.
const REDACTED_BYTES: usize = 512;
/// Replaces a text if the budget is too short to search it for secrets.
const WITHHELD: &str = "*** (redacted: too many secrets to search for)";

/// The secret user valves that scripts of a turn received.
#[derive(Default)]
struct UserSecrets(Mutex<Vec<(Arc<str>, Json, Redactor)>>);

/// Redacts the secrets among these user valves for the rest of a turn, because a script receives them.
pub fn redact_for_user(turn: &Turn, plugin: &Arc<str>, schema: &ValveSchema, values: &Json) {
    if !schema.fields().iter().any(|field| field.secret) {
        return;
    }
    let known = turn.local::<UserSecrets>();
    let mut known = known.0.lock();
    let is_same = |known: &Json| match (known.as_object(), values.as_object()) {
        (Some(known), Some(values)) => known.ptr_eq(values),
        _ => false,
    };
    if !known.iter().any(|(id, known, _)| id == plugin && is_same(known)) {
        known.push((plugin.clone(), values.clone(), Redactor::of(schema, values)));
    }
}

/// Redacts the secrets of the running call in a text: those of its valves and of its user.
pub fn redacted(text: &str) -> Cow<'_, str> {
    call::with(|call| {
        let Some(call) = call else { return text.into() };
        let users = call.turn.local::<UserSecrets>();
        let users = users.0.lock();
        let all = || std::iter::once(&call.caller.secrets).chain(users.iter().map(|(_, _, secrets)| secrets));
        let work = all().fold(0, |work: usize, secrets| work.saturating_add(secrets.work(text)));
        if work > 0
            && let Err(exceeded) = budget::charge((work / REDACTED_BYTES) as u64)
        {
            budget::doom(exceeded);
            return WITHHELD.into();
        }
        all().fold(text.into(), |text: Cow<'_, str>, secrets| match secrets.redact(&text) {
            Cow::Owned(redacted) => redacted.into(),
            Cow::Borrowed(_) => text,
        })
    })
}

/// Returns the start of a text for use in a sentence, with secrets redacted.
pub fn excerpt(text: &str) -> String {
    valvehouse_core::limits::shortened(&redacted(text))
}
