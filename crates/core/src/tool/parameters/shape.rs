//! The parsed form of a parameter declaration.

use crate::limits::Limits;
use valvehouse_json::Json;

/// A parameter, or a property of an object.
#[derive(Debug)]
pub(super) struct Parameter {
    /// The name for models.
    pub name: String,
    /// Set if a call without the argument is rejected; never set for a parameter with a default.
    pub required: bool,
    /// The shape of its values.
    pub shape: Shape,
}

/// The shape of a value.
#[derive(Debug)]
pub(super) struct Shape {
    /// The type of the value.
    pub kind: Kind,
    /// The description for models.
    pub description: Option<String>,
    /// The value for a missing argument.
    pub default: Option<Json>,
    /// The limits on the value.
    pub limits: Limits,
}

/// The type of a value, with the shapes of its parts.
#[derive(Debug)]
pub(super) enum Kind {
    String,
    /// An integer of any size.
    Integer,
    /// A number in its original spelling: 3 stays 3.
    Number,
    Boolean,
    /// A list; its items may have any type if they are not declared.
    Array(Option<Box<Shape>>),
    /// A map; its values may have any type if its properties are not declared.
    Object(Option<Vec<Parameter>>),
}

impl Kind {
    /// The names of all types in declarations.
    pub(super) const NAMES: [&str; 6] = ["string", "integer", "float", "boolean", "array", "object"];

    /// Returns the type of a name, without parts. `number` is a synonym of `float`; `int` and `bool` are Rhai's
    /// names.
    pub(super) fn from_name(name: &str) -> Option<Self> {
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

    /// Returns the type of a value; `None` for null.
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

    /// Returns the name of the type in JSON Schema.
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

    /// Returns the name of the type in error messages for models.
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
