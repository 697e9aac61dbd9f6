//! The lanes of a choice in their map. Those that may have withheld text are listed by what can end them, so that an
//! event visits only those that it continues or ends.

use super::buffer::{LANES, child};
use super::lane::{self, Lane};
use super::speech::Speech;
use super::visitor::WindowVisitor;
use compact_str::CompactString;
use valvehouse_json::Json;

/// The key of the names of lanes that may have withheld text, by group.
const OPEN: &str = "open";
/// The group of lanes that are released with the next event.
const OVER: &str = "over";
/// The key of the number of lanes with withheld text.
const WAITING: &str = "waiting";
/// All groups.
const ALL: [&str; 4] = ["reasoning", "spoken", "unknown", OVER];

/// The lanes of a choice.
pub(super) struct Lanes<'a> {
    held: &'a Json,
    lanes: Json,
    longest: usize,
}

impl<'a> Lanes<'a> {
    pub(super) fn of(held: &'a Json, longest: usize) -> Self {
        Self { held, lanes: child(held, LANES), longest }
    }

    /// Returns `true` if any lane of a stored choice has withheld text.
    pub(super) fn wait(held: &Json) -> bool {
        held.count(WAITING) > 0
    }

    /// Returns the lane with this name, a new one if there is none, and whether it has withheld text.
    pub(super) fn load(&self, name: &str) -> (Lane, bool) {
        let stored = self.lanes.field(name);
        let mut lane = Lane::load(&stored, self.longest);
        if stored.is_null() {
            lane.at = self.lanes.len() as u64;
        }
        let waited = lane.waits();
        (lane, waited)
    }

    /// Stores a lane. `waited` is set if it had withheld text before.
    pub(super) fn store(&self, name: &str, mut lane: Lane, waited: bool) {
        if waited != lane.waits() {
            let waiting = self.held.count(WAITING);
            // The maps belong to this module, so the writes cannot fail.
            self.held.edit(WAITING, if waited { waiting.saturating_sub(1) } else { waiting + 1 });
        }
        if lane.waits() && !lane.is_open {
            lane.is_open = true;
            list(self.held, Speech::group(name, &lane.kind), name);
        }
        self.lanes.edit(name, lane.to_json());
    }

    /// Takes the listed lanes of the groups that can end, in the order in which they began. What does not end is listed
    /// again by [`Lanes::keep`].
    pub(super) fn take<L: WindowVisitor>(
        &self,
        ends: bool,
        speech: &Speech,
        look: &mut L,
    ) -> Vec<(CompactString, Lane)> {
        let groups = if ends { &ALL[..] } else { speech.ending_groups() };
        let mut taken = Vec::new();
        for group in groups.iter().copied().chain((!ends).then_some(OVER)) {
            for name in take(self.held, group) {
                let lane = Lane::load(&self.lanes.field(&name), self.longest);
                // A lane that got more text since is listed in its group.
                if group != OVER || lane.is_over {
                    taken.push((name, lane));
                }
            }
        }
        look.visits(taken.len());
        taken.sort_by_key(|(_, lane)| lane.at);
        taken
    }

    /// Lists a lane again that was taken and did not end. One without withheld text is listed when it has some.
    pub(super) fn keep(&self, name: &str, lane: &Lane) {
        if lane.waits() && lane.is_open {
            list(self.held, Speech::group(name, &lane.kind), name);
        } else if let Some(stored) = self.lanes.get(name) {
            lane::close(&stored);
        }
    }
}

/// Marks the lanes that an event ends for release with the next event. Returns `true` if one has withheld text.
pub(super) fn mark_ends(held: &Json, speech: &Speech) -> bool {
    let mut any = false;
    let lanes = held.field(LANES);
    for group in speech.ending_groups() {
        for name in take(held, group) {
            let Some(stored) = lanes.get(&name) else { continue };
            let kind = stored.text_or_empty("kind");
            if !lane::waits(&stored) {
                lane::close(&stored);
            } else if speech.ends(&name, &kind) {
                lane::mark_over(&stored, speech.closes);
                list(held, OVER, &name);
                any = true;
            } else {
                list(held, group, &name);
            }
        }
    }
    any
}

/// Adds a name to a group.
fn list(held: &Json, group: &str, name: &str) {
    let open = child(held, OPEN);
    // The maps belong to this module, so the writes cannot fail.
    match open.get(group) {
        Some(names) => _ = names.push(name),
        None => open.edit(group, vec![Json::from(name)]),
    }
}

/// Takes the names of a group.
fn take(held: &Json, group: &str) -> Vec<CompactString> {
    let names = held.get(OPEN).and_then(|open| open.remove(group));
    names.map_or_else(Vec::new, |names| names.items().iter().map(|name| name.str_or_empty().into()).collect())
}
