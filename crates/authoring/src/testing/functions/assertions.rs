//! `assert_eq` and its siblings. A failed assertion ends the test; no `catch` receives it.

use super::super::failure::{Wrong, end, is_final};
use super::registration::{environment, function};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Dynamic, EvalAltResult, FnPtr, ImmutableString, Module, NativeCallContext};
use std::path::Path;
use valvehouse_core::text::shortened;
use valvehouse_dialect::answer::{ThrownError, summary_of_run};
use valvehouse_dialect::value::{Bytes, error, json_of};
use valvehouse_grants::read_regular;
use valvehouse_json::Json;
use valvehouse_script_std::functions::RhaiResultOf;

/// The number of characters of a value that a message shows.
const SHOWN: usize = 200;
/// The maximum length of a file with an expected value, in bytes.
const MAX_GOLDEN: u64 = 64 << 20;

pub(super) fn register(module: &mut Module) {
    function("assert", &["condition: bool", "()"], "Fails if the condition is false.").set_into_module(
        module,
        |ctx: NativeCallContext<'_>, condition: bool| {
            holds(&ctx, condition, || "the condition is false".into())
        },
    );
    function(
        "assert",
        &["condition: bool", "message", "()"],
        "Fails with this message if the condition is false.",
    )
    .set_into_module(module, |ctx: NativeCallContext<'_>, condition: bool, message: Dynamic| {
        holds(&ctx, condition, || message.to_string())
    });
    function(
        "assert_eq",
        &["actual", "expected", "()"],
        "Fails and shows the difference if two values differ. The order of keys is ignored.",
    )
    .set_into_module(module, |ctx: NativeCallContext<'_>, actual: Dynamic, expected: Dynamic| {
        equal(&ctx, &actual, &expected, "the actual value differs from the expected value")
    });
    function(
        "assert_eq",
        &["actual", "expected", "message", "()"],
        "Fails with this message and the difference if two values differ.",
    )
    .set_into_module(
        module,
        |ctx: NativeCallContext<'_>, actual: Dynamic, expected: Dynamic, message: ImmutableString| {
            equal(&ctx, &actual, &expected, &message)
        },
    );
    function("assert_ne", &["actual", "other", "()"], "Fails if two values are equal.").set_into_module(
        module,
        |ctx: NativeCallContext<'_>, actual: Dynamic, other: Dynamic| -> RhaiResultOf<()> {
            let (actual, other) = (compared(&actual)?, compared(&other)?);
            holds(&ctx, actual != other, || format!("both values are {}", shown(&actual)))
        },
    );
    function(
        "assert_contains",
        &["text_or_list", "part", "()"],
        "Fails if a text does not contain a part, or a list does not contain an element.",
    )
    .set_into_module(module, |ctx: NativeCallContext<'_>, whole: Dynamic, part: Dynamic| {
        contains(&ctx, &whole, &part)
    });
    function(
        "assert_near",
        &["actual", "expected", "tolerance", "()"],
        "Fails if two numbers differ by more than `tolerance`.",
    )
    .set_into_module(
        module,
        |ctx: NativeCallContext<'_>,
         actual: Dynamic,
         expected: Dynamic,
         tolerance: Dynamic|
         -> RhaiResultOf<()> {
            let number = |value: &Dynamic| -> RhaiResultOf<f64> {
                json_of(value)?.as_f64().ok_or_else(|| error(format!("assert_near: {value} is not a number")))
            };
            let (actual, expected, tolerance) = (number(&actual)?, number(&expected)?, number(&tolerance)?);
            holds(&ctx, (actual - expected).abs() <= tolerance, || {
                format!("{actual} is not within {tolerance} of {expected}")
            })
        },
    );
    register_ends(module);
}

/// Registers what fails in other ways than by comparing two values.
fn register_ends(module: &mut Module) {
    function("fail", &["message", "()"], "Fails with this message.")
        .set_into_module(module, |ctx: NativeCallContext<'_>, message: Dynamic| {
            holds(&ctx, false, || message.to_string())
        });
    function(
        "throws",
        &["closure: FnPtr", "any"],
        "Calls the closure and returns the error that it throws: `.message`, `.status`, `.retry_after`. \
         Fails if the closure throws nothing.",
    )
    .set_into_module(module, throws);
    function(
        "assert_golden",
        &["value", "()"],
        "Fails if a value differs from the file \
                                                 NAME.golden/TEST.json next to the test file. `valvehouse \
                                                 test --update` writes the file.",
    )
    .set_into_module(module, |ctx: NativeCallContext<'_>, value: Dynamic| golden(&ctx, &value, None));
    function(
        "assert_golden",
        &["value", "name: &str", "()"],
        "Fails if a value differs from the file of this name in NAME.golden, like `assert_golden`.",
    )
    .set_into_module(module, |ctx: NativeCallContext<'_>, value: Dynamic, name: ImmutableString| {
        golden(&ctx, &value, Some(&name))
    });
}

fn holds(ctx: &NativeCallContext<'_>, holds: bool, message: impl FnOnce() -> String) -> RhaiResultOf<()> {
    if holds { Ok(()) } else { Err(wrong(ctx, message(), None)) }
}

/// Ends the test, and stores the compared values.
fn wrong(ctx: &NativeCallContext<'_>, message: String, compared: Option<(Json, Json)>) -> Box<EvalAltResult> {
    match environment("assert") {
        Ok(environment) => {
            let compared = compared.map(|(actual, expected)| (actual.deep_clone(), expected.deep_clone()));
            *environment.wrong.lock() = Some(Wrong { message, compared });
            end(ctx.call_position())
        }
        Err(outside) => outside,
    }
}

fn equal(
    ctx: &NativeCallContext<'_>,
    actual: &Dynamic,
    expected: &Dynamic,
    message: &str,
) -> RhaiResultOf<()> {
    let (actual, expected) = (compared(actual)?, compared(expected)?);
    match actual == expected {
        true => Ok(()),
        false => Err(wrong(ctx, message.to_owned(), Some((actual, expected)))),
    }
}

/// Returns a value for comparison: bytes become a map with their base64, which differs from any text.
fn compared(value: &Dynamic) -> RhaiResultOf<Json> {
    match Bytes::of(value) {
        Some(bytes) => Ok(Json::from([("bytes", STANDARD.encode(&bytes.0).into())])),
        None => json_of(value),
    }
}

fn contains(ctx: &NativeCallContext<'_>, whole: &Dynamic, part: &Dynamic) -> RhaiResultOf<()> {
    let (whole, part) = (json_of(whole)?, json_of(part)?);
    let found = match (&whole, &part) {
        (Json::Text(whole), Json::Text(part)) => whole.contains(part.as_str()),
        (Json::Array(list), part) => list.items().contains(part),
        (other, _) => {
            let kind = other.kind();
            return Err(error(format!("assert_contains: expected a text or a list, got {kind}")));
        }
    };
    holds(ctx, found, || format!("{} is not in {}", shown(&part), shown(&whole)))
}

fn shown(value: &Json) -> String {
    shortened(value.to_string(), SHOWN)
}

fn throws(ctx: NativeCallContext<'_>, closure: FnPtr) -> RhaiResultOf<Dynamic> {
    match closure.call_within_context::<Dynamic>(&ctx, ()) {
        Ok(_) => Err(wrong(&ctx, "the closure did not throw an error".into(), None)),
        Err(failed) if is_final(&failed) => Err(failed),
        Err(failed) => Ok(match failed.unwrap_inner() {
            EvalAltResult::ErrorRuntime(value, _) if value.is::<ThrownError>() => value.clone(),
            _ => Dynamic::from(ThrownError::bug(summary_of_run(&failed), failed.position().line())),
        }),
    }
}

/// Compares a value with a golden file, or writes the file.
fn golden(ctx: &NativeCallContext<'_>, value: &Dynamic, name: Option<&str>) -> RhaiResultOf<()> {
    let environment = environment("assert_golden")?;
    let name = name.unwrap_or(&environment.on.name);
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
        return Err(error(format!(
            "assert_golden: invalid file name `{name}`; use letters, digits, `_` and `-`"
        )));
    }
    let (folder, update) = &environment.on.golden;
    let (path, actual) = (folder.join(format!("{name}.json")), json_of(value)?);
    if *update {
        write(folder, &path, &actual.pretty(2))
            .map_err(|why| error(format!("assert_golden: cannot write {}: {why}", path.display())))?;
        environment.written.lock().push(path);
        return Ok(());
    }
    let help = "write it with: valvehouse test --update";
    let expected = match read_regular(&path, MAX_GOLDEN) {
        Ok(bytes) => Json::parse(&bytes),
        Err(why) => {
            return Err(wrong(ctx, format!("cannot read {}: {why}; {help}", path.display()), None));
        }
    };
    match expected {
        Ok(expected) if expected == actual => Ok(()),
        Ok(expected) => {
            let message = format!("the value differs from {}; {help}", path.display());
            Err(wrong(ctx, message, Some((actual, expected))))
        }
        Err(why) => Err(wrong(ctx, format!("{} is not valid JSON: {why}; {help}", path.display()), None)),
    }
}

fn write(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(path, format!("{text}\n"))
}
