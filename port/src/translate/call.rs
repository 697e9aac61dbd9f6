//! Calls of the file's functions and methods.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Owner, Role, Translator};
use crate::code::{Code, call};
use crate::kinds::Type;
use crate::names;
use crate::plugin::of_self;
use crate::python::{Arg, Expr, ExprKind, Function, Param, ParamKind, Star, Stmt, StmtKind};
use crate::report::NoteKind;
use crate::text::last_name;
use crate::value;

impl<'a> Translator<'a> {
    pub(super) fn call(&mut self, of: &Expr, args: &[Arg], line: usize) -> Outcome {
        let arguments = Arguments::of(args);
        let code = self.called(of, &arguments, line)?;
        // What exists only in Python has no options here; a client reads its own.
        match arguments.unread().filter(|_| !code.kind.is_ghost()) {
            Some(left) => {
                let shown = match &of.kind {
                    ExprKind::Attribute(_, name) | ExprKind::Name(name) => name.as_str(),
                    _ => "a call",
                };
                Hindrance::err(NoteKind::Python, format!("{left} of `{shown}`"))
            }
            None => Ok(code),
        }
    }

    fn called(&mut self, of: &Expr, arguments: &Arguments<'_>, line: usize) -> Outcome {
        // `self.method(…)` or `Filter.method(…)`.
        if let Some(name) = of_self(of).or_else(|| self.own_class(of)) {
            return self.own_call(name, arguments);
        }
        if let Some(path) = self.full_path(of) {
            return self.library(&path, arguments, line);
        }
        match &of.kind {
            ExprKind::Name(name) => self.named_call(name, arguments),
            ExprKind::Attribute(of, name) => {
                if let ExprKind::Call(inner, _) = &of.kind
                    && inner.as_name() == Some("super")
                {
                    return self.super_call(name, arguments);
                }
                self.method(of, name, arguments, line)
            }
            _ => {
                let of = self.expr(of)?;
                let args = self.all(arguments, "a call")?;
                Ok(of.method("call", &args, Type::Unknown))
            }
        }
    }

    /// Returns the code that calls a method of a base class.
    fn super_call(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        let objects = &self.plugin.objects;
        let object = match self.scope.role {
            Role::Method(at) => objects.get(at),
            _ => None,
        };
        let mut bases = object.into_iter().flat_map(|object| &object.bases);
        let found = bases.find_map(|base| Some((*base, *objects.get(*base)?.methods.get(name)?)));
        let Some((base, function)) = found else {
            return match name {
                // Classes outside of the file have nothing to prepare.
                "__init__" | "__post_init__" => Ok(Code::atom("()", Type::None)),
                _ => Hindrance::err(NoteKind::Python, format!("`super().{name}()`")),
            };
        };
        if self.scope.is_closure {
            return Hindrance::err(NoteKind::Python, "`self` within a function of a method");
        }
        let args = self.bind(Owner::Object(base), function, arguments, name)?;
        let code = self.use_function(Owner::Object(base), function);
        let called = call(&code, &args, Type::Unknown);
        if name == "__init__" {
            let own = self.overriding_fields(base)?;
            let sum =
                if own.is_empty() { called.text } else { format!("{} + {}", called.text, value::map(&own)) };
            return Ok(Code::atom(format!("this.mixin({sum})"), Type::None));
        }
        Ok(match name {
            _ if is_static(function) => called,
            _ => Code::atom(format!("this.{}", called.text), Type::Unknown),
        })
    }

    /// Returns the entries of the fields whose defaults the class of a method declares anew.
    fn overriding_fields(&mut self, base: usize) -> Outcome<Vec<String>> {
        let (Role::Method(at), plugin) = (self.scope.role, self.plugin) else { return Ok(Vec::new()) };
        let fields = |at: usize| plugin.objects.get(at).into_iter().flat_map(|object| &object.fields);
        let is_declared_anew = |name: &str, default: &Option<&Expr>| {
            fields(base).any(|(other, value)| {
                other == name && value.map(std::ptr::from_ref) != default.map(std::ptr::from_ref)
            })
        };
        let others = fields(at).filter(|(name, default)| !is_declared_anew(name, default));
        let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
        self.field_defaults(at, &others)
    }

    fn own_class<'e>(&self, of: &'e Expr) -> Option<&'e str> {
        match &of.kind {
            ExprKind::Attribute(class, name) if class.as_name() == Some(&self.plugin.class.name) => {
                Some(name)
            }
            _ => None,
        }
    }

    /// Returns the code of each argument, without names.
    pub(super) fn all(&mut self, arguments: &Arguments<'_>, of: &str) -> Outcome<Vec<String>> {
        if !arguments.spread.is_empty() {
            return Hindrance::err(NoteKind::Python, format!("`*` in the arguments of {of}"));
        }
        let all: Vec<&Expr> = arguments
            .positional()
            .iter()
            .copied()
            .chain(arguments.all_named().iter().map(|(_, value)| *value))
            .collect();
        self.texts(&all)
    }

    /// Returns the code that calls a function by name.
    fn named_call(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        if let Some(variable) = self.scope.variables.get(name).cloned() {
            return match variable.kind {
                Type::Emitter => self.event("emit", arguments),
                Type::Caller => self.event("ask", arguments),
                // `soup("a")`.
                Type::Page | Type::Element => {
                    self.page_method(&Code::atom(variable.code, variable.kind), "find_all", arguments)
                }
                _ => {
                    let all = match self.scope.closures.get(name).cloned() {
                        Some(params) => {
                            self.refuse_changed_by_closure(name, arguments)?;
                            self.bind_params(&params.iter().collect::<Vec<_>>(), arguments, name)?
                        }
                        None => self.all(arguments, name)?,
                    };
                    Ok(Code::atom(format!("{}.call({})", variable.code, all.join(", ")), Type::Unknown))
                }
            };
        }
        if let Some(function) = self.plugin.functions.get(name) {
            let function = *function;
            let args = self.bind(Owner::Module, function, arguments, name)?;
            let code = self.use_function(Owner::Module, function);
            return Ok(call(&code, &args, Type::Unknown));
        }
        if let Some(at) = self.plugin.objects.iter().position(|object| object.class.name == name) {
            return self.make(at, arguments);
        }
        match name {
            "Valves" => return Ok(Code::atom("Valves", Type::Valves)),
            "UserValves" => return Ok(Code::atom("__user__.valves", Type::Valves)),
            _ => {}
        }
        self.builtin(name, arguments)
    }

    /// Returns the arguments of a method of the plugin that Python does not pass.
    pub(super) fn passed_on(&self, name: &str) -> Vec<String> {
        let needs = [(&self.needs_user, "__user__"), (&self.needs_state, "state")];
        needs.iter().filter(|(those, _)| those.contains(name)).map(|(_, code)| (*code).to_owned()).collect()
    }

    /// Returns the code that calls a method of the plugin.
    fn own_call(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        if let Role::Method(at) = self.scope.role {
            return self.this_call(at, name, arguments);
        }
        if let Some(function) = self.plugin.methods.get(name) {
            let function = *function;
            let code = self.use_function(Owner::Plugin, function);
            if self.tools.contains(name) {
                let args = self.bind_map(function, arguments)?;
                let all: Vec<String> = [args].into_iter().chain(self.passed_on(name)).collect();
                return Ok(call(&code, &all, Type::Unknown));
            }
            let mut args = self.bind(Owner::Plugin, function, arguments, name)?;
            args.extend(self.passed_on(name));
            return Ok(call(&code, &args, Type::Unknown));
        }
        match name {
            "Valves" => return Ok(Code::atom("Valves", Type::Valves)),
            "UserValves" => return Ok(Code::atom("__user__.valves", Type::Valves)),
            _ => {}
        }
        if let Some(at) = self.plugin.objects.iter().position(|object| object.class.name == name) {
            return self.make(at, arguments);
        }
        let of = self.own_attribute(name)?;
        match of.kind {
            Type::Emitter => self.event("emit", arguments),
            Type::Caller => self.event("ask", arguments),
            _ => {
                let all = self.all(arguments, name)?;
                Ok(of.method("call", &all, Type::Unknown))
            }
        }
    }

    /// Returns the code that calls a method of the same object.
    fn this_call(&mut self, at: usize, name: &str, arguments: &Arguments<'_>) -> Outcome {
        if self.scope.is_closure {
            return Hindrance::err(NoteKind::Python, "`self` within a function of a method");
        }
        let function = self.plugin.objects.get(at).and_then(|object| object.methods.get(name).copied());
        let Some(function) = function else {
            let all = self.all(arguments, name)?;
            return match name {
                name if name.contains("emitter") => self.event("emit", arguments),
                _ => Ok(Code::atom(
                    format!("this.{}.call({})", names::variable(name), all.join(", ")),
                    Type::Unknown,
                )),
            };
        };
        let args = self.bind(Owner::Object(at), function, arguments, name)?;
        let code = self.use_function(Owner::Object(at), function);
        let of = if is_static(function) { String::new() } else { "this.".to_owned() };
        Ok(call(&format!("{of}{code}"), &args, Type::Unknown))
    }

    /// Returns the code that calls a method of an object.
    pub(super) fn object_call(
        &mut self,
        of: &Code,
        at: usize,
        name: &str,
        arguments: &Arguments<'_>,
    ) -> Outcome {
        let function = self.plugin.objects.get(at).and_then(|object| object.methods.get(name).copied());
        let Some(function) = function else {
            return match name {
                "model_dump" | "dict" | "copy" | "model_copy" => Ok(of.method("copy", &[], Type::Map)),
                "model_dump_json" | "json" => {
                    Ok(call("json::stringify", std::slice::from_ref(&of.text), Type::Text))
                }
                _ => Hindrance::err(NoteKind::Method, format!("`.{name}()`")),
            };
        };
        let args = self.bind(Owner::Object(at), function, arguments, name)?;
        let code = self.use_function(Owner::Object(at), function);
        if is_static(function) {
            return Ok(call(&code, &args, Type::Unknown));
        }
        Ok(of.method(&code, &args, Type::Unknown))
    }

    /// Returns the code that creates an object of a class of the file.
    fn make(&mut self, at: usize, arguments: &Arguments<'_>) -> Outcome {
        let Some(object) = self.plugin.objects.get(at) else {
            return Hindrance::err(NoteKind::Python, "an unknown class");
        };
        if object.is_error {
            let message = match arguments.at(0) {
                Some(message) => self.expr(message)?.text,
                None => names::quoted(&object.class.name),
            };
            return Ok(Code::atom(message, Type::Text));
        }
        if object.is_enum {
            return match arguments.at(0) {
                Some(value) => self.expr(value),
                None => Hindrance::err(NoteKind::Python, "a class of constants that is called"),
            };
        }
        if let Some(init) = object.methods.get("__init__").copied() {
            let args = self.bind(Owner::Object(at), init, arguments, &object.class.name)?;
            let code = self.use_function(Owner::Object(at), init);
            return Ok(call(&code, &args, Type::Object(at)));
        }
        let fields = &object.fields;
        let mut entries = Vec::new();
        let mut given: Vec<(&str, &Expr)> = Vec::new();
        for ((name, _), value) in fields.iter().zip(arguments.positional()) {
            given.push((name, value));
        }
        given.extend(arguments.all_named().iter().copied());
        if let [(Star::Map, all)] = arguments.spread.as_slice()
            && given.is_empty()
        {
            return Ok(self.expr(all)?.typed(Type::Object(at)));
        }
        if !arguments.spread.is_empty() {
            return Hindrance::err(NoteKind::Python, "`**` in the fields of an object");
        }
        for (name, value) in &given {
            entries.push(format!("{}: {}", names::key(name), self.expr(value)?.text));
        }
        let given: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        entries.extend(self.field_defaults(at, &given)?);
        Ok(Code::atom(value::map(&entries), Type::Object(at)))
    }

    /// Returns the entries of an object's map for the fields with defaults, other than those given.
    pub(super) fn field_defaults(&mut self, at: usize, given: &[&str]) -> Outcome<Vec<String>> {
        let plugin = self.plugin;
        let fields = plugin.objects.get(at).into_iter().flat_map(|object| &object.fields);
        let mut entries = Vec::new();
        for (name, default) in fields {
            let Some(default) = default.filter(|_| !given.contains(&name.as_str())) else { continue };
            if let Some(code) = self.field_default(default)? {
                entries.push(format!("{}: {code}", names::key(name)));
            }
        }
        Ok(entries)
    }

    /// Returns the code of a field's default; `None` for a field that must be given or exists only in Python.
    fn field_default(&mut self, default: &Expr) -> Outcome<Option<String>> {
        if let Some(value) = value::Value::of(default, &self.plugin.constants) {
            return Ok(Some(value.code()));
        }
        if let ExprKind::Call(of, args) = &default.kind
            && matches!(last_name(&of.path_or_empty()), "field" | "Field")
        {
            let arguments = Arguments::of(args);
            if let Some(factory) = arguments.named("default_factory") {
                return Ok(Some(match (&factory.kind, factory.as_name()) {
                    (_, Some("list" | "set" | "tuple" | "deque")) => "[]".to_owned(),
                    (_, Some("dict" | "defaultdict")) => "#{}".to_owned(),
                    (_, Some("str")) => "\"\"".to_owned(),
                    (_, Some("int")) => "0".to_owned(),
                    (ExprKind::Lambda(_, body), _) => self.expr(body)?.text,
                    _ => self.call(factory, &[], factory.line)?.text,
                }));
            }
            return match arguments.get(0, "default") {
                Some(value) if !matches!(value.kind, ExprKind::Ellipsis) => self.field_default(value),
                _ => Ok(None),
            };
        }
        let code = self.expr(default)?;
        Ok(if code.kind.is_ghost() { None } else { Some(code.text) })
    }

    /// Returns a hindrance for a call of a function of the file that never ends.
    pub(super) fn ends(&self, call: &Expr) -> Outcome<()> {
        let ExprKind::Call(of, _) = &call.kind else { return Ok(()) };
        let plugin = self.plugin;
        let method = of_self(of).and_then(|name| plugin.methods.get(name));
        let function = method.or_else(|| plugin.functions.get(of.as_name()?));
        match function {
            Some(function) if is_endless(&function.body) => Hindrance::err(
                NoteKind::Concurrency,
                format!("`{}`, a task that never ends: `fn tick()` runs periodically", function.name),
            ),
            _ => Ok(()),
        }
    }

    /// Returns the arguments of a call in the order of the function's parameters.
    pub(super) fn bind(
        &mut self,
        owner: Owner,
        function: &'a Function,
        arguments: &Arguments<'_>,
        name: &str,
    ) -> Outcome<Vec<String>> {
        let params = self.params(owner, function);
        for (at, param) in params.iter().enumerate() {
            if let Some(given) = arguments.get(at, &param.name) {
                self.refuse_changed_argument(function, at, &param.name, given)?;
            }
        }
        self.bind_params(&params, arguments, name)
    }

    /// Returns the code of an argument for a function of the file. The host passes the ids in `__metadata__` separately.
    fn passed(&mut self, value: &Expr) -> Outcome<String> {
        let code = self.stored(value)?;
        if code.text == "__metadata__" && matches!(self.scope.role, Role::Hook | Role::Tool) {
            let ids = "#{ chat_id: __chat_id__, message_id: __message_id__ }";
            return Ok(format!("{ids} + __metadata__"));
        }
        Ok(code.text)
    }

    fn bind_params(
        &mut self,
        params: &[&Param],
        arguments: &Arguments<'_>,
        name: &str,
    ) -> Outcome<Vec<String>> {
        if arguments.spread.iter().any(|(star, _)| *star == Star::List) {
            return Hindrance::err(NoteKind::Python, format!("`*` in the arguments of `{name}`"));
        }
        let spread = arguments.spread.first().map(|(_, value)| *value);
        let mut out = Vec::new();
        let mut at = 0;
        for param in params {
            match param.kind {
                ParamKind::List => {
                    let rest: Vec<&Expr> = arguments.positional().iter().skip(at).copied().collect();
                    at = arguments.count();
                    out.push(value::wrapped("[", &self.texts(&rest)?, "]"));
                    continue;
                }
                ParamKind::Map => {
                    let mut entries = Vec::new();
                    for (key, value) in arguments.all_named() {
                        if !params.iter().any(|param| param.name == *key) {
                            entries.push(format!("{}: {}", names::key(key), self.expr(value)?.text));
                        }
                    }
                    let map = value::map(&entries);
                    out.push(match spread {
                        Some(spread) => format!("{map} + {}", self.expr(spread)?.owner()),
                        None => map,
                    });
                    continue;
                }
                ParamKind::Plain => {}
            }
            let value = match arguments.at(at) {
                Some(value) => {
                    at += 1;
                    Some(value)
                }
                None => arguments.named(&param.name),
            };
            let is_ghost = self.param_type(param).is_ghost();
            if is_ghost {
                continue;
            }
            out.push(match (value, &param.default, spread) {
                (Some(value), ..) => self.passed(value)?,
                (None, _, Some(spread)) => {
                    let spread = self.expr(spread)?;
                    spread.property(&names::variable(&param.name), Type::Unknown).text
                }
                (None, Some(default), None) => {
                    if self.keeps_default(param) {
                        return Hindrance::err(
                            NoteKind::State,
                            format!("the default of `{}`, which keeps its changes between calls", param.name),
                        );
                    }
                    self.default_of(default)?
                }
                (None, None, None) => {
                    return Hindrance::err(
                        NoteKind::Python,
                        format!("a call of `{name}` without `{}`", param.name),
                    );
                }
            });
        }
        Ok(out)
    }

    /// Returns `true` for a parameter whose default is a list or map that the function changes.
    pub(super) fn keeps_default(&self, param: &Param) -> bool {
        let is_list = param.default.as_ref().is_some_and(|default| {
            matches!(default.kind, ExprKind::List(_) | ExprKind::Dict(_) | ExprKind::Set(_))
        });
        let mut functions = self.plugin.functions.values().chain(self.plugin.methods.values());
        is_list
            && functions.any(|function| {
                function.params.iter().any(|own| std::ptr::eq(own, param))
                    && crate::plugin::changes(&function.body, &[&param.name], 0)
            })
    }

    fn default_of(&mut self, default: &Expr) -> Outcome<String> {
        match value::Value::of(default, &self.plugin.constants) {
            Some(value) => Ok(value.code()),
            None => Ok(self.expr(default)?.text),
        }
    }

    /// Returns the arguments of a tool as a map literal.
    fn bind_map(&mut self, function: &'a Function, arguments: &Arguments<'_>) -> Outcome<String> {
        if !arguments.spread.is_empty() {
            return Hindrance::err(NoteKind::Python, "`*` in the arguments of a tool");
        }
        let params: Vec<&Param> = self
            .params(Owner::Plugin, function)
            .into_iter()
            .filter(|param| !param.name.starts_with("__"))
            .collect();
        let mut entries = Vec::new();
        for (at, param) in params.iter().enumerate() {
            let code = match (arguments.get(at, &param.name), &param.default) {
                (Some(value), _) => self.expr(value)?.text,
                (None, Some(default)) => self.default_of(default)?,
                (None, None) => continue,
            };
            entries.push(format!("{}: {code}", names::key(&param.name)));
        }
        Ok(value::map(&entries))
    }

    /// Returns the parameters of a function without `self`.
    pub(super) fn params(&self, owner: Owner, function: &'a Function) -> Vec<&'a Param> {
        let skip = usize::from(owner != Owner::Module && !is_static(function) && !function.params.is_empty());
        function.params.iter().skip(skip).collect()
    }

    /// Returns the type of a parameter, if it is known.
    pub(super) fn param_type(&self, param: &Param) -> Type {
        let name = param.name.to_lowercase();
        if name.contains("event_emitter") || name == "emitter" {
            return Type::Emitter;
        }
        if name.contains("event_call") || name == "event_caller" {
            return Type::Caller;
        }
        let annotation = param.annotation.as_ref().and_then(Expr::path).unwrap_or_default();
        let annotation = last_name(&annotation);
        match annotation {
            "ClientSession" | "AsyncClient" | "Session" => return Type::Session(Box::default()),
            "Logger" => return Type::Logger,
            "ClientResponse" | "Response" => return Type::Answer,
            "datetime" => return Type::Time,
            "timedelta" => return Type::Span,
            "Match" => return Type::Match,
            "BeautifulSoup" => return Type::Page,
            "Tag" => return Type::Element,
            "Exception" => return Type::Error,
            "Valves" | "UserValves" => return Type::Unknown,
            _ => {}
        }
        if let Some(at) = self.plugin.objects.iter().position(|object| object.class.name == annotation)
            && !self.plugin.objects.get(at).is_some_and(|object| object.is_enum)
        {
            return Type::Object(at);
        }
        let kind = param.annotation.as_ref().map_or(Type::Unknown, |annotation| {
            crate::schema::Schema::of(annotation, &self.plugin.constants).value_type()
        });
        match kind {
            // Python accepts an integer too, and JSON has one kind of number.
            Type::Float => Type::Unknown,
            // Many annotations of texts and numbers omit `None`.
            Type::Bool
                if param.default.as_ref().is_some_and(|value| matches!(value.kind, ExprKind::None)) =>
            {
                Type::Unknown
            }
            kind => kind,
        }
    }

    /// Returns the code that emits an event or asks the user.
    pub(super) fn event(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        let event = arguments.need(0, name)?;
        let event = self.expr(event)?;
        Ok(call(name, &[event.text], Type::Unknown))
    }
}

/// Returns `true` for a static method.
pub(super) fn is_static(function: &Function) -> bool {
    function.decorators.iter().any(|one| one.as_name() == Some("staticmethod"))
}

/// Returns `true` for a body with a loop `while True` that nothing leaves.
fn is_endless(body: &[Stmt]) -> bool {
    let mut found = false;
    for stmt in body {
        stmt.walk(&mut |stmt| {
            if let StmtKind::While { condition, body, .. } = &stmt.kind
                && matches!(condition.kind, ExprKind::Bool(true) | ExprKind::Int(1))
            {
                let mut leaves = false;
                body.iter().for_each(|inner| {
                    inner.walk(&mut |inner| {
                        leaves |=
                            matches!(inner.kind, StmtKind::Break | StmtKind::Return(_) | StmtKind::Raise(_));
                    });
                });
                found |= !leaves;
            }
        });
    }
    found
}
