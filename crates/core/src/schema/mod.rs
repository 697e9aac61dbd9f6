//! Declared values: read from a declaration, checked with a [`Coercion`], and described as JSON Schema 2020-12.
//!
//! Valves, the parameters of tools and the options of middleware are declared with these types.
//!
//! ```
//! use valvehouse_core::schema::{Coercion, ValueShape, ValueKind};
//! let retries = ValueShape::new(ValueKind::Integer).between(0_i64..=10);
//! assert_eq!(retries.check("retries", &"3".into(), Coercion::Form).unwrap(), 3_i64.into());
//! let error = retries.check("retries", &11_i64.into(), Coercion::Exact).unwrap_err();
//! assert_eq!(error.to_string(), "`retries` must be 10 or less, not 11");
//! assert_eq!(retries.schema().to_string(), r#"{"type":"integer","minimum":0,"maximum":10}"#);
//! ```

mod check;
mod convert;
mod declare;
mod shape;

pub(crate) use check::properties as check_properties;
pub use check::{CheckError, Violation};
pub use convert::Coercion;
pub(crate) use declare::{Place, Reader, Vocabulary};
pub(crate) use shape::put_properties;
pub use shape::{Property, ValueKind, ValueShape};

#[cfg(test)]
mod tests;
