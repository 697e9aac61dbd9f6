//! A search with any pattern, in steps that are charged to the budget of the call.
//!
//! The engines of `regex` are faster but cannot be interrupted. This one follows all states of the pattern's
//! automaton in parallel: its worst-case time is the length of the text times the number of states.

use super::argument::RhaiResultOf;
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;
use std::ops::Range;
use valvehouse_dialect::budget;

/// The number of steps between two checks of the budgets.
const STEPS: usize = 4_096;
/// The number of steps that are charged as one operation.
const STEPS_OF_AN_OPERATION: usize = 16;
/// The position of a group that has not begun or ended.
const NONE: usize = usize::MAX;

/// The spans of a match: the whole match, then each group.
pub(super) type Spans = Vec<Option<Range<usize>>>;

/// Returns the leftmost match at or after a position; with `is_anchored`, only a match at that position.
pub(super) fn search(
    nfa: &NFA,
    text: &str,
    from: usize,
    is_anchored: bool,
    groups: usize,
) -> RhaiResultOf<Option<Spans>> {
    let slots = groups * 2;
    let states = nfa.states().len();
    budget::reserve(states.saturating_mul(2 * (slots * size_of::<usize>() + 12))).map_err(budget::ended)?;
    let mut search = Search { nfa, text: text.as_bytes(), slots, steps: 0, stack: Vec::new() };
    let (mut now, mut next) = (Threads::new(states, slots), Threads::new(states, slots));
    let mut found: Option<Vec<usize>> = None;
    let mut at = from;
    loop {
        if now.order.is_empty() && (found.is_some() || is_anchored && at > from) {
            break;
        }
        if found.is_none() && (!is_anchored || at == from) {
            search.follow(&mut now, nfa.start_anchored(), at, &mut vec![NONE; slots])?;
        }
        next.clear();
        for index in 0..now.order.len() {
            let state = now.order[index];
            if search.is_match(state) {
                let spans = now.slots_of(state).to_vec();
                // An empty match within a character does not count.
                if spans.first() == Some(&at) && !text.is_char_boundary(at) {
                    continue;
                }
                found = Some(spans);
                break;
            }
            search.step(&now, &mut next, state, at)?;
        }
        if at >= text.len() {
            break;
        }
        at += 1;
        std::mem::swap(&mut now, &mut next);
    }
    let span = |pair: &[usize]| match pair {
        [start, end] if *start != NONE && *end != NONE => Some(*start..*end),
        _ => None,
    };
    Ok(found.map(|found| found.chunks(2).map(span).collect()))
}

/// The current states of a search, in order of preference.
struct Threads {
    order: Vec<StateID>,
    is_in: Vec<bool>,
    slots: Vec<usize>,
    width: usize,
}

impl Threads {
    fn new(states: usize, width: usize) -> Self {
        Self { order: Vec::new(), is_in: vec![false; states], slots: vec![NONE; states * width], width }
    }

    fn clear(&mut self) {
        for state in self.order.drain(..) {
            self.is_in[state.as_usize()] = false;
        }
    }

    fn slots_of(&self, state: StateID) -> &[usize] {
        &self.slots[state.as_usize() * self.width..][..self.width]
    }

    /// Adds a state with its slots.
    fn add(&mut self, state: StateID, slots: &[usize]) {
        self.order.push(state);
        self.slots[state.as_usize() * self.width..][..self.width].copy_from_slice(slots);
    }
}

enum Frame {
    Explore(StateID),
    Restore(usize, usize),
}

struct Search<'a> {
    nfa: &'a NFA,
    text: &'a [u8],
    slots: usize,
    steps: usize,
    stack: Vec<Frame>,
}

impl Search<'_> {
    fn is_match(&self, state: StateID) -> bool {
        matches!(self.nfa.state(state), State::Match { .. })
    }

    /// Advances a state by one byte.
    fn step(&mut self, now: &Threads, next: &mut Threads, state: StateID, at: usize) -> RhaiResultOf<()> {
        self.count()?;
        let target = match self.nfa.state(state) {
            State::ByteRange { trans } => trans.matches(self.text, at).then_some(trans.next),
            State::Sparse(transitions) => transitions.matches(self.text, at),
            State::Dense(transitions) => transitions.matches(self.text, at),
            _ => None,
        };
        let Some(target) = target else { return Ok(()) };
        let mut slots = now.slots_of(state).to_vec();
        self.follow(next, target, at + 1, &mut slots)
    }

    /// Adds all states that are reachable without consuming a byte.
    fn follow(
        &mut self,
        threads: &mut Threads,
        from: StateID,
        at: usize,
        slots: &mut [usize],
    ) -> RhaiResultOf<()> {
        self.stack.push(Frame::Explore(from));
        while let Some(frame) = self.stack.pop() {
            let mut state = match frame {
                Frame::Restore(slot, value) => {
                    slots[slot] = value;
                    continue;
                }
                Frame::Explore(state) => state,
            };
            loop {
                self.count()?;
                if std::mem::replace(&mut threads.is_in[state.as_usize()], true) {
                    break;
                }
                threads.add(state, slots);
                match self.nfa.state(state) {
                    State::Look { look, next } => {
                        if !self.nfa.look_matcher().matches(*look, self.text, at) {
                            break;
                        }
                        state = *next;
                    }
                    State::Union { alternates } => {
                        let Some((first, others)) = alternates.split_first() else { break };
                        self.stack.extend(others.iter().rev().map(|state| Frame::Explore(*state)));
                        state = *first;
                    }
                    State::BinaryUnion { alt1, alt2 } => {
                        self.stack.push(Frame::Explore(*alt2));
                        state = *alt1;
                    }
                    State::Capture { next, slot, .. } => {
                        if slot.as_usize() < self.slots {
                            self.stack.push(Frame::Restore(slot.as_usize(), slots[slot.as_usize()]));
                            slots[slot.as_usize()] = at;
                        }
                        state = *next;
                    }
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn count(&mut self) -> RhaiResultOf<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) {
            budget::charge((STEPS / STEPS_OF_AN_OPERATION) as u64).map_err(budget::ended)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ours(pattern: &str, text: &str, from: usize) -> Option<Spans> {
        let nfa = NFA::new(pattern).unwrap();
        let groups = nfa.group_info().all_group_len();
        search(&nfa, text, from, false, groups).unwrap()
    }

    fn theirs(pattern: &str, text: &str, from: usize) -> Option<Spans> {
        let regex = regex::Regex::new(pattern).unwrap();
        let found = regex.captures_at(text, from)?;
        Some(found.iter().map(|group| group.map(|group| group.range())).collect())
    }

    #[test]
    fn a_simulated_search_agrees_with_the_library() {
        let patterns = [
            "a",
            "a*",
            "(a|ab)(c|bcd)(d*)",
            "(a*)(b|abc)",
            "^a|b$",
            r"\bä\w+\b",
            "(?i)Ä",
            "(?m)^b$",
            "(?s)a.b",
            "",
            "(a{1,3}){1,3}b|c",
            "[ab]*a[ab]{3}c",
            "(?P<x>x)?y",
            r"\d{2,4}-(\d+)",
            "a+?",
            "(|a)+",
            "(a|b)*?c",
        ];
        let texts = [
            "",
            "a",
            "abcd",
            "äöü ärger b",
            "aab\nb\na.b",
            "xy y",
            "2024-11 12-3",
            "aaaaaaabac",
            "ÄÖ",
            "a\u{301}é",
        ];
        for pattern in patterns {
            for text in texts {
                for (from, _) in text.char_indices() {
                    assert_eq!(
                        ours(pattern, text, from),
                        theirs(pattern, text, from),
                        "{pattern} in {text:?} from {from}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn random_patterns_agree_with_the_library(pattern in "[ab()|*+?.^$]{0,10}", text in "[abä]{0,12}") {
            if regex::Regex::new(&pattern).is_ok() {
                prop_assert_eq!(ours(&pattern, &text, 0), theirs(&pattern, &text, 0));
            }
        }
    }
}
