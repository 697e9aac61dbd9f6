//! Assignments to variables, attributes, elements and tuples of them.

use super::context::{Hindrance, Outcome, Role, Translator, Variable};
use crate::code::{Code, strength};
use crate::kinds::Type;
use crate::names;
use crate::plugin::{Attribute, of_self};
use crate::python::{BinaryOp, Expr, ExprKind, Stmt};
use crate::report::NoteKind;
use crate::scope;

impl Translator<'_> {
    pub(super) fn assign(&mut self, stmt: &Stmt, targets: &[Expr], value: &Expr) -> Outcome<()> {
        if let ExprKind::Yield(_) = value.awaited().kind {
            return Hindrance::err(NoteKind::Python, "`yield` as a value");
        }
        if let [target] = targets
            && let (ExprKind::Tuple(names) | ExprKind::List(names), ExprKind::Tuple(values)) =
                (&target.kind, &value.kind)
            && names.len() == values.len()
            && !names.iter().chain(values).any(|one| matches!(one.kind, ExprKind::Starred(_)))
        {
            return self.assign_each(stmt, names, values);
        }
        let name = targets.first().and_then(Expr::as_name);
        self.scope.wants_stream = name.is_some_and(|name| self.scope.streamed.contains(name));
        let code = self.expr(value);
        self.scope.wants_stream = false;
        let code = code?;
        if let Some(name) = name {
            self.note_live(name, value);
        }
        self.refuse_added(value)?;
        match targets {
            [target] if !matches!(value.kind, ExprKind::Name(_)) || target.as_name().is_none() => {
                let is_element = !matches!(target.kind, ExprKind::Name(_));
                if !(is_element && value.as_name().is_some()) {
                    self.refuse_stored(stmt.line, value)?;
                }
                for name in super::aliases::names_in(target) {
                    self.refuse_second_name(stmt.line, name, value, &code.kind)?;
                }
            }
            all => {
                for target in all.iter().filter_map(Expr::as_name) {
                    self.refuse_second_name(stmt.line, target, value, &code.kind)?;
                    if all.len() > 1 {
                        self.refuse_two_names(stmt.line, target, value, &code.kind)?;
                    }
                }
            }
        }
        if self.reads_line(value) {
            for target in targets {
                target
                    .walk(&mut |inner| self.scope.line_variables.extend(inner.as_name().map(str::to_owned)));
            }
        }
        match targets {
            [target] => {
                let default = self.missing_value(value);
                let second = self.second_name(stmt, target, value, &code)?;
                self.assign_to(stmt, target, code)?;
                if let Some(source) = second {
                    // The host's value is a reference, as in Python.
                    let place = self.expr(target)?;
                    self.emit(&format!("{source} = {};", place.text));
                }
                if let Some(variable) = name.and_then(|name| self.scope.variables.get(name)) {
                    match default {
                        Some(default) => self.scope.defaults.insert(variable.code.clone(), default),
                        None => self.scope.defaults.remove(&variable.code),
                    };
                }
                Ok(())
            }
            _ => {
                // `a = b = value`.
                let is_literal =
                    code.is_simple() || matches!(code.text.as_str(), "()" | "[]" | "#{}" | "\"\"");
                let code = if is_literal {
                    code
                } else {
                    let name = self.fresh("value");
                    self.emit(&format!("let {name} = {};", code.text));
                    Code::atom(name, code.kind)
                };
                targets.iter().try_for_each(|target| self.assign_to(stmt, target, code.clone()))
            }
        }
    }

    /// Returns the code of a variable whose list or map becomes part of the host's value, if it changes later. A change
    /// of a value that is part of another value of the script is left to the author.
    fn second_name(
        &mut self,
        stmt: &Stmt,
        target: &Expr,
        value: &Expr,
        code: &Code,
    ) -> Outcome<Option<String>> {
        let (ExprKind::Index(of, _) | ExprKind::Attribute(of, _), Some(source)) =
            (&target.kind, value.as_name())
        else {
            return Ok(None);
        };
        let is_changed = self.may_be_copied(source)
            && !self.scope.live.contains(source)
            && self
                .changes_after(stmt.line, source, &|changed| super::aliases::base(changed) == Some(source));
        if !is_changed || code.kind.is_ghost() {
            return Ok(None);
        }
        if !self.is_live(of) {
            return Hindrance::err(
                NoteKind::State,
                format!("a second name of `{source}`, which changes later: lists and maps are copied here"),
            );
        }
        self.scope.live.insert(source.to_owned());
        Ok(Some(code.text.clone()))
    }

    /// Returns `true` for a call that receives a line of a streamed response, which its result may contain.
    fn reads_line(&self, value: &Expr) -> bool {
        let ExprKind::Call(..) = &value.awaited().kind else { return false };
        let mut found = false;
        value.walk(&mut |inner| {
            found |= inner.as_name().is_some_and(|name| self.scope.line_variables.contains(name));
        });
        found
    }

    /// Translates `a, b = c, d`.
    fn assign_each(&mut self, stmt: &Stmt, targets: &[Expr], values: &[Expr]) -> Outcome<()> {
        let codes: Vec<Code> = values.iter().map(|value| self.expr(value)).collect::<Result<_, _>>()?;
        for ((target, value), code) in targets.iter().zip(values).zip(&codes) {
            if let Some(name) = target.as_name() {
                self.refuse_second_name(stmt.line, name, value, &code.kind)?;
            }
        }
        let is_independent = targets.iter().enumerate().all(|(at, target)| {
            target.as_name().is_some_and(|name| {
                values.iter().skip(at + 1).all(|value| {
                    let mut is_used = false;
                    value.walk(&mut |inner| is_used |= inner.as_name() == Some(name));
                    !is_used
                })
            })
        });
        if is_independent {
            return targets
                .iter()
                .zip(codes)
                .try_for_each(|(target, code)| self.assign_to(stmt, target, code));
        }
        let mut held = Vec::new();
        for code in codes {
            let name = self.fresh("held");
            self.emit(&format!("let {name} = {};", code.text));
            self.scope
                .variables
                .insert(format!("{name} "), Variable { code: name.clone(), kind: code.kind.clone() });
            held.push(Code::atom(name, code.kind));
        }
        targets.iter().zip(held).try_for_each(|(target, code)| self.assign_to(stmt, target, code))
    }

    /// Assigns to a variable, an attribute, an element or a tuple of them.
    pub(super) fn assign_to(&mut self, stmt: &Stmt, target: &Expr, code: Code) -> Outcome<()> {
        if matches!(code.kind, Type::Local(_)) && target.as_name().is_none() {
            return Hindrance::err(
                NoteKind::Package,
                "a time of a zone that leaves its variable: format it here, or keep the zone as well",
            );
        }
        match &target.kind {
            ExprKind::Name(name) => self.assign_name(stmt, name, code),
            ExprKind::Tuple(all) | ExprKind::List(all) => self.unpack(stmt, all, code),
            ExprKind::Starred(inner) => self.assign_to(stmt, inner, code),
            ExprKind::Attribute(of, name) => {
                if let Some(name) = of_self(target) {
                    return self.assign_own(name, &code);
                }
                if of_self(of) == Some("valves") {
                    return Hindrance::err(
                        NoteKind::Settings,
                        "settings that the plugin changes: keep data in `kv`",
                    );
                }
                let of = self.owner(of)?;
                if of.kind.is_ghost() || code.kind.is_ghost() {
                    return Ok(());
                }
                self.emit(&format!("{} = {};", of.property(name, Type::Unknown).text, code.text));
                Ok(())
            }
            ExprKind::Index(of, index) => {
                if matches!(index.kind, ExprKind::Slice(None, None, None)) {
                    let of = self.owner(of)?;
                    self.emit(&format!("{}.clear();", of.text));
                    self.emit(&format!("{} += {};", of.text, code.text));
                    return Ok(());
                }
                if matches!(index.kind, ExprKind::Slice(..)) {
                    return Hindrance::err(NoteKind::Python, "an assignment to a slice");
                }
                if self.full_path(of).is_some() {
                    return Hindrance::err(NoteKind::Os, "an environment variable that the plugin sets");
                }
                let of = self.owner(of)?;
                let place = match index.as_text() {
                    Some(key) if names::is_key(key) => format!("{}.{key}", of.owner()),
                    Some(key) => format!("{}[{}]", of.owner(), names::quoted(key)),
                    None => format!("{}[{}]", of.owner(), self.key_for(&of, index)?.text),
                };
                self.emit(&format!("{place} = {};", code.text));
                Ok(())
            }
            _ => Hindrance::err(NoteKind::Python, "an assignment to this expression"),
        }
    }

    /// Leaves a change of a value of the module, which all calls share, to the author.
    pub(super) fn refuse_shared(&self, of: &Expr) -> Outcome<()> {
        match super::method::base_name(of) {
            Some(name)
                if !self.scope.variables.contains_key(name)
                    && (self.plugin.constants.contains_key(name)
                        || self.plugin.computed.contains_key(name)) =>
            {
                let text = format!("`{name}`, which all calls share: keep data in `kv`");
                Hindrance::err(NoteKind::State, text)
            }
            _ => Ok(()),
        }
    }

    /// Returns the code of the receiver of a change: a variable with a path of fields and elements.
    pub(super) fn owner(&mut self, of: &Expr) -> Outcome {
        self.refuse_shared(of)?;
        if let Some(filled) = self.filled(of)? {
            return Ok(filled);
        }
        let code = match &of.kind {
            ExprKind::Index(inner, index) if !matches!(index.kind, ExprKind::Slice(..)) => {
                let inner = self.owner(inner)?;
                let literal = index.as_text();
                let mut key = self.key_for(&inner, index)?;
                let default = self.scope.defaults.get(&inner.text).cloned();
                if default.is_some() && literal.is_none() && !key.is_simple() {
                    let name = self.fresh("key");
                    self.emit(&format!("let {name} = {};", key.text));
                    key = Code::atom(name, key.kind);
                }
                let element = match literal {
                    Some(literal) => self.key_of_map(&inner, literal)?,
                    None => inner.index(&key.text, inner.kind.element()),
                };
                if let Some(default) = default {
                    self.emit(&format!(
                        "if !({} in {}) {{ {} = {default}; }}",
                        key.at(strength::IN + 1),
                        inner.at(strength::IN + 1),
                        element.text
                    ));
                }
                element
            }
            ExprKind::Call(function, args) => {
                // The result of a call is changed through a variable.
                if let ExprKind::Attribute(map, name) = &function.kind
                    && name == "get"
                    && self.full_path(function).is_none()
                    && let Some(key) = args.first().and_then(|key| key.value.as_text())
                {
                    let map = self.owner(map)?;
                    return self.key_of_map(&map, key);
                }
                let code = self.expr(of)?;
                let name = self.fresh("changed");
                self.emit(&format!("let {name} = {};", code.text));
                return Ok(Code::atom(name, code.kind));
            }
            _ => {
                let code = self.expr(of)?;
                // The result of a property is changed through a variable.
                if code.text.ends_with(')') && !code.kind.is_ghost() && crate::plugin::of_self(of).is_some() {
                    let name = self.fresh("changed");
                    self.emit(&format!("let {name} = {};", code.text));
                    Code::atom(name, code.kind)
                } else {
                    code
                }
            }
        };
        Ok(code.optional(false))
    }

    fn assign_name(&mut self, stmt: &Stmt, name: &str, code: Code) -> Outcome<()> {
        let is_declared = self.scope.variables.contains_key(name);
        let declares =
            self.scope.declarations.at.get(&scope::place(stmt)).is_some_and(|names| names.contains(name));
        if !is_declared && !declares && !self.scope.is_inferring {
            return Hindrance::err(
                NoteKind::State,
                format!("`{name}`, which all calls share: keep data in `kv`"),
            );
        }
        if let Some(other) = self.scope.joined.get(name)
            && !self.scope.is_inferring
            && matches!(code.kind, Type::Local(_))
            && *other != code.kind
        {
            return Hindrance::err(NoteKind::Package, format!("`{name}`, a time of one of several zones"));
        }
        let kind = self.note_type(name, code.kind.clone());
        if code.kind.is_ghost() {
            self.scope.variables.insert(name.to_owned(), Variable { code: "()".to_owned(), kind: code.kind });
            return Ok(());
        }
        let variable = match self.scope.variables.get(name) {
            Some(known) if !declares && known.code != "()" => known.code.clone(),
            _ => self.code_name(name),
        };
        let is_ghost_before = self.scope.variables.get(name).is_some_and(|known| known.code == "()");
        let word = if declares || is_ghost_before { "let " } else { "" };
        self.emit(&format!("{word}{variable} = {};", code.text));
        if matches!(code.kind, Type::Int | Type::Unknown) && code.text.contains('-') {
            self.scope.signed.insert(variable.clone());
        }
        self.scope.variables.insert(name.to_owned(), Variable { code: variable, kind });
        Ok(())
    }

    /// Records the type of a variable and returns the type to use from here on.
    pub(super) fn note_type(&mut self, name: &str, kind: Type) -> Type {
        if self.scope.is_inferring {
            let known = self.scope.joined.remove(name);
            let joined = known.map_or(kind.clone(), |known| known.join(kind.clone()));
            self.scope.joined.insert(name.to_owned(), joined);
        }
        let kind = match kind {
            Type::Bool | Type::Int | Type::Float | Type::None => {
                self.scope.joined.get(name).cloned().unwrap_or(kind)
            }
            other => other,
        };
        if let Some(variable) = self.scope.variables.get_mut(name) {
            variable.kind = kind.clone();
        }
        kind
    }

    fn unpack(&mut self, stmt: &Stmt, targets: &[Expr], code: Code) -> Outcome<()> {
        let element = code.kind.element();
        let code = if code.is_simple() && !targets.iter().any(|target| target.as_name() == Some(&code.text)) {
            code
        } else {
            let name = self.fresh("parts");
            self.emit(&format!("let {name} = {};", code.text));
            self.scope
                .variables
                .insert(format!("{name} "), Variable { code: name.clone(), kind: Type::list() });
            Code::atom(name, code.kind)
        };
        let star = targets.iter().position(|target| matches!(target.kind, ExprKind::Starred(_)));
        for (at, target) in targets.iter().enumerate() {
            let behind = targets.len() - at;
            let part = match star {
                Some(star) if star == at => {
                    let count = format!("{}.len() - {}", code.text, targets.len() - 1);
                    code.method("extract", &[at.to_string(), count], code.kind.clone())
                }
                Some(star) if star < at => code.index(&format!("-{behind}"), element.clone()),
                _ => code.index(&at.to_string(), element.clone()),
            };
            self.assign_to(stmt, target, part)?;
        }
        Ok(())
    }

    /// Translates `self.name = value`.
    fn assign_own(&mut self, name: &str, code: &Code) -> Outcome<()> {
        let methods = match self.scope.role {
            Role::Method(at) => self.plugin.objects.get(at).map(|object| &object.methods),
            _ => Some(&self.plugin.methods),
        };
        if methods.is_some_and(|methods| methods.contains_key(name)) {
            return Hindrance::err(
                NoteKind::Python,
                format!("`self.{name}`, which is a method: an assignment"),
            );
        }
        if let Role::Method(_) = self.scope.role {
            if self.scope.is_closure {
                return Hindrance::err(NoteKind::Python, "`self` within a function of a method");
            }
            let value = match code.kind {
                // An emitter is always present.
                Type::Emitter | Type::Caller => "true",
                ref kind if kind.is_ghost() => "()",
                _ => &code.text,
            };
            self.emit(&format!("this.{} = {value};", names::variable(name)));
            return Ok(());
        }
        match name {
            // The host fills in the settings.
            "valves" | "user_valves" if code.kind == Type::Valves => return Ok(()),
            "valves" | "user_valves" => {
                return Hindrance::err(
                    NoteKind::Settings,
                    "settings that the plugin changes: keep data in `kv`",
                );
            }
            _ => {}
        }
        match self.plugin.attributes.get(name) {
            Some(Attribute::Constant(_)) => Ok(()),
            _ if code.kind.is_ghost() => Ok(()),
            Some(Attribute::Kept) => Err(super::expression::kept(name)),
            _ => {
                self.emit(&format!("state.{} = {};", super::expression::state_key(name), code.text));
                Ok(())
            }
        }
    }

    pub(super) fn augment(&mut self, target: &Expr, op: BinaryOp, value: &Expr) -> Outcome<()> {
        if of_self(target) == Some("valves")
            || matches!(&target.kind, ExprKind::Attribute(of, _) if of_self(of) == Some("valves"))
        {
            return Hindrance::err(NoteKind::Settings, "settings that the plugin changes: keep data in `kv`");
        }
        let value = self.expr(value)?;
        if let Some(name) = target.as_name()
            && !self.scope.variables.contains_key(name)
        {
            return Hindrance::err(
                NoteKind::State,
                format!("`{name}`, which all calls share: keep data in `kv`"),
            );
        }
        let place = match &target.kind {
            ExprKind::Index(..) => self.owner(target)?,
            ExprKind::Attribute(of, name) if of_self(target).is_none() => {
                let of = self.owner(of)?;
                self.property_of(&of, name)?
            }
            _ => self.expr(target)?,
        };
        let mark = match op {
            BinaryOp::Add => "+=",
            BinaryOp::Sub if !matches!(place.kind, Type::List(_)) => "-=",
            BinaryOp::Mul if !matches!(place.kind, Type::Text) => "*=",
            BinaryOp::Mod => "%=",
            _ => {
                let result = self.operate(op, &place, &value)?;
                self.emit(&format!("{} = {};", place.text, result.text));
                return Ok(());
            }
        };
        if let Some(name) = target.as_name() {
            let joined = place.kind.clone().join(value.kind.clone());
            let joined = if place.kind == Type::Text { Type::Text } else { joined };
            self.note_type(name, joined);
        }
        let value = if op == BinaryOp::Mul { value.at(strength::MULTIPLY + 1) } else { value.text };
        self.emit(&format!("{} {mark} {value};", place.text));
        Ok(())
    }
}
