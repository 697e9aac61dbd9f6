//! Dotted paths: `metadata.features`, `messages.0.content`, `messages.-1`.

use super::{Json, MisplacedValue};

impl Json {
    /// What stands at a path, or null.
    pub fn at_path(&self, path: &str) -> Self {
        path.split('.').filter(|step| !step.is_empty()).fold(self.clone(), |here, step| here.step(step))
    }

    /// What stands at a path; puts the default there, and objects on the way, where nothing is.
    pub fn ensure_path(&self, path: &str, default: Self) -> Result<Self, MisplacedValue> {
        let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
        let Some((last, way)) = steps.split_last() else { return Ok(self.clone()) };
        let mut here = self.clone();
        for step in way {
            here = match here.step(step) {
                Self::Null => here.put(step, Self::object())?,
                there => there,
            };
        }
        match here.step(last) {
            Self::Null => here.put(last, default),
            there => Ok(there),
        }
    }

    fn step(&self, step: &str) -> Self {
        match self {
            Self::Object(object) => object.get(step),
            Self::Array(_) => step.parse().ok().and_then(|index| self.at(index)),
            _ => None,
        }
        .unwrap_or_default()
    }

    fn put(&self, step: &str, value: Self) -> Result<Self, MisplacedValue> {
        self.set(step, value.clone())?;
        Ok(value)
    }
}
