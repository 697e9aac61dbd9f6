//! The schema of a type of this program. All problems of a value are worded, each with the path of its field.

use crate::SchemaError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use std::fmt;
use valvehouse_core::text::{count, nearest, optional};

/// The maximum number of problems in one message.
const MAX_PROBLEMS: usize = 8;

/// The schema of a type, whose values are checked at once.
pub struct TypeSchema {
    schema: Value,
    validator: Validator,
}

/// The problems of a value.
#[derive(Debug, Default)]
pub struct Problems {
    texts: Vec<String>,
    /// The first wrong field of the outermost object, if the schema declares it.
    pub field: Option<&'static str>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, more) = self.texts.split_at(self.texts.len().min(MAX_PROBLEMS));
        f.write_str(&shown.join("; "))?;
        match more.len() {
            0 => Ok(()),
            more => write!(f, "; and {}", count(more, "more problem")),
        }
    }
}

impl std::error::Error for Problems {}

impl TypeSchema {
    /// Compiles a schema without references to other documents.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid.
    pub fn new(schema: Value) -> Result<Self, SchemaError> {
        let compiled = jsonschema::validator_for(&schema);
        let validator = compiled.map_err(|error| SchemaError::Invalid(error.to_string()))?;
        Ok(Self { schema, validator })
    }

    /// The schema as JSON.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Checks a value. Formats and patterns are checked where the value is used.
    ///
    /// # Errors
    /// Returns all problems: missing fields first, then unknown ones.
    pub fn check(&'static self, value: &Value) -> Result<(), Problems> {
        let mut errors: Vec<ValidationError<'_>> = self.validator.iter_errors(value).collect();
        errors.sort_by_key(|error| match error.kind() {
            Kind::Required { .. } => 0,
            Kind::AdditionalProperties { .. } => 1,
            _ => 2,
        });
        let mut check = Check { schema: &self.schema, problems: Problems::default() };
        errors.iter().for_each(|error| check.error(error));
        if check.problems.texts.is_empty() { Ok(()) } else { Err(check.problems) }
    }
}

struct Check {
    schema: &'static Value,
    problems: Problems,
}

impl Check {
    fn add(&mut self, path: &str, text: String) {
        let outermost = path.split(['.', '[']).next().unwrap_or(path);
        let declared = self.schema["properties"].as_object().and_then(|all| all.get_key_value(outermost));
        self.problems.field = self.problems.field.or(declared.map(|(name, _)| name.as_str()));
        self.problems.texts.push(text);
    }

    fn must(&mut self, path: &str, text: &str) {
        let text = if path.is_empty() { format!("must {text}") } else { format!("`{path}` must {text}") };
        self.add(path, text);
    }

    fn error(&mut self, error: &ValidationError<'_>) {
        let (path, given) = (path(error), error.instance());
        let owner = error.schema_path().as_str().rsplit_once('/').map_or("", |(owner, _)| owner);
        let owner = self.schema.pointer(owner).unwrap_or(&Value::Null);
        let names: Vec<&str> = owner["properties"]
            .as_object()
            .into_iter()
            .flat_map(|all| all.keys())
            .map(|name| &**name)
            .collect();
        match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or("");
                let is_meant = |key: &&String| {
                    !names.contains(&&***key) && nearest(key, names.iter().copied()) == Some(name)
                };
                let near = given.as_object().and_then(|given| given.keys().find(is_meant));
                // In a closed object, the unknown field is a problem of its own.
                let near = near.filter(|_| owner["additionalProperties"] != false);
                let (path, hint) =
                    (within(&path, name), optional(near, |near| format!("; did you mean it by `{near}`?")));
                self.add(&path, format!("missing `{path}`{hint}"));
            }
            Kind::AdditionalProperties { unexpected } => {
                for name in unexpected {
                    let hint = match nearest(name, names.iter().copied()) {
                        Some(near) => format!("; did you mean `{near}`?"),
                        None if names.is_empty() => String::new(),
                        None => format!("; expected {}", listed(&names)),
                    };
                    let path = within(&path, name);
                    self.add(&path, format!("unknown field `{path}`{hint}"));
                }
            }
            Kind::Type { kind } => self.wrong_type(&path, types(kind), given),
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => self.choice(&path, context, given),
            Kind::Enum { options } => {
                let options: Vec<&str> =
                    options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                if let Some(given) = given.as_str() {
                    let near = nearest(given, options.iter().copied());
                    let hint = optional(near, |near| format!("; did you mean `{near}`?"));
                    self.must(&path, &format!("be {}{hint}", listed(&options)));
                }
            }
            Kind::Minimum { .. } | Kind::Maximum { .. } => {
                let bound = |name: &str, word: &str| match owner[name].as_f64() {
                    Some(limit) => format!(" {word} {limit}"),
                    None => String::new(),
                };
                let (least, most) = (bound("minimum", "from"), bound("maximum", "to"));
                let is_whole = owner["type"] == "integer" || owner["type"][0] == "integer";
                let kind = in_words(if is_whole { "integer" } else { "number" });
                self.must(&path, &format!("be {kind}{least}{most}"));
            }
            Kind::MinLength { limit } => {
                self.must(&path, &format!("have at least {}", count(*limit as usize, "character")))
            }
            Kind::MinProperties { limit } => {
                self.must(&path, &format!("have at least {}", count(*limit as usize, "field")))
            }
            _ => {}
        }
    }

    /// Reports the problems of the only alternative that has the type of a value, or else all their types.
    fn choice(&mut self, path: &str, choices: &[Vec<ValidationError<'static>>], given: &Value) {
        let type_here = |error: &ValidationError<'_>| match error.kind() {
            Kind::Type { kind } if self::path(error) == path => types(kind),
            _ => Vec::new(),
        };
        let mut fitting =
            choices.iter().filter(|errors| errors.iter().all(|error| type_here(error).is_empty()));
        match (fitting.next(), fitting.next()) {
            (Some(errors), None) => errors.iter().for_each(|error| self.error(error)),
            _ => self.wrong_type(path, choices.iter().flatten().flat_map(type_here).collect(), given),
        }
    }

    fn wrong_type(&mut self, path: &str, mut types: Vec<String>, given: &Value) {
        types.retain(|name| name != "null");
        types.dedup();
        let expected = types.iter().map(|name| in_words(name)).collect::<Vec<_>>().join(" or ");
        let expected =
            if path.is_empty() { expected.replace("an object", "a JSON object") } else { expected };
        let given = match given {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.must(path, &format!("be {expected}, not {given}"));
    }
}

/// Returns the path of a value, such as `tools.search` or `messages[2]`.
fn path(error: &ValidationError<'_>) -> String {
    let parts = error.instance_path().as_str().split('/').skip(1);
    parts.fold(String::new(), |path, part| match part.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) => within(&path, &part.replace("~1", "/").replace("~0", "~")),
    })
}

fn within(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn types(kind: &TypeKind) -> Vec<String> {
    match kind {
        TypeKind::Single(name) => vec![name.to_string()],
        TypeKind::Multiple(names) => names.iter().map(|name| name.to_string()).collect(),
    }
}

fn in_words(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        other => other,
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
    use serde_json::json;

    fn order() -> &'static TypeSchema {
        let part =
            json!({"type": "object", "properties": {"size": {"type": "number"}}, "required": ["size"]});
        let known = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
        let color = json!({"anyOf": [{"type": "string", "enum": ["green", "yellow"]}, {"type": "null"}]});
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "count": {"type": "integer", "minimum": 0, "maximum": 9},
                "color": color,
                "parts": {"type": "array", "items": part},
                "hashes": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
                "user": {"anyOf": [{"type": "string"}, known, {"type": "null"}]},
            },
            "required": ["name", "count"],
            "additionalProperties": false,
        });
        Box::leak(Box::new(TypeSchema::new(schema).unwrap()))
    }

    fn problems(text: &str) -> (String, Option<&'static str>) {
        let found = order().check(&serde_json::from_str(text).unwrap()).err().unwrap_or_default();
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
            (
                r#"{"name": null, "count": -1}"#,
                "`name` must be a string, not null; `count` must be a whole number from 0 to 9",
            ),
            (r#"{"name": "a", "count": 10}"#, "`count` must be a whole number from 0 to 9"),
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
