//! One text of a choice across events: its withheld end, and the text to release.

use super::buffer::child;
use super::visitor::WindowVisitor;
use crate::chat::event::Step;
use crate::chat::json_text::JsonText;
use crate::chat::message::text_part;
use compact_str::CompactString;
use std::borrow::Cow;
use std::collections::HashMap;
use valvehouse_json::{Array, Json};

/// The key that is set on a lane whose text is released with the next event.
const OVER: &str = "over";
/// The key that is set on a lane that is listed as one that may have withheld text.
const OPEN: &str = "open";
/// The key that is set next to [`OVER`] if the text cannot continue.
const CLOSED: &str = "closed";

/// One text of a choice.
pub(super) struct Lane {
    longest: usize,
    pub(super) kind: CompactString,
    /// The withheld text.
    text: CompactString,
    /// A delta with null in place of this text and no other content, used to release the text with an event
    /// that lacks it.
    mold: Json,
    /// The log probabilities of the withheld text, by token.
    tokens: Vec<Json>,
    /// The log probabilities to send with this event.
    ready: Vec<Json>,
    /// Set if the text is released with the next event.
    pub(super) is_over: bool,
    /// Set if the text cannot continue because its block is closed.
    pub(super) is_closed: bool,
    /// The end of the text that was sent unchanged before the text continued; a match can begin in it.
    seam: CompactString,
    /// The position of the lane among those of its choice.
    pub(super) at: u64,
    /// Set if the lane is listed as one that may have withheld text.
    pub(super) is_open: bool,
    /// The state of the sent text, which stays valid JSON if it is a JSON object.
    json: JsonText,
}

/// Returns `true` if a stored lane has withheld text.
pub(super) fn waits(stored: &Json) -> bool {
    stored.as_object().is_some_and(|stored| {
        stored.with("text", |text| matches!(text, Some(Json::Text(text)) if !text.is_empty()))
    })
}

/// Marks a stored lane for release.
pub(super) fn mark_over(stored: &Json, closes: bool) {
    // The map belongs to this module, so the writes cannot fail.
    stored.edit(OVER, true);
    stored.remove(OPEN);
    if closes {
        stored.edit(CLOSED, true);
    }
}

/// Records that a stored lane is not listed.
pub(super) fn close(stored: &Json) {
    stored.remove(OPEN);
}

impl Lane {
    pub(super) fn load(stored: &Json, longest: usize) -> Self {
        let text = |key: &str| stored.text_or_empty(key);
        Self {
            longest,
            kind: text("kind"),
            text: text("text"),
            mold: stored.field("mold"),
            tokens: stored.list("tokens"),
            ready: Vec::new(),
            is_over: stored.get(OVER).is_some(),
            is_closed: stored.get(CLOSED).is_some(),
            seam: text("seam"),
            at: stored.count("at"),
            is_open: stored.contains_key(OPEN),
            json: JsonText::load(stored),
        }
    }

    pub(super) fn begin(&mut self, kind: &str, delta: &Json, way: &[Step]) {
        if self.mold.is_null() {
            self.kind = kind.into();
            self.mold = mold(delta, way);
        }
    }

    /// Sets the kind of the text and its mold, unless the lane has one.
    pub(super) fn begin_with(&mut self, kind: &str, mold: impl FnOnce() -> Json) {
        if self.mold.is_null() {
            self.kind = kind.into();
            self.mold = mold();
        }
    }

    pub(super) fn to_json(&self) -> Json {
        let stored = Json::from([
            ("kind", self.kind.clone().into()),
            ("text", self.text.clone().into()),
            ("mold", self.mold.clone()),
        ]);
        // The object was created above, so this write and those below cannot fail.
        if !self.tokens.is_empty() {
            stored.edit("tokens", self.tokens.clone());
        }
        if !self.seam.is_empty() {
            stored.edit("seam", self.seam.clone());
        }
        if self.at > 0 {
            stored.edit("at", self.at);
        }
        if self.is_open {
            stored.edit(OPEN, true);
        }
        self.json.store(&stored);
        stored
    }

    /// Returns `true` if text is withheld.
    pub(super) fn waits(&self) -> bool {
        !self.text.is_empty()
    }

    /// Adds a part of the text. Returns the text to send now. Processed text is final: it is never sent again, and
    /// text that was changed is not searched again either.
    pub(super) fn feed<L: WindowVisitor>(
        &mut self,
        chunk: &str,
        is_over: bool,
        look: &mut L,
    ) -> Result<CompactString, L::Error> {
        let mut text = std::mem::take(&mut self.text);
        let waited = text.chars().count();
        text.push_str(chunk);
        if text.is_empty() && self.tokens.is_empty() {
            return Ok(text);
        }
        let is_new = !text.is_empty();
        let seam = if is_new { std::mem::take(&mut self.seam) } else { CompactString::default() };
        let ends = self.token_ends(&text, seam.len());
        text.insert_str(0, &seam);
        let changed = look.changed(&text)?;
        let unfinished = look.unfinished(&text)?;
        let mut ready = if is_over { text.len() } else { text.len() - unfinished };
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
        if ready < seam.len() {
            self.text = text[seam.len()..].into();
            self.seam = seam;
            return Ok(CompactString::default());
        }
        let count = ends.map_or(0, |ends| ends.iter().take_while(|end| **end <= ready).count());
        let ready_tokens = self.tokens.drain(..count);
        let is_same = out == text[..ready];
        if is_same {
            self.ready = ready_tokens.collect();
        } else {
            drop(ready_tokens);
        }
        self.text = text[ready..].into();
        if is_over && is_new {
            // The text may continue.
            self.seam = whole_seam(unchanged_end(&text, &out, unfinished), look)?.into();
        }
        let out = match is_same {
            true => text[seam.len()..ready].into(),
            false => self.after_seam(&seam, &text[..ready], out, look)?,
        };
        Ok(match self.json.read(&out, !is_same) {
            Cow::Borrowed(_) => out,
            Cow::Owned(valid) => valid.into(),
        })
    }

    /// Returns the part of a changed text that follows its seam, which was sent before. If the text no longer begins
    /// with its seam, it is the text from the position on at which it can be divided without changing the result; if
    /// there is none, nothing is omitted.
    fn after_seam<L: WindowVisitor>(
        &self,
        seam: &str,
        text: &str,
        out: CompactString,
        look: &mut L,
    ) -> Result<CompactString, L::Error> {
        let letters = out.chars().zip(seam.chars()).take_while(|(own, sent)| own == sent);
        let same = letters.map(|(own, _)| own.len_utf8()).sum();
        if same == seam.len() {
            return Ok(out[same..].into());
        }
        for at in self.near(text, same) {
            if at == 0 || out[at..] == look.changed(&text[at..])? {
                return Ok(out[at..].into());
            }
        }
        Ok(out)
    }

    /// Adds a part of the text. Returns all withheld text; the text may still continue in a later event.
    pub(super) fn feed_to_end<L: WindowVisitor>(
        &mut self,
        chunk: &str,
        look: &mut L,
    ) -> Result<CompactString, L::Error> {
        let mut out = self.feed(chunk, false, look)?;
        if self.waits() {
            let ready = std::mem::take(&mut self.ready);
            out.push_str(&self.flush(false, look)?);
            self.ready.splice(0..0, ready);
        }
        Ok(out)
    }

    /// Returns all withheld text. If its block is still open, the end of the text is stored for a match that
    /// continues.
    pub(super) fn flush<L: WindowVisitor>(
        &mut self,
        is_closed: bool,
        look: &mut L,
    ) -> Result<CompactString, L::Error> {
        let out = self.feed("", true, look)?;
        (self.is_over, self.is_closed) = (false, false);
        if is_closed {
            self.seam.clear();
        }
        Ok(out)
    }

    /// Returns the position at which a text that contains a match can be cut without changing the result, and
    /// the processed text up to there. The position is at or before `wished`; if there is none, the complete
    /// text is withheld until `waited` characters exceed the limit.
    fn cut<L: WindowVisitor>(
        &self,
        text: &str,
        changed: CompactString,
        wished: usize,
        waited: usize,
        look: &mut L,
    ) -> Result<(usize, CompactString), L::Error> {
        for at in self.near(text, wished) {
            let out = look.changed(&text[..at])?;
            if let Some(rest) = changed.strip_prefix(out.as_str())
                && rest == look.changed(&text[at..])?
            {
                return Ok((at, out));
            }
        }
        match waited > self.longest.saturating_mul(2) {
            // The text is longer than any match, so it is sent.
            true => Ok((text.len(), changed)),
            false => Ok((0, CompactString::default())),
        }
    }

    /// Returns the positions at which a text may be divided, from a wished one backward: those near it, then those
    /// at edges of words. Each is tried by processing the text again, so they are few.
    fn near(&self, text: &str, wished: usize) -> impl Iterator<Item = usize> {
        const MAX_NEAR: usize = 10;
        const EDGES: usize = 6;
        let is_edge = |at: &usize| {
            let sides = (text[..*at].chars().next_back(), text[*at..].chars().next());
            let is_inner = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
            !(is_inner(sides.0) && is_inner(sides.1))
        };
        let ahead = || text[..wished].char_indices().rev().map(|(at, _)| at).take(self.longest);
        let edges = ahead().skip(MAX_NEAR).filter(is_edge).take(EDGES);
        [wished].into_iter().chain(ahead().take(MAX_NEAR)).chain(edges)
    }

    /// Returns the end of each token of the text, which starts at a position, if the tokens add up to exactly this
    /// text.
    fn token_ends(&mut self, text: &str, start: usize) -> Option<Vec<usize>> {
        if self.tokens.is_empty() {
            return None;
        }
        let mut end = start;
        let mut ends = Vec::with_capacity(self.tokens.len());
        for token in &self.tokens {
            end += match token.get("bytes") {
                Some(Json::Array(bytes)) => bytes.len(),
                _ => token.text_or_empty("token").len(),
            };
            ends.push(end);
        }
        if end != start + text.len() {
            self.tokens.clear();
            return None;
        }
        Some(ends)
    }

    pub(super) fn take_tokens(&mut self, choice: &Json, name: &str) {
        self.tokens.extend(spelling(choice, name).into_iter().flat_map(|tokens| tokens.items()));
    }

    /// Writes the tokens of the sent text to a choice, without those of changed text.
    pub(super) fn give_tokens(&mut self, choice: &Json, name: &str) {
        let ready = std::mem::take(&mut self.ready);
        match spelling(choice, name) {
            Some(tokens) => {
                let is_same = tokens.with(|old| {
                    old.len() == ready.len() && old.iter().zip(&ready).all(|(old, new)| old.ptr_eq(new))
                });
                if !is_same {
                    // The list held these tokens before, so the write cannot fail.
                    let _ = tokens.replace(ready);
                }
            }
            None if !ready.is_empty() => {
                choice.edit("logprobs", Json::from([(name, ready.into())]));
            }
            None => {}
        }
    }

    /// Adds released text to an event that has no field for it.
    pub(super) fn pour(&self, choice: &Json, out: &str, fronts: &mut Fronts) {
        if out.is_empty() {
            return;
        }
        let delta = child(choice, "delta");
        for (key, poured) in self.poured(out).entries() {
            if !poured.is_array() {
                fronts.settle(&delta, &key);
            }
            let joined = match (poured, delta.field(&key)) {
                (Json::Array(first), Json::Array(_)) => {
                    fronts.0.entry(key).or_default().push(first.items());
                    continue;
                }
                (Json::Array(first), Json::Text(then)) if !then.is_empty() => {
                    [first.items(), vec![text_part(&then)]].concat().into()
                }
                (Json::Text(first), Json::Array(then)) => {
                    [vec![text_part(&first)], then.items()].concat().into()
                }
                (poured @ Json::Object(_), then @ Json::Object(_)) => {
                    merge(&then, &poured);
                    continue;
                }
                (poured, _) => poured,
            };
            delta.edit(&key, joined);
        }
    }

    /// Returns the mold filled with this text.
    pub(super) fn poured(&self, out: &str) -> Json {
        let poured = self.mold.deep_clone();
        fill(&poured, out);
        poured
    }
}

/// The items that are added before those of lists of a delta, by key, the last ones first.
#[derive(Default)]
pub(super) struct Fronts(HashMap<CompactString, Vec<Vec<Json>>>);

impl Fronts {
    /// Adds the items of all lists.
    pub(super) fn settle_all(mut self, choice: &Json) {
        let keys: Vec<CompactString> = self.0.keys().cloned().collect();
        keys.iter().for_each(|key| self.settle(&child(choice, "delta"), key));
    }

    fn settle(&mut self, delta: &Json, key: &str) {
        if let Some(front) = self.0.remove(key) {
            let items = front.into_iter().rev().flatten().chain(delta.list(key));
            // The list holds items of its own, so the write cannot fail.
            delta.edit(key, items.collect::<Vec<_>>());
        }
    }
}

/// Writes the fields of an object to another one, also below.
fn merge(into: &Json, from: &Json) {
    for (key, value) in from.entries() {
        match (into.field(&key), &value) {
            (own @ Json::Object(_), Json::Object(_)) => merge(&own, &value),
            // The values belong to a mold, so they fit.
            _ => into.edit(&key, value),
        }
    }
}

/// Returns the end of a seam that is unchanged by itself. A seam that begins in the middle of a word can look like a match.
fn whole_seam<'a, L: WindowVisitor>(mut seam: &'a str, look: &mut L) -> Result<&'a str, L::Error> {
    while !seam.is_empty() && look.changed(seam)? != seam {
        let word = seam.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(seam.len());
        let next = seam[word..].chars().next().map_or(0, char::len_utf8);
        seam = &seam[word + next..];
    }
    Ok(seam)
}

/// Returns the end of a processed text that was not changed and that could become part of a match.
fn unchanged_end<'a>(text: &'a str, out: &str, unfinished: usize) -> &'a str {
    let letters = text.chars().rev().zip(out.chars().rev()).take_while(|(raw, own)| raw == own);
    let same: usize = letters.map(|(raw, _)| raw.len_utf8()).sum();
    &text[text.len() - same.min(unfinished)..]
}

/// Returns the list of a choice's log probabilities, by token.
fn spelling(choice: &Json, name: &str) -> Option<Array> {
    match choice.get("logprobs")?.get(name)? {
        Json::Array(tokens) => Some(tokens),
        _ => None,
    }
}

/// Returns the path to a text as a delta, with the fields that identify the text.
fn mold(of: &Json, way: &[Step]) -> Json {
    match way {
        [] => Json::Null,
        [Step::Item(place, _), way @ ..] => {
            let item = i64::try_from(*place).ok().and_then(|place| of.at(place)).into();
            vec![mold(&item, way)].into()
        }
        [Step::Key(key), way @ ..] => {
            let made = Json::object();
            for beside in ["index", "type"] {
                if let Some(value @ (Json::Text(_) | Json::Number(_))) = of.get(beside) {
                    made.edit(beside, value);
                }
            }
            made.edit(key, mold(&of.field(key), way));
            made
        }
    }
}

/// Replaces the null in a mold with a text.
fn fill(mold: &Json, text: &str) {
    match mold {
        Json::Object(object) => {
            for (key, value) in object.entries() {
                match value {
                    Json::Null => object.edit(&key, text.into()),
                    value => fill(&value, text),
                }
            }
        }
        Json::Array(array) => array.items().iter().enumerate().for_each(|(place, value)| match value {
            Json::Null => array.put(place, text.into()),
            value => fill(value, text),
        }),
        _ => {}
    }
}
