//! The client's side of a streamed answer: one stream out of however many model calls.
//!
//! What ends the answer is held back until the turn has ended, so that what filters add comes
//! before it. Ids stay those of the first event. Calls of the host's own tools are not the
//! client's business and stay here.

use crate::chat::{Call, delta, event, message, split};
use crate::fault::Fault;
use crate::json::Json;
use crate::llm::Piece;
use crate::tool::Toolbox;
use compact_str::CompactString;
use std::collections::BTreeMap;
use tokio::sync::mpsc::Sender;

pub(super) struct Outgoing {
    client: Option<Sender<Piece>>,
    with_usage: bool,
    hold: bool,
    /// The first event: every later one has its id, and what filters add is made from it.
    first: Option<Json>,
    /// Finish and usage, until the turn ends.
    last: Vec<Piece>,
    /// By choice, what the client has.
    sent: BTreeMap<i64, Sent>,
    rounds: usize,
    /// Whether this round came in pieces.
    streamed: bool,
}

#[derive(Default)]
struct Sent {
    role: bool,
    /// Of this round.
    text: String,
    /// Whether there are calls in this round that may be the host's and were not sent.
    calls_held: bool,
}

impl Outgoing {
    /// To a client that wants usage or does not; no client where the answer is wanted whole.
    pub(super) fn new(client: Option<Sender<Piece>>, with_usage: bool) -> Self {
        Self {
            client,
            with_usage,
            hold: false,
            first: None,
            last: Vec::new(),
            sent: BTreeMap::new(),
            rounds: 0,
            streamed: false,
        }
    }

    /// Lets nothing out before the whole answer is known.
    pub(super) fn hold(&mut self, hold: bool) {
        self.hold = hold;
    }

    /// Whether the model is asked for pieces.
    pub(super) fn is_live(&self) -> bool {
        self.client.is_some() && !self.hold
    }

    /// The model is asked again: what ended the last answer does not end this one.
    pub(super) async fn next_round(&mut self, answer: &Json, tools: &Toolbox) -> Result<(), Fault> {
        if self.is_live() {
            self.catch_up(answer, tools).await?;
        }
        self.last.clear();
        for sent in self.sent.values_mut() {
            *sent = Sent { role: sent.role, ..Sent::default() };
        }
        self.rounds += 1;
        self.streamed = false;
        Ok(())
    }

    /// Sends one piece, or keeps it for the end.
    pub(super) async fn send(&mut self, mut piece: Piece, tools: &Toolbox) -> Result<(), Fault> {
        if !self.is_live() {
            return Ok(());
        }
        self.streamed = true;
        self.same_id(&mut piece);
        self.one_role(&mut piece);
        let withheld = !tools.is_empty() && self.withhold_calls(&mut piece);
        let ends = delta::finishes(&piece.event) || is_only_usage(&piece.event);
        let speaks = says_anything(&piece.event) || any_delta(&piece.event, |key, _| key == "role");
        if withheld && !speaks && !ends && piece.event.at_path("usage").is_null() {
            return Ok(());
        }
        if ends || (!self.last.is_empty() && !speaks) {
            self.hold_back(piece).await
        } else {
            self.deliver(piece).await
        }
    }

    /// Keeps what ends the answer; text that came with it goes ahead.
    async fn hold_back(&mut self, piece: Piece) -> Result<(), Fault> {
        if says_anything(&piece.event) {
            let (ahead, end) = event::without_finish(&piece.event);
            self.deliver(Piece { raw: bytes::Bytes::new(), event: ahead, name: piece.name.clone() }).await?;
            self.last.push(Piece::new(end));
        } else {
            self.last.push(piece);
        }
        Ok(())
    }

    async fn deliver(&mut self, piece: Piece) -> Result<(), Fault> {
        for (index, delta) in deltas(&piece.event) {
            self.sent(index).text.push_str(&message::text_of(&delta));
        }
        let Some(client) = &self.client else { return Ok(()) };
        client.send(piece).await.map_err(|_| Fault::Host("the client went away".into()))
    }

    fn sent(&mut self, index: i64) -> &mut Sent {
        self.sent.entry(index).or_default()
    }

    /// Every event has the first one's id, also those of later model calls.
    fn same_id(&mut self, piece: &mut Piece) {
        let id = |event: &Json| event.text("id").filter(|id| !id.is_empty());
        let first = match &self.first {
            None => {
                self.first = Some(event::head_of(&piece.event));
                return;
            }
            Some(first) => first,
        };
        match (id(first), id(&piece.event)) {
            (Some(first), Some(own)) if own != first => set_id(piece, first),
            // A filter made it and left the id to us.
            (Some(first), None) if piece.raw.is_empty() => set_id(piece, first),
            (None, Some(own)) => {
                // Azure's first event has an empty id.
                let _ = first.set("id", own);
                if let Some(model) = piece.event.text("model") {
                    let _ = first.set("model", model);
                }
            }
            _ => {}
        }
    }

    /// A choice says its role once, not again with every model call.
    fn one_role(&mut self, piece: &mut Piece) {
        for (index, delta) in deltas(&piece.event) {
            if delta.text("role").is_none() {
                continue;
            }
            let later_round = self.rounds > 0;
            let sent = self.sent(index);
            if later_round && sent.role {
                delta.remove("role");
                piece.raw.clear();
            }
            sent.role = true;
        }
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
            piece.raw.clear();
        }
        found
    }

    /// Sends of a round's answer what the client has not got yet.
    async fn catch_up(&mut self, answer: &Json, tools: &Toolbox) -> Result<(), Fault> {
        if !self.streamed {
            for event in split(answer, self.with_usage) {
                self.send(Piece::new(event), tools).await?;
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
        self.deliver(Piece::new(event::complete(&delta, &template))).await
    }

    /// Sends the rest: what filters appended, withheld calls that are the client's, finish, usage.
    pub(super) async fn finish(mut self, answer: &Json) -> Result<(), Fault> {
        if self.client.is_none() {
            return Ok(());
        }
        self.hold = false;
        self.catch_up(answer, &Toolbox::default()).await?;
        for (index, said) in messages(answer) {
            if self.sent(index).calls_held && !Call::all(&said).is_empty() {
                let calls = said.get("tool_calls").unwrap_or_default().copy();
                for (place, call) in calls.items().iter().enumerate() {
                    let _ = call.set("index", place);
                }
                self.add(index, "tool_calls", calls).await?;
            }
        }
        for piece in std::mem::take(&mut self.last) {
            self.deliver(piece).await?;
        }
        Ok(())
    }
}

fn set_id(piece: &mut Piece, id: CompactString) {
    let _ = piece.event.set("id", id);
    piece.raw.clear();
}

/// The choices of an event or answer, each with its number.
fn choices(of: &Json) -> impl Iterator<Item = (i64, Json)> {
    let choices = of.get("choices").unwrap_or_default().items();
    choices.into_iter().enumerate().map(|(place, choice)| {
        let index = choice.get("index").and_then(|index| index.as_i64());
        (index.unwrap_or(place as i64), choice)
    })
}

fn deltas(event: &Json) -> impl Iterator<Item = (i64, Json)> {
    choices(event).filter_map(|(index, choice)| Some((index, choice.get("delta")?)))
}

fn messages(answer: &Json) -> impl Iterator<Item = (i64, Json)> {
    choices(answer).filter_map(|(index, choice)| Some((index, choice.get("message")?)))
}

fn is_only_usage(event: &Json) -> bool {
    event.get("usage").is_some_and(|usage| !usage.is_null())
        && event.get("choices").is_some_and(|choices| choices.items().is_empty())
}

/// Whether an event carries anything beside its end.
fn says_anything(event: &Json) -> bool {
    any_delta(event, |key, value| key != "role" && !value.is_empty())
}

fn any_delta(event: &Json, is: impl Fn(&str, &Json) -> bool) -> bool {
    deltas(event).any(|(_, delta)| {
        let mut any = false;
        if let Json::Object(delta) = &delta {
            delta.for_each(|key, value| any = any || is(key, value));
        }
        any
    })
}
