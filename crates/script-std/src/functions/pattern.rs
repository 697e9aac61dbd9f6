//! A cache of compiled patterns, because scripts write patterns where they use them.

use super::argument::RhaiResultOf;
use super::simulation::{self, Spans};
use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};
use regex_automata::Input;
use regex_automata::hybrid::{dfa, regex as hybrid};
use regex_automata::nfa::thompson::NFA;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};
use valvehouse_core::BoxError;
use valvehouse_dialect::budget;
use valvehouse_dialect::call::redaction;

/// The size limits of a compiled pattern, in units of 256 KiB; the last is the library's own limit.
const SIZES: [usize; 4] = [1, 4, 16, 40];
const STEP: usize = 256 << 10;
/// The capacity of the cache, in units of 256 KiB: 128 average patterns, or fewer large ones.
const CAPACITY: usize = 128;
/// The size of the state cache of a lazy search, per direction, in bytes.
const LAZY_CACHE: usize = 1 << 20;
/// The maximum number of state caches per pattern, for concurrent searches.
const MAX_CACHES: usize = 2;
/// The maximum length of a pattern, in bytes: parsing takes about a hundred times as much memory.
const MAX_LENGTH: usize = 64 << 10;
/// The number of groups up to which the memory of a search is not measured.
const UNMEASURED_GROUPS: usize = 20;
/// The operations that are charged for compiling, per unit of the resulting size.
const OPERATIONS_OF_A_STEP: u64 = 500;

/// A compiled pattern, and the automata of its searches.
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// The automaton of a search; `None` if it would be too large.
    nfa: OnceLock<Option<NFA>>,
    /// A faster automaton for large texts, which gives up if it becomes slow.
    lazy: OnceLock<Option<hybrid::Regex>>,
    caches: Mutex<Vec<hybrid::Cache>>,
}

impl Pattern {
    fn new(regex: Regex) -> Self {
        Self { regex, nfa: OnceLock::new(), lazy: OnceLock::new(), caches: Mutex::default() }
    }

    /// Returns the span of the leftmost match at or after a position.
    ///
    /// # Errors
    ///
    /// Returns an error if the search exceeds a budget.
    pub(super) fn find_at(&self, text: &str, from: usize) -> RhaiResultOf<Option<std::ops::Range<usize>>> {
        if self.is_bounded(text.len() - from, 1) {
            let found = self.regex.find_at(text, from).map(|found| found.range());
            charge_search(text, from, found.as_ref())?;
            return Ok(found);
        }
        match self.span_at(text, from) {
            Some(span) => {
                charge_search(text, from, span.as_ref())?;
                Ok(span)
            }
            None => Ok(self.simulated(text, from, false, 1)?.and_then(|spans| spans.into_iter().next()?)),
        }
    }

    /// Returns the spans of the leftmost match and of its groups.
    ///
    /// # Errors
    ///
    /// Returns an error if the search exceeds a budget.
    pub(super) fn captures_at(&self, text: &str, from: usize) -> RhaiResultOf<Option<Spans>> {
        let groups = self.regex.captures_len();
        if groups > UNMEASURED_GROUPS {
            // The library stores the positions of all groups for each state of the automaton.
            let states = self.nfa().map_or(usize::MAX, |nfa| nfa.states().len());
            let bytes = states.saturating_mul(groups).saturating_mul(4 * size_of::<usize>());
            budget::reserve(bytes).map_err(budget::ended)?;
        }
        if self.is_bounded(text.len() - from, groups) {
            let found = self.regex.captures_at(text, from);
            charge_search(text, from, found.as_ref().and_then(|it| it.get(0)).map(|it| it.range()).as_ref())?;
            let spans = |found: regex::Captures<'_>| found.iter().map(|it| it.map(|it| it.range())).collect();
            return Ok(found.map(spans));
        }
        let span = self.span_at(text, from);
        if let Some(span) = &span {
            charge_search(text, from, span.as_ref())?;
        }
        match span {
            Some(None) => Ok(None),
            Some(Some(span)) if groups == 1 => Ok(Some(vec![Some(span)])),
            Some(Some(span)) => self.simulated(text, span.start, true, groups),
            None => self.simulated(text, from, false, groups),
        }
    }

    /// Returns `true` if a search is short enough, regardless of the engine that the library chooses.
    fn is_bounded(&self, length: usize, groups: usize) -> bool {
        /// The number of steps of a search per microsecond.
        const STEPS: usize = 50;
        /// The number of operations of a budget per microsecond of such a search.
        const OPERATIONS: u64 = 10;
        /// The maximum time of a search without a check of the budgets, in microseconds.
        const MAX_MICROS: usize = 500_000;
        let micros = (budget::operation_limit() / OPERATIONS).min(MAX_MICROS as u64) as usize;
        // Avoids building the automaton for short texts.
        if length <= 64 {
            return true;
        }
        self.nfa().is_some_and(|nfa| {
            let steps = nfa.states().len().saturating_mul(length).saturating_mul(1 + groups / 4);
            steps <= micros.saturating_mul(STEPS)
        })
    }

    fn nfa(&self) -> Option<&NFA> {
        let build = || {
            NFA::compiler()
                .configure(NFA::config().nfa_size_limit(Some(64 * STEP)))
                .build(self.regex.as_str())
                .ok()
                .inspect(|nfa| self.has_grown(nfa.memory_usage()))
        };
        self.nfa.get_or_init(build).as_ref()
    }

    /// Adds the size of the automata of this pattern to the size of the cache.
    fn has_grown(&self, bytes: usize) {
        CACHE.lock().grow(self, bytes.div_ceil(STEP));
    }

    /// Returns the span of the leftmost match; `None` if the search gave up.
    fn span_at(&self, text: &str, from: usize) -> Option<Option<std::ops::Range<usize>>> {
        let lazy = self.lazy.get_or_init(|| {
            let states = self.nfa()?.states().len();
            let config = dfa::Config::new()
                .cache_capacity(LAZY_CACHE)
                .skip_cache_capacity_check(true)
                .unicode_word_boundary(true)
                .minimum_cache_clear_count(Some(2))
                .minimum_bytes_per_state(Some(10.max(states / 4)));
            let lazy = hybrid::Regex::builder().dfa(config).build(self.regex.as_str()).ok()?;
            // One automaton per direction, and the caches of their states.
            let automata = lazy.forward().get_nfa().memory_usage() + lazy.reverse().get_nfa().memory_usage();
            self.has_grown(automata + 2 * MAX_CACHES * LAZY_CACHE);
            Some(lazy)
        });
        let lazy = lazy.as_ref()?;
        let cache = self.caches.lock().pop();
        let mut cache = cache.unwrap_or_else(|| lazy.create_cache());
        let found = lazy.try_search(&mut cache, &Input::new(text).range(from..));
        let mut caches = self.caches.lock();
        if caches.len() < MAX_CACHES {
            caches.push(cache);
        }
        drop(caches);
        found.ok().map(|found| found.map(|found| found.range()))
    }

    fn simulated(
        &self,
        text: &str,
        from: usize,
        is_anchored: bool,
        groups: usize,
    ) -> RhaiResultOf<Option<Spans>> {
        match self.nfa() {
            Some(nfa) => simulation::search(nfa, text, from, is_anchored, groups),
            None => Err(super::argument::fail(
                "regex",
                "cannot search with a pattern of this size in a text of this length; use a smaller pattern \
                 or a shorter text",
            )),
        }
    }

    /// Calls a function for all matches from left to right, as `regex` finds them: an empty match does not directly
    /// follow another match.
    pub(super) fn each(
        &self,
        text: &str,
        mut each: impl FnMut(&Spans) -> RhaiResultOf<()>,
        with_groups: bool,
    ) -> RhaiResultOf<()> {
        let (mut from, mut last_end) = (0, None);
        while from <= text.len() {
            let found = match with_groups {
                true => self.captures_at(text, from)?,
                false => self.find_at(text, from)?.map(|span| vec![Some(span)]),
            };
            let Some(spans) = found else { break };
            let Some(Some(whole)) = spans.first().cloned() else { break };
            if whole.is_empty() && last_end == Some(whole.end) {
                from = next_character(text, whole.end);
                continue;
            }
            each(&spans)?;
            (from, last_end) = (whole.end, Some(whole.end));
        }
        Ok(())
    }
}

/// Charges a search that ended with this match, or without one at the end of the text.
fn charge_search(text: &str, from: usize, found: Option<&std::ops::Range<usize>>) -> RhaiResultOf<()> {
    /// The time of a search for each byte, in nanoseconds.
    const SEARCH: u64 = 4;
    let end = found.map_or(text.len(), |found| found.end);
    // Short matches are charged for the values that they become.
    budget::charge(1).and_then(|()| budget::charge_bytes(end - from, SEARCH)).map_err(budget::ended)
}

/// Returns the position after the character at a position.
fn next_character(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// Returns the compiled pattern, from the cache if possible.
pub(super) fn compiled(pattern: &str) -> Result<Arc<Pattern>, String> {
    if let Some(regex) = CACHE.lock().get(pattern) {
        return Ok(regex);
    }
    if pattern.len() > MAX_LENGTH {
        return Err(format!(
            "the pattern exceeded its limit of {} KiB: it has {} bytes",
            MAX_LENGTH >> 10,
            pattern.len()
        ));
    }
    // Compiled without the lock: two calls may compile the same pattern, but none waits.
    let (regex, size) = build(pattern).map_err(|error| explain(pattern, &error))?;
    // An exceeded budget ends the call at its next operation.
    let _ = budget::charge(size as u64 * OPERATIONS_OF_A_STEP);
    let regex = Arc::new(Pattern::new(regex));
    CACHE.lock().put(pattern, regex.clone(), size);
    Ok(regex)
}

/// Checks that a pattern is valid, and keeps it with the automaton of its searches, so that no call is charged for
/// them.
///
/// # Errors
/// Returns the reason why the pattern is invalid, and how to fix it.
pub fn check(pattern: &str) -> Result<(), BoxError> {
    _ = compiled(pattern)?.nfa();
    Ok(())
}

/// Compiles with the smallest sufficient size limit, so that the cached size is accurate.
fn build(pattern: &str) -> Result<(Regex, usize), regex::Error> {
    let mut result = Err(regex::Error::CompiledTooBig(0));
    for size in SIZES {
        result = RegexBuilder::new(pattern).size_limit(size * STEP).dfa_size_limit(1 << 20).build();
        match &result {
            Err(regex::Error::CompiledTooBig(_)) => {}
            _ => return result.map(|regex| (regex, size)),
        }
    }
    result.map(|regex| (regex, CAPACITY))
}

fn explain(pattern: &str, error: &regex::Error) -> String {
    let error = error.to_string();
    // The library's message shows the pattern with a caret; its last line is the reason.
    let reason = error.lines().last().unwrap_or(&error);
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    let reason = if reason.starts_with("look-around") {
        "look-around (`(?=`, `(?!`, `(?<=`, `(?<!`) is not supported, since every pattern runs in linear \
         time; match the surroundings in separate groups and restore them with `$1`, or check them in a \
         closure as the replacement"
    } else if reason.starts_with("backreferences") {
        "backreferences (`\\1`) are not supported, since every pattern runs in linear time; capture both \
         places in separate groups and compare them in the script"
    } else if reason.contains("size limit") {
        "the compiled pattern is too large; use smaller repetitions, or ASCII classes such as `[0-9]` for \
         `\\d`"
    } else {
        reason
    };
    format!("pattern `{}`: {reason}", redaction::excerpt(pattern))
}

#[derive(Default)]
struct Cache {
    entries: HashMap<Box<str>, Entry, foldhash::fast::RandomState>,
    size: usize,
    clock: u64,
}

struct Entry {
    regex: Arc<Pattern>,
    size: usize,
    used: u64,
}

impl Cache {
    fn get(&mut self, pattern: &str) -> Option<Arc<Pattern>> {
        let entry = self.entries.get_mut(pattern)?;
        self.clock += 1;
        entry.used = self.clock;
        Some(entry.regex.clone())
    }

    fn put(&mut self, pattern: &str, regex: Arc<Pattern>, size: usize) {
        self.clock += 1;
        let entry = Entry { regex, size, used: self.clock };
        let old = self.entries.insert(pattern.into(), entry);
        self.size = self.size + size - old.map_or(0, |old| old.size);
        while self.size > CAPACITY {
            self.forget_oldest();
        }
    }

    /// Increases the size of a cached pattern, and evicts others for it.
    fn grow(&mut self, pattern: &Pattern, size: usize) {
        let Some(entry) = self.entries.get_mut(pattern.regex.as_str()) else { return };
        if !std::ptr::eq(&raw const *entry.regex, pattern) {
            return;
        }
        entry.size += size;
        self.size += size;
        while self.size > CAPACITY && self.entries.len() > 1 {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
        let Some(pattern) = oldest.map(|(pattern, _)| pattern.clone()) else { return };
        self.size -= self.entries.remove(&pattern).map_or(0, |entry| entry.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_pattern_syntax_is_reported_with_a_hint() {
        for (pattern, hint) in [
            ("(?=a)", "separate groups"),
            ("(?<!a)b", "linear time"),
            (r"(a)\1", "compare them in the script"),
            ("(", "unclosed group"),
            (r"\w{1000}{50}", "too large"),
        ] {
            let error = check(pattern).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(hint) && error.contains(pattern), "{error}");
        }
        check(r"(?ims)^[\w.+-]{1,64}@(?P<host>[\w-]{1,63})$").unwrap();
    }

    #[test]
    fn the_pattern_cache_evicts_the_least_recently_used() {
        let mut cache = Cache::default();
        let regex = Arc::new(Pattern::new(Regex::new("a").unwrap()));
        for number in 0..CAPACITY {
            cache.put(&number.to_string(), regex.clone(), 1);
        }
        cache.get("0").unwrap();
        cache.put("large", regex.clone(), 16);
        assert!(cache.get("0").is_some() && cache.get("large").is_some());
        assert!(cache.get("1").is_none() && cache.get("17").is_some());
        assert_eq!(cache.size, CAPACITY);
    }

    #[test]
    fn memory_of_searches_counts() {
        let text = "ab".repeat(5_000);
        let before = CACHE.lock().entries.get("[ab]{40}c").map_or(0, |entry| entry.size);
        let pattern = compiled("[ab]{40}c").unwrap();
        let compiled = CACHE.lock().entries["[ab]{40}c"].size;
        assert!(before <= compiled);
        pattern.nfa().unwrap();
        pattern.span_at(&text, 0);
        let searched = CACHE.lock().entries["[ab]{40}c"].size;
        assert!(searched >= compiled + 1 + 2 * MAX_CACHES * LAZY_CACHE / STEP, "{compiled} {searched}");

        // A pattern that is not in the cache, or was compiled twice, is not counted.
        let other = Pattern::new(Regex::new("[ab]{40}c").unwrap());
        other.nfa().unwrap();
        assert_eq!(CACHE.lock().entries["[ab]{40}c"].size, searched);
    }
}
