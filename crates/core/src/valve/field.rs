//! One declared setting: its type, its default and its rules.
//!
//! The declared valves of a plugin.
//!
//! The settings as JSON Schema 2020-12, in the form that Open WebUI draws its page from.

use crate::limits::Limits;
use crate::words::title_case;
use valvehouse_json::Json;

/// The type of value that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValveKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// Any finite number; always handed out as a float, so that a script divides as it expects.
    Number,
    /// A text.
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
    pub kind: ValveKind,
    /// The name for people, where the script declares one.
    pub title: Option<String>,
    /// The purpose.
    pub description: Option<String>,
    /// The value it has when nobody sets it; null only where [`optional`](Self::optional).
    pub default: Json,
    /// Set if the valve may have no value.
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
    pub kind: ValveKind,
    /// The rules for them.
    pub rules: Box<Rules>,
}

impl ValveKind {
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

/// The text that stands for a secret wherever it could be read.
pub const MASK: &str = "********";

/// The declared settings of a plugin, in the order of their declaration.
#[derive(Debug, Clone, Default)]
pub struct ValveSchema {
    pub(super) fields: Vec<Field>,
}

impl ValveSchema {
    /// The settings, in the order of their declaration.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// One setting.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The setting probably meant by a misspelt name.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        crate::words::nearest(name, self.fields.iter().map(|field| field.name.as_str()))
    }
}

impl ValveSchema {
    /// JSON Schema of the values, in the order of declaration. Nothing is `required`: what is not
    /// given has its default.
    pub fn json_schema(&self) -> Json {
        let properties = Json::object();
        for field in &self.fields {
            put(&properties, &field.name, describe(field));
        }
        let schema = Json::object();
        put(&schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
        put(&schema, "title", "Valves");
        put(&schema, "type", "object");
        put(&schema, "properties", properties);
        schema
    }
}

fn describe(field: &Field) -> Json {
    let property = Json::object();
    put(&property, "title", field.title.clone().unwrap_or_else(|| title_case(&field.name)));
    if let Some(description) = &field.description {
        put(&property, "description", description.as_str());
    }
    if field.optional {
        // The rules stay with the type: null keeps to none of them.
        let (value, null) = (Json::object(), Json::object());
        constrain(&value, field.kind, &field.rules);
        put(&null, "type", "null");
        put(&property, "anyOf", vec![value, null]);
    } else {
        constrain(&property, field.kind, &field.rules);
    }
    if !field.secret {
        put(&property, "default", field.default.copy());
    }
    if field.secret {
        let input = Json::object();
        put(&input, "type", "password");
        put(&property, "writeOnly", true);
        put(&property, "input", input);
    } else if field.multiline {
        // Not `input: {type: "textarea"}`: Open WebUI draws nothing at all for an input it does not
        // know, and a text area for text without one.
        put(&property, "format", "textarea");
    }
    property
}

fn constrain(schema: &Json, kind: ValveKind, rules: &Rules) {
    put(schema, "type", kind.name());
    rules.limits.describe(schema);
    if let Some(items) = &rules.items {
        let item = Json::object();
        constrain(&item, items.kind, &items.rules);
        put(schema, "items", item);
    }
}

/// Sets a key of an object made here; fresh objects take any key.
fn put(object: &Json, key: &str, value: impl Into<Json>) {
    object.put(key, value);
}
