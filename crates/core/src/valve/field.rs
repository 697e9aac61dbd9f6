//! One declared setting: its type, its default and its rules.

use crate::limits::Limits;
use valvehouse_json::Json;

/// The type of value that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// Any finite number; always handed out as a float, so that a script divides as it expects.
    Number,
    /// Text.
    String,
    /// A list.
    Array,
}

/// One setting of a plugin.
#[derive(Debug, Clone)]
pub struct Field {
    /// The name for scripts.
    pub name: String,
    /// The type of value that it takes.
    pub kind: Kind,
    /// The name for people, where the script declares one.
    pub title: Option<String>,
    /// The purpose.
    pub description: Option<String>,
    /// The value it has when nobody sets it; null only where [`optional`](Self::optional).
    pub default: Json,
    /// Is `true` if it may stay without a value.
    pub optional: bool,
    /// Write-only: masked in every answer, log and page.
    pub secret: bool,
    /// Text of several lines.
    pub multiline: bool,
    /// The rules for values.
    pub rules: Rules,
}

/// The rules for the values of a setting, or for the items of a list.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Bounds, allowed values and pattern.
    pub limits: Limits,
    /// The items of a list.
    pub items: Option<Items>,
}

/// The items of a list.
#[derive(Debug, Clone)]
pub struct Items {
    /// Their type.
    pub kind: Kind,
    /// The rules for them.
    pub rules: Box<Rules>,
}

impl Kind {
    /// Every type, as scripts spell them.
    pub const NAMES: [&str; 5] = ["boolean", "integer", "number", "string", "array"];

    /// The type of this name. `bool`, `int` and `float`, as Rhai calls them, will do too.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" | "bool" => Self::Boolean,
            "integer" | "int" => Self::Integer,
            "number" | "float" => Self::Number,
            "string" => Self::String,
            "array" => Self::Array,
            _ => return None,
        })
    }

    /// The type of a literal, unless it is null or a map.
    pub fn of(literal: &Json) -> Option<Self> {
        Some(match literal {
            Json::Bool(_) => Self::Boolean,
            Json::Number(number) if number.is_integer() => Self::Integer,
            Json::Number(_) => Self::Number,
            Json::Text(_) => Self::String,
            Json::Array(_) => Self::Array,
            Json::Null | Json::Object(_) => return None,
        })
    }

    /// Its name in JSON Schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
        }
    }

    /// The name of a value of this type in a sentence.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::String => "text",
            Self::Array => "a list",
        }
    }
}
