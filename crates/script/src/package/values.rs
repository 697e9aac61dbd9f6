//! Functions that are called without a module name: `uuid()`, `empty(v)`.

use super::host_calls;
use crate::value::json_of;
use rhai::plugin::*;

#[export_module]
pub(super) mod functions {
    /// Returns a new random identifier (UUID version 4), such as `"f47ac10b-58cc-4372-a567-0e02b2c3d479"`.
    #[rhai_fn(volatile)]
    pub fn uuid() -> String {
        host_calls::value("uuid", || ::uuid::Uuid::new_v4().to_string())
    }

    /// Returns `true` if a value is empty: `()`, `""`, `[]`, `#{}`, `false`, `0`.
    pub fn empty(value: Dynamic) -> bool {
        is_empty(&value)
    }
}

/// Returns `true` if a value is false as a condition.
pub(crate) fn is_empty(value: &Dynamic) -> bool {
    if let Ok(text) = value.as_immutable_string_ref() {
        return text.is_empty();
    }
    if let Ok(array) = value.as_array_ref() {
        return array.is_empty();
    }
    if let Ok(map) = value.as_map_ref() {
        return map.is_empty();
    }
    if let Ok(bytes) = value.as_blob_ref() {
        return bytes.is_empty();
    }
    // A value without a JSON form, such as a function, is not empty.
    json_of(value).is_ok_and(|json| json.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::package::tests::gives;

    #[test]
    fn each_uuid_is_unique() {
        gives(&[("uuid() != uuid()", "true"), ("uuid().len", "36"), ("uuid()[14]", r#""4""#)]);
    }

    #[test]
    fn empty_is_true_for_falsy_values_only() {
        for nothing in ["()", r#""""#, "[]", "#{}", "false", "0", "0.0"] {
            gives(&[(&format!("empty({nothing})"), "true")]);
        }
        for thing in [r#"" ""#, "[0]", "#{a: ()}", "true", "-1", "0.1", "|x| x"] {
            gives(&[(&format!("empty({thing})"), "false")]);
        }
    }
}
