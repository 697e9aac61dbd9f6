//! Calls of tools and their results: each call is followed by its result, and each result by no other call.

use super::draft::{Draft, Part, Slot};
use super::ids::ids_of;
use compact_str::CompactString;
use std::collections::HashMap;
use valvehouse_core::chat::message;
use valvehouse_core::error::Error;

/// The result of a call that the conversation lacks.
const NO_RESULT: &str = "This call has no result: it was interrupted, or its result was lost.";

/// The results of the calls of one message.
#[derive(Default)]
struct Round {
    /// The ids of the calls, each without the number of results that it has.
    open: Vec<CompactString>,
    results: Vec<usize>,
}

/// Moves results directly after their calls, adds a result to calls without one, and removes results without a call,
/// such as a second one.
pub(super) fn complete_results(draft: &mut Draft) -> Result<(), Error> {
    let parts = draft.tool_parts();
    if parts.is_empty() {
        return Ok(());
    }
    let mut rounds: HashMap<usize, Round> = HashMap::new();
    // The messages with an open call of an id; the last one receives the next result.
    let mut open: HashMap<CompactString, Vec<usize>> = HashMap::new();
    for (at, part) in &parts {
        let ids = ids_of(draft.message(*at), *part);
        match part {
            Part::Calls => {
                ids.iter().for_each(|id| open.entry(id.clone()).or_default().push(*at));
                rounds.insert(*at, Round { open: ids, results: Vec::new() });
            }
            Part::Result => {
                let id = ids.into_iter().next().unwrap_or_default();
                let round = open.get_mut(&id).and_then(Vec::pop).and_then(|calls| rounds.get_mut(&calls));
                if let Some(round) = round {
                    round.results.push(*at);
                    let answered = round.open.iter().position(|own| *own == id);
                    answered.map(|answered| round.open.remove(answered));
                }
            }
        }
    }
    let mut parts = parts.into_iter().peekable();
    let mut slots = Vec::with_capacity(draft.len());
    for at in 0..draft.len() {
        if parts.next_if(|(place, part)| *place == at && *part == Part::Result).is_some() {
            continue;
        }
        parts.next_if(|(place, _)| *place == at);
        slots.push(Slot::Old(at));
        let Some(round) = rounds.remove(&at) else { continue };
        slots.extend(round.results.into_iter().map(Slot::Old));
        slots.extend(round.open.iter().map(|id| Slot::New(message::tool(id, NO_RESULT))));
    }
    check_last(draft, &slots)?;
    draft.arrange(slots, "messages");
    Ok(())
}

/// Rejects a request whose last message is a result without a call: without it, the model would answer an earlier
/// message.
fn check_last(draft: &Draft, slots: &[Slot]) -> Result<(), Error> {
    let last = draft.len().saturating_sub(1);
    let is_kept = slots.iter().any(|slot| matches!(slot, Slot::Old(at) if *at == last));
    let ends_with_result = match slots.last() {
        Some(Slot::Old(at)) => message::role_of(draft.message(*at)) == "tool",
        Some(Slot::New(_)) => true,
        None => false,
    };
    if is_kept || ends_with_result {
        return Ok(());
    }
    let id = draft.message(last).text_or_empty("tool_call_id");
    let message = format!(
        "no call found for messages[{last}] with tool_call_id `{id}`: send the message with the call before it"
    );
    Err(Error::invalid(message, Some("messages")))
}
