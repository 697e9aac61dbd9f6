//! Dotted paths: `metadata.features`, `messages.0.content`, `messages.-1`.

use crate::value::{Json, MAX_DEPTH, MisplacedValue};

impl Json {
    /// Returns the value at a path, null if it is missing.
    pub fn at_path(&self, path: &str) -> Self {
        let Some((step, rest)) = first_step(path) else { return self.clone() };
        match self {
            // What is only passed is not copied.
            Self::Object(object) => {
                object.with(step, |value| value.map_or(Self::Null, |value| value.at_path(rest)))
            }
            Self::Array(_) => self.step(step).at_path(rest),
            _ => Self::Null,
        }
    }

    /// Returns the value at a path. A missing value is set to the default, and missing objects on the path are
    /// created.
    ///
    /// # Errors
    /// Returns an error if a value on the path cannot hold the next key.
    pub fn ensure_path(&self, path: &str, default: Self) -> Result<Self, MisplacedValue> {
        let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).take(MAX_DEPTH + 1).collect();
        if steps.len() > MAX_DEPTH {
            return Err(MisplacedValue::TooDeep);
        }
        let Some((last, way)) = steps.split_last() else { return Ok(self.clone()) };
        let mut here = self.clone();
        for step in way {
            here = match here.step(step) {
                Self::Null => here.put_segment(step, Self::object())?,
                there => there,
            };
        }
        match here.step(last) {
            Self::Null => here.put_segment(last, default),
            there => Ok(there),
        }
    }

    fn step(&self, step: &str) -> Self {
        match self {
            Self::Object(object) => object.get(step),
            Self::Array(_) => step.parse().ok().and_then(|index| self.at(index)),
            _ => None,
        }
        .unwrap_or(Self::Null)
    }

    fn put_segment(&self, step: &str, value: Self) -> Result<Self, MisplacedValue> {
        self.set(step, value.clone())?;
        Ok(value)
    }
}

/// Splits a path after its first key.
fn first_step(path: &str) -> Option<(&str, &str)> {
    let path = if path.starts_with('.') { path.trim_start_matches('.') } else { path };
    let end = path.bytes().position(|byte| byte == b'.').unwrap_or(path.len());
    (!path.is_empty()).then(|| path.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_bounded_by_the_nesting_limit() {
        let body = Json::object();
        assert_eq!(body.ensure_path(&"a.".repeat(MAX_DEPTH + 1), Json::Null), Err(MisplacedValue::TooDeep));
        assert_eq!(body.to_string(), "{}");
        assert!(body.ensure_path("a..b.", 1_i64.into()).is_ok());
        assert_eq!(body.at_path("a.b"), Json::from(1_i64));
        assert!(body.at_path(&"x.".repeat(1_000_000)).is_null());
    }
}
