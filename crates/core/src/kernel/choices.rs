//! The choices of an event or an answer, each with its number, and what they say.

use crate::chat::delta;
use compact_str::CompactString;
use valvehouse_json::Json;

/// The reasons for which choices end, by their number.
pub(super) fn reasons(of: &Json) -> impl Iterator<Item = (i64, CompactString)> {
    let ended = choices(of).filter(|(_, choice)| delta::is_last(choice));
    ended.map(|(index, choice)| (index, choice.text_or_empty("finish_reason")))
}

/// The choices of an event or answer, each with its number.
pub(super) fn choices(of: &Json) -> impl Iterator<Item = (i64, Json)> {
    let choices = of.list("choices");
    choices.into_iter().enumerate().map(|(place, choice)| {
        let index = choice.get("index").and_then(|index| index.as_i64());
        (index.unwrap_or(place as i64), choice)
    })
}

pub(super) fn deltas(event: &Json) -> impl Iterator<Item = (i64, Json)> {
    choices(event).filter_map(|(index, choice)| Some((index, choice.get("delta")?)))
}

pub(super) fn messages(answer: &Json) -> impl Iterator<Item = (i64, Json)> {
    choices(answer).filter_map(|(index, choice)| Some((index, choice.get("message")?)))
}
