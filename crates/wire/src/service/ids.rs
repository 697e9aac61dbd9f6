//! Ids of calls, which calls and their results share.

use super::draft::{Draft, Part};
use super::limit::TextLimit;
use compact_str::CompactString;
use std::collections::{HashMap, HashSet, VecDeque};
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_json::Json;

/// Shortens the ids beyond the limit. With `is_unique`, an id that a later call uses again is replaced there and
/// in its result.
pub(super) fn shorten(draft: &mut Draft, limit: &TextLimit, is_unique: bool) {
    let parts = draft.tool_parts();
    let mut ids = Ids::new(limit, is_unique);
    // Ids within the limit stay, even if an earlier one becomes equal when it is shortened.
    for (at, part) in &parts {
        ids.taken.extend(ids_of(draft.message(*at), *part).into_iter().filter(|id| limit.fits(id)));
    }
    for (at, part) in parts {
        let old = ids_of(draft.message(at), part);
        let new: Vec<CompactString> = old
            .iter()
            .map(|id| match part {
                Part::Calls => ids.call(id),
                Part::Result => ids.result(id),
            })
            .collect();
        if old == new {
            continue;
        }
        match part {
            Part::Calls => {
                let message = draft.edit(at, "tool_calls.id");
                for (call, id) in message.list("tool_calls").iter().zip(&new) {
                    call.edit("id", &**id);
                }
                rename_blocks(&message, &old, &new);
            }
            Part::Result => {
                for id in new {
                    draft.edit(at, "tool_call_id").put("tool_call_id", &*id);
                }
            }
        }
    }
}

/// Returns the ids of the calls of a message, or that of the call of a result.
pub(super) fn ids_of(message: &Json, part: Part) -> Vec<CompactString> {
    match part {
        Part::Calls => message.list("tool_calls").iter().map(|call| call.text_or_empty("id")).collect(),
        Part::Result => message.text("tool_call_id").into_iter().collect(),
    }
}

/// Renames the calls in the remembered order of a message's blocks.
fn rename_blocks(message: &Json, old: &[CompactString], new: &[CompactString]) {
    let mut pairs: Vec<(&CompactString, &CompactString)> = old.iter().zip(new).collect();
    for block in message.list(CONTENT_BLOCKS) {
        if block.text("type").is_none_or(|kind| kind != "tool_use") {
            continue;
        }
        let id = block.text_or_empty("id");
        if let Some(at) = pairs.iter().position(|(old, _)| **old == id) {
            block.edit("id", &**pairs.remove(at).1);
        }
    }
}

struct Ids<'a> {
    limit: &'a TextLimit,
    is_unique: bool,
    taken: HashSet<CompactString>,
    /// The new ids of calls without a result yet.
    open: HashMap<CompactString, VecDeque<CompactString>>,
    /// The last new id for each old one, and the number of its calls.
    last: HashMap<CompactString, (CompactString, usize)>,
}

impl<'a> Ids<'a> {
    fn new(limit: &'a TextLimit, is_unique: bool) -> Self {
        Self { limit, is_unique, taken: HashSet::new(), open: HashMap::new(), last: HashMap::new() }
    }

    fn call(&mut self, id: &CompactString) -> CompactString {
        let new = match self.last.get(id).cloned() {
            Some((new, _)) if !self.is_unique || id.is_empty() => new,
            Some((_, calls)) => self.free(&format!("{id}\0{calls}"), true),
            None => self.free(id, false),
        };
        let calls = self.last.get(id).map_or(0, |(_, calls)| *calls) + 1;
        self.last.insert(id.clone(), (new.clone(), calls));
        self.open.entry(id.clone()).or_default().push_back(new.clone());
        new
    }

    fn result(&mut self, id: &CompactString) -> CompactString {
        let open = self.open.get_mut(id).and_then(VecDeque::pop_front);
        match (open, self.last.get(id)) {
            (Some(new), _) => new,
            (None, Some((new, _))) => new.clone(),
            // A result without a call in the conversation.
            (None, None) => {
                let new = self.free(id, false);
                self.last.insert(id.clone(), (new.clone(), 0));
                new
            }
        }
    }

    /// Returns an id within the limit that no other id of the conversation has.
    fn free(&mut self, id: &str, is_again: bool) -> CompactString {
        if !is_again && self.limit.fits(id) {
            return id.into();
        }
        let mut attempt = 0;
        loop {
            let new = CompactString::from(self.limit.shorten(id, attempt));
            if self.taken.insert(new.clone()) {
                return new;
            }
            attempt += 1;
        }
    }
}
