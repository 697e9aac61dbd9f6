//! Checks values and converts them to their declared types.

use super::field::{Field, Items, Rules, ValveKind};
use super::field::{MASK, ValveSchema};
use super::redact::MIN_SECRET;
use super::redact::is_too_short;
use crate::limits::{BrokenRule, clipped};
use crate::text::did_you_mean;
use std::collections::BTreeSet;
use std::fmt;
use valvehouse_json::{Json, Number};

/// The treatment of a value whose type is not the declared one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coercion {
    /// The value is refused, except an integer for a number. For sources that have types, such as a settings file.
    Exact,
    /// The value is converted where possible: `"5"` to 5 and `"no"` to false. For forms, command lines and
    /// environment variables, whose values are texts, and for stored values.
    Lenient,
}

/// The reason why a value is invalid for a valve.
#[derive(Debug, Clone, PartialEq)]
pub struct ValveError {
    /// The valve; "" if the values are not an object.
    pub field: String,
    /// The violated JSON Schema keyword: `type`, `minimum`, `enum` …
    pub rule: &'static str,
    /// The invalid value; masked if the valve is a secret.
    pub value: Json,
    /// The error message with valve, value and rule.
    pub message: String,
}

impl fmt::Display for ValveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ValveError {}

impl ValveSchema {
    /// Returns a value in the type of its valve; it shares nothing with `value`.
    ///
    /// Values are converted: `"5"` to 5 for a number, 5 to `"5"` for a text, and `"a, b"` to a list. Null is
    /// valid only for an optional valve.
    ///
    /// # Errors
    /// Returns an error if the valve is unknown or the value is invalid.
    pub fn check(&self, name: &str, value: &Json) -> Result<Json, ValveError> {
        let Some(field) = self.field(name) else {
            let names = || self.fields.iter().map(|field| field.name.as_str());
            let hint = did_you_mean(name, names());
            let hint = if hint.is_empty() && !self.fields.is_empty() {
                format!("; known valves: {}", names().collect::<Vec<_>>().join(", "))
            } else {
                hint
            };
            return Err(ValveError {
                field: name.to_owned(),
                rule: "unknown",
                value: Json::from(MASK),
                message: format!("unknown valve `{name}`{hint}"),
            });
        };
        field.check(value, Coercion::Lenient).map_err(|(rule, asks)| field.refuse(value, rule, &asks))
    }

    /// Returns the values with those of `texts` converted to the types of their valves, because their source has
    /// no types. A value that cannot be converted stays as it is.
    #[must_use]
    pub fn typed(&self, values: &Json, texts: &BTreeSet<String>) -> Json {
        let typed = values.deep_clone();
        for name in texts {
            if let Some(value) = values.get(name)
                && let Some(field) = self.field(name)
                && let Ok(value) = convert(field.kind, &field.rules, &value, Coercion::Lenient)
            {
                // A new object accepts any key.
                typed.edit(name, value);
            }
        }
        typed
    }

    /// Returns the values to store for an update over HTTP, which replace all stored values. Unknown keys and
    /// nulls are dropped (null restores the default); other values are converted.
    ///
    /// Forms send secrets back masked, so call [`ValveSchema::unmask`] first.
    ///
    /// # Errors
    /// Returns an error for the first invalid value.
    pub fn check_update(&self, sent: &Json) -> Result<Json, ValveError> {
        if sent.as_object().is_none() {
            return Err(ValveError {
                field: String::new(),
                rule: "type",
                value: Json::Null,
                message: format!("valves must be an object of names and values, not {}", sent.kind()),
            });
        }
        let kept = Json::object();
        for field in &self.fields {
            if let Some(value) = sent.get(&field.name).filter(|value| !value.is_null()) {
                // A new object accepts any key.
                kept.put(&field.name, self.check(&field.name, &value)?);
            }
        }
        Ok(kept)
    }
}

impl Field {
    pub(super) fn check(&self, value: &Json, coercion: Coercion) -> Result<Json, BrokenRule> {
        if value.is_null() {
            return if self.optional {
                Ok(Json::Null)
            } else {
                Err(("type", format!("must be {}; leave it out for its default", self.kind.in_words())))
            };
        }
        if self.secret && value.as_str() == Some(MASK) {
            return Err(("secret", "must be the secret, not its mask".into()));
        }
        let fitting = fit(self.kind, &self.rules, value, coercion)?;
        if self.secret && is_too_short(&fitting) {
            return Err(("secret", format!("must have at least {MIN_SECRET} characters to be a secret")));
        }
        Ok(fitting)
    }

    pub(super) fn refuse(&self, value: &Json, rule: &'static str, asks: &str) -> ValveError {
        let shown = if self.secret { Json::from(MASK) } else { value.deep_clone() };
        let message = format!("valve `{}` {asks}, but {} was given", self.name, clipped(&shown));
        ValveError { field: self.name.clone(), rule, value: shown, message }
    }
}

/// Returns a value in this type, if it satisfies the rules.
pub(super) fn fit(
    kind: ValveKind,
    rules: &Rules,
    value: &Json,
    coercion: Coercion,
) -> Result<Json, BrokenRule> {
    let fitting = convert(kind, rules, value, coercion)?;
    rules.limits.check(&fitting)?;
    Ok(fitting)
}

/// Returns a value in this type.
fn convert(kind: ValveKind, rules: &Rules, value: &Json, coercion: Coercion) -> Result<Json, BrokenRule> {
    let is_exact = ValveKind::of(value)
        .is_some_and(|of| of == kind || (kind, of) == (ValveKind::Number, ValveKind::Integer));
    if coercion == Coercion::Exact && !is_exact {
        return Err(("type", format!("must be {}", kind.in_words())));
    }
    match kind {
        ValveKind::Array => list(rules.items.as_ref(), value, coercion),
        _ => scalar(kind, value).ok_or_else(|| ("type", format!("must be {}", kind.in_words()))),
    }
}

fn scalar(kind: ValveKind, value: &Json) -> Option<Json> {
    match (kind, value) {
        (ValveKind::Boolean, Json::Bool(_)) => Some(value.clone()),
        (ValveKind::Boolean, Json::Text(text)) => truth(text.trim()),
        (ValveKind::Boolean, Json::Number(number)) => truth(&number.as_i64()?.to_string()),
        (ValveKind::Integer, Json::Number(number)) => number.as_i64().map(Json::from),
        (ValveKind::Integer, Json::Text(text)) => whole(text.trim()).map(Json::from),
        (ValveKind::Number, Json::Number(number)) => finite(number.as_f64()),
        (ValveKind::Number, Json::Text(text)) => finite(text.trim().parse().ok()?),
        (ValveKind::String, Json::Text(_)) => Some(value.clone()),
        (ValveKind::String, Json::Number(_) | Json::Bool(_)) => Some(value.to_string().into()),
        _ => None,
    }
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

fn finite(value: f64) -> Option<Json> {
    value.is_finite().then(|| value.into())
}

/// Reads a list, JSON in a string, or a text with commas, as forms edit it.
fn list(items: Option<&Items>, value: &Json, coercion: Coercion) -> Result<Json, BrokenRule> {
    let given = match value {
        Json::Array(array) => array.items(),
        Json::Text(text) if text.trim_start().starts_with('[') => match Json::parse(text.as_bytes()) {
            Ok(Json::Array(array)) => array.items(),
            _ => split(text),
        },
        Json::Text(text) => split(text),
        _ => return Err(("type", format!("must be {}", ValveKind::Array.in_words()))),
    };
    let Some(items) = items else {
        return Ok(given.iter().map(Json::deep_clone).collect::<Vec<_>>().into());
    };
    let mut fitting = Vec::with_capacity(given.len());
    for (position, item) in given.iter().enumerate() {
        let item = fit(items.kind, &items.rules, item, coercion)
            .map_err(|(rule, asks)| (rule, format!("item {} {asks}", position + 1)))?;
        fitting.push(item);
    }
    Ok(fitting.into())
}

fn split(text: &str) -> Vec<Json> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Json::from).collect()
}
