//! Conversion of a script's valve declarations to a schema, or to a list of all their problems.

use super::check::{Coercion, fit};
use super::field::{Field, Items, Rules, ValveKind};
use super::field::{MASK, ValveSchema};
use super::redact::MIN_SECRET;
use super::redact::is_too_short;
use crate::error::DeclarationError;
use crate::limits::{BrokenRule, Limits, clipped, unknown_keys};
use crate::text::did_you_mean;
use valvehouse_json::Json;

const KEYS: [&str; 11] = [
    "value",
    "type",
    "title",
    "description",
    "minimum",
    "maximum",
    "enum",
    "pattern",
    "items",
    "secret",
    "multiline",
];
const ITEM_KEYS: [&str; 5] = ["type", "minimum", "maximum", "enum", "pattern"];
const OPTIONAL_FORM: &str = "#{ value: (), type: \"string\" }";

/// The maximum number of valves with a pattern, because compiling patterns takes time.
const MAX_PATTERNS: usize = 32;

impl ValveSchema {
    /// Reads the literal map of a script.
    ///
    /// # Errors
    /// Returns every problem with the map.
    pub fn declare(literal: &Json) -> Result<Self, DeclarationError> {
        Ok(Self { fields: fields(literal)? })
    }
}

fn fields(literal: &Json) -> Result<Vec<Field>, Vec<String>> {
    let Some(object) = literal.as_object() else {
        return Err(vec![format!(
            "valves must be a map of names and defaults, such as #{{ max_turns: 4 }}, not {}",
            literal.kind()
        )]);
    };
    let (mut fields, mut problems, mut patterns) = (Vec::new(), Vec::new(), 0);
    for (name, literal) in object.entries() {
        patterns += usize::from(
            literal.get("pattern").is_some() || literal.at_path("items.pattern").as_str().is_some(),
        );
        if patterns > MAX_PATTERNS {
            problems
                .push(format!("valve `{name}` exceeds the limit of {MAX_PATTERNS} valves with a `pattern`"));
            break;
        }
        let mut declaration = Declaration { name: &name, of: literal.deep_clone(), problems: Vec::new() };
        let field = declaration.field();
        problems.extend(declaration.problems.iter().map(|problem| format!("valve `{name}` {problem}")));
        fields.extend(field);
    }
    if problems.is_empty() { Ok(fields) } else { Err(problems) }
}

/// An entry of the map that is being read. Each problem ends with its fix.
struct Declaration<'a> {
    name: &'a str,
    of: Json,
    problems: Vec<String>,
}

impl Declaration<'_> {
    fn field(&mut self) -> Option<Field> {
        let bare = self.of.as_object().is_none();
        if bare {
            let map = Json::object();
            map.edit("value", std::mem::take(&mut self.of));
            self.of = map;
        } else {
            self.problems.extend(unknown_keys(&self.of, &KEYS));
        }
        let Some(default) = self.of.get("value") else {
            self.problem(&format!(
                "has no `value`: give its default, or write {OPTIONAL_FORM}; known keys: {}",
                KEYS.join(", ")
            ));
            return None;
        };
        let kind = self.kind(&default)?;
        let rules = self.rules(kind, &self.of.clone());
        let rules = Rules { items: self.items(kind, &default), ..rules };
        let optional = default.is_null();
        let field = Field {
            name: self.name.to_owned(),
            kind,
            title: self.text("title"),
            description: self.text("description"),
            default: if optional { Json::Null } else { self.fitting_default(kind, &rules, &default) },
            optional,
            secret: self.truth("secret"),
            multiline: self.truth("multiline"),
            rules,
        };
        if field.multiline && kind != ValveKind::String {
            self.problem("is `multiline`, which is for text only: drop `multiline`");
        }
        if field.secret && field.kind == ValveKind::Boolean {
            self.problem("is `secret`, which is for text, numbers and lists: drop `secret`");
        } else if field.secret && is_too_short(&field.default) {
            self.problem(&format!(
                "is a secret whose default is too short to be redacted: leave it empty, or give it at least \
                 {MIN_SECRET} characters"
            ));
        }
        Some(field)
    }

    fn problem(&mut self, problem: &str) {
        self.problems.push(problem.to_owned());
    }

    fn kind(&mut self, default: &Json) -> Option<ValveKind> {
        match self.of.get("type") {
            Some(given) => self.named_kind(&given),
            None => {
                let kind = ValveKind::of(default);
                if kind.is_none() {
                    self.problem(&match default {
                        Json::Null => format!("has no type: write {OPTIONAL_FORM}"),
                        _ => "has a map as its value: declare a valve for each of its keys".to_owned(),
                    });
                }
                kind
            }
        }
    }

    fn named_kind(&mut self, given: &Json) -> Option<ValveKind> {
        let kind = given.as_str().and_then(ValveKind::from_name);
        if kind.is_none() {
            let hint = did_you_mean(given.str_or_empty(), ValveKind::NAMES);
            let (given, known) = (clipped(given), ValveKind::NAMES.join(", "));
            self.problem(&format!("has the unknown type {given}{hint}; known types: {known}"));
        }
        kind
    }

    fn rules(&mut self, kind: ValveKind, map: &Json) -> Rules {
        let limits = Limits::read(map, kind.name(), &mut self.problems);
        let mut rules = Rules { limits, items: None };
        rules.limits.allowed = self.allowed(kind, &rules, map);
        rules
    }

    fn allowed(&mut self, kind: ValveKind, rules: &Rules, map: &Json) -> Vec<Json> {
        let Some(given) = map.get("enum") else { return Vec::new() };
        if kind == ValveKind::Array {
            self.problem("has an `enum` for a whole list: put it with the items, items: #{ enum: [...] }");
            return Vec::new();
        }
        if given.items().is_empty() {
            self.problem(&format!(
                "has {} as its `enum`: give a list of the values allowed",
                clipped(&given)
            ));
        }
        let mut allowed = Vec::new();
        for value in given.items() {
            match strictly(kind, rules, &value) {
                Ok(value) => allowed.push(value),
                Err((_, asks)) => {
                    self.problem(&format!("allows {} in its `enum`, but {asks}", clipped(&value)));
                }
            }
        }
        allowed
    }

    /// Returns the type of the items, declared or inferred from the default.
    fn items(&mut self, kind: ValveKind, default: &Json) -> Option<Items> {
        let Some(given) = self.of.get("items") else {
            return if kind == ValveKind::Array { items_of(default) } else { None };
        };
        if kind != ValveKind::Array {
            self.problem(&format!(
                "has `items`, which is for lists, but its type is {}: drop it",
                kind.name()
            ));
            return None;
        }
        let map = match &given {
            Json::Object(_) => given.clone(),
            name => {
                let map = Json::object();
                map.edit("type", name.clone());
                map
            }
        };
        self.problems.extend(unknown_keys(&map, &ITEM_KEYS));
        let named = map.get("type").or_else(|| Some(ValveKind::of(&map.get("enum")?.at(0)?)?.name().into()));
        let kind = match named {
            Some(name) => self.named_kind(&name)?,
            None => {
                self.problem("has `items` without a type: write items: \"string\"");
                return None;
            }
        };
        let rules = Box::new(self.rules(kind, &map));
        Some(Items { kind, rules })
    }

    fn fitting_default(&mut self, kind: ValveKind, rules: &Rules, default: &Json) -> Json {
        strictly(kind, rules, default).unwrap_or_else(|(_, asks)| {
            let shown = if self.truth("secret") { MASK.to_owned() } else { clipped(default) };
            self.problem(&format!("{asks}, but its default is {shown}: change one of them"));
            Json::Null
        })
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let given = self.of.get(key)?;
        let text = given.as_str().map(str::to_owned);
        if text.is_none() {
            self.problem(&format!("has {} as its `{key}`: give text", clipped(&given)));
        }
        text
    }

    fn truth(&mut self, key: &str) -> bool {
        let Some(given) = self.of.get(key) else { return false };
        let truth = given.as_bool();
        if truth.is_none() {
            let problem = format!("has {} as its `{key}`: write true or false", clipped(&given));
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        truth.unwrap_or(true)
    }
}

/// Checks a default without conversion, except from integers to numbers.
fn strictly(kind: ValveKind, rules: &Rules, value: &Json) -> Result<Json, BrokenRule> {
    fit(kind, rules, value, Coercion::Exact)
}

/// Returns the common type of the items of a default list, if there is one.
fn items_of(default: &Json) -> Option<Items> {
    let kinds: Vec<Option<ValveKind>> = default.items().iter().map(ValveKind::of).collect();
    let kind = (*kinds.first()?)?;
    let uniform = kind != ValveKind::Array && kinds.iter().all(|other| *other == Some(kind));
    uniform.then(|| Items { kind, rules: Box::default() })
}
