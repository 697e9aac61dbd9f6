//! Stored values as they may be shown.

use valvehouse_core::valve::{MASK, Schema, is_mark, was_secret};
use valvehouse_json::{Json, Object};

/// Stored values as they may be shown: secrets masked, and also what the script does not declare, which may
/// have been a secret of an older version. Without a schema everything is masked.
pub fn shown(schema: Option<&Schema>, values: &Json) -> Json {
    let masked = schema.map_or_else(|| values.clone(), |schema| schema.mask(values));
    let entries = masked.as_object().map(Object::entries).unwrap_or_default().into_iter();
    let is_declared = |key: &str| schema.is_some_and(|schema| schema.field(key).is_some());
    let shown = entries.filter(|(key, _)| !is_mark(key)).map(|(key, value)| {
        let is_open = is_declared(&key) && !was_secret(values, &key);
        // What is empty hides nothing.
        let is_empty = is_declared(&key) && value.is_empty();
        let value = if is_open || is_empty { value.copy() } else { Json::from(MASK) };
        (key, value)
    });
    shown.collect::<Object>().into()
}
