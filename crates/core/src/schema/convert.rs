//! Conversion of values to their declared types.

use super::shape::{ValueKind, ValueShape};
use valvehouse_json::{Json, Number};

/// The treatment of a value whose type is not the declared one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coercion {
    /// The value is refused, except an integer for a number. For sources that have types, such as a settings file.
    Exact,
    /// The value is converted where possible: `"5"` to 5, `"no"` to false, and `"a, b"` to a list. For forms,
    /// command lines and environment variables, whose values are texts, and for stored values.
    Form,
    /// The value is converted where possible, and JSON in a string is decoded. Numbers keep their spelling and
    /// size, and undeclared properties are dropped. For models, which send JSON, sometimes encoded twice.
    Model,
}

impl ValueShape {
    /// Returns a value in its type, without regard to limits.
    pub(crate) fn convert(&self, value: &Json, coercion: Coercion) -> Option<Json> {
        let converted = convert(&self.kind, value, coercion)?;
        match (&self.kind, &converted) {
            (ValueKind::Array(Some(items)), Json::Array(list)) => {
                let list = list.items();
                let converted = list.iter().map(|item| items.convert(item, coercion));
                Some(converted.collect::<Option<Vec<_>>>()?.into())
            }
            _ => Some(converted),
        }
    }
}

/// Returns the value in its type; the parts of a container are not converted.
pub(super) fn convert(kind: &ValueKind, value: &Json, coercion: Coercion) -> Option<Json> {
    use Coercion::{Exact, Form, Model};
    match (kind, value, coercion) {
        (ValueKind::String, Json::Text(_), _)
        | (ValueKind::Boolean, Json::Bool(_), _)
        | (ValueKind::Array(_), Json::Array(_), _)
        | (ValueKind::Object(_), Json::Object(_), _) => Some(value.clone()),
        (ValueKind::Integer, Json::Number(number), Model) => any_whole(number),
        (ValueKind::Integer, Json::Number(number), _) => {
            number.as_i64().filter(|_| coercion == Form || number.is_integer()).map(Json::from)
        }
        (ValueKind::Number, Json::Number(number), Model) => {
            number.as_f64().is_finite().then(|| value.clone())
        }
        (ValueKind::Number, Json::Number(number), _) => finite(number.as_f64()),
        (_, _, Exact) => None,
        (ValueKind::String, Json::Number(_) | Json::Bool(_), _) => Some(value.to_string().into()),
        (ValueKind::Boolean, Json::Number(number), _) => truth(&number.as_i64()?.to_string()),
        (ValueKind::Boolean, Json::Text(text), Form) => truth(text.trim()),
        (ValueKind::Integer, Json::Text(text), Form) => whole(text.trim()).map(Json::from),
        (ValueKind::Number, Json::Text(text), Form) => finite(text.trim().parse().ok()?),
        (ValueKind::Array(_), Json::Text(text), Form) => Some(list(text)),
        (_, Json::Text(text), Model) => decoded(kind, text.trim()),
        _ => None,
    }
}

/// Decodes JSON in a string of a model once; the result must have the type itself.
fn decoded(kind: &ValueKind, text: &str) -> Option<Json> {
    let value = match text {
        // Some models spell booleans as Python does.
        _ if text.eq_ignore_ascii_case("true") => true.into(),
        _ if text.eq_ignore_ascii_case("false") => false.into(),
        _ => Json::parse(text.as_bytes()).ok()?,
    };
    let is_other = matches!((kind, &value), (_, Json::Text(_)) | (ValueKind::Boolean, Json::Number(_)));
    if is_other { None } else { convert(kind, &value, Coercion::Model) }
}

/// Reads the boolean words of forms and environment variables, as Pydantic does.
fn truth(word: &str) -> Option<Json> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "t" | "y" | "1" => Some(true.into()),
        "false" | "no" | "off" | "f" | "n" | "0" => Some(false.into()),
        _ => None,
    }
}

fn whole(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| Number::Float(text.parse().ok()?).as_i64())
}

/// Converts a number to an integer. Integers of more than 64 bits are preserved; a float too large to be exact
/// is rejected.
fn any_whole(number: &Number) -> Option<Json> {
    match number.as_i64() {
        Some(value) => Some(value.into()),
        None => (number.is_integer() && number.as_f64().is_finite()).then(|| Json::Number(number.clone())),
    }
}

fn finite(value: f64) -> Option<Json> {
    value.is_finite().then(|| value.into())
}

/// Reads a list as forms edit it: JSON, or a text with commas.
fn list(text: &str) -> Json {
    if text.trim_start().starts_with('[')
        && let Ok(list @ Json::Array(_)) = Json::parse(text.as_bytes())
    {
        return list;
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(Json::from).collect::<Vec<_>>().into()
}
