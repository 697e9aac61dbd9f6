//! Fields of a request.

use valvehouse_json::Json;

/// A field that is there and not null.
pub(super) fn given(value: &Json, key: &str) -> Option<Json> {
    value.get(key).filter(|value| !value.is_null())
}
