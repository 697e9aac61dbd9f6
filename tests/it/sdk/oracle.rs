//! The response that a client must receive in a case, computed from the filter's acts without the host's
//! code.

use super::case::Case;
use crate::generator::DOOR;
use crate::generator::answer::Chunk;
use std::collections::{BTreeMap, BTreeSet};

/// The response that a client must receive.
#[derive(Debug, Default)]
pub(super) struct ExpectedView {
    pub(super) choices: Vec<Choice>,
    pub(super) usage: bool,
    pub(super) emitted: usize,
    pub(super) failure: Option<Failure>,
    /// `true` if something was certainly sent before a failure, `false` if certainly nothing was.
    pub(super) sent: Option<bool>,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) thought: String,
    /// The id, name and arguments by place.
    pub(super) calls: BTreeMap<usize, (String, String, String)>,
    pub(super) finish: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) says: String,
}

/// The state of the filter.
struct Acting<'a> {
    case: &'a Case,
    at: usize,
    kept: [String; 2],
    emitted: usize,
}

/// The events that a filter makes of one event; final events skip the next filter.
type Events = Vec<(Chunk, bool)>;

pub(super) fn expect(case: &Case) -> ExpectedView {
    let mut acting = Acting { case, at: 0, kept: Default::default(), emitted: 0 };
    let mut out = ExpectedView { sent: Some(false), ..ExpectedView::default() };
    for (number, round) in case.turn.rounds.iter().enumerate() {
        let is_last = number + 1 == case.turn.rounds.len();
        let goes_on = run(&mut acting, case, round, &mut out);
        match goes_on {
            Err(failure) => {
                out.failure = Some(failure);
                break;
            }
            Ok(choices) => {
                // Tools do not run for an answer that was cut or refused.
                let may_run = !matches!(choices[0].finish, Some("length" | "content_filter"));
                let calls_on = case.model.tools && !is_last && !choices[0].calls.is_empty() && may_run;
                settle(case, &mut out, choices, calls_on);
                if !calls_on {
                    break;
                }
            }
        }
    }
    // A response that is sent whole has usage only on request.
    out.usage &= case.usage || !case.model.holds;
    out.emitted = if case.events { acting.emitted } else { 0 };
    if case.events && acting.emitted > 0 {
        out.sent = Some(true);
    }
    out
}

/// Sends one response of the model through the filters and collects the content of each choice.
fn run(
    acting: &mut Acting<'_>,
    case: &Case,
    round: &[Vec<Chunk>],
    out: &mut ExpectedView,
) -> Result<Vec<Choice>, Failure> {
    let mut choices: Vec<Choice> = Vec::new();
    let mut ends = Vec::new();
    // The usage of an earlier round is reported at the end if the client requests it.
    out.usage &= case.usage;
    for event in seen(round) {
        let mut made = Vec::new();
        for chunk in &event {
            if let Some(why) = chunk.finish {
                ends.push((chunk.choice, why, chunk.usage));
            }
            match acting.act(chunk) {
                Ok(more) => made.extend(more),
                Err(failure) => return Err(partly(case, out, choices, failure)),
            }
        }
        take(case, &mut choices, made, out);
    }
    match acting.end() {
        Ok(made) => take(case, &mut choices, made, out),
        Err(failure) => return Err(partly(case, out, choices, failure)),
    }
    // A choice keeps its finish reason even if its last event was lost.
    for (choice, why, usage) in ends {
        let own = of(&mut choices, choice);
        if own.finish.is_none() {
            own.finish = Some(why);
            out.usage |= usage;
        }
    }
    Ok(choices)
}

/// Returns the events in the order in which filters see them: an end once no text can follow, as the last of its choice.
fn seen(round: &[Vec<Chunk>]) -> Vec<Vec<Chunk>> {
    let ends = |event: &[Chunk]| event.iter().any(|chunk| chunk.finish.is_some());
    let (mut now, mut late, mut ended) = (Vec::new(), Vec::<Vec<Chunk>>::new(), BTreeSet::new());
    for event in round {
        let mut event = event.clone();
        if has_content(&event) && event.iter().any(|chunk| ended.contains(&chunk.choice)) {
            now.extend(late.iter_mut().filter(|late| has_content(late)).map(without_end));
            if ends(&event) {
                now.push(without_end(&mut event));
            }
        }
        if !ends(&event) && (has_content(&event) || late.is_empty()) {
            now.push(event);
            continue;
        }
        ended.extend(event.iter().filter(|chunk| !chunk.is_usage_alone()).map(|chunk| chunk.choice));
        late.push(event);
    }
    now.extend(late);
    now
}

fn has_content(event: &[Chunk]) -> bool {
    event.iter().any(|chunk| {
        let texts = [&chunk.text, &chunk.thought, &chunk.refusal];
        texts.iter().any(|text| !text.is_empty()) || !chunk.calls.is_empty() || !chunk.sources.is_empty()
    })
}

/// Leaves the end in an event, and returns the rest of it.
fn without_end(event: &mut Vec<Chunk>) -> Vec<Chunk> {
    let end = |chunk: &Chunk| Chunk {
        choice: chunk.choice,
        finish: chunk.finish,
        usage: chunk.usage,
        ..Chunk::default()
    };
    let ends = event.iter().map(end).collect();
    let mut ahead = std::mem::replace(event, ends);
    for chunk in &mut ahead {
        (chunk.finish, chunk.usage) = (None, false);
    }
    ahead
}

/// Adds the part of the response that was sent before a failure.
fn partly(case: &Case, out: &mut ExpectedView, choices: Vec<Choice>, failure: Failure) -> Failure {
    match case.model.holds {
        true => out.choices.clear(),
        false => settle(case, out, choices, true),
    }
    for choice in &mut out.choices {
        choice.finish = None;
    }
    failure
}

fn of(choices: &mut Vec<Choice>, choice: usize) -> &mut Choice {
    if choices.len() <= choice {
        choices.resize(choice + 1, Choice::default());
    }
    &mut choices[choice]
}

/// Adds the events that pass the second filter.
fn take(case: &Case, choices: &mut Vec<Choice>, made: Events, out: &mut ExpectedView) {
    for (mut chunk, is_final) in made {
        if !is_final && !chunk.text.is_empty() {
            chunk.text.push('\'');
        }
        out.usage |= chunk.usage;
        if !case.model.holds {
            let surely = chunk.role || !chunk.text.is_empty() || !chunk.thought.is_empty();
            out.sent = if surely { Some(true) } else { out.sent.filter(|sent| *sent) };
        }
        if chunk.is_usage_alone() && chunk.text.is_empty() {
            continue;
        }
        let own = of(choices, chunk.choice);
        own.text += &chunk.text;
        own.thought += &chunk.thought;
        // Of several finish reasons, the last one counts.
        own.finish = chunk.finish.or(own.finish);
        for piece in chunk.calls {
            let call = own.calls.entry(piece.place).or_default();
            if let Some((id, name)) = piece.head {
                (call.0, call.1) = (id, name.to_owned());
            }
            call.2 += &piece.arguments;
        }
    }
}

/// Adds the content of a round's choices to the expected response.
fn settle(case: &Case, out: &mut ExpectedView, choices: Vec<Choice>, goes_on: bool) {
    for (place, mut choice) in choices.into_iter().enumerate() {
        let own = of(&mut out.choices, place);
        if !goes_on && case.model.signs {
            choice.text += " -- signed";
        }
        if !goes_on && case.model.holds {
            choice.text = format!("[{}]", choice.text);
        }
        // The texts of rounds are separated.
        if !own.text.is_empty() && !choice.text.is_empty() {
            own.text += "\n\n";
        }
        own.text += &choice.text;
        if !(goes_on && case.model.holds) {
            if !own.thought.is_empty() && !choice.thought.is_empty() {
                own.thought += "\n\n";
            }
            own.thought += &choice.thought;
        }
        if !goes_on {
            own.finish = choice.finish;
            // Calls of the host's tools are not sent to the client.
            own.calls = choice.calls.into_iter().filter(|(_, call)| call.1 == DOOR).collect();
        }
    }
}

impl Acting<'_> {
    fn act(&mut self, event: &Chunk) -> Result<Events, Failure> {
        let at = self.at;
        self.at += 1;
        let index = event.choice;
        let says = |text: &str| Chunk { choice: index, text: text.to_owned(), ..Chunk::default() };
        let mut event = event.clone();
        let act = self.case.plan.get(&at).copied().unwrap_or("keep");
        Ok(match act {
            "keep" | "nothing" => vec![(event, false)],
            "change" => {
                if !event.text.is_empty() {
                    event.text = format!("<{}>", event.text);
                }
                if !event.thought.is_empty() {
                    event.thought = format!("{{{}}}", event.thought);
                }
                vec![(event, false)]
            }
            "end otherwise" => {
                event.finish = event.finish.map(|_| "content_filter");
                vec![(event, false)]
            }
            "end too" => {
                let end = Chunk { choice: index, finish: Some("content_filter"), ..Chunk::default() };
                vec![(event, false), (end, false)]
            }
            "drop" | "skip with nothing" => Vec::new(),
            "replace" => vec![(says("r"), false)],
            "two" => vec![(event, false), (says("+"), false)],
            "twenty" => vec![(says("."), false); 20],
            "hold" => {
                self.kept[index] += &std::mem::take(&mut event.text);
                vec![(event, false)]
            }
            "release" => match std::mem::take(&mut self.kept[index]) {
                kept if kept.is_empty() => vec![(event, false)],
                kept => vec![(says(&kept), false), (event, false)],
            },
            "skip" => {
                // An event without a choice has no text.
                if !event.is_usage_alone() {
                    event.text.insert(0, 'S');
                }
                vec![(event, true)]
            }
            "skip with text" => vec![(says("s"), true)],
            "emit" => {
                self.emitted += 1;
                vec![(event, false)]
            }
            "emit and throw" => {
                self.emitted += 1;
                self.fails("throw", &at.to_string(), "stream").map(|()| vec![(event, false)])?
            }
            other => self.fails(other, &at.to_string(), "stream").map(|()| vec![(event, false)])?,
        })
    }

    fn end(&mut self) -> Result<Events, Failure> {
        let kept = std::mem::take(&mut self.kept);
        let says = |choice: usize, text: &str| Chunk { choice, text: text.to_owned(), ..Chunk::default() };
        let mut out: Vec<Chunk> = kept.iter().enumerate().map(|(choice, text)| says(choice, text)).collect();
        out.retain(|chunk| !chunk.text.is_empty());
        match self.case.end {
            "nothing" => {}
            "text" | "skip" => out.push(says(0, " end")),
            "text for each" => out.extend([says(0, " end"), says(1, " END")]),
            other => {
                self.fails(other, "the end", "stream_end")?;
                out.clear();
            }
        }
        Ok(out.into_iter().map(|chunk| (chunk, self.case.end == "skip")).collect())
    }

    /// Returns the failure of a failing act, or nothing if failures are ignored.
    fn fails(&self, how: &str, at: &str, hook: &str) -> Result<(), Failure> {
        if self.case.model.forgives {
            return Ok(());
        }
        let status = match how {
            "throw" | "error" => 400,
            "throw a status" => 429,
            "deny" => 451,
            _ => return Err(Failure { status: 500, says: format!("failed in its {hook};") }),
        };
        Err(Failure { status, says: format!("thrown at {at}") })
    }
}
