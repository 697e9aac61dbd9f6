//! Checks arguments and converts them to their declared types.
//!
//! The rules differ from those of valves, whose values come from forms and configuration: there, `on` is true,
//! `a, b` is a list and every number is a float. A model sends JSON, sometimes encoded twice.

use super::shape::{Kind, Parameter, Shape};
use crate::limits::clipped;
use crate::text::nearest;
use std::fmt;
use valvehouse_json::{Json, Number, Object};

/// The maximum number of problems in one message.
const MAX_REPORTED: usize = 8;

/// The problems with the arguments of a tool call, because of which the tool was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError {
    /// The problems, one sentence each: path, rule and value.
    pub problems: Vec<String>,
    /// The number of further problems.
    pub more: usize,
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("; "))?;
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for ArgumentError {}

/// Checks the arguments of a call; without a declaration, any object is valid.
pub(super) fn arguments(declared: Option<&[Parameter]>, args: &Json) -> Result<Json, ArgumentError> {
    let mut check = Check::new(Spelling::Loose);
    let fitting = match (args, declared) {
        (Json::Object(given), Some(parameters)) => check.members(parameters, given, &Path::Start("")),
        (Json::Object(_), None) => args.deep_clone(),
        _ => {
            let text = format!("the arguments must be an object of names and values, not {}", args.kind());
            return Err(ArgumentError { problems: vec![text], more: 0 });
        }
    };
    check.end(fitting)
}

/// Checks a value in a declaration, which must have its type without conversion.
pub(super) fn own_value(shape: &Shape, value: &Json, path: &str) -> Result<Json, Vec<String>> {
    let mut check = Check::new(Spelling::Exact);
    let fitting = Json::from(check.value(shape, value, &Path::Start(path)));
    check.end(fitting).map_err(|error| error.problems)
}

/// The strictness of a type check.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    /// For models: other spellings of a value are converted, and undeclared keys are dropped.
    Loose,
    /// For authors: the value must have its declared type.
    Exact,
}

/// The path of a value, such as `items[2].unit`.
enum Path<'a> {
    Start(&'a str),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Start(name) | Path::Key(Path::Start(""), name) => f.write_str(name),
            Path::Key(above, name) => write!(f, "{above}.{name}"),
            Path::Index(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

struct Check {
    spelling: Spelling,
    problems: Vec<String>,
    more: usize,
}

impl Check {
    fn new(spelling: Spelling) -> Self {
        Self { spelling, problems: Vec::new(), more: 0 }
    }

    fn end(self, fitting: Json) -> Result<Json, ArgumentError> {
        if self.problems.is_empty() {
            return Ok(fitting);
        }
        Err(ArgumentError { problems: self.problems, more: self.more })
    }

    fn tell(&mut self, path: &Path<'_>, problem: impl FnOnce() -> String) {
        if self.problems.len() < MAX_REPORTED {
            self.problems.push(format!("`{path}` {}", problem()));
        } else {
            self.more += 1;
        }
    }

    fn members(&mut self, declared: &[Parameter], given: &Object, path: &Path<'_>) -> Json {
        let mut fitting = Vec::with_capacity(declared.len());
        for Parameter { name, required, shape } in declared {
            let here = Path::Key(path, name);
            let value = match given.get(name).filter(|value| !value.is_null()) {
                Some(value) => self.value(shape, &value, &here),
                None => {
                    if *required {
                        self.tell(&here, || format!("is required{}", misspelt(name, declared, given)));
                    }
                    shape.default.as_ref().map(Json::deep_clone)
                }
            };
            fitting.extend(value.map(|value| (name.as_str().into(), value)));
        }
        if self.spelling == Spelling::Exact {
            for key in undeclared(declared, given) {
                self.tell(&Path::Key(path, &key), || "is not declared".to_owned());
            }
        }
        fitting.into_iter().collect::<Object>().into()
    }

    /// Returns the value in its type and within its limits. Records a problem and returns `None` if it does not
    /// fit.
    fn value(&mut self, shape: &Shape, given: &Json, path: &Path<'_>) -> Option<Json> {
        let Some(read) = self.read(&shape.kind, given) else {
            self.tell(path, || format!("must be {}, not {}", shape.kind.in_words(), clipped(given)));
            return None;
        };
        let fitting = match (&shape.kind, &read) {
            (Kind::Array(Some(items)), Json::Array(list)) => self.items(items, &list.items(), path),
            (Kind::Object(Some(properties)), Json::Object(object)) => self.members(properties, object, path),
            _ => read.deep_clone(),
        };
        if let Err((_, asks)) = shape.limits.check(&fitting) {
            self.tell(path, || format!("{asks}, not {}", clipped(given)));
            return None;
        }
        Some(fitting)
    }

    fn items(&mut self, shape: &Shape, given: &[Json], path: &Path<'_>) -> Json {
        let mut fitting = Vec::with_capacity(given.len());
        for (index, item) in given.iter().enumerate() {
            fitting.extend(self.value(shape, item, &Path::Index(path, index)));
        }
        fitting.into()
    }

    /// Returns the value in its type, without checking the elements of a container.
    fn read(&self, kind: &Kind, given: &Json) -> Option<Json> {
        match (kind, given) {
            (Kind::String, Json::Text(_))
            | (Kind::Boolean, Json::Bool(_))
            | (Kind::Array(_), Json::Array(_))
            | (Kind::Object(_), Json::Object(_)) => Some(given.clone()),
            (Kind::Integer, Json::Number(number)) => whole(number),
            (Kind::Number, Json::Number(number)) => number.as_f64().is_finite().then(|| given.clone()),
            _ if self.spelling == Spelling::Exact => None,
            (Kind::String, Json::Number(_) | Json::Bool(_)) => Some(given.to_string().into()),
            (Kind::Boolean, Json::Number(number)) => match number.as_i64()? {
                0 => Some(false.into()),
                1 => Some(true.into()),
                _ => None,
            },
            (_, Json::Text(text)) => {
                // JSON in a string is decoded once; the result must have the type itself.
                let text = text.trim();
                let exact = Check::new(Spelling::Exact);
                exact.read(kind, &Json::parse(text.as_bytes()).ok().or_else(|| truth(text))?)
            }
            _ => None,
        }
    }
}

/// Reads a boolean in Python's spelling, which some models use.
fn truth(text: &str) -> Option<Json> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true.into()),
        _ if text.eq_ignore_ascii_case("false") => Some(false.into()),
        _ => None,
    }
}

/// Converts a number to an integer. Integers of more than 64 bits are preserved; a float too large to be exact
/// is rejected.
fn whole(number: &Number) -> Option<Json> {
    match number.as_i64() {
        Some(value) => Some(value.into()),
        None => (number.is_integer() && number.as_f64().is_finite()).then(|| Json::Number(number.clone())),
    }
}

fn undeclared(declared: &[Parameter], given: &Object) -> Vec<compact_str::CompactString> {
    let mut keys = given.keys();
    keys.retain(|key| declared.iter().all(|parameter| parameter.name != key.as_str()));
    keys
}

/// Returns a hint at the undeclared key that was probably meant for a missing argument.
fn misspelt(name: &str, declared: &[Parameter], given: &Object) -> String {
    let others = undeclared(declared, given);
    nearest(name, others.iter().map(|key| key.as_str()))
        .map_or_else(String::new, |other| format!(" (`{other}` is not known)"))
}
