//! Elements and slices of lists, texts and maps.

use super::context::{Hindrance, Outcome, Role, Translator};
use super::helper::Helper;
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::names;
use crate::python::{Expr, ExprKind, UnaryOp};
use crate::report::NoteKind;
use crate::value::Value;

impl Translator<'_> {
    pub(super) fn index(&mut self, of: &Expr, index: &Expr) -> Outcome {
        if let ExprKind::Slice(start, end, step) = &index.kind {
            let of = self.expr(of)?;
            return self.slice(&of, start.as_deref(), end.as_deref(), step.as_deref());
        }
        // `os.environ["KEY"]`.
        if self.full_path(of).as_deref() == Some("os.environ") {
            return self.environment(index, None);
        }
        let of = self.receiver(of)?;
        if of.kind == Type::ModelChoices {
            return Ok(of.typed(Type::Model));
        }
        if let Some(key) = index.as_text() {
            // The host's own fields are always there.
            let is_own = of.text == "__user__" || of.text == "body" && key == "messages";
            if self.scope.needs_keys && matches!(of.kind, Type::Unknown | Type::Map) && !is_own {
                let required = self.helper(Helper::Required);
                return Ok(call(required, &[of.text.clone(), names::quoted(key)], Type::Unknown));
            }
            let value = self.key_of_map(&of, key)?;
            return Ok(self.with_default(&of, value));
        }
        let element = of.kind.element();
        if matches!(of.kind, Type::Page | Type::Element) {
            return Hindrance::err(NoteKind::Package, "a computed attribute of an element");
        }
        let index = self.key_for(&of, index)?;
        if of.kind == Type::Text {
            return Ok(Code::atom(format!("{}.sub_string({}, 1)", of.owner(), index.text), Type::Text));
        }
        if of.kind == Type::Match {
            return Ok(of.index(&index.text, Type::Text));
        }
        if self.scope.needs_keys && of.kind == Type::Map {
            let required = self.helper(Helper::Required);
            return Ok(call(required, &[of.text.clone(), index.text], element));
        }
        let value = of.index(&index.text, element);
        Ok(self.with_default(&of, value))
    }

    /// Returns the code that reads an element of a map which adds missing keys.
    fn with_default(&self, of: &Code, value: Code) -> Code {
        match self.scope.defaults.get(&of.text) {
            Some(default) => {
                let text = format!("{} ?? {default}", value.at(strength::COALESCE));
                Code::new(text, strength::COALESCE, value.kind)
            }
            None => value,
        }
    }

    /// Returns `true` for an element of a map which adds missing keys.
    pub(super) fn adds_key(&self, element: &Expr) -> bool {
        let ExprKind::Index(of, _) = &element.kind else { return false };
        !self.scope.is_closure
            && of.as_name().is_some_and(|name| {
                let variable = self.scope.variables.get(name);
                variable.is_some_and(|variable| self.scope.defaults.contains_key(&variable.code))
            })
    }

    /// Returns the code of the value that a `defaultdict` adds for a missing key.
    pub(super) fn missing_value(&mut self, value: &Expr) -> Option<String> {
        let ExprKind::Call(of, args) = &value.kind else { return None };
        if self.full_path(of).as_deref() != Some("collections.defaultdict") {
            return None;
        }
        let factory = &args.first()?.value;
        if let ExprKind::Lambda(params, body) = &factory.kind
            && params.is_empty()
        {
            return Some(self.expr(body).ok()?.at(strength::COALESCE + 1));
        }
        let code = match factory.as_name()? {
            "int" => "0",
            "float" => "0.0",
            "str" => "\"\"",
            "bool" => "false",
            "list" | "set" => "[]",
            "dict" => "#{}",
            _ => return None,
        };
        Some(code.to_owned())
    }

    /// Returns the code of a computed key or position.
    pub(super) fn key(&mut self, key: &Expr) -> Outcome {
        match key.kind {
            ExprKind::Tuple(_) => {
                Hindrance::err(NoteKind::Python, "a tuple as a key: join its parts into a text")
            }
            _ => self.expr(key),
        }
    }

    /// Returns the code of a computed key or position of a value; the keys of maps are texts.
    pub(super) fn key_for(&mut self, of: &Code, key: &Expr) -> Outcome {
        let key = self.key(key)?;
        Ok(self.as_key(of, key))
    }

    /// Returns the code of a value as a key of a value.
    pub(super) fn as_key(&self, of: &Code, key: Code) -> Code {
        let has_numbers = || match self.plugin.constants.get(&of.text) {
            Some(Value::Map(entries)) => {
                !entries.is_empty() && entries.iter().all(|(key, _)| key.parse::<i64>().is_ok())
            }
            _ => false,
        };
        if of.kind == Type::Map && (key.kind == Type::Int || key.kind != Type::Text && has_numbers()) {
            return match key.text.parse::<i64>() {
                Ok(number) => Code::atom(names::quoted(&number.to_string()), Type::Text),
                Err(_) => Code::atom(format!("`${{{}}}`", key.text), Type::Text),
            };
        }
        key
    }

    /// Returns the code that reads a map by a known key.
    pub(super) fn key_of_map(&mut self, of: &Code, key: &str) -> Outcome {
        match (&of.kind, key) {
            (Type::Model, "choices") => return Ok(of.clone().typed(Type::ModelChoices)),
            (Type::Model, "message" | "delta") => return Ok(of.clone()),
            (Type::Element, _) => return self.attribute_of_element(of, key),
            (Type::Match, _) => {
                return Hindrance::err(
                    NoteKind::Pattern,
                    format!("the group `{key}` by name: groups have numbers here"),
                );
            }
            _ => {}
        }
        // Of what Open WebUI has in `__metadata__`, the host passes these by themselves.
        if of.text == "__metadata__" && matches!(self.scope.role, Role::Hook | Role::Tool) {
            match key {
                "chat_id" => return Ok(Code::atom("__chat_id__", Type::Unknown)),
                "message_id" => return Ok(Code::atom("__message_id__", Type::Unknown)),
                "user_id" => return Ok(Code::atom("__user__.id", Type::Unknown)),
                _ => {}
            }
        }
        if of.text == "__user__" && key == "valves" {
            return Ok(of.property("valves", Type::Valves));
        }
        if of.text == "body" && key == "messages" {
            return Ok(of.property("messages", Type::list()));
        }
        if names::is_key(key) && of.kind != Type::Answer {
            if of.kind == Type::Valves {
                return self.property_of(of, key);
            }
            return Ok(of.property(key, Type::Unknown));
        }
        Ok(of.index(&names::quoted(key), Type::Unknown))
    }

    /// Returns the code of a value whose keys are read next; it is optional if it may be absent.
    pub(super) fn receiver(&mut self, of: &Expr) -> Outcome {
        match &of.kind {
            // `x.get("k", {})["l"]` or `(x.get("k") or {})["l"]`.
            ExprKind::Call(function, args) => {
                if let ExprKind::Attribute(map, name) = &function.kind
                    && name == "get"
                    && self.full_path(function).is_none()
                    && let [key, fallback] = args.as_slice()
                    && is_nothing(&fallback.value)
                {
                    let map = self.receiver(map)?;
                    if !matches!(map.kind, Type::Session(_) | Type::Answer) {
                        let value = match key.value.as_text() {
                            Some(key) => self.key_of_map(&map, key)?,
                            None => {
                                let key = self.key_for(&map, &key.value)?;
                                map.index(&key.text, Type::Unknown)
                            }
                        };
                        let is_known = value.text == "body.messages"
                            || value.kind == Type::Model
                            || value.kind == Type::ModelChoices;
                        return Ok(value.optional(!is_known));
                    }
                }
                self.expr(of)
            }
            ExprKind::Logic(crate::python::BoolOp::Or, all) => match all.as_slice() {
                [first, second] if is_nothing(second) => {
                    let first = self.receiver(first)?;
                    Ok(first.optional(true))
                }
                _ => self.expr(of),
            },
            ExprKind::Index(..) => self.expr(of),
            _ => self.expr(of),
        }
    }

    fn slice(&mut self, of: &Code, start: Option<&Expr>, end: Option<&Expr>, step: Option<&Expr>) -> Outcome {
        if let Some(step) = step {
            if is_minus_one(step) && start.is_none() && end.is_none() {
                let name = self.helper(Helper::Reversed);
                return Ok(call(name, std::slice::from_ref(&of.text), of.kind.clone()));
            }
            return Hindrance::err(NoteKind::Python, "a slice with steps");
        }
        let kind = of.kind.clone();
        let negative = |expr: &Expr| match &expr.kind {
            ExprKind::Unary(UnaryOp::Minus, inner) => match inner.kind {
                ExprKind::Int(number) => Some(number),
                _ => None,
            },
            _ => None,
        };
        let is_list = matches!(of.kind, Type::List(_));
        Ok(match (start, end) {
            (None, None) if is_list => of.method("copy", &[], kind),
            (None, None) if of.kind == Type::Text => of.clone(),
            (None, Some(end)) if negative(end).is_none() && of.kind == Type::Text => {
                let end = self.expr(end)?;
                of.method("sub_string", &["0".to_owned(), end.text], kind)
            }
            (Some(start), None) if negative(start).is_none() && of.kind == Type::Text => {
                let start = self.expr(start)?;
                of.method("sub_string", &[start.text], kind)
            }
            (None, Some(end)) if negative(end).is_none() && is_list => {
                let end = self.expr(end)?;
                of.method("extract", &["0".to_owned(), end.text], kind)
            }
            (Some(start), None) if is_list && of.text == "body.messages" && negative(start).is_some() => {
                of.method("tail", &[negative(start).unwrap_or(1).to_string()], kind)
            }
            (Some(start), None) if is_list => {
                let start = self.expr(start)?;
                of.method("extract", &[start.text], kind)
            }
            _ => {
                let start = match start {
                    Some(start) => self.expr(start)?.text,
                    None => "()".to_owned(),
                };
                let end = match end {
                    Some(end) => self.expr(end)?.text,
                    None => "()".to_owned(),
                };
                let name = self.helper(Helper::Slice);
                call(name, &[of.text.clone(), start, end], kind)
            }
        })
    }
}

fn is_minus_one(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Unary(UnaryOp::Minus, inner) if matches!(inner.kind, ExprKind::Int(1)))
}

/// Returns `true` for an empty fallback, such as `{}` or `None`.
fn is_nothing(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::None => true,
        ExprKind::Dict(entries) => entries.is_empty(),
        ExprKind::List(all) => all.is_empty() || matches!(all.as_slice(), [one] if is_nothing(one)),
        _ => false,
    }
}
