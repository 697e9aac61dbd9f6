//! Settings: translates a class of fields into `const Valves`.

use crate::kinds::Type;
use crate::names;
use crate::python::{Arg, Class, Expr, ExprKind, StmtKind};
use crate::schema::Schema;
use crate::value::{Value, Values};

/// A setting.
#[derive(Debug, Clone)]
pub(crate) struct Valve {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    /// The default; absent if it can be computed only when the plugin starts.
    pub(crate) value: Option<Value>,
    description: Option<String>,
    pub(crate) minimum: Option<String>,
    maximum: Option<String>,
    pattern: Option<String>,
    /// The first and last lines of the declaration.
    pub(crate) lines: (usize, usize),
}

impl Valve {
    /// Returns a secret setting that replaces an environment variable.
    pub(crate) fn of_environment(name: &str, variable: &str) -> Self {
        Self {
            name: name.to_owned(),
            schema: Schema { kind: Some("string"), is_secret: true, is_optional: true, ..Schema::default() },
            value: Some(Value::None),
            description: Some(format!("Replaces the environment variable {variable}")),
            minimum: None,
            maximum: None,
            pattern: None,
            lines: (0, 0),
        }
    }

    /// Returns the settings that a class declares.
    pub(crate) fn all(class: &Class, known: &Values) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for stmt in &class.body {
            let (target, annotation, value) = match &stmt.kind {
                StmtKind::Annotated { target, annotation, value } => {
                    (target, Some(annotation), value.as_ref())
                }
                StmtKind::Assign { targets, value } => match targets.as_slice() {
                    [target] => (target, None, Some(value)),
                    _ => continue,
                },
                _ => continue,
            };
            let Some(name) = target.as_name().filter(|name| !matches!(*name, "model_config" | "Config"))
            else {
                continue;
            };
            let mut valve = Self::declared(name, annotation, value, known);
            valve.lines = (stmt.line, stmt.end_line);
            all.retain(|other| other.name != name);
            all.push(valve);
        }
        all
    }

    fn declared(name: &str, annotation: Option<&Expr>, value: Option<&Expr>, known: &Values) -> Self {
        let mut valve = Self {
            name: name.to_owned(),
            schema: annotation.map(|annotation| Schema::of(annotation, known)).unwrap_or_default(),
            value: Some(Value::None),
            description: None,
            minimum: None,
            maximum: None,
            pattern: None,
            lines: (0, 0),
        };
        // `Annotated[int, Field(ge=1)]` declares the same as a default of `Field(ge=1)`.
        if let Some(ExprKind::Index(_, inside)) = annotation.map(|annotation| &annotation.kind)
            && let ExprKind::Tuple(all) = &inside.kind
        {
            all.iter().filter_map(field).for_each(|args| valve.field(args, known));
        }
        if let Some(value) = value {
            match field(value) {
                Some(args) => valve.field(args, known),
                None => valve.value = Value::of(value, known),
            }
        }
        if valve.is_secret_by_name() {
            valve.schema.is_secret = true;
        }
        valve
    }

    fn field(&mut self, args: &[Arg], known: &Values) {
        let of = |value: &Expr| Value::of(value, known);
        let number = |value: &Expr| match of(value)? {
            Value::Int(value) => Some(value.to_string()),
            Value::Float(value) => Some(value),
            _ => None,
        };
        for (at, arg) in args.iter().enumerate() {
            let value = &arg.value;
            match arg.name.as_deref() {
                None if at == 0 && !matches!(value.kind, ExprKind::Ellipsis) => self.value = of(value),
                Some("default") if !matches!(value.kind, ExprKind::Ellipsis) => self.value = of(value),
                Some("default_factory") => {
                    self.value = match &value.kind {
                        ExprKind::Name(name) if name == "list" || name == "set" => {
                            Some(Value::List(Vec::new()))
                        }
                        ExprKind::Name(name) if name == "dict" => Some(Value::Map(Vec::new())),
                        ExprKind::Name(name) if name == "str" => Some(Value::Text(String::new())),
                        ExprKind::Lambda(_, body) => of(body),
                        _ => None,
                    };
                }
                Some("description") => {
                    if let Some(Value::Text(text)) = of(value) {
                        self.description = Some(text);
                    }
                }
                Some("ge") => self.minimum = number(value),
                Some("le") => self.maximum = number(value),
                Some("gt") => self.minimum = number(value).map(|value| above(&value, 1)),
                Some("lt") => self.maximum = number(value).map(|value| above(&value, -1)),
                Some("pattern" | "regex") => self.pattern = value.as_text().map(str::to_owned),
                Some("enum") => {
                    if let Some(Value::List(choices)) = of(value) {
                        self.schema.choices = choices;
                    }
                }
                Some("json_schema_extra" | "extra") => {
                    if let Some(Value::Map(extra)) = of(value) {
                        self.extra(&extra);
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads the form options of the setting in Open WebUI.
    fn extra(&mut self, extra: &[(String, Value)]) {
        for (key, value) in extra {
            match (key.as_str(), value) {
                ("enum", Value::List(choices)) => self.schema.choices.clone_from(choices),
                ("input", Value::Map(input)) => {
                    for (key, value) in input {
                        match (key.as_str(), value) {
                            ("type", Value::Text(kind)) if kind == "password" => self.schema.is_secret = true,
                            ("options", Value::List(options)) if self.schema.kind != Some("array") => {
                                self.schema.choices = options
                                    .iter()
                                    .map(|option| match option {
                                        Value::Map(entries) => entries
                                            .iter()
                                            .find(|(key, _)| key == "value")
                                            .map_or(Value::None, |(_, value)| value.clone()),
                                        other => other.clone(),
                                    })
                                    .collect();
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn is_secret_by_name(&self) -> bool {
        let name = self.name.to_lowercase();
        let is_key = ["api_key", "apikey", "secret", "password", "access_token", "auth_token", "api_token"]
            .iter()
            .any(|word| name.ends_with(word));
        is_key
            && matches!(self.value, Some(Value::Text(_) | Value::None))
            && matches!(self.schema.kind, None | Some("string"))
    }

    /// Returns the type of the value.
    pub(crate) fn value_type(&self) -> Type {
        match (&self.value, self.schema.value_type()) {
            _ if self.is_map() => Type::Map,
            (Some(Value::Bool(_)), Type::Unknown) if !self.schema.is_optional => Type::Bool,
            (Some(Value::Int(_)), Type::Unknown) => Type::Int,
            (Some(Value::Float(_)), Type::Unknown) => Type::Float,
            (Some(Value::Text(_)), Type::Unknown) => Type::Text,
            (Some(Value::None) | None, Type::Bool | Type::Int | Type::Float) => Type::Unknown,
            (_, kind) => kind,
        }
    }

    /// Returns `true` for a map, which is declared as JSON text.
    fn is_map(&self) -> bool {
        self.schema.kind == Some("object") || matches!(self.value, Some(Value::Map(_)))
    }

    /// Returns `true` if the value may be the URL of a service.
    pub(crate) fn is_address(&self) -> bool {
        if !matches!(self.value_type(), Type::Text) {
            return false;
        }
        if let Some(Value::Text(text)) = &self.value
            && (text.starts_with("http://") || text.starts_with("https://"))
        {
            return text.chars().all(|letter| !"<>[]{} ".contains(letter));
        }
        let name = self.name.to_lowercase();
        // `api.example.com`, beside a setting for `https`.
        if let Some(Value::Text(text)) = &self.value
            && !text.is_empty()
            && ["host", "domain", "server", "address"].iter().any(|word| name.contains(word))
        {
            return crate::translate::host(&format!("https://{text}")).is_some();
        }
        let is_empty = matches!(&self.value, Some(Value::None))
            || matches!(&self.value, Some(Value::Text(text)) if text.is_empty());
        is_empty
            && ["url", "host", "endpoint", "base", "server", "address", "uri"]
                .iter()
                .any(|word| name.contains(word))
    }

    /// Returns the code of the declaration.
    pub(crate) fn code(&self) -> String {
        let value = self.value.clone().unwrap_or(Value::None);
        let name = names::key(&self.name);
        let choices: Vec<&Value> = self.schema.choices.iter().filter(|one| **one != Value::None).collect();
        let value = if !choices.is_empty() && !choices.contains(&&value) && value != Value::None {
            Value::None
        } else {
            value
        };
        let mut entries = Vec::new();
        let value = match (self.schema.kind, value) {
            // A non-empty secret of fewer than six characters is taken for a placeholder and dropped.
            (_, Value::Text(text)) if self.schema.is_secret && text.chars().count() < 6 => {
                if text.is_empty() { Value::Text(text) } else { Value::None }
            }
            (Some("boolean"), Value::Text(text)) => Value::Bool(text.eq_ignore_ascii_case("true")),
            (Some("boolean"), Value::Int(number)) => Value::Bool(number != 0),
            (Some("integer"), Value::Text(text)) => text.parse().map_or(Value::None, Value::Int),
            (Some("number"), Value::Text(_)) | (Some("integer" | "number"), Value::Bool(_)) => Value::None,
            (Some("string"), Value::Int(number)) => Value::Text(number.to_string()),
            (Some("string"), Value::Float(text)) => Value::Text(text),
            (Some("string"), Value::Bool(value)) => Value::Text(value.to_string()),
            (Some("string" | "integer" | "number" | "boolean"), Value::List(_)) => Value::None,
            (Some("integer"), Value::Float(text)) => {
                Value::Int(text.parse::<f64>().map_or(0, |value| value as i64))
            }
            (Some("number"), Value::Int(number)) => Value::Float(format!("{number}.0")),
            (Some("array"), Value::Text(_)) | (Some("object"), Value::List(_)) => Value::None,
            (_, value) => value,
        };
        // A map has no form field: it is JSON text, which the script parses.
        let is_map = self.is_map();
        let value = if is_map { Value::Text(value.json()) } else { value };
        // A URL setting without a default is an empty text.
        let value =
            if value == Value::None && self.is_address() { Value::Text(String::new()) } else { value };
        let is_none = value == Value::None;
        entries.push(format!("value: {}", value.code()));
        let kind = self.schema.kind.filter(|_| !is_map).or_else(|| match choices.first() {
            Some(Value::Int(_)) => Some("integer"),
            Some(Value::Float(_)) => Some("number"),
            _ => is_none.then_some("string"),
        });
        let inferred = match &value {
            Value::Text(_) => Some("string"),
            Value::Int(_) => Some("integer"),
            Value::Float(_) => Some("number"),
            Value::Bool(_) => Some("boolean"),
            Value::List(_) => Some("array"),
            Value::Map(_) => Some("object"),
            Value::None => None,
        };
        if let Some(kind) = kind.filter(|kind| Some(*kind) != inferred) {
            entries.push(format!("type: \"{kind}\""));
        }
        if let (Some("array"), Some(items)) = (kind.or(inferred), self.schema.items) {
            entries.push(format!("items: \"{items}\""));
        }
        if !choices.is_empty() {
            let all: Vec<String> = choices.iter().map(|one| one.code()).collect();
            entries.push(format!("enum: [{}]", all.join(", ")));
        }
        let is_number = matches!(kind.or(inferred), Some("integer" | "number"));
        if is_number {
            let is_integer = kind.or(inferred) == Some("integer");
            let limit = |text: &String| {
                if is_integer { text.trim_end_matches(".0").to_owned() } else { text.clone() }
            };
            entries.extend(self.minimum.as_ref().map(|least| format!("minimum: {}", limit(least))));
            entries.extend(self.maximum.as_ref().map(|most| format!("maximum: {}", limit(most))));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|_| kind.or(inferred) == Some("string")) {
            entries.push(format!("pattern: {}", names::quoted(pattern)));
        }
        if let Some(text) = &self.description {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            entries.push(format!("description: {}", names::quoted(&text)));
        }
        if is_map {
            entries.push("multiline: true".to_owned());
        }
        if self.schema.is_secret {
            entries.push("secret: true".to_owned());
        }
        match entries.as_slice() {
            [_] => format!("{name}: {}", value.code()),
            _ => format!("{name}: {}", crate::value::map(&entries)),
        }
    }
}

/// Returns the arguments of `Field(…)`.
fn field(expr: &Expr) -> Option<&[Arg]> {
    match &expr.kind {
        ExprKind::Call(of, args)
            if of.path().is_some_and(|path| path.rsplit('.').next() == Some("Field")) =>
        {
            Some(args)
        }
        _ => None,
    }
}

/// Returns the next integer; a number with a decimal point is returned unchanged.
fn above(value: &str, by: i64) -> String {
    value
        .parse::<i64>()
        .ok()
        .and_then(|number| number.checked_add(by))
        .map_or_else(|| value.to_owned(), |number| number.to_string())
}
