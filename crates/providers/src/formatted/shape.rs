//! The form that a request asks for, and what of an answer does not fit it.

use super::workers;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use std::sync::Arc;
use valvehouse_core::fault::Fault;
use valvehouse_core::words::shortened;
use valvehouse_json::Json;

/// As many misfits are told; the model mends the others with them, or is told of them next.
const MOST_MISFITS: usize = 5;

/// As much is told of one; it may quote what does not fit.
const LONGEST_MISFIT: usize = 400;

/// As often a pattern may go back and try another way.
const MOST_STEPS: usize = 100_000;

/// A larger schema is no description of an answer any more.
const LARGEST_SCHEMA: usize = 256 << 10;

/// What an answer has to be.
pub(super) struct Shape {
    /// The `response_format` as it came.
    pub(super) format: Json,
    schema: Option<Schema>,
}

struct Schema {
    text: String,
    validator: Arc<Validator>,
}

/// Whether a request asks for a form that can be checked.
pub(super) fn is_wanted(body: &Json) -> bool {
    let kind = body.get("response_format").and_then(|format| format.text("type"));
    matches!(kind.as_deref(), Some("json_object" | "json_schema"))
}

impl Shape {
    /// The form that a request asks for; None where it asks for none.
    pub(super) async fn of(body: &Json) -> Result<Option<Self>, Fault> {
        if !is_wanted(body) {
            return Ok(None);
        }
        let format = body.get("response_format").unwrap_or_default();
        let schema = match format.text("type").as_deref() {
            Some("json_schema") => Some(format.at_path("json_schema.schema")),
            // Some services take a schema here too.
            _ => format.get("schema"),
        };
        let schema = match schema {
            Some(schema) => Some(Schema::compile(schema).await?),
            None => None,
        };
        Ok(Some(Self { format, schema }))
    }

    /// The JSON of an answer as the model wrote it, or why it does not fit. A fault where that cannot be told.
    pub(super) async fn read(&self, said: &str) -> Result<Result<String, String>, Fault> {
        let (text, json) = match find_json(said) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let misfit = match &self.schema {
            Some(schema) => schema.misfit(&json).await?,
            None if json.as_object().is_some() => None,
            None => Some(format!("it is of type {}; it must be a JSON object", json.kind())),
        };
        Ok(misfit.map_or_else(|| Ok(text.to_owned()), Err))
    }

    /// What a model is told whose service does not know forms.
    pub(super) fn instruction(&self) -> String {
        let only = "Answer with JSON only: no other words around it, no code block.";
        match &self.schema {
            Some(schema) => format!("{only} The JSON must fit this JSON schema:\n{}", schema.text),
            None => format!("{only} The JSON must be an object."),
        }
    }
}

impl Schema {
    async fn compile(schema: Json) -> Result<Self, Fault> {
        if !matches!(schema, Json::Object(_) | Json::Bool(_)) {
            return Err(wrong(&format!("it is {}; it must be a JSON schema", schema.kind())));
        }
        let text = schema.encode_within(LARGEST_SCHEMA).map_err(|error| wrong(&error.to_string()))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let value = Value::from(&schema);
        let compiled = workers::run(move || {
            let patterns = PatternOptions::fancy_regex().backtrack_limit(MOST_STEPS);
            let compiled = jsonschema::options().with_pattern_options(patterns).build(&value);
            compiled.map_err(|error| located(error.instance_path().as_str(), &error.to_string()))
        });
        let validator = compiled.await.unwrap_or_else(Err).map_err(|why| wrong(&why))?;
        Ok(Self { text, validator: Arc::new(validator) })
    }

    /// What of a value does not fit; None where all of it does.
    async fn misfit(&self, json: &Json) -> Result<Option<String>, Fault> {
        let (validator, value) = (self.validator.clone(), Value::from(json));
        let misfits = workers::run(move || {
            let misfits = validator.iter_errors(&value).take(MOST_MISFITS);
            misfits
                .map(|misfit| located(misfit.instance_path().as_str(), &misfit.to_string()))
                .collect::<Vec<_>>()
        });
        let misfits = misfits.await.map_err(|why| wrong(&why))?;
        Ok((!misfits.is_empty()).then(|| misfits.join("; ")))
    }
}

/// A schema that is the client's mistake.
fn wrong(why: &str) -> Fault {
    let message = format!("the schema in response_format cannot be used: {why}");
    Fault::invalid(message, Some("response_format"))
}

fn located(path: &str, why: &str) -> String {
    let why = shortened(why.to_owned(), LONGEST_MISFIT);
    if path.is_empty() { why } else { format!("{path}: {why}") }
}

/// The JSON that an answer is, or that stands in a code block in it.
fn find_json(said: &str) -> Result<(&str, Json), String> {
    let whole = said.trim();
    let error = match Json::parse(whole.as_bytes()) {
        Ok(json) => return Ok((whole, json)),
        Err(error) => error,
    };
    let in_a_block = blocks(whole).find_map(|block| Some((block, Json::parse(block.as_bytes()).ok()?)));
    in_a_block.ok_or_else(|| match whole {
        "" => "it is empty; it must be JSON".to_owned(),
        _ => format!("it is no JSON: {error}"),
    })
}

/// What stands between lines that begin with three backticks.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once("```")?;
        // The fence's line may name a language.
        let (_, inside) = after.split_once('\n')?;
        let end = inside.match_indices("```").map(|(at, _)| at);
        let end = end.into_iter().find(|at| inside[..*at].trim_end_matches([' ', '\t']).ends_with('\n'))?;
        rest = &inside[end + 3..];
        Some(inside[..end].trim())
    })
}
