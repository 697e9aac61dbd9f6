//! The upstream's responses in a case and the changes of a filter to them, derived from the case's number.

use crate::generator::DOOR;
use crate::generator::answer::{Chunk, ModelTurn};
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The changes of the filter to an event.
pub(super) const ACTS: &[&str] = &[
    "nothing",
    "change",
    "end otherwise",
    "end too",
    "drop",
    "replace",
    "two",
    "twenty",
    "hold",
    "release",
    "skip",
    "skip with text",
    "skip with nothing",
    "emit",
    "emit and throw",
    "throw",
    "throw a status",
    "deny",
    "error",
    "return a number",
    "return a text",
    "return a list with a number",
    "bug",
    "operations",
    "memory",
    "index",
];

/// Acts that lose the other fields of an event.
const LOSING: &[&str] = &["drop", "replace", "twenty", "skip with text", "skip with nothing"];

/// The number of acts that never fail the turn.
const GENTLE: usize = 14;

/// The actions of the filter at the end of a stream.
const ENDS: &[&str] =
    &["nothing", "nothing", "text", "text for each", "skip", "throw", "return a number", "bug"];

/// The filters and tools of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// `on_error: continue`.
    pub(super) forgives: bool,
    /// An outlet appends.
    pub(super) signs: bool,
    /// An outlet rewrites, so the stream is held.
    pub(super) holds: bool,
    /// The host has a tool.
    pub(super) tools: bool,
}

impl Model {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..16).map(|bits| Self {
            forgives: bits & 1 > 0,
            signs: bits & 2 > 0,
            holds: bits & 4 > 0,
            tools: bits & 8 > 0,
        })
    }

    pub(super) fn name(self) -> String {
        let words = [
            (self.forgives, "forgives"),
            (self.signs, "signs"),
            (self.holds, "holds"),
            (self.tools, "tools"),
        ];
        let words = words.into_iter().filter_map(|(is, word)| is.then_some(word));
        ["acts"].into_iter().chain(words).collect::<Vec<_>>().join("-")
    }
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) model: Model,
    pub(super) turn: ModelTurn,
    /// The acts by place, counted through all rounds.
    pub(super) plan: BTreeMap<usize, &'static str>,
    pub(super) end: &'static str,
    pub(super) usage: bool,
    /// `true` if the client requests the emitted events.
    pub(super) events: bool,
    /// `true` if the client's library assembles the stream.
    pub(super) helper: bool,
}

impl Case {
    pub(super) fn new(number: usize) -> Self {
        let rng = &mut Rng::with_seed(number as u64);
        let model = Model::all().nth(rng.usize(0..16)).unwrap();
        let usage = rng.bool();
        let turn = ModelTurn::draw(rng, number, (model.tools, usage), |rng| {
            let choices = if model.tools { 1 } else { rng.usize(1..=2) };
            (choices, (rng.u8(0..4) == 0).then_some(DOOR))
        });
        let mut case = Self {
            number,
            model,
            turn,
            plan: BTreeMap::new(),
            end: "nothing",
            usage,
            events: !model.holds && rng.u8(0..4) == 0,
            helper: false,
        };
        case.draw_plan(rng);
        case
    }

    /// Puts each act at each place in turn, together with random others.
    fn draw_plan(&mut self, rng: &mut Rng) {
        let places = self.events_seen();
        let chosen = ACTS[self.number % ACTS.len()];
        let at = (self.number / ACTS.len()) % places.len();
        for (place, event) in places.iter().enumerate() {
            let act = match () {
                () if place == at => chosen,
                () if rng.u8(0..4) == 0 => ACTS[rng.usize(..GENTLE)],
                () => continue,
            };
            // The rest of a call is useless without its start.
            if !(LOSING.contains(&act) && begins_a_call(event)) {
                self.plan.insert(place, act);
            }
        }
        self.end = ENDS[rng.usize(..ENDS.len())];
        if self.end == "text for each" && places.iter().all(|event| event.choice == 0) {
            self.end = "text";
        }
    }

    /// Returns `true` if the clients' own accumulation can read the response. It does not support emitted
    /// events or incomplete calls, expects the first choice first, and treats a truncated response as a
    /// failure.
    pub(super) fn is_plain(&self) -> bool {
        let first = self.turn.rounds[0][0][0].choice;
        let mut chunks = self.turn.rounds.iter().flatten().flatten();
        let acts_plainly = |act: &str| !LOSING.contains(&act) && !act.starts_with("end");
        first == 0
            && !self.events
            && chunks.all(|chunk| chunk.finish != Some("length"))
            && self.plan.values().all(|act| acts_plainly(act))
    }

    /// Returns the events that the filter receives, in order.
    fn events_seen(&self) -> Vec<Chunk> {
        self.turn.rounds.iter().flatten().flatten().cloned().collect()
    }

    /// Returns the request of a client.
    pub(super) fn request(&self) -> Value {
        let plan: serde_json::Map<_, _> =
            self.plan.iter().map(|(place, act)| (place.to_string(), json!(act))).collect();
        let mut body = json!({
            "model": self.model.name(), "stream": true,
            "messages": [{"role": "user", "content": self.number.to_string()}],
            "metadata": {"plan": plan, "end": self.end},
            "tools": [{"type": "function", "function": {"name": DOOR, "parameters": {"type": "object"}}}],
        });
        if self.usage {
            body["stream_options"] = json!({"include_usage": true});
        }
        let headers = if self.events { json!({"x-valvehouse-events": "1"}) } else { json!({}) };
        json!({"number": self.number, "body": body, "headers": headers, "helper": self.helper})
    }
}

fn begins_a_call(event: &Chunk) -> bool {
    event
        .calls
        .iter()
        .any(|call| call.head.is_some() && serde_json::from_str::<Value>(&call.arguments).is_err())
}
