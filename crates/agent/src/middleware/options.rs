//! Reads and checks the options of a middleware: types, bounds and unknown keys.

use std::ops::RangeInclusive;
use valvehouse_core::limits::{clipped, unknown_keys};
use valvehouse_json::Json;

/// A reader of options, which collects all problems.
pub(crate) struct Options<'a> {
    of: &'a str,
    given: &'a Json,
    known: Vec<&'static str>,
    problems: Vec<String>,
}

impl<'a> Options<'a> {
    /// Creates a reader for the options of this middleware; null means no options.
    pub(crate) fn of(of: &'a str, given: &'a Json) -> Self {
        let mut problems = Vec::new();
        if !matches!(given, Json::Object(_) | Json::Null) {
            problems.push(format!("has {} as its options: give a map", clipped(given)));
        }
        Self { of, given, known: Vec::new(), problems }
    }

    /// Returns an integer.
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

    /// Returns a number.
    pub(crate) fn decimal(&mut self, key: &'static str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let Some(given) = self.get(key) else { return default };
        given.as_f64().filter(|number| range.contains(number)).unwrap_or_else(|| {
            self.wrong(key, &given, &format!("give a number from {} to {}", range.start(), range.end()));
            default
        })
    }

    /// Returns a boolean.
    pub(crate) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let Some(given) = self.get(key) else { return default };
        given.as_bool().unwrap_or_else(|| {
            self.wrong(key, &given, "give true or false");
            default
        })
    }

    /// Returns the value of one of several words.
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

    /// Returns a list of texts, `None` if the key is missing.
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

    /// Returns the entries of a map, none if the key is missing.
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

    /// Adds a problem, a sentence that starts with the middleware's name.
    pub(crate) fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    fn wrong(&mut self, key: &str, given: &Json, instead: &str) {
        self.problem(format!("has {} as its `{key}`: {instead}", clipped(given)));
    }

    /// Returns all problems, once all keys are read.
    pub(crate) fn done(mut self) -> Result<(), String> {
        self.problems.extend(unknown_keys(self.given, &self.known));
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(format!("middleware {} {}", self.of, self.problems.join("; it ")))
    }
}
