//! The valves that a plugin declares: types, defaults and rules, and their JSON Schema 2020-12 in the form that
//! Open WebUI renders.

use crate::limits::Limits;
use crate::text::title_case;
use valvehouse_json::Json;

/// The type of a valve's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValveKind {
    /// `true` or `false`.
    Boolean,
    /// An integer of 64 bits.
    Integer,
    /// A finite number, always passed to scripts as a float.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
}

/// A valve of a plugin.
#[derive(Debug, Clone)]
pub struct Field {
    /// The name in scripts.
    pub name: String,
    /// The type of the value.
    pub kind: ValveKind,
    /// The name for people, if declared.
    pub title: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The default value; null only for an [`optional`](Self::optional) valve.
    pub default: Json,
    /// Set if the value may be null.
    pub optional: bool,
    /// Set for a secret: a write-only value, masked in all responses, logs and pages.
    pub secret: bool,
    /// Set for a text of several lines.
    pub multiline: bool,
    /// The rules for the value.
    pub rules: Rules,
}

/// The rules for the value of a valve or for the items of a list.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The bounds, allowed values and pattern.
    pub limits: Limits,
    /// The rules for the items of a list.
    pub items: Option<Items>,
}

/// The items of a list.
#[derive(Debug, Clone)]
pub struct Items {
    /// The type of the items.
    pub kind: ValveKind,
    /// The rules for each item.
    pub rules: Box<Rules>,
}

impl ValveKind {
    /// The names of all types in scripts.
    pub const NAMES: [&str; 5] = ["boolean", "integer", "number", "string", "array"];

    /// Returns the type of a name. Rhai's `bool`, `int` and `float` are accepted as well.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" | "bool" => Self::Boolean,
            "integer" | "int" => Self::Integer,
            "number" | "float" => Self::Number,
            "string" => Self::String,
            "array" => Self::Array,
            _ => return None,
        })
    }

    /// Returns the type of a literal; `None` for null and maps.
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

    /// Returns the name of the type in JSON Schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
        }
    }

    /// Returns the name of the type in error messages.
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

/// The mask that replaces secrets in output.
pub const MASK: &str = "********";

/// The valves of a plugin, in the order of declaration.
#[derive(Debug, Clone, Default)]
pub struct ValveSchema {
    pub(super) fields: Vec<Field>,
}

impl ValveSchema {
    /// Returns the valves, in the order of declaration.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the valve of a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the valve that a misspelled name probably means.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        crate::text::nearest(name, self.fields.iter().map(|field| field.name.as_str()))
    }
}

impl ValveSchema {
    /// Returns the JSON Schema of the values, in the order of declaration. No property is `required`, because
    /// each has a default.
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
        // The rules belong to the type, because null does not have to satisfy them.
        let (value, null) = (Json::object(), Json::object());
        constrain(&value, field.kind, &field.rules);
        put(&null, "type", "null");
        put(&property, "anyOf", vec![value, null]);
    } else {
        constrain(&property, field.kind, &field.rules);
    }
    if !field.secret {
        put(&property, "default", field.default.deep_clone());
    }
    if field.secret {
        let input = Json::object();
        put(&input, "type", "password");
        put(&property, "writeOnly", true);
        put(&property, "input", input);
    } else if field.multiline {
        // `input: {type: "textarea"}` is not used: Open WebUI does not render an unknown input, and renders a
        // text without one as a text area.
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

/// Sets a key of an object created here, which cannot fail.
fn put(object: &Json, key: &str, value: impl Into<Json>) {
    object.put(key, value);
}
