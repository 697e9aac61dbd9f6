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
use std::collections::HashMap;
use valvehouse_json::{Array, Json, Object};

/// The key of the calls of a choice.
const CALLS: &str = "calls";
/// The key of the positions of the latest calls, by the index that the provider assigned.
const LATEST: &str = "latest";
/// The key of the deltas that wait until another call ends, each with the position of its call and that of the next
/// delta of this call. Null stands for a delta that was sent.
const QUEUE: &str = "queue";
/// The key of the position in the queue before which all deltas were sent.
const SENT: &str = "sent";
/// The key of the position of the call whose end is withheld, while others wait for it.
const BLOCKER: &str = "blocker";
/// The keys of the positions of calls that were updated since all were released.
const OPEN: &str = "open_calls";
/// The key that is set if the next event releases all calls.
const CLOSED: &str = "calls_closed";

/// The calls of one choice. They stay in their map: an event reads and writes only those that it continues.
pub(super) struct Calls<'a> {
    held: &'a Json,
    calls: Array,
    queue: Array,
    longest: usize,
}

struct Call {
    /// The index that the provider assigned.
    index: Option<i64>,
    id: CompactString,
    name: CompactString,
    progress: Progress,
    /// The start of an escape in the arguments that continues in a later delta.
    escape: CompactString,
    /// The positions of the first and the last of its deltas in the queue.
    queued: Option<[usize; 2]>,
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

impl<'a> Calls<'a> {
    /// Returns `true` if any call of a stored choice is withheld.
    pub(super) fn wait(held: &Json) -> bool {
        held.contains_key(BLOCKER)
    }

    /// Returns `true` if the next event releases all withheld calls.
    pub(super) fn are_over(held: &Json) -> bool {
        held.contains_key(CLOSED)
    }

    /// Removes the calls of a choice, which has ended.
    pub(super) fn forget(held: &Json) {
        for key in [CALLS, LATEST, QUEUE, SENT, BLOCKER, OPEN, CLOSED] {
            held.remove(key);
        }
    }

    /// Marks all withheld calls for release with the next event.
    pub(super) fn mark_over(held: &Json) {
        // The field belongs to a map of this module, so the write cannot fail.
        held.edit(CLOSED, true);
    }

    /// Updates the calls of a choice's event in place: adds released text and removes withheld text.
    pub(super) fn pass<L: WindowVisitor>(
        choice: &Json,
        held: &'a Json,
        longest: usize,
        ends: bool,
        look: &mut L,
    ) -> Result<(), L::Error> {
        let given = choice.field("delta").list("tool_calls");
        if given.is_empty() && !Self::wait(held) {
            return Ok(());
        }
        let calls = Self { held, calls: list(held, CALLS), queue: list(held, QUEUE), longest };
        let ends = ends || Self::are_over(held) || held.contains_key(OVER);
        for chunk in &given {
            let at = calls.place_of(chunk);
            look.visits(1);
            calls.enqueue(at, chunk.clone());
        }
        let (mut out, mut look) = (Out::default(), Below(look));
        match ends {
            true => calls.finish(&mut out, &mut look)?,
            false => calls.go_on(&mut out, &mut look)?,
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
        held.remove(CLOSED);
        Ok(())
    }

    fn load(&self, at: usize) -> Call {
        Call::load(&self.calls.get(at).into(), self.longest)
    }

    fn store(&self, at: usize, call: &Call) {
        // The values belong to maps of this module, so the writes cannot fail.
        self.calls.put(at, call.to_json());
        child(self.held, OPEN).edit(&at.to_string(), true);
    }

    fn block(&self, blocker: Option<usize>) {
        match blocker {
            Some(at) => self.held.edit(BLOCKER, at),
            None => drop(self.held.remove(BLOCKER)),
        }
    }

    /// Returns the position of the call that a delta continues or begins.
    fn place_of(&self, chunk: &Json) -> usize {
        let index = chunk.integer("index");
        let latest = child(self.held, LATEST);
        let known = match index {
            Some(index) => position(&latest, &index.to_string()),
            None => self.calls.len().checked_sub(1),
        };
        let known = known.map(|at| (at, Json::from(self.calls.get(at))));
        let name = call_name(chunk);
        let known = known.filter(|(_, call)| {
            continues_call(chunk, &call.text_or_empty("id"), &call.text_or_empty("name"))
        });
        if let Some((at, call)) = known {
            if call.is_text("name", "") {
                call.edit("name", name);
            }
            return at;
        }
        let (at, id) = (self.calls.len(), chunk.text_or_empty("id"));
        let lane = Lane::load(&Json::Null, self.longest);
        let (progress, escape) = (Progress::default(), CompactString::default());
        let call = Call { index, id, name, progress, escape, queued: None, lane };
        // The list belongs to this module, so the write cannot fail.
        let _ = self.calls.push(call.to_json());
        if let Some(index) = index {
            latest.edit(&index.to_string(), at);
        }
        at
    }

    /// Adds a delta of a call to the queue.
    fn enqueue(&self, at: usize, chunk: Json) {
        let last = self.queue.len();
        // The list belongs to this module, so the write cannot fail.
        let _ = self.queue.push(Json::from([("call", at.into()), ("chunk", chunk)]));
        let mut call = self.load(at);
        if let Some([_, before]) = call.queued {
            Json::from(self.queue.get(before)).edit("next", last);
        }
        call.queued = Some([call.queued.map_or(last, |[first, _]| first), last]);
        self.store(at, &call);
    }

    /// Takes the first delta of a call from the queue.
    fn dequeue(&self, call: &mut Call) -> Option<Json> {
        let [first, last] = call.queued?;
        let entry = Json::from(self.queue.get(first));
        self.queue.put(first, Json::Null);
        call.queued = position(&entry, "next").map(|next| [next, last]);
        entry.get("chunk")
    }

    /// Returns the call of the first delta in the queue.
    fn first<L: WindowVisitor>(&self, look: &mut L) -> Option<usize> {
        let mut sent = position(self.held, SENT).unwrap_or(0);
        while let Some(Json::Null) = self.queue.get(sent) {
            sent += 1;
            look.visits(1);
        }
        self.held.edit(SENT, sent);
        position(&self.queue.get(sent)?, "call")
    }

    /// Removes all deltas from the queue, which were sent.
    fn clear(&self) {
        self.held.remove(SENT);
        self.held.remove(QUEUE);
    }

    /// Releases deltas up to the first call whose end is withheld; of that call, only its own deltas.
    fn go_on<L: WindowVisitor>(&self, out: &mut Out, look: &mut L) -> Result<(), L::Error> {
        let mut blocker = position(self.held, BLOCKER);
        while let Some(at) = blocker.or_else(|| self.first(look)) {
            let mut call = self.load(at);
            look.visits(1);
            let Some(chunk) = self.dequeue(&mut call) else { break };
            let is_emptied = call.feed(&chunk, false, look)?;
            out.add(at, chunk, is_emptied);
            blocker = call.lane.waits().then_some(at);
            self.store(at, &call);
        }
        self.block(blocker);
        if blocker.is_none() {
            self.clear();
        }
        Ok(())
    }

    /// Releases all deltas, one call after the other.
    fn finish<L: WindowVisitor>(&self, out: &mut Out, look: &mut L) -> Result<(), L::Error> {
        let open = self.held.field(OPEN).keys();
        let mut open: Vec<usize> = open.iter().filter_map(|at| at.parse().ok()).collect();
        open.sort_unstable();
        for at in open {
            let mut call = self.load(at);
            look.visits(1);
            while let Some(chunk) = self.dequeue(&mut call) {
                let is_emptied = call.feed(&chunk, call.queued.is_none(), look)?;
                out.add(at, chunk, is_emptied);
            }
            if call.lane.waits() || !call.escape.is_empty() {
                let mut rest = call.lane.flush(true, look)?;
                rest.push_str(&std::mem::take(&mut call.escape));
                out.add(at, call.lane.poured(&rest), false);
            }
            self.store(at, &call);
        }
        self.block(None);
        self.clear();
        self.held.remove(OPEN);
        Ok(())
    }
}

/// Returns the list under a key, creating it if it is missing.
fn list(of: &Json, key: &str) -> Array {
    match of.get(key) {
        Some(Json::Array(found)) => found,
        _ => {
            let made = Array::new(Vec::new());
            // A new list can be stored anywhere.
            of.edit(key, Json::Array(made.clone()));
            made
        }
    }
}

/// Returns the position under a key.
fn position(of: &Json, key: &str) -> Option<usize> {
    of.integer(key)?.try_into().ok()
}

impl Call {
    fn load(stored: &Json, longest: usize) -> Self {
        Self {
            index: stored.integer("index"),
            id: stored.text_or_empty("id"),
            name: stored.text_or_empty("name"),
            progress: Progress::load(&stored.field("progress")),
            escape: stored.text_or_empty("escape"),
            queued: position(stored, "first").zip(position(stored, "last")).map(Into::into),
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
        if let Some([first, last]) = self.queued {
            stored.edit("first", first);
            stored.edit("last", last);
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

/// The deltas of one event, one for each call, each with the text that follows its own.
#[derive(Default)]
struct Out {
    chunks: Vec<(Json, CompactString)>,
    /// The position of the first delta of each call.
    first: HashMap<usize, usize>,
}

impl Out {
    /// Adds a delta, unless its text is withheld and it has no other content.
    fn add(&mut self, at: usize, chunk: Json, is_emptied: bool) {
        if is_emptied && is_only_text(&chunk) {
            return;
        }
        let first = *self.first.entry(at).or_insert(self.chunks.len());
        let joins = self.chunks.get_mut(first).and_then(|(own, text)| {
            let ((_, _, key), (_, more, more_key)) = (input_of(own)?, input_of(&chunk)?);
            (is_only_text(&chunk) && key == more_key).then_some((text, more, key))
        });
        match joins {
            Some((text, more, key)) => {
                more.with(key, |more| text.push_str(more.map_or("", Json::str_or_empty)))
            }
            None => self.chunks.push((chunk, CompactString::default())),
        }
    }

    fn chunks(self) -> Vec<Json> {
        let chunks = self.chunks.into_iter().map(|(chunk, more)| {
            if let Some((_, holder, key)) = input_of(&chunk).filter(|_| !more.is_empty()) {
                let own = holder.with(key, |text| text.map_or("", Json::str_or_empty).to_owned());
                // The value replaces a text, so the write cannot fail.
                holder.edit(key, (own + more.as_str()).into());
            }
            chunk
        });
        chunks.collect()
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
