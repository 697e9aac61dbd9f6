//! The behavior of parameters for authors and models.

use super::*;
use proptest::prelude::*;
use serde_json::Value;
use valvehouse_json::Json;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn parameters(declared: &str) -> Parameters {
    Parameters::declare(&json(declared)).unwrap_or_else(|problems| panic!("{declared}: {problems:?}"))
}

fn problems(declared: &str) -> String {
    Parameters::declare(&json(declared)).unwrap_err().messages().join("\n")
}

fn checked(declared: &str, args: &str) -> String {
    parameters(declared).check(&json(args)).unwrap_or_else(|error| panic!("{args}: {error}")).to_string()
}

fn refused(declared: &str, args: &str) -> String {
    parameters(declared).check(&json(args)).unwrap_err().to_string()
}

/// A list of maps, which leads to nested paths in problems.
const NESTED: &str = r#"{"items": {"type": "array", "items": {"type": "object", "properties": {
    "unit": {"type": "string", "enum": ["kg", "lb"], "required": true},
    "count": {"type": "integer", "default": 1}}}}}"#;

fn nested(depth: usize) -> String {
    let mut declared = r#""string""#.to_owned();
    for _ in 1..depth {
        declared = format!(r#"{{"properties": {{"x": {declared}}}}}"#);
    }
    format!(r#"{{"x": {declared}}}"#)
}

#[test]
fn an_invalid_declaration_names_the_path_the_error_and_the_fix() {
    for (declared, expected) in [
        ("[]", "parameters must be a map of names and declarations, such as #{ city"),
        (r#"{"a": 5}"#, "parameter `a` is 5: give a map, such as #{ type"),
        (r#"{"a": null}"#, "parameter `a` is null: give a map"),
        (r#"{"a": {}}"#, "parameter `a` has no `type`: give one of string, integer, number"),
        (r#"{"a": "strng"}"#, r#"parameter `a.type` is the unknown type "strng"; did you mean `string`?"#),
        (
            r#"{"a": {"type": ["string", "null"]}}"#,
            r#"`a.type` is the unknown type ["string","null"]; known"#,
        ),
        (
            r#"{"a": {"type": "string", "requird": true}}"#,
            "`a` has the unknown key `requird`; did you mean `required`?",
        ),
        (r#"{"a": {"type": "string", "required": "yes"}}"#, r#"`a.required` is "yes": write true or false"#),
        (
            r#"{"a": {"type": "object", "required": ["b"], "properties": {"b": "string"}}}"#,
            r#"`a.required` is ["b"]: write true or false, and write it with each property"#,
        ),
        (r#"{"a": {"type": "string", "description": 5}}"#, "`a.description` is 5: give text"),
        (r#"{"a": {"type": "integer", "default": "5"}}"#, r#"`a.default` must be a whole number, not "5""#),
        (r#"{"a": {"type": "integer", "default": 9, "maximum": 5}}"#, "`a.default` must be 5 or less, not 9"),
        (r#"{"a": {"enum": ["x"], "default": "y"}}"#, r#"`a.default` must be one of "x", not "y""#),
        (
            r#"{"a": {"type": "string", "pattern": "^x", "default": "y"}}"#,
            r#"`a.default` must match the pattern ^x, not "y""#,
        ),
        (
            r#"{"a": {"items": "integer", "default": [1, "2"]}}"#,
            r#"`a.default[1]` must be a whole number, not "2""#,
        ),
        (
            r#"{"a": {"properties": {"b": {"type": "string", "required": true}}, "default": {"c": 1}}}"#,
            "`a.default.b` is required\nparameter `a.default.c` is not declared",
        ),
        (r#"{"a": {"type": "string", "enum": []}}"#, "`a.enum` is not a list of values: give those"),
        (r#"{"a": {"type": "string", "enum": "x"}}"#, "`a.enum` is not a list of values: give those"),
        (r#"{"unit": {"type": "string", "enum": ["x", 1]}}"#, "`unit.enum[1]` must be a string, not 1"),
        (r#"{"a": {"type": "integer", "enum": [1, null]}}"#, "`a.enum[1]` must be a whole number, not null"),
        (
            r#"{"a": {"type": "array", "enum": [[1]]}}"#,
            "`a.enum` is for a whole array: put it with the items",
        ),
        (r#"{"a": {"type": "object", "enum": [{}]}}"#, "`a.enum` is for a whole object"),
        (r#"{"a": {"type": "integer", "minimum": 5, "maximum": 0}}"#, "so that nothing fits"),
        (r#"{"a": {"type": "string", "minimum": 5}}"#, "`a` has a `minimum`, which is for numbers"),
        (r#"{"a": {"type": "integer", "minimum": "5"}}"#, r#"`a` has "5" as its `minimum`: give a number"#),
        (r#"{"a": {"type": "integer", "pattern": "5"}}"#, "`a` has a `pattern`, which is for text"),
        (r#"{"a": {"type": "string", "pattern": "("}}"#, "not a regular expression: (: unclosed group"),
        (r#"{"a": {"type": "string", "pattern": "(?=b)"}}"#, "linear time: match the allowed text"),
        (
            r#"{"a": {"type": "string", "items": "string"}}"#,
            "`a` has `items`, but its type is string: make it array",
        ),
        (
            r#"{"a": {"type": "string", "properties": {}}}"#,
            "`a` has `properties`, but its type is string: make it object",
        ),
        (r#"{"a": {"type": "object", "properties": []}}"#, "`a.properties` is []: give a map"),
        (r#"{"a": {"items": {"type": "strin"}}}"#, "`a.items.type` is the unknown type"),
        (
            r#"{"a": {"items": {"type": "string", "required": true}}}"#,
            "`a.items` has the unknown key `required`; known keys: type, description, enum",
        ),
        (
            r#"{"items": {"items": {"properties": {"x": {"type": "flaot"}}}}}"#,
            r#"`items.items.properties.x.type` is the unknown type "flaot"; did you mean `float`?"#,
        ),
        (r#"{"": "string"}"#, r#"invalid parameter name "": use 1 to 64 of"#),
        (r#"{"a b": "string"}"#, r#"invalid parameter name "a b""#),
        (
            r#"{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}"#,
            "parameters are a JSON Schema: give only its `properties`",
        ),
    ] {
        let found = problems(declared);
        assert!(found.contains(expected), "{declared}\n  found: {found}\n  want:  {expected}");
    }
    parameters(&nested(16));
    assert!(problems(&nested(17)).contains("nests deeper than 16"));
    let many: Vec<String> = (0..129).map(|n| format!(r#""p{n}": "string""#)).collect();
    assert!(problems(&format!("{{{}}}", many.join(","))).contains("a tool has 129 parameters"));
}

#[test]
fn all_problems_of_a_declaration_are_reported_at_once() {
    let found = Parameters::declare(&json(
        r#"{"a": "x1", "b": {"typ": "string"}, "c": {"items": {"type": "integer", "enum": [1, "2", "3"]}}}"#,
    ));
    assert_eq!(found.unwrap_err().0.len(), 5); // b: an unknown key and no type; c: two values
}

#[test]
fn the_schema_keeps_the_declared_order_and_nested_requirements() {
    let declared = r#"{
        "zone": {"type": "string", "required": true, "description": "Where", "pattern": "^[a-z]+$"},
        "at": {"type": "object", "required": true, "properties": {
            "y": {"type": "float", "required": true, "minimum": 0.50, "maximum": 1e2},
            "x": {"type": "integer", "default": 5}}},
        "tags": {"items": {"enum": ["b", "a"]}},
        "rest": {"type": "array"},
        "free": "object",
        "sure": {"type": "bool", "required": true, "default": false}}"#;
    let expected = r#"{
        "type": "object", "properties": {
            "zone": {"type": "string", "description": "Where", "pattern": "^[a-z]+$"},
            "at": {"type": "object", "properties": {
                "y": {"type": "number", "minimum": 0.50, "maximum": 1e2},
                "x": {"type": "integer", "default": 5}}, "required": ["y"]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["b", "a"]}},
            "rest": {"type": "array", "items": {}},
            "free": {"type": "object"},
            "sure": {"type": "boolean", "default": false}},
        "required": ["zone", "at"]}"#;
    assert_eq!(parameters(declared).schema().to_string(), json(expected).to_string());
}

#[test]
fn readers_cannot_change_the_schema() {
    let parameters = parameters(NESTED);
    assert!(parameters.schema().set("type", "string").is_err());
    assert_eq!(parameters.schema().text("type").as_deref(), Some("object"));
}

#[test]
fn arguments_are_coerced_to_their_declared_type() {
    for (declared, given, read) in [
        ("integer", r#""3""#, "3"),
        ("integer", r#"" 3 ""#, "3"),
        ("integer", "3.0", "3"),
        ("integer", r#""3.0""#, "3"),
        ("integer", "1e2", "100"),
        ("integer", "18446744073709551615", "18446744073709551615"),
        ("integer", "-123456789012345678901234567890", "-123456789012345678901234567890"),
        ("integer", r#""123456789012345678901234567890""#, "123456789012345678901234567890"),
        ("float", "3", "3"),
        ("float", "1.10", "1.10"),
        ("float", r#""2.5""#, "2.5"),
        ("float", r#""-1e-3""#, "-1e-3"),
        ("string", "1.10", r#""1.10""#),
        ("string", "true", r#""true""#),
        ("string", r#""3""#, r#""3""#),
        ("boolean", r#""true""#, "true"),
        ("boolean", r#"" False ""#, "false"),
        ("boolean", "1", "true"),
        ("boolean", "0", "false"),
        ("array", r#""[1, \"2\"]""#, r#"[1,"2"]"#),
        ("array", r#"[{"any": ["thing"]}]"#, r#"[{"any":["thing"]}]"#),
        ("object", r#"" {\"a\": 1}""#, r#"{"a":1}"#),
        ("object", r#"{"any": null}"#, r#"{"any":null}"#),
    ] {
        let declared = format!(r#"{{"x": "{declared}"}}"#);
        assert_eq!(
            checked(&declared, &format!(r#"{{"x": {given}}}"#)),
            format!(r#"{{"x":{read}}}"#),
            "{declared}"
        );
    }
}

#[test]
fn a_value_of_another_type_is_refused() {
    for (declared, given, expected) in [
        ("integer", "3.5", "`x` must be a whole number, not 3.5"),
        ("integer", "1e300", "must be a whole number"),
        ("integer", r#""3 apples""#, r#"must be a whole number, not "3 apples""#),
        ("integer", "true", "must be a whole number, not true"),
        ("integer", r#""""#, "must be a whole number"),
        ("float", r#""NaN""#, "must be a number"),
        ("float", r#""inf""#, "must be a number"),
        ("float", "1e999", "must be a number"),
        ("boolean", "2", "must be true or false, not 2"),
        ("boolean", r#""yes""#, "must be true or false"),
        ("boolean", r#""1""#, "must be true or false"),
        ("string", "[]", "must be a string, not []"),
        ("array", r#""a, b""#, "must be an array"),
        ("array", r#""{}""#, "must be an array"),
        ("array", "{}", "must be an array"),
        ("object", "[]", "must be an object"),
        ("object", r#""\"{}\"""#, "must be an object"),
    ] {
        let text = refused(&format!(r#"{{"x": "{declared}"}}"#), &format!(r#"{{"x": {given}}}"#));
        assert!(text.contains(expected), "{declared} {given}: {text}");
    }
}

#[test]
fn a_validation_error_names_path_rule_and_value() {
    for (declared, args, expected) in [
        (r#"{"city": {"type": "string", "required": true}}"#, "{}", "`city` is required"),
        (r#"{"city": {"type": "string", "required": true}}"#, r#"{"city": null}"#, "`city` is required"),
        (
            r#"{"city": {"type": "string", "required": true}}"#,
            r#"{"ciyt": "x"}"#,
            "`city` is required (`ciyt` is not known)",
        ),
        (
            r#"{"unit": {"enum": ["celsius", "fahrenheit"]}}"#,
            r#"{"unit": "kelvin"}"#,
            r#"`unit` must be one of "celsius", "fahrenheit", not "kelvin""#,
        ),
        (
            r#"{"unit": {"enum": ["celsius", "fahrenheit"]}}"#,
            r#"{"unit": "Celsius"}"#,
            r#"(did you mean celsius?), not "Celsius""#,
        ),
        (r#"{"n": {"type": "integer", "minimum": 1}}"#, r#"{"n": "0"}"#, r#"`n` must be 1 or more, not "0""#),
        (r#"{"n": {"type": "float", "maximum": 1}}"#, r#"{"n": 1.5}"#, "`n` must be 1 or less, not 1.5"),
        (
            r#"{"id": {"type": "string", "pattern": "^x"}}"#,
            r#"{"id": "y"}"#,
            r#"`id` must match the pattern ^x, not "y""#,
        ),
        (
            NESTED,
            r#"{"items": [{"unit": "kg"}, {}, {"unit": "t"}]}"#,
            r#"`items[1].unit` is required; `items[2].unit` must be one of "kg", "lb", not "t""#,
        ),
        (NESTED, "[]", "the arguments must be an object of names and values, not array"),
        ("{}", r#""{}""#, "the arguments must be an object of names and values, not string"),
    ] {
        let text = refused(declared, args);
        assert!(text.contains(expected), "{declared} {args}\n  found: {text}\n  want:  {expected}");
    }
    assert!(Parameters::default().check(&Json::Null).is_err());
}

#[test]
fn a_validation_error_stays_short_with_many_problems() {
    let text = "x".repeat(100_000);
    let items = vec![format!(r#"{{"unit": "{text}"}}"#); 50].join(",");
    let error = parameters(NESTED).check(&json(&format!(r#"{{"items": [{items}]}}"#))).unwrap_err();
    assert_eq!((error.problems.len(), error.more), (8, 42));
    assert!(error.to_string().len() < 2000 && error.to_string().ends_with("; and 42 more"));
}

#[test]
fn undeclared_arguments_are_dropped_and_missing_ones_get_defaults() {
    assert_eq!(
        checked(NESTED, r#"{"x": 1, "items": [{"unit": "kg", "y": 2}, {"count": 3, "unit": "lb"}]}"#),
        r#"{"items":[{"unit":"kg","count":1},{"unit":"lb","count":3}]}"#
    );
    assert_eq!(checked("{}", r#"{"x": 1}"#), "{}");
    let declared = r#"{"a": {"type": "integer", "default": 5, "required": true}, "b": "string",
        "c": {"properties": {"d": {"default": [1]}}, "default": {}}}"#;
    assert_eq!(checked(declared, "{}"), r#"{"a":5,"c":{"d":[1]}}"#);
    assert_eq!(checked(declared, r#"{"b": null, "a": null, "c": {"d": null}}"#), r#"{"a":5,"c":{"d":[1]}}"#);
}

#[test]
fn a_tool_without_declared_parameters_gets_all_arguments() {
    let args = json(r#"{"x":{"y":[1]}}"#);
    let given = Parameters::default().check(&args).unwrap();
    assert_eq!(given.to_string(), args.to_string());
    assert_eq!(Parameters::default().schema().to_string(), r#"{"type":"object","properties":{}}"#);
}

#[test]
fn checked_arguments_are_deep_copies() {
    let parameters = parameters(r#"{"free": {"type": "object"}, "list": {"default": [[1]]}}"#);
    let args = json(r#"{"free": {"deep": []}}"#);
    let given = parameters.check(&args).unwrap();
    given.at_path("free.deep").as_array().unwrap().push(1_i64.into()).unwrap();
    given.at_path("list.0").as_array().unwrap().push(2_i64.into()).unwrap();
    assert_eq!(args.to_string(), r#"{"free":{"deep":[]}}"#);
    assert_eq!(parameters.check(&args).unwrap().to_string(), r#"{"free":{"deep":[]},"list":[[1]]}"#);
}

/// Generates declarations with parts named from a few names, so that generated arguments match them.
fn shapes() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(serde_json::json!({"type": "string"})),
        Just(serde_json::json!("boolean")),
        Just(serde_json::json!({"type": "string", "enum": ["a", "3", "true"]})),
        Just(serde_json::json!({"type": "string", "pattern": "^[a-c]+$"})),
        Just(serde_json::json!({"type": "string", "pattern": "(?i)^T", "default": "t"})),
        Just(serde_json::json!({"type": "integer", "enum": [1, 2, 3], "default": 2})),
        (-3_i64..3).prop_map(|n| serde_json::json!({"type": "integer", "minimum": n, "default": n})),
        (-3.0_f64..3.0).prop_map(|n| serde_json::json!({"type": "float", "maximum": n})),
        Just(serde_json::json!({"type": "integer", "maximum": 9_007_199_254_740_992_i64})),
        Just(serde_json::json!({"type": "array"})),
        Just(serde_json::json!({"type": "object"})),
    ];
    plain.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|mut items| {
                if let Some(items) = items.as_object_mut() {
                    items.remove("default");
                }
                serde_json::json!({"items": items})
            }),
            members(inner).prop_map(|properties| serde_json::json!({"properties": properties})),
        ]
    })
}

fn members(shape: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[abc]", (shape, any::<bool>()), 0..4).prop_map(|members| {
        let member = |(name, (mut shape, required)): (String, (Value, bool))| {
            if let Some(shape) = shape.as_object_mut() {
                shape.insert("required".into(), required.into());
            }
            (name, shape)
        };
        Value::Object(members.into_iter().map(member).collect())
    })
}

/// Generates JSON values from the words and numbers of the declarations.
fn values() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "1",
            "2.0",
            "1e2",
            "-0",
            "1.10",
            "\"\"",
            "\"a\"",
            "\"abc\"",
            "\"3\"",
            "\" 2.0 \"",
            "\"true\"",
            "\"True\"",
            "\"t\"",
            "\"[1]\"",
            "\"{\\\"a\\\":1}\"",
            "\"[[\\\"a\\\"]]\"",
            "1e999",
            "9007199254740993",
            "18446744073709551615",
            "123456789012345678901234567890",
            "\"123456789012345678901234567890\"",
        ])
        .prop_map(str::to_owned),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f32>().prop_filter("JSON has no infinities", |n| n.is_finite()).prop_map(|n| format!("{n:?}")),
        ".*".prop_map(|text| Value::String(text).to_string()),
    ];
    plain.prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![list.prop_map(|items| format!("[{}]", items.join(","))), objects(inner)]
    })
}

fn objects(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::btree_map("[abcd]", value, 0..4).prop_map(|members| {
        let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

/// Generates a value that matches a declaration, or nearly does.
fn meant_for(declared: &Value) -> BoxedStrategy<String> {
    let name = declared.as_str().or_else(|| declared["type"].as_str()).unwrap_or_default();
    let plain = |choices: &[&str]| {
        let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
        prop::sample::select(choices).boxed()
    };
    if let Some(allowed) = declared["enum"].as_array() {
        return prop::sample::select(allowed.iter().map(Value::to_string).collect::<Vec<_>>()).boxed();
    }
    if let Some(properties) = declared["properties"].as_object() {
        return meant_for_all(properties);
    }
    if let Some(items) = declared.get("items") {
        let list = prop::collection::vec(meant_for(items), 0..3);
        return list.prop_map(|items| format!("[{}]", items.join(","))).boxed();
    }
    match name {
        "string" => plain(&["\"a\"", "\"Tea\"", "3"]),
        "boolean" => plain(&["true", "0", "\"False\""]),
        "array" => plain(&["[]", "[{}]", "\"[1]\""]),
        "object" => plain(&["{}", "{\"d\":null}"]),
        _ => plain(&["-4", "3", "\"2\"", "2.0", "9007199254740992"]),
    }
}

fn meant_for_all(properties: &serde_json::Map<String, Value>) -> BoxedStrategy<String> {
    let member = |(name, shape): (&String, &Value)| {
        let name = name.clone();
        meant_for(shape).prop_map(move |value| format!("\"{name}\":{value}"))
    };
    let members: Vec<_> = properties.iter().map(member).collect();
    members.prop_map(|members| format!("{{{}}}", members.join(","))).boxed()
}

fn declared_and_given() -> impl Strategy<Value = (Value, String)> {
    members(shapes()).prop_flat_map(|declared| {
        let meant = meant_for_all(declared.as_object().unwrap());
        (Just(declared), prop_oneof![3 => meant, 1 => objects(values()), 1 => values()])
    })
}

/// Checks the invariants for any arguments; returns `true` if they are valid.
fn holds(declared: &Value, given: &str) -> Result<bool, TestCaseError> {
    let parameters = Parameters::declare(&Json::from(declared.clone())).unwrap();
    let schema = Value::from(&parameters.schema());
    let validator =
        jsonschema::draft202012::new(&schema).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert!(jsonschema::draft202012::meta::is_valid(&schema));
    let Ok(fitting) = parameters.check(&json(given)) else { return Ok(false) };
    prop_assert!(validator.is_valid(&Value::from(&fitting)), "{} against {}", fitting, schema);
    let again = parameters.check(&fitting).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(again.to_string(), fitting.to_string());
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn accepted_arguments_fit_the_schema_and_are_accepted_again((declared, given) in declared_and_given()) {
        holds(&declared, &given)?;
    }

    #[test]
    fn random_declarations_and_arguments_do_not_panic(declared in values(), given in values()) {
        let parameters = Parameters::declare(&json(&declared)).unwrap_or_default();
        let _ = parameters.check(&json(&given));
    }
}

#[test]
fn the_generator_makes_enough_valid_arguments() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let passed = (0..300).filter(|_| {
        let (declared, given) = declared_and_given().new_tree(&mut runner).unwrap().current();
        holds(&declared, &given).unwrap()
    });
    assert!(passed.count() > 60);
}
