//! The state of the summarization from call to call and from turn to turn.

use super::settings::NAME;
use super::units::Unit;
use valvehouse_core::context::Turn;
use valvehouse_json::Json;

/// The summary so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    pub(super) summary: Option<String>,
    /// Messages of the conversation that it stands for.
    pub(super) covers: u64,
    /// The reason for which the last one could not be written, and the length of the conversation then.
    pub(super) failed: Option<(String, u64)>,
}

/// The place in the conversation of the first message that is given.
pub(super) fn offset(turn: &Turn) -> u64 {
    number(&turn.state(NAME), "offset")
}

impl Kept {
    /// Of this turn. A summary of more than there is belongs to another conversation.
    pub(super) fn of(turn: &Turn, end: u64) -> Self {
        let state = turn.state(NAME);
        let (summary, covers) = (state.text_or_empty("summary"), number(&state, "covers"));
        let failed = state.text("failed").map(|why| (why.into(), number(&state, "failed_at")));
        let failed = failed.filter(|(_, at)| *at <= end);
        if summary.is_empty() || covers == 0 || covers > end {
            return Self { failed, ..Self::default() };
        }
        Self { summary: Some(summary.into()), covers, failed }
    }

    /// The number of these units that the summary stands for.
    pub(super) fn covered(&self, units: &[Unit]) -> usize {
        let is_covered = |unit: &&Unit| self.summary.is_some() && unit.to <= self.covers;
        units.iter().take_while(is_covered).count()
    }

    /// Keeps it.
    pub(super) fn keep(&self, turn: &Turn, compressed: bool) {
        let state = turn.state(NAME);
        // An object that only this filter and whoever keeps the conversation write to takes plain values.
        state.edit("summary", self.summary.as_deref().unwrap_or(""));
        state.edit("covers", self.covers);
        state.edit("offset", number(&state, "offset"));
        state.edit("compressed", compressed);
        match &self.failed {
            Some((why, at)) => {
                state.edit("failed", why.as_str());
                state.edit("failed_at", *at);
            }
            None => {
                state.remove("failed");
                state.remove("failed_at");
            }
        }
    }
}

/// Remembers the place of the first message that is still of use.
pub(super) fn shown_from(turn: &Turn, place: Option<u64>) {
    let state = turn.state(NAME);
    match place {
        Some(place) => state.edit("shown_from", place),
        None => drop(state.remove("shown_from")),
    }
}

pub(super) fn number(state: &Json, key: &str) -> u64 {
    state.count(key)
}
