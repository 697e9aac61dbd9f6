//! `regex::…`: patterns in linear time, and the replacement texts of `regex::replace`: `$1`, `${name}`, `$$`.

use super::argument::{RhaiResultOf, fail};
use super::output::{List, Pulse, Text, check_size, text};
use super::pattern::{self, Pattern};
use super::simulation::Spans;
use regex::Regex;
use rhai::plugin::*;
use rhai::{Array, FnPtr, ImmutableString};
use std::sync::Arc;

#[export_module]
pub(super) mod functions {
    /// Returns `true` if the pattern matches anywhere in the text. `(?i)` ignores case, `(?m)` makes `^` and `$`
    /// match at line breaks, `(?s)` makes `.` match line breaks.
    #[rhai_fn(return_raw)]
    pub fn is_match(text: &str, pattern: &str) -> RhaiResultOf<bool> {
        Ok(compiled("regex::is_match", pattern)?.find_at(text, 0)?.is_some())
    }

    /// Returns the first match as text; `()` if there is none.
    #[rhai_fn(return_raw)]
    pub fn find(text: &str, pattern: &str) -> RhaiResultOf<Dynamic> {
        let found = compiled("regex::find", pattern)?.find_at(text, 0)?;
        Ok(found.map_or(Dynamic::UNIT, |span| text[span].into()))
    }

    /// Returns all matches as texts, from left to right.
    #[rhai_fn(return_raw)]
    pub fn find_all(text: &str, pattern: &str) -> RhaiResultOf<Array> {
        let (mut list, mut pulse) = (List::new("regex::find_all"), Pulse::new());
        let push = |spans: &Spans| {
            pulse.beat()?;
            list.push(group(text, spans, 0))
        };
        compiled("regex::find_all", pattern)?.each(text, push, false)?;
        Ok(list.finish())
    }

    /// Returns the first match with its groups, `[whole, group 1, …]`; `()` if there is none. An unmatched group is
    /// `()`.
    #[rhai_fn(return_raw)]
    pub fn captures(text: &str, pattern: &str) -> RhaiResultOf<Dynamic> {
        match compiled("regex::captures", pattern)?.captures_at(text, 0)? {
            Some(found) => Ok(groups("regex::captures", text, &found)?.finish().into()),
            None => Ok(Dynamic::UNIT),
        }
    }

    /// Returns all matches with their groups, `[[whole, group 1, …], …]`.
    #[rhai_fn(return_raw)]
    pub fn captures_all(text: &str, pattern: &str) -> RhaiResultOf<Array> {
        let (mut list, mut pulse) = (List::new("regex::captures_all"), Pulse::new());
        let push = |spans: &Spans| {
            pulse.beat()?;
            list.push_list(groups("regex::captures_all", text, spans)?)
        };
        compiled("regex::captures_all", pattern)?.each(text, push, true)?;
        Ok(list.finish())
    }

    /// Returns the text with every match replaced. In the replacement, `$1` and `${name}` are groups, `$0` is the
    /// whole match and `$$` a dollar sign.
    #[rhai_fn(return_raw)]
    pub fn replace(text: ImmutableString, pattern: &str, replacement: &str) -> RhaiResultOf<ImmutableString> {
        let regex = compiled("regex::replace", pattern)?;
        let template =
            Template::parse(replacement, &regex.regex).map_err(|why| fail("regex::replace", why))?;
        let with_groups = template.has_groups();
        let whole = text.clone();
        replace_each(text, &regex, with_groups, |found, into| template.expand(&whole, found, into))
    }

    /// Returns the text with every match replaced by the result of the closure, which receives the groups:
    /// `regex::replace(text, "[a-z]+", |g| g[0].len)`.
    #[rhai_fn(return_raw, name = "replace")]
    pub fn replace_by(
        context: NativeCallContext<'_>,
        text: ImmutableString,
        pattern: &str,
        replacement: FnPtr,
    ) -> RhaiResultOf<ImmutableString> {
        let regex = compiled("regex::replace", pattern)?;
        let whole = text.clone();
        replace_each(text, &regex, true, |found, into| {
            let groups = groups("regex::replace", &whole, found)?.finish();
            let answer = replacement.call_raw(&context, None, [groups.into()])?;
            into.push(&super::text("regex::replace", &answer)?)
        })
    }

    /// Splits the text at the matches and returns the parts.
    #[rhai_fn(return_raw)]
    pub fn split(text: &str, pattern: &str) -> RhaiResultOf<Array> {
        let (mut list, mut pulse) = (List::new("regex::split"), Pulse::new());
        let mut end = 0;
        let push = |spans: &Spans| {
            pulse.beat()?;
            let Some(Some(span)) = spans.first() else { return Ok(()) };
            list.push(Some(&text[end..span.start]))?;
            end = span.end;
            Ok(())
        };
        compiled("regex::split", pattern)?.each(text, push, false)?;
        list.push(Some(&text[end..]))?;
        Ok(list.finish())
    }

    /// Returns a pattern that matches exactly this text.
    #[rhai_fn(return_raw)]
    pub fn escape(text: &str) -> RhaiResultOf<String> {
        check_size("regex::escape", text.len() * 2)?;
        Ok(::regex::escape(text))
    }
}

fn compiled(function: &str, pattern: &str) -> RhaiResultOf<Arc<Pattern>> {
    pattern::compiled(pattern).map_err(|why| fail(function, why))
}

/// Returns the text of a group; `None` if it did not match.
fn group<'t>(text: &'t str, spans: &Spans, index: usize) -> Option<&'t str> {
    spans.get(index)?.clone().map(|span| &text[span])
}

fn groups(function: &'static str, text: &str, spans: &Spans) -> RhaiResultOf<List> {
    let mut list = List::new(function);
    for index in 0..spans.len() {
        list.push(group(text, spans, index))?;
    }
    Ok(list)
}

fn replace_each(
    text: ImmutableString,
    pattern: &Pattern,
    with_groups: bool,
    mut replace: impl FnMut(&Spans, &mut Text) -> RhaiResultOf<()>,
) -> RhaiResultOf<ImmutableString> {
    let (mut replaced, mut pulse, mut end) = (Text::new("regex::replace"), Pulse::new(), 0);
    let each = |spans: &Spans| {
        pulse.beat()?;
        let Some(Some(whole)) = spans.first() else { return Ok(()) };
        replaced.push(&text[end..whole.start])?;
        replace(spans, &mut replaced)?;
        end = whole.end;
        Ok(())
    };
    pattern.each(&text, each, with_groups)?;
    replaced.push(&text[end..])?;
    Ok(replaced.finish().into())
}

/// A replacement text with resolved groups.
pub(super) struct Template<'a>(Vec<Piece<'a>>);

enum Piece<'a> {
    Text(&'a str),
    Group(usize),
}

impl<'a> Template<'a> {
    /// Parses a replacement for a pattern. A `$` that does not start a group is literal.
    pub(super) fn parse(mut rest: &'a str, regex: &Regex) -> Result<Self, String> {
        let mut pieces = Vec::new();
        while let Some(at) = rest.find('$') {
            pieces.push(Piece::Text(&rest[..at]));
            rest = &rest[at + 1..];
            match reference(rest) {
                Some((group, after)) => {
                    pieces.push(Piece::Group(index(group, regex)?));
                    rest = after;
                }
                None => {
                    pieces.push(Piece::Text("$"));
                    rest = rest.strip_prefix('$').unwrap_or(rest);
                }
            }
        }
        pieces.push(Piece::Text(rest));
        Ok(Self(pieces))
    }

    /// Returns `true` if it refers to a group other than the whole match.
    pub(super) fn has_groups(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Group(1..)))
    }

    /// Appends the replacement for one match; an unmatched group is empty.
    pub(super) fn expand(&self, text: &str, groups: &Spans, into: &mut Text) -> RhaiResultOf<()> {
        for piece in &self.0 {
            into.push(match piece {
                Piece::Text(text) => text,
                Piece::Group(index) => groups.get(*index).cloned().flatten().map_or("", |span| &text[span]),
            })?;
        }
        Ok(())
    }
}

/// Returns the group named after a `$`, and the rest of the text.
fn reference(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}');
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| text.split_at(digits))
}

fn index(group: &str, regex: &Regex) -> Result<usize, String> {
    let numbered = group.parse().ok().filter(|&index: &usize| index < regex.captures_len());
    let named = || regex.capture_names().position(|name| name == Some(group));
    numbered
        .or_else(named)
        .ok_or_else(|| format!("unknown group `{group}` in the replacement; write `$$` for a dollar sign"))
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{engine, gives, refuses};
    use std::time::Duration;
    use valvehouse_dialect::budget::{Budget, Guard};

    #[test]
    fn matches_are_found() {
        gives(&[
            (r#"regex::is_match("Hello", "(?i)^hel+o$")"#, "true"),
            (
                r#"regex::is_match("a\nb", `(?m)^b$`) && !regex::is_match("a\nb", "a.b") && regex::is_match("a\nb", "(?s)a.b")"#,
                "true",
            ),
            (r#"regex::find("ab12c", `\d+`)"#, r#""12""#),
            (r#"regex::find("ab", `\d+`)"#, "null"),
            (r#"regex::find_all("1 22 x", `\d+`)"#, r#"["1","22"]"#),
            (r#"regex::find_all("ab", "")"#, r#"["","",""]"#),
            (r#"regex::captures("a=1", `(\w)=(\d)(x)?`)"#, r#"["a=1","a","1",null]"#),
            (r#"regex::captures("a", `\d`)"#, "null"),
            (r#"regex::captures_all("a1b2", `([a-z])(\d)`)"#, r#"[["a1","a","1"],["b2","b","2"]]"#),
            (r#"regex::split("a, b ,c", `\s*,\s*`)"#, r#"["a","b","c"]"#),
            (r#"regex::is_match("a.b*", "^" + regex::escape("a.b*") + "$")"#, "true"),
        ]);
    }

    #[test]
    fn groups_are_expanded_in_the_replacement() {
        gives(&[
            (r#"regex::replace("a1 b2", `([a-z])(\d)`, "$2$1x")"#, r#""1ax 2bx""#),
            (r#"regex::replace("a1", `(?P<l>[a-z])(\d)`, "${l}${2}0 $$1 $ $x")"#, r#""a10 $1 $ $x""#),
            (r#"regex::replace("ab", "(a)|b", "<$1>")"#, r#""<a><>""#),
            (r#"regex::replace("none", "x", "y")"#, r#""none""#),
            (r#"let n = 0; regex::replace("a b", `\w`, |g| { n += 1; g[0] + n })"#, r#""a1 b2""#),
            (r#"regex::replace("ab", "(a)", |g| g.len)"#, r#""2b""#),
            (r#"let s = "a"; regex::replace(s, "a", "b"); s"#, r#""a""#),
        ]);
    }

    #[test]
    fn regex_errors_state_the_reason() {
        refuses(&[
            (r#"regex::is_match("a", "(?=a)")"#, "look-around"),
            (r#"regex::find("a", "(")"#, "unclosed group"),
            (r#"regex::captures("a", "[")"#, "unclosed character class"),
            (r#"regex::split("a", "*")"#, "repetition operator missing expression"),
            (r#"regex::replace("a", "a", "$1")"#, "unknown group `1`"),
            (r#"regex::replace("a", "a", "${x}")"#, "write `$$`"),
            (r#"regex::replace("a", "a", |g| throw "no")"#, "no"),
            (r#"regex::replace("a", 1, "b")"#, "replace (string"),
            (r#"regex::find_all(big(200_000), "x")"#, "limit of 100000 elements"),
            (r#"regex::captures_all(big(60_000), "x")"#, "limit of 100000 elements"),
            (r#"regex::captures(big(2_000_000), "(((((x*)))))")"#, "at most 8 MiB"),
            (r#"regex::replace(big(10_000), "x", big(10_000))"#, "at most 8 MiB"),
            ("regex::escape(big(5_000_000))", "at most 8 MiB"),
        ]);
    }

    #[test]
    fn a_slow_search_ends_with_the_budget_of_its_call() {
        let _guard = Guard::enter(Budget {
            operations: u64::MAX - 1,
            time: Duration::from_millis(300),
            memory: usize::MAX,
            wall: Duration::from_secs(60),
            hurries_people: false,
        });
        let slow = r#"regex::find_all(text::replace(big(90_000), "x", "A"), ".*[^A-Z]|[A-Z]")"#;
        let error = engine().eval::<rhai::Array>(slow).unwrap_err();
        assert!(matches!(*error, rhai::EvalAltResult::ErrorTerminated(..)), "{error}");
    }
}
