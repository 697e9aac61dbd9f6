//! Functions and methods of Python that Rhai has under other names, in other forms or not at all. They return a new
//! value, as in Python; only the methods that change a list or map change theirs.

use super::argument::{AnyArray, AnyMap, AnyNumber, RhaiResultOf, fail, unfit};
use super::output::{check_text, check_walk, text};
use super::sequences::elements;
use super::text::joined;
use rhai::plugin::*;
use rhai::{Array, FLOAT, INT, ImmutableString};
use std::collections::HashSet;
use valvehouse_dialect::budget;
use valvehouse_dialect::standard::kind_of;
use valvehouse_dialect::value::{Map, PAIR, is_empty};

#[export_module]
pub(super) mod functions {
    /// Returns a whole number: of a text such as `"42"`, of a number without its fraction, of `true` 1.
    #[rhai_fn(global, return_raw)]
    pub fn int(x: Dynamic) -> RhaiResultOf<INT> {
        if let Ok(number) = x.as_int().or_else(|_| x.as_bool().map(INT::from)) {
            return Ok(number);
        }
        let number = text_of(&x)?.and_then(|text| text.trim().parse().ok());
        number.ok_or_else(|| unfit_number("int", "a whole number such as \"42\"", &x))
    }

    /// Returns a whole number: a number without its fraction.
    #[rhai_fn(global, name = "int", return_raw)]
    pub fn whole_part(x: FLOAT) -> RhaiResultOf<INT> {
        // Every number of this range has a whole part that fits.
        let fits = x.abs() < 9.2e18;
        fits.then_some(x as INT)
            .ok_or_else(|| unfit_number("int", "a number of at most 18 digits", &x.into()))
    }

    /// Returns a number as a float: of a text such as `"4.2"`, of a whole number, of `true` 1.0.
    #[rhai_fn(global, return_raw)]
    pub fn float(x: Dynamic) -> RhaiResultOf<FLOAT> {
        let whole = x.as_int().or_else(|_| x.as_bool().map(INT::from));
        if let Ok(number) = x.as_float().or_else(|_| whole.map(|number| number as FLOAT)) {
            return Ok(number);
        }
        let number = text_of(&x)?.and_then(|text| text.trim().parse().ok());
        number.ok_or_else(|| unfit_number("float", "a number such as \"4.2\"", &x))
    }

    /// Returns a value as a text, like `${value}` within backticks.
    #[rhai_fn(global, name = "str", return_raw)]
    pub fn text_from(x: Dynamic) -> RhaiResultOf<ImmutableString> {
        text("str", &x)
    }

    /// Returns `false` for `()`, `false`, `0` and empty texts, lists and maps, and `true` for all other values.
    #[rhai_fn(global, name = "bool")]
    pub fn truth(x: Dynamic) -> bool {
        !is_empty(&x)
    }

    /// Returns a new list: the elements of a list or range, the keys of a map or the characters of a text.
    #[rhai_fn(global, name = "list", return_raw)]
    pub fn list_of(context: NativeCallContext<'_>, x: Dynamic) -> RhaiResultOf<Array> {
        of_any(&context, "list", x)
    }

    /// Returns the elements of a list, or the characters of a text, in reverse order.
    #[rhai_fn(global, return_raw)]
    pub fn reversed(context: NativeCallContext<'_>, x: Dynamic) -> RhaiResultOf<Dynamic> {
        let mut items = of_any(&context, "reversed", x.clone())?;
        items.reverse();
        match x.is_string() {
            true => Ok(items.iter().filter_map(|letter| letter.as_char().ok()).collect::<String>().into()),
            false => Ok(items.into()),
        }
    }

    /// Returns pairs of the position and the element: `for (i, item) in enumerate(list) { … }`.
    #[rhai_fn(global, return_raw)]
    pub fn enumerate(context: NativeCallContext<'_>, list: AnyArray) -> RhaiResultOf<Array> {
        enumerate_from(context, list, 0)
    }

    /// Returns pairs of the position, counted from `start`, and the element.
    #[rhai_fn(global, name = "enumerate", return_raw)]
    pub fn enumerate_from(context: NativeCallContext<'_>, list: AnyArray, start: INT) -> RhaiResultOf<Array> {
        let items = elements(&context, "enumerate", &list)?;
        let end = start.checked_add(items.len() as INT);
        let end = end.ok_or_else(|| fail("enumerate", format!("`start` is too large: {start}")))?;
        Ok((start..end).zip(items).map(|(index, item)| pair(index.into(), item)).collect())
    }

    /// Returns pairs of the elements of two lists, as many as the shorter one has: `for (a, b) in zip(first, second) { … }`.
    #[rhai_fn(global, return_raw)]
    pub fn zip(context: NativeCallContext<'_>, first: AnyArray, second: AnyArray) -> RhaiResultOf<Array> {
        let first = elements(&context, "zip", &first)?;
        let second = elements(&context, "zip", &second)?;
        Ok(first.into_iter().zip(second).map(|(first, second)| pair(first, second)).collect())
    }

    /// Returns `true` if at least one element is true as a condition. `list.some(|x| …)` tests each element.
    #[rhai_fn(global, return_raw)]
    pub fn any(context: NativeCallContext<'_>, list: AnyArray) -> RhaiResultOf<bool> {
        Ok(elements(&context, "any", &list)?.iter().any(|item| !is_empty(item)))
    }

    /// Returns `true` if all elements are true as conditions. `list.all(|x| …)` tests each element.
    #[rhai_fn(global, return_raw)]
    pub fn all(context: NativeCallContext<'_>, list: AnyArray) -> RhaiResultOf<bool> {
        Ok(!elements(&context, "all", &list)?.iter().any(is_empty))
    }

    /// Returns a number with at most this many digits after the point.
    #[rhai_fn(global, name = "round", return_raw)]
    pub fn round_to(x: AnyNumber, digits: INT) -> RhaiResultOf<FLOAT> {
        let fixed = super::super::text::functions::fixed(x, digits)?;
        fixed.parse().map_err(|_| fail("round", format!("{fixed} is not a number")))
    }

    /// Returns the text without white space at both ends.
    #[rhai_fn(global)]
    pub fn strip(text: ImmutableString) -> ImmutableString {
        text.trim().into()
    }

    /// Returns the text without these letters at both ends.
    #[rhai_fn(global, name = "strip", return_raw)]
    pub fn strip_letters(text: ImmutableString, letters: &str) -> RhaiResultOf<ImmutableString> {
        let letters = letters_of(letters, &text)?;
        Ok(text.trim_matches(|letter| letters.contains(&letter)).into())
    }

    /// Returns the text without these letters at its start.
    #[rhai_fn(global, name = "lstrip", return_raw)]
    pub fn lstrip_letters(text: ImmutableString, letters: &str) -> RhaiResultOf<ImmutableString> {
        let letters = letters_of(letters, &text)?;
        Ok(text.trim_start_matches(|letter| letters.contains(&letter)).into())
    }

    /// Returns the text without these letters at its end.
    #[rhai_fn(global, name = "rstrip", return_raw)]
    pub fn rstrip_letters(text: ImmutableString, letters: &str) -> RhaiResultOf<ImmutableString> {
        let letters = letters_of(letters, &text)?;
        Ok(text.trim_end_matches(|letter| letters.contains(&letter)).into())
    }

    /// Returns the words of a text, which are separated by white space.
    #[rhai_fn(global, return_raw)]
    pub fn split(text: &str) -> RhaiResultOf<Array> {
        super::super::text::functions::words(text)
    }

    /// Returns the text without white space at its start.
    #[rhai_fn(global)]
    pub fn lstrip(text: ImmutableString) -> ImmutableString {
        text.trim_start().into()
    }

    /// Returns the text without white space at its end.
    #[rhai_fn(global)]
    pub fn rstrip(text: ImmutableString) -> ImmutableString {
        text.trim_end().into()
    }

    /// Returns the text in lower case.
    #[rhai_fn(global, return_raw)]
    pub fn lower(text: Dynamic) -> RhaiResultOf<String> {
        let lower = text_of(&text)?.map(|text| text.to_lowercase());
        lower.ok_or_else(|| unfit("lower", "text", "a text", &text))
    }

    /// Returns the text in upper case.
    #[rhai_fn(global, return_raw)]
    pub fn upper(text: Dynamic) -> RhaiResultOf<String> {
        let upper = text_of(&text)?.map(|text| text.to_uppercase());
        upper.ok_or_else(|| unfit("upper", "text", "a text", &text))
    }

    /// Returns the text with its first letter in upper case and all others in lower case.
    #[rhai_fn(global, return_raw)]
    pub fn capitalize(text: &str) -> RhaiResultOf<String> {
        check_walk(text, 2)?;
        Ok(capitalized(text))
    }

    /// Returns the text with each word as `capitalize` returns it.
    #[rhai_fn(global, return_raw)]
    pub fn title(text: &str) -> RhaiResultOf<String> {
        check_walk(text, 2)?;
        Ok(text.split_inclusive(|letter: char| !letter.is_alphabetic()).map(capitalized).collect())
    }

    /// Returns `true` if the text starts with this prefix.
    #[rhai_fn(global)]
    pub fn startswith(text: &str, prefix: &str) -> bool {
        text.starts_with(prefix)
    }

    /// Returns `true` if the text ends with this suffix.
    #[rhai_fn(global)]
    pub fn endswith(text: &str, suffix: &str) -> bool {
        text.ends_with(suffix)
    }

    /// Returns the text without this prefix; unchanged if it does not start with it.
    #[rhai_fn(global)]
    pub fn removeprefix(text: ImmutableString, prefix: &str) -> ImmutableString {
        super::super::text::functions::strip_prefix(text, prefix)
    }

    /// Returns the text without this suffix; unchanged if it does not end with it.
    #[rhai_fn(global)]
    pub fn removesuffix(text: ImmutableString, suffix: &str) -> ImmutableString {
        super::super::text::functions::strip_suffix(text, suffix)
    }

    /// Returns the lines of a text, without their line breaks.
    #[rhai_fn(global, return_raw)]
    pub fn splitlines(text: &str) -> RhaiResultOf<Array> {
        super::super::text::functions::lines(text)
    }

    /// Returns the text with every `from` replaced by `to`, as `text.replace(from, to)` does where its value is used.
    #[rhai_fn(global, return_raw)]
    pub fn replaced(x: ImmutableString, from: Dynamic, to: Dynamic) -> RhaiResultOf<ImmutableString> {
        super::super::text::functions::replace(x, &text("replace", &from)?, &text("replace", &to)?)
    }

    /// Returns the text with the first `count` occurrences of `from` replaced by `to`.
    #[rhai_fn(global, name = "replaced", return_raw)]
    pub fn replaced_count(
        x: ImmutableString,
        from: Dynamic,
        to: Dynamic,
        count: INT,
    ) -> RhaiResultOf<ImmutableString> {
        super::super::text::functions::replace_count(
            x,
            &text("replace", &from)?,
            &text("replace", &to)?,
            count,
        )
    }

    /// Returns the text with this letter before it, so that it has `width` characters.
    #[rhai_fn(global, return_raw)]
    pub fn rjust(text: &str, width: INT, fill: &str) -> RhaiResultOf<String> {
        padded("rjust", text, (width, fill), |missing| missing)
    }

    /// Returns the text with blanks before it, so that it has `width` characters.
    #[rhai_fn(global, name = "rjust", return_raw)]
    pub fn rjust_blank(text: &str, width: INT) -> RhaiResultOf<String> {
        rjust(text, width, " ")
    }

    /// Returns the text with this letter after it, so that it has `width` characters.
    #[rhai_fn(global, return_raw)]
    pub fn ljust(text: &str, width: INT, fill: &str) -> RhaiResultOf<String> {
        padded("ljust", text, (width, fill), |_| 0)
    }

    /// Returns the text with blanks after it, so that it has `width` characters.
    #[rhai_fn(global, name = "ljust", return_raw)]
    pub fn ljust_blank(text: &str, width: INT) -> RhaiResultOf<String> {
        ljust(text, width, " ")
    }

    /// Returns the text with blanks on both sides, so that it has `width` characters.
    #[rhai_fn(global, return_raw)]
    pub fn center(text: &str, width: INT) -> RhaiResultOf<String> {
        padded("center", text, (width, " "), |missing| missing / 2)
    }

    /// Returns the text with zeros before it, so that it has `width` characters.
    #[rhai_fn(global, return_raw)]
    pub fn zfill(text: &str, width: INT) -> RhaiResultOf<String> {
        rjust(text, width, "0")
    }

    /// Returns `a || b` of a line of the REPL, where the steps of functions are missing.
    #[rhai_fn(global, name = "||or")]
    pub fn first_true(a: Dynamic, b: Dynamic) -> Dynamic {
        if is_empty(&a) { b } else { a }
    }

    /// Returns `a && b` of a line of the REPL.
    #[rhai_fn(global, name = "&&and")]
    pub fn first_false(a: Dynamic, b: Dynamic) -> Dynamic {
        if is_empty(&a) { a } else { b }
    }

    /// Returns the value itself.
    #[rhai_fn(global, name = "+")]
    pub fn itself(x: Dynamic) -> Dynamic {
        x
    }

    /// Returns the text this many times.
    #[rhai_fn(global, name = "*", return_raw)]
    pub fn repeated(text: &str, times: INT) -> RhaiResultOf<String> {
        let times = usize::try_from(times).unwrap_or(0);
        check_text("*", text.len().saturating_mul(times))?;
        Ok(text.repeat(times))
    }

    /// Returns the text this many times.
    #[rhai_fn(global, name = "*", return_raw)]
    pub fn times(times: INT, text: &str) -> RhaiResultOf<String> {
        repeated(text, times)
    }

    /// Returns the different elements of a list, or letters of a text, in the order of their first occurrence.
    #[rhai_fn(global, return_raw)]
    pub fn set(context: NativeCallContext<'_>, x: Dynamic) -> RhaiResultOf<Array> {
        let (mut seen, mut different) = (HashSet::new(), Array::new());
        for item in of_any(&context, "set", x)? {
            let key = text("set", &item)?;
            check_walk(&key, 1)?;
            budget::reserve(key.len()).map_err(budget::ended)?;
            if seen.insert((item.type_name(), key)) {
                different.push(item);
            }
        }
        Ok(different)
    }

    /// Returns `true` if the text has letters only, at least one.
    #[rhai_fn(global, return_raw)]
    pub fn isalpha(text: &str) -> RhaiResultOf<bool> {
        check_walk(text, 1)?;
        Ok(!text.is_empty() && text.chars().all(char::is_alphabetic))
    }

    /// Returns `true` if the text has letters and digits only, at least one.
    #[rhai_fn(global, return_raw)]
    pub fn isalnum(text: &str) -> RhaiResultOf<bool> {
        check_walk(text, 1)?;
        Ok(!text.is_empty() && text.chars().all(char::is_alphanumeric))
    }

    /// Returns `true` if the text has digits only, at least one.
    #[rhai_fn(global, return_raw)]
    pub fn isdigit(text: &str) -> RhaiResultOf<bool> {
        check_walk(text, 1)?;
        Ok(!text.is_empty() && text.chars().all(char::is_numeric))
    }

    /// Returns the number of times a text contains another, without overlaps.
    #[rhai_fn(global, return_raw)]
    pub fn count(text: &str, part: &str) -> RhaiResultOf<INT> {
        check_walk(text, 1)?;
        Ok(text.matches(part).count() as INT)
    }

    /// Returns the position in characters at which a text contains another, and -1 if it does not.
    #[rhai_fn(global, return_raw)]
    pub fn find(text: &str, part: &str) -> RhaiResultOf<INT> {
        check_walk(text, 1)?;
        Ok(text.find(part).map_or(-1, |at| text[..at].chars().count() as INT))
    }

    /// Joins the elements of a list to one text, with this separator between them: `", ".join(names)`.
    #[rhai_fn(global, return_raw)]
    pub fn join(context: NativeCallContext<'_>, separator: &str, list: AnyArray) -> RhaiResultOf<String> {
        joined("join", &elements(&context, "join", &list)?, separator)
    }

    /// Joins the elements of a list to one text: `names.join(", ")`.
    #[rhai_fn(global, name = "join", return_raw)]
    pub fn join_list(
        context: NativeCallContext<'_>,
        list: AnyArray,
        separator: &str,
    ) -> RhaiResultOf<String> {
        joined("join", &elements(&context, "join", &list)?, separator)
    }

    /// Returns pairs of the keys and values of a map: `for (key, value) in map.items() { … }`.
    #[rhai_fn(global, return_raw)]
    pub fn items(context: NativeCallContext<'_>, map: AnyMap) -> RhaiResultOf<Array> {
        let mut map = map;
        if !map.is_map() && !map.is::<Map>() {
            return Err(unfit("items", "map", "a map", &map));
        }
        let mut all = |part| {
            let all = context.call_native_fn_raw(part, true, &mut [&mut map])?;
            elements(&context, "items", &all)
        };
        Ok(all("keys")?.into_iter().zip(all("values")?).map(|(key, value)| pair(key, value)).collect())
    }
}

/// Returns two values as one element of a list. A loop with two variables takes it apart.
fn pair(first: Dynamic, second: Dynamic) -> Dynamic {
    let mut pair = Dynamic::from_array(vec![first, second]);
    pair.set_tag(PAIR);
    pair
}

/// Returns the elements of a list or range, the keys of a map or the characters of a text.
fn of_any(context: &NativeCallContext<'_>, name: &str, mut value: Dynamic) -> RhaiResultOf<Array> {
    let value = match () {
        () if value.is_string() => context.call_native_fn_raw("to_chars", true, &mut [&mut value])?,
        () if value.is_map() || value.is::<Map>() => {
            context.call_native_fn_raw("keys", true, &mut [&mut value])?
        }
        () => value,
    };
    elements(context, name, &value)
}

fn text_of(value: &Dynamic) -> RhaiResultOf<Option<ImmutableString>> {
    let letter = value.as_char().map(|letter| ImmutableString::from(letter.to_string()));
    let text = letter.or_else(|_| value.as_immutable_string_ref().map(|text| text.clone())).ok();
    text.as_ref().map_or(Ok(()), |text| check_walk(text, 1))?;
    Ok(text)
}

fn unfit_number(function: &str, expected: &str, value: &Dynamic) -> Box<EvalAltResult> {
    // The text may be a secret.
    fail(function, format!("expected {expected}, got {}", kind_of(value)))
}

/// Returns the different letters of a text, which a walk through another one looks for.
fn letters_of(letters: &str, text: &str) -> RhaiResultOf<HashSet<char>> {
    check_walk(letters, 1)?;
    check_walk(text, 1)?;
    Ok(letters.chars().collect())
}

/// Returns a text with so many letters before and after it that it has `width` characters.
fn padded(
    function: &str,
    text: &str,
    (width, fill): (INT, &str),
    before: impl Fn(usize) -> usize,
) -> RhaiResultOf<String> {
    check_walk(text, 1)?;
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    check_text(function, text.len().saturating_add(missing.saturating_mul(fill.len())))?;
    let before = before(missing);
    Ok([&fill.repeat(before), text, &fill.repeat(missing - before)].concat())
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.flat_map(char::to_lowercase)).collect()
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn values_convert_as_in_python() {
        gives(&[
            ("int(\" 42 \")", "42"),
            ("int(-2.9)", "-2"),
            ("int(true)", "1"),
            ("int('7')", "7"),
            ("float(\"4.5\")", "4.5"),
            ("float(4) / 8", "0.5"),
            ("str(#{ a: [1, ()] })", r#""{\"a\":[1,null]}""#),
            ("str(4.0) + str(true)", r#""4.0true""#),
            ("[bool([]), bool(\"a\"), bool(0.0), bool(#{ a: () })]", "[false,true,false,true]"),
            ("list(\"ab\") + list([1])", r#"["a","b",1]"#),
            ("round(2.675, 1) + round(3, 2)", "5.7"),
        ]);
        refuses(&[
            ("int(\"4.5\")", "int: expected a whole number such as \"42\", got a text"),
            ("int(())", "got ()"),
            ("int(1.0e300)", "int: expected a number of at most 18 digits"),
            ("int(\"99999999999999999999\")", "got a text"),
            ("float([])", "float: expected a number such as \"4.2\", got a list"),
            ("\"abc\" * 9_000_000_000", "*: the text has 27000000000 bytes"),
            ("\"a\".rjust(9_000_000_000)", "rjust: the text has"),
            ("enumerate([1, 2], 9_223_372_036_854_775_807)", "enumerate: `start` is too large"),
            ("list(4)", "list: expected a list, got a number"),
        ]);
    }

    #[test]
    fn texts_have_the_methods_of_python() {
        gives(&[
            ("\" a \".strip() + \" b \".lstrip() + \" c \".rstrip()", r#""ab  c""#),
            ("\"..a.b!\".strip(\".!\") + \"xxa\".lstrip(\"x\") + \"a..\".rstrip(\".\")", r#""a.baa""#),
            ("(\"a\" * 200_000).strip(\"b\" * 200_000 + \"a\")", r#""""#),
            ("\"\".split() + \" a  b\\n\".split() + \"a,b\".split(\",\")", r#"["a","b","a","b"]"#),
            ("enumerate([\"a\"], 1)", r#"[[1,"a"]]"#),
            ("\"ÄB\".lower() + \"äb\".upper()", r#""äbÄB""#),
            ("\"hello WORLD\".capitalize() + \"it's a-b éa\".title()", r#""Hello worldIt'S A-B Éa""#),
            ("\"abc\".startswith(\"ab\") && \"abc\".endswith(\"bc\")", "true"),
            ("\"abc\".removeprefix(\"ab\") + \"abc\".removesuffix(\"x\")", r#""cabc""#),
            ("\"a\\r\\nb\".splitlines()", r#"["a","b"]"#),
            (
                "\"ab\".rjust(4) + \"ab\".ljust(3, \".\") + \"7\".zfill(3) + \"a\".center(4) + \"é\".rjust(0)",
                r#""  abab.007 a  é""#,
            ),
            ("\"ab\" * 2 + 3 * \"-\" + \"x\" * -1", r#""abab---""#),
            (
                "[\"é\".isalpha(), \"a1\".isalpha(), \"a1\".isalnum(), \"ab\"[0].upper()]",
                r#"[true,false,true,"A"]"#,
            ),
            ("\"a-b-c\".replaced(\"-\", 1) + \"a-b\".replaced(\"-\", \"\", 0)", r#""a1b1ca-b""#),
            ("[\"12\".isdigit(), \"\".isdigit(), \"1a\".isdigit()]", "[true,false,false]"),
            ("[\"aXaXa\".count(\"Xa\"), \"äbc\".find(\"c\"), \"abc\".find(\"x\")]", "[2,2,-1]"),
            ("\", \".join([1, \"b\", 2.5]) + [1, 2].join(\"-\")", r#""1, b, 2.51-2""#),
        ]);
    }
}
