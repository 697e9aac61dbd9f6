//! Valves: whatever a script declares and whoever sends what, an accepted value keeps to the
//! declaration and is accepted again as it is, and no secret shows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use valvehouse::json::Json;
use valvehouse::schema::ValueKind as Kind;
use valvehouse::valve::{Field, Layer, MASK, ValveSchema as Schema};

/// The value that nobody may see, unlike anything else in the input.
const SECRET: &str = "sEcReT/7";

fuzz_target!(|input: &[u8]| {
    let mut documents = input.split(|&byte| byte == 0).map(Json::parse);
    let mut next = || documents.next().and_then(Result::ok).unwrap_or_default();
    let (declared, sent) = (next(), next());
    match Schema::declare(&declared) {
        Err(problems) => assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty())),
        Ok(schema) => {
            let described = described(&schema);
            in_force(&schema, &described, &[]);
            in_force(&schema, &described, &[Layer::lenient(&sent)]);
            each_value(&schema, &sent);
            update(&schema, &described, &sent);
            // The fuzzer reads constants too, and would put this one into names.
            if !declared.to_string().contains(SECRET) {
                secrets(&schema);
            }
        }
    }
});

/// The schema as others read it, without patterns, whose dialect may try for ever.
fn described(schema: &Schema) -> jsonschema::Validator {
    let written = schema.json_schema().encode().expect("a schema is not deep");
    let mut described: Value = serde_json::from_slice(&written).expect("a schema is JSON");
    drop_patterns(&mut described["properties"]);
    jsonschema::draft202012::new(&described).unwrap_or_else(|error| panic!("{error}: {described}"))
}

fn drop_patterns(properties: &mut Value) {
    let fields = properties.as_object_mut().into_iter().flat_map(|map| map.values_mut());
    for field in fields {
        for place in ["/anyOf/0", "/items", "/anyOf/0/items", ""] {
            let schema = field.pointer_mut(place).and_then(Value::as_object_mut);
            schema.and_then(|schema| schema.remove("pattern"));
        }
    }
}

/// The values in force are those declared, all of them, and as the schema says.
fn in_force(schema: &Schema, described: &jsonschema::Validator, layers: &[Layer<'_>]) -> Json {
    let (values, problems) = schema.effective(layers);
    assert!(!layers.is_empty() || problems.is_empty(), "the defaults do not fit: {problems:?}");
    let names = schema.fields().iter().map(|field| field.name.as_str());
    assert!(values.as_object().expect("values are a map").keys().iter().eq(names));
    for field in schema.fields() {
        keeps_to(field, &values.get(&field.name).expect("every field has a value"));
    }
    let written = values.encode().expect("what was read is not too deep");
    let read: Value = serde_json::from_slice(&written).expect("values are JSON");
    assert!(described.is_valid(&read), "{read} is not {}", schema.json_schema());
    assert!(valvehouse::valve::priority(&values).is_finite());
    values
}

/// Checks a value against its declaration, without the code that checks.
fn keeps_to(field: &Field, value: &Json) {
    if value.is_null() {
        assert!(field.is_optional());
        return;
    }
    let fits = match field.shape.kind {
        Kind::Boolean => value.as_bool().is_some(),
        Kind::Integer => value.as_i64().is_some(),
        Kind::Number => value.as_f64().is_some_and(f64::is_finite),
        Kind::String => value.as_str().is_some(),
        Kind::Array(_) => value.as_array().is_some(),
        Kind::Object(_) => false,
    };
    assert!(fits, "{value} is not {:?}", field.shape.kind);
    let limits = &field.shape.limits;
    if let Some(number) = value.as_f64() {
        let (least, most) = (limits.minimum.as_ref(), limits.maximum.as_ref());
        assert!(least.and_then(Json::as_f64).is_none_or(|least| number >= least), "{value} is too small");
        assert!(most.and_then(Json::as_f64).is_none_or(|most| number <= most), "{value} is too large");
    }
    assert!(limits.allowed.is_empty() || limits.allowed.contains(value), "{value} is not allowed");
    if let (Some(text), Some(pattern)) = (value.as_str(), &limits.pattern) {
        assert!(pattern.is_match(text));
    }
}

/// Any value for any field is refused with a sentence, or accepted for good.
fn each_value(schema: &Schema, sent: &Json) {
    let entries = sent.as_object().map(|object| object.entries()).unwrap_or_default();
    for field in schema.fields() {
        for (name, value) in &entries {
            match schema.check(&field.name, value) {
                Ok(once) => {
                    keeps_to(field, &once);
                    let twice = schema.check(&field.name, &once).expect("what was accepted is accepted");
                    assert_eq!(once.to_string(), twice.to_string());
                    assert!(!once.ptr_eq(value), "it shares what was given");
                }
                Err(error) => assert!(error.message.contains(&field.name) && error.field == field.name),
            }
            assert!(schema.field(name).is_some() || schema.check(name, value).is_err());
        }
    }
}

/// Checks that the values that an update stores are in force, and that a page that sends back the values it
/// was shown changes nothing.
fn update(schema: &Schema, described: &jsonschema::Validator, sent: &Json) {
    let Ok(stored) = schema.check_update(sent) else { return };
    let (_, problems) = schema.effective(&[Layer::lenient(&stored)]);
    assert!(problems.is_empty(), "what was stored does not fit: {problems:?}");
    let values = in_force(schema, described, &[Layer::lenient(&stored)]);
    for (name, value) in stored.as_object().expect("what is stored is a map").entries() {
        assert_eq!(values.get(&name), Some(value));
    }
    let sent_back = schema.unmask(&schema.mask(&values), &stored);
    let again = schema.check_update(&sent_back).expect("what was shown is accepted");
    assert_eq!(schema.effective(&[Layer::lenient(&again)]).0.to_string(), values.to_string());
}

/// A secret, fitting or not, is in nothing that is shown.
fn secrets(schema: &Schema) {
    let sent = Json::object();
    for field in schema.fields().iter().filter(|field| field.secret) {
        for value in [SECRET.into(), Json::from(vec![SECRET.into()]), Json::from([("a", SECRET.into())])] {
            if let Err(error) = schema.check(&field.name, &value) {
                hides(&format!("{error} {:?}", error));
            } else {
                sent.set(&field.name, value).expect("a fresh map takes any key");
            }
        }
    }
    let (values, problems) = schema.effective(&[Layer::lenient(&sent)]);
    let shown = schema.mask(&values);
    hides(&format!("{shown} {problems:?}"));
    hides(&schema.json_schema().to_string());
    for field in schema.fields().iter().filter(|field| field.secret && sent.get(&field.name).is_some()) {
        assert_eq!(shown.get(&field.name), Some(MASK.into()));
        let described = schema.json_schema().get("properties").and_then(|all| all.get(&field.name));
        assert_eq!(described.and_then(|field| field.get("default")), None);
    }
}

fn hides(shown: &str) {
    assert!(!shown.contains(SECRET), "a secret shows: {shown}");
}
