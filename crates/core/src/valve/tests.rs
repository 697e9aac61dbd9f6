//! The behavior of valves for authors, operators and forms.

use super::*;
use proptest::prelude::*;
use valvehouse_json::Json;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn schema(literal: &str) -> ValveSchema {
    ValveSchema::declare(&json(literal)).unwrap()
}

fn problems(literal: &str) -> String {
    ValveSchema::declare(&json(literal)).unwrap_err().messages().join("\n")
}

fn refusal(schema: &ValveSchema, name: &str, value: impl Into<Json>) -> String {
    schema.check(name, &value.into()).unwrap_err().to_string()
}

/// Returns a schema with one field of each kind.
fn rich() -> ValveSchema {
    schema(
        r#"{
            "priority": 0,
            "max_turns": {"value": 4, "minimum": 1, "maximum": 500, "description": "Messages allowed"},
            "debug": false,
            "rate": 0.5,
            "mode": {"value": "fast", "enum": ["fast", "slow"], "title": "How"},
            "words": ["a", "b"],
            "ports": {"value": [], "items": {"type": "integer", "minimum": 1}},
            "prefix": {"value": "x-1", "pattern": "^x-"},
            "nickname": {"value": null, "type": "string", "pattern": "^[a-z]+$"},
            "api_key": {"value": "sk-default", "secret": true},
            "prompt": {"value": "line", "multiline": true}
        }"#,
    )
}

#[test]
fn types_are_inferred_from_bare_literals() {
    let schema = schema(r#"{"a": true, "b": 1, "c": 1.0, "d": "x", "e": [1]}"#);
    let kinds: Vec<_> =
        schema.fields().iter().map(|field| (field.name.as_str(), field.shape.kind.name())).collect();
    assert_eq!(kinds, [("a", "boolean"), ("b", "integer"), ("c", "number"), ("d", "string"), ("e", "array")]);
}

#[test]
fn an_invalid_declaration_names_the_field_the_error_and_the_fix() {
    for (literal, expected) in [
        (r#"[]"#, "valves must be a map of names and defaults"),
        (r#"{"a": {"vlaue": 1}}"#, "valve `a` has the unknown key `vlaue`; did you mean `value`?"),
        (
            r#"{"a": {"type": "string"}}"#,
            "valve `a` has no `value`: give its default, or write #{ value: (), type",
        ),
        (r#"{"a": null}"#, "valve `a` has no `type`: give one of string, integer, number, boolean, array"),
        (r#"{"a": {"value": {"b": 1}}}"#, "has a map as its value: write a list of maps"),
        (
            r#"{"a": {"value": 1, "type": "integr"}}"#,
            r#"valve `a.type` is the unknown type "integr"; did you mean `integer`?"#,
        ),
        (r#"{"a": {"value": "1", "type": "integer"}}"#, r#"valve `a.value` must be a whole number, not "1""#),
        (r#"{"a": {"value": 9, "maximum": 5}}"#, "valve `a.value` must be 5 or less, not 9"),
        (r#"{"a": {"value": 1, "minimum": 5, "maximum": 0}}"#, "so that nothing fits"),
        (r#"{"a": {"value": "x", "minimum": 5}}"#, "`minimum`, which is for numbers"),
        (r#"{"a": {"value": 1, "minimum": "5"}}"#, r#"has "5" as its `minimum`: give a number"#),
        (r#"{"a": {"value": "x", "pattern": "("}}"#, "not a regular expression: (: unclosed group"),
        (r#"{"a": {"value": 1, "pattern": "x"}}"#, "`pattern`, which is for text"),
        (
            r#"{"a": {"value": "x", "enum": []}}"#,
            "valve `a.enum` is not a list of values: give those that are allowed",
        ),
        (r#"{"a": {"value": "x", "enum": ["x", 1]}}"#, "valve `a.enum[1]` must be a string, not 1"),
        (r#"{"a": {"value": "z", "enum": ["x"]}}"#, r#"valve `a.value` must be one of "x", not "z""#),
        (r#"{"a": {"value": [], "items": "strng"}}"#, "did you mean `string`?"),
        (
            r#"{"a": {"value": ["x"], "items": "integer"}}"#,
            r#"valve `a.value[0]` must be a whole number, not "x""#,
        ),
        (r#"{"a": {"value": [], "items": {"minimum": 1}}}"#, "valve `a.items` has no `type`: give one of"),
        (r#"{"a": {"value": "x", "secret": "yes"}}"#, r#"valve `a.secret` is "yes": write true or false"#),
        (r#"{"a": {"value": 1, "multiline": true}}"#, "for text only"),
        (r#"{"a": {"value": 1, "description": 2}}"#, "valve `a.description` is 2: give text"),
    ] {
        let found = problems(literal);
        assert!(found.contains(expected), "{literal}\n  found: {found}\n  want:  {expected}");
    }
}

#[test]
fn all_problems_of_a_declaration_are_reported_at_once() {
    let found =
        ValveSchema::declare(&json(r#"{"a": null, "b": {"valu": 1}, "c": {"value": 9, "maximum": 1}}"#));
    let found = found.unwrap_err();
    let found = found.messages();
    assert!(
        ["`a`", "`b`", "`c.value`"].iter().all(|name| found.iter().any(|text| text.contains(name))),
        "{found:?}"
    );
}

#[test]
fn an_invalid_default_of_a_secret_is_not_printed() {
    let found = problems(r#"{"a": {"value": "sk-real", "secret": true, "pattern": "^never$"}}"#);
    assert!(!found.contains("sk-real"), "{found}");
}

#[test]
fn values_are_coerced_to_the_declared_type() {
    let schema = rich();
    for (name, given, stored) in [
        ("max_turns", r#""5""#, "5"),
        ("max_turns", r#"" 5 ""#, "5"),
        ("max_turns", "5.0", "5"),
        ("max_turns", r#""5.0""#, "5"),
        ("debug", r#""true""#, "true"),
        ("debug", r#""Off""#, "false"),
        ("debug", "1", "true"),
        ("rate", "2", "2.0"),
        ("rate", r#""0.25""#, "0.25"),
        ("prefix", r#""x-2""#, r#""x-2""#),
        ("prompt", "5", r#""5""#),
        ("prompt", "true", r#""true""#),
        ("words", r#""a, b,,c ""#, r#"["a","b","c"]"#),
        ("words", r#""""#, "[]"),
        ("words", r#"[1, "x"]"#, r#"["1","x"]"#),
        ("words", r#""[\"a,b\"]""#, r#"["a,b"]"#),
        ("ports", r#""80, 443""#, "[80,443]"),
        ("nickname", "null", "null"),
    ] {
        let checked =
            schema.check(name, &json(given)).unwrap_or_else(|error| panic!("{name} {given}: {error}"));
        assert_eq!(checked.to_string(), stored, "{name} {given}");
    }
}

#[test]
fn a_value_that_does_not_fit_names_field_rule_and_value() {
    let schema = rich();
    assert_eq!(refusal(&schema, "max_turns", 900i64), "valve `max_turns` must be 500 or less, not 900");
    assert_eq!(refusal(&schema, "max_turns", 4.5), "valve `max_turns` must be a whole number, not 4.5");
    assert_eq!(refusal(&schema, "ports", "80,0"), "valve `ports[1]` must be 1 or more, not \"0\"");
    assert_eq!(
        refusal(&schema, "mode", "fats"),
        "valve `mode` must be one of \"fast\", \"slow\" (did you mean fast?), not \"fats\""
    );
    assert_eq!(refusal(&schema, "prefix", "y"), "valve `prefix` must match the pattern ^x-, not \"y\"");
    assert!(refusal(&schema, "debug", "perhaps").contains("must be true or false"));
    assert!(refusal(&schema, "rate", "inf").contains("must be a number"));
    assert!(refusal(&schema, "max_turns", Json::Null).contains("leave it out for its default"));
    assert!(refusal(&schema, "words", Json::object()).contains("must be an array"));
    let error = schema.check("max_turns", &Json::from(0i64)).unwrap_err();
    assert_eq!((error.field.as_str(), error.rule, error.value), ("max_turns", "minimum", Json::from(0i64)));
}

#[test]
fn an_unknown_name_is_rejected_with_the_nearest_one() {
    assert_eq!(refusal(&rich(), "max_turn", 1i64), "unknown valve `max_turn`; did you mean `max_turns`?");
    assert!(refusal(&rich(), "zzz", 1i64).contains("; known valves: priority, max_turns"));
    assert_eq!(rich().nearest("prioriti"), Some("priority"));
}

#[test]
fn a_rejected_secret_is_not_printed() {
    let schema = schema(r#"{"key": {"value": "sk-one", "secret": true, "pattern": "^sk-"}}"#);
    let error = schema.check("key", &"hunter2".into()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    let (_, problems) = schema.effective(&[Layer::lenient(&json(r#"{"key": "hunter2"}"#))]);
    assert!(!problems[0].1.contains("hunter2") && !problems[0].1.contains("sk-one"), "{problems:?}");
}

#[test]
fn an_update_drops_unknown_keys_and_nulls() {
    let sent = json(r#"{"unknown": 1, "max_turns": "7", "rate": null, "nickname": null}"#);
    assert_eq!(rich().check_update(&sent).unwrap().to_string(), r#"{"max_turns":7}"#);
    assert!(rich().check_update(&json(r#"{"max_turns": 7, "rate": "x"}"#)).is_err());
    assert!(rich().check_update(&json("[]")).unwrap_err().message.contains("must be an object"));
}

#[test]
fn later_layers_override_earlier_ones() {
    let (file, store) =
        (json(r#"{"max_turns": 8, "rate": 1}"#), json(r#"{"max_turns": "9", "words": null, "gone": 1}"#));
    let (values, problems) = rich().effective(&[Layer::exact(&file), Layer::lenient(&store)]);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(values.get("max_turns"), Some(9i64.into()));
    assert_eq!(values.get("rate"), Some(1.0.into()));
    assert_eq!(values.get("words"), Some(json(r#"["a","b"]"#)));
    assert_eq!(values.get("gone"), None);
}

#[test]
fn an_exact_layer_is_not_converted_except_integers_to_numbers() {
    let schema = rich();
    for given in [
        r#"{"debug": "no"}"#,
        r#"{"debug": 1}"#,
        r#"{"max_turns": "5"}"#,
        r#"{"max_turns": 5.0}"#,
        r#"{"rate": "0.25"}"#,
        r#"{"prompt": 5}"#,
        r#"{"prompt": true}"#,
        r#"{"words": "a, b"}"#,
        r#"{"words": ["a", 1]}"#,
        r#"{"ports": ["80"]}"#,
    ] {
        let (file, stored) = (json(given), Json::object());
        let (values, problems) = schema.effective(&[Layer::exact(&file), Layer::lenient(&stored)]);
        assert_eq!(problems.len(), 1, "{given}: {problems:?}");
        let name = &file.keys()[0];
        assert_eq!(values.get(name), schema.effective(&[]).0.get(name), "{given}");
        assert_eq!(schema.layer_in_force(name, &[Layer::exact(&file)]), None, "{given}");
        assert!(schema.effective(&[Layer::lenient(&file)]).1.is_empty(), "{given}");
        // The same value as text of the environment has no type of its own.
        let typed = schema.typed(&file, &[name.to_string()].into());
        assert!(schema.effective(&[Layer::exact(&typed)]).1.is_empty(), "{given}");
    }
    let fits = json(r#"{"debug": false, "max_turns": 5, "rate": 2, "words": ["a"], "ports": [80]}"#);
    assert!(schema.effective(&[Layer::exact(&fits)]).1.is_empty());
}

#[test]
fn an_invalid_stored_value_is_replaced_by_the_default_and_reported() {
    let (file, store) = (json(r#"{"max_turns": 8}"#), json(r#"{"max_turns": 900, "rate": "often"}"#));
    let (values, problems) = rich().effective(&[Layer::exact(&file), Layer::lenient(&store)]);
    assert_eq!((values.get("max_turns"), values.get("rate")), (Some(8i64.into()), Some(0.5.into())));
    assert_eq!(problems[0].1, "valve `max_turns` must be 500 or less, not 900; 8 is used instead");
    assert!(problems[1].1.ends_with("; 0.5 is used instead"), "{problems:?}");
}

#[test]
fn a_script_changes_only_its_own_copy_of_its_values() {
    let schema = rich();
    let layer = json(r#"{"ports": [80]}"#);
    let (values, _) = schema.effective(&[Layer::lenient(&layer)]);
    values.get("words").unwrap().as_array().unwrap().push("c".into()).unwrap();
    values.get("ports").unwrap().as_array().unwrap().push(1i64.into()).unwrap();
    assert_eq!(schema.effective(&[Layer::lenient(&layer)]).0.get("words"), Some(json(r#"["a","b"]"#)));
    assert_eq!(layer, json(r#"{"ports": [80]}"#));
}

#[test]
fn a_masked_secret_that_is_sent_back_keeps_its_value() {
    let schema = rich();
    let stored = json(r#"{"api_key": "sk-real"}"#);
    let (values, _) = schema.effective(&[Layer::lenient(&stored)]);
    let shown = schema.mask(&values);
    assert_eq!(shown.get("api_key"), Some(MASK.into()));
    assert_eq!(values.get("api_key"), Some("sk-real".into()));
    assert_eq!(schema.mask(&json(r#"{"api_key": ""}"#)).get("api_key"), Some("".into()));

    shown.set("max_turns", 5i64).unwrap();
    let kept = schema.check_update(&schema.unmask(&shown, &stored)).unwrap();
    assert_eq!((kept.get("api_key"), kept.get("max_turns")), (Some("sk-real".into()), Some(5i64.into())));
    let never_stored = schema.unmask(&shown, &Json::object());
    assert_eq!(never_stored.get("api_key"), None);
    assert!(schema.check_update(&shown).is_err(), "the mask itself must never be stored");
}

#[test]
fn the_schema_describes_every_field_in_order() {
    let described = rich().json_schema();
    let property = |name: &str| described.get("properties").unwrap().get(name).unwrap().to_string();
    assert_eq!(
        property("max_turns"),
        r#"{"title":"Max Turns","description":"Messages allowed","type":"integer","minimum":1,"maximum":500,"default":4}"#
    );
    assert_eq!(
        property("mode"),
        r#"{"title":"How","type":"string","enum":["fast","slow"],"default":"fast"}"#
    );
    assert_eq!(
        property("nickname"),
        r#"{"title":"Nickname","anyOf":[{"type":"string","pattern":"^[a-z]+$"},{"type":"null"}],"default":null}"#
    );
    assert_eq!(
        property("api_key"),
        r#"{"title":"Api Key","type":"string","writeOnly":true,"input":{"type":"password"}}"#
    );
    assert_eq!(
        property("ports"),
        r#"{"title":"Ports","type":"array","items":{"type":"integer","minimum":1},"default":[]}"#
    );
    assert_eq!(
        property("prompt"),
        r#"{"title":"Prompt","type":"string","default":"line","format":"textarea"}"#
    );
    let names: Vec<_> = described.get("properties").unwrap().as_object().unwrap().keys();
    assert_eq!(names[..3], ["priority", "max_turns", "debug"]);
    assert_eq!(described.get("required"), None);
}

#[test]
fn a_pattern_that_json_schema_lacks_is_checked_but_not_in_the_schema() {
    let schema =
        schema(r#"{"a": {"value": "X", "pattern": "(?i)^x"}, "b": {"value": "x", "pattern": "^(?:x)$"}}"#);
    let property = |name: &str| schema.json_schema().get("properties").unwrap().get(name).unwrap();
    assert_eq!(property("a").get("pattern"), None);
    assert_eq!(property("b").text("pattern").unwrap(), "^(?:x)$");
    assert!(refusal(&schema, "a", "y").contains("must match the pattern (?i)^x"));
}

#[test]
fn every_schema_compiles_and_accepts_the_effective_values() {
    let layer = json(r#"{"nickname": "ann", "rate": "3", "words": "x,y", "ports": "1,2"}"#);
    for schema in
        [rich(), schema("{}"), schema(r#"{"a": [], "b": [1, "x"], "c": {"value": 1, "type": "number"}}"#)]
    {
        let described = serde_json::Value::from(&schema.json_schema());
        let validator = jsonschema::draft202012::new(&described).unwrap();
        for layers in [vec![], vec![Layer::lenient(&layer)]] {
            let values = serde_json::Value::from(&schema.effective(&layers).0);
            let errors: Vec<_> = validator.iter_errors(&values).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?} in {values}");
        }
    }
}

#[test]
fn priority_is_a_number_or_zero() {
    assert_eq!(priority(&json(r#"{"priority": -2}"#)), -2.0);
    assert_eq!(priority(&json(r#"{"priority": 0.5}"#)), 0.5);
    assert_eq!(priority(&json(r#"{"priority": "high"}"#)), 0.0);
    assert_eq!(priority(&Json::object()), 0.0);
}

fn any_value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[ -~]{0,8}".prop_map(Json::from),
        "[0-9]{1,3}(\\.0)?".prop_map(Json::from),
        "\\[?[0-9,a ]{0,8}\\]?".prop_map(Json::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Json::from))
}

proptest! {
    #[test]
    fn checking_values_twice_changes_nothing(value in any_value()) {
        let schema = rich();
        for field in schema.fields() {
            if let Ok(once) = schema.check(&field.name, &value) {
                let twice = schema.check(&field.name, &once).unwrap();
                prop_assert_eq!(once.to_string(), twice.to_string(), "{}", field.name);
            }
        }
    }

    #[test]
    fn stored_values_are_effective_and_fit_the_schema(value in any_value(), index in 0usize..11) {
        let schema = rich();
        let name = &schema.fields()[index].name;
        let sent = Json::object();
        sent.set(name, value).unwrap();
        if let Ok(stored) = schema.check_update(&sent) {
            let (values, problems) = schema.effective(&[Layer::lenient(&stored)]);
            prop_assert!(problems.is_empty(), "{:?}", problems);
            if let Some(kept) = stored.get(name) {
                prop_assert_eq!(values.get(name), Some(kept));
            }
            let described = serde_json::Value::from(&schema.json_schema());
            let validator = jsonschema::draft202012::new(&described).unwrap();
            prop_assert!(validator.is_valid(&serde_json::Value::from(&values)), "{}", values);
        }
    }
}
