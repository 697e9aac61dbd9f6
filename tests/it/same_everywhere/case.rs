//! A case: what a client says, what the service answers, and the filters between them.

use super::filters::{self, Drawn};
use super::rows::Way;
use super::services::{SERVICES, Service};
use crate::sdk::upstream::{self, Round};
use crate::sdk::{DOOR, LOOK};
use fastrand::Rng;
use serde_json::{Value, json};

const WORDS: &[&str] = &["one", "two", "drei", "süß", "日本", "{\"a\": 1}"];

/// The service's answer when it has nothing else.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) body: Value,
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) filters: Vec<Drawn>,
    pub(super) system: Option<String>,
    /// The messages before, by user and model in turns.
    pub(super) before: Vec<(&'static str, String)>,
    pub(super) says: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: u64,
    /// The client has a tool of its own.
    pub(super) has_door: bool,
    /// The host has a tool.
    pub(super) has_look: bool,
    pub(super) rounds: Vec<Round>,
    /// The service fails in its last round.
    pub(super) failure: Option<Failure>,
}

impl Case {
    pub(super) fn new(number: usize) -> Self {
        let rng = &mut Rng::with_seed(number as u64);
        let has_look = rng.bool();
        let has_door = rng.u8(0..3) == 0;
        let mut rounds = Vec::new();
        if has_look {
            rounds.extend((0..rng.usize(0..3)).map(|_| upstream::draw(rng, 1, Some(LOOK), true)));
        }
        let calls = (has_door && rng.bool()).then_some(DOOR);
        rounds.push(upstream::draw(rng, 1, calls, true));
        let failure = (rng.u8(0..12) == 0).then(|| failure(rng));
        let is_plain = rng.bool();
        let before = if is_plain { 0 } else { rng.usize(0..2) };
        Self {
            number,
            filters: filters::draw(rng, &format!("c{number}")),
            system: (!is_plain && rng.bool()).then(|| text(rng)),
            before: (0..2 * before).map(|at| (["user", "assistant"][at % 2], text(rng))).collect(),
            says: text(rng),
            temperature: (!is_plain && rng.bool()).then_some(0.5),
            max_tokens: rng.u64(100..200),
            has_door,
            has_look,
            rounds,
            failure,
        }
    }

    /// The model that clients ask for.
    pub(super) fn model(&self, way: &Way) -> String {
        self.name(way.service, way.chat_id.is_some())
    }

    fn name(&self, service: Service, memory: bool) -> String {
        format!("{}-{}{}", service.provider(), if memory { "m" } else { "c" }, self.number)
    }

    /// The tables of its models.
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
        // A call that takes long on a slow machine is not what this compares.
        let budget = |filter: &Drawn| format!("[filters.{}.budget]\nms = 10000\n", filter.id);
        let budgets: String = self.filters.iter().map(budget).collect();
        tables.fold(budgets, |all, table| all + table.as_str())
    }

    /// The conversation as OpenAI's chats have it.
    pub(super) fn messages(&self) -> Vec<Value> {
        let system = self.system.iter().map(|text| json!({"role": "system", "content": text}));
        let before = self.before.iter().map(|(role, text)| json!({"role": role, "content": text}));
        let last = json!({"role": "user", "content": self.says});
        system.chain(before).chain([last]).collect()
    }

    /// Returns `true` if one text is all that is said.
    pub(super) fn is_plain(&self) -> bool {
        self.system.is_none() && self.before.is_empty() && self.temperature.is_none() && !self.has_door
    }

    /// Returns `true` if the last model call says nothing after one that did.
    pub(super) fn ends_silently(&self) -> bool {
        let last = self.rounds.last().unwrap();
        self.rounds.len() > 1 && last.iter().flatten().all(|chunk| chunk.text.is_empty())
    }

    /// Returns the service's answer to a conversation in plain messages.
    pub(super) fn answer(&self, messages: &Value) -> Result<&Round, Failure> {
        let messages = messages.as_array().cloned().unwrap_or_default();
        // The earlier messages are not an answer of this turn.
        let said = messages.iter().filter(|message| message["role"] == "assistant").count();
        let round = said.saturating_sub(self.before.len() / 2).min(self.rounds.len() - 1);
        match &self.failure {
            Some(failure) if round == self.rounds.len() - 1 => Err(failure.clone()),
            _ => Ok(&self.rounds[round]),
        }
    }

    pub(super) fn shown(&self) -> String {
        let scripts: Vec<String> = self.filters.iter().map(Drawn::script).collect();
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
    Failure { status, body: json!({"error": error}) }
}
