//! Processed text is final: in random answers, with random cuts and interruptions, no text that a filter changed
//! reaches the client in its old form, and no other character is lost.

use super::texts_by_path;
use crate::kernel::{echo, json, request, run};
use fastrand::Rng;
use regex::Regex;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use valvehouse::chat::{Fold, message};
use valvehouse::context::Turn;
use valvehouse::filter::FilterEntry;
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, ModelDefaults};
use valvehouse::provider::{CannedProvider, Reply};
use valvehouse::script::{Kind, Script, Settings, SourceFile};

/// The number of cases unless `VALVEHOUSE_CASES` sets another one.
const CASES: usize = 1_000;
/// The length of a part of a removed text that must not be sent, in characters.
const PART: usize = 6;
/// The maximum length of a word, which no window exceeds.
const MAX_WORD: usize = 40;

/// The window functions, with their pattern and replacement as PATTERN and MARK.
const WINDOWS: [&str; 4] = [
    "stream::window(event, state, 60, |text| regex::replace(text, `PATTERN`, \"MARK\"));",
    "stream::window(event, state, 60, |text| regex::replace(text, `PATTERN`, \"MARK\"), `[!-~]+\\z`);",
    "stream::window(event, state, 60, |text| regex::replace(text, `PATTERN`, \"MARK\"), |text| regex::find(text, `\\S+\\z`) ?? \"\");",
    "stream::window(event, state.ensure(\"a\", #{}), 20, |text| text); \
     stream::window(event, state.ensure(\"b\", #{}), 60, |text| regex::replace(text, `PATTERN`, \"MARK\"));",
];
const PATTERNS: [&str; 4] = [
    "K[0-9A-F]{8,}",
    r"(?-u:\b)[0-9]{10,}(?-u:\b)",
    r"[a-z]{1,8}@[a-z]{2,8}\.[a-z]{2,6}",
    "pin [0-9]{4} [0-9]{4}",
];
const MARKS: [&str; 4] = ["[x]", "", "*", "K"];
const WORDS: [&str; 8] = ["a", "and", "is 9", "Ab", "7", "see", "K", "süß,"];

/// The hook that changes the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Mode {
    Stream,
    PostChat,
    Outlet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Content,
    Reasoning,
    Refusal,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Content, Self::Reasoning, Self::Refusal];

    fn key(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning_content",
            Self::Refusal => "refusal",
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Text {
        lane: Lane,
        text: String,
        with_tokens: bool,
    },
    /// Thinking and content in one event.
    Both(String, String),
    /// Content other than text: a citation, an image, nothing.
    Aside(&'static str),
    /// A closed block of the service.
    Block,
    /// A part of a call's arguments; the first one has the name.
    Call {
        name: Option<&'static str>,
        arguments: String,
    },
    Finish(&'static str),
}

type Round = Vec<(i64, Step)>;
/// The texts of one model call by choice and lane, each divided where it was interrupted.
type Texts = BTreeMap<(i64, Lane), Vec<String>>;

#[derive(Debug)]
pub(super) struct Case {
    window: usize,
    pattern: usize,
    mark: &'static str,
    mode: Mode,
    pub(super) hold: bool,
    pub(super) is_streamed: bool,
    rounds: Vec<Round>,
}

impl Case {
    pub(super) fn new(number: usize) -> Self {
        let rng = &mut Rng::with_seed(number as u64);
        let pattern = rng.usize(..PATTERNS.len());
        // A match with spaces is longer than a word.
        let windows: &[usize] = if pattern == 3 { &[0, 3] } else { &[0, 1, 2, 3] };
        let mode = [Mode::Stream, Mode::Stream, Mode::Stream, Mode::PostChat, Mode::Outlet][rng.usize(..5)];
        let rounds = if mode == Mode::Outlet { 1 } else { rng.usize(1..=3) };
        let choices = if rounds == 1 { rng.i64(1..=2) } else { 1 };
        Self {
            window: windows[rng.usize(..windows.len())],
            pattern,
            mark: MARKS[rng.usize(..MARKS.len())],
            mode,
            // Text that was sent cannot be changed any more.
            hold: mode != Mode::Stream || rng.u8(..4) == 0,
            is_streamed: rng.u8(..4) > 0,
            rounds: (1..=rounds).map(|at| round(rng, pattern, choices, at == rounds)).collect(),
        }
    }

    /// Returns the filter's script.
    fn filter(&self) -> String {
        let hold = if self.hold { "/*\nhold: true\n*/\n" } else { "" };
        hold.to_owned() + self.hook().as_str()
    }

    /// Returns the hook of the filter.
    pub(super) fn hook(&self) -> String {
        let fill = |text: &str| text.replace("PATTERN", PATTERNS[self.pattern]).replace("MARK", self.mark);
        let replace = "for place in TEXTS { place.text = regex::replace(place.text, `PATTERN`, \"MARK\"); }";
        let hook = match self.mode {
            Mode::Stream => format!("fn stream(event, state) {{ {} }}", WINDOWS[self.window]),
            Mode::PostChat => {
                format!("fn post_chat(ctx) {{ {} }}", replace.replace("TEXTS", "ctx.result.texts"))
            }
            Mode::Outlet => {
                format!("fn outlet(body) {{ {} }}", replace.replace("TEXTS", "body.messages.last().texts"))
            }
        };
        fill(&hook)
    }

    /// Returns the kernel of the case. Compiled filters are shared.
    fn kernel(&self, compiled: &mut HashMap<String, FilterEntry>) -> Kernel {
        let text = self.filter();
        let filter = compiled.entry(text).or_insert_with_key(|text| patient_script(text)).clone();
        let replies = (0..self.rounds.len()).map(|round| match self.is_streamed {
            true => Reply::chunks(self.events(round)),
            false => Reply::whole(Self::whole(&self.events(round))),
        });
        Kernel::builder()
            .provider(Arc::new(CannedProvider::new(replies.collect::<Vec<_>>())))
            .filter(filter)
            .tool(echo())
            .settings(ModelDefaults { hold: self.hold, ..ModelDefaults::default() })
            .build()
    }

    /// Returns the events of a model call.
    pub(super) fn events(&self, round: usize) -> Vec<Json> {
        self.rounds[round].iter().map(event_of).collect()
    }

    /// Returns the events as a whole answer.
    pub(super) fn whole(events: &[Json]) -> Json {
        let mut fold = Fold::default();
        events.iter().for_each(|event| fold.push(event));
        let whole = fold.finish();
        for choice in whole.list("choices") {
            if choice.text_or_empty("finish_reason").is_empty() {
                choice.set("finish_reason", "stop").unwrap();
            }
        }
        whole
    }

    /// Returns `true` if the answers have one choice and no call of a tool of the client.
    pub(super) fn is_plain(&self) -> bool {
        let is_plain = |(choice, step): &(i64, Step)| {
            *choice == 0 && !matches!(step, Step::Call { name: Some("door"), .. })
        };
        self.rounds.iter().flatten().all(is_plain)
    }

    pub(super) fn has_refusal(&self) -> bool {
        self.rounds.iter().flatten().any(|(_, step)| matches!(step, Step::Text { lane: Lane::Refusal, .. }))
    }

    /// Returns the case with one end of each choice, after its text.
    pub(super) fn ended(mut self) -> Self {
        for round in &mut self.rounds {
            let choices: BTreeSet<i64> = round.iter().map(|(choice, _)| *choice).collect();
            round.retain(|(_, step)| !matches!(step, Step::Finish(_)));
            let calls =
                |own: i64| round.iter().any(|(at, step)| *at == own && matches!(step, Step::Call { .. }));
            let finish = |own| (own, Step::Finish(if calls(own) { "tool_calls" } else { "stop" }));
            let ends: Round = choices.into_iter().map(finish).collect();
            round.extend(ends);
        }
        self
    }

    async fn check(&self, kernel: &Kernel) -> Result<(), String> {
        let body = json!({
            "model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": self.is_streamed,
            "tools": [{"type": "function", "function": {"name": "door"}}],
        });
        let turn = run(kernel, request(json(&body.to_string())), Turn::default(), self.is_streamed).await;
        let reply = turn.answer.map_err(|error| error.to_string())?;
        let CleanTexts { rounds, mut arguments, mut removed } = self.expected();
        // The first of two windows may hold a text until the second one sees it together with the next.
        let joined = (self.window == 3).then(|| self.cleaned_texts(false).rounds);
        let pattern = Regex::new(PATTERNS[self.pattern]).unwrap();
        let last = rounds.last().unwrap();
        let events: Vec<Json> = turn.pieces.into_iter().map(|piece| piece.event).collect();
        for choice in reply.list("choices") {
            let index = choice.at_path("index").as_i64().unwrap();
            for lane in Lane::ALL {
                let of = |round: &BTreeMap<_, String>| round.get(&(index, lane)).cloned().unwrap_or_default();
                let all: Vec<String> = rounds.iter().map(of).filter(|text| !text.is_empty()).collect();
                let whole = if lane == Lane::Content { all.join("\n\n") } else { of(last) };
                if joined.as_ref().is_some_and(|joined| joined.iter().map(of).ne(rounds.iter().map(of))) {
                    continue;
                }
                let message = choice.at_path("message");
                let own = match lane {
                    Lane::Content => message::text_of(&message).into(),
                    _ => String::from(message.text_or_empty(lane.key())),
                };
                differs("the answer", index, lane, &whole, &own)?;
                if self.is_streamed {
                    let all = if self.hold { whole } else { all.join("\n\n") };
                    differs("the stream", index, lane, &all, &received(&events, index, lane))?;
                }
            }
            let given: String = self
                .rounds
                .last()
                .unwrap()
                .iter()
                .filter_map(|(own, step)| match step {
                    Step::Call { arguments, .. } if *own == index => Some(arguments.as_str()),
                    _ => None,
                })
                .collect();
            let expected = cleaned(&[given], &pattern, self.mark, &mut removed);
            let own = choice.at_path("message.tool_calls.0.function.arguments");
            if own.as_str().unwrap_or_default() != expected {
                return Err(format!("the arguments of choice {index}: {expected:?} became {own}"));
            }
            arguments += &expected;
        }
        let mut seen = texts_by_path(events.into_iter());
        seen.extend(texts_by_path([reply].into_iter()));
        CleanTexts { rounds, arguments, removed }.is_all(&seen)
    }

    /// Returns the texts that the client receives.
    pub(super) fn expected(&self) -> CleanTexts {
        self.cleaned_texts(self.mode == Mode::Stream && self.is_streamed)
    }

    fn cleaned_texts(&self, is_cut: bool) -> CleanTexts {
        let pattern = Regex::new(PATTERNS[self.pattern]).unwrap();
        let mut removed = Vec::new();
        let mut clean = |round: &Round| {
            let texts = texts_of(round, is_cut).into_iter();
            texts.map(|(lane, texts)| (lane, cleaned(&texts, &pattern, self.mark, &mut removed))).collect()
        };
        let rounds = self.rounds.iter().map(&mut clean).collect();
        CleanTexts { rounds, arguments: String::new(), removed }
    }
}

/// The texts of each model call after the filter, and the texts that it removed.
pub(super) struct CleanTexts {
    rounds: Vec<BTreeMap<(i64, Lane), String>>,
    /// The arguments of calls after the filter.
    arguments: String,
    removed: Vec<String>,
}

impl CleanTexts {
    /// Checks that no part of a removed text is in any text that a client received.
    pub(super) fn is_all(&self, seen: &[String]) -> Result<(), String> {
        let texts = self.rounds.iter().flat_map(BTreeMap::values).map(String::as_str);
        let visible: String = texts.chain([self.arguments.as_str()]).collect();
        let all = self.removed.iter().flat_map(|text| parts(text));
        // Parts with a space are few digits next to a word, which other texts contain as well.
        for part in all.filter(|part| !part.contains(' ')) {
            if let Some(seen) = seen.iter().find(|seen| seen.contains(&part) && !visible.contains(&part)) {
                return Err(format!("{part:?} of a removed text was sent: {seen}"));
            }
        }
        Ok(())
    }

    /// Returns the text of an answer.
    pub(super) fn content(&self) -> String {
        let texts = self.rounds.iter().filter_map(|round| round.get(&(0, Lane::Content)));
        texts.filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join("\n\n")
    }
}

fn differs(place: &str, index: i64, lane: Lane, expected: &str, own: &str) -> Result<(), String> {
    match expected == own {
        true => Ok(()),
        false => Err(format!("{place}, choice {index}, {lane:?}: expected {expected:?}, got {own:?}")),
    }
}

/// Returns a script as a filter whose calls are not limited by time.
fn patient_script(text: &str) -> FilterEntry {
    let file = SourceFile::new(Kind::Filter, "final", "filters/final.rhai", text);
    let mut settings = Settings::default();
    for budget in [&mut settings.stream, &mut settings.hook] {
        (budget.time, budget.wall) = (Duration::from_secs(60), Duration::from_secs(600));
    }
    let script = Script::compile(&file, &settings).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<String>())
    });
    Arc::new(script).into_filter(Arc::default())
}

/// Returns all parts of a removed text.
fn parts(text: &str) -> BTreeSet<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.windows(PART).map(|part| part.iter().collect()).collect()
}

/// Returns the text of a lane as a client assembles it.
fn received(events: &[Json], index: i64, lane: Lane) -> String {
    let choices = events.iter().flat_map(|event| event.list("choices"));
    let own = choices.filter(|choice| choice.get("index").and_then(|own| own.as_i64()) == Some(index));
    own.map(|choice| String::from(choice.at_path("delta").text_or_empty(lane.key()))).collect()
}

/// Returns the texts of a model call after their pattern was replaced. A match may begin in text that was sent
/// unchanged before an interruption; then only the rest of it is removed.
fn cleaned<T: AsRef<str>>(texts: &[T], pattern: &Regex, mark: &str, removed: &mut Vec<String>) -> String {
    let (mut out, mut seam) = (String::new(), String::new());
    for text in texts {
        let (joined, mut at, mut open) = (seam.clone() + text.as_ref(), seam.len(), 0);
        for found in pattern.find_iter(&joined) {
            let start = found.start().max(at);
            out += &joined[at..start];
            // The sent begin of a match may be that of the text in its place.
            out += mark.strip_prefix(&joined[found.start()..start]).unwrap_or(mark);
            removed.push(joined[start..found.end()].to_owned());
            (at, open) = (found.end(), found.end());
        }
        out += &joined[at..];
        seam = joined[open..].to_owned();
    }
    out
}

/// Returns the texts of a model call as a window receives them. `is_cut` is `false` for a whole answer.
fn texts_of(round: &Round, is_cut: bool) -> Texts {
    let mut texts = Texts::new();
    let mut open = BTreeSet::new();
    let mut add = |open: &mut BTreeSet<(i64, Lane)>, at: (i64, Lane), text: &str| {
        let texts: &mut Vec<String> = texts.entry(at).or_default();
        if open.insert(at) && (is_cut || texts.is_empty()) {
            texts.push(String::new());
        }
        texts.last_mut().unwrap().push_str(text);
    };
    for (choice, step) in round {
        match step {
            Step::Text { lane, text, .. } => {
                open.retain(|(own, other)| own != choice || other == lane);
                add(&mut open, (*choice, *lane), text);
            }
            Step::Both(thought, text) => {
                open.retain(|(own, other)| own != choice || *other != Lane::Refusal);
                add(&mut open, (*choice, Lane::Reasoning), thought);
                add(&mut open, (*choice, Lane::Content), text);
                open.remove(&(*choice, Lane::Reasoning));
            }
            Step::Aside(_) | Step::Call { name: None, .. } | Step::Finish(_) => {}
            Step::Block | Step::Call { .. } => open.retain(|(own, _)| own != choice),
        }
    }
    texts
}

fn event_of((choice, step): &(i64, Step)) -> Json {
    let mut finish = None;
    let mut tokens = Vec::new();
    let delta = match step {
        Step::Text { lane, text, with_tokens } => {
            if *with_tokens {
                let letters: Vec<char> = text.chars().collect();
                tokens
                    .extend(letters.chunks(3).map(|part| json!({"token": part.iter().collect::<String>()})));
            }
            json!({lane.key(): text})
        }
        Step::Both(thought, text) => json!({"reasoning_content": thought, "content": text}),
        Step::Aside(delta) => serde_json::from_str(delta).unwrap(),
        Step::Block => json!({"content_blocks": [{"type": "text"}]}),
        Step::Call { name: Some(name), arguments } => json!({"tool_calls": [{
            "index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments},
        }]}),
        Step::Call { name: None, arguments } => {
            json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})
        }
        Step::Finish(why) => {
            finish = Some(*why);
            json!({})
        }
    };
    let mut own = json!({"index": choice, "delta": delta, "finish_reason": finish});
    if !tokens.is_empty() {
        own["logprobs"] = json!({"content": tokens});
    }
    json(&json!({"id": "%", "object": "chat.completion.chunk", "model": "m", "choices": [own]}).to_string())
}

/// Returns the events of a model call.
fn round(rng: &mut Rng, pattern: usize, choices: i64, is_last: bool) -> Round {
    let mut all: Vec<Round> = (0..choices).map(|choice| choice_of(rng, pattern, choice, is_last)).collect();
    let mut round = Vec::new();
    while let Some(at) = (!all.is_empty()).then(|| rng.usize(..all.len())) {
        match all[at].is_empty() {
            true => drop(all.remove(at)),
            false => round.push(all[at].remove(0)),
        }
    }
    round
}

fn choice_of(rng: &mut Rng, pattern: usize, choice: i64, is_last: bool) -> Round {
    let mut steps = Vec::new();
    let mut words = BTreeMap::new();
    // Thinking and refusals after a closed block are other texts.
    let mut is_closed = false;
    let mut has_call = false;
    for _ in 0..rng.usize(1..8) {
        match rng.u8(..12) {
            0 => steps.push(Step::Aside(ASIDES[rng.usize(..ASIDES.len())])),
            1 if !has_call => {
                steps.push(Step::Block);
                is_closed = true;
            }
            2 if !is_closed => {
                let mut next = |lane| text_of(rng, pattern, words.entry(lane).or_default());
                steps.push(Step::Both(next(Lane::Reasoning), next(Lane::Content)));
            }
            3 if !has_call && is_last => {
                has_call = true;
                let arguments = format!("{{\"a\":\"{}\"}}", text_of(rng, pattern, &mut 0));
                for (at, arguments) in cuts(rng, &arguments).into_iter().enumerate() {
                    steps.push(Step::Call { name: (at == 0).then_some("door"), arguments });
                }
            }
            _ => {
                let lane = match rng.u8(..10) {
                    0 if is_last && !is_closed => Lane::Refusal,
                    1..4 if !is_closed => Lane::Reasoning,
                    _ => Lane::Content,
                };
                let text = text_of(rng, pattern, words.entry(lane).or_default());
                let with_tokens = pattern == 0 && lane == Lane::Content && rng.u8(..3) == 0;
                let parts = cuts(rng, &text).into_iter();
                steps.extend(parts.map(|text| Step::Text { lane, text, with_tokens }));
            }
        }
    }
    if !is_last {
        steps.push(Step::Call { name: Some("echo"), arguments: "{}".into() });
    }
    if !is_last || rng.u8(..6) > 0 {
        steps.push(Step::Finish(if has_call || !is_last { "tool_calls" } else { "stop" }));
    }
    // Some services send more text after the end.
    if is_last && rng.u8(..6) == 0 {
        let text = text_of(rng, pattern, words.entry(Lane::Content).or_default());
        steps.push(Step::Text { lane: Lane::Content, text, with_tokens: false });
    }
    steps.into_iter().map(|step| (choice, step)).collect()
}

const ASIDES: [&str; 4] = [
    "{}",
    r#"{"content":""}"#,
    r#"{"annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example/","title":"a"}}]}"#,
    r#"{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#,
];

/// Returns words, matches and parts of matches. `word` is the length of the word that the text continues.
fn text_of(rng: &mut Rng, pattern: usize, word: &mut usize) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(1..5) {
        let next = match rng.u8(..10) {
            0..4 => WORDS[rng.usize(..WORDS.len())].to_owned(),
            4..8 => secret(rng, pattern),
            _ => {
                let secret = secret(rng, pattern);
                let (left, right) = secret.split_at(rng.usize(1..secret.len()));
                if rng.bool() { left.into() } else { right.into() }
            }
        };
        if rng.u8(..3) > 0 || *word + next.len() > MAX_WORD {
            text.push(' ');
            *word = 0;
        }
        text += &next;
        *word += next.len();
    }
    text
}

fn secret(rng: &mut Rng, pattern: usize) -> String {
    let mut letters = |from: &[u8], count: usize| -> String {
        (0..count).map(|_| char::from(from[rng.usize(..from.len())])).collect()
    };
    match pattern {
        0 => format!("K{}", letters(b"0123456789ABCDEF", 12)),
        1 => letters(b"0123456789", 14),
        2 => format!("{}@{}.{}", letters(b"bcdfghjk", 6), letters(b"lmnpqrtv", 5), letters(b"bcdfghjk", 3)),
        _ => format!("pin {} {}", letters(b"0123456789", 4), letters(b"0123456789", 4)),
    }
}

/// Cuts a text at up to three positions.
fn cuts(rng: &mut Rng, text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut at: Vec<usize> = (0..rng.usize(..4)).map(|_| rng.usize(..=letters.len())).collect();
    at.extend([0, letters.len()]);
    at.sort_unstable();
    at.dedup();
    at.windows(2).map(|cut| letters[cut[0]..cut[1]].iter().collect()).collect()
}

#[tokio::test]
async fn no_changed_text_is_sent_in_its_old_form_and_no_other_text_is_lost() {
    let cases = valvehouse_testkit::cases(CASES);
    let mut compiled = HashMap::new();
    let mut wrong = Vec::new();
    for number in 0..cases {
        let case = Case::new(number);
        if let Err(why) = case.check(&case.kernel(&mut compiled)).await {
            wrong.push(format!("case {number}: {why}\n{}\n{case:?}", case.filter()));
        }
    }
    let shown = wrong.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{} of {cases} cases went wrong:\n\n{shown}", wrong.len());
}

/// Returns an event of the first choice.
fn part(delta: &serde_json::Value, finish: Option<&str>) -> Json {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    json(&json!({"id": "%", "model": "m", "choices": [choice]}).to_string())
}

#[tokio::test]
async fn the_shipped_redact_filter_sends_no_secret_after_an_interruption() {
    let redact = patient_script(include_str!("../../../filters/redact.rhai"));
    let rounds = [
        ("Your card is 4111111111111111", "I see", "Your card is [redacted]\n\nI see"),
        ("IP 10.20.30.40", "5.6 more", "IP [redacted]\n\n5.6 more"),
        ("Mail me at bob@example.com", "And more", "Mail me at [redacted]\n\nAnd more"),
    ];
    let call =
        json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "echo", "arguments": "{}"}}]});
    for (first, second, expected) in rounds {
        for is_streamed in [true, false] {
            let events = [
                part(&json!({"content": first}), None),
                part(&call, None),
                part(&json!({}), Some("tool_calls")),
            ];
            let replies = [Reply::chunks(events), Reply::text(second)];
            let kernel = Kernel::builder()
                .provider(Arc::new(CannedProvider::new(replies)))
                .filter(redact.clone())
                .tool(echo())
                .build();
            let body = json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
            let turn = run(&kernel, request(body), Turn::default(), is_streamed).await;
            if is_streamed {
                assert_eq!(turn.texts().concat(), expected);
            }
            assert_eq!(turn.answer(), expected);
        }
    }
    let events = [
        part(&json!({"content": "card 4111111111111111"}), None),
        part(&json!({"reasoning_content": "hm"}), None),
        part(&json!({"content": "9And more"}), None),
        part(&json!({}), Some("stop")),
    ];
    let kernel = crate::kernel::asking([Reply::chunks(events)]).0.filter(redact).build();
    assert_eq!(crate::kernel::stream(&kernel).await.text(), "card [redacted]9And more|stop");
}
