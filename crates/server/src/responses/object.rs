//! Objects of fields of which some may be missing.

use valvehouse_json::{Json, Object};

/// The object with these fields, in their order.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    fields.into_iter().map(|(key, value)| (key.into(), value)).collect::<Object>().into()
}

/// Sets a field of an object that was just made, which takes any value.
pub(super) fn put(object: &Json, key: &str, value: impl Into<Json>) {
    if object.set(key, value).is_err() {
        tracing::error!("cannot set the field `{key}`: the value is read-only");
    }
}
