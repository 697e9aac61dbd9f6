//! Selection of the messages that fit the token limit: the summary and the newest messages.

use super::units::{Counts, LeftOut, SummaryState, Unit, is_system, number, tokens_in};
use valvehouse_core::chat::message;
use valvehouse_json::Json;

/// The minimum number of tokens of a truncated summary.
const LEAST_SUMMARY: usize = 40;
/// The minimum number of tokens of a truncated tool result.
const LEAST_RESULT: usize = 8;

/// The token limit, and the tokens of the system messages.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) most: usize,
    pub(super) system: usize,
}

/// Returns the summary as a user message. It is not a system message, so that texts from tools and strangers
/// cannot become instructions by being summarized.
pub(super) fn head(kept: &SummaryState, summary: &str, left_out: usize) -> Json {
    let gap = match left_out {
        0 => String::new(),
        left_out => format!("\n[{left_out} later messages are left out here]"),
    };
    let covers = kept.covers;
    message::user(format!("[Summary of the first {covers} messages of this conversation]\n{summary}{gap}"))
}

/// Returns a note in place of messages that are not summarized; `None` if there are none.
fn note(left_out: usize) -> Option<Json> {
    let note = format!("[{left_out} earlier messages of this conversation are left out here]");
    (left_out > 0).then(|| message::user(note))
}

/// Returns the summary or, without one, a note about omitted messages, if any.
pub(super) fn head_or_note(kept: &SummaryState, left_out: usize) -> Option<Json> {
    match &kept.summary {
        Some(summary) => Some(head(kept, summary, left_out)),
        None => note(left_out),
    }
}

/// Returns the messages as the model sees them with this summary, which replaces the messages it covers.
pub(crate) fn seen(messages: &[Json], state: &Json) -> Vec<Json> {
    if state.get("compressed").and_then(|compressed| compressed.as_bool()) != Some(true) {
        return messages.to_vec();
    }
    let kept = SummaryState {
        summary: state.text("summary").filter(|summary| !summary.is_empty()).map(String::from),
        covers: number(state, "covers"),
        failed: None,
    };
    let from = if kept.summary.is_some() { kept.covers } else { number(state, "shown_from") };
    let (system, talk): (Vec<Json>, Vec<Json>) = messages.iter().cloned().partition(is_system);
    let passed = from.saturating_sub(number(state, "offset")) as usize;
    let left_out = LeftOut::of(&state.field("left_out")).messages;
    let head = head_or_note(&kept, if kept.summary.is_some() { 0 } else { left_out });
    system.into_iter().chain(head).chain(talk.into_iter().skip(passed)).collect()
}

/// Returns the summary or note with as many of the newest units as fit. `left_out` returns the number of
/// messages before the unit of an index that no summary covers.
pub(super) fn fit(
    mut units: Vec<Unit>,
    kept: &SummaryState,
    room: Room,
    counts: &Counts,
    left_out: &impl Fn(usize) -> usize,
) -> Vec<Json> {
    let weigh = |head: &Option<Json>| head.as_ref().map_or(0, |head| counts.of(head));
    let gap = |units: &[Unit]| units.first().map_or(0, |unit| left_out(unit.index));
    let longest = weigh(&head_or_note(kept, usize::MAX));
    let mut tokens = room.system + tokens_in(&units);
    let drop = units.iter().take(units.len().saturating_sub(1)).take_while(|unit| {
        let (is_too_much, left) = (tokens + longest > room.most, tokens - unit.tokens);
        tokens = if is_too_much { left } else { tokens };
        is_too_much
    });
    let drop = drop.count();
    // A note is needed only if messages are omitted.
    let whole = room.system + tokens_in(&units) + weigh(&head_or_note(kept, 0));
    if gap(&units) > 0 || whole > room.most {
        units.drain(..drop);
    }
    let mut head = head_or_note(kept, gap(&units));
    if let [newest] = units.as_mut_slice()
        && room.system + weigh(&head) + newest.tokens > room.most
    {
        head = squeeze(newest, head, kept, room, counts);
    }
    head.into_iter().chain(units.into_iter().flat_map(|unit| unit.messages)).collect()
}

/// Truncates the newest unit if it does not match beside the summary: first tool results, then the summary, but
/// never a user message.
fn squeeze(
    newest: &mut Unit,
    head: Option<Json>,
    kept: &SummaryState,
    room: Room,
    counts: &Counts,
) -> Option<Json> {
    let free = room.most.saturating_sub(room.system);
    let head_tokens = head.as_ref().map_or(0, |head| counts.of(head));
    if newest.messages.len() > 1 {
        cut_results(newest, free - head_tokens.min(free / 2), counts);
    }
    let left = free.saturating_sub(newest.tokens);
    if head_tokens <= left {
        return head;
    }
    let summary = kept.summary.as_deref()?;
    let frame = counts.of(&self::head(kept, "", 0)) + LEAST_RESULT;
    if left >= frame + LEAST_SUMMARY {
        let shorter = self::head(kept, &counts.cut(summary, left - frame), 0);
        return Some(shorter).filter(|shorter| counts.of(shorter) <= left);
    }
    if newest.tokens > free {
        tracing::warn!(
            "the system messages and the newest message take {} tokens, more than max_tokens = {}: they are sent \
             without a summary; raise max_tokens of the summarization",
            room.system + newest.tokens,
            room.most
        );
    } else {
        tracing::warn!(
            "the newest message leaves no room for a summary within max_tokens = {}: raise it",
            room.most
        );
    }
    None
}

/// Truncates the results of calls, each to its share, and the arguments of the calls if that does not suffice.
fn cut_results(unit: &mut Unit, most: usize, counts: &Counts) {
    let weigh = |messages: &[Json]| messages.iter().map(|message| counts.of(message)).sum::<usize>();
    unit.messages = unit.messages.iter().map(Json::deep_clone).collect();
    let (calls, results) = unit.messages.split_at(1);
    let texts: Vec<usize> = results.iter().map(|result| counts.of_text(&message::text_of(result))).collect();
    let fixed = weigh(&unit.messages).saturating_sub(texts.iter().sum());
    let mut share = most.saturating_sub(fixed) / results.len().max(1);
    // Long results may use the tokens that short ones do not need.
    let short: Vec<usize> = texts.into_iter().filter(|tokens| *tokens <= share).collect();
    if short.len() < results.len() {
        let rest = most.saturating_sub(fixed + short.iter().sum::<usize>());
        share = rest / (results.len() - short.len());
    }
    for result in results {
        cut_text(result, share.max(LEAST_RESULT), counts);
    }
    if weigh(&unit.messages) > most {
        let left = most.saturating_sub(weigh(results));
        calls.iter().for_each(|call| cut_arguments(call, left, counts));
    }
    unit.tokens = weigh(&unit.messages);
}

fn cut_text(of: &Json, most: usize, counts: &Counts) {
    let text = message::text_of(of);
    if counts.of_text(&text) > most {
        let bytes = text.len();
        let mark = format!("… ({bytes} bytes)");
        let cut = counts.cut(&text, most.saturating_sub(counts.of_text(&mark)));
        message::set_text(of, &format!("{cut}{mark}"));
    }
}

/// Truncates arguments, which remain JSON: their beginning becomes the text of a map.
fn cut_arguments(assistant: &Json, most: usize, counts: &Counts) {
    let calls = assistant.list("tool_calls");
    let share = most / (2 * calls.len().max(1));
    for call in calls {
        let function = call.field("function");
        let arguments = match function.field("arguments") {
            Json::Text(text) => text.into(),
            other => other.to_string(),
        };
        if counts.of_text(&arguments) > share {
            let cut = counts.cut(&arguments, share.saturating_sub(LEAST_RESULT) / 2);
            function.edit("arguments", Json::from([("shortened", cut.into())]).to_string());
        }
    }
}
