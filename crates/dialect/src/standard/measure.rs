//! Measures values, counting a referenced value once per reference.

use crate::value::{List, Map};
use rhai::{Dynamic, Engine, EvalAltResult, FnPtr, Position};
use valvehouse_json::Json;

/// The maximum nesting that is measured; deeper values count as too large.
const MAX_DEPTH: usize = 256;

/// The size of values: bytes of text, and elements of arrays and maps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) bytes: usize,
    pub(super) elements: usize,
}

/// The way in which live values and captured variables are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    /// A live value counts as one element, because it is referenced, not copied.
    Reference,
    /// A live value counts with everything that its JSON contains.
    Content,
    /// Like `Content`, and the variables that closures capture count too.
    Captured,
}

/// The limits of an engine for one value.
pub(super) struct Scale {
    size: Size,
    max: Size,
    live: Live,
}

/// The limit that a value exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooLarge {
    Text,
    Array,
}

impl TooLarge {
    /// Returns the error with the text that Rhai uses, which no script can catch.
    pub(super) fn into_error(self) -> Box<EvalAltResult> {
        let what = match self {
            Self::Text => "Length of string",
            Self::Array => "Size of array/BLOB",
        };
        EvalAltResult::ErrorDataTooLarge(what.into(), Position::NONE).into()
    }
}

impl Scale {
    pub(super) fn of(engine: &Engine, live: Live) -> Self {
        let limit = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        let max = Size { bytes: limit(engine.max_string_size()), elements: limit(engine.max_array_size()) };
        Self { size: Size::default(), max, live }
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// Returns the exceeded limit, without measuring the rest of the value.
    pub(super) fn add(&mut self, value: &Dynamic) -> Result<(), TooLarge> {
        self.add_at(value, 0)
    }

    fn add_at(&mut self, value: &Dynamic, depth: usize) -> Result<(), TooLarge> {
        if depth > MAX_DEPTH {
            return Err(TooLarge::Array);
        }
        if let Ok(text) = value.as_immutable_string_ref() {
            return self.bytes(text.len());
        }
        if let Ok(array) = value.as_array_ref() {
            self.elements(array.len())?;
            return array.iter().try_for_each(|item| self.add_at(item, depth + 1));
        }
        if let Ok(map) = value.as_map_ref() {
            self.elements(map.len())?;
            return map.iter().try_for_each(|(key, value)| {
                self.bytes(key.len())?;
                self.add_at(value, depth + 1)
            });
        }
        if let Ok(blob) = value.as_blob_ref() {
            return self.elements(blob.len());
        }
        if self.live == Live::Reference {
            return Ok(());
        }
        if let Some(list) = value.read_lock::<List>() {
            return self.json(&Json::Array(list.array.clone()), depth + 1);
        }
        if let Some(map) = value.read_lock::<Map>() {
            return self.json(&Json::Object(map.object.clone()), depth + 1);
        }
        if let Some(function) = value.read_lock::<FnPtr>() {
            self.bytes(function.fn_name().len())?;
            if self.live == Live::Captured {
                return function.curry().iter().try_for_each(|held| self.add_at(held, depth + 1));
            }
        }
        Ok(())
    }

    fn json(&mut self, json: &Json, depth: usize) -> Result<(), TooLarge> {
        if depth > MAX_DEPTH {
            return Err(TooLarge::Array);
        }
        match json {
            Json::Text(text) => self.bytes(text.len()),
            Json::Array(array) => array.with(|items| {
                self.elements(items.len())?;
                items.iter().try_for_each(|item| self.json(item, depth + 1))
            }),
            Json::Object(object) => {
                self.elements(object.len())?;
                let mut result = Ok(());
                object.for_each(|key, value| {
                    if result.is_ok() {
                        result = self.bytes(key.len()).and_then(|()| self.json(value, depth + 1));
                    }
                });
                result
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
        }
    }

    fn bytes(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.size.bytes = self.size.bytes.saturating_add(bytes);
        if self.size.bytes > self.max.bytes { Err(TooLarge::Text) } else { Ok(()) }
    }

    fn elements(&mut self, elements: usize) -> Result<(), TooLarge> {
        self.size.elements = self.size.elements.saturating_add(elements);
        if self.size.elements > self.max.elements { Err(TooLarge::Array) } else { Ok(()) }
    }
}

/// Returns `true` if a value contains a function.
pub(super) fn holds_function(value: &Dynamic) -> bool {
    if let Ok(array) = value.as_array_ref() {
        return array.iter().any(holds_function);
    }
    if let Ok(map) = value.as_map_ref() {
        return map.values().any(holds_function);
    }
    value.is::<FnPtr>()
}
