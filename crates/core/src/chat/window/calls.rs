//! The tool calls of a choice, each a lane of its own. Clients read one call after the other: while the end of
//! a call is withheld, the deltas of later calls are withheld as well.

use super::below::Below;
use super::buffer::{OVER, child};
use super::lane::Lane;
use super::visitor::WindowVisitor;
use crate::chat::delta::{call_name, continues_call};
use crate::chat::escapes;
use crate::chat::event::{Step, TextPlace};
use compact_str::CompactString;
use std::collections::VecDeque;
use valvehouse_json::{Json, Object};

/// The key of the withheld calls of a choice.
const CALLS: &str = "calls";
/// The key of the deltas that wait until another call ends.
const QUEUE: &str = "queue";
/// The key that is set if the next event releases all calls.
const CLOSED: &str = "calls_closed";

/// The calls of one choice.
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The withheld deltas, each with the position of its call.
    queue: VecDeque<(usize, Json)>,
    longest: usize,
    is_closed: bool,
}

struct Call {
    /// The index that the provider assigned.
    index: Option<i64>,
    id: CompactString,
    name: CompactString,
    progress: Progress,
    /// The start of an escape in the arguments that continues in a later delta.
    escape: CompactString,
    lane: Lane,
}

/// Returns `true` if a text is the streamed input of a tool call.
pub(super) fn is_input(way: &[Step], place: &TextPlace) -> bool {
    let is_key = |step: &Step, key: &str| matches!(step, Step::Key(own) if own == key);
    place.kind == "arguments"
        && matches!(way, [calls, Step::Item(..), of, input]
            if is_key(calls, "tool_calls")
                && ((is_key(of, "function") && is_key(input, "arguments"))
                    || (is_key(of, "custom") && is_key(input, "input"))))
}

impl Calls {
    /// Returns `true` if any call of a stored choice is withheld.
    pub(super) fn wait(held: &Json) -> bool {
        let calls = held.list(CALLS);
        held.get(QUEUE).is_some_and(|queue| !queue.is_empty()) || calls.iter().any(super::lane::waits)
    }

    /// Returns `true` if the next event releases all withheld calls.
    pub(super) fn are_over(held: &Json) -> bool {
        held.get(CLOSED).is_some()
    }

    /// Removes the calls of a choice, which has ended.
    pub(super) fn forget(held: &Json) {
        for key in [CALLS, QUEUE, CLOSED] {
            held.remove(key);
        }
    }

    /// Marks all withheld calls for release with the next event.
    pub(super) fn mark_over(held: &Json) {
        // The field belongs to a map of this module, so the write cannot fail.
        held.edit(CLOSED, true);
    }

    pub(super) fn load(held: &Json, longest: usize) -> Self {
        let calls = held.list(CALLS);
        let queue = held.list(QUEUE);
        let place = |entry: &Json| entry.get("call").and_then(|at| at.as_i64()?.try_into().ok());
        Self {
            calls: calls.iter().map(|call| Call::load(call, longest)).collect(),
            queue: queue.iter().filter_map(|entry| Some((place(entry)?, entry.get("chunk")?))).collect(),
            longest,
            is_closed: held.get(CLOSED).is_some(),
        }
    }

    fn store(&self, held: &Json) {
        // Both maps belong to this module, so the writes cannot fail.
        held.edit(CALLS, self.calls.iter().map(Call::to_json).collect::<Vec<_>>());
        let entry =
            |(at, chunk): &(usize, Json)| Json::from([("call", Json::from(*at)), ("chunk", chunk.clone())]);
        match self.queue.is_empty() {
            true => drop(held.remove(QUEUE)),
            false => held.edit(QUEUE, self.queue.iter().map(entry).collect::<Vec<_>>()),
        }
        held.remove(CLOSED);
    }

    /// Updates the calls of a choice's event in place: adds released text and removes withheld text.
    pub(super) fn pass<L: WindowVisitor>(
        mut self,
        choice: &Json,
        held: &Json,
        ends: bool,
        look: &mut L,
    ) -> Result<(), L::Error> {
        let given = choice.field("delta").list("tool_calls");
        let waits = !self.queue.is_empty() || self.calls.iter().any(|call| call.lane.waits());
        if given.is_empty() && !waits {
            return Ok(());
        }
        let ends = ends || self.is_closed || held.get(OVER).is_some();
        for chunk in &given {
            let at = self.place_of(chunk);
            self.queue.push_back((at, chunk.clone()));
        }
        let (mut out, mut look) = (Out::default(), Below(look));
        match ends {
            true => self.finish(&mut out, &mut look)?,
            false => self.go_on(&mut out, &mut look)?,
        }
        let out = out.chunks();
        let is_same = out.len() == given.len() && out.iter().zip(&given).all(|(new, old)| new.ptr_eq(old));
        if !is_same {
            let delta = child(choice, "delta");
            match out.is_empty() {
                true => drop(delta.remove("tool_calls")),
                // The list holds deltas of its own, so the write cannot fail.
                false => delta.edit("tool_calls", out),
            }
        }
        self.store(held);
        Ok(())
    }

    /// Returns the position of the call that a delta continues or begins.
    fn place_of(&mut self, chunk: &Json) -> usize {
        let index = chunk.integer("index");
        let name = call_name(chunk);
        let known = self.calls.iter().rposition(|call| index.is_none() || call.index == index);
        let known = known.filter(|at| continues_call(chunk, &self.calls[*at].id, &self.calls[*at].name));
        if let Some(at) = known {
            if self.calls[at].name.is_empty() {
                self.calls[at].name = name;
            }
            return at;
        }
        let id = chunk.text_or_empty("id");
        let lane = Lane::load(&Json::Null, self.longest);
        self.calls.push(Call {
            index,
            id,
            name,
            progress: Progress::default(),
            escape: CompactString::default(),
            lane,
        });
        self.calls.len() - 1
    }

    /// Releases deltas up to the first call whose end is withheld; of that call, only its own deltas.
    fn go_on<L: WindowVisitor>(&mut self, out: &mut Out, look: &mut L) -> Result<(), L::Error> {
        let mut blocker = self.calls.iter().position(|call| call.lane.waits());
        let mut left = Vec::new();
        while let Some((at, chunk)) = self.queue.pop_front() {
            if blocker.is_some_and(|blocker| blocker != at) {
                left.push((at, chunk));
                continue;
            }
            let call = &mut self.calls[at];
            let is_emptied = call.feed(&chunk, false, look)?;
            out.add(at, chunk, is_emptied);
            blocker = call.lane.waits().then_some(at);
            if blocker.is_none() {
                left.drain(..).rev().for_each(|entry| self.queue.push_front(entry));
            }
        }
        self.queue = left.into();
        Ok(())
    }

    /// Releases all deltas, one call after the other.
    fn finish<L: WindowVisitor>(&mut self, out: &mut Out, look: &mut L) -> Result<(), L::Error> {
        for (at, call) in self.calls.iter_mut().enumerate() {
            let own: Vec<Json> =
                self.queue.iter().filter(|(of, _)| *of == at).map(|(_, chunk)| chunk.clone()).collect();
            let last = own.len();
            for (place, chunk) in own.into_iter().enumerate() {
                let is_emptied = call.feed(&chunk, place + 1 == last, look)?;
                out.add(at, chunk, is_emptied);
            }
            if call.lane.waits() || !call.escape.is_empty() {
                let mut rest = call.lane.flush(true, look)?;
                rest.push_str(&std::mem::take(&mut call.escape));
                out.add(at, call.lane.poured(&rest), false);
            }
        }
        self.queue.clear();
        Ok(())
    }
}

impl Call {
    fn load(stored: &Json, longest: usize) -> Self {
        Self {
            index: stored.integer("index"),
            id: stored.text_or_empty("id"),
            name: stored.text_or_empty("name"),
            progress: Progress::load(&stored.field("progress")),
            escape: stored.text_or_empty("escape"),
            lane: Lane::load(stored, longest),
        }
    }

    fn to_json(&self) -> Json {
        let stored = self.lane.to_json();
        // The object was created above, so the writes cannot fail.
        stored.edit("index", self.index.map_or(Json::Null, Json::from));
        stored.edit("id", self.id.clone());
        stored.edit("name", self.name.clone());
        stored.edit("progress", self.progress.to_json());
        if !self.escape.is_empty() {
            stored.edit("escape", self.escape.clone());
        }
        stored
    }

    /// Replaces a delta's text with the text to release now. Returns `true` if no text is left.
    fn feed<L: WindowVisitor>(
        &mut self,
        chunk: &Json,
        is_last: bool,
        look: &mut L,
    ) -> Result<bool, L::Error> {
        let Some((of, holder, key)) = input_of(chunk) else { return Ok(false) };
        let text = holder.with(key, |text| CompactString::from(text.map_or("", Json::str_or_empty)));
        let index = self.index;
        self.lane.begin_with("arguments", || {
            let mold = Json::object();
            // The object was created above, so the writes cannot fail.
            if let Some(index) = index {
                mold.edit("index", index);
            }
            mold.edit(of, Json::from([(key, Json::Null)]));
            mold
        });
        self.progress.add(&text);
        let is_over = is_last || self.progress.is_whole();
        let resolved = match key {
            "arguments" => self.resolved(&text, is_over),
            _ => text.clone(),
        };
        let new = self.lane.feed(&resolved, is_over, look)?;
        let is_emptied = new.is_empty() && !text.is_empty();
        if new != text {
            // The value replaces a text, so the write cannot fail.
            holder.edit(key, new.into());
        }
        Ok(is_emptied)
    }

    /// Returns the next part of the arguments with its escapes of letters resolved.
    fn resolved(&mut self, text: &str, is_over: bool) -> CompactString {
        if self.escape.is_empty() && !text.contains('\\') {
            return text.into();
        }
        let mut whole = std::mem::take(&mut self.escape);
        whole.push_str(text);
        let (mut out, rest) = escapes::resolve(&whole);
        match is_over {
            true => out.push_str(rest),
            false => self.escape = rest.into(),
        }
        out
    }
}

/// Returns the field that holds the input text of a call delta: the holder's key, the holder and the text's
/// key.
fn input_of(chunk: &Json) -> Option<(&'static str, Object, &'static str)> {
    [("function", "arguments"), ("custom", "input")].into_iter().find_map(|(of, key)| {
        let Json::Object(holder) = chunk.get(of)? else { return None };
        let is_text = holder.with(key, |text| matches!(text, Some(Json::Text(_))));
        is_text.then_some((of, holder, key))
    })
}

/// The deltas of one event, one for each call.
#[derive(Default)]
struct Out(Vec<(usize, Json)>);

impl Out {
    /// Adds a delta, unless its text is withheld and it has no other content.
    fn add(&mut self, at: usize, chunk: Json, is_emptied: bool) {
        if is_emptied && is_only_text(&chunk) {
            return;
        }
        let joins = self.0.iter().find(|(own, _)| *own == at).and_then(|(_, own)| {
            let ((_, holder, key), (_, more, more_key)) = (input_of(own)?, input_of(&chunk)?);
            (is_only_text(&chunk) && key == more_key).then_some((holder, key, more))
        });
        let Some((holder, key, more)) = joins else {
            self.0.push((at, chunk));
            return;
        };
        let text = |of: &Object| of.with(key, |text| text.map_or("", Json::str_or_empty).to_owned());
        let (before, more) = (text(&holder), text(&more));
        if !more.is_empty() {
            // The value replaces a text, so the write cannot fail.
            holder.edit(key, format!("{before}{more}").into());
        }
    }

    fn chunks(self) -> Vec<Json> {
        self.0.into_iter().map(|(_, chunk)| chunk).collect()
    }
}

/// Returns `true` if a delta has no content other than text.
fn is_only_text(chunk: &Json) -> bool {
    let Json::Object(fields) = chunk else { return false };
    let mut only = true;
    fields.for_each(|key, value| {
        only = only
            && match (key, value) {
                ("index" | "type", _) => true,
                ("function" | "custom", Json::Object(of)) => {
                    of.with("name", |name| name.is_none_or(Json::is_empty))
                }
                (_, value) => value.is_empty(),
            };
    });
    only
}

/// The progress of a JSON text that arrives in parts, to detect the end of a call's arguments.
#[derive(Default)]
struct Progress {
    depth: i64,
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Before,
    Inside,
    Text,
    Escape,
    Whole,
    /// Not an object or a list, or more than one value.
    Other,
}

impl Progress {
    const STATES: [State; 6] =
        [State::Before, State::Inside, State::Text, State::Escape, State::Whole, State::Other];

    fn load(stored: &Json) -> Self {
        let number = |key: &str| stored.get(key).and_then(|number| number.as_i64()).unwrap_or(0);
        let state = usize::try_from(number("state")).ok().and_then(|at| Self::STATES.get(at));
        Self { depth: number("depth"), state: state.copied().unwrap_or_default() }
    }

    fn to_json(&self) -> Json {
        let state = Self::STATES.iter().position(|state| *state == self.state).unwrap_or_default();
        Json::from([("depth", Json::from(self.depth)), ("state", state.into())])
    }

    fn is_whole(&self) -> bool {
        self.state == State::Whole
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            self.state = match (self.state, byte) {
                (State::Text, b'"') => State::Inside,
                (State::Text, b'\\') => State::Escape,
                (State::Text | State::Escape, _) => State::Text,
                (State::Before | State::Whole, b' ' | b'\n' | b'\r' | b'\t') => self.state,
                (State::Before | State::Inside, b'{' | b'[') => {
                    self.depth += 1;
                    State::Inside
                }
                (State::Inside, b'"') => State::Text,
                (State::Inside, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 { State::Whole } else { State::Inside }
                }
                (State::Inside, _) => State::Inside,
                _ => State::Other,
            };
        }
    }
}
