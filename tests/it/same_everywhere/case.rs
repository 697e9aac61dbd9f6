//! A case: the messages of the client, the responses of the service, and the filters between them.

use super::filters::{self, RandomFilter};
use super::rows::Way;
use crate::generator::answer::{Chunk, Failure, ModelTurn, Round, Source};
use crate::generator::services::{SERVICES, Service};
use crate::generator::{DOOR, LOOK};
use fastrand::Rng;
use serde_json::{Value, json};

const WORDS: &[&str] = &["one", "two", "drei", "süß", "日本", "{\"a\": 1}"];

/// A response with more than text, thinking and calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// The model refuses with a reason.
    Refuses,
    /// The service's content filter ends the response.
    Filtered,
    /// The text cites pages.
    Cites,
    /// The client's tool takes free text.
    Custom,
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) filters: Vec<RandomFilter>,
    pub(super) system: Option<String>,
    /// The previous messages, alternately of the user and the model.
    pub(super) before: Vec<(&'static str, String)>,
    pub(super) says: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: u64,
    /// The client has a tool.
    pub(super) has_door: bool,
    /// The host has a tool.
    pub(super) has_look: bool,
    pub(super) turn: ModelTurn,
    /// The special form of the last round.
    pub(super) special: Option<Special>,
}

impl Case {
    pub(super) fn new(number: usize) -> Self {
        let rng = &mut Rng::with_seed(number as u64);
        let has_look = rng.bool();
        let has_door = rng.u8(0..3) == 0;
        let last = |rng: &mut Rng| (1, (has_door && rng.bool()).then_some(DOOR));
        let mut turn = ModelTurn::draw(rng, number, (has_look, true), last);
        let failure = (rng.u8(0..12) == 0).then(|| failure(rng));
        let is_plain = rng.bool();
        let before = if is_plain { 0 } else { rng.usize(0..2) };
        let filters = filters::draw(rng, &format!("c{number}"));
        let other = &mut Rng::with_seed(!(number as u64));
        let last = turn.rounds.last_mut().expect("a turn has a round");
        let special = special(other, last, &filters);
        turn.failure = failure.map(|failure| {
            // The filter that ends the turn first would depend on whether the response is streamed.
            let may_begin = other.bool() && !filters.iter().any(RandomFilter::ends_at_an_event);
            Failure { after: may_begin.then(|| other.usize(1..=last.len())), ..failure }
        });
        Self {
            number,
            filters,
            special,
            system: (!is_plain && rng.bool()).then(|| text(rng)),
            before: (0..2 * before).map(|at| (["user", "assistant"][at % 2], text(rng))).collect(),
            says: text(rng),
            temperature: (!is_plain && rng.bool()).then_some(0.5),
            max_tokens: rng.u64(100..200),
            has_door,
            has_look,
            turn,
        }
    }

    /// Returns the name of the model that clients request.
    pub(super) fn model(&self, way: &Way) -> String {
        self.name(way.service, way.chat_id.is_some())
    }

    fn name(&self, service: Service, memory: bool) -> String {
        format!("{}-{}{}", service.provider(), if memory { "m" } else { "c" }, self.number)
    }

    /// Returns the configuration of the models.
    pub(super) fn config(&self) -> String {
        let filters: Vec<&str> = self.filters.iter().map(|filter| filter.id.as_str()).collect();
        let tools: &[&str] = if self.has_look { &[LOOK] } else { &[] };
        let table = |service: Service, memory: bool| {
            format!(
                "[[models]]\nname = \"{}\"\nprovider = \"{}\"\nmodel = \"up{}\"\nfilters = {filters:?}\n\
                 tools = {tools:?}\nmemory = {memory}\n",
                self.name(service, memory),
                service.provider(),
                self.number
            )
        };
        let tables = SERVICES.into_iter().flat_map(|service| [table(service, false), table(service, true)]);
        // A slow machine must not exhaust the budget of a filter.
        let budget = |filter: &RandomFilter| format!("[filters.{}.budget]\nms = 10000\n", filter.id);
        let budgets: String = self.filters.iter().map(budget).collect();
        tables.fold(budgets, |all, table| all + table.as_str())
    }

    /// Returns the conversation in the format of OpenAI's chats.
    pub(super) fn messages(&self) -> Vec<Value> {
        let system = self.system.iter().map(|text| json!({"role": "system", "content": text}));
        let before = self.before.iter().map(|(role, text)| json!({"role": role, "content": text}));
        let last = json!({"role": "user", "content": self.says});
        system.chain(before).chain([last]).collect()
    }

    /// Returns `true` if the conversation is a single text.
    pub(super) fn is_plain(&self) -> bool {
        self.system.is_none() && self.before.is_empty() && self.temperature.is_none() && !self.has_door
    }

    /// Returns `true` if the last model call has no text after one that had.
    pub(super) fn ends_silently(&self) -> bool {
        let last = self.turn.rounds.last().unwrap();
        self.turn.rounds.len() > 1 && last.iter().flatten().all(|chunk| chunk.text.is_empty())
    }

    /// Returns `true` if a service can give the responses: Anthropic's API has no field for the reason of a refusal.
    pub(super) fn fits(&self, service: Service) -> bool {
        service != Service::Messages || self.special != Some(Special::Refuses)
    }

    pub(super) fn shown(&self) -> String {
        let scripts: Vec<String> = self.filters.iter().map(RandomFilter::script).collect();
        format!("{}\n{self:?}", scripts.join("\n"))
    }
}

fn text(rng: &mut Rng) -> String {
    let words: Vec<&str> = (0..rng.usize(1..4)).map(|_| WORDS[rng.usize(..WORDS.len())]).collect();
    words.join(" ")
}

fn failure(rng: &mut Rng) -> Failure {
    let (status, kind) =
        [(429, "rate_limit_error"), (400, "invalid_request_error"), (500, "server_error")][rng.usize(0..3)];
    let error = json!({"message": "the service says no", "type": kind, "param": null, "code": null});
    Failure { status, body: json!({"error": error}), after: None }
}

/// Makes a round a special one, if possible.
fn special(rng: &mut Rng, round: &mut Round, filters: &[RandomFilter]) -> Option<Special> {
    let calls = round.iter().flatten().any(|chunk| !chunk.calls.is_empty());
    let kind = match rng.u8(0..10) {
        _ if calls => Special::Custom,
        0 | 1 => Special::Refuses,
        2 | 3 => Special::Filtered,
        // A changed text keeps no citations.
        4 | 5 if !filters.iter().any(RandomFilter::changes_texts) => Special::Cites,
        _ => return None,
    };
    let chunks = round.iter_mut().flatten();
    match kind {
        Special::Custom if rng.bool() => return None,
        Special::Custom => {
            for call in chunks.flat_map(|chunk| &mut chunk.calls) {
                call.is_custom = true;
                if call.head.is_some() {
                    call.arguments.insert_str(0, "+ \"");
                }
            }
        }
        Special::Refuses => chunks.for_each(|chunk| {
            chunk.refusal = std::mem::take(&mut chunk.text);
            chunk.finish = chunk.finish.map(|_| "stop");
        }),
        Special::Filtered => chunks.for_each(|chunk| chunk.finish = chunk.finish.map(|_| "content_filter")),
        Special::Cites => cite(rng, chunks),
    }
    Some(kind)
}

/// Adds citations to the texts between two thoughts, which form one block in Anthropic's format.
fn cite<'a>(rng: &mut Rng, chunks: impl Iterator<Item = &'a mut Chunk>) {
    let mut chunks: Vec<&mut Chunk> = chunks.collect();
    let mut from = 0;
    for (place, part) in chunks.chunk_by_mut(|_, next| next.thought.is_empty()).enumerate() {
        let to = from + part.iter().map(|chunk| chunk.text.chars().count()).sum::<usize>();
        for (number, chunk) in part.iter_mut().enumerate().filter(|(_, chunk)| !chunk.text.is_empty()) {
            if rng.bool() {
                let (url, title) = (format!("https://example.com/{place}/{number}"), text(rng));
                chunk.sources.push(Source { url, title, from, to });
            }
        }
        from = to;
    }
}
