//! Checking and coercing arguments: what fits comes back in the declared types.
//!
//! Types are not shared with valves, whose values come from forms and configuration: there `on` is
//! true, `a, b` a list and every number a float. A model writes JSON, and sometimes writes it twice.

use super::shape::{Kind, Parameter, Shape};
use crate::limits::clipped;
use crate::words::nearest;
use std::fmt;
use valvehouse_json::{Json, Number, Object};

/// Problems that one refusal tells; a model mends these first.
const TOLD: usize = 8;

/// The reasons for which a tool was not run: everything that is wrong with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError {
    /// A sentence each: path, rule and value.
    pub problems: Vec<String>,
    /// Problems beyond those told.
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

/// The arguments of a call; any object where nothing is declared.
pub(super) fn arguments(declared: Option<&[Parameter]>, args: &Json) -> Result<Json, ArgumentError> {
    let mut check = Check::new(Spelling::Loose);
    let fitting = match (args, declared) {
        (Json::Object(given), Some(parameters)) => check.members(parameters, given, &Path::Start("")),
        (Json::Object(_), None) => args.copy(),
        _ => {
            let text = format!("the arguments must be an object of names and values, not {}", args.kind());
            return Err(ArgumentError { problems: vec![text], more: 0 });
        }
    };
    check.end(fitting)
}

/// A value that an author wrote down, which must be of its type without coercion.
pub(super) fn own_value(shape: &Shape, value: &Json, path: &str) -> Result<Json, Vec<String>> {
    let mut check = Check::new(Spelling::Exact);
    let fitting = Json::from(check.value(shape, value, &Path::Start(path)));
    check.end(fitting).map_err(|error| error.problems)
}

/// The closeness with which a value must look like its type.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    /// As models write: other spellings of the same value will do, and what is not declared is dropped.
    Loose,
    /// As authors must.
    Exact,
}

/// The way to a value: `items[2].unit`.
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
        if self.problems.len() < TOLD {
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
                    shape.default.as_ref().map(Json::copy)
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

    /// The value in its type and within its limits; nothing, after telling why, when it does not fit.
    fn value(&mut self, shape: &Shape, given: &Json, path: &Path<'_>) -> Option<Json> {
        let Some(read) = self.read(&shape.kind, given) else {
            self.tell(path, || format!("must be {}, not {}", shape.kind.in_words(), clipped(given)));
            return None;
        };
        let fitting = match (&shape.kind, &read) {
            (Kind::Array(Some(items)), Json::Array(list)) => self.items(items, &list.items(), path),
            (Kind::Object(Some(properties)), Json::Object(object)) => self.members(properties, object, path),
            _ => read.copy(),
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

    /// The value in its type; what is in a container is not looked at.
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
                // Twice written JSON, once unwrapped, must be of the type itself.
                let text = text.trim();
                let exact = Check::new(Spelling::Exact);
                exact.read(kind, &Json::parse(text.as_bytes()).ok().or_else(|| truth(text))?)
            }
            _ => None,
        }
    }
}

/// Python's way to spell a truth, which models fall into.
fn truth(text: &str) -> Option<Json> {
    match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true.into()),
        _ if text.eq_ignore_ascii_case("false") => Some(false.into()),
        _ => None,
    }
}

/// A whole number, spelt as one. Those of more than 64 bits stay as they are; a float so large that
/// it has lost its last digits is none.
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

/// The name under which a missing argument probably came.
fn misspelt(name: &str, declared: &[Parameter], given: &Object) -> String {
    let others = undeclared(declared, given);
    nearest(name, others.iter().map(|key| key.as_str()))
        .map_or_else(String::new, |other| format!(" (`{other}` is not known)"))
}
