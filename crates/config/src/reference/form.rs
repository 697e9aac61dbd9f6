//! The forms of values: as text, as JSON Schema, and as displayed.

use super::redaction::{self, MASK, is_secret_name};
use serde_json::{Value, json};
use valvehouse_json::Json;

/// The form of a setting's value. Its texts describe the expected value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Truth,
    /// An integer from the first number to the second.
    Whole(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// A time in milliseconds from the first number to the second.
    Milliseconds(u64, u64),
    Text(&'static str),
    /// A text that matches a regular expression.
    Matching(&'static str, &'static str),
    OneOf(&'static [&'static str]),
    Texts(&'static str),
    ListOf(&'static [&'static str]),
    TextOrTexts(&'static str),
    Table(&'static str),
    /// A program, or a list of a program and its arguments.
    Command(&'static str),
    /// Arguments of a program.
    Arguments(&'static str),
    /// A table of numbers.
    Numbers,
    /// Values of valves, which may be secret.
    Valves,
    Secret,
    /// A secret, or this keyword.
    SecretOr(&'static str),
    /// A table of texts, which may be secret.
    Secrets,
    /// Keys of clients, with or without users.
    Keys,
    Url(&'static str),
    StoreUrl,
    DatabaseUrl,
    PathOrFalse,
    /// Everything, nothing or a list.
    Grant(&'static str),
}

const SQLITE: &str = "sqlite:";

impl Form {
    /// Returns the form as text for the document.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Truth => "true or false".to_owned(),
            Self::Whole(min, max) => format!("{min} to {max}"),
            Self::Number(min, max) => format!("{min} to {max}"),
            Self::Milliseconds(min, max) => format!("{min} to {max} milliseconds"),
            Self::OneOf(words) => quoted(words, " or "),
            Self::ListOf(words) => format!("list of {}", quoted(words, ", ")),
            Self::Numbers => "table of numbers".to_owned(),
            Self::Valves => "table".to_owned(),
            Self::Secret | Self::SecretOr(_) => "secret".to_owned(),
            Self::Secrets => "table of texts or secrets".to_owned(),
            Self::Keys => "list of keys".to_owned(),
            Self::StoreUrl | Self::DatabaseUrl => "URL".to_owned(),
            Self::PathOrFalse => "path or `false`".to_owned(),
            Self::Text(words)
            | Self::Matching(words, _)
            | Self::Texts(words)
            | Self::TextOrTexts(words)
            | Self::Command(words)
            | Self::Arguments(words)
            | Self::Table(words)
            | Self::Url(words)
            | Self::Grant(words) => (*words).to_owned(),
        }
    }

    /// Returns the JSON Schema of a value.
    pub(super) fn schema(&self) -> Value {
        let texts = || json!({"type": "array", "items": {"type": "string"}});
        let matching = |pattern: &str| json!({"type": "string", "pattern": pattern});
        match self {
            Self::Truth => json!({"type": "boolean"}),
            Self::Whole(min, max) | Self::Milliseconds(min, max) => {
                json!({"type": "integer", "minimum": min, "maximum": max})
            }
            Self::Number(min, max) => json!({"type": "number", "minimum": min, "maximum": max}),
            Self::Matching(_, pattern) => matching(pattern),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::Texts(_) | Self::Arguments(_) | Self::Keys => texts(),
            Self::ListOf(words) => json!({"type": "array", "items": {"type": "string", "enum": words}}),
            Self::TextOrTexts(_) | Self::Command(_) => json!({"anyOf": [{"type": "string"}, texts()]}),
            Self::Table(_) | Self::Valves => json!({"type": "object"}),
            Self::Numbers => json!({"type": "object", "additionalProperties": {"type": "number"}}),
            Self::Secrets => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            Self::StoreUrl => matching("^(sqlite:|postgres://|postgresql://)"),
            Self::DatabaseUrl => matching("^(postgres://|postgresql://)"),
            Self::PathOrFalse => json!({"anyOf": [{"type": "string"}, {"const": false}]}),
            Self::Grant(_) => json!({"anyOf": [{"type": "boolean"}, texts()]}),
            Self::Text(_) | Self::Secret | Self::SecretOr(_) | Self::Url(_) => json!({"type": "string"}),
        }
    }

    /// Returns a value as TOML without secrets; an empty text for null.
    pub(super) fn shown(&self, value: &Json) -> String {
        match (self, value) {
            (_, Json::Null) => String::new(),
            (Self::SecretOr(word), Json::Text(text)) if *text == **word => written(value),
            (Self::Secret | Self::SecretOr(_), _) => secret(value),
            (Self::Keys, Json::Array(keys)) => {
                let keys: Vec<String> = keys.items().iter().map(key).collect();
                format!("[{}]", keys.join(", "))
            }
            (Self::Secrets, Json::Object(_)) => table(value, |_, value| secret(value)),
            (Self::Valves, Json::Object(_)) => table(value, |_, _| "…".to_owned()),
            (Self::Keys | Self::Secrets | Self::Valves, _) => secret(value),
            (Self::StoreUrl, Json::Text(url)) if url.starts_with(SQLITE) => written(value),
            (Self::StoreUrl | Self::DatabaseUrl, _) => written(&"postgres://***".into()),
            (Self::Command(_) | Self::Arguments(_), Json::Array(words)) => {
                let words = words.items();
                let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
                written(&redaction::command(&words).into_iter().map(Json::from).collect::<Vec<_>>().into())
            }
            _ => written(value),
        }
    }
}

fn quoted(words: &[&str], between: &str) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between)
}

/// Returns a value as inline TOML, without secrets in URLs and under names of secrets.
fn written(value: &Json) -> String {
    match value {
        Json::Object(_) => table(value, |name, value| match value {
            Json::Null | Json::Bool(_) => written(value),
            _ if is_secret_name(name) => secret(value),
            _ => written(value),
        }),
        Json::Text(text) => Json::from(redaction::url(text)).to_string(),
        Json::Array(array) => {
            let items: Vec<String> = array.items().iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

fn table(value: &Json, shown: impl Fn(&str, &Json) -> String) -> String {
    let entries = value.entries();
    let entries: Vec<String> =
        entries.iter().map(|(key, value)| format!("{key} = {}", shown(key, value))).collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
}

/// Returns the source of a secret; a literal secret is masked.
fn secret(value: &Json) -> String {
    let is_source = value.as_str().is_some_and(|text| text.starts_with("env:") || text.starts_with("file:"));
    if is_source { written(value) } else { written(&MASK.into()) }
}

/// Returns a client key, which is a secret or a table with one.
fn key(value: &Json) -> String {
    match value {
        Json::Object(_) => {
            table(value, |name, value| if name == "key" { secret(value) } else { written(value) })
        }
        _ => secret(value),
    }
}
