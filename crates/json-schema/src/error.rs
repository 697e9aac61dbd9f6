//! The errors of schemas.

use std::fmt;

/// The error of a schema that cannot be compiled or checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema is invalid or too large.
    Invalid(String),
    /// The work took too long or could not be started.
    Unchecked(String),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Invalid(why) | Self::Unchecked(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for SchemaError {}
