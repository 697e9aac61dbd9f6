//! A schema, and the parts of a value that do not fit it.

use super::{SchemaError, workers};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use std::sync::Arc;
use valvehouse_core::text::shortened;
use valvehouse_json::Json;

/// The maximum number of reported violations; the model fixes the others too, or receives them next.
const MAX_MISFITS: usize = 5;

/// The longest report of one misfit, in bytes; it may quote what does not match.
const MAX_MISFIT: usize = 400;

/// The number of times that a pattern may go back and try another way.
const MAX_STEPS: usize = 100_000;

/// The largest schema, in bytes.
const MAX_SCHEMA: usize = 256 << 10;

/// A compiled JSON schema.
pub struct Schema {
    text: String,
    validator: Arc<Validator>,
}

impl Schema {
    /// Compiles a schema of at most 256 KiB.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid or too large, or if it takes more than two seconds.
    pub async fn compile(schema: Json) -> Result<Self, SchemaError> {
        if !matches!(schema, Json::Object(_) | Json::Bool(_)) {
            return Err(SchemaError::Invalid(format!("expected a JSON schema, got {}", schema.kind())));
        }
        let text =
            schema.encode_within(MAX_SCHEMA).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let value = Value::from(&schema);
        let validator = workers::run(move || validator(&value)).await.map_err(SchemaError::Unchecked)?;
        let validator = validator.map_err(SchemaError::Invalid)?;
        Ok(Self { text, validator: Arc::new(validator) })
    }

    /// The schema as JSON.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the reasons why a value does not match, at most five of them; `None` if it fits.
    ///
    /// # Errors
    /// Returns an error if the check takes more than two seconds.
    pub async fn misfit(&self, json: &Json) -> Result<Option<String>, SchemaError> {
        let (schema, value) = (self.validator.clone(), Value::from(json));
        let misfits = workers::run(move || misfits(&schema, &value)).await.map_err(SchemaError::Unchecked)?;
        Ok((!misfits.is_empty()).then(|| misfits.join("; ")))
    }
}

fn validator(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::fancy_regex().backtrack_limit(MAX_STEPS);
    let compiled = jsonschema::options().with_pattern_options(patterns).build(schema);
    compiled.map_err(|error| located(error.instance_path().as_str(), &error.to_string()))
}

fn misfits(schema: &Validator, value: &Value) -> Vec<String> {
    let misfits = schema.iter_errors(value).take(MAX_MISFITS);
    misfits.map(|misfit| located(misfit.instance_path().as_str(), &misfit.to_string())).collect()
}

fn located(path: &str, why: &str) -> String {
    let why = shortened(why.to_owned(), MAX_MISFIT);
    if path.is_empty() { why } else { format!("{path}: {why}") }
}
