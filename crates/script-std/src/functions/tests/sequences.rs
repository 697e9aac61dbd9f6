//! Tests of lists, ranges and numbers with the functions of Rhai, of the host and of Python together.

use crate::engine;
use rhai::Dynamic;
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::value::json_of;

#[test]
fn ranges_have_the_functions_of_arrays() {
    let engine = engine::new();
    for (snippet, expected) in [
        ("range(3).map(|i| i * 2)", "[0,2,4]"),
        ("(1..4).filter(|i| i > 1)", "[2,3]"),
        ("(1..=4).len()", "4"),
        ("range(-2).len()", "0"),
        ("(3..=2).map(|i| i)", "[]"),
        ("range(4).reduce(|sum, i| sum + i, 0)", "6"),
        ("range(4).some(|i| i == 3)", "true"),
        ("range(3) + [9]", "[0,1,2,9]"),
        ("let a = [1, 2, 3, 4]; a.extract(1..3)", "[2,3]"),
        ("let a = json::parse(\"[1, 2, 3, 4]\"); a.extract(1..3)", "[2,3]"),
        ("2 in range(3)", "true"),
        ("sum(1..=4)", "10"),
        ("max(range(3))", "2"),
        ("min(5..=7)", "5"),
        ("sorted(range(3))", "[0,1,2]"),
    ] {
        let value = engine.eval::<Dynamic>(snippet).unwrap_or_else(|error| panic!("{snippet}: {error}"));
        assert_eq!(json_of(&value).unwrap().to_string(), expected, "{snippet}");
    }
}

#[test]
fn a_range_is_neither_changed_nor_listed_beyond_the_size_of_an_array() {
    let engine = engine::new();
    for (snippet, words) in [
        ("range(1_000_000_000).map(|i| i)", "too large"),
        ("(-9_223_372_036_854_775_807..9_223_372_036_854_775_807).len()", "too large"),
        ("let r = range(3); r.push(4)", "push"),
        ("let r = range(3); r.reverse()", "reverse"),
        ("range(3).unknown()", "unknown"),
        ("sum(0..9_223_372_036_854_775_807)", "too large"),
    ] {
        let error = engine.eval::<Dynamic>(snippet).expect_err(snippet).to_string();
        assert!(error.contains(words), "{snippet}: {error}");
    }
}

#[test]
fn lists_and_maps_have_the_methods_of_python() {
    gives(&[
        ("sorted([3, 1, 2], |x| x, true) + [max([1, 3, 2], |x| -x), min([2, 1], |x| -x)]", "[3,2,1,1,2]"),
        ("sorted([[2, \"a\"], [1, \"c\"], [1, \"b\"]])", r#"[[1,"b"],[1,"c"],[2,"a"]]"#),
        ("sorted([#{ a: 1, b: 2 }, #{ a: 1, b: 1 }], |x| [x.a, x.b])[0].b", "1"),
        ("set([1, 2, 1, \"1\"]) + set(\"aba\")", r#"[1,2,"1","a","b"]"#),
        ("let t = \"\"; try { throw \"no\" } catch (e) { t = str(e) + [e].join(\",\"); } t", r#""nono""#),
        (
            "let m = #{}; let g = m.setdefault(\"a.b\", #{ n: 0 }); g.n += 1; let h = m.setdefault(\"a.b\", 0); h.n += 1; m",
            r#"{"a.b":{"n":2}}"#,
        ),
        (
            "let m = json::parse(\"{}\"); m.setdefault(\"l\", []).push(1); m.setdefault(\"l\", []).push(2); m",
            r#"{"l":[1,2]}"#,
        ),
        ("list(#{ b: 1, a: 2 }) + list(0..2)", r#"["a","b",0,1]"#),
        ("json::parse(\"[1, 2]\").join(\"-\") + \"a\".copy()", r#""1-2a""#),
        ("reversed([1, 2]) + [reversed(\"añb\")]", r#"[2,1,"bña"]"#),
        ("enumerate(json::parse(\"[7, 8]\"))", "[[0,7],[1,8]]"),
        ("zip([1, 2, 3], [\"a\", \"b\"])", r#"[[1,"a"],[2,"b"]]"#),
        ("[any([0, 2]), any([]), all([1, \"\"]), all([])]", "[true,false,false,true]"),
        ("#{ b: 1, a: 2 }.items()", r#"[["a",2],["b",1]]"#),
        ("json::parse(`{\"b\": [1], \"a\": 2}`).items()", r#"[["b",[1]],["a",2]]"#),
        ("sorted([#{ n: 2 }, #{ n: 1 }], |x| x.n)", r#"[{"n":1},{"n":2}]"#),
        ("let l = [1]; l.append(#{ a: 1 }); l.append([2]); l.extend([3]); l", r#"[1,{"a":1},2,3]"#),
        ("let l = json::parse(\"[1]\"); l.append(\"b\"); l.extend([3]); l", r#"[1,"b",3]"#),
        ("let l = [1, 2, 3]; [l.pop(0), l.pop(-1), l.pop(9), l]", "[1,3,null,[2]]"),
        ("let l = json::parse(\"[1, 2, 3]\"); [l.pop(0), l.pop(-1), l]", "[1,3,[2]]"),
        ("let m = #{ a: 1 }; m.update(#{ b: 2 }); [m.pop(\"a\"), m.pop(\"a\", 7), m]", r#"[1,7,{"b":2}]"#),
        (
            "let m = json::parse(`{\"a\": 1}`); [m.pop(\"a\"), m.pop(\"a\", 7), m.pop(\"b\"), m]",
            "[1,7,null,{}]",
        ),
    ]);
    refuses(&[
        ("sorted([[[2]], [[1]]])", "sorted: expected only numbers or only texts, got a list and a list"),
        ("sorted([[1], 1])", "sorted: expected only numbers or only texts"),
    ]);
}

#[test]
fn lists_are_sorted_by_numbers_booleans_and_keys() {
    gives(&[
        ("[1.5, 1.2, 1.7].order(|a, b| a - b)", "[1.2,1.5,1.7]"),
        ("[1, 3, 2].order(|a, b| a > b)", "[3,2,1]"),
        ("[#{ n: 2 }, #{ n: 1.5 }, #{ n: 1 }].order(|x| x.n)", r#"[{"n":1},{"n":1.5},{"n":2}]"#),
        (r#"let l = ["ccc", "a", "bb"]; l.sort(|x| x.len()); l"#, r#"["a","bb","ccc"]"#),
        ("let by = |k, x| x[k]; [#{ n: 2 }, #{ n: 1 }].order(by.curry(\"n\"))", r#"[{"n":1},{"n":2}]"#),
        ("sorted([10, 7.5, 8])", "[7.5,8,10]"),
        ("let l = [10, 7.5, 8]; l.sort_desc(); l", "[10,8,7.5]"),
        ("[10, 7.5].order_desc()", "[10,7.5]"),
    ]);
    refuses(&[
        ("[1, 2].order(|a, b| \"x\")", "must return a number"),
        ("[1, 2].order(|a, b| throw \"no\")", "no"),
        ("[1, 2].order(|x| #{})", "expected only numbers or only texts"),
        ("[1, 2].order(|a, b| missing(a))", "missing"),
    ]);
}

#[test]
fn numbers_of_both_types_are_rounded_and_digits_are_numbers() {
    gives(&[
        ("[(3).round(), (3).floor(), (3).ceiling(), 2.6.round()]", "[3,3,3,3.0]"),
        ("(9).sqrt()", "3.0"),
        ("let sum = 0; for c in \"472\" { sum += parse_int(c); } sum", "13"),
    ]);
    refuses(&[("parse_int(\"a\"[0])", "`a` is not a digit")]);
}

#[test]
fn ensured_lists_of_plain_maps_are_changed_in_their_map() {
    gives(&[
        ("let g = #{}; g.ensure(\"a\", []).push(1); g.ensure(\"a\", []).push(2); g", r#"{"a":[1,2]}"#),
        ("let g = #{ a: [1] }; g.ensure(\"a\", []).push(2); g.a.push(3); g", r#"{"a":[1,2,3]}"#),
        ("let g = #{}; g.ensure(\"a.b\", #{}).set(\"c\", 1); g", r#"{"a":{"b":{"c":1}}}"#),
        ("let g = #{ n: 5 }; [g.ensure(\"n\", 1), g.ensure(\"m\", 2), g]", r#"[5,2,{"m":2,"n":5}]"#),
    ]);
}

fn gives(cases: &[(&str, &str)]) {
    let engine = engine::new();
    for (snippet, expected) in cases {
        let value = engine.eval::<Dynamic>(snippet).unwrap_or_else(|error| panic!("{snippet}: {error}"));
        assert_eq!(json_of(&value).unwrap().to_string(), *expected, "{snippet}");
    }
}

fn refuses(cases: &[(&str, &str)]) {
    let engine = engine::new();
    for (snippet, words) in cases {
        let error = summary_of_run(&engine.eval::<Dynamic>(snippet).unwrap_err());
        assert!(error.contains(words), "{snippet}: {error}");
    }
}
