//! `json::…`: converts between text and values.

use super::argument::{RhaiResultOf, fail};
use super::output;
use rhai::plugin::*;
use valvehouse_dialect::value::{Shape, json_of, live};
use valvehouse_json::Json;

/// The maximum number of values that are read at once, because a native's memory is not checked meanwhile.
pub(super) const MAX_VALUES: usize = 200_000;

#[export_module]
pub(super) mod functions {
    /// Parses a JSON text and returns its value, with keys in order. Fails with line and column if the text is not
    /// valid JSON.
    #[rhai_fn(return_raw)]
    pub fn parse(text: &str) -> RhaiResultOf<Dynamic> {
        let json =
            Json::parse_within(text.as_bytes(), MAX_VALUES).map_err(|error| fail("json::parse", error))?;
        Ok(live(&json, Shape::Plain))
    }

    /// Returns a value as compact JSON text.
    #[rhai_fn(return_raw)]
    pub fn stringify(value: Dynamic) -> RhaiResultOf<String> {
        output::json("json::stringify", &json_of(&value)?, None)
    }

    /// Returns a value as JSON text, indented by `indent` spaces per level, 0 to 16.
    #[rhai_fn(return_raw, name = "stringify")]
    pub fn stringify_indented(value: Dynamic, indent: i64) -> RhaiResultOf<String> {
        match usize::try_from(indent) {
            Ok(0) => output::json("json::stringify", &json_of(&value)?, None),
            Ok(spaces @ 1..=16) => output::json("json::stringify", &json_of(&value)?, Some(spaces)),
            _ => Err(fail("json::stringify", format!("`indent` must be 0 to 16 spaces, not {indent}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn json_is_parsed_and_written() {
        gives(&[
            (r#"json::parse("[1, 2.5, null, true, {\"a\": \"b\"}]")"#, r#"[1,2.5,null,true,{"a":"b"}]"#),
            (r#"json::stringify(json::parse("{\"b\": 1, \"a\": 2}"))"#, r#""{\"b\":1,\"a\":2}""#),
            (r#"json::stringify(#{ a: [1, ()] })"#, r#""{\"a\":[1,null]}""#),
            (r#"json::stringify([1], 2)"#, r#""[\n  1\n]""#),
            (r#"json::stringify([1], 0)"#, r#""[1]""#),
            (r#"json::stringify("x")"#, r#""\"x\"""#),
        ]);
    }

    #[test]
    fn json_errors_name_the_problem() {
        refuses(&[
            (r#"json::parse("{\n\"a\" 1}")"#, "line 2 column 5"),
            ("json::stringify([], 17)", "0 to 16"),
            ("json::stringify(|x| x)", "not a JSON value"),
            ("let s = big(1_000_000); json::stringify([s, s, s, s, s, s, s, s, s])", "limit of 8 MiB"),
        ]);
    }
}
