//! Converts between Rhai's values and JSON.

use super::handle::{Bytes, List, Map, Shape};
use super::order;
use crate::answer::ThrownError;
use rhai::{Dynamic, EvalAltResult, FnPtr, ImmutableString, Position};
use valvehouse_json::{Array, Json, MAX_DEPTH, MisplacedValue, Number, Object};

type Error = Box<EvalAltResult>;

/// Creates the error of a host function: a failure of the script unless it catches it.
pub fn error(message: impl Into<String>) -> Error {
    ThrownError::bug(message.into(), None).into_error(Position::NONE)
}

pub(super) fn misplaced(error_of_json: MisplacedValue) -> Error {
    error(error_of_json.to_string())
}

/// Returns a value as scripts see it; containers stay live.
#[inline]
pub fn live(json: &Json, shape: Shape) -> Dynamic {
    match json {
        Json::Null => Dynamic::UNIT,
        Json::Bool(value) => (*value).into(),
        Json::Number(Number::Int(value)) => (*value).into(),
        Json::Number(number) => number.as_f64().into(),
        Json::Text(text) => ImmutableString::from(text.as_str()).into(),
        Json::Array(array) => Dynamic::from(List { shape, array: array.clone() }),
        Json::Object(object) => Dynamic::from(Map { shape, object: object.clone() }),
    }
}

/// Returns an independent copy, of a size that a script may hold twice, because memory is not checked meanwhile.
pub(super) fn copied(json: &Json) -> Result<Json, Error> {
    const MAX_CONTAINERS: usize = 100_000;
    if json.has_more_containers_than(MAX_CONTAINERS) {
        return Err(error(format!(
            "cannot copy the value: it exceeded its limit of {MAX_CONTAINERS} lists and maps"
        )));
    }
    Ok(json.deep_clone())
}

/// Returns the text of a container, up to the length that a script may hold.
pub(super) fn written(json: &Json) -> Result<String, Error> {
    const MAX_BYTES: usize = 8 << 20;
    let bytes = json.encode_within(MAX_BYTES).map_err(|why| error(format!("invalid value: it is {why}")))?;
    String::from_utf8(bytes).map_err(|why| error(why.to_string()))
}

/// Returns an independent copy as native Rhai values, for constants and arguments.
pub fn dynamic_of(json: &Json) -> Dynamic {
    match json {
        Json::Array(array) => array.items().iter().map(dynamic_of).collect::<rhai::Array>().into(),
        Json::Object(object) => {
            let mut map = rhai::Map::new();
            object.for_each(|key, value| {
                map.insert(key.into(), dynamic_of(value));
            });
            map.into()
        }
        plain => live(plain, Shape::Plain),
    }
}

/// The maximum number of bytes that are copied at once: native values may be referenced many times.
const MAX_COPIED: usize = 16 << 20;
/// The size of a value without its text, in bytes.
const EACH: usize = 16;

/// Converts a script's value to JSON. Live values are shared; native ones are copied, up to 16 MiB.
///
/// # Errors
/// Returns an error if the value has no JSON form or is too large.
#[inline]
pub fn json_of(value: &Dynamic) -> Result<Json, Error> {
    convert(value, 0, &mut { MAX_COPIED })
}

/// Returns `true` if a value is false as a condition.
#[inline]
pub fn is_empty(value: &Dynamic) -> bool {
    if let Ok(text) = value.as_immutable_string_ref() {
        return text.is_empty();
    }
    if let Ok(array) = value.as_array_ref() {
        return array.is_empty();
    }
    if let Ok(map) = value.as_map_ref() {
        return map.is_empty();
    }
    if let Ok(bytes) = value.as_blob_ref() {
        return bytes.is_empty();
    }
    // A value without a JSON form, such as a function, is not empty.
    json_of(value).is_ok_and(|json| json.is_empty())
}

/// Converts a value to JSON like [`json_of`]; several values share the limit of copied bytes.
///
/// # Errors
/// Returns an error if the value has no JSON form or is too large.
pub fn json_within(value: &Dynamic, rest: &mut usize) -> Result<Json, Error> {
    convert(value, 0, rest)
}

/// Converts a value; `rest` is the number of bytes that may still be copied.
fn convert(value: &Dynamic, depth: usize, rest: &mut usize) -> Result<Json, Error> {
    if depth > MAX_DEPTH {
        return Err(error(format!("the value exceeded its limit of {MAX_DEPTH} nested levels")));
    }
    if value.is_shared() {
        return convert(&value.flatten_clone(), depth, rest);
    }
    take(rest, EACH)?;
    if value.is_string() {
        let text = value.as_immutable_string_ref().map_err(error)?;
        take(rest, text.len())?;
        return Ok(text.as_str().into());
    }
    if value.is_unit() {
        return Ok(Json::Null);
    }
    if let Ok(value) = value.as_bool() {
        return Ok(value.into());
    }
    if let Ok(value) = value.as_int() {
        return Ok(value.into());
    }
    if let Ok(value) = value.as_float() {
        return if value.is_finite() {
            Ok(value.into())
        } else {
            Err(error(format!("{value} is not a JSON number")))
        };
    }
    if let Ok(value) = value.as_char() {
        return Ok(value.to_string().into());
    }
    if let Some(list) = value.read_lock::<List>() {
        return Ok(Json::Array(list.array.clone()));
    }
    if let Some(map) = value.read_lock::<Map>() {
        return Ok(Json::Object(map.object.clone()));
    }
    if let Ok(array) = value.as_array_ref() {
        let items = array.iter().map(|item| convert(item, depth + 1, rest)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Json::Array(Array::new(items)));
    }
    if let Ok(map) = value.as_map_ref() {
        let mut entry = |(key, value): (&str, &Dynamic)| -> Result<_, Error> {
            take(rest, key.len())?;
            Ok((key.into(), convert(value, depth + 1, rest)?))
        };
        let entries = match order::entries(value, &map) {
            Some(ordered) => ordered.into_iter().map(entry).collect::<Result<Vec<_>, _>>()?,
            None => map.iter().map(|(key, value)| entry((key, value))).collect::<Result<Vec<_>, _>>()?,
        };
        return Ok(Json::Object(entries.into_iter().collect::<Object>()));
    }
    if value.is::<FnPtr>() {
        return Err(error("a function is not a JSON value"));
    }
    if value.is_blob() || value.is::<Bytes>() {
        return Err(error("bytes are not a JSON value; convert them with base64::encode(bytes)"));
    }
    Err(error(format!("a value of type {} is not a JSON value", value.type_name())))
}

fn take(rest: &mut usize, bytes: usize) -> Result<(), Error> {
    let left = rest.checked_sub(bytes);
    *rest =
        left.ok_or_else(|| error(format!("a new value exceeded its limit of {} MB", MAX_COPIED >> 20)))?;
    Ok(())
}

impl order::KeyOrders {
    /// Copies a value to Rhai's own values, with the order of its keys.
    pub fn dynamic_of(&self, json: &Json) -> Dynamic {
        match json {
            Json::Array(array) => {
                array.items().iter().map(|item| self.dynamic_of(item)).collect::<rhai::Array>().into()
            }
            Json::Object(object) => {
                let entries = object.entries();
                let fields = entries.iter().map(|(key, value)| (key.as_str().into(), self.dynamic_of(value)));
                let mut map = Dynamic::from(fields.collect::<rhai::Map>());
                if let Some(tag) = self.tag(entries.iter().map(|(key, _)| key.as_str())) {
                    order::set(&mut map, tag);
                }
                map
            }
            plain => live(plain, Shape::Plain),
        }
    }
}

/// Returns the JSON text of a map with its keys in order; `None` if it contains a value without a JSON form.
pub(crate) fn json_text_of(tagged: &Dynamic) -> Option<Dynamic> {
    written(&json_of(tagged).ok()?).ok().map(Dynamic::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converting_shared_values_is_bounded() {
        let text = Dynamic::from("x".repeat(1 << 20));
        let many = |count: usize| json_of(&Dynamic::from(vec![text.clone(); count]));
        assert!(many(15).is_ok());
        let message = crate::answer::summary_of_run(&many(17).unwrap_err());
        assert_eq!(message, "a new value exceeded its limit of 16 MB");
        let mut doubled = Dynamic::from(vec![text]);
        for _ in 0..20 {
            let shared = doubled.into_shared();
            doubled = Dynamic::from(vec![shared.clone(), shared]);
        }
        assert!(json_of(&doubled).is_err());
    }
}
