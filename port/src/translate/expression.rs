//! Expressions and conditions.

use super::context::{Hindrance, Outcome, Translator};
use crate::code::{Code, strength};
use crate::kinds::Type;
use crate::names;
use crate::plugin::{Attribute, is_property, of_self};
use crate::python::{BoolOp, CompareOp, Expr, ExprKind, UnaryOp};
use crate::report::NoteKind;
use crate::value::{self, Value};

/// The maximum number of constants and attributes in a chain in which each uses the next.
const MAX_COMPUTING: usize = 30;

impl<'a> Translator<'a> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Outcome {
        match &expr.kind {
            ExprKind::Name(name) => self.name(name),
            ExprKind::Int(value) => Ok(Code::atom(value.to_string(), Type::Int)),
            ExprKind::Float(value) => Ok(Code::atom(value.clone(), Type::Float)),
            ExprKind::Text(text) => {
                self.effects.links.extend(super::http::host(text));
                if super::regex::is_beyond(text) {
                    return Hindrance::err(NoteKind::Pattern, "a pattern with look-around");
                }
                Ok(Code::atom(names::quoted(text), Type::Text))
            }
            ExprKind::Bytes(text) if text.is_ascii() => Ok(Code::atom(names::quoted(text), Type::Text)),
            ExprKind::Bytes(_) => Hindrance::err(NoteKind::Bytes, "bytes that are not text"),
            ExprKind::Format(parts) => self.format(parts),
            ExprKind::Bool(value) => Ok(Code::atom(value.to_string(), Type::Bool)),
            ExprKind::None | ExprKind::Ellipsis => Ok(Code::atom("()", Type::None)),
            ExprKind::Attribute(of, name) => self.attribute(expr, of, name),
            ExprKind::Index(of, index) => self.index(of, index),
            ExprKind::Slice(..) => Hindrance::err(NoteKind::Python, "a slice"),
            ExprKind::Call(of, args) => self.call(of, args, expr.line),
            ExprKind::Unary(op, inner) => self.unary(*op, inner),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::Logic(op, all) => self.choice_of(*op, all),
            ExprKind::Compare(first, others) => self.compare(first, others),
            ExprKind::Choice { condition, then, otherwise } => {
                let condition = self.condition(condition)?;
                match condition.text.as_str() {
                    "true" => return self.expr(then),
                    "false" => return self.expr(otherwise),
                    _ => {}
                }
                let then = self.expr(then)?;
                let otherwise = self.expr(otherwise)?;
                let kind = then.kind.clone().join(otherwise.kind.clone());
                let text = format!("if {} {{ {} }} else {{ {} }}", condition.text, then.text, otherwise.text);
                Ok(Code::new(text, strength::ANY, kind))
            }
            ExprKind::Lambda(params, body) => self.lambda(params, body),
            ExprKind::List(all) | ExprKind::Tuple(all) => self.list(all),
            ExprKind::Set(all) => {
                let list = self.list(all)?;
                let mut texts = std::collections::BTreeSet::new();
                if all.iter().all(|one| one.as_text().is_some_and(|text| texts.insert(text))) {
                    return Ok(list);
                }
                let name = self.helper(super::Helper::Unique);
                Ok(crate::code::call(name, &[list.text], list.kind))
            }
            ExprKind::Dict(entries) => self.dict(entries),
            ExprKind::ListOf(value, of) | ExprKind::Generator(value, of) => self.list_of(value, of),
            ExprKind::SetOf(value, of) => {
                let list = self.list_of(value, of)?;
                let name = self.helper(super::Helper::Unique);
                Ok(crate::code::call(name, &[list.text], list.kind))
            }
            ExprKind::DictOf(key, value, of) => self.dict_of(key, value, of),
            ExprKind::Await(inner) => self.expr(inner),
            ExprKind::Yield(_) | ExprKind::YieldFrom(_) => {
                Hindrance::err(NoteKind::Python, "`yield` as a value")
            }
            ExprKind::Starred(_) => Hindrance::err(NoteKind::Python, "`*` before a value"),
            ExprKind::Walrus(name, _)
                if self.scope.hoisted.contains(&(std::ptr::from_ref(expr) as usize)) =>
            {
                self.name(name)
            }
            ExprKind::Walrus(name, value) => {
                let value = self.expr(value)?;
                self.note_type(name, value.kind.clone());
                let code = self
                    .scope
                    .variables
                    .get(name)
                    .map_or_else(|| names::variable(name), |known| known.code.clone());
                Ok(Code::atom(format!("{{ {code} = {}; {code} }}", value.text), value.kind))
            }
        }
    }

    /// Returns the code of each expression.
    pub(super) fn texts(&mut self, all: &[&Expr]) -> Outcome<Vec<String>> {
        all.iter().map(|one| Ok(self.stored(one)?.text)).collect()
    }

    pub(super) fn name(&mut self, name: &str) -> Outcome {
        if let Some(variable) = self.scope.variables.get(name) {
            return Ok(Code::atom(variable.code.clone(), variable.kind.clone()));
        }
        if let Some(value) = self.plugin.constants.get(name) {
            let kind = type_of(value);
            self.effects.constants.insert(name.to_owned());
            return Ok(Code::atom(names::variable(name), kind));
        }
        if let Some((value, line, end)) = self.plugin.computed.get(name) {
            return self.computed(name, value, (*line, *end));
        }
        if let Some(function) = self.plugin.functions.get(name) {
            let function = *function;
            return Ok(Code::atom(self.use_function(super::context::Owner::Module, function), Type::Closure));
        }
        match self.plugin.imports.get(name) {
            Some(path) => self.imported(path),
            None if name == "__name__" => Ok(Code::atom("\"plugin\"", Type::Text)),
            None => Hindrance::err(NoteKind::Python, format!("`{name}` as a value")),
        }
    }

    /// Returns the code of a value that Python computes when it loads the file: a call of the function that
    /// computes it, a pattern, or nothing for a value that exists only in Python.
    fn computed(&mut self, name: &str, value: &Expr, (line, end): (usize, usize)) -> Outcome {
        let code = match self.computed_codes.get(name) {
            Some(known) => known.clone()?,
            None => {
                let scope = super::context::Scope::new(super::context::Role::Plain);
                let outer = std::mem::replace(&mut self.scope, scope);
                let code = self.nested(|translator| translator.expr(value));
                self.scope = outer;
                // The code of a pattern is used directly, with its effects.
                if !matches!(&code, Ok(code) if code.kind == Type::Pattern) {
                    self.computed_codes.insert(name.to_owned(), code.clone());
                }
                code?
            }
        };
        if code.kind.is_ghost() {
            return Ok(code);
        }
        if code.kind == Type::Pattern {
            return Ok(code);
        }
        self.effects.count.seen(line, end);
        self.effects.computed.insert(name.to_owned());
        Ok(Code::atom(format!("{}()", names::function(&names::snake_case(name))), code.kind))
    }

    /// Runs a step that translates the value of a constant or an attribute, which may use further ones.
    fn nested<T>(&mut self, step: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.computing >= MAX_COMPUTING {
            return Hindrance::err(
                NoteKind::Python,
                format!("a value that depends on more than {MAX_COMPUTING} others"),
            );
        }
        self.computing += 1;
        let result = step(self);
        self.computing -= 1;
        result
    }

    fn attribute(&mut self, expr: &Expr, of: &Expr, name: &str) -> Outcome {
        if let Some(name) = of_self(expr) {
            return self.own_attribute(name);
        }
        if let Some(path) = self.full_path(expr) {
            return self.imported(&path);
        }
        // `Color.RED` or `Color.RED.value`.
        if let ExprKind::Attribute(class, member) = &of.kind
            && name == "value"
            && let Some(class) = class.as_name()
            && let Some(Value::Map(members)) = self.plugin.constants.get(class)
            && members.iter().any(|(other, _)| other == member)
        {
            return self.expr(of);
        }
        if of.as_name().is_some_and(|name| matches!(name, "__request__" | "request")) && name == "app" {
            return Hindrance::err(NoteKind::HostCode, "the state of Open WebUI's server");
        }
        let of = self.expr(of)?;
        self.property_of(&of, name)
    }

    /// Returns the code of an attribute of the plugin.
    pub(super) fn own_attribute(&mut self, name: &str) -> Outcome {
        if let super::context::Role::Method(at) = self.scope.role {
            if self.scope.is_closure {
                return Hindrance::err(NoteKind::Python, "`self` within a function of a method");
            }
            if self.plugin.objects.get(at).is_some_and(|object| object.methods.contains_key(name)) {
                return self.property_of_object(&Code::atom("this", Type::Object(at)), at, name);
            }
            return Ok(Code::atom(format!("this.{}", names::variable(name)), Type::Unknown));
        }
        match name {
            "valves" => return Ok(Code::atom("Valves", Type::Valves)),
            "user_valves" => return Ok(Code::atom("__user__.valves", Type::Valves)),
            _ => {}
        }
        if let Some(param) = self.plugin.emitters.get(name) {
            let kind = if param.contains("event_call") { Type::Caller } else { Type::Emitter };
            return Ok(Code::atom("()", kind));
        }
        if let Some(function) = self.plugin.methods.get(name) {
            let function = *function;
            let is_property = is_property(function);
            let code = self.use_function(super::context::Owner::Plugin, function);
            if is_property {
                return Ok(Code::atom(format!("{code}({})", self.passed_on(name).join(", ")), Type::Unknown));
            }
            return Ok(Code::atom(code, Type::Closure));
        }
        match self.plugin.attributes.get(name) {
            Some(Attribute::Constant(constant)) => {
                let kind = self.plugin.constants.get(constant).map_or(Type::Unknown, type_of);
                let constant = constant.clone();
                self.effects.constants.insert(constant.clone());
                Ok(Code::atom(constant, kind))
            }
            Some(kind @ (Attribute::State | Attribute::Kept)) => {
                let is_kept = *kind == Attribute::Kept;
                // A value that exists only in Python has a type but no code.
                if let Some(value) = self.plugin.initial.get(name).copied() {
                    let kind = match self.attribute_kinds.get(name) {
                        Some(kind) => kind.clone(),
                        None => {
                            self.nested(|translator| Ok(translator.kind_of(value))).unwrap_or(Type::Unknown)
                        }
                    };
                    self.attribute_kinds.insert(name.to_owned(), kind.clone());
                    if kind.is_ghost() || kind == Type::Pattern {
                        return self.nested(|translator| translator.expr(value));
                    }
                    if matches!(kind, Type::Object(_) | Type::Time | Type::Day) && !is_kept {
                        return Ok(Code::atom(format!("state.{}", state_key(name)), kind));
                    }
                }
                if is_kept {
                    return Err(kept(name));
                }
                Ok(Code::atom(format!("state.{}", state_key(name)), Type::Unknown))
            }
            None => Hindrance::err(NoteKind::Python, format!("`self.{name}`, which is set nowhere")),
        }
    }

    /// Returns the type of an expression without recording effects.
    pub(super) fn kind_of(&mut self, value: &Expr) -> Type {
        let effects = self.effects.clone();
        let was = std::mem::replace(&mut self.scope.is_inferring, true);
        let kind = self.expr(value).map_or(Type::Unknown, |code| code.kind);
        self.scope.is_inferring = was;
        self.effects = effects;
        kind
    }

    /// Returns the reason why an expression has no translation.
    pub(crate) fn hindrance(&mut self, value: &Expr) -> Option<crate::report::Note> {
        let effects = self.effects.clone();
        let was = std::mem::replace(&mut self.scope.is_inferring, true);
        let result = self.expr(value);
        self.scope.is_inferring = was;
        self.effects = effects;
        let blocked = result.err()?;
        Some(crate::report::Note { kind: blocked.kind, text: blocked.text, line: value.line, is_todo: true })
    }

    /// Returns `true` for a statement that has no effect in a script.
    pub(crate) fn is_needless(&mut self, expr: &Expr) -> bool {
        self.kind_of(expr).is_ghost()
    }

    /// Returns the code of a method that is read as a property of an object.
    fn property_of_object(&mut self, of: &Code, at: usize, name: &str) -> Outcome {
        let function = self.plugin.objects.get(at).and_then(|object| object.methods.get(name).copied());
        match function.filter(|function| is_property(function)) {
            Some(function) => {
                let code = self.use_function(super::context::Owner::Object(at), function);
                Ok(of.method(&code, &[], Type::Unknown))
            }
            None => Hindrance::err(NoteKind::Python, format!("the method `{name}` of an object as a value")),
        }
    }

    pub(super) fn property_of(&mut self, of: &Code, name: &str) -> Outcome {
        let unknown = matches!(of.kind, Type::Unknown | Type::Answer);
        Ok(match (&of.kind, name) {
            (Type::Valves, _) => {
                let kind =
                    if of.text == "Valves" { self.valves.get(name) } else { self.user_valves.get(name) };
                let kind = kind.cloned().unwrap_or(Type::Unknown);
                if kind == Type::Map {
                    // A map setting is declared as JSON text.
                    return Ok(crate::code::call(
                        "json::parse",
                        &[of.property(name, Type::Text).text],
                        Type::Map,
                    ));
                }
                of.property(name, kind)
            }
            (Type::Answer | Type::Stream | Type::Unknown, "status_code") => of.property("status", Type::Int),
            (Type::Stream, "status" | "headers") => of.property(name, Type::Unknown),
            (Type::Stream, "text") => {
                let read = self.helper(super::Helper::ReadAll);
                crate::code::call(read, std::slice::from_ref(&of.text), Type::Text)
            }
            (Type::Stream, "content") => of.clone(),
            (Type::Answer, "text") => of.property("text", Type::Text),
            (Type::Answer, "status") => of.property("status", Type::Int),
            (Type::Answer, "content") => of.property("bytes", Type::Bytes),
            (Type::Answer | Type::Stream, "ok" | "is_success") => {
                Code::new(format!("{}.status < 400", of.owner()), strength::COMPARE, Type::Bool)
            }
            (Type::Unknown, "is_success") => {
                Code::new(format!("{}.status < 400", of.owner()), strength::COMPARE, Type::Bool)
            }
            (Type::Answer | Type::Stream, "reason" | "reason_phrase") => {
                Code::atom(format!("`HTTP ${{{}.status}}`", of.owner()), Type::Text)
            }
            (Type::Unknown, "reason_phrase") => {
                Code::atom(format!("`HTTP ${{{}.status}}`", of.owner()), Type::Text)
            }
            (Type::Error, "response") => of.clone().typed(Type::ErrorResponse),
            (Type::ErrorResponse, "status_code" | "status") => {
                let status = self.helper(super::Helper::ServiceStatus);
                crate::code::call(status, std::slice::from_ref(&of.text), Type::Int)
            }
            (Type::ErrorResponse, "text" | "reason" | "reason_phrase" | "content") => {
                of.property("message", Type::Text)
            }
            (Type::ErrorResponse, _) => {
                return Hindrance::err(NoteKind::Http, format!("`.{name}` of the response of an error"));
            }
            (Type::Error, "status_code" | "status" | "code") => of.property("status", Type::Int),
            (Type::Error, "detail" | "message" | "msg" | "text" | "reason" | "strerror" | "body") => {
                of.property("message", Type::Text)
            }
            (Type::Error, "lineno") => of.property("line", Type::Int),
            (Type::Error, "__class__") => Code::atom("\"Error\"", Type::Text),
            (Type::Model, "choices") => of.clone().typed(Type::ModelChoices),
            (Type::Model, "message" | "delta") => of.clone(),
            (Type::Time | Type::Local(_) | Type::Day, _) => return self.part_of_time(of, name),
            (Type::Span, "days") => {
                Code::new(format!("{} / 86400", of.at(strength::MULTIPLY)), strength::MULTIPLY, Type::Int)
            }
            (Type::Span, "seconds") => {
                Code::new(format!("{} % 86400", of.at(strength::MULTIPLY)), strength::MULTIPLY, Type::Int)
            }
            (Type::Digest, "hex") => of.clone(),
            (Type::Uuid, "hex") => crate::code::call(
                "text::replace",
                &[of.text.clone(), "\"-\"".into(), "\"\"".into()],
                Type::Text,
            ),
            (Type::Address, "netloc" | "hostname") => of.property("host", Type::Text),
            (Type::Address, _) => of.property(name, Type::Unknown),
            (_, "__class__") => Code::atom(format!("type_of({})", of.text), Type::Text),
            (_, "__name__") => of.clone().typed(Type::Text),
            (Type::Logger, _) => of.clone(),
            (Type::Object(at), _)
                if self.plugin.objects.get(*at).is_some_and(|object| object.methods.contains_key(name)) =>
            {
                return self.property_of_object(of, *at, name);
            }
            (Type::Closure, _) => {
                return Hindrance::err(NoteKind::Python, format!("`.{name}` of a function"));
            }
            (kind, _) if kind.is_ghost() || matches!(kind, Type::Tokens) => {
                return Hindrance::err(NoteKind::Method, format!("`.{name}`"));
            }
            (Type::Page | Type::Element, _) => return self.part_of_page(of, name),
            _ if unknown && name == "is_closed" => Code::atom("false", Type::Bool),
            _ => of.property(name, Type::Unknown),
        })
    }

    fn unary(&mut self, op: UnaryOp, inner: &Expr) -> Outcome {
        match op {
            UnaryOp::Not => {
                let condition = self.condition(inner)?;
                Ok(negated(&condition))
            }
            UnaryOp::Minus => {
                let inner = self.expr(inner)?;
                Ok(Code::new(format!("-{}", inner.at(strength::ATOM)), strength::UNARY, inner.kind))
            }
            UnaryOp::Plus => self.expr(inner),
            UnaryOp::Invert => Hindrance::err(NoteKind::Python, "`~`"),
        }
    }

    /// Returns the code of a condition, which is a boolean.
    pub(super) fn condition(&mut self, expr: &Expr) -> Outcome {
        match &expr.kind {
            ExprKind::Logic(op, all) => {
                let mut parts = Vec::new();
                for one in all {
                    let part = self.condition(one)?;
                    let is_true = part.text == "true";
                    // A value that is always present needs no test.
                    if !(is_true && *op == BoolOp::And) {
                        parts.push(part);
                    }
                }
                let (mark, level) = match op {
                    BoolOp::And => (" && ", strength::AND),
                    BoolOp::Or => (" || ", strength::OR),
                };
                Ok(match parts.as_slice() {
                    [] => Code::atom("true", Type::Bool),
                    [one] => one.clone(),
                    _ => {
                        let parts: Vec<String> = parts.iter().map(|part| part.at(level)).collect();
                        Code::new(parts.join(mark), level, Type::Bool)
                    }
                })
            }
            ExprKind::Unary(UnaryOp::Not, inner) => Ok(negated(&self.condition(inner)?)),
            ExprKind::Await(inner) => self.condition(inner),
            _ => {
                if let Some(code) = self.match_condition(expr)? {
                    return Ok(code);
                }
                let value = self.expr(expr)?;
                Ok(match &value.kind {
                    Type::Bool if !value.is_optional => value,
                    Type::Emitter
                    | Type::Caller
                    | Type::Session(_)
                    | Type::Logger
                    | Type::Closure
                    | Type::Encoder => Code::atom("true", Type::Bool),
                    Type::Page => Code::atom("true", Type::Bool),
                    Type::Match | Type::Element => Code::new(
                        format!("{} != ()", value.at(strength::EQUAL + 1)),
                        strength::EQUAL,
                        Type::Bool,
                    ),
                    Type::ModelChoices | Type::Model => Code::atom("true", Type::Bool),
                    Type::Object(_) => Code::new(
                        format!("{} != ()", value.at(strength::EQUAL + 1)),
                        strength::EQUAL,
                        Type::Bool,
                    ),
                    _ => {
                        // An empty fallback is as false as `()`.
                        let fallbacks = [" ?? false", " ?? \"\"", " ?? []", " ?? #{}", " ?? 0"];
                        let text = fallbacks.iter().find_map(|fallback| value.text.strip_suffix(fallback));
                        let text = text.filter(|text| !text.contains(['{', '|', '+'])).unwrap_or(&value.text);
                        Code::atom(format!("!empty({text})"), Type::Bool)
                    }
                })
            }
        }
    }

    /// Returns the code of `a or b` or `a and b`.
    fn choice_of(&mut self, op: BoolOp, all: &[Expr]) -> Outcome {
        let codes: Vec<Code> = all.iter().map(|one| self.expr(one)).collect::<Result<_, _>>()?;
        if codes.iter().all(|code| code.kind == Type::Bool) {
            let (mark, level) = match op {
                BoolOp::And => (" && ", strength::AND),
                BoolOp::Or => (" || ", strength::OR),
            };
            let parts: Vec<String> = codes.iter().map(|code| code.at(level)).collect();
            return Ok(Code::new(parts.join(mark), level, Type::Bool));
        }
        let mut codes = codes.into_iter().rev();
        let Some(mut code) = codes.next() else { return Hindrance::err(NoteKind::Python, "an empty choice") };
        for first in codes {
            code = match op {
                BoolOp::Or => either(&first, &code),
                BoolOp::And => {
                    let kind = code.kind.clone().join(first.kind.clone());
                    let condition = match first.kind {
                        Type::Bool => first.text.clone(),
                        _ => format!("!empty({})", first.text),
                    };
                    let otherwise = if first.is_simple() { first.text.clone() } else { "()".to_owned() };
                    Code::new(
                        format!("if {condition} {{ {} }} else {{ {otherwise} }}", code.text),
                        strength::ANY,
                        kind,
                    )
                }
            };
        }
        Ok(code)
    }

    fn compare(&mut self, first: &Expr, others: &[(CompareOp, Expr)]) -> Outcome {
        let mut left = self.expr(first)?;
        let mut parts = Vec::new();
        for (op, right) in others {
            let right = match (op, &right.kind) {
                // `x in d.keys()` equals `x in d`.
                (CompareOp::In | CompareOp::NotIn, ExprKind::Call(of, args)) if args.is_empty() => {
                    match &of.kind {
                        ExprKind::Attribute(of, name) if name == "keys" => self.expr(of)?,
                        _ => self.expr(right)?,
                    }
                }
                _ => self.expr(right)?,
            };
            let left_value = match op {
                CompareOp::In | CompareOp::NotIn => self.as_key(&right, left),
                _ => left,
            };
            parts.push(comparison(*op, &left_value, &right));
            left = right;
        }
        Ok(match parts.as_slice() {
            [one] => one.clone(),
            _ => {
                let parts: Vec<String> = parts.iter().map(|part| part.at(strength::AND)).collect();
                Code::new(parts.join(" && "), strength::AND, Type::Bool)
            }
        })
    }

    /// Returns the code of a value that leaves its variable: as an element, an argument or a result.
    pub(super) fn stored(&mut self, value: &Expr) -> Outcome {
        let code = self.expr(value)?;
        match code.kind {
            // The zone belongs to the variable, and a number of seconds has none.
            Type::Local(_) => Hindrance::err(
                NoteKind::Package,
                "a time of a zone that leaves its variable: format it here, or pass the zone as well",
            ),
            _ => Ok(code),
        }
    }

    fn list(&mut self, all: &[Expr]) -> Outcome {
        let mut parts: Vec<String> = Vec::new();
        let mut codes = Vec::new();
        let mut kind: Option<Type> = None;
        let flush = |codes: &mut Vec<String>, parts: &mut Vec<String>| {
            if !codes.is_empty() {
                parts.push(value::wrapped("[", codes, "]"));
                codes.clear();
            }
        };
        for one in all {
            if let ExprKind::Starred(inner) = &one.kind {
                flush(&mut codes, &mut parts);
                let inner = self.expr(inner)?;
                parts.push(inner.at(strength::ADD + 1));
                kind = Some(Type::Unknown);
                continue;
            }
            let code = self.stored(one)?;
            kind = Some(kind.map_or(code.kind.clone(), |known| known.join(code.kind.clone())));
            codes.push(code.text);
        }
        flush(&mut codes, &mut parts);
        let kind = Type::list_of(kind.unwrap_or(Type::Unknown));
        Ok(match parts.len() {
            0 => Code::atom("[]", kind),
            1 if parts.first().is_some_and(|part| part.starts_with('[')) => Code::atom(parts.join(""), kind),
            1 => Code::new(format!("[] + {}", parts.join("")), strength::ADD, kind),
            _ => Code::new(parts.join(" + "), strength::ADD, kind),
        })
    }

    fn dict(&mut self, entries: &[(Option<Expr>, Expr)]) -> Outcome {
        let mut parts: Vec<String> = Vec::new();
        let mut plain: Vec<String> = Vec::new();
        let mut computed: Vec<(String, String)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for (key, value) in entries {
            let code = self.stored(value)?;
            let Some(key) = key else {
                if !computed.is_empty() {
                    return Hindrance::err(NoteKind::Python, "`**` after computed keys of a map");
                }
                if !plain.is_empty() {
                    parts.push(value::map(&std::mem::take(&mut plain)));
                }
                parts.push(code.at(strength::ADD + 1));
                continue;
            };
            let text = match &key.kind {
                ExprKind::Text(text) => Some(text.clone()),
                ExprKind::Int(number) => Some(number.to_string()),
                ExprKind::Bool(value) => Some(value.to_string()),
                _ => None,
            };
            match text {
                Some(text) => {
                    if seen.insert(text.clone()) {
                        plain.push(format!("{}: {}", names::key(&text), code.text));
                    }
                }
                None => {
                    let key = self.key(key)?;
                    computed.push((key.text, code.text));
                }
            }
        }
        if !plain.is_empty() || parts.is_empty() {
            parts.push(value::map(&plain));
        }
        let sum = parts.join(" + ");
        if computed.is_empty() {
            return Ok(match parts.len() {
                1 if plain.is_empty() && !entries.is_empty() => {
                    Code::new(format!("#{{}} + {sum}"), strength::ADD, Type::Map)
                }
                1 => Code::atom(sum, Type::Map),
                _ => Code::new(sum, strength::ADD, Type::Map),
            });
        }
        let name = self.fresh("map");
        let lines: String =
            computed.iter().map(|(key, value)| format!("{name}[{key}] = {value}; ")).collect();
        Ok(Code::atom(format!("{{ let {name} = {sum}; {lines}{name} }}"), Type::Map))
    }
}

/// Returns why an attribute that lasts longer than a turn has no translation.
pub(super) fn kept(name: &str) -> Hindrance {
    Hindrance::new(
        NoteKind::State,
        format!("`self.{name}`, which the class keeps between calls: keep it in `kv`"),
    )
}

/// Returns the key of an attribute in `state`.
pub(super) fn state_key(name: &str) -> String {
    names::variable(name.trim_start_matches('_'))
}

/// Returns the type of a constant.
pub(super) fn type_of(value: &Value) -> Type {
    match value {
        Value::None => Type::None,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Float(_) => Type::Float,
        Value::Text(_) => Type::Text,
        Value::List(all) => {
            let mut kinds = all.iter().map(type_of);
            let first = kinds.next().unwrap_or(Type::Unknown);
            Type::list_of(kinds.fold(first, Type::join))
        }
        Value::Map(_) => Type::Map,
    }
}

/// Returns the negation of a condition.
pub(super) fn negated(condition: &Code) -> Code {
    if let Some(inner) = condition.text.strip_prefix("!empty(")
        && condition.at(strength::ATOM) == condition.text
        && inner.ends_with(')')
        && is_one_call(inner)
    {
        return Code::atom(format!("empty({inner}"), Type::Bool);
    }
    match condition.text.as_str() {
        "true" => Code::atom("false", Type::Bool),
        "false" => Code::atom("true", Type::Bool),
        text if text.ends_with(" != ()")
            && !text.contains("&&")
            && !text.contains("||")
            && !text.contains(" == ") =>
        {
            Code::new(format!("{} == ()", text.trim_end_matches(" != ()")), strength::EQUAL, Type::Bool)
        }
        _ => Code::new(format!("!{}", condition.at(strength::ATOM)), strength::UNARY, Type::Bool),
    }
}

/// Returns `true` if the last character closes the call's bracket.
fn is_one_call(rest: &str) -> bool {
    let mut depth = 1_usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1 == rest.len();
                }
            }
            _ => {}
        }
    }
    false
}

/// Returns the code of `first or second`.
fn either(first: &Code, second: &Code) -> Code {
    let kind = match (&first.kind, &second.kind) {
        (Type::Unknown, _) => Type::Unknown,
        (a, b) => a.clone().join(b.clone()),
    };
    let is_nothing = matches!(second.text.as_str(), "()" | "\"\"" | "[]" | "#{}" | "0" | "false");
    if is_nothing {
        let kind =
            if first.kind == Type::Unknown && second.kind != Type::Bool { second.kind.clone() } else { kind };
        let kind = if second.kind == Type::None { Type::Unknown } else { kind };
        if first.text.ends_with(&format!(" ?? {}", second.text)) {
            return first.clone().typed(kind);
        }
        let text = format!("{} ?? {}", first.at(strength::COALESCE), second.at(strength::COALESCE + 1));
        return Code::new(text, strength::COALESCE, kind);
    }
    if first.kind == Type::Bool {
        return Code::new(
            format!("if {} {{ true }} else {{ {} }}", first.text, second.text),
            strength::ANY,
            kind,
        );
    }
    if first.is_simple() {
        let text = format!("if empty({0}) {{ {1} }} else {{ {0} }}", first.text, second.text);
        return Code::new(text, strength::ANY, kind);
    }
    let text =
        format!("{{ let value = {}; if empty(value) {{ {} }} else {{ value }} }}", first.text, second.text);
    Code::atom(text, kind)
}

pub(super) fn comparison(op: CompareOp, left: &Code, right: &Code) -> Code {
    let of = |mark: &str, level: u8| {
        Code::new(format!("{} {mark} {}", left.at(level + 1), right.at(level + 1)), level, Type::Bool)
    };
    match op {
        CompareOp::Eq | CompareOp::Is => {
            if left.kind.is_ghost() && right.text == "()" {
                return Code::atom("false", Type::Bool);
            }
            of("==", strength::EQUAL)
        }
        CompareOp::NotEq | CompareOp::IsNot => {
            if left.kind.is_ghost() && right.text == "()" {
                return Code::atom("true", Type::Bool);
            }
            of("!=", strength::EQUAL)
        }
        CompareOp::Less => of("<", strength::COMPARE),
        CompareOp::LessEq => of("<=", strength::COMPARE),
        CompareOp::Greater => of(">", strength::COMPARE),
        CompareOp::GreaterEq => of(">=", strength::COMPARE),
        CompareOp::In => contains(left, right),
        CompareOp::NotIn => negated(&contains(left, right)),
    }
}

fn contains(left: &Code, right: &Code) -> Code {
    match right.kind {
        Type::Model => Code::atom("true", Type::Bool),
        _ => Code::new(
            format!("{} in {}", left.at(strength::IN + 1), right.at(strength::IN + 1)),
            strength::IN,
            Type::Bool,
        ),
    }
}
