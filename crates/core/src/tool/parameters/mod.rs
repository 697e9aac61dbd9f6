//! Tool parameters: declared once, described as JSON Schema, and checked before the tool runs.
//!
//! ```
//! use valvehouse_core::tool::Parameters;
//! use valvehouse_json::Json;
//! let declared = Json::parse(br#"{"city": {"type": "string", "required": true}, "days": "integer"}"#).unwrap();
//! let parameters = Parameters::declare(&declared).unwrap();
//! let given = Json::parse(br#"{"days": "3", "city": "Bonn", "mood": "good"}"#).unwrap();
//! assert_eq!(parameters.check(&given).unwrap().to_string(), r#"{"city":"Bonn","days":3}"#);
//! assert_eq!(parameters.check(&Json::object()).unwrap_err().to_string(), "`city` is required");
//! ```

mod declare;

pub use declare::Parameters;

#[cfg(test)]
mod tests;
