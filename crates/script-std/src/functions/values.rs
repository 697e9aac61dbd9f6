//! Functions that are called without a module name: `uuid()`, `empty(v)`.

use super::host_calls;
use rhai::plugin::*;
use valvehouse_dialect::value::is_empty;

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

#[cfg(test)]
mod tests {
    use crate::functions::tests::gives;

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
