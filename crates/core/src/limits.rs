//! Limits on values beyond their type, shared by the settings of plugins and the parameters of tools.
//!
//! Type coercion is not shared: a form sends `on` for true and `a, b` for a list, whereas a model sends lists
//! and objects as JSON in a string.

use crate::error::Misdeclaration;
use crate::text::nearest;
use regex::{Regex, RegexBuilder};
use std::cmp::Ordering;
use valvehouse_json::{Json, Number};

/// The maximum memory of one compiled pattern, in bytes; larger ones compile slowly.
const MAX_PATTERN: usize = 1 << 20;

/// The maximum number of allowed values listed in a message.
const NAMED: usize = 20;

/// A violated rule: its JSON Schema keyword and its requirement, such as `must be 5 or more`.
pub(crate) type BrokenRule = (&'static str, String);

/// The limits that a declaration sets for numbers and texts.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The minimum, inclusive.
    pub minimum: Option<Json>,
    /// The maximum, inclusive.
    pub maximum: Option<Json>,
    /// The allowed values; an empty list allows all.
    pub allowed: Vec<Json>,
    /// The pattern that a text must contain, as in JSON Schema.
    pub pattern: Option<Regex>,
}

impl Limits {
    /// Reads `minimum`, `maximum` and `pattern` of a declaration whose `type` has this name. The caller reads
    /// `enum`, because it knows the type of the values. Each problem continues a sentence that starts with the
    /// name of the declaration.
    pub(crate) fn read(declared: &Json, type_name: &str, problems: &mut Vec<String>) -> Self {
        let limits = Self {
            minimum: bound("minimum", declared, type_name, problems),
            maximum: bound("maximum", declared, type_name, problems),
            pattern: pattern(declared, type_name, problems),
            allowed: Vec::new(),
        };
        if let (Some(minimum), Some(maximum)) = (&limits.minimum, &limits.maximum)
            && order(minimum, maximum) == Some(Ordering::Greater)
        {
            problems.push("has a `minimum` above its `maximum`, so that nothing fits: swap them".to_owned());
        }
        limits
    }

    /// Checks a value that already has its type.
    pub(crate) fn check(&self, value: &Json) -> Result<(), BrokenRule> {
        let against = |bound: &Option<Json>| bound.as_ref().and_then(|bound| order(value, bound));
        if let (Some(Ordering::Less), Some(minimum)) = (against(&self.minimum), &self.minimum) {
            return Err(("minimum", format!("must be {minimum} or more")));
        }
        if let (Some(Ordering::Greater), Some(maximum)) = (against(&self.maximum), &self.maximum) {
            return Err(("maximum", format!("must be {maximum} or less")));
        }
        if !self.allowed.is_empty() && !self.allowed.contains(value) {
            return Err(("enum", self.name_allowed(value)));
        }
        match (value.as_str(), &self.pattern) {
            (Some(text), Some(pattern)) if !pattern.is_match(text) => {
                Err(("pattern", format!("must match the pattern {pattern}")))
            }
            _ => Ok(()),
        }
    }

    fn name_allowed(&self, value: &Json) -> String {
        let named: Vec<_> = self.allowed.iter().take(NAMED).map(clipped).collect();
        let more = match self.allowed.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let near =
            value.as_str().and_then(|text| nearest(text, self.allowed.iter().filter_map(Json::as_str)));
        let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
        format!("must be one of {}{more}{near}", named.join(", "))
    }

    /// Adds the limits to a JSON Schema.
    pub(crate) fn describe(&self, schema: &Json) {
        // A new schema accepts any key.
        if !self.allowed.is_empty() {
            schema.put("enum", self.allowed.iter().map(Json::deep_clone).collect::<Vec<_>>());
        }
        for (name, bound) in [("minimum", &self.minimum), ("maximum", &self.maximum)] {
            if let Some(bound) = bound {
                schema.put(name, bound.clone());
            }
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| is_portable(pattern.as_str())) {
            schema.put("pattern", pattern.as_str());
        }
    }
}

/// Returns one sentence for each unknown key of a map.
pub fn unknown_keys(map: &Json, known: &[&str]) -> Vec<Misdeclaration> {
    let keys = map.keys();
    let unknown = keys.iter().filter(|key| !known.contains(&key.as_str()));
    let sentences = unknown.map(|key| {
        let here = of_pydantic(key).filter(|meant| known.contains(meant));
        let meant = here.or_else(|| nearest(key, known.iter().copied()));
        let hint = match (here, meant) {
            (Some(here), _) => format!(" (here it is `{here}`)"),
            (None, Some(near)) => format!("; did you mean `{near}`?"),
            (None, None) => String::new(),
        };
        let (shown, known) = (shortened(key), known.join(", "));
        let message = format!("has the unknown key `{shown}`{hint}; known keys: {known}");
        let meant = meant.map(|meant| (key.to_string(), meant.to_owned()));
        Misdeclaration { meant, ..Misdeclaration::at(key.as_str(), message) }
    });
    sentences.collect()
}

/// Returns the keyword for a key of Pydantic's `Field`.
fn of_pydantic(key: &str) -> Option<&'static str> {
    Some(match key {
        "ge" | "gt" | "min" => "minimum",
        "le" | "lt" | "max" => "maximum",
        "default" => "value",
        "regex" => "pattern",
        "desc" | "help" | "label" => "description",
        "choices" | "options" | "Literal" => "enum",
        _ => return None,
    })
}

/// Returns a value as text for a message, truncated if it is long.
pub fn clipped(value: &Json) -> String {
    shortened(&value.to_string())
}

/// Returns a text for a message, truncated if it is long.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn bound(key: &str, declared: &Json, type_name: &str, problems: &mut Vec<String>) -> Option<Json> {
    let given = declared.get(key)?;
    if !matches!(type_name, "integer" | "number") {
        problems.push(format!("has a `{key}`, which is for numbers, but its type is {type_name}: drop it"));
    } else if !given.as_f64().is_some_and(f64::is_finite) {
        problems.push(format!("has {} as its `{key}`: give a number", clipped(&given)));
    } else {
        return Some(given);
    }
    None
}

fn pattern(declared: &Json, type_name: &str, problems: &mut Vec<String>) -> Option<Regex> {
    let given = declared.get("pattern")?;
    if type_name != "string" {
        problems.push(format!("has a `pattern`, which is for text, but its type is {type_name}: drop it"));
        return None;
    }
    let Some(text) = given.as_str() else {
        problems.push(format!("has {} as its `pattern`: give a regular expression as text", clipped(&given)));
        return None;
    };
    let compiled = RegexBuilder::new(text).size_limit(MAX_PATTERN).build();
    if let Err(error) = &compiled {
        let (shown, reason) = (shortened(text), reason_of(error));
        problems.push(format!("has a `pattern` that is not a regular expression: {shown}: {reason}"));
    }
    compiled.ok()
}

fn reason_of(error: &regex::Error) -> String {
    // The last line states the reason; the lines before it show the position.
    let error = error.to_string();
    let reason = error.lines().last().unwrap_or(&error).trim_start_matches("error: ");
    let hint = if reason.starts_with("look-around") {
        ", because every pattern must run in linear time: match the allowed text instead"
    } else {
        ""
    };
    format!("{reason}{hint}")
}

/// Compares two numbers. Integers of 64 bits are compared exactly, because a float would lose digits.
fn order(left: &Json, right: &Json) -> Option<Ordering> {
    let (Json::Number(left), Json::Number(right)) = (left, right) else { return None };
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64().partial_cmp(&right.as_f64()),
    }
}

fn whole(number: &Number) -> Option<i128> {
    match number {
        Number::Int(value) => Some((*value).into()),
        Number::Unsigned(value) => Some((*value).into()),
        Number::Float(_) | Number::Raw(_) => None,
    }
}

/// Returns `true` if a pattern is valid in JSON Schema, whose dialect is that of JavaScript without `(?i)`,
/// `\A` or `[[:alpha:]]`. Other patterns are omitted from the schema but are still checked.
fn is_portable(pattern: &str) -> bool {
    let groups = pattern.match_indices("(?").map(|(at, _)| &pattern[at + 2..]);
    groups.into_iter().all(|group| group.starts_with(':') || group.starts_with('<'))
        && !["\\A", "\\z", "\\x{", "\\p{", "\\P{", "[[:"].iter().any(|only_ours| pattern.contains(only_ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(declared: &str, type_name: &str) -> (Limits, Vec<String>) {
        let mut problems = Vec::new();
        let declared = Json::parse(declared.as_bytes()).unwrap();
        (Limits::read(&declared, type_name, &mut problems), problems)
    }

    #[test]
    fn an_integer_one_past_its_bound_is_rejected_at_any_size() {
        let (limits, problems) = read(r#"{"maximum": 9007199254740992}"#, "integer");
        assert!(problems.is_empty());
        assert!(limits.check(&9_007_199_254_740_992_i64.into()).is_ok());
        assert!(limits.check(&9_007_199_254_740_993_i64.into()).is_err());
        assert!(limits.check(&u64::MAX.into()).is_err());
    }

    #[test]
    fn look_around_in_a_pattern_is_rejected_with_advice() {
        let (limits, problems) = read(r#"{"pattern": "^(?!x)"}"#, "string");
        assert!(limits.pattern.is_none());
        assert!(
            problems[0].contains("look-around") && problems[0].contains("match the allowed text"),
            "{problems:?}"
        );
    }

    #[test]
    fn a_long_list_of_allowed_values_is_cut_in_the_message() {
        let limits = Limits { allowed: (0..500_i64).map(Json::from).collect(), ..Limits::default() };
        let (rule, asks) = limits.check(&500_i64.into()).unwrap_err();
        assert_eq!(rule, "enum");
        assert!(asks.ends_with("19 and 480 more") && asks.len() < 150, "{asks}");
    }
}
