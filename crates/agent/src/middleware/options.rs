//! Reads the options of a middleware: types, bounds, and keys that nobody knows.

use std::ops::RangeInclusive;
use valvehouse_core::limits::{clipped, unknown_keys};
use valvehouse_json::Json;

/// Options while they are read. Everything that is wrong is told at once, in the end.
pub(crate) struct Options<'a> {
    of: &'a str,
    given: &'a Json,
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl<'a> Options<'a> {
    /// The options of this middleware; null gives none.
    pub(crate) fn of(of: &'a str, given: &'a Json) -> Self {
        let mut problems = Vec::new();
        if !matches!(given, Json::Object(_) | Json::Null) {
            problems.push(format!("has {} as its options: give a map", clipped(given)));
        }
        Self { of, given, known: Vec::new(), problems }
    }

    /// A whole number.
    pub(crate) fn number(&mut self, key: &'static str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(given) = self.get(key) else { return default };
        let number = given.as_i64().and_then(|number| u64::try_from(number).ok());
        number.filter(|number| range.contains(number)).unwrap_or_else(|| {
            self.wrong(
                key,
                &given,
                &format!("give a whole number from {} to {}", range.start(), range.end()),
            );
            default
        })
    }

    /// A number that need not be whole.
    pub(crate) fn decimal(&mut self, key: &'static str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let Some(given) = self.get(key) else { return default };
        given.as_f64().filter(|number| range.contains(number)).unwrap_or_else(|| {
            self.wrong(key, &given, &format!("give a number from {} to {}", range.start(), range.end()));
            default
        })
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let Some(given) = self.get(key) else { return default };
        given.as_bool().unwrap_or_else(|| {
            self.wrong(key, &given, "give true or false");
            default
        })
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)], default: T) -> T {
        let Some(given) = self.get(key) else { return default };
        let found = words.iter().find(|(word, _)| given.as_str() == Some(word));
        found.map(|(_, meaning)| *meaning).unwrap_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(key, &given, &format!("give one of {}", known.join(", ")));
            default
        })
    }

    /// Returns a text, or the default.
    pub(crate) fn text(&mut self, key: &'static str, default: &str) -> String {
        let Some(given) = self.get(key) else { return default.to_owned() };
        given.as_str().map(str::to_owned).unwrap_or_else(|| {
            self.wrong(key, &given, "give text");
            default.to_owned()
        })
    }

    /// A list of texts; none where the key is not there.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let given = self.get(key)?;
        let items = given.items();
        let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
        let is_list = given.as_array().is_some();
        texts.filter(|texts| is_list && texts.iter().all(|text| !text.is_empty())).or_else(|| {
            self.wrong(key, &given, "give a list of texts");
            None
        })
    }

    /// The entries of a map; none where the key is not there.
    pub(crate) fn map(&mut self, key: &'static str) -> Vec<(String, Json)> {
        let Some(given) = self.get(key) else { return Vec::new() };
        if given.as_object().is_none() {
            self.wrong(key, &given, "give a map");
        }
        let entries = given.entries();
        entries.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    /// Returns any value at a key.
    pub(crate) fn get(&mut self, key: &'static str) -> Option<Json> {
        self.known.push(key);
        self.given.get(key).filter(|given| !given.is_null())
    }

    /// One more thing that is wrong; it continues the middleware's name.
    pub(crate) fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn wrong(&mut self, key: &str, given: &Json, instead: &str) {
        self.problem(format!("has {} as its `{key}`: {instead}", clipped(given)));
    }

    /// Everything that is wrong, once all keys are read.
    pub(crate) fn done(mut self) -> Result<(), String> {
        self.problems.extend(unknown_keys(self.given, &self.known));
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(format!("middleware {} {}", self.of, self.problems.join("; it ")))
    }
}
