//! Granted environment variables.

use crate::failure::Failure;
use std::collections::HashMap;
use std::sync::Arc;
use valvehouse_grants::Grant;

/// The environment variables that a plugin may read.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    granted: Grant,
    /// The variables that replace those of this process.
    given: Option<Arc<HashMap<String, String>>>,
}

impl Variables {
    /// Creates access to these variables.
    pub fn new(granted: &Grant) -> Self {
        Self { granted: granted.clone(), given: None }
    }

    /// Creates access to exactly these variables, independent of this process.
    pub fn given(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { granted: Grant::Everything, given: Some(Arc::new(variables.into_iter().collect())) }
    }

    /// Returns the value of a variable, `None` if it is not set.
    ///
    /// # Errors
    /// Returns an error if the variable is not granted, whether it is set or not, or if it is not UTF-8.
    pub fn get(&self, name: &str) -> Result<Option<String>, Failure> {
        let granted = match &self.granted {
            Grant::Nothing => false,
            Grant::Only(names) => names.iter().any(|own| own == name),
            Grant::Everything => true,
        };
        if let Some(given) = &self.given {
            return Ok(given.get(name).cloned());
        }
        if granted {
            return Ok(std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()));
        }
        let message = format!("the environment variable `{name}` is not granted");
        Err(Failure::ungranted(message, format!("env={name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_granted_variables_are_returned() {
        let some = Variables::new(&Grant::Only(vec!["PATH".into(), "VALVEHOUSE_NOT_SET".into()]));
        assert_eq!(some.get("PATH").unwrap(), std::env::var("PATH").ok());
        assert_eq!(some.get("VALVEHOUSE_NOT_SET").unwrap(), None);
        let refused = some.get("HOME").unwrap_err();
        let message = refused.message_for("x");
        assert_eq!(
            message,
            "the environment variable `HOME` is not granted; to allow it: valvehouse grant x env=HOME"
        );
        assert_eq!(some.get("path").unwrap_err().grant.as_deref(), Some("env=path"));
        assert!(Variables::default().get("PATH").is_err());
        assert!(Variables::new(&Grant::Everything).get("PATH").unwrap().is_some());
        assert_eq!(Variables::new(&Grant::Everything).get("A=B\0").unwrap(), None);
    }
}
