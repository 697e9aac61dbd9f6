//! Tests that every operator has the same result for every mix of live and native values.

use crate::run::script_call::CallEnd;
use crate::{Kind, Script, Settings, SourceFile};
use rhai::{Blob, Dynamic};
use valvehouse_core::context::Turn;
use valvehouse_core::filter::Hook;
use valvehouse_dialect::value::{self, Shape, dynamic_of};
use valvehouse_json::Json;

/// An operation on `a` and `b`, and the expression that is compared afterwards.
const OPERATIONS: [(&str, &str); 18] = [
    ("", "a + b"),
    ("a += b;", "a"),
    ("let m = #{ x: a }; m.x += b;", "m.x"),
    ("let l = [[], a]; l[l.len() - 1] += b;", "l[1]"),
    ("let f = || a; a += b;", "f.call()"),
    ("let out = []; out += a; out += b;", "out"),
    ("let out = #{}; out += a; out += b;", "out"),
    ("a.append(b);", "a"),
    ("a.push(b);", "a"),
    ("a.mixin(b);", "a"),
    ("", "a == b"),
    ("", "a != b"),
    ("", "[a] == [b]"),
    ("", "a < b"),
    ("", "a <= b"),
    ("", "a > b"),
    ("", "a >= b"),
    ("", "a in b"),
];

fn script(before: &str, result: &str) -> Script {
    let text = format!(
        "fn one(x) {{ x }}\n\
         fn shown(x) {{ if type_of(x) == \"blob\" {{ x.to_array() }} else {{ x }} }}\n\
         fn inlet(body, state, __metadata__) {{ let a = body; let b = state; {before} __metadata__.out = shown({result}); }}"
    );
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text.as_str());
    Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}

/// Returns the value that the script computes from two others, or the reason for its failure.
fn outcome(script: &Script, a: Dynamic, b: Dynamic) -> Result<Json, String> {
    let out = Json::object();
    let (answer, _) = script.call(Hook::Inlet, vec![a, b, value::live(&out, Shape::Plain)], &Turn::default());
    match answer {
        Ok(_) => Ok(out.field("out").deep_clone()),
        Err(failed) => Err(words_of(failed)),
    }
}

/// Returns the message of a failure, with its position.
fn words_of(failed: CallEnd) -> String {
    match failed {
        CallEnd::Rejected(rejection) => format!("refused: {}", rejection.message),
        CallEnd::Broken { failure, .. } => failure.to_string(),
    }
}

/// Returns a value as a live and as a native value.
fn both(json: &Json) -> [Dynamic; 2] {
    [value::live(&json.deep_clone(), Shape::Plain), dynamic_of(json)]
}

fn values() -> Vec<Json> {
    let map = |entries: Vec<(&'static str, Json)>| {
        let map = Json::object();
        entries.into_iter().for_each(|(key, value)| map.set(key, value).unwrap());
        map
    };
    vec![
        Json::array(),
        vec![Json::from(1i64), vec![Json::from(2i64)].into(), map(vec![("k", 3i64.into())])].into(),
        Json::object(),
        map(vec![("k", 1i64.into())]),
        map(vec![("k", 2i64.into()), ("l", vec![Json::from(3i64)].into())]),
        "k".into(),
        "text".into(),
        5i64.into(),
        1.5.into(),
        Json::Null,
        true.into(),
    ]
}

#[test]
fn live_and_plain_values_mix_in_every_operator() {
    let mut wrong = Vec::new();
    let mut succeeded = 0;
    for (before, result) in OPERATIONS {
        let script = script(before, result);
        for (first, second) in values().iter().flat_map(|a| values().into_iter().map(move |b| (a.clone(), b)))
        {
            // Concatenated with a text, a native array is written in Rhai's format and a live one as JSON.
            if first.as_str().is_some()
                && (result == "a + b" || before.contains("+= b") || before.contains("append"))
            {
                continue;
            }
            let is_map = first.as_object().is_some() && before.contains("+= b");
            if second.as_str().is_some() && (result == "a + b" || is_map) {
                continue;
            }
            let expected = outcome(&script, dynamic_of(&first), dynamic_of(&second));
            succeeded += usize::from(expected.is_ok());
            for (is_own_a, is_own_b) in [(0, 0), (0, 1), (1, 0)] {
                {
                    let [live_a, own_a] = both(&first);
                    let [live_b, own_b] = both(&second);
                    let a = if is_own_a == 1 { own_a } else { live_a };
                    let b = if is_own_b == 1 { own_b } else { live_b };
                    let got = outcome(&script, a, b);
                    let is_same = match (&expected, &got) {
                        (Ok(expected), Ok(got)) => expected.to_string() == got.to_string(),
                        (expected, got) => expected.is_err() == got.is_err(),
                    };
                    if !is_same {
                        let kind = |is_own| if is_own == 1 { "own" } else { "live" };
                        wrong.push(format!(
                            "{before} {result}: {} {first} with {} {second}: {got:?} instead of {expected:?}",
                            kind(is_own_a),
                            kind(is_own_b)
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(succeeded > 400, "{succeeded}");
}

/// Code that creates a target containing `a`, the target of an assignment, the expression that is compared
/// afterwards, and the number of counted calls. Each call in a target must happen exactly once.
const TARGETS: [(&str, &str, &str, i64); 17] = [
    ("let t = a;", "t", "t", 0),
    ("let l = [[], a];", "l[1]", "l[1]", 0),
    ("let l = [[], a];", "l[at.call()]", "l[1]", 1),
    ("let l = [[], a];", "l[one(1)]", "l[1]", 0),
    ("let l = [[], a];", "l[at.call() - 2]", "l[1]", 1),
    ("let l = [[], a];", "l[if at.call() == 1 { 1 } else { 0 }]", "l[1]", 1),
    ("let l = [[[], a]];", "l[at.call() - 1][at.call() - 1]", "l[0][1]", 2),
    ("let m = #{ x: a };", "m.x", "m.x", 0),
    ("let m = #{ x: a };", "m[\"x\"]", "m.x", 0),
    ("let m = #{ x: a };", "m[key.call(\"x\")]", "m.x", 1),
    ("let m = #{ x1: a };", "m[`x${at.call()}`]", "m.x1", 1),
    ("let m = #{ x: #{ y: a } };", "m[key.call(\"x\")].y", "m.x.y", 1),
    ("let m = #{ x: #{ y: [a] } };", "m[key.call(\"x\")].y[at.call() - 2]", "m.x.y[0]", 2),
    ("let m = #{ x: [[], a] };", "m.x[at.call()]", "m.x[1]", 1),
    ("__metadata__.box = [[], a];", "__metadata__.box[at.call()]", "__metadata__.box[1]", 1),
    (
        "__metadata__.box = #{ x: #{ y: a } };",
        "__metadata__.box[key.call(\"x\")].y",
        "__metadata__.box.x.y",
        1,
    ),
    ("let l = [[], a]; let outer = || l;", "l[at.call()]", "l[1]", 1),
];

#[test]
fn every_assignment_operator_evaluates_its_target_once() {
    let mut wrong = Vec::new();
    let mut succeeded = 0;
    let list = || Json::from(vec![Json::from(1i64), vec![Json::from(2i64)].into()]);
    let map = || Json::from([("k", list())]);
    let values =
        [list(), Json::array(), map(), "text".into(), 5i64.into(), 1.5.into(), Json::Null, true.into()];
    for (before, target, result, calls) in TARGETS {
        for operator in ["=", "+=", "-=", "*=", "/=", "%=", "|=", "&="] {
            // The called function returns 1, then 2.
            let calls_of =
                "let n = 0; let at = || { n += 1; if n > 1 { 2 } else { 1 } }; let key = |k| { n += 1; k };";
            let script =
                script(&format!("{calls_of} {before} {target} {operator} b;"), &format!("[{result}, n]"));
            let pairs = values.iter().flat_map(|a| values.iter().map(move |b| (a, b)));
            for (first, second) in pairs {
                // Concatenated with a text, native arrays and maps are written in Rhai's format, live ones as JSON.
                let is_container = |value: &Json| matches!(value, Json::Array(_) | Json::Object(_));
                let is_shown = |text: &Json, other: &Json| text.as_str().is_some() && is_container(other);
                if operator == "+=" && (is_shown(first, second) || is_shown(second, first)) {
                    continue;
                }
                let expected = outcome(&script, dynamic_of(first), dynamic_of(second));
                if let Ok(expected) = &expected {
                    succeeded += 1;
                    if expected.at_path("1").as_i64() != Some(calls) {
                        wrong.push(format!(
                            "{before} {target} {operator} {second}: {expected}, {calls} calls expected"
                        ));
                    }
                }
                for (kinds, is_live_a, is_live_b) in
                    [("live with live", 0, 0), ("live with own", 0, 1), ("own with live", 1, 0)]
                {
                    let got =
                        outcome(&script, both(first)[is_live_a].clone(), both(second)[is_live_b].clone());
                    let is_same = match (&expected, &got) {
                        (Ok(expected), Ok(got)) => expected.to_string() == got.to_string(),
                        (expected, got) => expected.is_err() == got.is_err(),
                    };
                    if !is_same {
                        wrong.push(format!(
                            "{before} {target} {operator} b: {kinds}, {first} and {second}: {got:?} instead of {expected:?}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(succeeded > 1_000, "{succeeded}");
}

#[test]
fn comparing_unordered_values_is_an_error_that_names_both() {
    for (code, words) in [
        ("body.text > 3", ["a string", "a number", "`parse_int(text)`"]),
        ("body.messages.len() > body.text", ["a number", "a string", "`parse_int(text)`"]),
        ("body.missing < 3", ["()", "a number", "`value ?? 0`"]),
        ("body.missing >= body.missing", ["()", "()", "`value ?? 0`"]),
        ("body.list > 3", ["an array", "a number", "`.len()`"]),
        ("[1] > [2]", ["an array", "an array", "`.len()`"]),
        ("body <= \"x\"", ["a map", "a string", "`.len()`"]),
        ("true > 1", ["a boolean", "a number", "convert"]),
        ("\"5\" > 3", ["a string", "a number", "`parse_int(text)`"]),
        ("Valves.limit > 3", ["a string", "a number", "`parse_int(text)`"]),
        ("valves.limit > 3", ["a string", "a number", "`parse_int(text)`"]),
        ("[3].map(|x| body.text < x)", ["a string", "a number", "`parse_int(text)`"]),
        ("helper(body.text)", ["a string", "a number", "`parse_int(text)`"]),
        ("blob(2, 7) < 3", ["a blob", "a number", "convert"]),
    ] {
        let text = format!(
            "const Valves = #{{ limit: \"5\" }};\nfn helper(x) {{ x < 3 }}\nfn inlet(body, valves) {{\n\n  body.out = {code}; body\n}}"
        );
        let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text.as_str());
        let script = Script::compile(&file, &Settings::default()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let body = Json::from([
            ("text", "5".into()),
            ("list", vec![Json::from(1i64)].into()),
            ("messages", Json::array()),
        ]);
        let valves = value::live(&script.valves, Shape::Plain);
        let args = vec![value::live(&body, Shape::Body), valves];
        let Err(failed) = script.call(Hook::Inlet, args, &Turn::default()).0 else {
            panic!("{code} gives {}", body.field("out"));
        };
        let failed = words_of(failed);
        assert!(words.iter().all(|word| failed.contains(word)), "{code}: {failed}");
        let line = if code.starts_with("helper") { "x.rhai:2:" } else { "x.rhai:5:" };
        assert!(failed.contains(line), "{code}: {failed}");
    }
}

#[test]
fn a_comparison_that_fails_can_be_caught() {
    let script = script("try { let less = a < b; a = less; } catch (e) { a = e.message; }", "a");
    let message = outcome(&script, "x".into(), 3i64.into()).unwrap().to_string();
    assert!(message.contains("cannot compare a string with a number by `<`"), "{message}");
}

#[test]
fn numbers_compare_by_value_whether_live_or_not() {
    let script = script("", "[a < b, a <= b, a > b, a >= b, a == b]");
    for (a, b, expected) in [
        (Json::from(1i64), Json::from(1.5), "[true,true,false,false,false]"),
        (Json::from(2i64), Json::from(2.0), "[false,true,false,true,true]"),
        (Json::from(0.1 + 0.2), Json::from(0.3), "[false,true,false,true,true]"),
        (Json::from("b"), Json::from("a"), "[false,false,true,true,false]"),
        (Json::from(true), Json::from(false), "[false,false,true,true,false]"),
    ] {
        for a in both(&a) {
            for b in both(&b) {
                assert_eq!(outcome(&script, a.clone(), b).unwrap().to_string(), expected, "{a} {expected}");
            }
        }
    }
}

#[test]
fn live_and_plain_values_extend_blobs_the_same_way() {
    let script = script("a += b;", "a");
    let blob = || Dynamic::from_blob(Blob::from([7, 7]));
    assert_eq!(outcome(&script, blob(), blob()).unwrap().to_string(), "[7,7,7,7]");
    assert_eq!(outcome(&script, blob(), 5i64.into()).unwrap().to_string(), "[7,7,5]");
    let [live, own] = both(&vec![Json::from(5i64)].into());
    let (live, own) = (outcome(&script, blob(), live), outcome(&script, blob(), own));
    assert_eq!(live.is_ok(), own.is_ok(), "{live:?} {own:?}");
}

/// Pairs of values that read the same without being equal.
fn pairs_that_read_alike() -> Vec<(Json, Json)> {
    let pairs: [(Json, Json); 9] = [
        (5i64.into(), "5".into()),
        (5i64.into(), " 5 ".into()),
        (5i64.into(), "5.0".into()),
        (1.5.into(), "1.5".into()),
        (1.5.into(), "15e-1".into()),
        (true.into(), "true".into()),
        (false.into(), "False".into()),
        (1i64.into(), true.into()),
        (0i64.into(), false.into()),
    ];
    pairs.into_iter().flat_map(|(a, b)| [(a.clone(), b.clone()), (b, a)]).collect()
}

/// Code that tests `a` and `b` for equality, and its result for unequal values.
const TESTS: [(&str, &str); 21] = [
    ("a == b", "false"),
    ("a != b", "true"),
    ("one(a) == one(b)", "false"),
    ("#{ x: a }.x == b", "false"),
    ("[a] == [b]", "false"),
    ("[1, [a]] != [1, [b]]", "true"),
    ("#{ x: [a], y: 1 } == #{ y: 1, x: [b] }", "false"),
    ("__metadata__.list == [a]", "false"),
    ("[a] != __metadata__.list", "true"),
    ("[[b]].contains([a])", "false"),
    ("#{ x: a } in [1, #{ x: b }]", "false"),
    ("[[\"?\"], [b]].index_of([a])", "-1"),
    ("__metadata__.lists.contains([a])", "false"),
    ("[a] in __metadata__.lists", "false"),
    ("a in [b]", "false"),
    ("[\"?\", b].contains(a)", "false"),
    ("[b].index_of(a)", "-1"),
    ("[1, 2].some(|i| a == b)", "false"),
    ("__metadata__.list.contains(a)", "false"),
    ("a in __metadata__.list", "false"),
    ("__metadata__.list.index_of(a)", "-1"),
];

fn comparing(test: &str, header: &str) -> Script {
    let text = format!(
        "/*\n{header}*/\nfn one(x) {{ x }}\nfn inlet(body, state, __metadata__) {{ let a = body; let b = state; __metadata__.list = [b]; __metadata__.lists = [[], [b]];\n\
         __metadata__.out = {test}; }}"
    );
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text.as_str());
    Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}

#[test]
fn a_guard_fails_where_values_of_two_types_read_the_same() {
    for (test, _) in TESTS {
        let script = comparing(test, "security: true\n");
        for (first, second) in pairs_that_read_alike() {
            for (a, b) in both(&first).iter().flat_map(|a| both(&second).map(|b| (a.clone(), b))) {
                let failed = outcome(&script, a, b).expect_err(&format!("{test} of {first} and {second}"));
                assert!(failed.contains("that reads the same"), "{failed}");
                // A function of native arrays that a live one borrows does not know its line.
                let has_line = failed.contains("x.rhai:6:");
                assert!(has_line || test.contains("list.index_of"), "{failed}");
            }
        }
    }
}

#[test]
fn constants_and_valves_that_read_the_same_fail_in_a_guard_too() {
    for code in [
        "5 == \"5\"",
        "\"true\" != true",
        "Valves.limit == 5",
        "valves.limit == 5",
        "Valves.count == \"7\"",
        "valves.count == \"7\"",
        "[5].contains(valves.limit)",
        "body.n == valves.limit",
    ] {
        let text = format!(
            "/*\nsecurity: true\n*/\nconst Valves = #{{ limit: \"5\", count: 7 }};\nfn inlet(body, valves) {{\n body.out = {code}; body\n}}"
        );
        let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text.as_str());
        let script = Script::compile(&file, &Settings::default()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let body = Json::from([("n", 5i64.into())]);
        let args = vec![value::live(&body, Shape::Body), value::live(&script.valves, Shape::Plain)];
        let Err(failed) = script.call(Hook::Inlet, args, &Turn::default()).0 else {
            panic!("{code} gives {}", body.field("out"));
        };
        // The request is rejected, and does not count against the guard.
        let CallEnd::Broken { failure, .. } = &failed else { panic!("{code}") };
        let status = failure.rejection.as_ref().map(|rejection| rejection.status);
        assert!(failure.is_by_request && status == Some(value::UNJUDGED), "{code}: {failure:?}");
        let failed = words_of(failed);
        assert!(failed.contains("that reads the same") && failed.contains("x.rhai:6:"), "{code}: {failed}");
    }
}

#[test]
fn a_guard_rejects_a_subject_of_switch_that_reads_the_same_as_a_case() {
    let texts = ["5", "5.0", "true", "True", "1"];
    let values: Vec<Json> =
        texts.map(Json::from).into_iter().chain([5i64.into(), 5.0.into(), true.into()]).collect();
    for (cases, unjudged) in [
        ("5 => 1", vec!["\"5\"", "\"5.0\""]),
        ("\"5\" => 1", vec!["5", "5.0"]),
        ("true => 1", vec!["\"true\"", "\"True\""]),
        ("\"true\" => 1", vec!["true"]),
        ("1 => 1", vec!["\"1\"", "true"]),
        ("5 | \"5\" | 5.0 | \"5.0\" => 1", vec![]),
        ("\"x\" => 1", vec![]),
    ] {
        let code = format!("switch a {{ {cases}, _ => 0 }}");
        for value in &values {
            let shown = value.to_string();
            let [live, own] = both(value);
            for subject in [live, own] {
                let result = outcome(&comparing(&code, "security: true\n"), subject.clone(), Dynamic::UNIT);
                let is_unjudged = result.as_ref().is_err_and(|failed| failed.contains("that reads the same"));
                assert_eq!(is_unjudged, unjudged.contains(&shown.as_str()), "{code} of {shown}: {result:?}");
                assert!(outcome(&comparing(&code, "title: x\n"), subject, Dynamic::UNIT).is_ok());
            }
        }
    }
}

#[test]
fn functions_of_modules_have_the_same_checks() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("filters/lib")).unwrap();
    let module = "fn is_five(v) { v == \"5\" }\nfn is_more(v, most) { v > most }\nfn inner(v) { is_five(v) }";
    std::fs::write(folder.path().join("filters/lib/acl.rhai"), module).unwrap();
    for (code, words) in [
        ("acl::is_five(body.n)", "acl.rhai:1:"),
        ("acl::is_more(body.n, \"1\")", "acl.rhai:2:"),
        ("acl::inner(body.n)", "acl.rhai:1:"),
        ("[body.n].some(|n| acl::is_five(n))", "acl.rhai:1:"),
        ("[body.n].map(acl::is_five)", "acl.rhai:1:"),
    ] {
        let text = format!(
            "/*\nsecurity: true\n*/\nimport \"lib/acl\" as acl;\nfn inlet(body) {{ body.out = {code}; body }}"
        );
        let root = folder.path().join("filters");
        let read = crate::read_text(Kind::Filter, &root, &root.join("x.rhai"), &text).unwrap();
        let script =
            Script::compile(&read.file, &Settings::default()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let body = Json::from([("n", 5i64.into())]);
        let Err(failed) = script.call(Hook::Inlet, vec![value::live(&body, Shape::Body)], &Turn::default()).0
        else {
            panic!("{code} gives {}", body.field("out"));
        };
        let failed = words_of(failed);
        assert!(failed.contains(words), "{code}: {failed}");
    }
}

#[test]
fn a_guard_that_expects_either_type_compares_both() {
    for (code, given, expected) in [
        ("a == true || a == \"true\" || a == 1", "true".into(), "true"),
        ("a == true || a == \"true\" || a == 1", 1i64.into(), "true"),
        ("a == true || a == \"true\" || a == 1", "no".into(), "false"),
        ("5 == a || a == \"5\"", "5".into(), "true"),
        ("a != 5 && a != \"5\"", "5".into(), "false"),
    ] {
        let script = comparing(code, "security: true\n");
        assert_eq!(
            outcome(&script, dynamic_of(&given), Dynamic::UNIT).unwrap().to_string(),
            expected,
            "{code}"
        );
    }
}

#[test]
fn other_scripts_find_them_unequal_as_before() {
    for (test, unequal) in TESTS {
        let script = comparing(test, "title: x\n");
        for (first, second) in pairs_that_read_alike() {
            for (a, b) in both(&first).iter().flat_map(|a| both(&second).map(|b| (a.clone(), b))) {
                let found = outcome(&script, a, b).map(|found| found.to_string());
                assert_eq!(found.as_deref(), Ok(unequal), "{test} of {first} and {second}");
            }
        }
    }
}

#[test]
fn a_guard_compares_values_that_do_not_read_the_same() {
    let texts = ["", "x", "6", "1", "tru", "nan", "inf", "5 5", "0x5"];
    let others: [Json; 5] = [5i64.into(), true.into(), Json::Null, Json::array(), Json::object()];
    for (test, unequal) in TESTS {
        let script = comparing(test, "security: true\n");
        for (first, second) in texts.iter().flat_map(|text| others.iter().map(move |other| (*text, other))) {
            let found = outcome(&script, first.into(), dynamic_of(second)).map(|found| found.to_string());
            assert_eq!(found.as_deref(), Ok(unequal), "{test} of {first:?} and {second}");
        }
    }
    // Another difference decides in any case.
    for code in
        ["[a, 1] == [b, 2]", "[a] == [b, b]", "#{ x: a } == #{ y: b }", "#{ x: a, y: 1 } == #{ x: b, y: 2 }"]
    {
        let found = outcome(&comparing(code, "security: true\n"), "5".into(), 5i64.into());
        assert_eq!(found.map(|found| found.to_string()).as_deref(), Ok("false"), "{code}");
    }
    // What is found needs no second look.
    let script =
        comparing("[1, \"5\", 5].contains(a) && a in __metadata__.list && a == b", "security: true\n");
    assert_eq!(outcome(&script, 5i64.into(), 5i64.into()).unwrap().to_string(), "true");
}

#[test]
fn a_guard_refuses_to_search_for_a_text_among_parts() {
    let parts = Json::parse(br#"[{"type":"text","text":"a bomb"}]"#).unwrap();
    for code in ["b.contains(a)", "a in b", "[b[0]].contains(a)"] {
        let found = outcome(&comparing(code, "security: true\n"), "bomb".into(), dynamic_of(&parts));
        assert!(found.unwrap_err().contains("searches for a single value in a list of maps"), "{code}");
        let found = outcome(&comparing(code, "title: x\n"), "bomb".into(), dynamic_of(&parts));
        assert_eq!(found.map(|found| found.to_string()).as_deref(), Ok("false"), "{code}");
    }
}
