//! Between Rhai's values and JSON.

use super::{List, Map, Shape};
use crate::json::{Array, Json, MAX_DEPTH, MisplacedValue, Number, Object};
use crate::script::answer::Thrown;
use rhai::{Dynamic, EvalAltResult, FnPtr, ImmutableString, Position};

type Error = Box<EvalAltResult>;

/// An error of a host function: a bug of the script unless it catches it.
pub(crate) fn error(message: impl Into<String>) -> Error {
    Thrown::bug(message.into(), None).into_error(Position::NONE)
}

pub(super) fn misplaced(error_of_json: MisplacedValue) -> Error {
    error(error_of_json.to_string())
}

/// A value as scripts see it; containers stay live.
pub(crate) fn live(json: &Json, shape: Shape) -> Dynamic {
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

/// An independent copy in Rhai's own values, for constants and arguments that nobody shares.
pub(crate) fn dynamic_of(json: &Json) -> Dynamic {
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

/// A script's value as JSON. What is live is shared, what is Rhai's own is copied.
pub(crate) fn json_of(value: &Dynamic) -> Result<Json, Error> {
    convert(value, 0)
}

fn convert(value: &Dynamic, depth: usize) -> Result<Json, Error> {
    if depth > MAX_DEPTH {
        return Err(error(format!("values may be nested {MAX_DEPTH} deep at most")));
    }
    if value.is_shared() {
        return convert(&value.flatten_clone(), depth);
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
            Err(error(format!("{value} is a number that JSON cannot say")))
        };
    }
    if let Ok(value) = value.as_immutable_string_ref() {
        return Ok(value.as_str().into());
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
        let items = array.iter().map(|item| convert(item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Json::Array(Array::new(items)));
    }
    if let Ok(map) = value.as_map_ref() {
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map.iter() {
            entries.push((key.as_str().into(), convert(value, depth + 1)?));
        }
        return Ok(Json::Object(entries.into_iter().collect::<Object>()));
    }
    if value.is::<FnPtr>() {
        return Err(error("a function is no JSON value"));
    }
    Err(error(format!("a value of type {} is no JSON value", value.type_name())))
}
