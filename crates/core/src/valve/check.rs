//! Checks values and converts them to their declared types.

use super::field::{Field, MASK, ValveSchema};
use super::redact::{MIN_SECRET, is_too_short};
use crate::schema::Coercion;
use crate::text::did_you_mean;
use std::collections::BTreeSet;
use std::fmt;
use valvehouse_json::Json;

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
        field.check(value, Coercion::Form)
    }

    /// Returns the values with those of `texts` converted to the types of their valves, because their source has
    /// no types. A value that cannot be converted stays as it is.
    #[must_use]
    pub fn typed(&self, values: &Json, texts: &BTreeSet<String>) -> Json {
        let typed = values.deep_clone();
        for name in texts {
            if let Some(value) = values.get(name)
                && let Some(field) = self.field(name)
                && let Some(value) = field.shape.convert(&value, Coercion::Form)
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
    pub(super) fn check(&self, value: &Json, coercion: Coercion) -> Result<Json, ValveError> {
        let Self { name, shape, secret, .. } = self;
        let refuse = |rule, problem: String| {
            let value = if *secret { Json::from(MASK) } else { value.deep_clone() };
            Err(ValveError { field: name.clone(), rule, value, message: format!("valve {problem}") })
        };
        if value.is_null() {
            let kind = shape.kind.in_words();
            let problem = || format!("`{name}` must be {kind}, not null; leave it out for its default");
            return if self.is_optional() { Ok(Json::Null) } else { refuse("type", problem()) };
        }
        if *secret && value.as_str() == Some(MASK) {
            return refuse("secret", format!("`{name}` must be the secret, not its mask"));
        }
        match shape.check(name, value, coercion) {
            Ok(fitting) if *secret && is_too_short(&fitting) => refuse(
                "secret",
                format!("`{name}` must have at least {MIN_SECRET} characters to be a secret"),
            ),
            Ok(fitting) => Ok(fitting),
            Err(error) => {
                let rule = error.problems.first().map_or("type", |problem| problem.rule);
                let error = if *secret { error.without_values() } else { error };
                refuse(rule, error.to_string())
            }
        }
    }
}
