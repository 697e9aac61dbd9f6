//! A window over the texts of a streamed answer: the end of each text waits until what could match
//! in it has come whole, however the stream cuts it.
//!
//! Every text of a choice flows by itself: its content, its thinking, the arguments of each call.
//! What waits is kept as plain JSON in a map of the caller's, from one event to the next.

use super::delta;
use super::event::{self, Step, TextPlace};
use crate::json::{Array, Json};
use compact_str::CompactString;

/// Where what waits is kept, by choice and flow.
const HELD: &str = "held";
/// Set for a choice that ends without saying so.
const OVER: &str = "over";

/// What looks at texts through a window, and changes them.
pub trait Look {
    /// Why it failed.
    type Error;

    /// The text as it shall be. What it makes of a text must not depend on where that was cut.
    fn changed(&mut self, text: &str) -> Result<CompactString, Self::Error>;

    /// How many bytes at the end of a text could become something else with what follows.
    fn unfinished(&mut self, text: &str) -> Result<usize, Self::Error>;
}

/// Where a text ends that nobody knows more of than that a match has so many characters at most: at the
/// beginning of a word, when there is one near.
pub fn last_words(text: &str, characters: usize) -> usize {
    let back = |from: usize| {
        let mut starts = text[..from].char_indices().rev();
        characters.checked_sub(1).map_or(from, |n| starts.nth(n).map_or(0, |(at, _)| at))
    };
    let cut = back(text.len());
    let nearby = back(cut);
    let space = text[nearby..cut].char_indices().rev().find(|(_, letter)| letter.is_whitespace());
    text.len() - space.map_or(cut, |(at, letter)| nearby + at + letter.len_utf8())
}

/// Whether texts of any choice wait, and of which: to be let out with [`end`].
pub fn waiting(kept: &Json) -> Vec<i64> {
    let choices = kept.get(HELD).and_then(|held| held.as_object().map(|held| held.entries()));
    let waits = |flows: &Json| {
        flows.as_object().is_some_and(|flows| {
            flows.entries().iter().any(|(_, flow)| flow.text("text").is_some_and(|text| !text.is_empty()))
        })
    };
    let choices = choices.unwrap_or_default().into_iter().filter(|(_, flows)| waits(flows));
    choices.filter_map(|(index, _)| index.parse().ok()).collect()
}

/// What is kept.
pub fn held(kept: &Json) -> Json {
    kept.get(HELD).unwrap_or_default()
}

/// Keeps this instead.
pub fn set_held(kept: &Json, held: Json) {
    match held {
        Json::Null => drop(kept.remove(HELD)),
        // It was there before, or is a copy of what was.
        held => drop(kept.set(HELD, held)),
    }
}

/// The choice ends, though no event says so: the next look lets all of it out.
pub fn end(kept: &Json, choice: i64) {
    if let Some(flows) = kept.get(HELD).and_then(|held| held.get(&choice.to_string())) {
        let _ = flows.set(OVER, true);
    }
}

/// Changes the texts of an event in place, each with what of it had to wait; keeps back what has to.
/// No match is longer than `longest` characters.
pub fn pass<L: Look>(event: &Json, kept: &Json, longest: usize, look: &mut L) -> Result<(), L::Error> {
    let mut places = Vec::new();
    event::for_each_text(event, &mut |way, place| places.push((way.to_vec(), place)));
    let Some(choice) = event.get("choices").and_then(|choices| choices.at(0)) else {
        return places.iter().try_for_each(|(_, place)| whole(place, look));
    };
    let all = child(kept, HELD);
    let index = event::choice_index(event).to_string();
    let flows = child(&all, &index);
    let ends = delta::finishes(event) || flows.get(OVER).is_some();
    // Thinking is over when the answer begins.
    let speaks = !event::text(event).is_empty()
        || event::delta(event)
            .is_some_and(|delta| delta.get("tool_calls").is_some_and(|calls| !calls.is_empty()));
    let is_over = |kind: &str| ends || (speaks && kind == "reasoning");

    let mut seen = Vec::new();
    for (way, place) in &places {
        match way.as_slice() {
            [Step::Key(choices), _, Step::Key(below), way @ ..] if choices == "choices" => {
                match (below.as_str(), flow_name(way)) {
                    // Once more the text, token by token; it goes along with it.
                    ("logprobs", _) => {}
                    ("delta", Some(name)) if place.kind != "citation" => {
                        let mut flow = Flow::load(&flows, name, longest);
                        flow.begin(place.kind, &event::delta(event).unwrap_or_default(), way);
                        if !seen.contains(&flow.name) {
                            flow.take_tokens(&choice);
                        }
                        place.set_text(&flow.feed(&place.text(), is_over(place.kind), look)?);
                        flow.give_tokens(&choice);
                        flow.store(&flows);
                        seen.push(flow.name);
                    }
                    // The whole text so far, again and again.
                    ("message", _) if !ends => {
                        let text = place.text();
                        let ready = text.len() - look.unfinished(&text)?;
                        place.set_text(&look.changed(&text[..ready])?);
                    }
                    _ => whole(place, look)?,
                }
            }
            _ => whole(place, look)?,
        }
    }
    for name in flows.as_object().map(|flows| flows.keys()).unwrap_or_default() {
        if name == OVER || seen.contains(&name) {
            continue;
        }
        let mut flow = Flow::load(&flows, name, longest);
        if flow.text.is_empty() || !is_over(&flow.kind) {
            continue;
        }
        let out = flow.feed("", true, look)?;
        flow.pour(&choice, &out);
        flow.give_tokens(&choice);
        flow.store(&flows);
    }
    if ends {
        all.remove(&index);
    }
    Ok(())
}

fn whole<L: Look>(place: &TextPlace, look: &mut L) -> Result<(), L::Error> {
    if place.kind != "logprobs" {
        place.set_text(&look.changed(&place.text())?);
    }
    Ok(())
}

fn child(of: &Json, key: &str) -> Json {
    match of.get(key) {
        Some(found @ Json::Object(_)) => found,
        _ => {
            let made = Json::object();
            // A new object fits anywhere.
            let _ = of.set(key, made.clone());
            made
        }
    }
}

/// What one text of a choice is called among its flows: the way to it, without the places in lists. A text
/// and the parts of a text are the same; pieces of calls that do not say which call are none.
fn flow_name(way: &[Step]) -> Option<CompactString> {
    let is_call = matches!(way.first(), Some(Step::Key(key)) if key == "tool_calls");
    let mut name = CompactString::default();
    for (place, step) in way.iter().enumerate() {
        match step {
            Step::Key(key) if key == "text" && place > 0 && place + 1 == way.len() => {}
            Step::Key(key) => {
                name.push_str(if name.is_empty() { "" } else { "." });
                name.push_str(key);
            }
            Step::Item(_, Some(index)) => name.push_str(&format!("#{index}")),
            Step::Item(_, None) if is_call => return None,
            Step::Item(_, None) => {}
        }
    }
    Some(name)
}

/// One text of a choice, from event to event.
struct Flow {
    name: CompactString,
    longest: usize,
    kind: CompactString,
    /// What waits.
    text: CompactString,
    /// A delta with nothing in it but this text, which is null in it: to let out what waits where an
    /// event has no such text.
    mold: Json,
    /// The log probabilities of what waits, token by token.
    tokens: Vec<Json>,
    /// Those that go out with this event.
    ready: Vec<Json>,
}

impl Flow {
    fn load(flows: &Json, name: CompactString, longest: usize) -> Self {
        let kept = flows.get(&name).unwrap_or_default();
        Self {
            name,
            longest,
            kind: kept.text("kind").unwrap_or_default(),
            text: kept.text("text").unwrap_or_default(),
            mold: kept.get("mold").unwrap_or_default(),
            tokens: kept.get("tokens").unwrap_or_default().items(),
            ready: Vec::new(),
        }
    }

    fn begin(&mut self, kind: &str, delta: &Json, way: &[Step]) {
        if self.mold.is_null() {
            self.kind = kind.into();
            self.mold = mold(delta, way);
        }
    }

    fn store(&self, flows: &Json) {
        let kept = Json::from([
            ("kind", self.kind.clone().into()),
            ("text", self.text.clone().into()),
            ("mold", self.mold.clone()),
            ("tokens", self.tokens.clone().into()),
        ]);
        // A map of ours in a map of ours.
        let _ = flows.set(&self.name, kept);
    }

    /// What of the text so far, and of this piece, goes out now.
    fn feed<L: Look>(&mut self, piece: &str, is_over: bool, look: &mut L) -> Result<CompactString, L::Error> {
        let mut text = std::mem::take(&mut self.text);
        let waited = text.chars().count();
        text.push_str(piece);
        if text.is_empty() && self.tokens.is_empty() {
            return Ok(text);
        }
        let changed = look.changed(&text)?;
        let ends = self.token_ends(&text);
        let mut ready = if is_over { text.len() } else { text.len() - look.unfinished(&text)? };
        if let Some(ends) = &ends {
            ready = ends.iter().copied().rfind(|end| *end <= ready).unwrap_or(0);
        }
        let out = if ready == text.len() {
            changed
        } else if changed == text {
            CompactString::from(&text[..ready])
        } else {
            let (at, out) = self.cut(&text, changed, ready, waited, look)?;
            ready = at;
            out
        };
        let count = ends.map_or(0, |ends| ends.iter().take_while(|end| **end <= ready).count());
        let ready_tokens = self.tokens.drain(..count);
        if out == text[..ready] {
            self.ready = ready_tokens.collect();
        }
        self.text = text[ready..].into();
        Ok(out)
    }

    /// Where a text with a match in it can be cut so that it makes no difference, and what comes of it up
    /// to there: at the wished place, or ahead of it. Nowhere: all of it waits, for a while; so many
    /// characters have waited before.
    fn cut<L: Look>(
        &self,
        text: &str,
        changed: CompactString,
        wished: usize,
        waited: usize,
        look: &mut L,
    ) -> Result<(usize, CompactString), L::Error> {
        // Each place takes two looks at the text.
        const NEAR: usize = 10;
        const EDGES: usize = 6;
        let is_edge = |at: &usize| {
            let sides = (text[..*at].chars().next_back(), text[*at..].chars().next());
            let is_inner = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
            !(is_inner(sides.0) && is_inner(sides.1))
        };
        let ahead = || text[..wished].char_indices().rev().map(|(at, _)| at).take(self.longest);
        let edges = ahead().skip(NEAR).filter(is_edge).take(EDGES);
        for at in [wished].into_iter().chain(ahead().take(NEAR)).chain(edges) {
            let out = look.changed(&text[..at])?;
            if let Some(rest) = changed.strip_prefix(out.as_str())
                && rest == look.changed(&text[at..])?
            {
                return Ok((at, out));
            }
        }
        match waited > self.longest.saturating_mul(2) {
            // Better late than never: what is longer than any match goes out as it is.
            true => Ok((text.len(), changed)),
            false => Ok((0, CompactString::default())),
        }
    }

    /// Where each token of the text ends, when they spell just this text.
    fn token_ends(&mut self, text: &str) -> Option<Vec<usize>> {
        if self.tokens.is_empty() {
            return None;
        }
        let mut end = 0;
        let mut ends = Vec::with_capacity(self.tokens.len());
        for token in &self.tokens {
            end += match token.get("bytes") {
                Some(Json::Array(bytes)) => bytes.len(),
                _ => token.text("token").unwrap_or_default().len(),
            };
            ends.push(end);
        }
        if end != text.len() {
            self.tokens.clear();
            return None;
        }
        Some(ends)
    }

    /// The list in which a choice spells this text, token by token.
    fn spelling(&self, choice: &Json) -> Option<Array> {
        match choice.get("logprobs")?.get(&self.name)? {
            Json::Array(tokens) => Some(tokens),
            _ => None,
        }
    }

    fn take_tokens(&mut self, choice: &Json) {
        self.tokens.extend(self.spelling(choice).map(|tokens| tokens.items()).unwrap_or_default());
    }

    /// Only the tokens of what goes out go out with it, and none of what was changed.
    fn give_tokens(&mut self, choice: &Json) {
        let ready = std::mem::take(&mut self.ready);
        match self.spelling(choice) {
            Some(tokens) => {
                let is_same = tokens.with(|old| {
                    old.len() == ready.len() && old.iter().zip(&ready).all(|(old, new)| old.is_same(new))
                });
                if !is_same {
                    // They were in such a list before.
                    let _ = tokens.replace(ready);
                }
            }
            None if !ready.is_empty() => {
                let _ = choice.set("logprobs", Json::from([(&*self.name, ready.into())]));
            }
            None => {}
        }
    }

    /// Lets a text out with an event that has no place for it.
    fn pour(&self, choice: &Json, out: &str) {
        if out.is_empty() {
            return;
        }
        let poured = self.mold.copy();
        fill(&poured, out);
        let delta = child(choice, "delta");
        for (key, poured) in poured.as_object().map(|poured| poured.entries()).unwrap_or_default() {
            let joined = match (poured, delta.get(&key).unwrap_or_default()) {
                (Json::Array(first), Json::Array(then)) => [first.items(), then.items()].concat().into(),
                (Json::Array(first), Json::Text(then)) if !then.is_empty() => {
                    [first.items(), vec![part(&then)]].concat().into()
                }
                (Json::Text(first), Json::Array(then)) => [vec![part(&first)], then.items()].concat().into(),
                (poured, _) => poured,
            };
            let _ = delta.set(&key, joined);
        }
    }
}

fn part(text: &str) -> Json {
    Json::from([("type", "text".into()), ("text", text.into())])
}

/// The way to a text, with what says which one it is.
fn mold(of: &Json, way: &[Step]) -> Json {
    match way {
        [] => Json::Null,
        [Step::Item(place, _), way @ ..] => {
            let item = i64::try_from(*place).ok().and_then(|place| of.at(place)).unwrap_or_default();
            vec![mold(&item, way)].into()
        }
        [Step::Key(key), way @ ..] => {
            let made = Json::object();
            let is_call = of.get("function").is_some();
            for beside in ["index", "type"].into_iter().filter(|beside| !(is_call && *beside == "type")) {
                if let Some(value @ (Json::Text(_) | Json::Number(_))) = of.get(beside) {
                    let _ = made.set(beside, value);
                }
            }
            let _ = made.set(key, mold(&of.get(key).unwrap_or_default(), way));
            made
        }
    }
}

/// Puts a text where there is null.
fn fill(mold: &Json, text: &str) {
    match mold {
        Json::Object(object) => {
            for (key, value) in object.entries() {
                match value {
                    Json::Null => drop(object.set(&key, text.into())),
                    value => fill(&value, text),
                }
            }
        }
        Json::Array(array) => array.items().iter().enumerate().for_each(|(place, value)| match value {
            Json::Null => drop(array.set(place, text.into())),
            value => fill(value, text),
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
