//! Tests that every function of an engine has a declared cost, and that metered functions end in time.

use super::cost::cost;
use super::wrappers::functions;
use crate::language;
use rhai::Engine;

#[test]
fn every_standard_function_has_a_declared_cost() {
    let mut engine = Engine::new_raw();
    engine.register_global_module(super::packages());
    let all = functions(&engine);
    assert!(all.len() > 700, "{} functions are too few to be all", all.len());
    let undeclared: Vec<String> = all
        .iter()
        .filter(|function| cost(&function.name, &function.param_types).is_none())
        .map(|function| function.gen_signature(Into::into))
        .collect();
    assert!(undeclared.is_empty(), "without a cost in cost.rs:\n{}", undeclared.join("\n"));
}

#[test]
fn every_metered_function_is_found_before_the_original() {
    let mut engine = Engine::new_raw();
    engine.register_global_module(super::packages());
    let metered: Vec<_> = functions(&engine)
        .into_iter()
        .filter(|function| cost(&function.name, &function.param_types).is_some_and(|cost| cost.is_metered()))
        .collect();
    let wrappers = super::metered();
    let missing: Vec<String> = metered
        .iter()
        .filter(|function| !wrappers.contains_fn(function.hash))
        .map(|function| function.gen_signature(Into::into))
        .collect();
    assert!(
        metered.len() > 40 && missing.is_empty(),
        "{} metered, not wrapped:\n{}",
        metered.len(),
        missing.join("\n")
    );
}

/// Compares the results of metered functions with those of Rhai's own.
#[test]
fn metered_functions_agree_with_the_originals() {
    let mut plain = Engine::new_raw();
    plain.register_global_module(super::packages());
    let metered = language::engine([]);
    for code in [
        r#"let s = "abcabc"; s.replace("b", "xy"); s"#,
        r#"let s = "abcabc"; s.replace('b', "xy"); s"#,
        r#"let s = "abcabc"; s.replace("b", 'x'); s"#,
        r#"let s = "abcabc"; s.replace('b', 'x'); s"#,
        r#"let s = "abc"; s.replace("", "-"); s"#,
        r#"`${"a b  c".split()}|${"a,b".split(",")}|${"abc".split(1)}|${"a,b,c".split(',', 2)}|${"a,b,c".split_rev(",", 2)}"#,
        r#"`${"a,b".split_rev(',')}|${"abc".to_chars()}|${"abc".split("")}"#,
        r#"let out = ""; for c in "äbc".chars(1, 2) { out += c; } out + "x".to_upper() + "ÄX".to_lower()"#,
        r#"let s = "aß"; s.make_upper(); s"#,
        r#"let a = [3, 1, 2]; a.sort(); `${a}` + a"#,
        r#"let a = ["b", "a"]; a.sort_desc(); `${a.order()} ${a.order_desc()}`"#,
        r#"let a = [3, 1, 2]; a.sort(|x, y| y - x); `${a}`"#,
        r#"let a = [#{n: 1, k: "a"}, #{n: 0, k: "b"}, #{n: 1, k: "c"}]; a.sort(|x, y| x.n < y.n); `${a}`"#,
        r#"let a = [3, 1, 2]; `${a.order(|x, y| x - y)} ${a}`"#,
        r#"let a = [1, 1, 2, 2, 1]; a.dedup(); `${a}`"#,
        r#"let a = [1, 2, 4, 7]; a.dedup(|x, y| y - x < 2); `${a}`"#,
        r#"fn up(x, y) { x - y } let a = [2, 1]; a.sort("up"); `${a}`"#,
        r#"let a = [1]; a.pad(3, "x"); `${a}` + debug_of(a)"#,
        r#"#{ a: 1, b: [1.5, "x", 'c', (), true] }.to_json()"#,
        r#"`${parse_json("{\"a\": [1, \"x,[\"]}")}`"#,
        r#"[1, 2] == [1, 2] && [1] != [2] && #{a: 1} == #{a: 1}"#,
        r#"`${[1] + [2]} ${#{a: 1} + #{b: 2}} ${[1, 2, 3].extract(1)} ${#{a: 1}.values()} ${[1, 2].contains(2)}`"#,
        r#""a" + 1 + 'b' + true + () + [1] + #{a: 1}"#,
        r#"let s = "a"; s += 1; s += [1]; s.append(#{}); s"#,
        r#"`${1} ${1.5} ${'c'} ${()} ${[1, "a\n"]} ${#{ a: "b" }} ${blob(2, 7)} ${Fn("x")} ${1..3}`"#,
        r#"[1, "a"].to_debug() + "x\n".to_debug() + 'c'.to_debug()"#,
    ] {
        let code = code.replace("debug_of(a)", "a.to_debug()");
        let (plain, metered) = (plain.eval::<rhai::Dynamic>(&code), metered.eval::<rhai::Dynamic>(&code));
        let shown = |answer: Result<rhai::Dynamic, _>| match answer {
            Ok(value) => value.to_string(),
            Err(error) => format!("{error}"),
        };
        assert_eq!(shown(plain), shown(metered), "{code}");
    }
}
