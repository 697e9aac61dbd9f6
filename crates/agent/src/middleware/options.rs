//! Reads and checks the options of a middleware: types, bounds and unknown keys.

use std::ops::RangeInclusive;
use valvehouse_core::limits::{clipped, unknown_keys};
use valvehouse_core::schema::{Coercion, ValueKind, ValueShape};
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
        let shape = ValueShape::new(ValueKind::Integer).between(range);
        let number = self.checked(key, &shape).and_then(|number| number.as_i64()?.try_into().ok());
        number.unwrap_or(default)
    }

    /// Returns a number.
    pub(crate) fn decimal(&mut self, key: &'static str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let shape = ValueShape::new(ValueKind::Number).between(range);
        self.checked(key, &shape).and_then(|number| number.as_f64()).unwrap_or(default)
    }

    /// Returns a boolean.
    pub(crate) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let flag = self.checked(key, &ValueShape::new(ValueKind::Boolean));
        flag.and_then(|flag| flag.as_bool()).unwrap_or(default)
    }

    /// Returns the value of one of several words.
    pub(crate) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)], default: T) -> T {
        let shape = ValueShape::new(ValueKind::String).one_of(words.iter().map(|(word, _)| *word));
        let given = self.checked(key, &shape);
        let meant = words.iter().find(|(word, _)| given.as_ref().and_then(Json::as_str) == Some(word));
        meant.map_or(default, |(_, meaning)| *meaning)
    }

    /// Returns a text, or the default.
    pub(crate) fn text(&mut self, key: &'static str, default: &str) -> String {
        let text = self.checked(key, &ValueShape::new(ValueKind::String));
        text.as_ref().and_then(Json::as_str).unwrap_or(default).to_owned()
    }

    /// Returns a list of texts, none of them empty; `None` if the key is missing.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let items = Box::new(ValueShape::new(ValueKind::String));
        let texts = self.checked(key, &ValueShape::new(ValueKind::Array(Some(items))))?;
        if texts.items().iter().any(Json::is_empty) {
            self.problem(format!("has an empty text in `{key}`: remove it"));
        }
        Some(texts.items().iter().map(|text| text.str_or_empty().to_owned()).collect())
    }

    /// Returns the entries of a map, none if the key is missing.
    pub(crate) fn map(&mut self, key: &'static str) -> Vec<(String, Json)> {
        let map = self.checked(key, &ValueShape::new(ValueKind::Object(None)));
        let entries = map.iter().flat_map(Json::entries);
        entries.map(|(name, value)| (name.into(), value)).collect()
    }

    /// Returns the value at a key, if it has this shape.
    fn checked(&mut self, key: &'static str, shape: &ValueShape) -> Option<Json> {
        self.known.push(key);
        let given = self.given.get(key).filter(|given| !given.is_null())?;
        let checked = shape.check(key, &given, Coercion::Exact);
        checked.map_err(|error| self.problem(format!("has an invalid option: {error}"))).ok()
    }

    /// Adds a problem, a sentence that starts with the middleware's name.
    pub(crate) fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Returns all problems, once all keys are read.
    pub(crate) fn done(mut self) -> Result<(), String> {
        self.problems
            .extend(unknown_keys(self.given, &self.known).into_iter().map(|unknown| unknown.message));
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(format!("middleware {} {}", self.of, self.problems.join("; it ")))
    }
}
