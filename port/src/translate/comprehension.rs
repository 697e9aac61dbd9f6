//! Comprehensions and lambdas, which become closures.

use super::context::{Hindrance, Outcome, Translator, Variable};
use crate::code::{Code, strength};
use crate::kinds::Type;
use crate::names;
use crate::python::{Comprehension, Expr, ExprKind, Param};
use crate::report::NoteKind;

impl Translator<'_> {
    /// Runs a step with additional variables that exist only within it.
    pub(super) fn with_variables<T>(
        &mut self,
        variables: Vec<(String, Variable)>,
        step: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<T> {
        let outer = self.scope.variables.clone();
        self.scope.variables.extend(variables);
        let was = std::mem::replace(&mut self.scope.is_closure, true);
        let result = step(self);
        self.scope.is_closure = was;
        self.scope.variables = outer;
        result
    }

    pub(super) fn lambda(&mut self, params: &[Param], body: &Expr) -> Outcome {
        if params.iter().any(|param| param.default.is_some()) {
            return Hindrance::err(NoteKind::Python, "a `lambda` whose parameter has a default");
        }
        let variables = params.iter().map(|param| {
            let code = names::variable(&param.name);
            (param.name.clone(), Variable { code, kind: Type::Unknown })
        });
        let variables: Vec<_> = variables.collect();
        let names: Vec<String> = variables.iter().map(|(_, variable)| variable.code.clone()).collect();
        let body = self.with_variables(variables, |translator| translator.expr(body))?;
        let bars = if names.is_empty() { "||".to_owned() } else { format!("|{}|", names.join(", ")) };
        Ok(Code::new(format!("{bars} {}", body.text), strength::ANY, Type::Closure))
    }

    /// Returns a closure of one parameter; a loop target of several names is unpacked inside it.
    fn closure(
        &mut self,
        target: &Expr,
        element: &Type,
        step: impl FnOnce(&mut Self) -> Outcome<Code>,
    ) -> Outcome<(String, Code)> {
        match &target.kind {
            ExprKind::Name(name) => {
                let code = self.free_name(name);
                let variable = Variable { code: code.clone(), kind: element.clone() };
                let body = self.with_variables(vec![(name.clone(), variable)], step)?;
                Ok((format!("|{code}| {}", body.text), body))
            }
            ExprKind::Tuple(all) => {
                let entry = self.fresh("entry");
                let mut variables = Vec::new();
                for (at, one) in all.iter().enumerate() {
                    let Some(name) = one.as_name() else {
                        return Hindrance::err(NoteKind::Python, "nested names of a comprehension");
                    };
                    variables.push((
                        name.to_owned(),
                        Variable { code: format!("{entry}[{at}]"), kind: Type::Unknown },
                    ));
                }
                let body = self.with_variables(variables, step)?;
                Ok((format!("|{entry}| {}", body.text), body))
            }
            _ => Hindrance::err(NoteKind::Python, "the names of a comprehension"),
        }
    }

    /// Returns the code of a name inside a closure, which differs from the code of each outer variable.
    fn free_name(&self, name: &str) -> String {
        let mut code = names::variable(name);
        while self.scope.variables.iter().any(|(other, variable)| other != name && variable.code == code) {
            code.push('_');
        }
        code
    }

    /// Returns the iterable of a comprehension as a list, with the type of its elements.
    fn source(&mut self, of: &Comprehension) -> Outcome {
        if let ExprKind::Call(function, args) = &of.iter.kind {
            if let ExprKind::Attribute(map, name) = &function.kind
                && name == "items"
                && args.is_empty()
            {
                let map = self.expr(map)?;
                return Ok(entries(&map));
            }
            if function.as_name() == Some("enumerate")
                && let [list] = args.as_slice()
            {
                let list = self.elements(&list.value)?;
                let code = format!("{}.map(|one, at| [at, one])", list.owner());
                return Ok(Code::atom(code, Type::list_of(Type::list())));
            }
            if function.as_name() == Some("range") {
                let range = self.expr(&of.iter)?;
                let code =
                    format!("{{ let numbers = []; for n in {} {{ numbers.push(n); }} numbers }}", range.text);
                return Ok(Code::atom(code, Type::list_of(Type::Int)));
            }
        }
        let source = self.elements(&of.iter)?;
        match source.kind {
            Type::Stream => Hindrance::err(NoteKind::Python, "a comprehension over a streamed answer"),
            _ => Ok(source),
        }
    }

    pub(super) fn list_of(&mut self, value: &Expr, of: &[Comprehension]) -> Outcome {
        let Some((first, rest)) = of.split_first() else {
            return Hindrance::err(NoteKind::Python, "an empty comprehension");
        };
        if !rest.is_empty() {
            // Nested loops produce nested lists, which are concatenated.
            let source = self.filtered(first)?;
            let element = source.kind.element();
            let (inner, body) =
                self.closure(&first.target, &element, |translator| translator.list_of(value, rest))?;
            let code = format!("{}.map({inner}).reduce(|all, some| all + some, [])", source.owner());
            return Ok(Code::atom(code, body.kind));
        }
        let source = self.filtered(first)?;
        if value.as_name().is_some() && value.as_name() == first.target.as_name() {
            return Ok(source);
        }
        let element = source.kind.element();
        let (closure, body) = self.closure(&first.target, &element, |translator| translator.expr(value))?;
        Ok(source.method("map", &[closure], Type::list_of(body.kind)))
    }

    /// Returns the iterable of a comprehension, filtered by its conditions.
    pub(super) fn filtered(&mut self, of: &Comprehension) -> Outcome {
        let mut source = self.source(of)?;
        for condition in &of.conditions {
            let mut is_assigning = false;
            condition.walk(&mut |inner| is_assigning |= matches!(inner.kind, ExprKind::Walrus(..)));
            if is_assigning {
                // All conditions are tested before the first value is computed.
                return Hindrance::err(NoteKind::Python, "`:=` in the condition of a comprehension");
            }
            let element = source.kind.element();
            let (closure, _) =
                self.closure(&of.target, &element, |translator| translator.condition(condition))?;
            let kind = source.kind.clone();
            source = source.method("filter", &[closure], kind);
        }
        Ok(source)
    }

    /// Returns the code of `any(…)` or `all(…)` over a generator.
    pub(super) fn quantified(&mut self, name: &str, value: &Expr, of: &[Comprehension]) -> Outcome {
        let method = if name == "any" { "some" } else { "all" };
        let Some((first, rest)) = of.split_first() else {
            return Hindrance::err(NoteKind::Python, "an empty generator");
        };
        let source = self.filtered(first)?;
        let element = source.kind.element();
        let (closure, _) = self.closure(&first.target, &element, |translator| {
            if rest.is_empty() {
                translator.condition(value)
            } else {
                translator.quantified(name, value, rest)
            }
        })?;
        Ok(source.method(method, &[closure], Type::Bool).optional(false))
    }

    /// Returns the code of a generator's first element, which is `()` if there is none.
    pub(super) fn first_of(&mut self, value: &Expr, of: &[Comprehension]) -> Outcome {
        let [only] = of else { return Hindrance::err(NoteKind::Python, "`next` over nested loops") };
        let source = self.source(only)?;
        let element = source.kind.element();
        let found = match only.conditions.as_slice() {
            [] => source.method("get", &["0".to_owned()], element.clone()),
            conditions => {
                let (closure, _) = self.closure(&only.target, &element, |translator| {
                    let parts = conditions
                        .iter()
                        .map(|one| Ok(translator.condition(one)?.at(strength::AND)))
                        .collect::<Outcome<Vec<_>>>()?;
                    Ok(Code::new(parts.join(" && "), strength::AND, Type::Bool))
                })?;
                source.method("find", &[closure], element.clone())
            }
        };
        if value.as_name().is_some() && value.as_name() == only.target.as_name() {
            return Ok(found);
        }
        // The expression of the generator, evaluated only if an element was found.
        let (closure, body) = self.closure(&only.target, &element, |translator| translator.expr(value))?;
        let name = self.fresh("found");
        let code = format!(
            "{{ let {name} = {}; if {name} == () {{ () }} else {{ ({closure}).call({name}) }} }}",
            found.text
        );
        Ok(Code::atom(code, body.kind))
    }

    pub(super) fn dict_of(&mut self, key: &Expr, value: &Expr, of: &[Comprehension]) -> Outcome {
        let [only] = of else { return Hindrance::err(NoteKind::Python, "a map of nested loops") };
        let source = self.filtered(only)?;
        let element = source.kind.element();
        let name = self.fresh("map");
        let (target, pairs) = match &only.target.kind {
            ExprKind::Name(target) => {
                let code = self.free_name(target);
                (code.clone(), vec![(target.clone(), Variable { code, kind: element })])
            }
            ExprKind::Tuple(all) => {
                let entry = self.fresh("entry");
                let mut pairs = Vec::new();
                for (at, one) in all.iter().enumerate() {
                    let Some(target) = one.as_name() else {
                        return Hindrance::err(NoteKind::Python, "nested names of a comprehension");
                    };
                    pairs.push((
                        target.to_owned(),
                        Variable { code: format!("{entry}[{at}]"), kind: Type::Unknown },
                    ));
                }
                (entry, pairs)
            }
            _ => return Hindrance::err(NoteKind::Python, "the names of a comprehension"),
        };
        let was_closure = self.scope.is_closure;
        let (key, value) = self.with_variables(pairs, |translator| {
            translator.scope.is_closure = was_closure;
            Ok((translator.expr(key)?, translator.expr(value)?))
        })?;
        let key = if key.kind == Type::Text { key.text } else { format!("`${{{}}}`", key.text) };
        let code = format!(
            "{{ let {name} = #{{}}; for {target} in {} {{ {name}[{key}] = {}; }} {name} }}",
            source.owner(),
            value.text
        );
        Ok(Code::atom(code, Type::Map))
    }
}

/// Returns the entries of a map as a list of pairs.
pub(super) fn entries(map: &Code) -> Code {
    let kind = Type::list_of(Type::list());
    if map.is_simple() {
        return Code::atom(format!("{0}.keys().map(|key| [key, {0}[key]])", map.owner()), kind);
    }
    Code::atom(format!("{{ let map = {}; map.keys().map(|key| [key, map[key]]) }}", map.text), kind)
}
