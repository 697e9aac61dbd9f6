//! Python's built-in functions.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator};
use super::helper::Helper;
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::names;
use crate::plugin::of_self;
use crate::python::{Expr, ExprKind};
use crate::report::NoteKind;
use crate::text::last_name;

impl Translator<'_> {
    pub(super) fn builtin(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        if !arguments.spread.is_empty() && !matches!(name, "print" | "max" | "min") {
            return Hindrance::err(NoteKind::Python, format!("`*` in the arguments of `{name}`"));
        }
        match name {
            "len" => {
                let value = arguments.need(0, name)?;
                // `len(text.encode())` is the number of bytes.
                if let ExprKind::Call(of, _) = &value.kind
                    && let ExprKind::Attribute(text, method) = &of.kind
                    && method == "encode"
                    && !matches!(self.kind_of(text), Type::Encoder)
                {
                    return Ok(self.expr(text)?.property("bytes", Type::Int));
                }
                let value = self.expr(value)?;
                if value.kind == Type::Tokens {
                    return Ok(call("tokens::count", &[value.text], Type::Int));
                }
                Ok(value.method("len", &[], Type::Int).optional(false))
            }
            "str" => match arguments.at(0) {
                None => Ok(Code::atom("\"\"", Type::Text)),
                Some(value) => {
                    let value = self.expr(value)?;
                    let value = super::format::as_text(value);
                    Ok(match value.kind {
                        Type::Text => value,
                        Type::Error => value.property("message", Type::Text),
                        Type::Uuid | Type::Day => value.typed(Type::Text),
                        _ => Code::atom(format!("`${{{}}}`", value.text.replace('\n', " ")), Type::Text),
                    })
                }
            },
            "repr" | "ascii" => {
                let value = self.expr(arguments.need(0, name)?)?;
                if value.kind == Type::Error {
                    return Ok(value.property("message", Type::Text));
                }
                Ok(call("json::stringify", &[value.text], Type::Text))
            }
            "int" => {
                let Some(value) = arguments.at(0) else { return Ok(Code::atom("0", Type::Int)) };
                let value = self.expr(value)?;
                if let Some(base) = arguments.get(1, "base") {
                    let base = self.expr(base)?;
                    return Ok(call("parse_int", &[value.text, base.text], Type::Int));
                }
                if value.text == "time::unix_ms() / 1000.0" {
                    return Ok(call("time::unix", &[], Type::Int));
                }
                Ok(match value.kind {
                    Type::Int | Type::Time | Type::Local(_) => value,
                    Type::Text => call("parse_int", &[value.text], Type::Int),
                    Type::Float | Type::Span => value.method("to_int", &[], Type::Int),
                    _ => {
                        let name = self.helper(Helper::ToInteger);
                        call(name, &[value.text], Type::Int)
                    }
                })
            }
            "float" => {
                let Some(value) = arguments.at(0) else { return Ok(Code::atom("0.0", Type::Float)) };
                if let ExprKind::Text(text) = &value.kind {
                    match text.trim_start_matches(['+', '-']).to_lowercase().as_str() {
                        "inf" | "infinity" => {
                            let sign = if text.starts_with('-') { "-" } else { "" };
                            return Ok(Code::new(format!("{sign}1.0e308"), strength::UNARY, Type::Float));
                        }
                        _ => {}
                    }
                }
                let value = self.expr(value)?;
                Ok(match value.kind {
                    Type::Float => value,
                    Type::Text => call("parse_float", &[value.text], Type::Float),
                    Type::Int => value.method("to_float", &[], Type::Float),
                    _ => {
                        let name = self.helper(Helper::ToFloat);
                        call(name, &[value.text], Type::Float)
                    }
                })
            }
            "bool" => match arguments.at(0) {
                None => Ok(Code::atom("false", Type::Bool)),
                Some(value) => self.condition(value),
            },
            "list" | "tuple" | "iter" => match arguments.at(0) {
                None => Ok(Code::atom("[]", Type::list())),
                Some(value) => self.elements(value),
            },
            "set" | "frozenset" => match arguments.at(0) {
                None => Ok(Code::atom("[]", Type::list())),
                Some(value) => {
                    let list = self.elements(value)?;
                    let name = self.helper(Helper::Unique);
                    Ok(call(name, &[list.text], list.kind))
                }
            },
            "dict" => {
                let mut entries = Vec::new();
                for (key, value) in arguments.all_named() {
                    entries.push(format!("{}: {}", names::key(key), self.expr(value)?.text));
                }
                match arguments.at(0) {
                    None => Ok(Code::atom(crate::value::map(&entries), Type::Map)),
                    Some(Expr { kind: ExprKind::Call(of, inner), .. }) if of.as_name() == Some("zip") => {
                        let zipped = Arguments::of(inner);
                        let (keys, values) =
                            (self.expr(zipped.need(0, "zip")?)?, self.expr(zipped.need(1, "zip")?)?);
                        let code = format!(
                            "{{ let map = #{{}}; let values = {}; for (key, at) in {} {{ map[key] = values[at]; }} map }}",
                            values.text, keys.text
                        );
                        Ok(Code::atom(code, Type::Map))
                    }
                    Some(value) => {
                        let value = self.expr(value)?;
                        if !entries.is_empty() {
                            let sum =
                                format!("{} + {}", value.at(strength::ADD), crate::value::map(&entries));
                            return Ok(Code::new(sum, strength::ADD, Type::Map));
                        }
                        match value.kind {
                            Type::List(_) => {
                                let from_pairs = self.helper(Helper::FromPairs);
                                Ok(call(from_pairs, &[value.text], Type::Map))
                            }
                            _ => Ok(value.method("copy", &[], Type::Map)),
                        }
                    }
                }
            }
            "range" => self.range(arguments),
            "sorted" => self.sorted(arguments),
            "reversed" => {
                let list = self.elements(arguments.need(0, name)?)?;
                let name = self.helper(Helper::Reversed);
                Ok(call(name, &[list.text], list.kind))
            }
            "sum" => {
                let list = self.as_list(arguments.need(0, name)?)?;
                let kind = match list.kind.element() {
                    Type::Float => Type::Float,
                    Type::Int => Type::Int,
                    _ => Type::Unknown,
                };
                if list.kind.element() == Type::Bool {
                    return Ok(list.method("filter", &["|one| one".to_owned()], list.kind.clone()).method(
                        "len",
                        &[],
                        Type::Int,
                    ));
                }
                let name = self.helper(Helper::Total);
                Ok(call(name, &[list.text], kind))
            }
            "any" | "all" => {
                let value = arguments.need(0, name)?;
                match &value.kind {
                    ExprKind::Generator(value, of) | ExprKind::ListOf(value, of) => {
                        self.quantified(name, value, of)
                    }
                    ExprKind::List(all) | ExprKind::Tuple(all) if !all.is_empty() => {
                        let (mark, level) =
                            if name == "any" { (" || ", strength::OR) } else { (" && ", strength::AND) };
                        let parts: Vec<String> = all
                            .iter()
                            .map(|one| Ok(self.condition(one)?.at(level)))
                            .collect::<Outcome<_>>()?;
                        Ok(Code::new(parts.join(mark), level, Type::Bool))
                    }
                    _ => {
                        let list = self.elements(value)?;
                        let method = if name == "any" { "some" } else { "all" };
                        Ok(list.method(method, &["|one| !empty(one)".to_owned()], Type::Bool))
                    }
                }
            }
            "max" | "min" => self.extreme(name, arguments),
            "abs" => Ok(self.expr(arguments.need(0, name)?)?.method("abs", &[], Type::Unknown)),
            "round" => {
                let value = self.expr(arguments.need(0, name)?)?;
                match arguments.get(1, "ndigits") {
                    None => {
                        let rounded = self.helper(Helper::Rounded);
                        Ok(call(rounded, &[value.text], Type::Int))
                    }
                    Some(digits) => {
                        let value = match value.kind {
                            Type::Float => value,
                            _ => value.method("to_float", &[], Type::Float),
                        };
                        let digits = self.expr(digits)?;
                        let fixed = call("text::fixed", &[value.text, digits.text], Type::Text);
                        Ok(call("parse_float", &[fixed.text], Type::Float))
                    }
                }
            }
            "divmod" => {
                let (a, b) = (self.expr(arguments.need(0, name)?)?, self.expr(arguments.need(1, name)?)?);
                let level = strength::MULTIPLY;
                Ok(Code::atom(
                    format!("[{0} / {1}, {0} % {1}]", a.at(level), b.at(level + 1)),
                    Type::list_of(Type::Int),
                ))
            }
            "pow" => {
                let (a, b) = (self.expr(arguments.need(0, name)?)?, self.expr(arguments.need(1, name)?)?);
                self.operate(crate::python::BinaryOp::Pow, &a, &b)
            }
            "enumerate" => {
                let list = self.elements(arguments.need(0, name)?)?;
                let start = match arguments.get(1, "start") {
                    Some(start) => format!("at + {}", self.expr(start)?.at(strength::ADD + 1)),
                    None => "at".to_owned(),
                };
                Ok(Code::atom(
                    format!("{}.map(|one, at| [{start}, one])", list.owner()),
                    Type::list_of(Type::list()),
                ))
            }
            "zip" => {
                let (a, b) =
                    (self.elements(arguments.need(0, name)?)?, self.elements(arguments.need(1, name)?)?);
                if arguments.count() > 2 {
                    return Hindrance::err(NoteKind::Python, "`zip` of more than two lists");
                }
                Ok(Code::atom(
                    format!("{}.zip({}, |a, b| [a, b])", a.owner(), b.text),
                    Type::list_of(Type::list()),
                ))
            }
            "map" => {
                let function = self.function_value(arguments.need(0, name)?)?;
                let list = self.elements(arguments.need(1, name)?)?;
                Ok(list.method("map", &[function], Type::list()))
            }
            "filter" => {
                let function = arguments.need(0, name)?;
                let list = self.elements(arguments.need(1, name)?)?;
                let kind = list.kind.clone();
                let closure = match &function.kind {
                    ExprKind::None => "|one| !empty(one)".to_owned(),
                    ExprKind::Lambda(params, body) => {
                        let [param] = params.as_slice() else {
                            return Hindrance::err(NoteKind::Python, "`filter` with several parameters");
                        };
                        let variable = super::context::Variable {
                            code: names::variable(&param.name),
                            kind: list.kind.element(),
                        };
                        let code = variable.code.clone();
                        let variables = vec![(param.name.clone(), variable)];
                        let body = self.with_variables(variables, |translator| translator.condition(body))?;
                        format!("|{code}| {}", body.text)
                    }
                    _ => {
                        let function = self.function_value(function)?;
                        format!("|one| !empty({function}.call(one))")
                    }
                };
                Ok(list.method("filter", &[closure], kind))
            }
            "next" => {
                let value = arguments.need(0, name)?;
                let found = match &value.kind {
                    ExprKind::Generator(value, of) => self.first_of(value, of)?,
                    _ => {
                        let list = self.elements(value)?;
                        list.method("get", &["0".to_owned()], list.kind.element())
                    }
                };
                match arguments.at(1) {
                    None | Some(Expr { kind: ExprKind::None, .. }) => Ok(found),
                    Some(fallback) => {
                        let fallback = self.expr(fallback)?;
                        let text = format!(
                            "{} ?? {}",
                            found.at(strength::COALESCE),
                            fallback.at(strength::COALESCE + 1)
                        );
                        Ok(Code::new(text, strength::COALESCE, found.kind.join(fallback.kind)))
                    }
                }
            }
            "isinstance" => self.is_instance(arguments),
            "issubclass" => Hindrance::err(NoteKind::Python, "`issubclass`"),
            "callable" => {
                let value = self.expr(arguments.need(0, name)?)?;
                if value.kind == Type::Emitter || value.kind == Type::Caller {
                    return Ok(Code::atom("true", Type::Bool));
                }
                Ok(Code::new(format!("type_of({}) == \"Fn\"", value.text), strength::EQUAL, Type::Bool))
            }
            "type" => {
                let value = self.expr(arguments.need(0, name)?)?;
                if value.kind == Type::Error {
                    return Ok(Code::atom("\"Error\"", Type::Text));
                }
                Ok(call("type_of", &[value.text], Type::Text))
            }
            "id" | "hash" => Hindrance::err(NoteKind::Python, format!("`{name}`")),
            "hasattr" => {
                let (of, key) = (arguments.need(0, name)?, arguments.need(1, name)?);
                if of.as_name() == Some("self") {
                    let Some(key) = key.as_text() else {
                        return Hindrance::err(NoteKind::Python, "`hasattr` of `self`");
                    };
                    if self.plugin.methods.contains_key(key) || key == "valves" {
                        return Ok(Code::atom("true", Type::Bool));
                    }
                    return match self.plugin.attributes.get(key) {
                        Some(crate::plugin::Attribute::State) => Ok(Code::new(
                            format!("{} in state", names::quoted(&super::expression::state_key(key))),
                            strength::IN,
                            Type::Bool,
                        )),
                        Some(crate::plugin::Attribute::Kept) => Err(super::expression::kept(key)),
                        Some(_) => Ok(Code::atom("true", Type::Bool)),
                        None => Ok(Code::atom("false", Type::Bool)),
                    };
                }
                let of = self.expr(of)?;
                let key = self.expr(key)?;
                if of.kind.is_ghost() || of.kind == Type::Error {
                    return Ok(Code::atom("false", Type::Bool));
                }
                Ok(Code::new(
                    format!("{} in {}", key.at(strength::IN + 1), of.at(strength::IN + 1)),
                    strength::IN,
                    Type::Bool,
                ))
            }
            "getattr" => {
                let (of, key) = (arguments.need(0, name)?, arguments.need(1, name)?);
                let value = match key.as_text() {
                    Some(key) if of.as_name() == Some("self") => self.own_attribute(key)?,
                    Some(key) => {
                        let of = self.expr(of)?;
                        self.property_of(&of, key)?
                    }
                    None if of_self(of).is_some() || of.as_name() != Some("self") => {
                        let of = self.expr(of)?;
                        if of.kind.is_ghost() {
                            return Hindrance::err(NoteKind::Python, "a method by a computed name");
                        }
                        let key = self.expr(key)?;
                        of.index(&key.text, Type::Unknown)
                    }
                    None => return Hindrance::err(NoteKind::Python, "a method by a computed name"),
                };
                match arguments.at(2) {
                    None | Some(Expr { kind: ExprKind::None, .. }) => Ok(value),
                    Some(_) if matches!(value.kind, Type::Bool | Type::Int | Type::Float) => Ok(value),
                    Some(fallback) => {
                        let fallback = self.expr(fallback)?;
                        let kind = value.kind.clone().join(fallback.kind.clone());
                        let text = format!(
                            "{} ?? {}",
                            value.at(strength::COALESCE),
                            fallback.at(strength::COALESCE + 1)
                        );
                        Ok(Code::new(text, strength::COALESCE, kind))
                    }
                }
            }
            "setattr" => {
                let (of, key) = (arguments.need(0, name)?, arguments.need(1, name)?);
                let value = self.expr(arguments.need(2, name)?)?;
                if of_self(of) == Some("valves") {
                    return Hindrance::err(
                        NoteKind::Settings,
                        "settings that the plugin changes: keep data in `kv`",
                    );
                }
                let of = self.expr(of)?;
                let key = self.expr(key)?;
                Ok(Code::atom(format!("{}[{}] = {}", of.owner(), key.text, value.text), Type::None))
            }
            "print" => {
                let parts = self.printed(arguments)?;
                Ok(call("print", &[parts], Type::None))
            }
            "format" => {
                let value = self.expr(arguments.need(0, name)?)?;
                match arguments.at(1).and_then(Expr::as_text) {
                    Some(spec) => {
                        let spec = spec.to_owned();
                        self.formatted_as(value, &spec)
                    }
                    None => Ok(value),
                }
            }
            "chr" => match &arguments.need(0, name)?.kind {
                ExprKind::Int(number) => {
                    let letter = u32::try_from(*number).ok().and_then(char::from_u32).unwrap_or(' ');
                    Ok(Code::atom(names::quoted(&letter.to_string()), Type::Text))
                }
                _ => Hindrance::err(NoteKind::Python, "`chr` of a computed number"),
            },
            "ord" => {
                let value = self.expr(arguments.need(0, name)?)?;
                Ok(Code::atom(format!("{}.get(0).to_int()", value.owner()), Type::Int))
            }
            "hex" | "bin" | "oct" => {
                let (method, prefix) = match name {
                    "hex" => ("to_hex", "0x"),
                    "bin" => ("to_binary", "0b"),
                    _ => ("to_octal", "0o"),
                };
                let digits = self.expr(arguments.need(0, name)?)?.method(method, &[], Type::Text);
                Ok(Code::new(format!("\"{prefix}\" + {}", digits.text), strength::ADD, Type::Text))
            }
            "bytes" | "bytearray" | "memoryview" => {
                let value = self.expr(arguments.need(0, name)?)?;
                if value.kind == Type::Text || value.kind == Type::Bytes {
                    return Ok(value);
                }
                Hindrance::err(NoteKind::Bytes, format!("`{name}`"))
            }
            "open" => {
                Hindrance::err(NoteKind::Os, "`open`: use `files::read` or `files::write`, with a grant")
            }
            "Exception"
            | "ValueError"
            | "RuntimeError"
            | "TypeError"
            | "KeyError"
            | "PermissionError"
            | "TimeoutError"
            | "ConnectionError"
            | "NotImplementedError"
            | "OSError"
            | "IOError"
            | "FileNotFoundError"
            | "AttributeError"
            | "IndexError"
            | "LookupError"
            | "StopIteration"
            | "AssertionError" => self.error_value(arguments),
            _ => {
                if name.ends_with("Error") || name.ends_with("Exception") {
                    return self.error_value(arguments);
                }
                Hindrance::err(NoteKind::Python, format!("`{name}(…)`"))
            }
        }
    }

    /// Returns the code of an exception's message.
    pub(super) fn error_value(&mut self, arguments: &Arguments<'_>) -> Outcome {
        match arguments.at(0).or_else(|| arguments.named("detail")).or_else(|| arguments.named("message")) {
            Some(message) => Ok(self.expr(message)?.typed(Type::Text)),
            None => Ok(Code::atom("\"failed\"", Type::Text)),
        }
    }

    /// Returns the code of the text that `print` writes.
    pub(super) fn printed(&mut self, arguments: &Arguments<'_>) -> Outcome<String> {
        let separator = match arguments.named("sep").and_then(Expr::as_text) {
            Some(separator) => separator.to_owned(),
            None => " ".to_owned(),
        };
        match arguments.positional() {
            [] => Ok("\"\"".to_owned()),
            [one] => Ok(self.expr(one)?.text),
            all => {
                let mut parts = Vec::new();
                for (at, one) in all.iter().enumerate() {
                    if at > 0 {
                        parts.push(crate::python::FormatPart::Text(separator.clone()));
                    }
                    match &one.kind {
                        ExprKind::Text(text) => parts.push(crate::python::FormatPart::Text(text.clone())),
                        _ => parts.push(crate::python::FormatPart::Value {
                            value: (*one).clone(),
                            conversion: None,
                            format: Vec::new(),
                            is_debug: None,
                        }),
                    }
                }
                Ok(self.format(&parts)?.text)
            }
        }
    }

    /// Returns the code of an iterable as a list.
    pub(super) fn as_list(&mut self, value: &Expr) -> Outcome {
        if let ExprKind::Call(of, args) = &value.kind {
            if of.as_name() == Some("range") {
                let range = self.range(&Arguments::of(args))?;
                let code =
                    format!("{{ let numbers = []; for n in {} {{ numbers.push(n); }} numbers }}", range.text);
                return Ok(Code::atom(code, Type::list_of(Type::Int)));
            }
            if let ExprKind::Attribute(map, name) = &of.kind
                && name == "items"
                && args.is_empty()
            {
                let map = self.expr(map)?;
                return Ok(super::comprehension::entries(&map));
            }
        }
        let code = self.expr(value)?;
        Ok(self.iterated(code))
    }

    /// The same as a list with methods: a value of an unknown type may be a text or a map.
    pub(super) fn elements(&mut self, value: &Expr) -> Outcome {
        let list = self.as_list(value)?;
        if list.kind != Type::Unknown {
            return Ok(list);
        }
        let name = self.helper(Helper::Elements);
        Ok(call(name, &[list.text], Type::list()))
    }

    /// Returns what a loop over a value runs over: the characters of a text are texts.
    pub(super) fn iterated(&mut self, value: Code) -> Code {
        match value.kind {
            Type::Text => {
                let name = self.helper(Helper::Elements);
                call(name, &[value.text], Type::list_of(Type::Text))
            }
            Type::Map => value.method("keys", &[], Type::list_of(Type::Text)),
            _ => value,
        }
    }

    /// Returns the code of a function that is passed as a value.
    pub(super) fn function_value(&mut self, function: &Expr) -> Outcome<String> {
        match &function.kind {
            ExprKind::Name(name) if !self.scope.variables.contains_key(name) => match name.as_str() {
                "str" => Ok("|one| `${one}`".to_owned()),
                "int" => Ok(format!("|one| {}(one)", self.helper(Helper::ToInteger))),
                "float" => Ok(format!("|one| {}(one)", self.helper(Helper::ToFloat))),
                "len" => Ok("|one| one.len()".to_owned()),
                _ => Ok(self.expr(function)?.text),
            },
            ExprKind::Attribute(of, name) if of.as_name() == Some("str") => match name.as_str() {
                "strip" => Ok("|one| text::trim(one)".to_owned()),
                "lower" => Ok("|one| one.to_lower()".to_owned()),
                "upper" => Ok("|one| one.to_upper()".to_owned()),
                _ => Hindrance::err(NoteKind::Method, format!("`str.{name}`")),
            },
            _ => Ok(self.expr(function)?.text),
        }
    }

    pub(super) fn range(&mut self, arguments: &Arguments<'_>) -> Outcome {
        let all: Vec<Code> =
            arguments.positional().iter().map(|one| self.expr(one)).collect::<Result<_, _>>()?;
        let level = strength::RANGE + 1;
        match all.as_slice() {
            [end] => {
                Ok(Code::new(format!("0..{}", end.at(level)), strength::RANGE, Type::list_of(Type::Int)))
            }
            [start, end] => Ok(Code::new(
                format!("{}..{}", start.at(level), end.at(level)),
                strength::RANGE,
                Type::list_of(Type::Int),
            )),
            [start, end, step] => {
                let args = [start.text.clone(), end.text.clone(), step.text.clone()];
                Ok(call("range", &args, Type::list_of(Type::Int)))
            }
            _ => Hindrance::err(NoteKind::Python, "`range` without an end"),
        }
    }

    /// Returns the code of the `key` of `sorted`, `max` or `min`, applied to a variable.
    fn key_of(&mut self, key: &Expr, variable: &str, element: &Type) -> Outcome {
        match &key.kind {
            ExprKind::Lambda(params, body) => {
                let [param] = params.as_slice() else {
                    return Hindrance::err(NoteKind::Python, "a key with several parameters");
                };
                let one = super::context::Variable { code: variable.to_owned(), kind: element.clone() };
                self.with_variables(vec![(param.name.clone(), one)], |translator| translator.expr(body))
            }
            ExprKind::Name(name) if name == "len" => Ok(Code::atom(format!("{variable}.len()"), Type::Int)),
            ExprKind::Attribute(of, name) if of.as_name() == Some("str") && name == "lower" => {
                Ok(Code::atom(format!("{variable}.to_lower()"), Type::Text))
            }
            ExprKind::Attribute(of, name) if name == "get" => {
                let map = self.expr(of)?;
                Ok(map.index(variable, Type::Unknown))
            }
            _ => {
                let function = self.function_value(key)?;
                let function = if function.starts_with('|') { format!("({function})") } else { function };
                Ok(Code::atom(format!("{function}.call({variable})"), Type::Unknown))
            }
        }
    }

    fn sorted(&mut self, arguments: &Arguments<'_>) -> Outcome {
        let list = self.elements(arguments.need(0, "sorted")?)?;
        self.ordered(&list, arguments)
    }

    /// Returns the code of a sorted list, with `key=` and `reverse=`.
    pub(super) fn ordered(&mut self, list: &Code, arguments: &Arguments<'_>) -> Outcome {
        let kind = list.kind.clone();
        let is_reversed = match arguments.named("reverse").map(|value| &value.kind) {
            None | Some(ExprKind::Bool(false)) => false,
            Some(ExprKind::Bool(true)) => true,
            Some(_) => return Hindrance::err(NoteKind::Python, "a computed order"),
        };
        let Some(key) = arguments.named("key") else {
            return Ok(list.method(if is_reversed { "order_desc" } else { "order" }, &[], kind));
        };
        // Elements with equal keys are compared by the next key of a tuple.
        let keys: Vec<Expr> = match &key.kind {
            ExprKind::Lambda(params, body) if let ExprKind::Tuple(all) = &body.kind => {
                let of_part = |part: &Expr| {
                    let mut key = (*key).clone();
                    key.kind = ExprKind::Lambda(params.clone(), part.clone().into());
                    key
                };
                all.iter().map(of_part).collect()
            }
            _ => vec![key.clone()],
        };
        let element = list.kind.element();
        let mut closure = "|a, b| ".to_owned();
        for key in &keys {
            let (a, b) = (self.key_of(key, "a", &element)?, self.key_of(key, "b", &element)?);
            let (low, high) = if is_reversed { (b, a) } else { (a, b) };
            let level = strength::COMPARE + 1;
            closure.push_str(&format!(
                "if {0} < {1} {{ -1 }} else if {1} < {0} {{ 1 }} else ",
                low.at(level),
                high.at(level)
            ));
        }
        closure.push_str("{ 0 }");
        Ok(list.method("order_by", &[closure], kind))
    }

    fn extreme(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        if !arguments.spread.is_empty() {
            return Hindrance::err(NoteKind::Python, format!("`*` in the arguments of `{name}`"));
        }
        if arguments.count() >= 2 {
            let codes: Vec<Code> =
                arguments.positional().iter().map(|one| self.expr(one)).collect::<Result<_, _>>()?;
            let kind = codes.iter().map(|code| code.kind.clone()).reduce(Type::join).unwrap_or(Type::Unknown);
            let codes = codes.into_iter().map(|code| code.text);
            if let Some(text) = codes.reduce(|all, one| format!("{name}({all}, {one})")) {
                return Ok(Code::atom(text, kind));
            }
        }
        let list = self.elements(arguments.need(0, name)?)?;
        let element = list.kind.element();
        let sign = if name == "max" { "1" } else { "-1" };
        let key = match arguments.named("key") {
            Some(key) => format!("|one| {}", self.key_of(key, "one", &element)?.text),
            None => "|one| one".to_owned(),
        };
        let best = self.helper(Helper::Best);
        let found = call(best, &[list.text, key, sign.to_owned()], element.clone());
        match arguments.named("default") {
            Some(fallback) => {
                let fallback = self.expr(fallback)?;
                let text = format!("{} ?? {}", found.text, fallback.at(strength::COALESCE + 1));
                Ok(Code::new(text, strength::COALESCE, element.join(fallback.kind)))
            }
            None => Ok(found),
        }
    }

    fn is_instance(&mut self, arguments: &Arguments<'_>) -> Outcome {
        let value = self.expr(arguments.need(0, "isinstance")?)?;
        let types = arguments.need(1, "isinstance")?;
        let types: Vec<&Expr> = match &types.kind {
            ExprKind::Tuple(all) => all.iter().collect(),
            ExprKind::Binary(_, left, right) => vec![left, right],
            _ => vec![types],
        };
        // An answer of a model is read through its own fields, not as a map with choices.
        let of_model = match value.kind {
            Type::Model => Some("dict"),
            Type::ModelChoices => Some("list"),
            _ => None,
        };
        if let Some(of_model) = of_model {
            let is_one = types.iter().any(|one| one.as_name() == Some(of_model));
            return Ok(Code::atom(is_one.to_string(), Type::Bool));
        }
        let mut words: Vec<&str> = Vec::new();
        for one in types {
            let path = one.path_or_empty();
            match last_name(&path) {
                "str" => words.push("string"),
                "int" => words.push("i64"),
                "float" => words.push("f64"),
                "bool" => words.push("bool"),
                "list" | "tuple" | "set" | "List" | "Sequence" | "Iterable" | "frozenset" => {
                    words.push("array")
                }
                "dict" | "Mapping" | "Dict" | "MutableMapping" => words.push("map"),
                "bytes" | "bytearray" => words.push("blob"),
                "BaseModel" | "Valves" | "UserValves" | "JSONResponse" => words.push("map"),
                "NoneType" => words.push("()"),
                "Exception" | "BaseException" if value.kind == Type::Error => {
                    return Ok(Code::atom("true", Type::Bool));
                }
                "StreamingResponse" | "Exception" | "HTTPException" if value.kind != Type::Error => {}
                name if let Some(at) = self.plugin.objects.iter().position(|one| one.class.name == name) => {
                    let Type::Object(of) = value.kind else {
                        return Hindrance::err(
                            NoteKind::Python,
                            format!("`isinstance` of `{name}`: objects are maps here"),
                        );
                    };
                    let objects = &self.plugin.objects;
                    if of == at || objects.get(of).is_some_and(|object| object.bases.contains(&at)) {
                        return Ok(Code::atom("true", Type::Bool));
                    }
                    if objects.get(at).is_some_and(|object| object.bases.contains(&of)) {
                        return Hindrance::err(
                            NoteKind::Python,
                            format!("`isinstance` of `{name}`: objects are maps here"),
                        );
                    }
                }
                name if value.kind == Type::Error => {
                    return match super::jumps::condition(one, &value.text, &self.plugin.raised) {
                        Some(code) => Ok(Code::new(code, strength::ANY, Type::Bool)),
                        None => Hindrance::err(
                            NoteKind::Python,
                            format!("`isinstance` of `{name}`: errors have no types here"),
                        ),
                    };
                }
                name if name.ends_with("Error") => {}
                name => return Hindrance::err(NoteKind::Python, format!("`isinstance` of `{name}`")),
            }
        }
        words.dedup();
        Ok(match words.as_slice() {
            [] => Code::atom("false", Type::Bool),
            [one] => Code::new(format!("type_of({}) == \"{one}\"", value.text), strength::EQUAL, Type::Bool),
            all => {
                let all: Vec<String> = all.iter().map(|one| format!("\"{one}\"")).collect();
                Code::new(
                    format!("type_of({}) in [{}]", value.text, all.join(", ")),
                    strength::IN,
                    Type::Bool,
                )
            }
        })
    }
}
