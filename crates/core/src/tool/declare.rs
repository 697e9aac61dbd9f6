//! Conversion of a script's tool declaration to a specification, or to a list of all its problems.

use super::parameters::Parameters;
use super::spec::{Retry, ToolSpec};
use crate::error::{DeclarationError, Misdeclaration};
use crate::limits::{clipped, unknown_keys};
use crate::text::is_id;
use std::time::Duration;
use valvehouse_json::Json;

const KEYS: [&str; 10] = [
    "name",
    "description",
    "tag",
    "parameters",
    "timeout",
    "retry",
    "idempotent",
    "filters",
    "metadata",
    "handler",
];
const RETRY_KEYS: [&str; 2] = ["max", "delay"];

const MAX_TRY: Duration = Duration::from_secs(3600);
/// The maximum number of retries; more would delay the report of a broken tool.
const MAX_TRIES: u64 = 10;
const MAX_DELAY: Duration = Duration::from_secs(60);

/// A declared tool without its handler.
#[derive(Debug, Clone)]
pub struct ToolDeclaration {
    /// The specification.
    pub spec: ToolSpec,
    /// The ids of the filters for this tool only.
    pub filters: Vec<String>,
}

impl ToolSpec {
    /// Reads `#{ name, description, tag, parameters, timeout, retry, filters, metadata }`. The caller reads
    /// `handler`; the default tags apply to a tool without `tag`.
    ///
    /// # Errors
    /// Returns every problem with the declaration.
    pub fn declare(declared: &Json, default_tags: &[String]) -> Result<ToolDeclaration, DeclarationError> {
        if declared.as_object().is_none() {
            return Err(DeclarationError::from(format!(
                "a tool must be a map, such as #{{ name: \"get_weather\", handler: get_weather }}, not {}",
                clipped(declared)
            )));
        }
        let mut problems = unknown_keys(declared, &KEYS);
        let tool = read(declared, default_tags, &mut problems);
        if problems.is_empty() {
            return Ok(tool);
        }
        let whose = match declared.text("name").filter(|name| is_name(name)) {
            Some(name) => format!("tool `{name}`"),
            None => "a tool".to_owned(),
        };
        Err(DeclarationError(problems.into_iter().map(|problem| problem.within("", &whose)).collect()))
    }
}

fn read(declared: &Json, default_tags: &[String], problems: &mut Vec<Misdeclaration>) -> ToolDeclaration {
    let given = |key: &str| declared.get(key).filter(|value| !value.is_null());
    let mut spec = ToolSpec::new("");
    match given("name") {
        Some(Json::Text(name)) if is_name(&name) => spec.name = name.into(),
        Some(name) => {
            let problem = format!("has the name {}: {NAME_RULE}", clipped(&name));
            problems.push(Misdeclaration::at("name", problem));
        }
        None => problems.push(format!("has no `name`: {NAME_RULE}").into()),
    }
    match given("description") {
        Some(Json::Text(text)) => spec.description = text.into(),
        Some(other) => {
            let problem = format!("has {} as its `description`: give text", clipped(&other));
            problems.push(Misdeclaration::at("description", problem));
        }
        None => {}
    }
    match given("parameters").map(|given| Parameters::declare(&given)) {
        Some(Ok(parameters)) => spec.parameters = parameters,
        Some(Err(wrong)) => {
            problems.extend(wrong.0.into_iter().map(|problem| problem.within("parameters", "cannot work:")))
        }
        None => {}
    }
    match given("metadata") {
        Some(metadata @ Json::Object(_)) => spec.metadata = metadata.deep_clone(),
        Some(other) => {
            let problem = format!("has {} as its `metadata`: give a map", clipped(&other));
            problems.push(Misdeclaration::at("metadata", problem));
        }
        None => {}
    }
    spec.tags = or_tell(declared, "tag", tags, problems).unwrap_or_else(|| default_tags.to_vec());
    spec.timeout = or_tell(declared, "timeout", timeout, problems).unwrap_or(spec.timeout);
    spec.retry = or_tell(declared, "retry", Retry::parse, problems).unwrap_or_default();
    spec.idempotent = or_tell(declared, "idempotent", idempotent, problems).unwrap_or(false);
    let filters = or_tell(declared, "filters", filter_ids, problems).unwrap_or_default();
    ToolDeclaration { spec, filters }
}

fn or_tell<T, E: ToString>(
    declared: &Json,
    key: &str,
    read: impl Fn(&Json) -> Result<T, E>,
    problems: &mut Vec<Misdeclaration>,
) -> Option<T> {
    let given = declared.get(key).filter(|value| !value.is_null())?;
    read(&given).map_err(|problem| problems.push(Misdeclaration::at(key, problem.to_string()))).ok()
}

fn idempotent(given: &Json) -> Result<bool, String> {
    match given {
        Json::Bool(value) => Ok(*value),
        // Header comments of a script contain booleans as text.
        Json::Text(text) if text == "true" || text == "false" => Ok(text == "true"),
        other => Err(format!("has {} as its `idempotent`: give true or false", clipped(other))),
    }
}

const NAME_RULE: &str = "use 1 to 64 of a-z, A-Z, 0-9, `_` and `-`, which every model accepts";

/// Returns `true` if every provider accepts this as a tool name.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

/// Reads `tag`: a list of words, or a text with commas. Duplicates are removed.
///
/// # Errors
/// Returns the end of a sentence that states the problem.
pub fn tags(given: &Json) -> Result<Vec<String>, DeclarationError> {
    words(given).ok_or_else(|| {
        DeclarationError::from(format!(
            "has {} as its `tag`: give text, such as \"weather, outdoor\", or a list",
            clipped(given)
        ))
    })
}

/// Reads `timeout`: milliseconds, as a number or as text.
///
/// # Errors
/// Returns the end of a sentence that states the problem.
pub fn timeout(given: &Json) -> Result<Duration, DeclarationError> {
    milliseconds(given, MAX_TRY).filter(|timeout| !timeout.is_zero()).ok_or_else(|| {
        let most = MAX_TRY.as_millis();
        format!("has {} as its `timeout`: give milliseconds, 1 to {most}", clipped(given)).into()
    })
}

impl Retry {
    /// Reads `retry`: a number of retries, a text such as `3, 1000` with the delay in milliseconds, or a map of
    /// `max` and `delay`.
    ///
    /// # Errors
    /// Returns the end of a sentence that states the problem.
    pub fn parse(given: &Json) -> Result<Self, DeclarationError> {
        let (max, delay) = match given {
            Json::Object(_) => {
                if let Some(problem) = unknown_keys(given, &RETRY_KEYS).first() {
                    return Err(format!("has a `retry` that {problem}").into());
                }
                (given.get("max"), given.get("delay"))
            }
            Json::Text(text) => {
                let (max, delay) = text.split_once(',').unzip();
                (Some(max.unwrap_or(text).into()), delay.map(Json::from))
            }
            other => (Some(other.clone()), None),
        };
        let max = max.map_or(Some(1), |max| whole(&max)).filter(|max| *max <= MAX_TRIES);
        let delay = delay.map_or(Some(Duration::ZERO), |delay| milliseconds(&delay, MAX_DELAY));
        match (max.and_then(|max| u32::try_from(max).ok()), delay) {
            (Some(max), Some(delay)) => Ok(Self { max, delay }),
            _ => Err(format!(
                "has {} as its `retry`: give 0 to {MAX_TRIES} retries and the delay before each in \
                 milliseconds, up to {}, such as \"3, 1000\" or #{{ max: 3, delay: 1000 }}",
                clipped(given),
                MAX_DELAY.as_millis()
            )
            .into()),
        }
    }
}

fn filter_ids(given: &Json) -> Result<Vec<String>, String> {
    let ids = words(given).filter(|ids| ids.iter().all(|id| is_id(id)));
    ids.ok_or_else(|| format!("has {} as its `filters`: give a list of the ids of filters", clipped(given)))
}

/// Reads words from a list or from a text with commas; duplicates are removed.
fn words(given: &Json) -> Option<Vec<String>> {
    let given = match given {
        Json::Text(text) => text.split(',').map(Json::from).collect(),
        Json::Array(list) => list.items(),
        _ => return None,
    };
    let mut words: Vec<String> = Vec::new();
    for word in &given {
        let word = word.as_str()?.trim();
        if !word.is_empty() && words.iter().all(|known| known != word) {
            words.push(word.to_owned());
        }
    }
    Some(words)
}

fn milliseconds(given: &Json, most: Duration) -> Option<Duration> {
    whole(given).map(Duration::from_millis).filter(|time| *time <= most)
}

fn whole(given: &Json) -> Option<u64> {
    match given {
        Json::Text(text) => text.trim().parse().ok(),
        number => u64::try_from(number.as_i64()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn declare(text: &str) -> Result<ToolDeclaration, DeclarationError> {
        ToolSpec::declare(&json(text), &["custom".into(), "utility".into()])
    }

    #[test]
    fn the_spec_contains_the_whole_declaration() {
        let tool = declare(
            r#"{"name": "get_weather", "description": "Get it.", "tag": "weather, outdoor",
                "parameters": {"city": "string"}, "timeout": 10000, "retry": "3, 1000",
                "filters": ["audit"], "metadata": {"cost": 1}, "handler": "whatever"}"#,
        )
        .unwrap();
        let spec = tool.spec;
        assert_eq!((spec.name.as_str(), spec.description.as_str()), ("get_weather", "Get it."));
        assert_eq!(spec.tags, ["weather", "outdoor"]);
        assert!(spec.parameters.schema().at_path("properties.city").as_object().is_some());
        assert_eq!(spec.timeout, Duration::from_secs(10));
        assert_eq!(spec.retry, Retry { max: 3, delay: Duration::from_secs(1) });
        assert_eq!(tool.filters, ["audit"]);
        assert_eq!(spec.metadata.to_string(), r#"{"cost":1}"#);
    }

    #[test]
    fn a_tool_without_tags_has_the_tags_of_its_module() {
        assert_eq!(declare(r#"{"name": "a"}"#).unwrap().spec.tags, ["custom", "utility"]);
        assert_eq!(declare(r#"{"name": "a", "tag": "special"}"#).unwrap().spec.tags, ["special"]);
        assert_eq!(declare(r#"{"name": "a", "tag": ["x", "x", "y"]}"#).unwrap().spec.tags, ["x", "y"]);
        assert!(declare(r#"{"name": "a", "tag": []}"#).unwrap().spec.tags.is_empty());
    }

    #[test]
    fn an_invalid_declaration_names_the_tool_the_error_and_the_fix() {
        for (declared, expected) in [
            ("[]", "a tool must be a map, such as #{ name"),
            ("{}", "a tool has no `name`: use 1 to 64 of a-z"),
            (r#"{"name": "get weather"}"#, r#"a tool has the name "get weather": use 1 to 64 of"#),
            (r#"{"name": "größe"}"#, r#"has the name "größe": use"#),
            (r#"{"name": 5}"#, "has the name 5: use"),
            (
                r#"{"name": "a", "timout": 5}"#,
                "tool `a` has the unknown key `timout`; did you mean `timeout`?",
            ),
            (r#"{"name": "a", "timeout": 0}"#, "has 0 as its `timeout`: give milliseconds, 1 to 3600000"),
            (r#"{"name": "a", "timeout": 3600001}"#, "give milliseconds, 1 to 3600000"),
            (r#"{"name": "a", "timeout": "soon"}"#, r#"has "soon" as its `timeout`"#),
            (r#"{"name": "a", "retry": 11}"#, "has 11 as its `retry`: give 0 to 10 retries"),
            (r#"{"name": "a", "retry": -1}"#, "has -1 as its `retry`"),
            (r#"{"name": "a", "retry": "3, 1000, 2"}"#, "as its `retry`"),
            (r#"{"name": "a", "retry": {"max": 3, "delay": 60001}}"#, "up to 60000"),
            (r#"{"name": "a", "retry": {"maxx": 3}}"#, "did you mean `max`?"),
            (r#"{"name": "a", "tag": 5}"#, "has 5 as its `tag`: give text"),
            (r#"{"name": "a", "tag": ["x", 5]}"#, r#"has ["x",5] as its `tag`"#),
            (r#"{"name": "a", "filters": ["No Id"]}"#, r#"has ["No Id"] as its `filters`: give a list"#),
            (r#"{"name": "a", "metadata": []}"#, "has [] as its `metadata`: give a map"),
            (r#"{"name": "a", "description": 1}"#, "has 1 as its `description`: give text"),
            (r#"{"name": "a", "parameters": {"x": "strng"}}"#, "tool `a` cannot work: parameter `x.type` is"),
        ] {
            let found = declare(declared).unwrap_err().messages().join("\n");
            assert!(found.contains(expected), "{declared}\n  found: {found}\n  want:  {expected}");
        }
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let wrong =
            r#"{"name": "a b", "nam": 1, "timeout": 0, "retry": 99, "parameters": {"x": "y", "z": 1}}"#;
        assert_eq!(declare(wrong).unwrap_err().0.len(), 6);
    }

    #[test]
    fn retries_have_three_notations() {
        let parse = |text: &str| Retry::parse(&json(text)).map(|retry| (retry.max, retry.delay.as_millis()));
        for (text, read) in [
            ("3", (3, 0)),
            ("0", (0, 0)),
            (r#""3""#, (3, 0)),
            (r#""3, 1000""#, (3, 1000)),
            (r#"" 3 ,1000 ""#, (3, 1000)),
            (r#"{"max": 3, "delay": 1000}"#, (3, 1000)),
            (r#"{"delay": 10}"#, (1, 10)),
        ] {
            assert_eq!(parse(text), Ok(read), "{text}");
        }
    }
}
