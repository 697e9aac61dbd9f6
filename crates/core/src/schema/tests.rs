//! The behavior that valves, parameters and options share.

use super::*;
use crate::tool::Parameters;
use crate::valve::ValveSchema;
use valvehouse_json::Json;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn each_coercion_converts_what_its_sources_send() {
    let no = "refused";
    for (kind, given, exact, form, model) in [
        ("string", r#""a""#, r#""a""#, r#""a""#, r#""a""#),
        ("string", "1.10", no, r#""1.10""#, r#""1.10""#),
        ("string", "[]", no, no, no),
        ("integer", "3", "3", "3", "3"),
        ("integer", "3.0", no, "3", "3"),
        ("integer", r#"" 3 ""#, no, "3", "3"),
        ("integer", r#""+3""#, no, "3", no),
        ("integer", "18446744073709551615", no, no, "18446744073709551615"),
        ("integer", "true", no, no, no),
        ("number", "3", "3.0", "3.0", "3"),
        ("number", "1.10", "1.1", "1.1", "1.10"),
        ("number", r#"".5""#, no, "0.5", no),
        ("number", "1e999", no, no, no),
        ("boolean", "true", "true", "true", "true"),
        ("boolean", "1", no, "true", "true"),
        ("boolean", r#""off""#, no, "false", no),
        ("boolean", r#""False""#, no, "false", "false"),
        ("array", "[1]", "[1]", "[1]", "[1]"),
        ("array", r#""a, b""#, no, r#"["a","b"]"#, no),
        ("array", r#""[1,""#, no, r#"["[1"]"#, no),
        ("array", r#""[1]""#, no, "[1]", "[1]"),
        ("object", r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":1}"#),
        ("object", r#""{\"a\":1}""#, no, no, r#"{"a":1}"#),
        ("object", "null", no, no, no),
    ] {
        let shape = ValueShape::new(ValueKind::from_name(kind).unwrap());
        for (coercion, expected) in
            [(Coercion::Exact, exact), (Coercion::Form, form), (Coercion::Model, model)]
        {
            let found = shape.check("x", &json(given), coercion);
            let found = found.map_or_else(|_| no.to_owned(), |value| value.to_string());
            assert_eq!(found, expected, "{kind} {given} {coercion:?}");
        }
    }
}

#[test]
fn a_problem_says_path_and_rule() {
    let shape = ValueShape::new(ValueKind::Array(Some(Box::new(
        ValueShape::new(ValueKind::Integer).between(1_i64..=9),
    ))));
    let error = shape.check("ports", &json(r#"[1, 0, "x"]"#), Coercion::Exact).unwrap_err();
    let rules: Vec<_> = error.problems.iter().map(|problem| (problem.path.as_str(), problem.rule)).collect();
    assert_eq!(rules, [("ports[1]", "minimum"), ("ports[2]", "type")]);
    assert_eq!(
        error.to_string(),
        "`ports[1]` must be 1 or more, not 0; `ports[2]` must be a whole number, not \"x\""
    );
    assert_eq!(
        error.without_values().to_string(),
        "`ports[1]` must be 1 or more; `ports[2]` must be a whole number"
    );
}

/// Every key of a declaration with a value of every wrong type, and names of types in other languages.
#[test]
fn a_key_of_a_wrong_type_is_reported_with_its_path() {
    let fits: [(&str, &[&str]); 12] = [
        ("type", &["text"]),
        ("title", &["text"]),
        ("description", &["text"]),
        ("required", &["true"]),
        ("secret", &["true"]),
        ("multiline", &["true"]),
        ("minimum", &["number"]),
        ("maximum", &["number"]),
        ("pattern", &["text"]),
        ("enum", &["list"]),
        ("items", &["text", "map"]),
        ("properties", &["map"]),
    ];
    let values = [
        ("null", "null"),
        ("true", "true"),
        ("number", "7"),
        ("text", r#""string""#),
        ("list", r#"["a"]"#),
        ("map", r#"{"type": "string"}"#),
    ];
    for (key, right) in fits {
        for (name, value) in values.iter().filter(|(name, _)| !right.contains(name)) {
            let kind = match key {
                "minimum" | "maximum" => "number",
                "items" => "array",
                "properties" => "object",
                _ => "string",
            };
            let kind = if key == "type" { String::new() } else { format!(r#""type": "{kind}", "#) };
            let map = format!(r#"{{"a": {{{kind}"{key}": {value}}}}}"#);
            let valve = map.replacen('{', "{ ", 1).replace(r#""a": {"#, r#""a": {"value": null, "#);
            for (noun, found) in [
                ("parameter", Parameters::declare(&json(&map)).err()),
                ("valve", ValveSchema::declare(&json(&valve)).err()),
            ] {
                let problems = found.unwrap_or_else(|| panic!("{noun} {map} with {name} is accepted"));
                let problems = problems.messages();
                assert!(problems.iter().all(|text| text.starts_with(&format!("{noun} `a"))), "{problems:?}");
                assert!(problems.iter().any(|text| text.contains(key)), "{key} {name}: {problems:?}");
            }
        }
    }
}

#[test]
fn names_of_types_in_other_languages_are_explained() {
    for (given, meant) in [("str", "string"), ("list", "array"), ("integr", "integer"), ("flaot", "float")] {
        for (noun, declared) in [("valve", r#"{"value": null, "type": "#), ("parameter", r#"{"type": "#)] {
            let map = json(&format!(r#"{{"a": {declared}"{given}"}}}}"#));
            let problems = match noun {
                "valve" => ValveSchema::declare(&map).unwrap_err(),
                _ => Parameters::declare(&map).unwrap_err(),
            };
            let expected =
                format!(r#"{noun} `a.type` is the unknown type "{given}"; did you mean `{meant}`?"#);
            assert!(problems.messages()[0].starts_with(&expected), "{problems:?}");
        }
    }
    let dict = json(r#"{"a": {"value": null, "type": "dict"}}"#);
    assert!(
        !ValveSchema::declare(&dict).unwrap_err().messages()[0].contains("did you mean"),
        "valves are not objects"
    );
}

#[test]
fn a_huge_declaration_ends_with_a_problem() {
    let mut deep = r#""string""#.to_owned();
    for _ in 0..100 {
        deep = format!(r#"{{"items": {deep}}}"#);
    }
    let problems = Parameters::declare(&json(&format!(r#"{{"a": {deep}}}"#))).unwrap_err();
    let problems = problems.messages();
    assert!(problems.len() == 1 && problems[0].len() < 200, "{problems:?}");
    assert!(problems[0].ends_with("nests deeper than 16: flatten it"), "{problems:?}");

    let patterns: Vec<_> = (0..200).map(|n| format!(r#""v{n}": {{"value": "", "pattern": "x?"}}"#)).collect();
    let problems = ValveSchema::declare(&json(&format!("{{{}}}", patterns.join(",")))).unwrap_err();
    assert_eq!(problems.messages(), ["valve `v32` exceeds the limit of 32 patterns: drop some"]);

    let long = "x".repeat(100_000);
    let map = json(&format!(r#"{{"{long}": {{"value": {{}}, "type": "{long}"}}}}"#));
    assert!(ValveSchema::declare(&map).unwrap_err().messages().iter().all(|text| text.len() < 500));
    assert!(Parameters::declare(&map).unwrap_err().messages().iter().all(|text| text.len() < 500));
}
