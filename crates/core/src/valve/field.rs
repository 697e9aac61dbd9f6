//! One declared setting: its type, its default and its rules.

use crate::limits::Limits;
use valvehouse_json::Json;

/// What type of value a setting takes.
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
    /// What scripts call it.
    pub name: String,
    /// What type of value it takes.
    pub kind: Kind,
    /// What people call it, where the script says so.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The value it has when nobody sets it; null only where [`optional`](Self::optional).
    pub default: Json,
    /// Whether it may stay without a value.
    pub optional: bool,
    /// Write-only: masked in every answer, log and page.
    pub secret: bool,
    /// Text of several lines.
    pub multiline: bool,
    /// What values must keep to.
    pub rules: Rules,
}

/// What the values of a setting, or the items of a list, must keep to.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Bounds, allowed values and pattern.
    pub limits: Limits,
    /// What the items of a list are.
    pub items: Option<Items>,
}

/// What the items of a list are.
#[derive(Debug, Clone)]
pub struct Items {
    /// Their type.
    pub kind: Kind,
    /// What they must keep to.
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

    /// What a value of this type is called in a sentence.
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
