//! JSON schemas that clients give: compiled, and answers checked against them, on threads of their own and within a time.
//! The schemas of types of this program need neither.
//!
//! A package of its own: what checks a schema is a lot of code, which is built quickly here, and for speed elsewhere.

mod error;
mod schema;
mod type_schema;
mod workers;

pub use error::SchemaError;
pub use schema::Schema;
pub use type_schema::{Problems, TypeSchema};
