//! Text that is held in a script's windows (`stream::window`) when a stream ends or continues without the script.

use compact_str::CompactString;
use std::convert::Infallible;
use valvehouse_core::chat::{event, window};
use valvehouse_json::Json;

/// Passes all text unchanged.
struct PassAll;

impl window::WindowVisitor for PassAll {
    type Error = Infallible;

    fn changed(&mut self, text: &str) -> Result<CompactString, Infallible> {
        Ok(text.into())
    }

    fn unfinished(&mut self, _text: &str) -> Result<usize, Infallible> {
        Ok(0)
    }
}

/// Returns the maps in which a script's windows may hold text: its state, and the maps in it.
fn keepers(state: &Json) -> Vec<Json> {
    let below = state.entries();
    let below = below.into_iter().map(|(_, value)| value).filter(|value| value.as_object().is_some());
    std::iter::once(state.clone()).chain(below).collect()
}

/// Returns the held text of each of these maps.
pub(crate) fn held(state: &Json) -> Vec<(Json, Json)> {
    keepers(state).into_iter().map(|kept| (kept.clone(), window::held(&kept).deep_clone())).collect()
}

/// Restores the text that was held before a call.
pub(crate) fn put_back(state: &Json, before: Vec<(Json, Json)>) {
    for kept in keepers(state) {
        let was = before.iter().find(|(keeper, _)| keeper.ptr_eq(&kept));
        window::set_held(&kept, was.map(|(_, held)| held.deep_clone()).into());
    }
}

/// Returns the event with the text that was held before it.
pub(crate) fn release(state: &Json, event: Json) -> Json {
    for kept in keepers(state) {
        if !window::waiting(&kept).is_empty() {
            let Ok(()) = window::pass(&event, &kept, usize::MAX, &mut PassAll);
        }
    }
    event
}

/// Returns an empty event to send before this one if held texts end before it.
pub(crate) fn ending_lanes(state: &Json, event: &Json) -> Option<Json> {
    let mut any = false;
    for kept in keepers(state) {
        any |= window::ends_lanes(event, &kept);
    }
    any.then(|| event::with_delta(event, Json::object()))
}

/// Returns `true` if an event has no content for a client.
pub(crate) fn is_hollow(event: &Json) -> bool {
    window::is_hollow(event)
}

/// Returns an empty event for each choice that has ended with held text.
pub(crate) fn ends(state: &Json) -> Vec<Json> {
    let mut events = Vec::new();
    for kept in keepers(state) {
        for choice in window::waiting(&kept) {
            window::end(&kept, choice);
            let delta = Json::from([("index", choice.into())]);
            events.push(event::complete(&delta, &Json::object()));
        }
    }
    events
}

/// Returns all held text as events.
pub(crate) fn rest(state: &Json) -> Json {
    let events = ends(state).into_iter().map(|event| release(state, event));
    let rest = events.flat_map(deltas).collect::<Vec<_>>().into();
    forget(state);
    rest
}

/// Returns the number of maps in which windows may hold text.
pub(crate) fn count(state: &Json) -> usize {
    keepers(state).len()
}

/// Ends all texts with their model call: those of the next call do not continue them.
pub(crate) fn forget(state: &Json) {
    keepers(state).iter().for_each(|kept| window::set_held(kept, Json::Null));
}

/// Returns the deltas of events, each with the index of its choice.
pub(crate) fn deltas(events: Json) -> Vec<Json> {
    let events = match events {
        Json::Array(events) => events.items(),
        one => vec![one],
    };
    let deltas = events.into_iter().filter_map(|event| {
        let Some(delta) = event::delta(&event) else { return Some(event).filter(|event| !event.is_null()) };
        if delta.is_empty() {
            return None;
        }
        delta.edit("index", event::choice_index(&event));
        Some(delta)
    });
    deltas.collect()
}

/// Returns the first events, followed by those of a hook.
pub(crate) fn joined(first: Vec<Json>, then: Json) -> Json {
    let then = match then {
        Json::Array(events) => events.items(),
        Json::Null => Vec::new(),
        one => vec![one],
    };
    [first, then].concat().into()
}
