//! JSON schemas that clients give: compiled, and answers checked against them, on threads of their own and within a time.
//!
//! A package of its own: what checks a schema is a lot of code, which is built quickly here, and for speed elsewhere.

mod error;
mod schema;
mod workers;

pub use error::SchemaError;
pub use schema::Schema;
