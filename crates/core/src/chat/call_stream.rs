//! The tool calls of a service's stream in the form of OpenAI's own, which its SDK and filters expect: numbered from 0
//! in order, each with its id and its whole name in the first delta.
//!
//! A call whose name is still unknown or may continue is held back until its name is whole. All other deltas are passed
//! on as they arrive, unchanged if they have the expected form.

use super::call::{BadCall, keys_of, name_of, tidy};
use super::delta::{self, Fields};
use compact_str::CompactString;
use std::collections::BTreeMap;
use valvehouse_json::Json;

/// The tool calls of one stream so far.
#[derive(Debug, Default)]
pub struct CallStream {
    /// The names of the request's tools.
    tools: Vec<CompactString>,
    choices: BTreeMap<i64, Vec<Call>>,
}

#[derive(Debug, Default)]
struct Call {
    /// The index that the service assigned.
    index: Option<i64>,
    id: CompactString,
    name: CompactString,
    arguments: Nesting,
    /// Set if arguments arrived with or after the name, which is whole then.
    has_arguments: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The fields so far of a call that is held back.
    Held(Fields),
    /// The number of a call that began.
    Begun(usize),
    /// The service sent neither a name nor arguments.
    Empty,
}

impl Default for State {
    fn default() -> Self {
        Self::Held(Fields::default())
    }
}

/// The nesting of JSON that arrives in parts.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
    begun: bool,
}

impl Nesting {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => (self.depth, self.begun) = (self.depth + 1, true),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    const fn is_whole(&self) -> bool {
        self.begun && self.depth == 0
    }
}

/// A delta of a call, as read.
struct Part {
    index: Option<i64>,
    id: CompactString,
    name: CompactString,
    input: CompactString,
}

impl CallStream {
    /// Creates the reader for the answer to a request with these tools, whose names tell a whole name from a part.
    pub fn new(tools: &Json) -> Self {
        let names = tools.items().iter().map(delta::call_name).filter(|name| !name.is_empty()).collect();
        Self { tools: names, choices: BTreeMap::new() }
    }

    /// Returns `true` if a call is held back.
    pub fn is_holding(&self) -> bool {
        self.choices.values().flatten().any(|call| matches!(call.state, State::Held(_)))
    }

    /// Corrects the calls of an event in place. Returns `true` if the event was changed.
    ///
    /// # Errors
    /// Returns an error for a call whose name is not a text, and for one that ends without a name.
    pub fn correct(&mut self, event: &Json) -> Result<bool, BadCall> {
        let mut changed = false;
        for (place, choice) in event.list("choices").iter().enumerate() {
            let index = choice.integer("index").unwrap_or(place as i64);
            let delta = choice.field("delta");
            let given = delta.list("tool_calls");
            let is_last = delta::is_last(choice);
            if given.is_empty() && !(is_last && self.choices.contains_key(&index)) {
                continue;
            }
            let (mut out, mut edited) = (Vec::with_capacity(given.len()), false);
            for part in &given {
                edited |= self.read(index, part, &mut out)?;
            }
            if is_last {
                edited |= self.release(index, true, &mut out)?;
            }
            changed |= edited
                && match (out.is_empty(), choice.get("delta")) {
                    (true, _) => delta.remove("tool_calls").is_some(),
                    (false, Some(Json::Object(_))) => delta.set("tool_calls", out).is_ok(),
                    (false, _) => choice.set("delta", Json::from([("tool_calls", out.into())])).is_ok(),
                };
        }
        Ok(changed)
    }

    /// Returns an event with the calls that are held back at the end of a stream without a finish reason.
    ///
    /// # Errors
    /// Returns an error for a call without a name.
    pub fn rest(&mut self) -> Result<Option<Json>, BadCall> {
        let mut choices = Vec::new();
        for index in self.choices.keys().copied().collect::<Vec<_>>() {
            let mut out = Vec::new();
            if self.release(index, true, &mut out)? {
                let delta = Json::from([("tool_calls", out.into())]);
                choices.push(Json::from([("index", index.into()), ("delta", delta)]));
            }
        }
        Ok((!choices.is_empty()).then(|| Json::from([("choices", choices.into())])))
    }

    /// Reads one delta of a call, and adds to `out` what is passed on. Returns `true` if that is not the unchanged delta.
    fn read(&mut self, choice: i64, chunk: &Json, out: &mut Vec<Json>) -> Result<bool, BadCall> {
        let part = Part::of(chunk)?;
        let calls = self.choices.entry(choice).or_default();
        let known = find(calls, &part, &self.tools);
        let at = known.unwrap_or_else(|| {
            calls.push(Call { index: part.index, ..Call::default() });
            calls.len() - 1
        });
        let number = calls[..at].iter().filter(|call| matches!(call.state, State::Begun(_))).count();
        let may_begin = calls[..at].iter().all(|call| !matches!(call.state, State::Held(_)));
        let call = &mut calls[at];
        let is_new_name = call.take(&part, &self.tools);
        let begins_now = known.is_none() && may_begin && call.has_whole_name(&self.tools, true);
        match &mut call.state {
            State::Begun(number) => {
                let changed = go_on(chunk, *number, is_new_name);
                out.push(chunk.clone());
                return Ok(changed);
            }
            State::Held(_) if begins_now => {
                call.state = State::Begun(number);
                let mut changed = tidy(chunk);
                changed |= part.index != i64::try_from(number).ok() && chunk.set("index", number).is_ok();
                changed |= own_id(&calls[..at], chunk);
                out.push(chunk.clone());
                return Ok(changed);
            }
            State::Held(fields) => {
                for (key, value) in chunk.entries() {
                    fields.absorb(&key, &value);
                }
            }
            State::Empty => {}
        }
        self.release(choice, false, out)?;
        Ok(true)
    }

    /// Begins the calls that no longer have to be held back, in order. At the end, all of them begin. Returns `true` if
    /// any began.
    fn release(&mut self, choice: i64, is_end: bool, out: &mut Vec<Json>) -> Result<bool, BadCall> {
        let Some(calls) = self.choices.get_mut(&choice) else { return Ok(false) };
        let (mut number, before) = (0, out.len());
        for at in 0..calls.len() {
            let is_last = at + 1 == calls.len();
            let is_whole = calls[at].has_whole_name(&self.tools, is_last);
            let is_empty = calls[at].is_empty();
            let (earlier, rest) = calls.split_at_mut(at);
            let call = &mut rest[0];
            match &mut call.state {
                State::Held(_) if is_end && is_empty => call.state = State::Empty,
                State::Held(_) if is_end && call.name.is_empty() => return Err(BadCall::NoName),
                State::Held(fields) if is_end || is_whole => {
                    out.push(begun(std::mem::take(fields), number, &call.name, earlier));
                    call.state = State::Begun(number);
                    number += 1;
                }
                State::Held(_) => break,
                State::Begun(_) => number += 1,
                State::Empty => {}
            }
        }
        Ok(out.len() > before)
    }
}

impl Part {
    fn of(chunk: &Json) -> Result<Self, BadCall> {
        let (kind, input) = keys_of(chunk);
        let input = match chunk.field(kind).get(input) {
            Some(Json::Text(text)) => text.into(),
            None | Some(Json::Null) => CompactString::default(),
            Some(value) => value.to_string().into(),
        };
        let index = chunk.integer("index");
        Ok(Self { index, id: chunk.text_or_empty("id"), name: name_of(chunk)?, input })
    }
}

/// Returns the call that a delta continues: see [`delta::continues_call`]. Beyond that, arguments that are whole tell
/// calls apart that share an index, and an id finds its call under another index.
fn find(calls: &[Call], part: &Part, tools: &[CompactString]) -> Option<usize> {
    let last = calls.iter().rposition(|call| part.index.is_none() || call.index == part.index);
    let Some(at) = last else {
        let is_same = |call: &Call| !part.id.is_empty() && call.id == part.id;
        return calls.iter().rposition(is_same).filter(|_| part.name.is_empty());
    };
    let call = &calls[at];
    let is_other = !part.id.is_empty() && !call.id.is_empty() && part.id != call.id;
    let is_same = !part.id.is_empty() && !is_other;
    let is_nameless = part.name.is_empty();
    // Whole arguments cannot continue, and neither can their name.
    let has_more = !part.input.trim().is_empty() || !(is_nameless || part.name == call.name);
    let is_whole = call.arguments.is_whole() && !call.name.is_empty() && has_more;
    let goes_on = match part.index {
        Some(_) if is_other => is_nameless && !is_whole,
        Some(_) => is_same || is_nameless || !is_whole,
        None => {
            !is_other
                && (is_same || is_nameless || call.name.is_empty() || call.may_extend(&part.name, tools))
        }
    };
    goes_on.then_some(at)
}

impl Call {
    fn is_empty(&self) -> bool {
        self.name.is_empty() && self.id.is_empty() && !self.arguments.begun
    }

    /// Returns `true` if a name continues that of this call, which is only a part of the name of a tool.
    fn may_extend(&self, name: &str, tools: &[CompactString]) -> bool {
        let both = format!("{}{name}", self.name);
        let is_part = tools.iter().any(|tool| tool.starts_with(both.as_str()));
        matches!(self.state, State::Held(_)) && !self.has_arguments && is_part
    }

    /// Adds a delta. Returns `true` if it has a name that differs from the known one.
    fn take(&mut self, part: &Part, tools: &[CompactString]) -> bool {
        if !part.id.is_empty() {
            self.id = part.id.clone();
        }
        let is_new = !part.name.is_empty() && part.name != self.name;
        if is_new || (!part.name.is_empty() && self.may_extend(&part.name, tools)) {
            // A service that repeats the name with more letters replaces it.
            let is_whole = part.name.starts_with(self.name.as_str()) && tools.contains(&part.name);
            match is_whole && !self.may_extend(&part.name, tools) {
                true => self.name = part.name.clone(),
                false => self.name.push_str(&part.name),
            }
        }
        self.arguments.add(&part.input);
        self.has_arguments |= !part.input.is_empty() && !self.name.is_empty();
        is_new
    }

    /// Returns `true` if the name is known and cannot continue. Other tools whose names begin with it make it
    /// uncertain until arguments or another call follow.
    fn has_whole_name(&self, tools: &[CompactString], is_last: bool) -> bool {
        let is_longer =
            |tool: &CompactString| tool.len() > self.name.len() && tool.starts_with(self.name.as_str());
        !self.name.is_empty()
            && (!tools.iter().any(is_longer)
                || (tools.contains(&self.name) && (self.has_arguments || !is_last)))
    }
}

/// Removes from the continuation of a call what only its first delta may have. Returns `true` if it was changed.
fn go_on(chunk: &Json, number: usize, is_new_name: bool) -> bool {
    let index = chunk.integer("index");
    let mut changed = index != i64::try_from(number).ok() && chunk.set("index", number).is_ok();
    changed |= chunk.remove("id").is_some();
    let (kind, input) = keys_of(chunk);
    let is_empty = |of: &Json, key: &str| of.get(key).is_some_and(|value| value.is_empty());
    for key in ["type", "function", "custom"] {
        changed |= is_empty(chunk, key) && chunk.remove(key).is_some();
    }
    let called = chunk.field(kind);
    changed |= !is_new_name && called.remove("name").is_some();
    match called.get(input) {
        None | Some(Json::Text(_)) => changed,
        Some(Json::Null) => called.remove(input).is_some() || changed,
        Some(value) => called.set(input, value.to_string()).is_ok() || changed,
    }
}

/// Returns the first delta of a call that was held back.
fn begun(fields: Fields, number: usize, name: &CompactString, earlier: &[Call]) -> Json {
    let chunk = fields.into_json();
    // The object is new, so the writes cannot fail.
    chunk.put("index", number);
    let (kind, _) = keys_of(&chunk);
    let called = match chunk.get(kind) {
        Some(called @ Json::Object(_)) => called,
        _ => {
            let called = Json::object();
            chunk.put(kind, called.clone());
            called
        }
    };
    called.put("name", name.clone());
    tidy(&chunk);
    own_id(earlier, &chunk);
    chunk
}

/// Gives a call its own id if an earlier call has the same. Returns `true` if it was changed.
fn own_id(earlier: &[Call], chunk: &Json) -> bool {
    let id = chunk.text_or_empty("id");
    earlier.iter().any(|call| call.id == id) && {
        chunk.remove("id");
        tidy(chunk)
    }
}

#[cfg(test)]
mod tests;
