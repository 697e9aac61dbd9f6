//! Objects of fields of which some may be missing.

use valvehouse_core::fault::Fault;
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

/// Reads JSON that was stored.
///
/// # Errors
/// Returns a fault of the host if it is not valid JSON: its row was changed by something else, or is damaged.
pub(super) fn read_stored(text: &str, of: &str) -> Result<Json, Fault> {
    let damaged = |error| Fault::Host(format!("cannot read {of} from the store: {error}; delete it"));
    Json::parse(text.as_bytes()).map_err(damaged)
}
