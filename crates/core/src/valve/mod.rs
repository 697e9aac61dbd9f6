//! Valves: the settings that a plugin declares, and their values.
//!
//! A [`ValveSchema`] is read from the script's literal map. It checks and converts values, merges the layers
//! (script < file < store) and generates JSON Schema.
//!
//! ```
//! use valvehouse_core::valve::ValveSchema;
//! use valvehouse_json::Json;
//! let declared = Json::parse(br#"{"max_turns": {"value": 4, "minimum": 1}}"#).unwrap();
//! let schema = ValveSchema::declare(&declared).unwrap();
//! assert_eq!(schema.check("max_turns", &"8".into()).unwrap(), Json::from(8i64));
//! ```

mod check;
mod declare;
mod field;
mod layers;
mod redact;
mod user_secrets;

pub use check::ValveError;
pub use field::{Field, MASK, ValveSchema};
pub use layers::{Layer, is_mark, priority, was_secret};
pub use redact::{MIN_SECRET, Redactor, SecretGroup};

#[cfg(test)]
mod tests;
