//! `text::…`: string functions in addition to Rhai's methods; they always return a value.

use super::argument::{AnyArray, AnyNumber, RhaiResultOf, count, fail, float, items};
use super::output::{List, Text, check_size, check_walk, text};
use rhai::plugin::*;
use rhai::{Array, ImmutableString};
use std::collections::HashMap;
use valvehouse_dialect::budget;

/// The maximum product of both lengths for which `similar` compares character by character, which takes about ten
/// milliseconds.
const MAX_COMPARISONS: usize = 4_000_000;

#[export_module]
pub(super) mod functions {
    /// Joins the elements of an array to one text, with the separator between them.
    #[rhai_fn(return_raw)]
    pub fn join(array: AnyArray, separator: &str) -> RhaiResultOf<String> {
        joined("text::join", &items("text::join", "array", &array)?, separator)
    }

    /// Returns the text without white space at both ends.
    pub fn trim(text: ImmutableString) -> ImmutableString {
        text.trim().into()
    }

    /// Returns the text without white space at its start.
    pub fn trim_start(text: ImmutableString) -> ImmutableString {
        text.trim_start().into()
    }

    /// Returns the text without white space at its end.
    pub fn trim_end(text: ImmutableString) -> ImmutableString {
        text.trim_end().into()
    }

    /// Returns the text without this prefix; unchanged if it does not start with it.
    pub fn strip_prefix(text: ImmutableString, prefix: &str) -> ImmutableString {
        text.strip_prefix(prefix).map_or_else(|| text.clone(), Into::into)
    }

    /// Returns the text without this suffix; unchanged if it does not end with it.
    pub fn strip_suffix(text: ImmutableString, suffix: &str) -> ImmutableString {
        text.strip_suffix(suffix).map_or_else(|| text.clone(), Into::into)
    }

    /// Returns the lines of a text, without their line breaks (`\n` or `\r\n`).
    #[rhai_fn(return_raw)]
    pub fn lines(text: &str) -> RhaiResultOf<Array> {
        check_walk(text, 1)?;
        list("text::lines", text.lines())
    }

    /// Returns the words of a text, which are separated by white space. Punctuation belongs to its word:
    /// `regex::find_all(text, "[[:alpha:]]+")` leaves it out.
    #[rhai_fn(return_raw)]
    pub fn words(text: &str) -> RhaiResultOf<Array> {
        check_walk(text, 1)?;
        list("text::words", text.split_whitespace())
    }

    /// Returns the text with every `from` replaced by `to`.
    #[rhai_fn(return_raw)]
    pub fn replace(text: ImmutableString, from: &str, to: &str) -> RhaiResultOf<ImmutableString> {
        replace_first(text, from, to, usize::MAX)
    }

    /// Returns the text with the first `count` occurrences of `from` replaced by `to`.
    #[rhai_fn(return_raw, name = "replace")]
    pub fn replace_count(
        text: ImmutableString,
        from: &str,
        to: &str,
        count: i64,
    ) -> RhaiResultOf<ImmutableString> {
        replace_first(text, from, to, super::count("text::replace", "count", count)?)
    }

    /// Truncates the text to `n` characters; if truncated, the last one is `…`.
    #[rhai_fn(return_raw)]
    pub fn truncate(text: ImmutableString, n: i64) -> RhaiResultOf<ImmutableString> {
        cut(text, n, "…")
    }

    /// Truncates the text to `n` characters; if truncated, it ends with the mark. The mark is included in `n`, and
    /// omitted if it does not fit.
    #[rhai_fn(return_raw, name = "truncate")]
    pub fn truncate_with(text: ImmutableString, n: i64, mark: &str) -> RhaiResultOf<ImmutableString> {
        cut(text, n, mark)
    }

    /// Returns a number with `digits` digits after the point: `text::fixed(3.14159, 2)` is `"3.14"`.
    #[rhai_fn(return_raw)]
    pub fn fixed(number: AnyNumber, digits: i64) -> RhaiResultOf<String> {
        let digits = match digits {
            0..=100 => digits as usize,
            _ => return Err(fail("text::fixed", format!("`digits` must be 0 to 100, not {digits}"))),
        };
        Ok(match number.as_int() {
            Ok(whole) if digits == 0 => whole.to_string(),
            Ok(whole) => format!("{whole}.{:0<digits$}", ""),
            Err(_) => format!("{:.digits$}", float("text::fixed", "number", &number)?),
        })
    }

    /// Returns the similarity of two texts, from 0.0 to 1.0 (equal): the share of characters that need no insertion,
    /// deletion, replacement or swap. Texts of thousands of characters are compared by shared letter pairs.
    #[rhai_fn(return_raw)]
    pub fn similar(a: &str, b: &str) -> RhaiResultOf<f64> {
        if a == b {
            return Ok(1.0);
        }
        let bytes = a.len() + b.len();
        budget::charge(bytes as u64 / 32)
            .and_then(|()| budget::reserve(bytes * 20))
            .map_err(budget::ended)?;
        let (long, short) = (a.chars().count(), b.chars().count());
        if long.saturating_mul(short) > MAX_COMPARISONS {
            return Ok(shared_pairs(a, b));
        }
        Ok(1.0 - strsim::osa_distance(a, b) as f64 / long.max(short) as f64)
    }
}

/// Joins elements to one text, with the separator between them.
pub(super) fn joined(function: &'static str, items: &[Dynamic], separator: &str) -> RhaiResultOf<String> {
    let mut joined = Text::new(function);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            joined.push(separator)?;
        }
        joined.push(&text(function, item)?)?;
    }
    Ok(joined.finish())
}

fn list<'a>(function: &'static str, parts: impl Iterator<Item = &'a str>) -> RhaiResultOf<Array> {
    let mut list = List::new(function);
    for part in parts {
        list.push(Some(part))?;
    }
    Ok(list.finish())
}

fn replace_first(text: ImmutableString, from: &str, to: &str, most: usize) -> RhaiResultOf<ImmutableString> {
    check_walk(&text, 1)?;
    let places = text.matches(from).take(most).count();
    if places == 0 {
        return Ok(text);
    }
    let added = places.saturating_mul(to.len());
    check_size("text::replace", added.saturating_add(text.len() - places * from.len()))?;
    Ok(text.replacen(from, to, places).into())
}

/// Returns the share of letter pairs that two texts have in common (Sørensen–Dice), in linear time.
fn shared_pairs(a: &str, b: &str) -> f64 {
    let pairs = |text: &'_ str| text.chars().zip(text.chars().skip(1)).collect::<Vec<_>>();
    let (a, b) = (pairs(a), pairs(b));
    let mut left = HashMap::<_, usize, foldhash::fast::RandomState>::default();
    for pair in &a {
        *left.entry(pair).or_default() += 1;
    }
    let mut shared = 0;
    for pair in &b {
        if let Some(count) = left.get_mut(pair).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    2.0 * shared as f64 / (a.len() + b.len()).max(1) as f64
}

fn cut(text: ImmutableString, n: i64, mark: &str) -> RhaiResultOf<ImmutableString> {
    let n = count("text::truncate", "n", n)?;
    // Returns the byte position of character `n`, if it exists.
    let start_of = |n| text.char_indices().nth(n).map(|(at, _)| at);
    let Some(end) = start_of(n) else { return Ok(text) };
    let Some(room) = n.checked_sub(mark.chars().count()) else { return Ok(text[..end].into()) };
    let kept = &text[..start_of(room).unwrap_or(end)];
    check_size("text::truncate", kept.len() + mark.len())?;
    Ok(format!("{kept}{mark}").into())
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    #[test]
    fn texts_are_trimmed_and_split() {
        gives(&[
            (r#"const S = " a "; text::trim(S)"#, r#""a""#),
            (r#"text::trim_start(" a ") + "|" + text::trim_end(" a ")"#, r#""a | a""#),
            (r#"text::strip_prefix("abc", "ab") + text::strip_prefix("abc", "x")"#, r#""cabc""#),
            (r#"text::strip_suffix("abc", "bc") + text::strip_suffix("abc", "x")"#, r#""aabc""#),
            (r#"text::lines("a\r\nb\n\nc")"#, r#"["a","b","","c"]"#),
            (r#"text::words("  a\tb \n c ")"#, r#"["a","b","c"]"#),
            (r#"let s = " a "; text::trim(s); s"#, r#"" a ""#),
        ]);
        refuses(&[
            ("text::trim(5)", "trim (integer)"),
            ("text::trim_start(5)", "trim_start (integer)"),
            ("text::trim_end(())", "trim_end (())"),
            (r#"text::strip_prefix("a")"#, "strip_prefix (string"),
            (r#"text::strip_suffix("a", 1)"#, "strip_suffix (string"),
            (r#"text::lines(text::replace(big(200_000), "x", "\n"))"#, "limit of 100000 elements"),
            (r#"text::words(text::replace(big(200_000), "x", "y "))"#, "limit of 100000 elements"),
        ]);
    }

    #[test]
    fn values_of_any_type_can_be_joined() {
        gives(&[
            (
                r#"text::join([1, 2.5, "a", 'c', true, (), [1], #{ k: "v" }], ",")"#,
                r#""1,2.5,a,c,true,,[1],{\"k\":\"v\"}""#,
            ),
            (r#"text::join([], ",")"#, r#""""#),
        ]);
        refuses(&[
            (r#"text::join("ab", ",")"#, "`array` must be an array, not string"),
            (r#"let s = big(5_000_000); text::join([s, s], "")"#, "10000000 bytes and exceed its limit"),
        ]);
    }

    #[test]
    fn replacing_stops_after_a_count() {
        gives(&[
            (r#"text::replace("aaa", "a", "b")"#, r#""bbb""#),
            (r#"text::replace("aaa", "a", "b", 2)"#, r#""bba""#),
            (r#"text::replace("aaa", "a", "b", 0)"#, r#""aaa""#),
            (r#"text::replace("ab", "", "-")"#, r#""-a-b-""#),
        ]);
        refuses(&[
            (r#"text::replace("a", "a", "b", -1)"#, "`count` must not be negative, not -1"),
            (r#"text::replace(big(10_000), "x", big(10_000))"#, "100000000 bytes and exceed its limit"),
        ]);
    }

    #[test]
    fn truncating_counts_characters_including_the_ellipsis() {
        gives(&[
            (r#"text::truncate("häöü", 4)"#, r#""häöü""#),
            (r#"text::truncate("häöü", 3)"#, r#""hä…""#),
            (r#"text::truncate("häöü", 3, "")"#, r#""häö""#),
            (r#"text::truncate("abcdef", 5, " >")"#, r#""abc >""#),
            (r#"text::truncate("abcdef", 2, "...")"#, r#""ab""#),
            (r#"text::truncate("abc", 0)"#, r#""""#),
        ]);
        refuses(&[(r#"text::truncate("a", -1)"#, "`n` must not be negative")]);
    }

    #[test]
    fn numbers_are_formatted_with_digits() {
        gives(&[
            ("text::fixed(3.14159, 2)", r#""3.14""#),
            ("text::fixed(3, 2)", r#""3.00""#),
            ("text::fixed(9007199254740993, 1)", r#""9007199254740993.0""#),
            ("text::fixed(-2.5, 0)", r#""-2""#),
            ("text::fixed(7, 0)", r#""7""#),
        ]);
        refuses(&[
            ("text::fixed(1.0, 101)", "0 to 100"),
            (r#"text::fixed("1", 1)"#, "`number` must be a number, not string"),
        ]);
    }

    #[test]
    fn similar_texts_have_a_similarity_near_one() {
        gives(&[
            (r#"text::similar("", "")"#, "1.0"),
            (r#"text::similar("abcd", "abdc")"#, "0.75"),
            (r#"text::similar("abcd", "")"#, "0.0"),
            (r#"text::similar(big(100_000), big(100_000) + "y") > 0.99"#, "true"),
        ]);
        refuses(&[(r#"text::similar("a", 1)"#, "similar (string")]);
    }
}
