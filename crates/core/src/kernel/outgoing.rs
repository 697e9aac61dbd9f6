//! The client's side of a streamed answer: one stream out of however many model calls.
//!
//! What ends the answer is held back until the turn has ended, so that what filters add comes
//! before it; each choice ends once. Calls of the host's own tools are not the client's business
//! and stay here.
//!
//! The end of a streamed answer: once for each choice that began, then the usage, once.
//!
//! The choices of an event or an answer, each with its number, and what they say.

use super::form::Form;
use crate::anthropic;
use crate::chat::response::{LAST_CALL, TEXT_BREAK, natural_finish};
use crate::chat::{ModelCall, delta, event, message, split};
use crate::fault::Fault;
use crate::provider::Piece;
use crate::tool::Toolbox;
use compact_str::CompactString;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::mpsc::Sender;
use valvehouse_json::Json;

pub(super) struct Outgoing {
    client: Option<Sender<Piece>>,
    with_usage: bool,
    hold: bool,
    form: Form,
    /// The first event: what filters add is made from it.
    first: Option<Json>,
    /// The pieces that came before the stream's id was known, as Azure begins.
    early: Vec<Piece>,
    /// Finish and usage, until the turn ends.
    last: Vec<Piece>,
    /// By choice, what the client has.
    sent: BTreeMap<i64, Progress>,
    /// Set if the answer of this round was streamed.
    streamed: bool,
}

#[derive(Default)]
struct Progress {
    /// Of this round.
    text: String,
    /// The client has text of an earlier round: a break comes before more of it.
    has_text: bool,
    /// The reason for which the choice ended in an earlier round.
    ended: Option<CompactString>,
    /// Set if tool calls of this round are held back because they may be the host's.
    calls_held: bool,
}

impl Outgoing {
    /// To a client that wants usage or does not; no client where the answer is wanted whole.
    pub(super) fn new(client: Option<Sender<Piece>>, with_usage: bool) -> Self {
        Self {
            client,
            with_usage,
            hold: false,
            form: Form::default(),
            first: None,
            early: Vec::new(),
            last: Vec::new(),
            sent: BTreeMap::new(),
            streamed: false,
        }
    }

    /// Lets nothing out before the whole answer is known.
    pub(super) fn hold(&mut self, hold: bool) {
        self.hold = hold;
    }

    /// Returns `true` if the model is asked for pieces: they are sent as they come, or collected.
    pub(super) fn wants_pieces(&self) -> bool {
        self.client.is_some()
    }

    /// Returns `true` if pieces are sent as they come.
    pub(super) fn is_live(&self) -> bool {
        self.client.is_some() && !self.hold
    }

    /// The model is asked again: what ended the last answer does not end this one.
    pub(super) async fn next_round(&mut self, answer: &Json, tools: &Toolbox) -> Result<(), Fault> {
        if self.is_live() {
            self.catch_up(answer, tools).await?;
        }
        for (index, why) in self.last.iter().flat_map(|piece| reasons(&piece.event)).collect::<Vec<_>>() {
            self.sent(index).ended = Some(why);
        }
        self.last.clear();
        for sent in self.sent.values_mut() {
            let has_text = sent.has_text || !sent.text.is_empty();
            *sent = Progress { ended: sent.ended.take(), has_text, ..Progress::default() };
        }
        self.form.forget_calls();
        self.streamed = false;
        Ok(())
    }

    /// Looks at an event before the filters do.
    pub(super) fn receive(&mut self, piece: &mut Piece) {
        self.form.as_deltas(piece);
    }

    /// The filters changed an event, left it out or made more of it.
    pub(super) fn edited(&mut self) {
        self.form.edited();
    }

    /// Brings an event into the form that clients read; before [`Outgoing::send`].
    pub(super) fn mend(&mut self, piece: &mut Piece) {
        if self.hold {
            // It is sent in another form, once all of it is known.
            return;
        }
        self.form.mend(piece);
        if self.first.is_none() && self.form.has_id() {
            self.first = Some(event::head_of(&piece.event));
        }
    }

    /// Sends one piece, or keeps it for the end.
    pub(super) async fn send(&mut self, mut piece: Piece, tools: &Toolbox) -> Result<(), Fault> {
        if !self.is_live() {
            return Ok(());
        }
        self.streamed = true;
        let withheld = !tools.is_empty() && self.withhold_calls(&mut piece);
        let parts = piece.parts();
        let ends = parts.finish || parts.is_usage_alone();
        let speaks = parts.speaks();
        if withheld && !speaks && !ends && !parts.usage {
            return Ok(());
        }
        if ends || (!self.last.is_empty() && !speaks) {
            self.hold_back(piece, speaks).await
        } else if !self.form.has_id() && parts.choices {
            self.early.push(piece);
            Ok(())
        } else {
            self.deliver(piece).await
        }
    }

    /// Keeps what ends the answer; what came with it goes ahead.
    async fn hold_back(&mut self, piece: Piece, speaks: bool) -> Result<(), Fault> {
        if !speaks {
            self.last.push(piece);
            return Ok(());
        }
        let (ahead, end) = event::without_finish(&piece.event);
        self.last.push(Piece::new(end));
        self.deliver(Piece::received(bytes::Bytes::new(), ahead, piece.name)).await
    }

    async fn deliver(&mut self, piece: Piece) -> Result<(), Fault> {
        for (index, delta) in deltas(&piece.event) {
            let text = message::text_of(&delta);
            if !text.is_empty() && std::mem::take(&mut self.sent(index).has_text) {
                self.break_text(index).await?;
            }
            self.sent(index).text.push_str(&text);
        }
        let Some(client) = &self.client else { return Ok(()) };
        for mut early in self.early.drain(..) {
            self.form.name(&mut early);
            client.send(early).await.map_err(|_| gone())?;
        }
        client.send(piece).await.map_err(|_| gone())
    }

    /// Sends what stands between the texts of two rounds.
    async fn break_text(&self, index: i64) -> Result<(), Fault> {
        let Some(client) = &self.client else { return Ok(()) };
        let delta = Json::from([("index", index.into()), ("content", TEXT_BREAK.into())]);
        let template = self.first.clone().unwrap_or_else(Json::object);
        client.send(Piece::new(event::complete(&delta, &template))).await.map_err(|_| gone())
    }

    fn sent(&mut self, index: i64) -> &mut Progress {
        self.sent.entry(index).or_default()
    }

    /// Takes pieces of tool calls out of an event; true when there were any.
    fn withhold_calls(&mut self, piece: &mut Piece) -> bool {
        let mut found = false;
        for (index, delta) in deltas(&piece.event) {
            if delta.remove("tool_calls").is_some() {
                self.sent(index).calls_held = true;
                found = true;
            }
        }
        if found {
            piece.changed();
        }
        found
    }

    /// Sends of a round's answer what the client has not got yet.
    async fn catch_up(&mut self, answer: &Json, tools: &Toolbox) -> Result<(), Fault> {
        if !self.streamed {
            for (_, said) in messages(answer) {
                anthropic::reseal(&said);
            }
            for event in split(answer, self.with_usage) {
                let mut piece = Piece::new(event);
                self.mend(&mut piece);
                self.send(piece, tools).await?;
            }
            return Ok(());
        }
        for (index, said) in messages(answer) {
            let text = message::text_of(&said);
            match text.strip_prefix(self.sent(index).text.as_str()) {
                Some("") => {}
                Some(rest) => self.add(index, "content", rest.into()).await?,
                None => tracing::warn!(
                    "a filter changed text that had been streamed already; `hold: true` makes the stream wait for it"
                ),
            }
        }
        Ok(())
    }

    /// Sends a delta of our own.
    async fn add(&mut self, index: i64, key: &str, value: Json) -> Result<(), Fault> {
        let delta = Json::from([("index", index.into()), (key, value)]);
        let template = self.first.clone().unwrap_or_else(Json::object);
        let mut piece = Piece::new(event::complete(&delta, &template));
        self.mend(&mut piece);
        self.deliver(piece).await
    }

    /// Sends the rest: what filters appended, withheld calls that are the client's, finish, usage.
    pub(super) async fn finish(mut self, answer: &Json) -> Result<(), Fault> {
        if self.client.is_none() {
            return Ok(());
        }
        self.hold = false;
        self.catch_up(answer, &Toolbox::default()).await?;
        self.form.forget_calls();
        for (index, said) in messages(answer) {
            if self.sent(index).calls_held && !ModelCall::all(&said).is_empty() {
                let calls = said.field("tool_calls").copy();
                for (place, call) in calls.items().iter().enumerate() {
                    call.edit("index", place);
                }
                self.add(index, "tool_calls", calls).await?;
            }
        }
        let ending = Ending {
            answer,
            before: self
                .sent
                .iter()
                .filter_map(|(index, sent)| Some((*index, sent.ended.clone()?)))
                .collect(),
            first: self.first.as_ref(),
        };
        // The sum of all rounds.
        let total = answer.get("usage").filter(|usage| usage.get(LAST_CALL).is_some());
        let mut says_total = total.is_none() || !self.with_usage;
        for mut piece in ending.of(std::mem::take(&mut self.last), self.form.begun()) {
            if let Some(total) = &total
                && piece.parts().usage
            {
                // A copy in an event of this answer.
                piece.event.edit("usage", total.copy());
                piece.changed();
                says_total = true;
            }
            // It may have come before there was an id.
            self.mend_id(&mut piece);
            self.deliver(piece).await?;
        }
        if let Some(total) = total.filter(|_| !says_total && self.streamed) {
            // The last round had no usage of its own.
            let event = event::head_of(self.first.as_ref().unwrap_or(&Json::Null));
            // New values in an object of our own.
            event.put("object", "chat.completion.chunk");
            event.put("choices", Json::array());
            event.put("usage", total.copy());
            self.deliver(Piece::new(event)).await?;
        }
        Ok(())
    }

    fn mend_id(&self, piece: &mut Piece) {
        let has_none = piece.event.text("id").is_none_or(|id| id.is_empty());
        if has_none && piece.event.get("choices").is_some() && self.form.has_id() {
            self.form.name(piece);
        }
    }
}

fn gone() -> Fault {
    Fault::Host("the client went away".into())
}

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
