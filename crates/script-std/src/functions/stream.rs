//! `stream::window`: processes streamed text so that matches across events are found.

use super::argument::{AnyMap, RhaiResultOf, count, fail, unfit};
use super::output::text;
use super::pattern::{self, Pattern};
use super::simulation::Spans;
use compact_str::CompactString;
use rhai::plugin::*;
use rhai::{EvalAltResult, FnPtr, ImmutableString};
use std::sync::Arc;
use valvehouse_core::chat::window::{WindowVisitor, last_words, pass};
use valvehouse_dialect::budget;
use valvehouse_dialect::value::{Map, json_of};
use valvehouse_json::Json;

const NAME: &str = "stream::window";

/// The maximum length of the text that a window holds back, in characters.
const MAX_WINDOW: usize = 1 << 20;

#[export_module]
pub(super) mod functions {
    /// Changes every text of a streamed event, including matches that are split across events: the last `longest`
    /// characters of each text are held back in `state` until the next event, so that a match of up to this length
    /// is complete.
    /// `change` receives a text and returns the new one: `stream::window(event, state, 40, |text|
    /// regex::replace(text, "sk-[a-z0-9]{20,}", "[key]"))`. Each choice, its content, thinking, refusal and the
    /// arguments of each call have their own window; log probabilities stay with their text. At the end of the
    /// answer, the remaining text is sent.
    #[rhai_fn(return_raw)]
    pub fn window(
        context: NativeCallContext<'_>,
        event: AnyMap,
        state: AnyMap,
        longest: i64,
        change: FnPtr,
    ) -> RhaiResultOf<()> {
        run(&context, &event, &state, longest, &change, Tail::Words)
    }

    /// Like `stream::window`, but only the end of a text that could become a match is held back. `tail` is a pattern
    /// that matches this end, such as `[!-~]+\z` for the last word, or a closure that receives a text and returns its
    /// end. An end of more than `longest` characters is sent at once.
    #[rhai_fn(return_raw, name = "window")]
    pub fn window_until(
        context: NativeCallContext<'_>,
        event: AnyMap,
        state: AnyMap,
        longest: i64,
        change: FnPtr,
        tail: Dynamic,
    ) -> RhaiResultOf<()> {
        let tail = match tail.read_lock::<FnPtr>() {
            Some(tail) => Tail::Closure(tail.clone()),
            None => match tail.as_immutable_string_ref() {
                Ok(tail) => Tail::Pattern(pattern::compiled(&tail).map_err(|why| fail(NAME, why))?),
                Err(_) => return Err(unfit(NAME, "tail", "a pattern or a closure", &tail)),
            },
        };
        run(&context, &event, &state, longest, &change, tail)
    }
}

/// The forms in which a script defines how much of the end of a text is held back.
enum Tail {
    Words,
    Pattern(Arc<Pattern>),
    Closure(FnPtr),
}

struct Script<'a> {
    context: &'a NativeCallContext<'a>,
    longest: usize,
    change: &'a FnPtr,
    tail: Tail,
    /// The visits that are not charged yet.
    visits: usize,
}

impl WindowVisitor for Script<'_> {
    type Error = Box<EvalAltResult>;

    fn changed(&mut self, before: &str) -> RhaiResultOf<CompactString> {
        let after: Dynamic = self.change.call_raw(self.context, None, [before.into()])?;
        if after.is_unit() {
            return Err(fail(NAME, "the closure returned nothing; return the text, changed or unchanged"));
        }
        Ok(text(NAME, &after)?.as_str().into())
    }

    fn unfinished(&mut self, text: &str) -> RhaiResultOf<usize> {
        let tail = match &self.tail {
            Tail::Words => return Ok(last_words(text, self.longest)),
            Tail::Pattern(tail) => {
                let mut last = None;
                let note = |spans: &Spans| {
                    last = spans.first().cloned().flatten();
                    Ok(())
                };
                tail.each(text, note, false)?;
                last.filter(|last| last.end == text.len())
            }
            Tail::Closure(tail) => {
                let tail: Dynamic = tail.call_raw(self.context, None, [text.into()])?;
                let tail: ImmutableString = super::output::text(NAME, &tail)?;
                if !text.ends_with(tail.as_str()) {
                    return Err(fail(NAME, "`tail` returned an invalid value: expected an end of the text"));
                }
                return Ok(self.within(&tail));
            }
        };
        Ok(tail.map_or(0, |tail| self.within(&text[tail])))
    }

    fn visits(&mut self, count: usize) {
        self.visits += count;
        let operations = self.visits / Self::VISITS_OF_AN_OPERATION;
        self.visits %= Self::VISITS_OF_AN_OPERATION;
        // A call whose budget has ended fails with its next operation.
        let _ = budget::charge(operations as u64);
    }
}

impl Script<'_> {
    /// The number of visited texts and calls that are charged as one operation.
    const VISITS_OF_AN_OPERATION: usize = 8;

    fn within(&self, tail: &str) -> usize {
        if tail.chars().count() > self.longest { 0 } else { tail.len() }
    }
}

fn run(
    context: &NativeCallContext<'_>,
    event: &Dynamic,
    state: &Dynamic,
    longest: i64,
    change: &FnPtr,
    tail: Tail,
) -> RhaiResultOf<()> {
    let longest = count(NAME, "longest", longest)?;
    if longest > MAX_WINDOW {
        return Err(fail(
            NAME,
            format!("`longest` is {longest} and exceeded its limit of {MAX_WINDOW} characters"),
        ));
    }
    let (event, state) = (live("event", event)?, live("state", state)?);
    pass(&event, &state, longest, &mut Script { context, longest, change, tail, visits: 0 })
}

/// Returns the value to change in place, which must be the hook's own and not a copy.
fn live(name: &str, value: &Dynamic) -> RhaiResultOf<Json> {
    match value.is::<Map>() {
        true => json_of(value),
        false => Err(fail(NAME, format!("`{name}` must be the parameter `{name}` of the hook"))),
    }
}
