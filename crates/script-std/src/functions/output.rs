//! Limits the results of natives: nothing interrupts a native, so it must not build more than a script may hold.

use super::argument::{RhaiResultOf, fail};
use rhai::{Array, Dynamic, ImmutableString};
use std::time::{Duration, Instant};
use valvehouse_dialect::answer::ThrownError;
use valvehouse_dialect::budget::{self, WALK};
use valvehouse_dialect::standard::shortened_text;
use valvehouse_dialect::value::json_of;
use valvehouse_dialect::value::limits::{ARRAY, max_text};
use valvehouse_json::{Json, MAX_DEPTH};

/// The maximum length of a text that a native builds, in bytes.
pub(super) const MAX_BYTES: usize = 8 << 20;
/// The maximum number of elements in an array that a native builds.
pub(super) const MAX_ITEMS: usize = ARRAY;

/// Checks the size of a result in bytes before it is built.
pub(super) fn check_size(function: &str, bytes: usize) -> RhaiResultOf<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(fail(
        function,
        format!(
            "the result would have at least {bytes} bytes and exceed its limit; it may have at most 8 MiB"
        ),
    ))
}

/// Checks the length of a text against the limit of scripts, with an error that the script can catch.
pub(super) fn check_text(function: &str, bytes: usize) -> RhaiResultOf<()> {
    let most = max_text();
    if bytes <= most {
        return Ok(());
    }
    Err(fail(function, format!("the text has {bytes} bytes; a text may have at most {most}")))
}

/// Charges this number of passes over a text in advance.
pub(super) fn check_walk(text: &str, times: u64) -> RhaiResultOf<()> {
    budget::charge_bytes(text.len(), times * WALK).map_err(budget::ended)
}

/// A text that grows up to the limit.
pub(super) struct Text {
    function: &'static str,
    text: String,
}

impl Text {
    pub(super) fn new(function: &'static str) -> Self {
        Self { function, text: String::new() }
    }

    pub(super) fn push(&mut self, part: &str) -> RhaiResultOf<()> {
        check_size(self.function, self.text.len() + part.len())?;
        self.text.push_str(part);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// An array of texts, arrays of texts and `()`, limited in elements and bytes.
pub(super) struct List {
    function: &'static str,
    items: Array,
    nested: usize,
    bytes: usize,
}

impl List {
    pub(super) fn new(function: &'static str) -> Self {
        Self { function, items: Array::new(), nested: 0, bytes: 0 }
    }

    pub(super) fn push(&mut self, text: Option<&str>) -> RhaiResultOf<()> {
        self.bytes += text.map_or(0, str::len);
        self.add(text.map_or(Dynamic::UNIT, Into::into))
    }

    pub(super) fn push_list(&mut self, list: Self) -> RhaiResultOf<()> {
        self.bytes += list.bytes;
        self.nested += list.items.len();
        self.add(list.items.into())
    }

    fn add(&mut self, item: Dynamic) -> RhaiResultOf<()> {
        check_size(self.function, self.bytes)?;
        if self.items.len() + self.nested >= MAX_ITEMS {
            let why = format!("the result would exceed its limit of {MAX_ITEMS} elements");
            return Err(fail(self.function, why));
        }
        self.items.push(item);
        Ok(())
    }

    pub(super) fn finish(self) -> Array {
        self.items
    }
}

/// Checks the budgets of the running call while a native loops.
pub(super) struct Pulse {
    last: Instant,
}

impl Pulse {
    const EVERY: Duration = Duration::from_millis(1);

    pub(super) fn new() -> Self {
        Self { last: Instant::now() }
    }

    /// Fails if a budget of the running call is used up.
    pub(super) fn beat(&mut self) -> RhaiResultOf<()> {
        if self.last.elapsed() < Self::EVERY {
            return Ok(());
        }
        budget::charge(1).map_err(budget::ended)?;
        self.last = Instant::now();
        Ok(())
    }
}

/// Returns the value as JSON text, compact or indented. Its length is measured first: shared containers may occur
/// many times, so a small value may have a huge text.
///
/// # Errors
/// Returns an error if the text would be too long.
pub fn json(function: &str, value: &Json, indent: Option<usize>) -> RhaiResultOf<String> {
    let mut measure = Measure { indent, left: MAX_BYTES };
    measure.value(value, 1).map_err(|excess| fail(function, excess))?;
    match indent {
        Some(indent) => Ok(value.pretty(indent)),
        None => {
            let bytes = value.encode().map_err(|error| fail(function, error))?;
            String::from_utf8(bytes).map_err(|error| fail(function, error))
        }
    }
}

/// The reason why a value is not written as JSON.
#[derive(Debug, thiserror::Error)]
enum Excess {
    #[error("the JSON would exceed its limit of 8 MiB")]
    Bytes,
    #[error("the value exceeded its limit of {MAX_DEPTH} nested levels")]
    Depth,
}

/// Subtracts the minimum length of values from the remaining length.
struct Measure {
    indent: Option<usize>,
    left: usize,
}

impl Measure {
    fn value(&mut self, value: &Json, depth: usize) -> Result<(), Excess> {
        if depth > MAX_DEPTH + 1 {
            return Err(Excess::Depth);
        }
        // A comma, or a line break and the indentation.
        let lead = self.indent.map_or(1, |indent| indent * depth + 1);
        match value {
            Json::Text(text) => {
                // Each is an escape of six characters.
                let control = text.bytes().filter(|byte| *byte < b' ').count();
                self.spend(text.len() + control + 2)
            }
            Json::Array(array) => {
                self.spend(2)?;
                array.with(|items| {
                    items.iter().try_for_each(|item| {
                        self.spend(lead)?;
                        self.value(item, depth + 1)
                    })
                })
            }
            Json::Object(object) => {
                self.spend(2)?;
                let mut result = Ok(());
                object.for_each(|key, value| {
                    if result.is_ok() {
                        result = self.spend(key.len() + 3 + lead).and_then(|()| self.value(value, depth + 1));
                    }
                });
                result
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => self.spend(1),
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Excess> {
        self.left = self.left.checked_sub(bytes).ok_or(Excess::Bytes)?;
        Ok(())
    }
}

/// Returns the printed text of a value: strings unchanged, `()` as nothing, containers as JSON.
pub(super) fn text(function: &str, value: &Dynamic) -> RhaiResultOf<ImmutableString> {
    if let Ok(text) = value.as_immutable_string_ref() {
        return Ok(text.clone());
    }
    match json_of(value) {
        Ok(Json::Null) => Ok(ImmutableString::new()),
        Ok(Json::Text(text)) => Ok(text.as_str().into()),
        Ok(container @ (Json::Array(_) | Json::Object(_))) => Ok(json(function, &container, None)?.into()),
        Ok(_) => Ok(value.to_string().into()),
        Err(_) if let Some(thrown) = value.read_lock::<ThrownError>() => {
            Ok(thrown.rejection.message.as_str().into())
        }
        Err(_) if !value.is_array() && !value.is_map() => Ok(shortened_text(value, MAX_BYTES).into()),
        Err(error) => Err(error),
    }
}
