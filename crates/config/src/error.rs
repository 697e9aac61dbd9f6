//! Everything that is wrong with the settings, at once.

use crate::origin::Origin;
use std::fmt;

/// One problem, with its place and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The origin of the setting.
    pub origin: Origin,
    /// The problem with it.
    pub message: String,
}

/// The reasons for which there are no settings to start with: every problem that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<ConfigProblem>,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
