//! Values that are known without running the plugin: literals and expressions of literals.

use crate::names;
use crate::python::{BinaryOp, Expr, ExprKind, FormatPart, UnaryOp};
use crate::text::part;
use std::cell::Cell;
use std::collections::BTreeMap;

/// The maximum depth of nested lists and maps.
const MAX_DEPTH: usize = 24;
/// The maximum size of a concatenated text in bytes.
const MAX_TEXT: usize = 64 * 1024;
/// The maximum size of all constants that a value repeats, as [`Value::size`] counts it.
const MAX_REPEATED: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(String),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

/// Known values by name.
pub(crate) type Values = BTreeMap<String, Value>;

impl Value {
    /// Returns the value of an expression, or `None` if it can be computed only at run time.
    pub(crate) fn of(expr: &Expr, known: &Values) -> Option<Self> {
        Self::at_depth(expr, known, 0, &Cell::new(MAX_REPEATED))
    }

    fn at_depth(expr: &Expr, known: &Values, depth: usize, left: &Cell<usize>) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let of = |expr: &Expr| Self::at_depth(expr, known, depth + 1, left);
        Some(match &expr.kind {
            ExprKind::None => Self::None,
            ExprKind::Bool(value) => Self::Bool(*value),
            ExprKind::Int(value) => Self::Int(*value),
            ExprKind::Float(value) => Self::Float(value.clone()),
            ExprKind::Text(value) => Self::Text(value.clone()),
            ExprKind::Name(name) => {
                let value = known.get(name)?;
                left.set(left.get().checked_sub(value.size())?);
                value.clone()
            }
            ExprKind::List(all) | ExprKind::Tuple(all) | ExprKind::Set(all) => {
                Self::List(all.iter().map(of).collect::<Option<_>>()?)
            }
            ExprKind::Dict(entries) => {
                let mut map: Vec<(String, Self)> = Vec::new();
                let mut places: BTreeMap<String, usize> = BTreeMap::new();
                for (key, value) in entries {
                    let key = match of(key.as_ref()?)? {
                        Self::Text(text) => text,
                        Self::Int(number) => number.to_string(),
                        _ => return None,
                    };
                    let value = of(value)?;
                    match places.get(&key).and_then(|at| map.get_mut(*at)) {
                        Some(entry) => entry.1 = value,
                        None => {
                            places.insert(key.clone(), map.len());
                            map.push((key, value));
                        }
                    }
                }
                Self::Map(map)
            }
            ExprKind::Format(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        FormatPart::Text(part) => text.push_str(part),
                        FormatPart::Value { value, format, conversion: None, is_debug: None }
                            if format.is_empty() =>
                        {
                            text.push_str(&of(value)?.as_text()?);
                        }
                        FormatPart::Value { .. } => return None,
                    }
                }
                Self::Text(text)
            }
            ExprKind::Unary(UnaryOp::Minus, inner) => match of(inner)? {
                Self::Int(value) => Self::Int(value.checked_neg()?),
                Self::Float(value) => Self::Float(format!("-{value}")),
                _ => return None,
            },
            ExprKind::Binary(op, left, right) => Self::computed(*op, of(left)?, of(right)?)?,
            ExprKind::Call(of_what, args) => {
                let path = of_what.path_or_empty();
                match (path.as_str(), args.as_slice()) {
                    ("os.getenv" | "getenv" | "os.environ.get" | "environ.get", [_, fallback]) => {
                        of(&fallback.value)?
                    }
                    ("set" | "list" | "tuple" | "frozenset" | "dict" | "str", [one])
                        if one.name.is_none() =>
                    {
                        let value = of(&one.value)?;
                        if path == "str" { Self::Text(value.as_text()?) } else { value }
                    }
                    ("set" | "list" | "tuple", []) => Self::List(Vec::new()),
                    ("dict", []) => Self::Map(Vec::new()),
                    ("textwrap.dedent" | "dedent" | "inspect.cleandoc", [one]) => match of(&one.value)? {
                        Self::Text(text) => Self::Text(dedent(&text)),
                        _ => return None,
                    },
                    _ => match (&of_what.kind, args.as_slice()) {
                        (ExprKind::Attribute(text, name), []) => match (of(text)?, name.as_str()) {
                            (Self::Text(text), "strip") => Self::Text(text.trim().to_owned()),
                            (Self::Text(text), "lower") => Self::Text(text.to_lowercase()),
                            (Self::Text(text), "upper") => Self::Text(text.to_uppercase()),
                            (Self::Text(text), "split") => Self::List(
                                text.split_whitespace().map(|word| Self::Text(word.to_owned())).collect(),
                            ),
                            _ => return None,
                        },
                        _ => return None,
                    },
                }
            }
            _ => return None,
        })
    }

    /// Returns the number of bytes of all texts plus the number of all values.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::None | Self::Bool(_) | Self::Int(_) => 1,
            Self::Float(text) | Self::Text(text) => 1 + text.len(),
            Self::List(all) => 1 + all.iter().map(Self::size).sum::<usize>(),
            Self::Map(all) => 1 + all.iter().map(|(key, value)| key.len() + value.size()).sum::<usize>(),
        }
    }

    fn computed(op: BinaryOp, left: Self, right: Self) -> Option<Self> {
        Some(match (op, left, right) {
            (BinaryOp::Add, Self::Text(a), Self::Text(b)) if a.len() + b.len() < MAX_TEXT => {
                Self::Text(a + &b)
            }
            (BinaryOp::Add, Self::List(mut a), Self::List(b)) if a.len() + b.len() < MAX_TEXT => {
                a.extend(b);
                Self::List(a)
            }
            (BinaryOp::Add, Self::Int(a), Self::Int(b)) => Self::Int(a.checked_add(b)?),
            (BinaryOp::Sub, Self::Int(a), Self::Int(b)) => Self::Int(a.checked_sub(b)?),
            (BinaryOp::Mul, Self::Int(a), Self::Int(b)) => Self::Int(a.checked_mul(b)?),
            (BinaryOp::Pow, Self::Int(a), Self::Int(b)) => Self::Int(a.checked_pow(u32::try_from(b).ok()?)?),
            (BinaryOp::FloorDiv, Self::Int(a), Self::Int(b)) => Self::Int(a.checked_div_euclid(b)?),
            (BinaryOp::Or, Self::List(mut a), Self::List(b)) => {
                a.extend(b);
                Self::List(a)
            }
            _ => return None,
        })
    }

    /// Returns the value as Python formats it into a text.
    fn as_text(&self) -> Option<String> {
        Some(match self {
            Self::Text(text) => text.clone(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.clone(),
            Self::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
            Self::None | Self::List(_) | Self::Map(_) => return None,
        })
    }

    /// Returns the value as JSON.
    pub(crate) fn json(&self) -> String {
        match self {
            Self::None => "{}".to_owned(),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) => self.code(),
            Self::Text(text) => json_text(text),
            Self::List(all) => format!("[{}]", all.iter().map(Self::json).collect::<Vec<_>>().join(",")),
            Self::Map(all) => {
                let all: Vec<_> =
                    all.iter().map(|(key, value)| format!("{}:{}", json_text(key), value.json())).collect();
                format!("{{{}}}", all.join(","))
            }
        }
    }

    /// Returns the value as a Rhai literal.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::None => "()".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.clone(),
            Self::Text(text) => names::quoted(text),
            Self::List(all) => {
                let all: Vec<_> = all.iter().map(Self::code).collect();
                wrapped("[", &all, "]")
            }
            Self::Map(all) => {
                let all: Vec<_> =
                    all.iter().map(|(key, value)| format!("{}: {}", names::key(key), value.code())).collect();
                map(&all)
            }
        }
    }
}

fn json_text(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            control if control.is_control() => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Returns a map literal with the entries.
pub(crate) fn map(entries: &[String]) -> String {
    if entries.is_empty() {
        return "#{}".to_owned();
    }
    let line = format!("#{{ {} }}", entries.join(", "));
    if fits(&line) { line } else { on_lines("#{", entries, "}") }
}

/// Returns elements in brackets, each on its own line if they do not fit one line.
pub(crate) fn wrapped(open: &str, all: &[String], close: &str) -> String {
    let line = format!("{open}{}{close}", all.join(", "));
    if all.is_empty() || fits(&line) { line } else { on_lines(open, all, close) }
}

fn on_lines(open: &str, all: &[String], close: &str) -> String {
    let all: String = all.iter().map(|one| format!("    {},\n", one.replace('\n', "\n    "))).collect();
    format!("{open}\n{all}{close}")
}

fn fits(line: &str) -> bool {
    line.chars().count() <= 90 && !line.contains('\n')
}

/// Removes the common indentation of all lines.
pub(crate) fn dedent(text: &str) -> String {
    let width = |line: &str| line.chars().take_while(|letter| *letter == ' ').count();
    let least = text.lines().filter(|line| !line.trim().is_empty()).map(width).min().unwrap_or(0);
    let lines: Vec<&str> = text.lines().map(|line| part(line, least.min(width(line))..)).collect();
    lines.join("\n")
}
