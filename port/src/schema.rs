//! Type annotations.

use crate::kinds::Type;
use crate::python::{BinaryOp, Expr, ExprKind};
use crate::text::last_name;
use crate::value::{Value, Values};

/// The maximum depth of an annotation.
const MAX_DEPTH: usize = 8;

/// The declared type of a setting or a parameter.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Schema {
    /// The JSON type: `string`, `integer`, `number`, `boolean`, `array` or `object`; absent if any value is
    /// allowed.
    pub(crate) kind: Option<&'static str>,
    pub(crate) items: Option<&'static str>,
    pub(crate) choices: Vec<Value>,
    pub(crate) is_optional: bool,
    pub(crate) is_secret: bool,
}

impl Schema {
    fn plain(kind: &'static str) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    /// Reads an annotation; `enums` has the values of the enum classes.
    pub(crate) fn of(annotation: &Expr, enums: &Values) -> Self {
        Self::at_depth(annotation, enums, 0)
    }

    fn at_depth(annotation: &Expr, enums: &Values, depth: usize) -> Self {
        if depth > MAX_DEPTH {
            return Self::default();
        }
        let of = |annotation: &Expr| Self::at_depth(annotation, enums, depth + 1);
        match &annotation.kind {
            ExprKind::None => Self { is_optional: true, ..Self::default() },
            ExprKind::Text(text) => match crate::python::parse(text.trim()).ok().map(|module| module.body) {
                Some(body) => match body.as_slice() {
                    [one] => match &one.kind {
                        crate::python::StmtKind::Expr(inner) => of(inner),
                        _ => Self::default(),
                    },
                    _ => Self::default(),
                },
                None => Self::default(),
            },
            ExprKind::Name(_) | ExprKind::Attribute(..) => {
                let path = annotation.path_or_empty();
                let name = last_name(&path);
                match name {
                    "str" | "HttpUrl" | "AnyUrl" | "EmailStr" | "Path" => Self::plain("string"),
                    "SecretStr" | "EncryptedStr" => Self { is_secret: true, ..Self::plain("string") },
                    "int" | "PositiveInt" | "NonNegativeInt" => Self::plain("integer"),
                    "float" | "PositiveFloat" | "NonNegativeFloat" => Self::plain("number"),
                    "bool" => Self::plain("boolean"),
                    "list" | "List" | "set" | "Set" | "tuple" | "Tuple" | "Sequence" | "Iterable" => {
                        Self::plain("array")
                    }
                    "dict" | "Dict" | "Mapping" => Self::plain("object"),
                    _ => match enums.get(name) {
                        Some(Value::Map(entries)) => Self {
                            choices: entries.iter().map(|(_, value)| value.clone()).collect(),
                            ..Self::default()
                        },
                        _ => Self::default(),
                    },
                }
            }
            ExprKind::Index(of_what, inside) => {
                let path = of_what.path_or_empty();
                let inner: Vec<&Expr> = match &inside.kind {
                    ExprKind::Tuple(all) => all.iter().collect(),
                    _ => vec![inside],
                };
                match last_name(&path) {
                    "Optional" => {
                        Self { is_optional: true, ..inner.first().map(|one| of(one)).unwrap_or_default() }
                    }
                    "Annotated" | "Final" | "ClassVar" | "Required" | "NotRequired" => {
                        inner.first().map(|one| of(one)).unwrap_or_default()
                    }
                    "Union" => Self::any_of(inner.into_iter().map(of)),
                    "Literal" => {
                        let choices = inner.iter().filter_map(|one| Value::of(one, enums)).collect();
                        Self { choices, ..Self::default() }
                    }
                    "list" | "List" | "set" | "Set" | "Sequence" | "Iterable" | "tuple" | "Tuple" => {
                        Self { items: inner.first().and_then(|one| of(one).kind), ..Self::plain("array") }
                    }
                    "dict" | "Dict" | "Mapping" => Self::plain("object"),
                    _ => Self::default(),
                }
            }
            ExprKind::Binary(BinaryOp::Or, left, right) => Self::any_of([of(left), of(right)].into_iter()),
            _ => Self::default(),
        }
    }

    fn any_of(all: impl Iterator<Item = Self>) -> Self {
        let all: Vec<Self> = all.collect();
        let is_optional = all.iter().any(|one| one.is_optional);
        let kinds: Vec<&Self> =
            all.iter().filter(|one| one.kind.is_some() || !one.choices.is_empty()).collect();
        match kinds.as_slice() {
            [one] => Self { is_optional, ..(*one).clone() },
            _ => Self { is_optional, ..Self::default() },
        }
    }

    /// Returns the type of values in the translation.
    pub(crate) fn value_type(&self) -> Type {
        if self.is_optional && !matches!(self.kind, Some("string" | "array" | "object")) {
            return Type::Unknown;
        }
        match self.kind {
            Some("string") => Type::Text,
            Some("integer") => Type::Int,
            Some("number") => Type::Float,
            Some("boolean") => Type::Bool,
            Some("array") => {
                Type::list_of(if self.items == Some("string") { Type::Text } else { Type::Unknown })
            }
            Some("object") => Type::Map,
            _ if !self.choices.is_empty() && self.choices.iter().all(|one| matches!(one, Value::Text(_))) => {
                Type::Text
            }
            _ => Type::Unknown,
        }
    }
}
