//! Layers of valve values, and the masking of secrets.

use super::field::{Field, MASK, ValveSchema};
use crate::limits::clipped;
use crate::schema::Coercion;
use valvehouse_json::Json;

/// Values that override those of the layers below.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// The values by the names of their valves: an object, or null for none.
    pub values: &'a Json,
    /// The treatment of values of other types than the declared ones.
    pub coercion: Coercion,
}

impl<'a> Layer<'a> {
    /// Creates a layer whose values have types, such as those of a settings file.
    pub fn exact(values: &'a Json) -> Self {
        Self { values, coercion: Coercion::Exact }
    }

    /// Creates a layer whose values are converted, such as stored ones.
    pub fn lenient(values: &'a Json) -> Self {
        Self { values, coercion: Coercion::Form }
    }
}

/// The prefix of the key that marks a stored value as a secret.
const SECRET_MARK: &str = "$secret:";

/// Returns `true` if a key of stored values is a secret mark and not a valve.
pub fn is_mark(key: &str) -> bool {
    key.starts_with(SECRET_MARK)
}

/// Returns `true` if a value was stored as a secret.
pub fn was_secret(stored: &Json, name: &str) -> bool {
    stored.get(&format!("{SECRET_MARK}{name}")).is_some_and(|mark| mark.as_bool() == Some(true))
}

impl ValveSchema {
    /// Returns the values to store instead of earlier ones, with a mark for each secret.
    pub fn marked(&self, values: &Json) -> Json {
        self.with_marks(values, false)
    }

    /// Returns the values to merge into stored ones. A value that is not a secret removes the secret mark of
    /// its valve.
    pub fn marked_changes(&self, values: &Json) -> Json {
        self.with_marks(values, true)
    }

    fn with_marks(&self, values: &Json, takes_out: bool) -> Json {
        let marked = values.deep_clone();
        for (name, value) in values.entries() {
            let Some(field) = self.field(&name) else { continue };
            let mark = match field.secret && !value.is_null() {
                true => Json::from(true),
                false if takes_out => Json::Null,
                false => continue,
            };
            // A new object accepts any key.
            marked.edit(&format!("{SECRET_MARK}{name}"), mark);
        }
        marked
    }

    /// Returns the effective values: the defaults, overridden by each layer in turn. The values share nothing
    /// with the layers.
    ///
    /// An invalid value is replaced by that of the layer below and reported as a problem, because stored values
    /// must not break a new version of a script. Unknown keys and nulls are ignored. Each problem has the name of its
    /// valve.
    pub fn effective(&self, layers: &[Layer<'_>]) -> (Json, Vec<(String, String)>) {
        let (values, mut problems) = (Json::object(), Vec::new());
        for field in &self.fields {
            // A new object accepts any key.
            values.put(&field.name, field.in_force(layers, &mut problems));
        }
        (values, problems)
    }

    /// Returns the index of the layer that an effective value comes from; `None` for the default.
    pub fn layer_in_force(&self, name: &str, layers: &[Layer<'_>]) -> Option<usize> {
        let field = self.field(name)?;
        let fits = |layer: &Layer<'_>| {
            let is_dropped = !field.secret && was_secret(layer.values, name);
            let value = layer.values.get(name).filter(|value| !value.is_null() && !is_dropped);
            value.is_some_and(|value| field.check(&value, layer.coercion).is_ok())
        };
        layers.iter().rposition(fits)
    }

    /// Returns the values for display: each secret is replaced by [`MASK`]; an empty one stays empty.
    pub fn mask(&self, values: &Json) -> Json {
        let shown = values.deep_clone();
        for field in self.fields.iter().filter(|field| field.secret) {
            if values.get(&field.name).is_some_and(|value| field.is_set(&value)) {
                shown.edit(&field.name, MASK);
            }
        }
        shown
    }

    /// Returns the values that a form sent, with each masked secret replaced by its stored value, so that the
    /// mask itself is never stored.
    pub fn unmask(&self, sent: &Json, stored: &Json) -> Json {
        let meant = sent.deep_clone();
        for field in self.fields.iter().filter(|field| !field.secret && was_secret(stored, &field.name)) {
            // Forms also mask a former secret, and the mask is not a value.
            if sent.get(&field.name).is_some_and(|value| value.as_str() == Some(MASK)) {
                meant.remove(&field.name);
            }
        }
        for field in self.fields.iter().filter(|field| field.secret) {
            if sent.get(&field.name).is_none_or(|value| value.as_str() != Some(MASK)) {
                continue;
            }
            // A value that is not stored comes from a layer below and remains there.
            let _ = match stored.get(&field.name) {
                Some(secret) => meant.set(&field.name, secret.deep_clone()).is_ok(),
                None => meant.remove(&field.name).is_some(),
            };
        }
        meant
    }
}

impl Field {
    fn in_force(&self, layers: &[Layer<'_>], problems: &mut Vec<(String, String)>) -> Json {
        let mut refused = Vec::new();
        let mut tell = |problem: String| problems.push((self.name.clone(), problem));
        let is_dropped = |layer: &Layer<'_>| !self.secret && was_secret(layer.values, &self.name);
        if layers.iter().any(is_dropped) {
            tell(format!(
                "valve `{0}` was stored as a secret and is no longer one, so its stored value is ignored; set \
                 `{0}` again",
                self.name
            ));
        }
        let given = layers.iter().rev().filter(|layer| !is_dropped(layer));
        let given = given.filter_map(|layer| Some((layer.values.get(&self.name)?, layer.coercion)));
        let mut used = self.default_value();
        for (value, coercion) in given.filter(|(value, _)| !value.is_null()) {
            match self.check(&value, coercion) {
                Ok(value) => {
                    used = value;
                    break;
                }
                Err(error) => refused.push(error.message),
            }
        }
        let shown = if self.secret && self.is_set(&used) { MASK.to_owned() } else { clipped(&used) };
        refused.into_iter().for_each(|message| tell(format!("{message}; {shown} is used instead")));
        used
    }

    /// Returns `true` if a secret is set: 0 and false are values, null and "" are not.
    fn is_set(&self, value: &Json) -> bool {
        !value.is_empty() || matches!(value, Json::Bool(_) | Json::Number(_))
    }
}

/// Returns the priority of a plugin in the chain: its valve `priority`, or 0 if that is missing or not a
/// number.
pub fn priority(effective: &Json) -> f64 {
    effective
        .get("priority")
        .and_then(|value| value.as_f64())
        .filter(|value| value.is_finite())
        .unwrap_or(0.0)
}
