//! JSON: what is read agrees with `serde_json`, what is written reads back the same, and no sequence of
//! changes through live handles makes a value that is not JSON.
//!
//! Meant to differ from `serde_json`: numbers beyond its range (`1e999`) are kept as they are spelt, and
//! containers may nest 128 deep where it stops at 127.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use valvehouse::json::{Json, MAX_DEPTH};

/// Changes made to one value.
const CHANGES: usize = 48;
/// Handles held; more would only make finding a parent rare.
const HANDLES: usize = 32;
/// Values met on a walk through everything held; what is put in twice is met twice, and a walk
/// that does not end would be met here too.
const VALUES: usize = 20_000;

fuzz_target!(|input: &[u8]| {
    // The text behind the first NUL, which is not JSON, says what is changed.
    let end = input.iter().position(|&byte| byte == 0).unwrap_or(input.len());
    let (text, changes) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    let theirs = serde_json::from_slice::<Value>(text);
    match Json::parse(text) {
        Ok(ours) => {
            agree(text, &ours, theirs);
            change(&ours, &mut Unstructured::new(changes));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(theirs.is_err(), "only serde_json reads it: {error}");
        }
    }
});

fn agree(text: &[u8], ours: &Json, theirs: serde_json::Result<Value>) {
    match theirs {
        Ok(theirs) => assert_same(ours, &theirs),
        Err(error) => {
            let error = error.to_string();
            let meant = error.contains("number out of range") || error.contains("recursion limit");
            assert!(meant, "only we read it: {error}");
        }
    }
    assert!(!ours.is_changed());
    let written = ours.encode().expect("what was read is not too deep");
    let again = Json::parse(&written).expect("what is written is JSON");
    assert_eq!(again.encode().expect("as deep as before"), written, "reading and writing again changes it");
    assert_eq!(again, *ours);
    assert_eq!(ours.deep_clone(), *ours);
    let (before, after) = (outside_strings(text), outside_strings(&written));
    if before.colons == after.colons {
        // No key was there twice, so every number is still there.
        assert_eq!(before.numbers, after.numbers, "numbers are spelt otherwise");
    }
    let pretty = ours.pretty(2);
    assert!(Json::parse(pretty.as_bytes()).is_ok(), "indented it is not JSON: {pretty}");
}

/// The same kinds, keys in the same order, texts and numbers.
fn assert_same(ours: &Json, theirs: &Value) {
    match (ours, theirs) {
        (Json::Null, Value::Null) => {}
        (Json::Bool(ours), Value::Bool(theirs)) => assert_eq!(ours, theirs),
        (Json::Text(ours), Value::String(theirs)) => assert_eq!(ours, theirs),
        (Json::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len());
            ours.items().iter().zip(theirs).for_each(|(ours, theirs)| assert_same(ours, theirs));
        }
        (Json::Object(ours), Value::Object(theirs)) => {
            assert_eq!(ours.len(), theirs.len());
            for ((our_key, ours), (their_key, theirs)) in ours.entries().iter().zip(theirs) {
                assert_eq!(our_key, their_key);
                assert_same(ours, theirs);
            }
        }
        (Json::Number(ours), Value::Number(theirs)) => {
            let floats = (ours.as_f64(), theirs.as_f64().expect("every number is near a float"));
            match theirs.as_i64() {
                Some(theirs) if ours.is_integer() => assert_eq!(ours.as_i64(), Some(theirs)),
                // serde_json reads floats fast, not to the last bit.
                _ => assert!(is_near(floats.0, floats.1), "{floats:?}"),
            }
        }
        _ => panic!("{ours:?} is not {theirs}"),
    }
}

fn is_near(left: f64, right: f64) -> bool {
    left == right || (left - right).abs() <= left.abs() * 1e-14 || (left - right).abs() < f64::MIN_POSITIVE
}

#[derive(Debug, Default)]
struct Outside {
    numbers: Vec<String>,
    colons: usize,
}

/// Numbers and colons of valid JSON.
fn outside_strings(text: &[u8]) -> Outside {
    let (mut found, mut in_string, mut escaped, mut in_number) = (Outside::default(), false, false, false);
    for &byte in text {
        let of_number =
            matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.') || (in_number && matches!(byte, b'e' | b'E'));
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
        } else if of_number {
            if !in_number {
                found.numbers.push(String::new());
            }
            found.numbers.last_mut().expect("one was just begun").push(byte.into());
        } else {
            in_string = byte == b'"';
            found.colons += usize::from(byte == b':');
        }
        in_number = of_number && !in_string;
    }
    found
}

/// Changes through handles on any part of it, as scripts do.
fn change(root: &Json, choices: &mut Unstructured<'_>) {
    let mut handles = vec![root.clone()];
    for _ in 0..CHANGES {
        let mut left = VALUES;
        handles.iter().for_each(|handle| walk(handle, 0, &mut left));
        if choices.is_empty() || left == 0 || step(&mut handles, choices).is_none() {
            break;
        }
        handles.truncate(HANDLES);
    }
    let mut left = VALUES;
    handles.iter().for_each(|handle| walk(handle, 0, &mut left));
    if left > 0 {
        handles.iter().for_each(check);
    }
}

fn step(handles: &mut Vec<Json>, choices: &mut Unstructured<'_>) -> Option<()> {
    let target = choices.choose(handles).ok()?.clone();
    let value = match choices.int_in_range(0..=5).ok()? {
        0 => Json::from(choices.arbitrary::<i64>().ok()?),
        1 => Json::from(choices.arbitrary::<f64>().ok()?),
        2 => Json::from(choices.arbitrary::<&str>().ok()?),
        3 => Json::from([("a", Json::array()), ("b", Json::object())]),
        4 => Json::array(),
        _ => choices.choose(handles).ok()?.clone(),
    };
    let key = *choices.choose(&["a", "b", "messages", "0", "-1", "", "a.b", "\u{0}\"\\"]).ok()?;
    let place = choices.arbitrary::<i8>().ok()?;
    let position = usize::from(place.unsigned_abs());
    let what = choices.int_in_range(0..=15).ok()?;
    match (what, &target) {
        (0, _) => handles.extend(target.get(key)),
        (1, _) => handles.extend(target.at(place.into())),
        (2, _) => handles.push(target.at_path(key)),
        (3, _) => handles.extend(target.ensure_path(key, value)),
        (4, _) => handles.push(target.deep_clone()),
        (5, _) => handles.push(value),
        (6, _) => drop(target.remove(key)),
        (7, Json::Object(object)) => {
            drop(object.replace(vec![(key.into(), value.clone()), ("b".into(), value)]))
        }
        (8, Json::Array(array)) => drop(array.replace(vec![value.clone(), value])),
        (9, Json::Array(array)) => drop(array.remove(position)),
        (10, Json::Array(array)) => drop(array.insert(position, value)),
        (11, Json::Array(array)) => drop(array.set(position, value)),
        (12, Json::Object(object)) if position == 0 => object.clear(),
        (13, _) if position == 0 => drop(target.freeze()),
        (_, Json::Array(array)) => drop(array.push(value)),
        _ => drop(target.set(key, value)),
    }
    Some(())
}

/// Each change nests one value into another, and none of them was deeper than what can be read.
fn walk(value: &Json, depth: usize, left: &mut usize) {
    assert!(depth <= (CHANGES + 2) * MAX_DEPTH, "a value holds itself");
    *left = left.saturating_sub(1);
    if *left == 0 {
        return;
    }
    value.items().iter().for_each(|item| walk(item, depth + 1, left));
    let entries = value.as_object().map(|object| object.entries()).unwrap_or_default();
    entries.iter().for_each(|(_, item)| walk(item, depth + 1, left));
}

fn check(value: &Json) {
    let copy = value.deep_clone();
    assert_eq!(copy, *value);
    let _ = value.is_changed();
    let Ok(written) = value.encode() else { return };
    match Json::parse(&written) {
        Ok(again) => assert_eq!(again.encode().expect("as deep as before"), written),
        Err(error) => assert!(error.to_string().contains("nested deeper"), "{error}: {value}"),
    }
}
