//! The contents of a declaration, once it is read.

use crate::limits::Limits;
use valvehouse_json::Json;

/// One parameter, or one property of an object.
#[derive(Debug)]
pub(super) struct Parameter {
    /// The name for models.
    pub name: String,
    /// Set if a call without the argument is refused; never set where there is a default.
    pub required: bool,
    /// Its values.
    pub shape: Shape,
}

/// The shape of values.
#[derive(Debug)]
pub(super) struct Shape {
    /// Their type.
    pub kind: Kind,
    /// The purpose of the values.
    pub description: Option<String>,
    /// The value that stands in for a missing one.
    pub default: Option<Json>,
    /// The limits for values.
    pub limits: Limits,
}

/// The type of a value, with what is known of its parts.
#[derive(Debug)]
pub(super) enum Kind {
    String,
    /// Whole, of any size.
    Integer,
    /// As it was spelt: 3 stays 3.
    Number,
    Boolean,
    /// A list; of anything where its items are not declared.
    Array(Option<Box<Shape>>),
    /// A map; of anything where its properties are not declared.
    Object(Option<Vec<Parameter>>),
}

impl Kind {
    /// Every type, as authors spell them.
    pub(super) const NAMES: [&str; 6] = ["string", "integer", "float", "boolean", "array", "object"];

    /// The type of this name, nothing known of its parts. `number` is another word for `float`, and
    /// `int` and `bool` are what Rhai says.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "integer" | "int" => Self::Integer,
            "float" | "number" => Self::Number,
            "boolean" | "bool" => Self::Boolean,
            "array" => Self::Array(None),
            "object" => Self::Object(None),
            _ => return None,
        })
    }

    /// The type of a value; null has none.
    pub(super) fn of(value: &Json) -> Option<Self> {
        Some(match value {
            Json::Null => return None,
            Json::Bool(_) => Self::Boolean,
            Json::Number(number) if number.is_integer() => Self::Integer,
            Json::Number(_) => Self::Number,
            Json::Text(_) => Self::String,
            Json::Array(_) => Self::Array(None),
            Json::Object(_) => Self::Object(None),
        })
    }

    /// Its name in JSON Schema.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// The name of a value of this type in a sentence for a model, which speaks JSON.
    pub(super) fn in_words(&self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}
