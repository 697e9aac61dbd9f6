//! The functions of live values: the host's own, and all of Rhai's array and map functions.
//!
//! A function that does not support live values is called with a native array or map of the same live elements; if
//! it changes its first argument, the change is written back. A range has the functions of an array with its numbers.

use super::convert::{json_of, misplaced};
use super::handle::{List, Map};
use super::{list, map, message};
use crate::budget;
use rhai::{Dynamic, Engine, EvalAltResult, EvalContext, INT, Module, Shared};
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::sync::OnceLock;
use valvehouse_json::Array;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The number of elements of a range that are charged as one operation.
const ELEMENTS: usize = 16;

/// Functions that change an array or map in place.
const CHANGING: [&str; 14] = [
    "chop",
    "dedup",
    "drain",
    "fill_with",
    "order",
    "order_desc",
    "pad",
    "resize",
    "retain",
    "reverse",
    "sort",
    "sort_desc",
    "splice",
    "truncate",
];

/// More of them, which live arrays have themselves. A range has neither, since the change would be lost.
const CHANGING_ALONE: [&str; 10] =
    ["+=", "append", "clear", "index$set$", "insert", "pop", "push", "remove", "set", "shift"];

/// Functions that return some of the elements; the result is live if they are.
const SELECTING: [&str; 4] = ["drain", "extract", "filter", "splice"];

/// Makes Rhai's functions of arrays and maps accept live values.
pub(crate) fn lend_missing_functions(engine: &mut Engine) {
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_missing_function(|name, args, _, context| lend(name, args, context));
}

/// Makes Rhai's functions accept live values on an engine that also has these modules, whose failed functions are
/// not called again.
pub fn lend_functions_missing_beside<'a>(
    engine: &mut Engine,
    modules: impl IntoIterator<Item = &'a Shared<Module>>,
) {
    let names = names_of(modules);
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_missing_function(move |name, args, _, context| match names.contains(name) {
        true => Ok(None),
        false => lend(name, args, context),
    });
}

fn lend(
    name: &str,
    args: &mut [&mut Dynamic],
    mut context: EvalContext<'_, '_, '_, '_, '_, '_>,
) -> Answer<Option<Dynamic>> {
    // A part of a text is taken like that of a list.
    if name == "extract" && args.first().is_some_and(|text| text.is_string()) {
        let mut own: Vec<Dynamic> = args.iter().map(|arg| (**arg).clone()).collect();
        let mut refs: Vec<&mut Dynamic> = own.iter_mut().collect();
        return found("sub_string", context.call_native_fn_raw("sub_string", true, &mut refs));
    }
    let is_range = |first: &Dynamic| first.is::<Range<INT>>() || first.is::<RangeInclusive<INT>>();
    let Some(first) = args.first().filter(|first| is_range(first)) else {
        return lend_live(name, args, context);
    };
    if !CHANGING.contains(&name)
        && !CHANGING_ALONE.contains(&name)
        && let Some(numbers) = numbers_of(first, context.engine())?
    {
        let mut numbers = Dynamic::from(numbers);
        let mut copies: Vec<Dynamic> = args.iter().skip(1).map(|arg| (**arg).clone()).collect();
        let mut refs: Vec<&mut Dynamic> = std::iter::once(&mut numbers).chain(&mut copies).collect();
        return found(name, context.call_native_fn_raw(name, true, &mut refs));
    }
    Ok(None)
}

/// Returns the numbers of a range as an array; `None` for other values.
///
/// # Errors
///
/// Returns an error if there are more numbers than an array has elements.
pub fn numbers_of(value: &Dynamic, engine: &Engine) -> Answer<Option<rhai::Array>> {
    let exclusive = value.read_lock::<Range<INT>>().map(|range| (range.start, range.end));
    let inclusive =
        value.read_lock::<RangeInclusive<INT>>().map(|range| (*range.start(), range.end().saturating_add(1)));
    let Some((start, end)) = exclusive.or(inclusive) else { return Ok(None) };
    let count = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    if count > engine.max_array_size() {
        return Err(too_many().into());
    }
    budget::charge((count / ELEMENTS) as u64).map_err(budget::ended)?;
    budget::reserve(count * size_of::<Dynamic>()).map_err(budget::ended)?;
    Ok(Some((start..end).map(Dynamic::from).collect()))
}

/// Returns the result of a function; `None` if no function fits.
fn found(name: &str, answer: Answer<Dynamic>) -> Answer<Option<Dynamic>> {
    answer.map(Some).or_else(|error| match *error {
        EvalAltResult::ErrorFunctionNotFound(ref signature, _)
            if signature.split([' ', '(']).next() == Some(name) =>
        {
            Ok(None)
        }
        _ => Err(error),
    })
}

fn lend_live(
    name: &str,
    args: &mut [&mut Dynamic],
    mut context: EvalContext<'_, '_, '_, '_, '_, '_>,
) -> Answer<Option<Dynamic>> {
    // This runs for every failed call, so functions that the host has itself are excluded.
    if !args.iter().any(|arg| arg.is::<List>() || arg.is::<Map>()) || own_names().contains(name) {
        return Ok(None);
    }
    let max = context.engine().max_array_size();
    let mut plain = args.iter().map(|arg| plain_of(arg, max)).collect::<Answer<Vec<Dynamic>>>()?;
    let mut refs: Vec<&mut Dynamic> = plain.iter_mut().collect();
    let Some(answer) = found(name, context.call_native_fn_raw(name, true, &mut refs))? else {
        return Ok(None);
    };
    let list = args.first().and_then(|first| first.read_lock::<List>().map(|list| list.clone()));
    if CHANGING.contains(&name) {
        write_back(args, plain)?;
    }
    match list {
        Some(list) if SELECTING.contains(&name) && answer.is_array() => {
            let items = json_of(&answer)?.items();
            Ok(Some(Dynamic::from(List { shape: list.shape, array: Array::new(items) })))
        }
        _ => Ok(Some(answer)),
    }
}

fn too_many() -> EvalAltResult {
    EvalAltResult::ErrorDataTooLarge("Size of array/BLOB".into(), rhai::Position::NONE)
}

fn plain_of(value: &Dynamic, max: usize) -> Answer<Dynamic> {
    if let Some(list) = value.read_lock::<List>() {
        if list.array.len() > max {
            return Err(too_many().into());
        }
        return Ok(list.elements().into());
    }
    if let Some(map) = value.read_lock::<Map>() {
        if map.object.len() > max {
            return Err(too_many().into());
        }
        return Ok(map.fields().into());
    }
    Ok(value.clone())
}

fn write_back(args: &mut [&mut Dynamic], plain: Vec<Dynamic>) -> Answer<()> {
    let (Some(first), Some(changed)) = (args.first_mut(), plain.into_iter().next()) else { return Ok(()) };
    if !first.is::<List>() && !first.is::<Map>() {
        // A native value, changed by a function with live arguments.
        **first = changed;
        return Ok(());
    }
    if let Some(list) = first.read_lock::<List>()
        && changed.is_array()
    {
        let items = json_of(&changed)?.items();
        return list.array.replace(items).map_err(misplaced);
    }
    if let (Some(map), Ok(fields)) = (first.read_lock::<Map>(), changed.as_map_ref()) {
        for key in map.object.keys() {
            if !fields.contains_key(key.as_str()) {
                map.object.remove(&key);
            }
        }
        let fields = json_of(&changed)?;
        for (key, value) in fields.entries() {
            map.object.set(&key, value).map_err(misplaced)?;
        }
    }
    Ok(())
}

fn own_names() -> &'static HashSet<String> {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| names_of([&functions()]))
}

/// Returns the names of the functions of these modules.
pub fn names_of<'a>(modules: impl IntoIterator<Item = &'a Shared<Module>>) -> HashSet<String> {
    let signatures = modules
        .into_iter()
        .flat_map(|module| module.gen_fn_signatures_with_mapper(Into::into).collect::<Vec<_>>());
    signatures.filter_map(|signature| Some(signature.split_once('(')?.0.to_owned())).collect()
}

/// Returns the functions of live values, for every engine.
pub(crate) fn functions() -> Shared<Module> {
    static FUNCTIONS: OnceLock<Shared<Module>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            let mut module = Module::new();
            list::register(&mut module);
            map::register(&mut module);
            message::register(&mut module);
            module.build_index();
            module.into()
        })
        .clone()
}

#[cfg(test)]
mod tests {
    use crate::language;
    use crate::value::json_of;
    use rhai::Dynamic;

    #[test]
    fn ranges_have_the_functions_of_arrays() {
        let engine = language::engine([]);
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
        let engine = language::engine([]);
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
            (
                "let m = #{ a: 1 }; m.update(#{ b: 2 }); [m.pop(\"a\"), m.pop(\"a\", 7), m]",
                r#"[1,7,{"b":2}]"#,
            ),
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
        let engine = language::engine([]);
        for (snippet, expected) in cases {
            let value = engine.eval::<Dynamic>(snippet).unwrap_or_else(|error| panic!("{snippet}: {error}"));
            assert_eq!(json_of(&value).unwrap().to_string(), *expected, "{snippet}");
        }
    }

    fn refuses(cases: &[(&str, &str)]) {
        let engine = language::engine([]);
        for (snippet, words) in cases {
            let error = crate::answer::summary_of_run(&engine.eval::<Dynamic>(snippet).unwrap_err());
            assert!(error.contains(words), "{snippet}: {error}");
        }
    }
}
