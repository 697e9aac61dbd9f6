//! The `call_limit` middleware, which limits the model and tool calls of a turn.
//!
//! The filter has priority -3000, so a rejected call has no further cost. Tool calls answered by another filter
//! count as well; a step that runs again after a pause counts once.

use super::definition::{Middleware, Parts};
use super::options::Options;
use super::typed::{CallLimit, OnLimit};
use valvehouse_core::context::Turn;
use valvehouse_core::error::Rejection;
use valvehouse_core::filter::{self, Verdict};
use valvehouse_json::Json;

pub(super) const NAME: &str = CallLimit::NAME;
const PRIORITY: f64 = -3000.0;

pub(super) fn middleware(options: &Json, _: &Parts) -> Result<Middleware, String> {
    const MAX: u64 = 1_000_000;
    let (mut options, default) = (Options::of(NAME, options), CallLimit::default());
    let limits = CallLimit {
        max_model_calls: options.number("max_model_calls", default.max_model_calls, 1..=MAX),
        max_tool_calls: options.number("max_tool_calls", default.max_tool_calls, 0..=MAX),
        max_tool_calls_per_turn: options.number(
            "max_tool_calls_per_turn",
            default.max_tool_calls_per_turn,
            0..=MAX,
        ),
        on_limit: options.word("on_limit", &OnLimit::ALL, default.on_limit),
    };
    options.done()?;
    let (models, tools) = (limits, limits);
    let models = filter::pre_chat(NAME, move |chat| Ok(models.before_model(chat.turn()))).priority(PRIORITY);
    let tools =
        filter::pre_invocation(NAME, move |call| Ok(tools.before_tool(call.turn()))).priority(PRIORITY);
    Ok(Middleware::of_filters(NAME, [models, tools]))
}

impl CallLimit {
    fn before_model(&self, turn: &Turn) -> Verdict {
        let state = turn.state(NAME);
        // The tool calls of each answer are counted separately.
        keep(&state, "tool_calls_in_answer", 0);
        state.remove("counted");
        let made = count(&state, "model_calls");
        let kept = self.check("model calls", "max_model_calls", made, self.max_model_calls);
        verdict(kept)
    }

    fn before_tool(&self, turn: &Turn) -> Verdict {
        let state = turn.state(NAME);
        if was_counted(turn, &state) {
            return Verdict::Continue;
        }
        let (all, in_answer) = (count(&state, "tool_calls"), count(&state, "tool_calls_in_answer"));
        let in_turn = self.check("tool calls", "max_tool_calls", all, self.max_tool_calls);
        let in_answer = || {
            let limit = self.max_tool_calls_per_turn;
            self.check("tool calls for one answer", "max_tool_calls_per_turn", in_answer, limit)
        };
        verdict(in_turn.and_then(|()| in_answer()))
    }

    /// Returns a refusal if the limit is exceeded.
    fn check(&self, what: &str, option: &str, made: u64, limit: u64) -> Result<(), Rejection> {
        if made <= limit {
            return Ok(());
        }
        let reason = format!("this turn exceeded its limit of {limit} {what}; raise it with {option}");
        match self.on_limit {
            OnLimit::Halt => Err(Rejection { fatal: true, ..Rejection::new(reason).with_status(429) }),
            OnLimit::Warn => {
                if made == limit + 1 {
                    tracing::warn!(middleware = NAME, "{reason}; the turn continues");
                }
                Ok(())
            }
        }
    }
}

fn verdict(kept: Result<(), Rejection>) -> Verdict {
    match kept {
        Ok(()) => Verdict::Continue,
        Err(rejection) => Verdict::Reject(rejection),
    }
}

/// Returns `true` if the current tool call was counted before the turn paused in it.
fn was_counted(turn: &Turn, state: &Json) -> bool {
    let Some(pauses) = turn.pauses() else { return false };
    let call = pauses.call().text_or_empty("id");
    // A call made by a script within this call counts separately.
    let call = turn.recorded_by(&call);
    if call.is_empty() {
        return false;
    }
    let counted = state.get("counted").unwrap_or_else(Json::array);
    let was_counted = counted.items().iter().any(|one| one.as_str() == Some(&call));
    if let (false, Json::Array(list)) = (was_counted, &counted) {
        let _ = list.push((*call).into());
        state.edit("counted", counted);
    }
    was_counted
}

/// Increments a count and returns it.
fn count(state: &Json, key: &str) -> u64 {
    let made = state.count(key).saturating_add(1);
    keep(state, key, made);
    made
}

fn keep(state: &Json, key: &str, made: u64) {
    // The state belongs to this filter, so the write cannot fail.
    state.edit(key, made);
}
