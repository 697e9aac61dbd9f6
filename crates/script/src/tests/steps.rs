//! Tests that steps do not change the results of scripts, except for work that would otherwise be unbounded.

use crate::run::script_call::CallEnd;
use crate::{Kind, Script, Settings, SourceFile};
use valvehouse_core::context::Turn;
use valvehouse_core::filter::Hook;
use valvehouse_dialect::value::{self, Shape};
use valvehouse_json::Json;
use valvehouse_memory as memory;

fn script(text: &str) -> Script {
    let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
    Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn out(script: &Script) -> Json {
    let body = Json::object();
    let (answer, _) = script.call(Hook::Inlet, vec![value::live(&body, Shape::Plain)], &Turn::default());
    if let Err(CallEnd::Broken { summary, .. }) = answer {
        panic!("{summary}: {}", script.file.text);
    }
    body.get("out").unwrap_or_default()
}

#[test]
fn functions_with_switch_and_closures_return_the_same_values() {
    for (code, expected) in [
        (r#"body.out = switch 2 { 1 => "a", 2 => "b", _ => "c" };"#, r#""b""#),
        (r#"body.out = switch [1, 2] { [1, 2] => "a", _ => "b" };"#, r#""a""#),
        (
            r#"body.out = switch 7 { 1..5 => "few", 5..=9 if body.x == () => "some", _ => "many" };"#,
            r#""some""#,
        ),
        (r#"let f = |x| switch x { "a" => 1, _ => 2 }; body.out = [f.call("a"), f.call("b")];"#, "[1,2]"),
        (r#"body.out = early(3);"#, "30"),
        (r#"let n = 1; let f = || { n += 1; n }; f.call(); f.call(); body.out = n;"#, "3"),
        (r#"let n = 1; let f = |x| { let g = |y| x + y + n; g.call(10) }; body.out = f.call(5);"#, "16"),
        (r#"body.out = [1, 2, 3].map(|x| { let k = x; let f = || k * 2; f.call() });"#, "[2,4,6]"),
        (r#"let m = #{ a: 1 }; let f = || m.a; m.a = 5; body.out = f.call();"#, "5"),
        (r#"for i in 0..3 { let f = || i; body.out = f.call(); }"#, "2"),
        (r#"let r = #{ b: 1 }; let f = || r; f.call(); body.out = r; "#, r#"{"b":1}"#),
        (r#"try { switch 1 { 1 => throw "x" } } catch (e) { body.out = e.line; }"#, "2"),
    ] {
        let text = format!(
            "fn early(n) {{ switch n {{ 3 => {{ return n * 10; }} }} 0 }}\nfn inlet(body) {{ {code} body }}"
        );
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
}

#[test]
fn a_closure_may_use_the_variable_that_its_chain_starts_with() {
    for (code, expected) in [
        ("let m = #{ b: 2, a: 1 }; body.out = m.keys().map(|key| [key, m[key]]);", r#"[["b",2],["a",1]]"#),
        ("let l = [1, 2, 3]; body.out = l.filter(|one| one < l.len());", "[1,2]"),
        ("let l = [1, 2, 3]; body.out = l.map(|one| l.map(|other| other * l[0] + one)).len() + l[0];", "4"),
        ("body.l = [1, 2]; body.out = body.l.map(|one| one + body.l.len());", "[3,4]"),
        (
            "body.l = #{ x: [1] }; let k = \"x\"; body.out = body.l[k].map(|one| [one, body.l.len(), k]);",
            r#"[[1,1,"x"]]"#,
        ),
        ("let l = [[1], [2]]; l[1].map(|one| l[0]).len(); body.out = l;", "[[1],[2]]"),
        (
            "let l = [[1], [2]]; l.find(|one| l.len() == 2 && one[0] == 2); l[0] += 5; body.out = l;",
            "[[1,5],[2]]",
        ),
        ("let l = [1, 2]; if l.some(|one| one in l) { body.out = 1; }", "1"),
        ("let l = [2, 1]; for one in l.filter(|one| l[0] >= one) { body.out = one; }", "1"),
        (
            "let l = [2, 1]; let m = #{}; m[`${l.filter(|one| l[0] == one)[0]}`] = 3; body.out = m;",
            r#"{"2":3}"#,
        ),
    ] {
        let text = format!("fn inlet(body) {{ {code} body }}");
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
    // A method that changes the variable still fails.
    let script = script("fn inlet(body) { let l = [1, 2]; l.retain(|one| one in l); }");
    let (answer, _) =
        script.call(Hook::Inlet, vec![value::live(&Json::object(), Shape::Plain)], &Turn::default());
    assert!(answer.is_err());
}

#[test]
fn a_captured_variable_is_returned_intact() {
    let script = script("fn inlet(body) { let r = #{ a: [1] }; let f = || r; f.call(); r }");
    let (answer, _) =
        script.call(Hook::Inlet, vec![value::live(&Json::object(), Shape::Plain)], &Turn::default());
    let Ok(answer) = answer else { panic!("it broke") };
    assert_eq!(value::json_of(&answer).unwrap().to_string(), r#"{"a":[1]}"#);
}

#[test]
fn a_switch_over_the_memory_limit_ends_at_once() {
    let text = "fn inlet(body) { let s = \"\"; s.pad(4_000_000, 'x'); let a = []; a.pad(2_000, 0);\nfor i in 0..2_000 { a[i] = s; }\nlet r = switch a { 1 => 2, _ => 3 }; body }";
    let script = script(text);
    let (answer, _) =
        script.call(Hook::Inlet, vec![value::live(&Json::object(), Shape::Plain)], &Turn::default());
    assert!(answer.is_err());
}

#[test]
fn closures_and_what_they_capture_are_freed_with_their_call() {
    for shape in [
        "let m = #{ s: s }; m.f = || m;",
        "let m = [s]; let f = || m; m += f;",
        "let a = [s]; let b = [s]; a.push(|| b); b.push(|| a);",
        "let a = #{ s: s }; let b = #{ s: s }; a.f = || b; b.f = || a;",
        "let m = #{ s: s, x: #{ y: [1, 2] } }; m.x.y[1] = || m;",
        "let f = || 0; f = || [f, s];",
        "let g = |x| [x, s]; let a = []; a.f = 1;",
        "for i in 0..5 { let m = #{ s: s }; m.f = || m; }",
        "[1, 2].map(|x| { let m = #{ s: s }; m.f = || m; 1 });",
        "let m = #{ s: s }; m.f = || m; throw m;",
        "let m = #{ s: s, b: body }; let f = |x| m; m.f = f.curry(m);",
        "let m = #{ s: s }; m.f = || m; loop {}",
    ] {
        let text = format!("fn inlet(body) {{ let s = \"\"; s.pad(400_000, 'x'); {shape} body }}");
        let script = script(&text);
        let call = || {
            let body = Json::object();
            drop(script.call(Hook::Inlet, vec![value::live(&body, Shape::Plain)], &Turn::default()));
        };
        call();
        let before = memory::net();
        (0..3).for_each(|_| call());
        let kept = memory::net() - before;
        assert!(kept < 300_000, "{shape}: {kept} bytes are kept");
    }
}

#[test]
fn keys_of_map_literals_stay_as_written() {
    for (code, expected) in [
        ("#{ b: 1, a: 2 }", r#"{"b":1,"a":2}"#),
        ("#{ a: 1, b: 2 }", r#"{"a":1,"b":2}"#),
        ("[#{ b: 1, a: [#{ d: 1, c: 2 }] }]", r#"[{"b":1,"a":[{"d":1,"c":2}]}]"#),
        (
            "let x = 1; #{ b: x, a: #{ d: [#{ f: 1, e: 2 }], c: x } }",
            r#"{"b":1,"a":{"d":[{"f":1,"e":2}],"c":1}}"#,
        ),
        ("let m = #{ b: 1, a: 2 }; m.d = 3; m.c = 4; m", r#"{"b":1,"a":2,"c":4,"d":3}"#),
        ("let m = #{ b: 1, a: 2 }; m.remove(\"b\"); m.b = 5; m", r#"{"b":5,"a":2}"#),
        (
            "let m = #{ c: 1, b: 1, a: 2 }; let n = m; n.remove(\"b\"); [m, n]",
            r#"[{"c":1,"b":1,"a":2},{"c":1,"a":2}]"#,
        ),
        ("#{ b: 1, a: 2 }.keys()", r#"["b","a"]"#),
        ("#{ b: 1, a: 2 }.values()", "[1,2]"),
        ("let x = 3; #{ b: x, a: x + 1 }.values()", "[3,4]"),
        ("let m = #{ b: 1, a: 2 }; let k = []; for key in m { k.push(key); } k", r#"["b","a"]"#),
        ("let m = #{ b: 1, a: 2 }; let k = []; for key in m.keys() { k += key; } k", r#"["b","a"]"#),
        ("M", r#"{"z":[{"y":1,"x":2}],"a":1}"#),
        ("let m = M; m.z[0]", r#"{"y":1,"x":2}"#),
        ("M.keys()", r#"["z","a"]"#),
        ("made(2)", r#"{"q":2,"p":{"o":1,"n":2}}"#),
        ("[1].map(|x| #{ b: x, a: 1 })", r#"[{"b":1,"a":1}]"#),
        ("let m = #{ b: 1, a: 2 }; let f = || m; f.call()", r#"{"b":1,"a":2}"#),
        ("let m = #{ b: 1, a: 2 }; let f = || { m.b += 1; m.keys() }; f.call()", r#"["b","a"]"#),
        ("if true { #{ b: 1, a: 2 } } else { () }", r#"{"b":1,"a":2}"#),
        ("switch 1 { 1 => #{ b: 1, a: 2 }, _ => () }", r#"{"b":1,"a":2}"#),
        ("#{ b: 1, a: 2 }.copy()", r#"{"b":1,"a":2}"#),
        ("#{ b: 1, a: 2 } == #{ a: 2, b: 1 }", "true"),
        ("let m = #{ b: 1, a: 2 }; m += #{ d: 1, c: 2 }; m.keys()", r#"["b","a","c","d"]"#),
        (
            "let m = json::parse(\"{}\"); m += #{ z: 1, y: 2 }; m.mixin(#{ x: 1, w: 2 }); m",
            r#"{"z":1,"y":2,"x":1,"w":2}"#,
        ),
        ("let m = #{ b: 1, a: 2 }; m + #{ d: 3, c: 4 }", r#"{"b":1,"a":2,"c":4,"d":3}"#),
        ("json::parse(\"{}\") + #{ z: 1, y: 2 }", r#"{"z":1,"y":2}"#),
        ("json::stringify(#{ b: 1, a: 2 })", r#""{\"b\":1,\"a\":2}""#),
        ("let x = 1; #{ b: x, a: 2 }.to_json()", r#""{\"b\":1,\"a\":2}""#),
        ("csv::write([#{ name: \"x\", age: 1 }])", r#""name,age\nx,1\n""#),
        ("body.m = #{ b: 1, a: 2 }; body.m.keys()", r#"["b","a"]"#),
    ] {
        let text = format!(
            "const M = #{{ z: [#{{ y: 1, x: 2 }}], a: 1 }};\n\
             fn made(n) {{ #{{ q: n, p: #{{ o: 1, n: n }} }} }}\n\
             fn value(body) {{ {code} }}\n\
             fn inlet(body) {{ body.out = value(body); body }}"
        );
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
}

#[test]
fn conditions_follow_the_truth_values_of_python() {
    for (value, is_true) in [
        ("()", false),
        ("\"\"", false),
        ("\"a\"", true),
        ("0", false),
        ("0.0", false),
        ("-1", true),
        ("[]", false),
        ("[0]", true),
        ("#{}", false),
        ("#{ a: () }", true),
        ("'a'", true),
        ("blob()", false),
        ("blob(1)", true),
        ("|x| x", true),
        ("false", false),
        ("body.missing", false),
        ("body.empty", false),
        ("body.list", true),
        ("body.map", true),
        ("body.list.find(|one| one == 9)", false),
        ("given(2)", true),
    ] {
        let no = !is_true;
        for (form, expected) in [
            ("let v = VALUE; if v { 1 } else { 2 }", if is_true { "1" } else { "2" }),
            ("if given(VALUE) { 1 } else { 2 }", if is_true { "1" } else { "2" }),
            ("let v = VALUE; !v", if is_true { "false" } else { "true" }),
            ("let v = VALUE; if !v && true { 1 } else { 2 }", if no { "1" } else { "2" }),
            (
                "let v = VALUE; let n = 0; while v || n < 2 { n += 1; if n == 5 { break; } } n",
                if is_true { "5" } else { "2" },
            ),
            (
                "let v = VALUE; let n = 0; do { n += 1; } until n == 3 || v; n",
                if is_true { "1" } else { "3" },
            ),
            ("let v = VALUE; switch 1 { 1 if v => 1, _ => 2 }", if is_true { "1" } else { "2" }),
            (
                "let v = VALUE; [1].filter(|x| if v { true } else { false }).len()",
                if is_true { "1" } else { "0" },
            ),
            ("let v = VALUE; [1].filter(|x| v).len()", if is_true { "1" } else { "0" }),
            ("[VALUE].some(|x| x)", if is_true { "true" } else { "false" }),
            (
                "let l = [VALUE, 1]; l.retain(|x| { if x == 1 { return false; } x }); l.len()",
                if is_true { "1" } else { "0" },
            ),
            ("let v = VALUE; let n = 7; (v || n) == 7", if is_true { "false" } else { "true" }),
            ("let v = VALUE; let n = 7; (v && n) == 7", if is_true { "true" } else { "false" }),
            ("let v = VALUE; loop { break if v { 1 } else { 2 }; }", if is_true { "1" } else { "2" }),
        ] {
            let code = form.replace("VALUE", value);
            let text = format!(
                "fn given(x) {{ x }} fn inlet(body) {{ body.empty = []; body.list = [1]; body.map = #{{ a: 1 }};\nbody.out = made(body); body }} fn made(body) {{ {code} }}"
            );
            assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
        }
    }
}

#[test]
fn operands_that_are_values_are_one_of_them() {
    for (code, expected) in [
        ("let f = \"friend\"; body.name || f", r#""friend""#),
        ("let a = \"\"; let z = 0; a || body.x || z", "0"),
        ("let a = 1; a && body.x", "null"),
        ("let a = [1]; a && a[0] > 0", "true"),
        ("let a = [1]; (a || fails()) == a", "true"),
        ("let a = 0; a && fails()", "0"),
        ("let a = 5; let b = 3; let n = a > 3 && a || b; n < 9", "true"),
        ("let l = 5; let t = body.limit || l; if t > 4 && t { t } else { 0 }", "5"),
        ("let n = \"none\"; let f = |x| x || n; [f.call(()), f.call(2)]", r#"["none",2]"#),
    ] {
        let text = format!(
            "fn fails() {{ throw 1 }} fn made(body) {{ {code} }} fn inlet(body) {{ body.out = made(body); body }}"
        );
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
}

#[test]
fn literals_are_operands() {
    for (code, expected) in [
        ("body.name || \"friend\"", r#""friend""#),
        ("let n = \"Ann\"; n || body.x || \"friend\"", r#""Ann""#),
        ("body.name || body.x || 5", "5"),
        ("body.messages.len() > 3 && \"long\" || \"short\"", r#""short""#),
        ("let f = |x| x || \"none\"; let g = || 1 || 2; [f.call(()), g.call()]", r#"["none",1]"#),
        ("[1, 2].map(|x| x > 1 && \"big\" || `small`)", r#"["small","big"]"#),
        ("if body.x || \"\" { 1 } else if \"a\" && body.messages { 2 } else { 3 }", "2"),
        ("let f = || 1; f.call() || \"x\"", "1"),
        ("`${body.x || \"none\"}!`", r#""none!""#),
    ] {
        let text = format!(
            "fn made(body) {{ {code} }} fn inlet(body) {{ body.messages = [1]; body.out = made(body); body }}"
        );
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
}

#[test]
fn operators_and_parts_may_be_written_as_in_python() {
    for (code, expected) in [
        ("body.x or \"none\"", r#""none""#),
        ("let a = 1; let b = 0; a and b or \"c\"", r#""c""#),
        ("if not body.x and not false { 1 } else { 2 }", "1"),
        ("let l = [1, 2]; if not l.contains(3) or l.len() > 9 { 1 } else { 2 }", "1"),
        ("let f = |x| not x; [f.call(0), f.call(1)]", "[true,false]"),
        ("[True, False, None]", "[true,false,null]"),
        (
            "let t = \"a@b\"; [\"@\" not in t, \"x\" not in t.upper(), 1 not in [1, 2] or 3 not in [1]]",
            "[false,true,true]",
        ),
        ("if \"a\" not in body.messages and \"b\" not in #{ b: 1 } { 1 } else { 2 }", "2"),
        ("let m = #{ or: 1, and: 2, not: 3, None: 4 }; m.or + m.and + m.not + m.None", "10"),
        (
            "let l = [1, 2, 3, 4]; let n = 2; [l[:n], l[n:], l[1:3], l[-3:-1], l[:9]]",
            "[[1,2],[3,4],[2,3],[2,3],[1,2,3,4]]",
        ),
        ("let t = \"hello\"; let n = 3; [t[:n], t[n:], t[1:-1], t[:0]]", r#"["hel","lo","ell",""]"#),
        ("body.l = [1, 2, 3]; [body.l[:2], body.l[1:]]", "[[1,2],[2,3]]"),
        ("[#{ a: 1 }, [2]][0]", r#"{"a":1}"#),
    ] {
        let text = format!(
            "fn made(body) {{ {code} }} fn inlet(body) {{ body.messages = [1]; body.out = made(body); body }}"
        );
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
    let file =
        SourceFile::new(Kind::Filter, "x", "filters/x.rhai", "fn inlet(body) { let x = body.a not body.b; }");
    let problems = Script::compile(&file, &Settings::default()).err().unwrap_or_default();
    assert!(format!("{problems:?}").contains("write `a !in b`"), "{problems:?}");
    for code in ["if not body.role == \"user\" { 1 }", "let x = not 1 in [1];"] {
        let file =
            SourceFile::new(Kind::Filter, "x", "filters/x.rhai", format!("fn inlet(body) {{ {code} }}"));
        let problems = Script::compile(&file, &Settings::default()).err().unwrap_or_default();
        assert!(format!("{problems:?}").contains("write `!(a == b)`"), "{code}: {problems:?}");
    }
}

#[test]
fn methods_of_texts_return_the_text_where_it_is_used() {
    for (code, expected) in [
        ("let t = \" a \"; let u = t.trim(); [t, u]", r#"[" a ","a"]"#),
        ("let t = \" a \"; t.trim(); t", r#""a""#),
        (
            "let t = \"a-b-c\"; [t.replace(\"-\", \"\"), t.replace(\"-\", 1, 1), t]",
            r#"["abc","a1b-c","a-b-c"]"#,
        ),
        ("\" A b \".strip().replace(\" \", \"_\").lower()", r#""a_b""#),
        ("body.text.trim().len() + body.text.len()", "4"),
        ("body.text.trim(); body.text", r#""x""#),
        ("body.list.map(|t| t.replace(\"a\", \"b\"))", r#"["b","b"]"#),
        ("body.list.map(|t| { if t.trim() == \"a\" { t.trim() } else { \"\" } })", r#"["a","a"]"#),
        (
            "let l = [#{ t: \"a\" }]; l[0].t.replace(\"a\", \"b\"); l[0].t + l[0].t.replace(\"b\", \"c\")",
            r#""bc""#,
        ),
        ("clean(\" x \")", r#""x""#),
        ("let n = 0; for t in body.list { let u = t.trim(); n += u.len(); } n", "2"),
        ("Valves.name.replace(\"v\", \"w\")", r#""w""#),
        ("let r = switch 1 { 1 => body.text.trim(), _ => 2 }; r", r#""x""#),
        ("if true { body.text.trim() } else { 1 }", r#""x""#),
    ] {
        let text = format!(
            "const Valves = #{{ name: \"v\" }}; fn clean(t) {{ t.trim() }}\nfn made(body) {{ {code} }} fn inlet(body) {{ body.text = \" x \"; body.list = [\"a \", \"a\"]; body.list[0] = \"a\"; body.out = made(body); body }}"
        );
        let text =
            text.replace("fn replace(x) { x }", "").replace(" + own(\"y\").replace(\"z\")", " + \"z\"");
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
    // The end of a hook changes the request.
    let hook = script("fn inlet(body) { body.out = \"a-b\"; body.out.replace(\"-\", \"\") }");
    assert_eq!(out(&hook).to_string(), r#""ab""#);
    let each = script(
        "fn inlet(body) { body.out = [#{ t: \"a\" }]; body.out.for_each(|i| this.t.replace(\"a\", \"b\")); body }",
    );
    assert_eq!(out(&each).to_string(), r#"[{"t":"b"}]"#);
}

#[test]
fn two_variables_of_a_loop_are_key_and_value_or_element_and_position() {
    for (over, expected) in [
        ("same(#{ b: 1, a: 2 })", r#"["b1","a2"]"#),
        ("body.map", r#"["y1","x2"]"#),
        ("body.map.items()", r#"["y1","x2"]"#),
        ("same(#{ b: 1, a: 2 }).items()", r#"["b1","a2"]"#),
        ("same(body.map)", r#"["y1","x2"]"#),
        ("[\"a\", \"b\"]", r#"["a0","b1"]"#),
        ("same([\"a\", \"b\"])", r#"["a0","b1"]"#),
        ("body.list", r#"["a0","b1"]"#),
        ("enumerate(body.list)", r#"["0a","1b"]"#),
        ("zip([\"a\", \"b\"], 1..3)", r#"["a1","b2"]"#),
        ("\"ab\"", r#"["a0","b1"]"#),
        ("5..7", r#"["50","61"]"#),
        ("[]", "[]"),
        ("same(#{})", "[]"),
    ] {
        for form in [
            "let out = []; for (one, other) in OVER { out.push(`${one}${other}`); } out",
            "let out = []; for (one, other) in OVER { let add = || out.push(`${one}${other}`); add.call(); } out",
            "let out = []; for (one, other) in OVER { for (a, b) in same(#{ k: one }) { if other == 9 { continue; } out.push(`${b}${other}`); } } out",
        ] {
            let code = form.replace("OVER", over);
            let text = format!(
                "fn same(x) {{ x }} fn inlet(body) {{ body.list = [\"a\", \"b\"]; body.map = #{{ y: 1, x: 2 }};\nbody.out = made(body); body }} fn made(body) {{ {code} }}"
            );
            assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
        }
    }
}

#[test]
fn a_part_of_a_list_is_a_range() {
    for (code, expected) in [
        ("let l = [1, 2, 3, 4]; l[1..3]", "[2,3]"),
        ("let l = [1, 2, 3, 4]; l[1..=2]", "[2,3]"),
        ("\"a b c\".split(\" \")[1:]", r#"["b","c"]"#),
        ("let d = #{ k: [1, 2, 3] }; [d.k[1:], d[\"k\"][:2]]", "[[2,3],[1,2]]"),
        (
            "let l = [1, 2, 3, 4]; [l[1:][0], l[1:][1:], l[1:].len(), l[1:][:2].map(|n| n[..]).len()]",
            "[2,[3,4],3,2]",
        ),
        ("let l = [[1, 2, 3], [4]]; [l[0][1:], l[l[1:].len() - 1][:1], [l, l][0][1:]]", "[[2,3],[1],[[4]]]"),
        ("let d = #{ a: [#{ b: [5, 6, 7] }] }; d.a[0].b[1:].map(|n| n + 1)[1:]", "[8]"),
        ("let m = #{ a: 1, b: 2 }; let k = [\" b\", \"a\"]; [m[k[1:][0]], m[k[0].trim()]]", "[1,2]"),
        ("let t = \"abc\"; [t[-5:], t[7:], \"abc\"[-9:2], t[-2:]]", r#"["abc","","ab","bc"]"#),
        (
            "let best = float(\"inf\"); let v = 3; [v < best, best > 1, len([]) < best, -best < 1.0]",
            "[true,true,true,true]",
        ),
        ("[1, 2, 3][0..2]", "[1,2]"),
        ("let l = \"a b c\".split(); l[1..l.len()]", r#"["b","c"]"#),
        ("let t = \"hello\"; t[1..3]", r#""el""#),
        ("let f = |t| t[1..3]; f.call(\"hello\")", r#""el""#),
        ("body.list = [1, 2, 3]; let l = body.list; l[1..3]", "[2,3]"),
        ("let n = 10; n[1..=2]", "1"),
        (
            "let t = \"hello\"; let f = |t| [t[-2..], t[-4..-1], t[1..-1], t[-9..2], t[4..2]]; f.call(t)",
            r#"["lo","ell","ell","he",""]"#,
        ),
        (
            "let l = text::words(\"a b c d\"); [l[-2..], l[1..-1], l[-9..1], l[9..], l[-2..=-1]]",
            r#"[["c","d"],["b","c"],["a"],[],["c","d"]]"#,
        ),
        (
            "body.text = \"hello\"; let t = body.text; [t[-2..], body.text[-2..], t[0..=1]]",
            r#"["lo","lo","he"]"#,
        ),
    ] {
        let text = format!("fn inlet(body) {{ body.out = made(body); body }} fn made(body) {{ {code} }}");
        assert_eq!(out(&script(&text)).to_string(), expected, "{code}");
    }
}
