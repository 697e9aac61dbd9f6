//! The valves that a plugin declares, and their JSON Schema 2020-12 in the form that Open WebUI renders.

use crate::schema::{ValueKind, ValueShape};
use crate::text::title_case;
use valvehouse_json::Json;

/// A valve of a plugin.
#[derive(Debug, Clone)]
pub struct Field {
    /// The name in scripts.
    pub name: String,
    /// The type, the description, the default and the limits.
    pub shape: ValueShape,
    /// Set for a secret: a write-only value, masked in all responses, logs and pages.
    pub secret: bool,
    /// Set for a text of several lines.
    pub multiline: bool,
}

impl Field {
    /// Returns `true` if the value may be null, which is then the default.
    pub fn is_optional(&self) -> bool {
        self.shape.default.is_none()
    }

    /// Returns a copy of the default; null only for an optional valve.
    pub fn default_value(&self) -> Json {
        self.shape.default.as_ref().map_or(Json::Null, Json::deep_clone)
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
    /// The names of the types of valves.
    pub const TYPES: &'static [&'static str] = ValueKind::NAMES.split_at(5).0;

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
            properties.put(&field.name, describe(field));
        }
        Json::from([
            ("$schema", "https://json-schema.org/draft/2020-12/schema".into()),
            ("title", "Valves".into()),
            ("type", "object".into()),
            ("properties", properties),
        ])
    }
}

fn describe(field: &Field) -> Json {
    let property = Json::object();
    property.put("title", field.shape.title.clone().unwrap_or_else(|| title_case(&field.name)));
    if let Some(description) = &field.shape.description {
        property.put("description", description.as_str());
    }
    if field.is_optional() {
        // The limits belong to the type, because null does not have to satisfy them.
        let value = Json::object();
        field.shape.put_type(&value);
        property.put("anyOf", vec![value, Json::from([("type", "null".into())])]);
    } else {
        field.shape.put_type(&property);
    }
    if field.secret {
        property.put("writeOnly", true);
        property.put("input", Json::from([("type", "password".into())]));
        return property;
    }
    property.put("default", field.default_value());
    if field.multiline {
        // `input: {type: "textarea"}` is not used: Open WebUI does not render an unknown input, and renders a
        // text without one as a text area.
        property.put("format", "textarea");
    }
    property
}
