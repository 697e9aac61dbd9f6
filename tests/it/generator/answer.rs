//! The answers of a model in a turn: as drawn, and in the format of OpenAI's chats.

use super::LOOK;
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const WORDS: &[&str] = &[
    "one ", "two\n", "drei", " süß", "\"", "\\n", "{\"a\":", "}", "日本", "🙂", " ", "data: ", "[DONE]",
    "</x>",
];

/// A delta of one choice, or usage only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) choice: usize,
    pub(crate) role: bool,
    pub(crate) text: String,
    pub(crate) thought: String,
    pub(crate) refusal: String,
    pub(crate) sources: Vec<Source>,
    pub(crate) calls: Vec<CallPiece>,
    pub(crate) finish: Option<&'static str>,
    pub(crate) usage: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct CallPiece {
    pub(crate) place: usize,
    /// The id and name, on the first delta.
    pub(crate) head: Option<(String, &'static str)>,
    pub(crate) arguments: String,
    /// `true` if the tool takes free text.
    pub(crate) is_custom: bool,
}

/// A page that a text cites, with the range of the text in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) url: String,
    pub(crate) title: String,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Source {
    pub(crate) fn fields(&self) -> Value {
        json!({"url": self.url, "title": self.title, "start_index": self.from, "end_index": self.to})
    }
}

/// One response of the upstream as a list of events; an event may contain several choices.
pub(crate) type Round = Vec<Vec<Chunk>>;

/// The answers of a model in a turn, one for each call.
#[derive(Clone, Debug)]
pub(crate) struct ModelTurn {
    /// The number of the case, which is in the ids.
    pub(crate) number: usize,
    pub(crate) rounds: Vec<Round>,
    /// The error with which the last call ends.
    pub(crate) failure: Option<Failure>,
}

/// The answer of a service that fails.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) body: Value,
    /// The number of events after which a streamed answer fails.
    pub(crate) after: Option<usize>,
}

impl ModelTurn {
    /// Draws up to two answers that call the host's tool, if there is one, and a last answer, whose number of choices
    /// and called tool `last` draws.
    pub(crate) fn draw(
        rng: &mut Rng,
        number: usize,
        (has_look, usage): (bool, bool),
        last: impl FnOnce(&mut Rng) -> (usize, Option<&'static str>),
    ) -> Self {
        let looks = if has_look { rng.usize(0..3) } else { 0 };
        let mut rounds: Vec<Round> = (0..looks).map(|_| draw(rng, 1, Some(LOOK), usage)).collect();
        let (choices, calls) = last(rng);
        rounds.push(draw(rng, choices, calls, usage));
        Self { number, rounds, failure: None }
    }

    /// Returns the answer after so many others of the turn, and the error with which it ends.
    pub(crate) fn answer(&self, before: usize) -> (&Round, Option<&Failure>) {
        let last = self.rounds.len() - 1;
        (&self.rounds[before.min(last)], self.failure.as_ref().filter(|_| before >= last))
    }
}

/// Returns the number of answers in a conversation.
pub(crate) fn count_answers(messages: &Value) -> usize {
    let messages = messages.as_array().into_iter().flatten();
    messages.filter(|message| message["role"] == "assistant").count()
}

impl Chunk {
    pub(crate) fn is_usage_alone(&self) -> bool {
        self.usage && self.finish.is_none()
    }
}

/// Returns a random response with `choices` choices, which may call a tool.
fn draw(rng: &mut Rng, choices: usize, calls: Option<&'static str>, usage: bool) -> Round {
    let mut left: Vec<_> =
        (0..choices).map(|choice| choice_of(rng, choice, calls).into_iter().peekable()).collect();
    let mut round: Round = Vec::new();
    while left.iter_mut().any(|choice| choice.peek().is_some()) {
        let next = rng.usize(..choices);
        let Some(chunk) = left[next].next() else { continue };
        match round.last_mut() {
            // Choices may share an event, in order.
            Some(event) if event.len() == 1 && event[0].choice < chunk.choice && rng.bool() => {
                event.push(chunk)
            }
            _ => round.push(vec![chunk]),
        }
    }
    if usage {
        let with_finish = choices == 1 && rng.bool();
        match round.last_mut() {
            Some(last) if with_finish => last[0].usage = true,
            _ => round.push(vec![Chunk { usage: true, ..Chunk::default() }]),
        }
    }
    round
}

fn choice_of(rng: &mut Rng, choice: usize, calls: Option<&'static str>) -> Vec<Chunk> {
    let empty = || Chunk { choice, ..Chunk::default() };
    let mut chunks = vec![Chunk { role: true, ..empty() }];
    if rng.bool() {
        chunks[0].text = some_text(rng);
    }
    for _ in 0..rng.usize(0..3) {
        chunks.push(Chunk { thought: some_text(rng), ..empty() });
    }
    for _ in 0..rng.usize(0..5) {
        chunks.push(Chunk { text: some_text(rng), ..empty() });
    }
    for place in 0..calls.map_or(0, |_| rng.usize(1..=2)) {
        let arguments = json!({"n": place, "said": some_text(rng)}).to_string();
        let pieces = if rng.bool() { vec![arguments] } else { cut(rng, &arguments) };
        // The host gives a call another id if an earlier one has its own.
        let head = calls.map(|name| (format!("call_{name}_{choice}_{place}"), name));
        for (piece, arguments) in pieces.into_iter().enumerate() {
            let head = head.clone().filter(|_| piece == 0);
            chunks.push(Chunk {
                calls: vec![CallPiece { place, head, arguments, is_custom: false }],
                ..empty()
            });
        }
    }
    let finish =
        Some(if calls.is_some() { "tool_calls" } else { *rng.choice(["stop", "length"].iter()).unwrap() });
    let text = if calls.is_none() && rng.u8(0..3) == 0 { some_text(rng) } else { String::new() };
    chunks.push(Chunk { text, finish, ..empty() });
    chunks
}

fn some_text(rng: &mut Rng) -> String {
    (0..rng.usize(1..4)).map(|_| WORDS[rng.usize(..WORDS.len())]).collect()
}

fn cut(rng: &mut Rng, text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let size = rng.usize(1..letters.len());
    letters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

/// Returns the choices of a round, each as one chunk.
pub(crate) fn whole(round: &Round) -> Vec<Chunk> {
    let mut choices: BTreeMap<usize, Chunk> = BTreeMap::new();
    for chunk in round.iter().flatten().filter(|chunk| chunk.role || !chunk.is_usage_alone()) {
        let own =
            choices.entry(chunk.choice).or_insert_with(|| Chunk { choice: chunk.choice, ..Chunk::default() });
        own.role |= chunk.role;
        own.text += &chunk.text;
        own.thought += &chunk.thought;
        own.refusal += &chunk.refusal;
        own.sources.extend(chunk.sources.iter().cloned());
        own.finish = own.finish.or(chunk.finish);
        for piece in &chunk.calls {
            match own.calls.iter_mut().find(|call| call.place == piece.place) {
                Some(call) => call.arguments += &piece.arguments,
                None => own.calls.push(piece.clone()),
            }
        }
    }
    choices.into_values().collect()
}

/// Returns a response as text, streamed or whole.
pub(crate) fn text(number: usize, round: &Round, stream: bool) -> String {
    if !stream {
        return completion(number, &whole(round)).to_string();
    }
    let events = round.iter().map(|event| format!("data: {}\n\n", wire(number, event)));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

/// Returns one event of a streamed response.
pub(crate) fn wire(number: usize, event: &[Chunk]) -> Value {
    let choices = event.iter().filter(|chunk| !chunk.is_usage_alone());
    let mut wire = json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": choices.map(|chunk| json!({
            "index": chunk.choice, "delta": delta_of(chunk, true), "finish_reason": chunk.finish,
        })).collect::<Vec<_>>(),
    });
    if event.iter().any(|chunk| chunk.usage) {
        wire["usage"] = usage();
    }
    wire
}

/// Returns a whole response.
pub(crate) fn completion(number: usize, choices: &[Chunk]) -> Value {
    json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": 1, "model": "m",
        "choices": choices.iter().map(|chunk| json!({
            "index": chunk.choice, "message": delta_of(chunk, false), "finish_reason": chunk.finish,
        })).collect::<Vec<_>>(),
        "usage": usage(),
    })
}

fn usage() -> Value {
    json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
}

fn delta_of(chunk: &Chunk, in_pieces: bool) -> Value {
    let mut delta = json!({});
    if chunk.role {
        delta["role"] = json!("assistant");
    }
    if chunk.role || !chunk.text.is_empty() {
        delta["content"] = json!(chunk.text);
    }
    if !chunk.thought.is_empty() {
        delta["reasoning_content"] = json!(chunk.thought);
    }
    if !chunk.refusal.is_empty() {
        delta["refusal"] = json!(chunk.refusal);
    }
    if !chunk.sources.is_empty() {
        let cite = |source: &Source| json!({"type": "url_citation", "url_citation": source.fields()});
        delta["annotations"] = chunk.sources.iter().map(cite).collect();
    }
    let calls = chunk.calls.iter().map(|call| {
        let (kind, key) = if call.is_custom { ("custom", "input") } else { ("function", "arguments") };
        let mut wire = json!({kind: {key: call.arguments}});
        if in_pieces {
            wire["index"] = json!(call.place);
        }
        if let Some((id, name)) = &call.head {
            wire["id"] = json!(id);
            wire["type"] = json!(kind);
            wire[kind]["name"] = json!(name);
        }
        wire
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        delta["tool_calls"] = json!(calls);
    }
    delta
}
