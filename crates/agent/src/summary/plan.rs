//! One model call looked at: what of its messages stays, and what becomes part of the summary.

use super::settings::Summarization;
use super::units::{self, SummaryState};
use super::units::{Counts, Talk, Unit, messages_in, tokens_in};
use super::{fit, write};
use valvehouse_core::context::Turn;
use valvehouse_core::filter::FilterContext;
use valvehouse_json::Json;
use valvehouse_tokens::BESIDE;

/// The next action. `from` is the first unit that stays as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Plan {
    /// The conversation stays as it is.
    Leave,
    /// The summary there is, or a note, and what stays.
    Show { from: usize },
    /// The units before it become part of the summary.
    Write { from: usize },
}

pub(super) struct Look<'a> {
    settings: &'a Summarization,
    counts: Counts,
    talk: Talk,
    kept: SummaryState,
    /// The first unit that the summary does not stand for.
    fresh: usize,
}

impl<'a> Look<'a> {
    pub(super) fn at(settings: &'a Summarization, ctx: &FilterContext) -> Self {
        let counts = Counts::new(&ctx.value.text_or_empty("model"), &ctx.turn);
        let offset = units::offset(&ctx.turn);
        let talk = Talk::of(&ctx.messages().items(), offset, settings.preserve_system, &counts);
        let kept = SummaryState::of(&ctx.turn, talk.end);
        let fresh = kept.covered(&talk.units);
        Self { settings, counts, talk, kept, fresh }
    }

    pub(super) fn plan(&self) -> Plan {
        let settings = self.settings;
        let fresh = &self.talk.units[self.fresh..];
        let has_summary = self.kept.summary.is_some();
        let messages = self.talk.system.len() + usize::from(has_summary) + messages_in(fresh);
        let tokens = self.beside() + tokens_in(fresh);
        let most = settings.token_threshold.min(settings.max_tokens);
        if messages <= settings.compress_threshold && tokens <= most {
            return if has_summary { Plan::Show { from: self.fresh } } else { Plan::Leave };
        }
        let window = self.window();
        if settings.writer().is_none() || self.failed_lately() {
            return Plan::Show { from: window };
        }
        let old = messages_in(&self.talk.units[self.fresh..window]);
        if tokens > settings.max_tokens {
            // Some room is left, so that not every further message has to be summed up at once.
            let room = settings.max_tokens.saturating_sub(self.system_tokens() + settings.longest_summary());
            let from = self.fresh + beyond(fresh, room / 3 * 2, |unit| unit.tokens);
            return self.write_or_show(window.max(from));
        }
        if old >= settings.worth_writing() || (old > 0 && !has_summary) {
            return self.write_or_show(window);
        }
        Plan::Show { from: self.fresh }
    }

    /// The first unit of the window.
    fn window(&self) -> usize {
        let fresh = &self.talk.units[self.fresh..];
        self.fresh + beyond(fresh, self.settings.window_size, |unit| unit.messages.len())
    }

    fn write_or_show(&self, from: usize) -> Plan {
        if from > self.fresh { Plan::Write { from } } else { Plan::Show { from } }
    }

    /// Returns `true` if hardly anything was said since the last summary could not be written.
    fn failed_lately(&self) -> bool {
        let worth_writing = self.settings.worth_writing() as u64;
        self.kept.failed.as_ref().is_some_and(|(_, at)| self.talk.end < at + worth_writing)
    }

    fn system_tokens(&self) -> usize {
        BESIDE + self.talk.system_tokens
    }

    /// The tokens beside the units.
    fn beside(&self) -> usize {
        let summary = self.kept.summary.as_ref();
        let summary = summary.map_or(0, |text| self.counts.of(&fit::head(&self.kept, text, 0)));
        self.system_tokens() + summary
    }

    /// Has what is before a unit written into the summary; where that fails, so it is told, and the window
    /// has to do. Gives the first unit that stays.
    pub(super) fn write(&mut self, from: usize, turn: &Turn) -> usize {
        let Some(writer) = self.settings.writer() else { return from };
        let old = &self.talk.units[self.fresh..from];
        match write::extend(writer, self.settings, &self.counts, &mut self.kept, old, turn) {
            Ok(()) => {
                self.kept.failed = None;
                from
            }
            Err(why) => {
                tracing::warn!(
                    model = writer.model,
                    "no summary of what was said, older messages are left out: {why}"
                );
                self.kept.failed = Some((why, self.talk.end));
                // A part may have been written before.
                self.fresh = self.kept.covered(&self.talk.units);
                self.window()
            }
        }
    }

    /// The messages that the model sees: all before the unit is left out, and the summary stands for what it covers.
    pub(super) fn view(&self, from: usize) -> Vec<Json> {
        let room = fit::Room { most: self.settings.max_tokens, system: self.system_tokens() };
        let units: Vec<Unit> =
            self.talk.units[from..].iter().filter(|unit| !unit.is_orphan()).cloned().collect();
        let left_out = |place: u64| {
            let passed = self.talk.units.iter().take_while(|unit| unit.from < place);
            passed
                .filter(|unit| self.kept.summary.is_none() || unit.to > self.kept.covers)
                .map(|unit| unit.messages.len())
                .sum()
        };
        let rest = fit::fit(units, &self.kept, room, &self.counts, &left_out);
        [self.talk.system.clone(), rest].concat()
    }

    /// Keeps what the next turn needs; `from` is the first unit that was shown, where not all were.
    pub(super) fn keep(&self, turn: &Turn, from: Option<usize>) {
        self.kept.keep(turn, from.is_some());
        match (self.settings.writer(), from.and_then(|from| self.talk.units.get(from))) {
            // Messages that no summary will ever stand for need not be read again.
            (None, Some(first)) => units::shown_from(turn, Some(first.from)),
            (None, None) => {}
            (Some(_), _) => units::shown_from(turn, None),
        }
    }
}

/// The number of units before the longest end that takes no more than this; the newest is part of it whatever it takes.
fn beyond(units: &[Unit], most: usize, takes: impl Fn(&Unit) -> usize) -> usize {
    let (mut taken, mut from) = (0, units.len());
    for (index, unit) in units.iter().enumerate().rev() {
        taken += takes(unit);
        if taken > most && index + 1 < units.len() {
            break;
        }
        from = index;
    }
    from
}
