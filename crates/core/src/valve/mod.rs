//! Valves: the settings a plugin declares, and the values people give them.
//!
//! A [`Schema`] is read once from the script's literal map. It checks and coerces what anybody sends,
//! lays the layers over each other (script < file < store) and describes itself as JSON Schema.
//!
//! ```
//! use valvehouse_core::valve::Schema;
//! use valvehouse_json::Json;
//! let declared = Json::parse(br#"{"max_turns": {"value": 4, "minimum": 1}}"#).unwrap();
//! let schema = Schema::declare(&declared).unwrap();
//! assert_eq!(schema.check("max_turns", &"8".into()).unwrap(), Json::from(8i64));
//! ```

mod check;
mod declare;
mod describe;
mod field;
mod layers;
mod redact;

pub use check::ValveError;
pub use field::{Field, Kind};
pub use layers::{is_mark, priority, was_secret};
pub use redact::{MIN_SECRET, Redactor, SecretGroup};

use valvehouse_json::Json;

/// What stands for a secret wherever it could be read.
pub const MASK: &str = "********";

/// The declared settings of a plugin, in the order of their declaration.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    fields: Vec<Field>,
}

impl Schema {
    /// Reads the literal map of a script, or says everything that is wrong with it.
    pub fn declare(literal: &Json) -> Result<Self, Vec<String>> {
        declare::fields(literal).map(|fields| Self { fields })
    }

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

#[cfg(test)]
mod tests;
