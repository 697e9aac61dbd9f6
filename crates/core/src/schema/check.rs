//! Checks of values against their declared shapes.

use super::convert::{Coercion, convert};
use super::shape::{Property, ValueKind, ValueShape};
use crate::limits::clipped;
use crate::text::{did_you_mean, nearest, optional};
use std::fmt;
use valvehouse_json::{Json, Object};

/// The maximum number of problems in one error.
const MAX_REPORTED: usize = 8;

/// A rule that a value violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the value, such as `items[2].unit`; "" for the arguments as a whole.
    pub path: String,
    /// The violated JSON Schema keyword: `type`, `minimum`, `enum` …
    pub rule: &'static str,
    /// The requirement, such as `must be 5 or more`.
    pub requirement: String,
    /// The invalid value as text, truncated if it is long; `None` for a secret, and for a
    /// missing or undeclared value.
    pub given: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}` ", self.path)?;
        }
        f.write_str(&self.requirement)?;
        self.given.as_ref().map_or(Ok(()), |given| write!(f, ", not {given}"))
    }
}

/// The problems with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckError {
    /// The violated rules, at most eight.
    pub problems: Vec<Violation>,
    /// The number of further violations.
    pub more: usize,
}

impl CheckError {
    /// Removes the invalid values, which are secrets.
    #[must_use]
    pub(crate) fn without_values(mut self) -> Self {
        self.problems.iter_mut().for_each(|problem| problem.given = None);
        self
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "; " } else { "" })?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for CheckError {}

impl ValueShape {
    /// Returns the value in its type and within its limits; it shares nothing with `value`. `path` names the
    /// value in problems.
    ///
    /// # Errors
    /// Returns every problem with the value.
    pub fn check(&self, path: &str, value: &Json, coercion: Coercion) -> Result<Json, CheckError> {
        let mut check = Check { coercion, problems: Vec::new(), more: 0 };
        let fitting = Json::from(check.value(self, value, &Path::Start(path)));
        check.end(fitting)
    }
}

/// Checks the properties of an object.
pub(crate) fn properties(
    declared: &[Property],
    given: &Object,
    coercion: Coercion,
) -> Result<Json, CheckError> {
    let mut check = Check { coercion, problems: Vec::new(), more: 0 };
    let fitting = check.members(declared, given, &Path::Start(""));
    check.end(fitting)
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
    coercion: Coercion,
    problems: Vec<Violation>,
    more: usize,
}

impl Check {
    fn end(self, fitting: Json) -> Result<Json, CheckError> {
        if self.problems.is_empty() {
            return Ok(fitting);
        }
        Err(CheckError { problems: self.problems, more: self.more })
    }

    /// Records a problem. Its text is built only if it is reported.
    fn report(
        &mut self,
        path: &Path<'_>,
        rule: &'static str,
        given: Option<&Json>,
        requirement: impl FnOnce() -> String,
    ) {
        if self.problems.len() < MAX_REPORTED {
            let (path, given) = (path.to_string(), given.map(clipped));
            self.problems.push(Violation { path, rule, requirement: requirement(), given });
        } else {
            self.more += 1;
        }
    }

    fn members(&mut self, declared: &[Property], given: &Object, path: &Path<'_>) -> Json {
        let mut fitting = Vec::with_capacity(declared.len());
        for Property { name, required, shape } in declared {
            let here = Path::Key(path, name);
            let value = match given.get(name).filter(|value| !value.is_null()) {
                Some(value) => self.value(shape, &value, &here),
                None => {
                    if *required {
                        self.report(&here, "required", None, || {
                            format!("is required{}", misspelt(name, declared, given))
                        });
                    }
                    shape.default.as_ref().map(Json::deep_clone)
                }
            };
            fitting.extend(value.map(|value| (name.as_str().into(), value)));
        }
        if self.coercion != Coercion::Model {
            for key in undeclared(declared, given) {
                let names = declared.iter().map(|property| property.name.as_str());
                self.report(&Path::Key(path, &key), "additionalProperties", None, || {
                    format!("is not declared{}", did_you_mean(&key, names))
                });
            }
        }
        fitting.into_iter().collect::<Object>().into()
    }

    /// Returns the value in its type and within its limits. Records a problem and returns `None` if it does not
    /// fit.
    fn value(&mut self, shape: &ValueShape, given: &Json, path: &Path<'_>) -> Option<Json> {
        let Some(converted) = convert(&shape.kind, given, self.coercion) else {
            self.report(path, "type", Some(given), || format!("must be {}", shape.kind.in_words()));
            return None;
        };
        let fitting = match (&shape.kind, &converted) {
            (ValueKind::Array(Some(items)), Json::Array(list)) => self.items(items, &list.items(), path),
            (ValueKind::Object(Some(properties)), Json::Object(object)) => {
                self.members(properties, object, path)
            }
            _ => converted.deep_clone(),
        };
        if let Err((rule, requirement)) = shape.limits.check(&fitting) {
            self.report(path, rule, Some(given), || requirement);
            return None;
        }
        Some(fitting)
    }

    fn items(&mut self, shape: &ValueShape, given: &[Json], path: &Path<'_>) -> Json {
        let mut fitting = Vec::with_capacity(given.len());
        for (index, item) in given.iter().enumerate() {
            fitting.extend(self.value(shape, item, &Path::Index(path, index)));
        }
        fitting.into()
    }
}

fn undeclared(declared: &[Property], given: &Object) -> Vec<compact_str::CompactString> {
    let mut keys = given.keys();
    keys.retain(|key| declared.iter().all(|property| property.name != key.as_str()));
    keys
}

/// Returns a hint at the undeclared key that was probably meant for a missing property.
fn misspelt(name: &str, declared: &[Property], given: &Object) -> String {
    let others = undeclared(declared, given);
    optional(nearest(name, others.iter().map(|key| key.as_str())), |other| {
        format!(" (`{other}` is not known)")
    })
}
