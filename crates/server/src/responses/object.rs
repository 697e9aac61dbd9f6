//! Objects of fields of which some may be missing.

use valvehouse_json::{Json, Object};

/// The object with these fields, in their order.
pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    fields.into_iter().map(|(key, value)| (key.into(), value)).collect::<Object>().into()
}
