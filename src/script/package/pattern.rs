//! Compiled patterns, kept for the next call: scripts write the pattern where they use it.

use crate::script::call;
use parking_lot::Mutex;
use regex::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// What a compiled pattern may need, in steps of 256 KiB; the last is the library's own limit.
const SIZES: [usize; 4] = [1, 4, 16, 40];
const STEP: usize = 256 << 10;
/// How many steps are kept in all: 512 usual patterns, or fewer large ones.
const CAPACITY: usize = 512;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// The pattern, compiled now or before.
pub(super) fn compiled(pattern: &str) -> Result<Arc<Regex>, String> {
    if let Some(regex) = CACHE.lock().get(pattern) {
        return Ok(regex);
    }
    // Compiled beside the lock: two calls may compile the same pattern, none waits for another's.
    let (regex, size) = build(pattern).map_err(|error| explain(pattern, &error))?;
    let regex = Arc::new(regex);
    CACHE.lock().put(pattern, regex.clone(), size);
    Ok(regex)
}

/// Whether a pattern will work; if not, why, and what to write instead.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    compiled(pattern).map(|_| ())
}

/// Compiles within the smallest size that will do, so that the cache knows what it keeps.
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
    // The library draws the pattern with a caret; its last line is the reason.
    let reason = error.lines().last().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    let reason = if reason.starts_with("look-around") {
        "look-around (`(?=`, `(?!`, `(?<=`, `(?<!`) is not supported, so that every pattern runs in linear \
         time; match the surroundings in groups of their own and put them back with `$1`, or look at them \
         in a closure given as the replacement"
    } else if reason.starts_with("backreferences") {
        "backreferences (`\\1`) are not supported, so that every pattern runs in linear time; capture both \
         places in groups of their own and compare them in the script"
    } else if reason.contains("size limit") {
        "it is too large once compiled; repeat less, or use ASCII classes such as `[0-9]` for `\\d`"
    } else {
        reason
    };
    format!("pattern `{}`: {reason}", call::excerpt(pattern))
}

#[derive(Default)]
struct Cache {
    entries: HashMap<Box<str>, Entry, foldhash::fast::RandomState>,
    size: usize,
    clock: u64,
}

struct Entry {
    regex: Arc<Regex>,
    size: usize,
    used: u64,
}

impl Cache {
    fn get(&mut self, pattern: &str) -> Option<Arc<Regex>> {
        let entry = self.entries.get_mut(pattern)?;
        self.clock += 1;
        entry.used = self.clock;
        Some(entry.regex.clone())
    }

    fn put(&mut self, pattern: &str, regex: Arc<Regex>, size: usize) {
        self.clock += 1;
        let entry = Entry { regex, size, used: self.clock };
        let old = self.entries.insert(pattern.into(), entry);
        self.size = self.size + size - old.map_or(0, |old| old.size);
        while self.size > CAPACITY {
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
    fn what_is_missing_comes_with_a_hint() {
        for (pattern, hint) in [
            ("(?=a)", "groups of their own"),
            ("(?<!a)b", "linear time"),
            (r"(a)\1", "compare them in the script"),
            ("(", "unclosed group"),
            (r"\w{1000}{50}", "too large"),
        ] {
            let error = check(pattern).unwrap_err();
            assert!(error.contains(hint) && error.contains(pattern), "{error}");
        }
        check(r"(?ims)^[\w.+-]{1,64}@(?P<host>[\w-]{1,63})$").unwrap();
    }

    #[test]
    fn the_cache_forgets_what_was_not_used_for_longest() {
        let mut cache = Cache::default();
        let regex = Arc::new(Regex::new("a").unwrap());
        for number in 0..CAPACITY {
            cache.put(&number.to_string(), regex.clone(), 1);
        }
        cache.get("0").unwrap();
        cache.put("large", regex.clone(), 16);
        assert!(cache.get("0").is_some() && cache.get("large").is_some());
        assert!(cache.get("1").is_none() && cache.get("17").is_some());
        assert_eq!(cache.size, CAPACITY);
    }
}
