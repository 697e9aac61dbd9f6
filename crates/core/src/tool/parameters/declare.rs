//! The declared parameters of a tool: reading a script's map, listing every problem with it, and generating
//! JSON Schema 2020-12 that OpenAI and Anthropic accept.

use super::check::{self, ArgumentError, own_value};
use super::shape::{Kind, Parameter, Shape};
use crate::error::DeclarationError;
use crate::limits::{Limits, clipped, shortened, unknown_keys};
use crate::text::did_you_mean;
use std::sync::Arc;
use valvehouse_json::Json;

const ITEM_KEYS: [&str; 8] =
    ["type", "description", "enum", "items", "properties", "minimum", "maximum", "pattern"];
const KEYS: [&str; 10] = [
    "type",
    "description",
    "required",
    "default",
    "enum",
    "items",
    "properties",
    "minimum",
    "maximum",
    "pattern",
];
const EXAMPLE: &str = "#{ city: #{ type: \"string\", required: true } }";

/// The maximum number of parameters of a tool, or of properties of an object.
const MAX: usize = 128;
/// The maximum nesting depth of containers.
const DEEPEST: usize = 16;

/// Reads the map of a tool's parameters.
pub(super) fn parameters(declared: &Json) -> Result<Vec<Parameter>, Vec<String>> {
    if declared.as_object().is_none() {
        return Err(vec![format!(
            "parameters must be a map of names and declarations, such as {EXAMPLE}, not {}",
            clipped(declared)
        )]);
    }
    if declared.text("type").as_deref() == Some("object") && declared.get("properties").is_some() {
        return Err(vec![format!(
            "parameters are a JSON Schema: give only its `properties`, and write \
             `required` with each, such as {EXAMPLE}"
        )]);
    }
    let mut reader = Reader { problems: Vec::new() };
    let parameters = reader.members(declared, &Place { path: String::new(), depth: 0 });
    if reader.problems.is_empty() { Ok(parameters) } else { Err(reader.problems) }
}

/// A path in the declaration, such as `items.properties.x`.
struct Place {
    path: String,
    depth: usize,
}

impl Place {
    fn inside(&self, step: &str) -> Self {
        let path = if self.path.is_empty() { step.to_owned() } else { format!("{}.{step}", self.path) };
        Self { path, depth: self.depth + 1 }
    }
}

/// A reader of declarations. Each problem ends with its fix.
struct Reader {
    problems: Vec<String>,
}

impl Reader {
    fn problem(&mut self, path: &str, problem: &str) {
        self.problems.push(format!("parameter `{path}` {problem}"));
    }

    fn members(&mut self, declared: &Json, place: &Place) -> Vec<Parameter> {
        let entries = declared.entries();
        if entries.len() > MAX {
            let whose = if place.path.is_empty() { "a tool" } else { place.path.as_str() };
            self.problems.push(format!(
                "{whose} has {} parameters, more than the limit of {MAX}: group or drop some",
                entries.len()
            ));
            return Vec::new();
        }
        let mut read = Vec::with_capacity(entries.len());
        for (name, declared) in entries {
            if is_name(&name) {
                read.extend(self.parameter(&name, &declared, place));
            } else {
                self.problems.push(format!(
                    "invalid parameter name {}: use 1 to 64 of a-z, A-Z, 0-9, `_`, `-` and `.`",
                    clipped(&name.into())
                ));
            }
        }
        read
    }

    fn parameter(&mut self, name: &str, declared: &Json, around: &Place) -> Option<Parameter> {
        let place = around.inside(name);
        let declared = self.as_map(declared, &place)?;
        let required = self.truth(&declared, "required", &place);
        let shape = self.shape(&declared, &KEYS, &place)?;
        let required = required && shape.default.is_none();
        Some(Parameter { name: name.to_owned(), required, shape })
    }

    /// Returns a declaration as a map; the name of a type is converted to one.
    fn as_map(&mut self, declared: &Json, place: &Place) -> Option<Json> {
        match declared {
            Json::Object(_) => Some(declared.clone()),
            Json::Text(_) => Some(Json::from([("type", declared.clone())])),
            _ => {
                let given = clipped(declared);
                self.problem(
                    &place.path,
                    &format!("is {given}: give a map, such as #{{ type: \"string\" }}"),
                );
                None
            }
        }
    }

    fn shape(&mut self, declared: &Json, known: &[&str], place: &Place) -> Option<Shape> {
        if place.depth > DEEPEST {
            self.problem(&shortened(&place.path), &format!("nests deeper than {DEEPEST}: flatten it"));
            return None;
        }
        for problem in unknown_keys(declared, known) {
            self.problem(&place.path, &problem);
        }
        let description = self.text(declared, "description", place);
        let kind = self.kind(declared, place)?;
        let (before, mut problems) = (self.problems.len(), Vec::new());
        let limits = Limits::read(declared, kind.name(), &mut problems);
        for problem in problems {
            self.problem(&place.path, &problem);
        }
        let mut shape = Shape { kind, description, default: None, limits };
        shape.limits.allowed = self.allowed(&shape, declared, place);
        // A default is checked only against valid limits.
        if self.problems.len() == before {
            shape.default = self.default(&shape, declared, place);
        }
        Some(shape)
    }

    fn kind(&mut self, declared: &Json, place: &Place) -> Option<Kind> {
        let kind = match declared.get("type") {
            Some(given) => self.named(&given, place),
            None => self.inferred(declared, place),
        };
        for (key, type_name) in [("items", "array"), ("properties", "object")] {
            if let Some(kind) = &kind
                && kind.name() != type_name
                && declared.get(key).is_some()
            {
                let problem = format!(
                    "has `{key}`, but its type is {}: make it {type_name}, or drop them",
                    kind.name()
                );
                self.problem(&place.path, &problem);
            }
        }
        Some(match kind? {
            Kind::Array(_) => Kind::Array(self.items(declared, place)),
            Kind::Object(_) => Kind::Object(self.properties(declared, place)),
            plain => plain,
        })
    }

    fn named(&mut self, given: &Json, place: &Place) -> Option<Kind> {
        let kind = given.as_str().and_then(Kind::from_name);
        if kind.is_none() {
            let hint = match given.str_or_empty() {
                // These are Python's names of the types.
                "str" | "text" => "; did you mean `string`?".to_owned(),
                "list" | "tuple" | "set" => "; did you mean `array`?".to_owned(),
                "dict" | "map" => "; did you mean `object`?".to_owned(),
                word => did_you_mean(word, Kind::NAMES),
            };
            let (given, known) = (clipped(given), Kind::NAMES.join(", "));
            let problem = format!("is the unknown type {given}{hint}; known types: {known}");
            self.problem(&format!("{}.type", place.path), &problem);
        }
        kind
    }

    fn inferred(&mut self, declared: &Json, place: &Place) -> Option<Kind> {
        let allowed = declared.get("enum").and_then(|allowed| allowed.at(0));
        let shown = allowed.or_else(|| declared.get("default"));
        let kind = if declared.get("properties").is_some() {
            Some(Kind::Object(None))
        } else if declared.get("items").is_some() {
            Some(Kind::Array(None))
        } else {
            shown.as_ref().and_then(Kind::of)
        };
        if kind.is_none() {
            let known = Kind::NAMES.join(", ");
            self.problem(&place.path, &format!("has no `type`: give one of {known}"));
        }
        kind
    }

    fn items(&mut self, declared: &Json, place: &Place) -> Option<Box<Shape>> {
        let place = place.inside("items");
        let items = self.as_map(&declared.get("items")?, &place)?;
        self.shape(&items, &ITEM_KEYS, &place).map(Box::new)
    }

    fn properties(&mut self, declared: &Json, place: &Place) -> Option<Vec<Parameter>> {
        let given = declared.get("properties")?;
        let path = format!("{}.properties", place.path);
        if given.as_object().is_none() {
            let problem =
                format!("is {}: give a map of names and declarations, such as {EXAMPLE}", clipped(&given));
            self.problem(&path, &problem);
            return None;
        }
        Some(self.members(&given, &Place { path, depth: place.depth }))
    }

    fn allowed(&mut self, shape: &Shape, declared: &Json, place: &Place) -> Vec<Json> {
        let Some(given) = declared.get("enum") else { return Vec::new() };
        let path = format!("{}.enum", place.path);
        let instead = match &shape.kind {
            Kind::Array(_) => {
                Some("is for a whole array: put it with the items, items: #{ \"enum\": [...] }")
            }
            Kind::Object(_) => Some("is for a whole object: put it with its properties"),
            _ if given.items().is_empty() => Some("is not a list of values: give those that are allowed"),
            _ => None,
        };
        if let Some(problem) = instead {
            self.problem(&path, problem);
            return Vec::new();
        }
        let mut allowed = Vec::new();
        for (index, value) in given.items().iter().enumerate() {
            allowed.extend(self.own_value(shape, value, &format!("{path}[{index}]")));
        }
        allowed
    }

    fn default(&mut self, shape: &Shape, declared: &Json, place: &Place) -> Option<Json> {
        let default = declared.get("default").filter(|default| !default.is_null())?;
        self.own_value(shape, &default, &format!("{}.default", place.path))
    }

    fn own_value(&mut self, shape: &Shape, value: &Json, path: &str) -> Option<Json> {
        match own_value(shape, value, path) {
            Ok(value) => Some(value),
            Err(problems) => {
                self.problems.extend(problems.iter().map(|problem| format!("parameter {problem}")));
                None
            }
        }
    }

    fn text(&mut self, declared: &Json, key: &str, place: &Place) -> Option<String> {
        let given = declared.get(key)?;
        let text = given.as_str().map(str::to_owned);
        if text.is_none() {
            self.problem(&format!("{}.{key}", place.path), &format!("is {}: give text", clipped(&given)));
        }
        text
    }

    fn truth(&mut self, declared: &Json, key: &str, place: &Place) -> bool {
        let Some(given) = declared.get(key) else { return false };
        let truth = given.as_bool();
        if truth.is_none() {
            let hint = match given {
                Json::Array(_) => ", and write it with each property",
                _ => "",
            };
            let problem = format!("is {}: write true or false{hint}", clipped(&given));
            self.problem(&format!("{}.{key}", place.path), &problem);
        }
        truth.unwrap_or(false)
    }
}

/// Returns `true` if a name is valid for a parameter; Anthropic accepts no others.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

/// The parameters of a tool, in the order of declaration. Cheap to clone.
///
/// The default value accepts any arguments object unchanged. An empty declaration, in contrast, drops all
/// arguments.
#[derive(Debug, Clone, Default)]
pub struct Parameters(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// `None` if only the schema is known; the tool then checks its arguments itself.
    parameters: Option<Vec<Parameter>>,
    schema: Json,
}

impl Parameters {
    /// Reads a map of parameter names and declarations.
    ///
    /// A declaration is a map of `type` (string, integer, float, boolean, array, object), `description`,
    /// `required`, `default`, `enum`, `items`, `properties`, `minimum`, `maximum` and `pattern`, or only the
    /// name of a type. The type may be omitted if `properties`, `items`, `enum` or `default` implies it. A
    /// parameter with a default may always be omitted from a call, even a `required` one.
    ///
    /// # Errors
    /// Returns every problem with the declaration.
    pub fn declare(declared: &Json) -> Result<Self, DeclarationError> {
        let parameters = parameters(declared)?;
        let schema = object(Some(&parameters)).freeze();
        Ok(Self(Some(Arc::new(Inner { parameters: Some(parameters), schema }))))
    }

    /// Creates parameters from a JSON Schema. Any object is accepted unchanged: the tool itself checks it.
    pub fn of_schema(schema: Json) -> Self {
        Self(Some(Arc::new(Inner { parameters: None, schema: schema.freeze() })))
    }

    /// Returns the JSON Schema 2020-12 of the arguments object, read-only; copy it to change it.
    pub fn schema(&self) -> Json {
        match &self.0 {
            Some(declared) => declared.schema.clone(),
            None => object(Some(&[])).freeze(),
        }
    }

    /// Returns the number of patterns in the declaration.
    pub fn patterns(&self) -> usize {
        fn of_all(parameters: &[Parameter]) -> usize {
            parameters.iter().map(|parameter| of(&parameter.shape)).sum()
        }
        fn of(shape: &Shape) -> usize {
            let inside = match &shape.kind {
                Kind::Array(Some(items)) => of(items),
                Kind::Object(Some(properties)) => of_all(properties),
                _ => 0,
            };
            inside + usize::from(shape.limits.pattern.is_some())
        }
        self.declared().map_or(0, of_all)
    }

    /// Returns the arguments in their declared types; they share nothing with `args`.
    ///
    /// Undeclared arguments are dropped, missing ones get their default, and null counts as missing. Values are
    /// converted: `"3"` to 3 for a number, 3.0 to 3 for an integer, 3 to `"3"` for a string, `"true"`, 1,
    /// `"false"` and 0 to booleans, and JSON in a string to a list or an object.
    ///
    /// # Errors
    /// Returns every problem with the arguments.
    pub fn check(&self, args: &Json) -> Result<Json, ArgumentError> {
        check::arguments(self.declared(), args)
    }

    fn declared(&self) -> Option<&[Parameter]> {
        self.0.as_ref().and_then(|declared| declared.parameters.as_deref())
    }
}

/// Returns the schema of an object with these parameters.
///
/// Undeclared arguments are dropped rather than rejected, so the schema does not mention additional properties.
pub(super) fn object(parameters: Option<&[Parameter]>) -> Json {
    let schema = Json::object();
    put(&schema, "type", "object");
    put_properties(&schema, parameters);
    schema
}

fn put_properties(schema: &Json, parameters: Option<&[Parameter]>) {
    let Some(parameters) = parameters else { return };
    let named = parameters.iter().map(|parameter| (parameter.name.as_str().into(), value(&parameter.shape)));
    put(schema, "properties", named.collect::<valvehouse_json::Object>());
    let required = parameters.iter().filter(|parameter| parameter.required);
    let required: Vec<Json> = required.map(|parameter| parameter.name.as_str().into()).collect();
    if !required.is_empty() {
        put(schema, "required", required);
    }
}

fn value(shape: &Shape) -> Json {
    let schema = Json::object();
    put(&schema, "type", shape.kind.name());
    if let Some(description) = &shape.description {
        put(&schema, "description", description.as_str());
    }
    shape.limits.describe(&schema);
    match &shape.kind {
        // OpenAI rejects an array without `items`.
        Kind::Array(items) => put(&schema, "items", items.as_deref().map_or_else(Json::object, value)),
        Kind::Object(properties) => put_properties(&schema, properties.as_deref()),
        Kind::String | Kind::Integer | Kind::Number | Kind::Boolean => {}
    }
    if let Some(default) = &shape.default {
        put(&schema, "default", default.deep_clone());
    }
    schema
}

/// Sets a key of an object created here, which cannot fail.
fn put(object: &Json, key: &str, value: impl Into<Json>) {
    object.put(key, value);
}
