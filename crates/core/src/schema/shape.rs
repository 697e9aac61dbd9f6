//! The types of declared values, and their JSON Schema.

use crate::limits::Limits;
use std::ops::RangeInclusive;
use valvehouse_json::{Json, Object};

/// A member of an object: its name and the shape of its value.
#[derive(Debug, Clone)]
pub struct Property {
    /// The key in the object.
    pub name: String,
    /// Set if an object without it is invalid; never set for a property with a default.
    pub required: bool,
    /// The shape of its values.
    pub shape: ValueShape,
}

/// The shape of a value: its type, description, default and limits.
#[derive(Debug, Clone)]
pub struct ValueShape {
    /// The type of the value.
    pub kind: ValueKind,
    /// The name for people, if declared.
    pub title: Option<String>,
    /// The description, if declared.
    pub description: Option<String>,
    /// The value that replaces a missing one.
    pub default: Option<Json>,
    /// The limits on the value.
    pub limits: Limits,
}

/// The type of a value, with the shapes of its parts.
#[derive(Debug, Clone)]
pub enum ValueKind {
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A finite number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list; its items may have any type if they are not declared.
    Array(Option<Box<ValueShape>>),
    /// An object; its values may have any type if its properties are not declared.
    Object(Option<Vec<Property>>),
}

impl ValueKind {
    /// The names of all types. That of objects is the last.
    pub const NAMES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

    /// Returns the type of a name, without parts. Rhai's `int`, `float` and `bool` are accepted as well.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "integer" | "int" => Self::Integer,
            "number" | "float" => Self::Number,
            "boolean" | "bool" => Self::Boolean,
            "array" => Self::Array(None),
            "object" => Self::Object(None),
            _ => return None,
        })
    }

    /// Returns the type of a value, without parts; `None` for null.
    pub fn of(value: &Json) -> Option<Self> {
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
    pub fn name(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Returns the name of the type in error messages.
    pub(crate) fn in_words(&self) -> &'static str {
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

impl ValueShape {
    /// Creates a shape without description, default and limits.
    pub fn new(kind: ValueKind) -> Self {
        Self { kind, title: None, description: None, default: None, limits: Limits::default() }
    }

    /// Sets the minimum and the maximum, inclusive.
    #[must_use]
    pub fn between<T: Into<Json>>(mut self, range: RangeInclusive<T>) -> Self {
        let (minimum, maximum) = range.into_inner();
        (self.limits.minimum, self.limits.maximum) = (Some(minimum.into()), Some(maximum.into()));
        self
    }

    /// Sets the allowed values.
    #[must_use]
    pub fn one_of<T: Into<Json>>(mut self, allowed: impl IntoIterator<Item = T>) -> Self {
        self.limits.allowed = allowed.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the JSON Schema of the values.
    pub fn schema(&self) -> Json {
        let schema = Json::from([("type", self.kind.name().into())]);
        for (key, text) in [("title", &self.title), ("description", &self.description)] {
            if let Some(text) = text {
                schema.put(key, text.as_str());
            }
        }
        self.put_type(&schema);
        if let Some(default) = &self.default {
            schema.put("default", default.deep_clone());
        }
        schema
    }

    /// Adds the type, with its parts and limits, to a schema.
    pub(crate) fn put_type(&self, schema: &Json) {
        schema.put("type", self.kind.name());
        self.limits.describe(schema);
        match &self.kind {
            // OpenAI rejects an array without `items`.
            ValueKind::Array(items) => {
                schema.put("items", items.as_deref().map_or_else(Json::object, Self::schema));
            }
            ValueKind::Object(Some(properties)) => put_properties(schema, properties),
            _ => {}
        }
    }
}

/// Adds the properties of an object to its schema.
///
/// Models may send undeclared properties, which are dropped, so the schema does not mention additional ones.
pub(crate) fn put_properties(schema: &Json, properties: &[Property]) {
    let named = properties.iter().map(|property| (property.name.as_str().into(), property.shape.schema()));
    schema.put("properties", named.collect::<Object>());
    let required = properties.iter().filter(|property| property.required);
    let required: Vec<Json> = required.map(|property| property.name.as_str().into()).collect();
    if !required.is_empty() {
        schema.put("required", required);
    }
}
