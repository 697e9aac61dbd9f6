//! Checks JSON against the schema of a type, and reports all problems with the path of each field.

use serde_json::{Map, Value};
use std::fmt;
use valvehouse_core::text::{count, nearest};
use valvehouse_json::Json;

/// The maximum number of problems in one message.
const MAX_PROBLEMS: usize = 8;

/// The treatment of fields that the schema of an object does not declare.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ExtraFields {
    /// The schema decides.
    AsDeclared,
    /// They are problems, because the type of a response must describe all of its fields.
    Refused,
}

/// The problems of a value.
#[derive(Default)]
pub(super) struct Diagnostics {
    texts: Vec<String>,
    more: usize,
    /// The first wrong field of the outermost object, if the schema declares it.
    pub(super) field: Option<&'static str>,
}

impl Diagnostics {
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    fn add(&mut self, path: &Path<'_>, text: String) {
        self.field = self.field.or(path.first());
        match self.texts.len() < MAX_PROBLEMS {
            true => self.texts.push(text),
            false => self.more += 1,
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.texts.join("; "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {}", count(more, "more problem")),
        }
    }
}

/// The path of a value, such as `tools.search` or `messages[2]`.
enum Path<'a> {
    Start,
    Field(&'a Path<'a>, &'a str, Option<&'static str>),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// Returns the outermost field of the path.
    fn first(&self) -> Option<&'static str> {
        match self {
            Path::Start => None,
            Path::Field(Path::Start, _, declared) => *declared,
            Path::Field(above, ..) | Path::Index(above, _) => above.first(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Start => Ok(()),
            Path::Field(Path::Start, name, _) => f.write_str(name),
            Path::Field(above, name, _) => write!(f, "{above}.{name}"),
            Path::Index(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

/// Checks a value.
pub(super) fn check(schema: &'static Value, value: &Json, extra_fields: ExtraFields) -> Diagnostics {
    let mut check = Check { problems: Diagnostics::default(), extra_fields };
    check.value(schema, value, &Path::Start);
    check.problems
}

struct Check {
    problems: Diagnostics,
    extra_fields: ExtraFields,
}

impl Check {
    fn wrong(&mut self, path: &Path<'_>, text: &str) {
        let text = match path {
            Path::Start => text.to_owned(),
            path => format!("`{path}` {text}"),
        };
        self.problems.add(path, text);
    }

    fn value(&mut self, schema: &'static Value, value: &Json, path: &Path<'_>) {
        // A schema of `true` accepts any value.
        let Some(schema) = schema.as_object() else { return };
        if let Some(choices) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            self.choice(choices, value, path);
        }
        let types = types(schema);
        if !types.is_empty() && !types.iter().any(|name| is_of(name, value)) {
            let expected: Vec<&str> = types.iter().filter(|name| **name != "null").map(in_words).collect();
            let expected = match path {
                Path::Start => expected.join(" or ").replace("an object", "a JSON object"),
                _ => expected.join(" or "),
            };
            self.wrong(path, &format!("must be {expected}, not {}", kind(value)));
            return;
        }
        self.limits(schema, value, path);
        match value {
            Json::Object(object) => self.fields(schema, &object.entries(), path),
            Json::Array(items) => {
                for (index, item) in items.items().iter().enumerate() {
                    if let Some(schema) = schema.get("items") {
                        self.value(schema, item, &Path::Index(path, index));
                    }
                }
            }
            _ => {}
        }
    }

    /// Checks a value against alternative schemas. If only one alternative has the type of the value, its
    /// problems are reported.
    fn choice(&mut self, choices: &'static [Value], value: &Json, path: &Path<'_>) {
        let mut failed = Vec::new();
        for choice in choices {
            let mut check = Self { problems: Diagnostics::default(), extra_fields: self.extra_fields };
            check.value(choice, value, path);
            if check.problems.is_empty() {
                return;
            }
            failed.push((choice, check.problems));
        }
        let mut fitting =
            failed.iter_mut().filter(|(choice, _)| all_types(choice).iter().any(|name| is_of(name, value)));
        if let (Some((_, problems)), None) = (fitting.next(), fitting.next()) {
            let problems = std::mem::take(problems);
            self.problems.field = self.problems.field.or(problems.field);
            self.problems.more += problems.more;
            self.problems.texts.extend(problems.texts);
            return;
        }
        let names = choices.iter().flat_map(all_types).filter(|name| *name != "null");
        let mut names: Vec<&str> = names.map(|name| in_words(&name)).collect();
        names.dedup();
        self.wrong(path, &format!("must be {}, not {}", names.join(" or "), kind(value)));
    }

    fn limits(&mut self, schema: &'static Map<String, Value>, value: &Json, path: &Path<'_>) {
        let allowed: Vec<&str> = schema
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if let Json::Text(text) = value {
            if !allowed.is_empty() && !allowed.contains(&text.as_str()) {
                let near = nearest(text.as_str(), allowed.iter().copied());
                let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                self.wrong(path, &format!("must be {}{hint}", listed(&allowed)));
            }
            let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
            if (text.as_str().chars().count() as u64) < least {
                self.wrong(path, &format!("must have at least {}", count(least as usize, "character")));
            }
        }
        if let Json::Number(number) = value {
            let number = number.as_f64();
            let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
            let (least, most) = (bound("minimum"), bound("maximum"));
            if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
                let least = least.map_or_else(String::new, |least| format!(" from {least}"));
                let most = most.map_or_else(String::new, |most| format!(" to {most}"));
                let is_whole = types(schema).contains(&"integer");
                let kind = if is_whole { "a whole number" } else { "a number" };
                self.wrong(path, &format!("must be {kind}{least}{most}"));
            }
        }
        if let Json::Object(object) = value {
            let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
            if (object.len() as u64) < least {
                self.wrong(path, &format!("must have at least {}", count(least as usize, "field")));
            }
        }
    }

    fn fields(
        &mut self,
        schema: &'static Map<String, Value>,
        given: &[(impl AsRef<str>, Json)],
        path: &Path<'_>,
    ) {
        let declared = schema.get("properties").and_then(Value::as_object);
        let names = || declared.into_iter().flat_map(|all| all.keys().map(String::as_str));
        let find = |name: &str| given.iter().find(|(key, _)| key.as_ref() == name).map(|(_, value)| value);
        let others = schema.get("additionalProperties");
        let is_closed = others == Some(&Value::Bool(false))
            || (self.extra_fields == ExtraFields::Refused && declared.is_some() && others.is_none());
        for name in required(schema) {
            let takes_null = declared.and_then(|all| all.get(name)).is_none_or(takes_null);
            if find(name).is_none_or(|value| value.is_null() && !takes_null) {
                let here = Path::Field(path, name, Some(name));
                let unknown =
                    given.iter().map(|(key, _)| key.as_ref()).filter(|key| names().all(|own| own != *key));
                let near = unknown.filter(|key| nearest(key, names()) == Some(name)).find(|_| !is_closed);
                let hint = near.map_or_else(String::new, |near| format!("; did you mean it by `{near}`?"));
                self.problems.add(&here, format!("missing `{here}`{hint}"));
            }
        }
        for (name, value) in given {
            let name = name.as_ref();
            match (declared.and_then(|all| all.get_key_value(name)), others) {
                // The field counts as missing.
                (Some((name, own)), _)
                    if value.is_null() && !takes_null(own) && required(schema).any(|own| own == *name) => {}
                (Some((name, own)), _) => self.value(own, value, &Path::Field(path, name, Some(name))),
                (None, Some(of_others @ Value::Object(_))) => {
                    self.value(of_others, value, &Path::Field(path, name, None));
                }
                (None, _) if is_closed => {
                    let here = Path::Field(path, name, None);
                    let near = nearest(name, names()).map_or_else(
                        || match names().collect::<Vec<_>>() {
                            names if names.is_empty() => String::new(),
                            names => format!("; expected {}", listed(&names)),
                        },
                        |near| format!("; did you mean `{near}`?"),
                    );
                    self.problems.add(&here, format!("unknown field `{here}`{near}"));
                }
                (None, _) => {}
            }
        }
    }
}

fn required(schema: &'static Map<String, Value>) -> impl Iterator<Item = &'static str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the types of a schema; empty if it declares none.
fn types(schema: &'static Map<String, Value>) -> Vec<&'static str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the types of a schema, including those of its alternatives.
fn all_types(schema: &'static Value) -> Vec<&'static str> {
    let Some(schema) = schema.as_object() else { return Vec::new() };
    match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        Some(choices) => choices.iter().flat_map(all_types).collect(),
        None => types(schema),
    }
}

fn takes_null(schema: &'static Value) -> bool {
    let Some(schema) = schema.as_object() else { return true };
    let choices = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
    match (choices, types(schema)) {
        (Some(choices), _) => choices.iter().any(takes_null),
        (None, types) => types.is_empty() || types.contains(&"null"),
    }
}

fn is_of(name: &str, value: &Json) -> bool {
    match value {
        Json::Null => name == "null",
        Json::Bool(_) => name == "boolean",
        Json::Number(number) => name == "number" || (name == "integer" && number.is_integer()),
        Json::Text(_) => name == "string",
        Json::Array(_) => name == "array",
        Json::Object(_) => name == "object",
    }
}

fn in_words<'a>(name: &&'a str) -> &'a str {
    match *name {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::Text(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

/// Writes names as a list: `a`, `b` or `c`.
fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::schema::{Direction, of};
    use schemars::JsonSchema;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Order {
        name: String,
        count: u32,
        color: Option<Color>,
        #[serde(default)]
        parts: Vec<Part>,
        hashes: Option<BTreeMap<String, String>>,
        user: Option<Owner>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Green,
        Yellow,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Part {
        size: f64,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[allow(dead_code)]
    enum Owner {
        Id(String),
        Known { id: String },
    }

    fn problems(text: &str) -> (String, Option<&'static str>) {
        let value = Json::parse(text.as_bytes()).unwrap();
        let schema = of::<Order>(Direction::Request);
        let found = check(schema, &value, ExtraFields::AsDeclared);
        (found.to_string(), found.field)
    }

    #[test]
    fn valid_values_have_no_problems() {
        for fits in [
            r#"{"name": "a", "count": 1}"#,
            r#"{"name": "a", "count": 1, "color": null, "hashes": null}"#,
            r#"{"name": "a", "count": 1, "color": "green", "parts": [{"size": 1, "more": 2}], "hashes": {"x": "y"}}"#,
            r#"{"name": "a", "count": 1, "user": "ann"}"#,
            r#"{"name": "a", "count": 1, "user": {"id": "ann", "role": "x"}}"#,
        ] {
            assert_eq!(problems(fits), (String::new(), None), "{fits}");
        }
    }

    #[test]
    fn every_invalid_field_is_named_with_its_path_and_a_suggestion() {
        let text = r#"{"nmae": "a", "count": 1.5, "color": "gren", "parts": [{"size": 1}, {"size": "x"}], "hashes": {"x": 1}}"#;
        let (message, field) = problems(text);
        assert_eq!(
            message,
            "missing `name`; unknown field `nmae`; did you mean `name`?; \
             `count` must be a whole number, not a number; `color` must be `green` or `yellow`; did you mean `green`?; \
             `parts[1].size` must be a number, not a string; `hashes.x` must be a string, not a number"
        );
        assert_eq!(field, Some("name"));
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let cases = [
            ("[]", "must be a JSON object, not an array"),
            (r#"{"name": "a", "count": 1, "parts": null}"#, "`parts` must be an array, not null"),
            (r#"{"name": null, "count": -1}"#, "missing `name`; `count` must be a whole number from 0"),
            (r#"{"name": "a", "count": 1, "user": 7}"#, "`user` must be a string or an object, not a number"),
            (r#"{"name": "a", "count": 1, "user": {}}"#, "missing `user.id`"),
            (
                r#"{"name": "a", "count": 1, "x": {}}"#,
                "unknown field `x`; expected `name`, `count`, `color`, `parts`, `hashes` or `user`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(problems(text).0, expected, "{text}");
        }
    }

    #[test]
    fn the_number_of_named_problems_is_bounded() {
        let fields: Vec<String> = (0..100).map(|number| format!(r#""unknown-{number}": 1"#)).collect();
        let (message, _) = problems(&format!("{{{}}}", fields.join(",")));
        assert!(message.ends_with("; and 94 more problems"), "{message}");
        assert!(message.len() < 2000, "{message}");
    }
}
