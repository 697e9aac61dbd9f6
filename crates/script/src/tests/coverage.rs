//! Tests that exactly the executed lines are recorded and that coverage changes nothing else.

use crate::run::script_call::CallEnd;
use crate::{Kind, Script, Settings, SourceFile};
use rhai::Dynamic;
use std::sync::Arc;
use valvehouse_core::context::Turn;
use valvehouse_core::filter::Hook;
use valvehouse_core::metrics::CallCost;
use valvehouse_dialect::instrument::Coverage;
use valvehouse_dialect::value::{self, Shape, dynamic_of};
use valvehouse_json::Json;

fn file(text: &str) -> SourceFile {
    SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text)
}

fn live(body: &Json) -> Dynamic {
    value::live(body, Shape::Plain)
}

/// Calls `inlet` with each body. Returns the lines; those that did not run have the prefix `-`.
fn lines(text: &str, bodies: &[&str]) -> String {
    let file = file(text);
    let coverage = Coverage::of(&file.text);
    let script = Script::compile_covered(&file, &Settings::default(), &coverage);
    let script = script.unwrap_or_else(|problems| panic!("{problems:?}"));
    for body in bodies {
        let body = live(&Json::parse(body.as_bytes()).unwrap());
        let _ = script.call(Hook::Inlet, vec![body], &Turn::default());
    }
    let ran = coverage.ran();
    let report = coverage.runnable().into_iter();
    let report = report.map(|line| if ran.contains(&line) { format!("{line}") } else { format!("-{line}") });
    report.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(text: &str, body: &str, expected: &str) {
    assert_eq!(lines(text, &[body]), expected, "{text}");
}

#[test]
fn functions_count_where_their_statements_begin() {
    check("fn inlet(body) { body }\nfn other() { 1 }", "{}", "1 -2");
    check("fn inlet(body) {\n    body\n        .x = 1;\n\n    // a comment\n    body\n}", "{}", "2 6");
    check("fn inlet(body) {\n    helper(body);\n}\nfn helper(it) {\n    it.x = 1;\n}", "{}", "2 5");
    check("const LIMIT = 60 * 60;\nfn inlet(body) {\n    let hour = LIMIT;\n    body\n}", "{}", "3 4");
}

#[test]
fn only_the_branch_that_is_taken_counts() {
    let text = "fn inlet(body) {\n    if body.n == 1 {\n        body.a = 1;\n    } else if body.n == 2 {\n        body.a = 2;\n    } else {\n        body.a = 3;\n    }\n}";
    check(text, r#"{"n":1}"#, "2 3 -4 -5 -7");
    check(text, r#"{"n":2}"#, "2 -3 4 5 -7");
    check(text, r#"{"n":3}"#, "2 -3 4 -5 7");
    assert_eq!(lines(text, &[r#"{"n":1}"#, r#"{"n":2}"#]), "2 3 4 5 -7");
    let value = "fn inlet(body) {\n    let x = if body.n == 1 {\n        \"one\"\n    } else {\n        \"more\"\n    };\n    body.x = x;\n}";
    check(value, r#"{"n":1}"#, "2 3 -5 7");
}

#[test]
fn a_branch_that_can_never_run_counts_as_missing() {
    check("fn inlet(body) {\n    if false {\n        body.x = 1;\n    }\n    body\n}", "{}", "2 -3 5");
    let valve =
        "const Valves = #{ on: false };\nfn inlet(body) {\n    if Valves.on {\n        body.x = 1;\n    }\n}";
    check(valve, "{}", "3 -4");
}

#[test]
fn cases_of_a_switch_count_each() {
    let text = "fn inlet(body) {\n    body.x = switch body.n {\n        1 => \"one\",\n        2 | 3 => {\n            \"few\"\n        }\n        4..9 if body.deep => \"some\",\n        _ => \"many\",\n    };\n}";
    check(text, r#"{"n":1}"#, "2 3 -5 -7 -8");
    check(text, r#"{"n":3}"#, "2 -3 5 -7 -8");
    check(text, r#"{"n":5,"deep":true}"#, "2 -3 -5 7 -8");
    check(text, r#"{"n":5,"deep":false}"#, "2 -3 -5 -7 8");
}

#[test]
fn nothing_behind_a_return_a_throw_or_a_break_counts() {
    let text = "fn inlet(body) {\n    if body.n == 1 {\n        return body;\n    }\n    if body.n == 2 {\n        throw \"two\";\n    }\n    body.x = 1;\n}";
    check(text, r#"{"n":1}"#, "2 3 -5 -6 -8");
    check(text, r#"{"n":2}"#, "2 -3 5 6 -8");
    check(text, r#"{"n":3}"#, "2 -3 5 -6 8");
    let list = "fn inlet(body) {\n    for n in body.list {\n        if n == 2 {\n            break;\n        }\n        body.last = n;\n    }\n    body\n}";
    check(list, r#"{"list":[]}"#, "2 -3 -4 -6 8");
    check(list, r#"{"list":[2,1]}"#, "2 3 4 -6 8");
    check(list, r#"{"list":[1,2]}"#, "2 3 4 6 8");
}

#[test]
fn all_loops_count_what_they_repeat() {
    let text = "fn inlet(body) {\n    let n = 0;\n    while n < 2 {\n        n += 1;\n    }\n    do {\n        n -= 1;\n    } while n > 0;\n    loop {\n        if n > 3 { break; }\n        n += 1;\n    }\n    while n > 9 {\n        n = 0;\n    }\n    body.n = n;\n}";
    check(text, "{}", "2 3 4 6 7 9 10 11 13 -14 16");
}

#[test]
fn try_and_catch_blocks_count_separately() {
    let text = "fn inlet(body) {\n    try {\n        if body.bad { throw \"bad\"; }\n        body.x = 1;\n    } catch (e) {\n        body.x = e.message;\n    }\n}";
    check(text, r#"{"bad":true}"#, "2 3 -4 6");
    check(text, r#"{"bad":false}"#, "2 3 4 -6");
}

#[test]
fn closures_count_when_they_are_called() {
    let text = "fn inlet(body) {\n    let limit = 2;\n    let big = body.list.filter(\n        |n| n > limit\n    );\n    let never = |x| {\n        x + limit\n    };\n    body.big = big.map(|n| {\n        if n > 9 {\n            return \"huge\";\n        }\n        `number ${n + limit}`\n    });\n}";
    check(text, r#"{"list":[]}"#, "2 3 -4 6 -7 9 -10 -11 -13");
    check(text, r#"{"list":[3]}"#, "2 3 4 6 -7 9 10 -11 13");
    check(text, r#"{"list":[33]}"#, "2 3 4 6 -7 9 10 11 -13");
    let same = "fn inlet(body) {\n    let a = |n|\n        n + 1;\n    let b = |n|\n        n + 1;\n    body.x = b.call(body.n);\n}";
    check(same, r#"{"n":1}"#, "2 -3 4 5 6");
}

#[test]
fn missing_lines_are_reported_as_ranges_over_what_cannot_run() {
    let text = "fn inlet(body) {\n    if body.n == 1 {\n        body.a = 1;\n\n        // more\n        body.b = 2;\n    }\n    body\n}\nfn other() {\n    1\n}";
    let file = file(text);
    let coverage = Coverage::of(&file.text);
    let script = Script::compile_covered(&file, &Settings::default(), &coverage).unwrap();
    let _ = script.call(Hook::Inlet, vec![live(&Json::parse(b"{}").unwrap())], &Turn::default());
    assert_eq!(coverage.missing(), [3..=6, 11..=11]);
    assert_eq!(coverage.called().into_iter().collect::<Vec<_>>(), ["inlet"]);
}

#[test]
fn a_script_of_thousands_of_lines_is_counted_to_its_end() {
    let text = format!("fn inlet(body) {{\n{}body\n}}", "body.x = 1;\n".repeat(3_000));
    let ran = lines(&text, &["{}"]);
    assert!(ran.starts_with("2 3 4 ") && ran.ends_with(" 3001 3002"), "{}", &ran[ran.len() - 40..]);
}

/// Returns the result of `inlet` and its number of operations.
fn call(script: &Script, body: &str) -> (String, u64) {
    let body = Json::parse(body.as_bytes()).unwrap();
    let args = vec![live(&body), dynamic_of(&script.valves)];
    let (answer, CallCost { operations, .. }) = script.call(Hook::Inlet, args, &Turn::default());
    let ended = match answer {
        Ok(_) => body.to_string(),
        Err(CallEnd::Rejected(rejection)) => rejection.message,
        Err(CallEnd::Broken { failure, .. }) => format!("{failure:?}"),
    };
    (ended, operations)
}

fn both(text: &str) -> [Script; 2] {
    let file = file(text);
    let covered = Script::compile_covered(&file, &Settings::default(), &Coverage::of(&file.text)).unwrap();
    [Script::compile(&file, &Settings::default()).unwrap(), covered]
}

#[test]
fn coverage_changes_no_results_or_errors() {
    let text = "const Valves = #{ step: 3 };\nfn inlet(body, valves) {\n    let twice = |n| n * 2;\n    let sum = 0;\n    for n in body.list {\n        sum += twice.call(n) + Valves.step;\n        if sum > body.limit { throw `too much: ${sum}`; }\n    }\n    body.sum = this_one(sum);\n    body\n}\nfn this_one(n) {\n    return n + depth(n);\n}\nfn depth(n) {\n    if n > 0 { depth(n - 1) + 1 } else { body_of() }\n}\nfn body_of() { 7 }";
    let [plain, covered] = both(text);
    for body in [
        r#"{"list":[1,2],"limit":100}"#,
        r#"{"list":[1,2,3],"limit":10}"#,
        r#"{"list":[true],"limit":1}"#,
        r#"{"list":[20,20],"limit":100}"#,
    ] {
        assert_eq!(call(&plain, body).0, call(&covered, body).0);
    }
}

#[test]
fn coverage_probes_do_not_count_as_operations() {
    // Nothing in the script is folded, which would save operations.
    let text = "fn inlet(body, valves) {\n    let sum = 0;\n    for n in body.list {\n        if n > sum {\n            sum += n;\n        }\n        sum += other(n);\n    }\n}\nfn other(n) {\n    n += twice(n);\n    n\n}\nfn twice(n) {\n    n *= n;\n    n\n}";
    let [plain, covered] = both(text);
    for body in [r#"{"list":[]}"#, r#"{"list":[3,2,1]}"#, r#"{"list":[1,2,3,4,5,6,7,8]}"#] {
        assert_eq!(call(&plain, body), call(&covered, body));
    }
}

#[test]
fn an_endless_loop_is_ended_and_counted() {
    let text = "fn inlet(body) {\n    loop {\n        body.x = 1;\n    }\n    body\n}";
    check(text, "{}", "2 3 -5");
}

#[test]
fn concurrent_calls_all_count() {
    let text = "fn inlet(body) {\n    if body.n == 1 {\n        body.a = 1;\n    } else {\n        body.b = 1;\n    }\n}";
    let file = file(text);
    let coverage = Coverage::of(&file.text);
    let script = Arc::new(Script::compile_covered(&file, &Settings::default(), &coverage).unwrap());
    std::thread::scope(|scope| {
        for n in 0..4 {
            let script = &script;
            scope.spawn(move || {
                let body = live(&Json::from([("n", i64::from(n % 2).into())]));
                let _ = script.call(Hook::Inlet, vec![body], &Turn::default());
            });
        }
    });
    assert_eq!(coverage.ran(), [2, 3, 5]);
}
