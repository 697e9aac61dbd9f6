//! The roles of operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The role of an operator. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperatorRole {
    /// Read everything except secrets.
    Read,
    /// Also set valves and switches.
    Tune,
    /// Also change scripts.
    Write,
    /// Also grants, guards, keys and the records of users.
    Admin,
}

impl fmt::Display for OperatorRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Tune => "tune",
            Self::Write => "write",
            Self::Admin => "admin",
        })
    }
}
