//! The end of a streamed answer: once for each choice that began, then the usage, once.

use super::choices::{choices, deltas, messages, reasons};
use crate::chat::response::natural_finish;
use crate::chat::{delta, event};
use crate::provider::Piece;
use compact_str::CompactString;
use std::collections::{BTreeMap, BTreeSet};
use valvehouse_json::Json;

/// The facts that are known at the end.
pub(super) struct Ending<'a> {
    /// The answer, after every filter.
    pub(super) answer: &'a Json,
    /// By index, why a choice ended in an earlier model call.
    pub(super) before: BTreeMap<i64, CompactString>,
    /// The first event, from which others are made.
    pub(super) first: Option<&'a Json>,
}

impl Ending<'_> {
    /// The last events, of those that were held back to the end and the choices that began.
    pub(super) fn of(&self, held: Vec<Piece>, begun: Vec<i64>) -> Vec<Piece> {
        let reasons: BTreeMap<i64, CompactString> = reasons(self.answer).collect();
        let mut ended = BTreeSet::new();
        let (mut ends, mut after) = (Vec::new(), Vec::new());
        for mut piece in held {
            let counts = piece.parts().usage;
            if deltas(&piece.event).next().is_none() {
                after.push(piece);
            } else if end_once(&mut piece, &reasons, &mut ended) {
                ends.push(piece);
            } else if counts {
                after.push(piece);
            }
        }
        for index in begun.into_iter().filter(|index| !ended.contains(index)) {
            // The service came to a proper end without a word on why, or a filter took the word away.
            let why = reasons.get(&index).or_else(|| self.before.get(&index)).cloned();
            let why = why.unwrap_or_else(|| self.natural(index).into());
            ends.push(Piece::new(event::ending(index, &why, self.first)));
        }
        let last_usage = after.iter_mut().rposition(|piece| piece.parts().is_usage_alone());
        for (place, mut piece) in after.into_iter().enumerate() {
            if Some(place) == last_usage || !piece.parts().is_usage_alone() {
                ends.push(piece);
            }
        }
        ends
    }

    fn natural(&self, index: i64) -> &'static str {
        let said = messages(self.answer).find(|(own, _)| *own == index);
        said.map_or("stop", |(_, said)| natural_finish(&said))
    }
}

/// Leaves in an event those choices that end with it and have not ended before, each with the reason
/// that the answer has after the filters; false where none is left.
fn end_once(piece: &mut Piece, reasons: &BTreeMap<i64, CompactString>, ended: &mut BTreeSet<i64>) -> bool {
    let all: Vec<(i64, Json)> = choices(&piece.event).collect();
    let ends: Vec<Json> = all
        .iter()
        .filter(|(index, choice)| delta::is_last(choice) && ended.insert(*index))
        .map(|(_, choice)| choice.clone())
        .collect();
    let mut changed = ends.len() < all.len() && piece.event.set("choices", ends.clone()).is_ok();
    for choice in &ends {
        let index = choice.get("index").and_then(|index| index.as_i64()).unwrap_or(0);
        let reason =
            reasons.get(&index).filter(|reason| choice.text("finish_reason").as_ref() != Some(*reason));
        changed |= reason.is_some_and(|reason| choice.set("finish_reason", reason.clone()).is_ok());
    }
    if changed {
        piece.changed();
    }
    !ends.is_empty()
}
