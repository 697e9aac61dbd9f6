//! The decision for one model call: the messages that are sent, and those that become part of the summary.

use super::settings::Summarization;
use super::units::{self, Counts, LeftOut, SummaryState, Talk, Unit, is_system, messages_in, tokens_in};
use super::{fit, write};
use valvehouse_core::context::Turn;
use valvehouse_core::filter::FilterContext;
use valvehouse_json::Json;
use valvehouse_tokens::BESIDE;

/// The next action; `from` is the first unit that is sent unchanged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Plan {
    /// The conversation is sent unchanged.
    Leave,
    /// The existing summary or a note is sent with the units from `from` on.
    Show { from: usize },
    /// The units before `from` become part of the summary.
    Write { from: usize },
}

pub(super) struct Look<'a> {
    settings: &'a Summarization,
    counts: Counts,
    talk: Talk,
    kept: SummaryState,
    /// The messages of the conversation before the given ones.
    before: LeftOut,
    /// The first unit that the summary does not cover.
    fresh: usize,
}

impl<'a> Look<'a> {
    pub(super) fn at(settings: &'a Summarization, ctx: &FilterContext) -> Self {
        let counts = Counts::new(&ctx.value.text_or_empty("model"), &ctx.turn);
        let offset = units::offset(&ctx.turn);
        let talk = Talk::of(&ctx.messages().items(), offset, settings.preserve_system, &counts);
        let kept = SummaryState::of(&ctx.turn, talk.end);
        let fresh = kept.covered(&talk.units);
        Self { settings, counts, talk, kept, before: LeftOut::before(&ctx.turn), fresh }
    }

    pub(super) fn plan(&self) -> Plan {
        let settings = self.settings;
        let fresh = &self.talk.units[self.fresh..];
        let has_summary = self.kept.summary.is_some();
        let before = self.before;
        let messages =
            self.talk.system.len() + usize::from(has_summary) + before.messages + messages_in(fresh);
        let tokens = self.beside() + before.tokens + tokens_in(fresh);
        let most = settings.token_threshold.min(settings.max_tokens);
        if messages <= settings.compress_threshold && tokens <= most {
            let is_whole = !has_summary && before.messages == 0;
            return if is_whole { Plan::Leave } else { Plan::Show { from: self.fresh } };
        }
        let window = self.window();
        if settings.writer().is_none() || self.failed_lately() {
            return Plan::Show { from: window };
        }
        let old = messages_in(&self.talk.units[self.fresh..window]);
        let is_too_long = tokens > settings.max_tokens;
        if is_too_long || old >= settings.worth_writing() || (old > 0 && !has_summary) {
            // The new summary may be longer than the previous one: what does not fit beside it is summarized too.
            // Above the limit, some tokens are reserved, so that not every further message requires a new summary.
            let beside = self.system_tokens() + self.longest_head();
            let room = settings.max_tokens.saturating_sub(beside);
            let room = if is_too_long { room / 3 * 2 } else { room };
            let from = self.fresh + beyond(fresh, room, |unit| unit.tokens);
            return self.write_or_show(window.max(from));
        }
        Plan::Show { from: self.fresh }
    }

    /// Returns the first unit of the window.
    fn window(&self) -> usize {
        let fresh = &self.talk.units[self.fresh..];
        self.fresh + beyond(fresh, self.settings.window_size, |unit| unit.messages.len())
    }

    fn write_or_show(&self, from: usize) -> Plan {
        if from > self.fresh { Plan::Write { from } } else { Plan::Show { from } }
    }

    /// Returns `true` if writing a summary failed recently, with few new messages since.
    fn failed_lately(&self) -> bool {
        let worth_writing = self.settings.worth_writing() as u64;
        self.kept.failed.as_ref().is_some_and(|(_, at)| self.talk.end < at + worth_writing)
    }

    fn system_tokens(&self) -> usize {
        BESIDE + self.talk.system_tokens
    }

    /// Returns the maximum number of tokens of the message with the summary.
    fn longest_head(&self) -> usize {
        let of_all = SummaryState { covers: self.talk.end, ..SummaryState::default() };
        self.counts.of(&fit::head(&of_all, "", 0)) + self.settings.longest_summary()
    }

    /// Returns the tokens of the messages other than the units.
    fn beside(&self) -> usize {
        let summary = self.kept.summary.as_ref();
        let summary = summary.map_or(0, |text| self.counts.of(&fit::head(&self.kept, text, 0)));
        self.system_tokens() + summary
    }

    /// Extends the summary by the units before `from`. If this fails, the failure is logged and older messages
    /// are omitted. Returns the first unit to send.
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
                    "cannot summarize the conversation, so older messages are omitted: {why}"
                );
                self.kept.failed = Some((why, self.talk.end));
                // Part of the summary may have been written before the failure.
                self.fresh = self.kept.covered(&self.talk.units);
                self.window()
            }
        }
    }

    /// Returns the messages for the model: units before `from` are omitted, and the summary replaces those it
    /// covers.
    pub(super) fn view(&self, from: usize) -> Vec<Json> {
        let room = fit::Room { most: self.settings.max_tokens, system: self.system_tokens() };
        let units: Vec<Unit> =
            self.talk.units[from..].iter().filter(|unit| !unit.is_orphan()).cloned().collect();
        let left_out = |index: usize| {
            let passed = self.talk.units[..index].iter().filter(|unit| !self.kept.has_covered(unit));
            self.before.messages + passed.map(|unit| unit.messages.len()).sum::<usize>()
        };
        let rest = fit::fit(units, &self.kept, room, &self.counts, &left_out);
        [self.talk.system.clone(), rest].concat()
    }

    /// Stores the state for the next turn; `from` is the first unit sent, if not all were.
    pub(super) fn keep(&self, turn: &Turn, from: Option<usize>) {
        self.kept.keep(turn, from.is_some());
        let first = from.and_then(|from| self.talk.units.get(from));
        // Messages that no summary will cover need not be read again.
        let first = first.filter(|_| self.settings.writer().is_none());
        let left_out = |first: &Unit| {
            let passed = self.talk.units[..first.index].iter();
            // The store of the conversation gives system messages again.
            let passed =
                passed.filter(|unit| !self.kept.has_covered(unit) && !unit.messages.iter().any(is_system));
            passed.fold(self.before, LeftOut::and)
        };
        units::shown_from(turn, first.map(|first| (first.from, left_out(first))));
    }
}

/// Returns the number of units before the longest suffix within a limit; the suffix always includes the newest
/// unit.
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
