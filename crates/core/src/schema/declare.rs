//! The reader of declarations: a script's maps become shapes, or a list of all their problems.

use super::convert::Coercion;
use super::shape::{Property, ValueKind, ValueShape};
use crate::error::{DeclarationError, Misdeclaration};
use crate::limits::{Limits, clipped, shortened, unknown_keys};
use crate::text::did_you_mean;
use valvehouse_json::Json;

/// The maximum number of members of a map of declarations.
const MAX: usize = 128;
/// The maximum nesting depth of containers.
const DEEPEST: usize = 16;

/// The words of one sort of declaration.
pub(crate) struct Vocabulary {
    /// The noun in problems: `valve` or `parameter`.
    pub noun: &'static str,
    /// The key of the default.
    pub default: &'static str,
    /// The known keys.
    pub keys: &'static [&'static str],
    /// The known keys of the items of a list.
    pub item_keys: &'static [&'static str],
    /// The names of the types.
    pub types: &'static [&'static str],
    /// An example for messages.
    pub example: &'static str,
    /// The maximum number of patterns, because compiling them takes time.
    pub max_patterns: usize,
}

/// A path in the declaration, such as `items.properties.x`.
pub(crate) struct Place {
    pub path: String,
    depth: usize,
}

impl Place {
    /// The place above all names.
    pub(crate) const TOP: Self = Self { path: String::new(), depth: 0 };

    pub(crate) fn inside(&self, step: &str) -> Self {
        let path = if self.path.is_empty() { step.to_owned() } else { format!("{}.{step}", self.path) };
        Self { path, depth: self.depth + 1 }
    }
}

/// A reader of declarations. Each problem ends with its fix.
pub(crate) struct Reader {
    words: &'static Vocabulary,
    problems: Vec<Misdeclaration>,
    /// The number of patterns read so far.
    pub patterns: usize,
}

impl Reader {
    pub(crate) fn new(words: &'static Vocabulary) -> Self {
        Self { words, problems: Vec::new(), patterns: 0 }
    }

    /// Returns the declared values, or all problems.
    pub(crate) fn end<T>(self, read: T) -> Result<T, DeclarationError> {
        if self.problems.is_empty() { Ok(read) } else { Err(DeclarationError(self.problems)) }
    }

    pub(crate) fn problem(&mut self, path: &str, problem: impl Into<Misdeclaration>) {
        let words = format!("{} `{}`", self.words.noun, shortened(path));
        self.problems.push(problem.into().within(path, &words));
    }

    /// Reads a map of names and declarations.
    pub(crate) fn members(&mut self, declared: &Json, place: &Place) -> Vec<Property> {
        let entries = declared.entries();
        if entries.len() > MAX {
            let whose = if place.path.is_empty() { "a tool" } else { place.path.as_str() };
            let problem = format!(
                "{whose} has {} parameters, more than the limit of {MAX}: group or drop some",
                entries.len()
            );
            self.problems.push(problem.into());
            return Vec::new();
        }
        let mut read = Vec::with_capacity(entries.len());
        for (name, declared) in entries {
            if is_name(&name) {
                read.extend(self.member(&name, &declared, place));
            } else {
                let problem = format!(
                    "invalid parameter name {}: use 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and `.`",
                    clipped(&name.as_str().into())
                );
                self.problems.push(Misdeclaration::at(name, problem));
            }
        }
        read
    }

    fn member(&mut self, name: &str, declared: &Json, around: &Place) -> Option<Property> {
        let place = around.inside(name);
        let declared = self.as_map(declared, &place)?;
        let required = self.truth(&declared, "required", &place);
        let shape = self.shape(&declared, self.words.keys, &place)?;
        let required = required && shape.default.is_none();
        Some(Property { name: name.to_owned(), required, shape })
    }

    /// Returns a declaration as a map; the name of a type is converted to one.
    fn as_map(&mut self, declared: &Json, place: &Place) -> Option<Json> {
        match declared {
            Json::Object(_) => Some(declared.clone()),
            Json::Text(_) => Some(Json::from([("type", declared.clone())])),
            _ => {
                let given = clipped(declared);
                self.problem(&place.path, format!("is {given}: give a map, such as #{{ type: \"string\" }}"));
                None
            }
        }
    }

    /// Reads a declaration that may have these keys.
    pub(crate) fn shape(&mut self, declared: &Json, known: &[&str], place: &Place) -> Option<ValueShape> {
        if place.depth > DEEPEST {
            self.problem(&place.path, format!("nests deeper than {DEEPEST}: flatten it"));
            return None;
        }
        for problem in unknown_keys(declared, known) {
            self.problem(&place.path, problem);
        }
        self.patterns += usize::from(declared.get("pattern").is_some());
        if self.patterns > self.words.max_patterns {
            if self.patterns == self.words.max_patterns + 1 {
                let problem = format!("exceeds the limit of {} patterns: drop some", self.words.max_patterns);
                self.problem(&place.path, problem);
            }
            return None;
        }
        let title = self.text(declared, "title", place);
        let description = self.text(declared, "description", place);
        let kind = self.kind(declared, place)?;
        let (before, mut problems) = (self.problems.len(), Vec::new());
        let limits = Limits::read(declared, kind.name(), &mut problems);
        for problem in problems {
            self.problem(&place.path, problem);
        }
        let mut shape = ValueShape { title, description, limits, ..ValueShape::new(kind) };
        shape.limits.allowed = self.allowed(&shape, declared, place);
        // A default is checked only against valid limits.
        if self.problems.len() == before {
            shape.default = self.default(&shape, declared, place);
        }
        Some(shape)
    }

    fn kind(&mut self, declared: &Json, place: &Place) -> Option<ValueKind> {
        let kind = match declared.get("type") {
            Some(given) => self.named(&given, place)?,
            None => self.inferred(declared, place)?,
        };
        for (key, type_name) in [("items", "array"), ("properties", "object")] {
            if kind.name() != type_name && declared.get(key).is_some() {
                let problem = format!(
                    "has `{key}`, but its type is {}: make it {type_name}, or drop them",
                    kind.name()
                );
                self.problem(&place.path, problem);
            }
        }
        Some(match kind {
            ValueKind::Array(_) => ValueKind::Array(self.items(declared, place)),
            ValueKind::Object(_) => ValueKind::Object(self.properties(declared, place)),
            plain => plain,
        })
    }

    fn named(&mut self, given: &Json, place: &Place) -> Option<ValueKind> {
        let types = self.words.types;
        let kind = given.as_str().and_then(ValueKind::from_name);
        let kind = kind.filter(|kind| types.contains(&kind.name()));
        if kind.is_none() {
            let meant = match given.str_or_empty() {
                // These are Python's names of the types.
                "str" | "text" => "string",
                "list" | "tuple" | "set" => "array",
                "dict" | "map" => "object",
                word => word,
            };
            let hint = did_you_mean(meant, types.iter().copied().chain(["int", "float", "bool"]));
            let (given, known) = (clipped(given), types.join(", "));
            let problem = format!("is the unknown type {given}{hint}; known types: {known}");
            self.problem(&format!("{}.type", place.path), problem);
        }
        kind
    }

    fn inferred(&mut self, declared: &Json, place: &Place) -> Option<ValueKind> {
        let default = || declared.get(self.words.default).filter(|default| !default.is_null());
        let shown = || default().or_else(|| declared.get("enum")?.at(0));
        let kind = match ["properties", "items"].map(|key| declared.get(key).is_some()) {
            [true, _] => Some(ValueKind::Object(None)),
            [_, true] => Some(ValueKind::Array(None)),
            _ => shown().as_ref().and_then(ValueKind::of),
        };
        let kind = kind.filter(|kind| self.words.types.contains(&kind.name()));
        if kind.is_none() {
            let known = self.words.types.join(", ");
            self.problem(&place.path, format!("has no `type`: give one of {known}"));
        }
        kind
    }

    fn items(&mut self, declared: &Json, place: &Place) -> Option<Box<ValueShape>> {
        let place = place.inside("items");
        let items = self.as_map(&declared.get("items")?, &place)?;
        self.shape(&items, self.words.item_keys, &place).map(Box::new)
    }

    fn properties(&mut self, declared: &Json, place: &Place) -> Option<Vec<Property>> {
        let given = declared.get("properties")?;
        let path = format!("{}.properties", place.path);
        if given.as_object().is_none() {
            let (given, example) = (clipped(&given), self.words.example);
            let problem = format!("is {given}: give a map of names and declarations, such as {example}");
            self.problem(&path, problem);
            return None;
        }
        Some(self.members(&given, &Place { path, depth: place.depth }))
    }

    fn allowed(&mut self, shape: &ValueShape, declared: &Json, place: &Place) -> Vec<Json> {
        let Some(given) = declared.get("enum") else { return Vec::new() };
        let path = format!("{}.enum", place.path);
        let instead = match &shape.kind {
            ValueKind::Array(_) => {
                Some("is for a whole array: put it with the items, items: #{ \"enum\": [...] }")
            }
            ValueKind::Object(_) => Some("is for a whole object: put it with its properties"),
            _ if given.items().is_empty() => Some("is not a list of values: give those that are allowed"),
            _ => None,
        };
        if let Some(problem) = instead {
            self.problem(&path, problem.to_owned());
            return Vec::new();
        }
        let values = given.items();
        let values = values.iter().enumerate();
        values
            .filter_map(|(index, value)| self.own(shape, value, &format!("{path}[{index}]"), false))
            .collect()
    }

    fn default(&mut self, shape: &ValueShape, declared: &Json, place: &Place) -> Option<Json> {
        let key = self.words.default;
        let default = declared.get(key).filter(|default| !default.is_null())?;
        let is_secret = declared.get("secret").is_some_and(|secret| secret.as_bool() != Some(false));
        self.own(shape, &default, &format!("{}.{key}", place.path), is_secret)
    }

    /// Checks a value of the declaration itself.
    fn own(&mut self, shape: &ValueShape, value: &Json, path: &str, is_secret: bool) -> Option<Json> {
        let error = match shape.check(path, value, Coercion::Exact) {
            Ok(value) => return Some(value),
            Err(error) if is_secret => error.without_values(),
            Err(error) => error,
        };
        let problems = error.problems.iter();
        self.problems.extend(
            problems.map(|problem| Misdeclaration::at(path, format!("{} {problem}", self.words.noun))),
        );
        None
    }

    fn text(&mut self, declared: &Json, key: &str, place: &Place) -> Option<String> {
        let given = declared.get(key)?;
        let text = given.as_str().map(str::to_owned);
        if text.is_none() {
            self.problem(&format!("{}.{key}", place.path), format!("is {}: give text", clipped(&given)));
        }
        text
    }

    /// Reads a key whose value is `true` or `false`; a missing one means `false`.
    pub(crate) fn truth(&mut self, declared: &Json, key: &str, place: &Place) -> bool {
        let Some(given) = declared.get(key) else { return false };
        let truth = given.as_bool();
        if truth.is_none() {
            let hint = match given {
                Json::Array(_) => ", and write it with each property",
                _ => "",
            };
            let problem = format!("is {}: write true or false{hint}", clipped(&given));
            self.problem(&format!("{}.{key}", place.path), problem);
        }
        truth.unwrap_or(false)
    }
}

/// Returns `true` if a name is valid for a parameter; Anthropic accepts no others.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}
