//! Streams of services: thinking, then text, then calls, each cut at some place.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use valvehouse::json::Json;

/// A part of a choice's content.
#[derive(Debug, Clone)]
pub(crate) enum Speech {
    Thinking(String),
    Text(String),
    Refusal(String),
    /// Parallel calls, whose deltas may be interleaved.
    Calls(Vec<Call>),
}

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    name: &'static str,
    input: String,
    is_custom: bool,
}

impl Call {
    pub(crate) fn function(name: &'static str, arguments: &str) -> Self {
        Self { name, input: arguments.into(), is_custom: false }
    }

    pub(crate) fn custom(name: &'static str, input: &str) -> Self {
        Self { name, input: input.into(), is_custom: true }
    }

    /// Returns the deltas of the call, with its text in these pieces.
    fn deltas(&self, number: usize, pieces: &[String]) -> Vec<Value> {
        let (of, key) = if self.is_custom { ("custom", "input") } else { ("function", "arguments") };
        let begin = json!({"index": number, "id": format!("call_{number}"), "type": of, of: {"name": self.name, key: ""}});
        let more = pieces.iter().map(|piece| json!({"index": number, of: {key: piece}}));
        std::iter::once(begin).chain(more).map(|call| json!({"tool_calls": [call]})).collect()
    }
}

impl Speech {
    /// Returns the deltas of the part, cut by `cut`; each call has a separate list.
    fn deltas(&self, first_call: usize, cut: &dyn Fn(&str) -> Vec<String>) -> Vec<Vec<Value>> {
        let texts = |key: &str, text: &str| vec![cut(text).iter().map(|piece| json!({key: piece})).collect()];
        match self {
            Self::Thinking(text) => texts("reasoning_content", text),
            Self::Text(text) => texts("content", text),
            Self::Refusal(text) => texts("refusal", text),
            Self::Calls(calls) => {
                let calls = calls.iter().enumerate();
                calls.map(|(n, call)| call.deltas(first_call + n, &cut(&call.input))).collect()
            }
        }
    }
}

fn event(index: usize, delta: &Value, finish: Option<&str>) -> Json {
    let event = json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}]});
    Json::parse(event.to_string().as_bytes()).unwrap()
}

/// Returns the deltas of a choice, part by part; `pick` selects the call that continues.
fn deltas(
    speech: &[Speech],
    cut: &dyn Fn(&str) -> Vec<String>,
    pick: &mut dyn FnMut(usize) -> usize,
) -> Vec<Value> {
    let mut calls = 0;
    let mut all = vec![json!({"role": "assistant", "content": ""})];
    for part in speech {
        let mut queues: Vec<_> =
            part.deltas(calls, cut).into_iter().map(std::collections::VecDeque::from).collect();
        if let Speech::Calls(own) = part {
            calls += own.len();
        }
        queues.retain(|queue| !queue.is_empty());
        // A call starts only after those before it have started.
        while !queues.is_empty() {
            let at = pick(queues.len());
            all.extend(queues[at].pop_front());
            queues.retain(|queue| !queue.is_empty());
        }
    }
    all
}

fn in_pieces(text: &str, length: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(length.max(1)).map(|piece| piece.iter().collect()).collect()
}

/// Returns the events of a choice, its texts in pieces of `length` characters.
pub(crate) fn events_of(speech: &[Speech], length: usize, ends: bool) -> Vec<Json> {
    let deltas = deltas(speech, &|text| in_pieces(text, length), &mut |_| 0);
    let mut events: Vec<Json> = deltas.iter().map(|delta| event(0, delta, None)).collect();
    if ends {
        let calls = speech.iter().any(|part| matches!(part, Speech::Calls(_)));
        events.push(event(0, &json!({}), Some(if calls { "tool_calls" } else { "stop" })));
    }
    events
}

/// Returns the stream once for every place at which all of its texts are cut.
pub(crate) fn cut_everywhere(speech: &[Speech]) -> Vec<Vec<Json>> {
    (0..30)
        .map(|at| {
            let cut = |text: &str| {
                let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
                [&text[..at], &text[at..]]
                    .into_iter()
                    .filter(|piece| !piece.is_empty())
                    .map(str::to_owned)
                    .collect()
            };
            let mut events: Vec<Json> =
                deltas(speech, &cut, &mut |_| 0).iter().map(|delta| event(0, delta, None)).collect();
            events.push(event(0, &json!({}), Some("tool_calls")));
            events
        })
        .collect()
}

const WORDS: &str = "(secret-42|secret|-42|sec|word|ü| |, ){0,6}";

fn part() -> impl Strategy<Value = Speech> {
    let call = (0..3_usize, WORDS).prop_map(|(n, words)| match n {
        2 => Call::custom("f2", &format!("{words}.")),
        n => Call::function(["f0", "f1"][n], &format!(r#"{{"q":"{words}","n":{n}}}"#)),
    });
    // A text that follows text of another kind is separate and starts after a blank.
    prop_oneof![
        2 => WORDS.prop_map(|words| Speech::Thinking(words + " ")),
        3 => WORDS.prop_map(|words| Speech::Text(words + " ")),
        1 => WORDS.prop_map(|words| Speech::Refusal(words + " ")),
        3 => vec(call, 1..4).prop_map(Speech::Calls),
    ]
}

/// The events of one or two interleaved choices, cut at random places.
pub(crate) fn speeches() -> impl Strategy<Value = Vec<Json>> {
    let choice = (vec(part(), 0..4), vec(0..1_000_usize, 64), 1..8_usize);
    (vec(choice, 1..3), vec(0..1_000_usize, 64)).prop_map(|(choices, turns)| {
        let mut queues: Vec<std::collections::VecDeque<Json>> = choices
            .iter()
            .enumerate()
            .map(|(index, (speech, picks, length))| {
                let mut picks = picks.iter().cycle();
                let mut pick = |count: usize| picks.next().unwrap() % count;
                let deltas = deltas(speech, &|text| in_pieces(text, *length), &mut pick);
                let mut events: Vec<Json> = deltas.iter().map(|delta| event(index, delta, None)).collect();
                events.push(event(index, &json!({}), Some("stop")));
                events.into()
            })
            .collect();
        let (mut all, mut turns) = (Vec::new(), turns.iter().cycle());
        while !queues.is_empty() {
            let at = turns.next().unwrap() % queues.len();
            all.extend(queues[at].pop_front());
            queues.retain(|queue| !queue.is_empty());
        }
        all
    })
}
