//! The processing of one event, and the text withheld between events.

use super::below::Below;
use super::buffer::{HELD, OVER, child};
use super::calls::{self, Calls};
use super::lane::Fronts;
use super::lanes::{self, Lanes};
use super::speech::{self, Speech, lane_name};
use super::visitor::WindowVisitor;
use crate::chat::delta;
use crate::chat::event::{self, Step, TextPlace};
use compact_str::CompactString;
use std::collections::HashSet;
use valvehouse_json::Json;

/// Returns the choices with withheld text, which [`end`] releases.
pub fn waiting(kept: &Json) -> Vec<i64> {
    let choices = kept.field(HELD).entries();
    let waits = |choice: &Json| Lanes::wait(choice) || Calls::wait(choice);
    let choices = choices.into_iter().filter(|(_, choice)| waits(choice));
    choices.filter_map(|(index, _)| index.parse().ok()).collect()
}

/// Returns the withheld texts and calls, by choice.
pub fn held(kept: &Json) -> Json {
    kept.field(HELD)
}

/// Replaces the withheld texts and calls.
pub fn set_held(kept: &Json, held: Json) {
    match held {
        Json::Null => drop(kept.remove(HELD)),
        // The value was stored before or is a copy, so the write cannot fail.
        held => kept.edit(HELD, held),
    }
}

/// Ends a choice that has no final event: the next [`pass`] releases all its text.
pub fn end(kept: &Json, choice: i64) {
    if let Some(choice) = kept.get(HELD).and_then(|held| held.get(&choice.to_string())) {
        choice.edit(OVER, true);
    }
}

/// Marks the lanes that end with this event. Returns `true` if a newly marked lane has withheld text.
///
/// The caller then passes an empty event first, which releases that text.
pub fn ends_lanes(event: &Json, kept: &Json) -> bool {
    let Some(held) = kept.get(HELD) else { return false };
    let Some(choice) = held.get(&event::choice_index(event).to_string()) else { return false };
    let calls_wait = Calls::wait(&choice) && !Calls::are_over(&choice);
    if !calls_wait && !Lanes::wait(&choice) {
        return false;
    }
    let speech = Speech::of(event);
    if calls_wait && speech.closes {
        Calls::mark_over(&choice);
    }
    lanes::mark_ends(&choice, &speech) || calls_wait && speech.closes
}

/// Returns `true` if an event has no visible content left because all its text is withheld.
pub fn is_hollow(event: &Json) -> bool {
    speech::is_hollow(event)
}

/// Changes the texts of an event in place: adds released text, and withholds text that may be the start of a
/// match. `longest` is the maximum length of a match in characters.
///
/// # Errors
/// Returns the error of the visitor.
pub fn pass<L: WindowVisitor>(
    event: &Json,
    kept: &Json,
    longest: usize,
    look: &mut L,
) -> Result<(), L::Error> {
    let mut places = Vec::new();
    event::for_each_text(event, &mut |way, place| places.push((way.to_vec(), place)));
    let Some(choice) = event.get("choices").and_then(|choices| choices.at(0)) else {
        return places.iter().try_for_each(|(_, place)| whole(place, look));
    };
    let held = child(&child(kept, HELD), &event::choice_index(event).to_string());
    let ends = delta::finishes(event) || held.get(OVER).is_some();
    let mut texts = DeltaTexts {
        delta: event::delta(event).into(),
        speech: Speech::of(event),
        choice,
        lanes: Lanes::of(&held, longest),
        ends,
        seen: HashSet::new(),
    };
    look.visits(places.len());
    for (at, (way, place)) in places.iter().enumerate() {
        let (below, way) = match way.as_slice() {
            [Step::Key(choices), _, Step::Key(below), way @ ..] if choices == "choices" => {
                (below.as_str(), way)
            }
            _ => ("", &[][..]),
        };
        match below {
            // The log probabilities repeat the text and are handled with it, but not their alternatives.
            "logprobs" if way.contains(&Step::Key("top_logprobs".into())) => {
                place.set_text(&look.changed(&place.text())?);
            }
            "logprobs" => {}
            "delta" if calls::is_input(way, place) => {}
            "delta" => {
                // The text of a part continues in the part after it.
                let next = places.get(at + 1);
                let is_last = next.is_none_or(|(next, _)| !is_next_part(&places[at].0, next));
                texts.pass(way, place, is_last, look)?;
            }
            // The field repeats the complete text so far.
            "message" if !ends => {
                let text = place.text();
                let ready = text.len() - look.unfinished(&text)?;
                place.set_text(&look.changed(&text[..ready])?);
            }
            _ => whole(place, look)?,
        }
    }
    let DeltaTexts { choice, lanes, speech, seen, .. } = texts;
    drop_lone_tokens(&choice, &seen, look)?;
    let mut fronts = Fronts::default();
    for (name, mut lane) in lanes.take(ends, &speech, look) {
        let is_over = ends || lane.is_over || speech.ends(&name, &lane.kind);
        if seen.contains(&name) || !lane.waits() || !is_over {
            lanes.keep(&name, &lane);
            continue;
        }
        lane.is_open = false;
        // Clients may join the next block of content to this one.
        let is_closed = (lane.is_closed || speech.closes) && lane.kind != "content";
        let out = match lane.kind.as_str() {
            "arguments" => lane.flush(is_closed, &mut Below(look))?,
            _ => lane.flush(is_closed, look)?,
        };
        lane.pour(&choice, &out, &mut fronts);
        lane.give_tokens(&choice, &name);
        lanes.store(&name, lane, true);
    }
    fronts.settle_all(&choice);
    Calls::pass(&choice, &held, longest, ends || speech.closes, look)?;
    if ends {
        // Some services send more text after the end; a match can begin before it.
        held.remove(OVER);
        Calls::forget(&held);
    }
    Ok(())
}

/// The texts of an event's delta.
struct DeltaTexts<'a> {
    choice: Json,
    delta: Json,
    lanes: Lanes<'a>,
    speech: Speech,
    /// Set if the choice ends in this event.
    ends: bool,
    /// The lanes that have text in this event.
    seen: HashSet<CompactString>,
}

impl DeltaTexts<'_> {
    /// Passes a text on through its lane. `is_last` is set for the last of several parts of a text.
    fn pass<L: WindowVisitor>(
        &mut self,
        way: &[Step],
        place: &TextPlace,
        is_last: bool,
        look: &mut L,
    ) -> Result<(), L::Error> {
        let is_named = way.iter().all(|step| !matches!(step, Step::Key(key) if !event::is_key(key)));
        if !is_named && !place.is_key() && !self.ends {
            // A lane would send the key again, which is a text.
            place.set_text("");
            return Ok(());
        }
        if place.is_key() || !is_named {
            return whole(place, look);
        }
        if let Some(name) = lane_name(way).filter(|_| place.kind != "citation") {
            let is_over = is_last && (self.ends || self.speech.signs(place.kind));
            let follows = is_last && !is_over && self.speech.follows(place.kind);
            return self.feed(name, way, place, (is_over, follows), look);
        }
        match speech::unknown_lane(way) {
            Some((name, is_over)) => self.feed(name, way, place, (is_over || self.ends, false), look),
            None => whole(place, look),
        }
    }

    fn feed<L: WindowVisitor>(
        &mut self,
        name: CompactString,
        way: &[Step],
        place: &TextPlace,
        (is_over, follows): (bool, bool),
        look: &mut L,
    ) -> Result<(), L::Error> {
        let (mut lane, waited) = self.lanes.load(&name);
        lane.begin(place.kind, &self.delta, way);
        if !self.seen.contains(&name) {
            lane.take_tokens(&self.choice, &name);
        }
        let text = place.part();
        let out = match (follows, place.kind) {
            (true, "arguments") => lane.feed_to_end(&text, &mut Below(look))?,
            (false, "arguments") => lane.feed(&text, is_over, &mut Below(look))?,
            (true, _) => lane.feed_to_end(&text, look)?,
            (false, _) => lane.feed(&text, is_over, look)?,
        };
        place.set_text(&out);
        lane.give_tokens(&self.choice, &name);
        self.lanes.store(&name, lane, waited);
        self.seen.insert(name);
        Ok(())
    }
}

/// Returns `true` if a path differs from another only by the next position in one list.
fn is_next_part(one: &[Step], next: &[Step]) -> bool {
    let mut different = one.iter().zip(next).filter(|(one, next)| one != next);
    let is_next =
        matches!(different.next(), Some((Step::Item(at, _), Step::Item(next, _))) if at + 1 == *next);
    is_next && one.len() == next.len() && different.next().is_none()
}

/// Removes log probabilities whose text is not in the event if the text that they spell would be changed.
fn drop_lone_tokens<L: WindowVisitor>(
    choice: &Json,
    seen: &HashSet<CompactString>,
    look: &mut L,
) -> Result<(), L::Error> {
    let Some(Json::Object(lists)) = choice.get("logprobs") else { return Ok(()) };
    for (name, list) in lists.entries() {
        let Json::Array(tokens) = &list else { continue };
        if seen.contains(&name) || tokens.is_empty() {
            continue;
        }
        let spelt: CompactString = tokens.items().iter().map(|token| token.text_or_empty("token")).collect();
        if look.changed(&spelt)? != spelt {
            // An empty list fits in place of another.
            lists.edit(&name, Json::from(Vec::<Json>::new()));
        }
    }
    Ok(())
}

fn whole<L: WindowVisitor>(place: &TextPlace, look: &mut L) -> Result<(), L::Error> {
    place.set_text(&look.changed(&place.text())?);
    Ok(())
}
