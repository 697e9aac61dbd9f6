//! Methods of values.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator};
use super::helper::Helper;
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::names;
use crate::plugin::{CHANGES, of_self};
use crate::python::{Expr, ExprKind};
use crate::report::NoteKind;

/// Returns the variable that an expression starts with.
pub(super) fn base_name(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Index(of, _) => base_name(of),
        _ => None,
    }
}

impl Translator<'_> {
    pub(super) fn method(
        &mut self,
        of: &Expr,
        name: &str,
        arguments: &Arguments<'_>,
        line: usize,
    ) -> Outcome {
        // A text literal: `"…".format(…)`.
        if let Some(text) = of.as_text()
            && name == "format"
        {
            return self.brace_format(text, arguments.positional(), arguments.all_named());
        }
        if of_self(of) == Some("valves") {
            return match name {
                "model_dump" | "dict" | "copy" | "model_copy" => Ok(Code::atom("Valves", Type::Map)),
                "get" => self.get_of_map(&Code::atom("Valves", Type::Valves), arguments),
                _ => Hindrance::err(NoteKind::Settings, format!("`self.valves.{name}()`")),
            };
        }
        if of_self(of) == Some("UserValves") && matches!(name, "model_validate" | "parse_obj") {
            return Ok(Code::atom("__user__.valves", Type::Valves));
        }
        // A static method of a class of the file, or a constructor such as `Item.parse(…)`.
        if let Some(class) = of.as_name()
            && !self.scope.variables.contains_key(class)
            && let Some(at) = self.plugin.objects.iter().position(|object| object.class.name == class)
        {
            return match name {
                "model_validate" | "parse_obj" => {
                    Ok(self.expr(arguments.need(0, name)?)?.typed(Type::Object(at)))
                }
                _ => self.object_call(&Code::atom("#{}", Type::Object(at)), at, name, arguments),
            };
        }
        if CHANGES.contains(&name) {
            self.refuse_shared(of)?;
        }
        // `await asyncio.get_event_loop().run_in_executor(None, f, x)`.
        if name == "run_in_executor" {
            let rest: Vec<&Expr> = arguments.positional().iter().skip(1).copied().collect();
            return self.forwarded(&rest, arguments.all_named(), line);
        }
        // `x.get(…)["k"]` reads from a value that may be absent.
        let of = match name {
            "get" => self.receiver(of)?,
            "append" | "add" | "extend" | "update" | "insert" | "appendleft" if self.adds_key(of) => {
                self.owner(of)?
            }
            _ => self.expr(of)?,
        };
        match of.kind.clone() {
            Type::Session(client) => self.session_method(name, &client, arguments, false, line),
            Type::Logger => self.log(name, arguments),
            Type::Object(at) => self.object_call(&of, at, name, arguments),
            Type::Pattern => self.pattern_method(&of, name, arguments),
            Type::Match => self.match_method(&of, name, arguments),
            Type::Time | Type::Local(_) | Type::Day | Type::Span => self.time_method(&of, name, arguments),
            Type::Answer | Type::Stream => {
                // The size of chunks, and the encoding.
                arguments.skip();
                self.answer_method(&of, name)
            }
            Type::Encoder => match name {
                "encode" => Ok(self.expr(arguments.need(0, name)?)?.typed(Type::Tokens)),
                _ => Hindrance::err(NoteKind::Package, format!("`.{name}()` of an encoding")),
            },
            Type::Digest => match name {
                "hexdigest" => Ok(of.typed(Type::Text)),
                "digest" => match of.text.strip_prefix("hash::") {
                    Some(rest) => match rest.split_once('(') {
                        Some(("hmac_sha256", args)) => {
                            Ok(Code::atom(format!("hash::hmac(\"sha256\", {args}"), Type::Bytes))
                        }
                        Some((name @ ("sha256" | "md5"), args)) => {
                            Ok(Code::atom(format!("hash::digest(\"{name}\", {args}"), Type::Bytes))
                        }
                        _ => Ok(Code::atom(of.text.trim_end_matches(".hex()"), Type::Bytes)),
                    },
                    None => Hindrance::err(NoteKind::Bytes, "a digest"),
                },
                _ => Hindrance::err(NoteKind::Bytes, format!("`.{name}()` of a digest")),
            },
            Type::Page | Type::Element => self.page_method(&of, name, arguments),
            Type::Nothing => match name {
                "acquire" | "release" | "set" | "clear" | "close" | "shutdown" | "add_done_callback" => {
                    Ok(Code::atom("()", Type::Nothing))
                }
                "time" => Ok(Code::new("time::elapsed_ms() / 1000.0", strength::MULTIPLY, Type::Span)),
                "run_until_complete" => self.expr(arguments.need(0, name)?),
                _ => Hindrance::err(NoteKind::Concurrency, format!("`.{name}()`")),
            },
            Type::Bytes => match name {
                "decode"
                    if {
                        arguments.skip();
                        true
                    } =>
                {
                    Ok(of.method("text", &[], Type::Text))
                }
                "hex" => Ok(of.method("hex", &[], Type::Text)),
                _ => Hindrance::err(NoteKind::Bytes, format!("`.{name}()` of bytes")),
            },
            Type::Emitter => Hindrance::err(NoteKind::Method, format!("`.{name}()` of an emitter")),
            Type::Error => match name {
                "__str__" => Ok(of.property("message", Type::Text)),
                _ => self.any_method(&of, name, arguments),
            },
            _ => self.any_method(&of, name, arguments),
        }
    }

    /// Translates `map.get(key, fallback)`.
    pub(super) fn get_of_map(&mut self, of: &Code, arguments: &Arguments<'_>) -> Outcome {
        let key = arguments.need(0, "get")?;
        let value = match key.as_text() {
            Some(key) if of.kind == Type::Answer => of.index(&names::quoted(&key.to_lowercase()), Type::Text),
            Some(key) => self.key_of_map(of, key)?,
            None => {
                let key = self.key_for(of, key)?;
                of.index(&key.text, Type::Unknown)
            }
        };
        let Some(fallback) = arguments.get(1, "default") else { return Ok(value) };
        if value.text == "body.messages" || matches!(value.kind, Type::Model | Type::ModelChoices) {
            return Ok(value);
        }
        let fallback = self.expr(fallback)?;
        if fallback.text == "()" {
            return Ok(value);
        }
        let kind = match (&value.kind, &fallback.kind) {
            // A condition tests whether the value is empty.
            (Type::Unknown, Type::Bool | Type::Int | Type::Float) => Type::Unknown,
            (Type::Unknown, kind) => kind.clone(),
            (kind, _) => kind.clone(),
        };
        // The content of a message may be a text or a list.
        let kind = if kind == Type::Text && key.as_text() == Some("content") { Type::Unknown } else { kind };
        let text = format!("{} ?? {}", value.at(strength::COALESCE), fallback.at(strength::COALESCE + 1));
        Ok(Code::new(text, strength::COALESCE, kind))
    }

    /// Returns the code of a method that is recognised by its name, for a receiver of any type.
    fn any_method(&mut self, of: &Code, name: &str, arguments: &Arguments<'_>) -> Outcome {
        let is_log = of.text.rsplit('.').next().is_some_and(|last| last.to_lowercase().contains("log"));
        if is_log
            && matches!(name, "debug" | "info" | "warning" | "warn" | "error" | "exception" | "critical")
        {
            return self.log(name, arguments);
        }
        // A method that exactly one class of the file has.
        if of.kind == Type::Unknown {
            let mut owners = self
                .plugin
                .objects
                .iter()
                .enumerate()
                .filter(|(_, object)| object.methods.contains_key(name));
            if let (Some((at, _)), None) = (owners.next(), owners.next())
                && !matches!(
                    name,
                    "get"
                        | "update"
                        | "keys"
                        | "values"
                        | "items"
                        | "append"
                        | "pop"
                        | "add"
                        | "copy"
                        | "clear"
                )
            {
                return self.object_call(of, at, name, arguments);
            }
        }
        if !arguments.spread.is_empty() {
            return Hindrance::err(NoteKind::Python, format!("`*` in the arguments of `.{name}()`"));
        }
        let need = |at: usize| arguments.need(at, name);
        let text = |name: &str, of: &Code, kind: Type| call(name, std::slice::from_ref(&of.text), kind);
        Ok(match (name, arguments.count()) {
            // Methods of texts.
            ("strip", 0) => text("text::trim", of, Type::Text),
            ("lstrip", 0) => text("text::trim_start", of, Type::Text),
            ("rstrip", 0) => text("text::trim_end", of, Type::Text),
            ("strip" | "lstrip" | "rstrip", 1) => {
                let Some(set) = need(0)?.as_text() else {
                    return Hindrance::err(NoteKind::Method, format!("`.{name}()` with computed characters"));
                };
                let set: String = set.chars().map(class_of).collect();
                let pattern = match name {
                    "strip" => format!("^[{set}]+|[{set}]+$"),
                    "lstrip" => format!("^[{set}]+"),
                    _ => format!("[{set}]+$"),
                };
                call(
                    "regex::replace",
                    &[of.text.clone(), names::pattern(&pattern), "\"\"".to_owned()],
                    Type::Text,
                )
            }
            ("lower" | "casefold", 0) => of.method("to_lower", &[], Type::Text),
            ("upper", 0) => of.method("to_upper", &[], Type::Text),
            ("title", 0) => {
                let title_case = self.helper(Helper::TitleCase);
                call(title_case, std::slice::from_ref(&of.text), Type::Text)
            }
            ("capitalize", 0) => {
                let capitalized = self.helper(Helper::Capitalized);
                call(capitalized, std::slice::from_ref(&of.text), Type::Text)
            }
            ("startswith" | "endswith", 1) => {
                let method = if name == "startswith" { "starts_with" } else { "ends_with" };
                match &need(0)?.kind {
                    ExprKind::Tuple(all) => {
                        let all: Vec<&Expr> = all.iter().collect();
                        let all = self.texts(&all)?;
                        Code::atom(
                            format!("[{}].some(|one| {}.{method}(one))", all.join(", "), of.owner()),
                            Type::Bool,
                        )
                    }
                    _ => {
                        let one = self.expr(need(0)?)?;
                        match one.kind {
                            Type::List(_) => Code::atom(
                                format!("{}.some(|one| {}.{method}(one))", one.owner(), of.owner()),
                                Type::Bool,
                            ),
                            _ => of.method(method, &[one.text], Type::Bool),
                        }
                    }
                }
            }
            ("removeprefix" | "removesuffix", 1) => {
                let one = self.expr(need(0)?)?;
                let function =
                    if name == "removeprefix" { "text::strip_prefix" } else { "text::strip_suffix" };
                call(function, &[of.text.clone(), one.text], Type::Text)
            }
            ("split", 0) => text("text::words", of, Type::list_of(Type::Text)),
            ("split" | "rsplit", 1) if name == "split" || !arguments.has_named() => {
                let separator = self.expr(need(0)?)?;
                if separator.text == "()" {
                    return Ok(text("text::words", of, Type::list_of(Type::Text)));
                }
                match arguments.named("maxsplit") {
                    Some(count) => {
                        let count = self.expr(count)?;
                        of.method(
                            "split",
                            &[separator.text, format!("{} + 1", count.at(strength::ADD))],
                            Type::list_of(Type::Text),
                        )
                    }
                    None => of.method("split", &[separator.text], Type::list_of(Type::Text)),
                }
            }
            ("split", 2) => {
                let separator = self.expr(need(0)?)?;
                let count = match &need(1)?.kind {
                    ExprKind::Int(count) => count.saturating_add(1).to_string(),
                    _ => format!("{} + 1", self.expr(need(1)?)?.at(strength::ADD)),
                };
                if separator.text == "()" {
                    return Hindrance::err(NoteKind::Method, "`.split()` by spaces, a few times");
                }
                of.method("split", &[separator.text, count], Type::list_of(Type::Text))
            }
            ("rsplit", 2) => {
                let separator = self.expr(need(0)?)?;
                if !matches!(need(1)?.kind, ExprKind::Int(1)) {
                    return Hindrance::err(NoteKind::Method, "`.rsplit()` several times");
                }
                let code = format!(
                    "{{ let parts = {}.split({1}); let last = parts.pop(); if parts.is_empty() {{ [last] }} else {{ [text::join(parts, {1}), last] }} }}",
                    of.owner(),
                    separator.text
                );
                Code::atom(code, Type::list_of(Type::Text))
            }
            ("partition", 1) => {
                let separator = self.expr(need(0)?)?;
                let code = format!(
                    "{{ let parts = {}.split({1}, 2); if parts.len() == 2 {{ [parts[0], {1}, parts[1]] }} else {{ [parts[0], \"\", \"\"] }} }}",
                    of.owner(),
                    separator.text
                );
                Code::atom(code, Type::list_of(Type::Text))
            }
            ("splitlines", count) if count > 0 || arguments.has_named() => {
                return Hindrance::err(NoteKind::Method, "`.splitlines()` that keeps the line breaks");
            }
            ("splitlines", _) => text("text::lines", of, Type::list_of(Type::Text)),
            ("replace", 2) => {
                let (from, to) = (self.expr(need(0)?)?, self.expr(need(1)?)?);
                call("text::replace", &[of.text.clone(), from.text, to.text], Type::Text)
            }
            ("replace", 3) => {
                let (from, to, count) = (self.expr(need(0)?)?, self.expr(need(1)?)?, self.expr(need(2)?)?);
                call("text::replace", &[of.text.clone(), from.text, to.text, count.text], Type::Text)
            }
            ("join", 1) => {
                let list = self.as_list(need(0)?)?;
                call("text::join", &[list.text, of.text.clone()], Type::Text)
            }
            ("rfind", 1) => {
                let part = self.expr(need(0)?)?;
                let last_index = self.helper(Helper::LastIndex);
                call(last_index, &[of.text.clone(), part.text], Type::Int)
            }
            ("rpartition", 1) => {
                let separator = self.expr(need(0)?)?;
                let code = format!(
                    "{{ let parts = {}.split({1}); let last = parts.pop(); if parts.is_empty() {{ [\"\", \"\", last] }} else {{ [text::join(parts, {1}), {1}, last] }} }}",
                    of.owner(),
                    separator.text
                );
                Code::atom(code, Type::list_of(Type::Text))
            }
            ("find" | "index", 1..=2) if of.kind == Type::Text || name != "index" => {
                let args = self.texts(arguments.positional())?;
                of.method("index_of", &args, Type::Int)
            }
            ("index", 1) => {
                let value = self.expr(need(0)?)?;
                of.method("index_of", &[value.text], Type::Int)
            }
            ("count", 1) => {
                let value = self.expr(need(0)?)?;
                match of.kind {
                    Type::List(_) => Code::atom(
                        format!("{}.filter(|one| one == {}).len()", of.owner(), value.text),
                        Type::Int,
                    ),
                    Type::Unknown => {
                        let count = self.helper(Helper::Count);
                        call(count, &[of.text.clone(), value.text], Type::Int)
                    }
                    _ => Code::new(
                        format!("{}.split({}).len() - 1", of.owner(), value.text),
                        strength::ADD,
                        Type::Int,
                    ),
                }
            }
            ("isdigit" | "isnumeric" | "isdecimal", 0) => {
                call("regex::is_match", &[of.text.clone(), "`^[0-9]+$`".to_owned()], Type::Bool)
            }
            ("isalpha", 0) => {
                call("regex::is_match", &[of.text.clone(), "`^\\p{L}+$`".to_owned()], Type::Bool)
            }
            ("isalnum", 0) => {
                call("regex::is_match", &[of.text.clone(), "`^[\\p{L}\\p{N}]+$`".to_owned()], Type::Bool)
            }
            ("isspace", 0) => call("regex::is_match", &[of.text.clone(), "`^\\s+$`".to_owned()], Type::Bool),
            // `isupper` and `islower` are false for a text without letters.
            ("isupper", 0) => {
                let code = format!("{0} == {0}.to_upper() && {0} != {0}.to_lower()", of.owner());
                Code::new(code, strength::AND, Type::Bool)
            }
            ("islower", 0) => {
                let code = format!("{0} == {0}.to_lower() && {0} != {0}.to_upper()", of.owner());
                Code::new(code, strength::AND, Type::Bool)
            }
            ("isidentifier", 0) => call(
                "regex::is_match",
                &[of.text.clone(), "`^[A-Za-z_][A-Za-z0-9_]*$`".to_owned()],
                Type::Bool,
            ),
            ("encode" | "decode", _)
                if !arguments.names().all(|name| matches!(name, "encoding" | "errors")) =>
            {
                return Hindrance::err(NoteKind::Bytes, format!("`.{name}()`"));
            }
            ("encode", 0) => of.clone().typed(Type::Text),
            ("encode", 1..=2) if need(0)?.as_text().is_some() => {
                arguments.skip();
                of.clone().typed(Type::Text)
            }
            ("decode", 0..=2) => {
                arguments.skip();
                of.clone().typed(Type::Text)
            }
            ("format", _) => {
                return Hindrance::err(NoteKind::Python, "`.format()` of a text that is not written here");
            }
            ("zfill", 1) => {
                let width = self.expr(need(0)?)?;
                let padded = self.helper(Helper::Padded);
                call(padded, &[of.text.clone(), width.text, "\"0\"".into(), "\">\"".into()], Type::Text)
            }
            ("ljust" | "rjust" | "center", 1..=2) => {
                let width = self.expr(need(0)?)?;
                let fill = match arguments.at(1) {
                    Some(fill) => self.expr(fill)?.text,
                    None => "\" \"".to_owned(),
                };
                let side = match name {
                    "ljust" => "\"<\"",
                    "rjust" => "\">\"",
                    _ => "\"^\"",
                };
                let padded = self.helper(Helper::Padded);
                call(padded, &[of.text.clone(), width.text, fill, side.to_owned()], Type::Text)
            }
            ("expandtabs" | "swapcase" | "translate" | "maketrans", _) => {
                return Hindrance::err(NoteKind::Method, format!("`.{name}()`"));
            }
            // Methods of maps.
            ("get", 1 | 2) => return self.get_of_map(of, arguments),
            ("keys", 0) => of.method("keys", &[], Type::list_of(Type::Text)),
            ("values", 0) => of.method("values", &[], Type::list()),
            ("items", 0) => super::comprehension::entries(of),
            ("setdefault", 1..=2) => {
                let key = self.expr(need(0)?)?;
                let fallback = match arguments.at(1) {
                    Some(fallback) => self.expr(fallback)?.text,
                    None => "()".to_owned(),
                };
                // A value that cannot be assigned to is bound to a variable first.
                let (binding, of) = if is_place(&of.text) {
                    (String::new(), of.clone())
                } else {
                    let map = self.fresh("map");
                    (format!("let {map} = {}; ", of.text), Code::atom(map, Type::Map))
                };
                let place = of.index(&key.text, Type::Unknown);
                let code = format!(
                    "{{ {binding}if !({} in {}) {{ {1}[{}] = {fallback}; }} {} }}",
                    key.at(strength::IN + 1),
                    of.owner(),
                    key.text,
                    place.text
                );
                Code::atom(code, Type::Unknown)
            }
            ("update", 1) => {
                let other = self.expr(need(0)?)?;
                of.method("mixin", &[other.text], Type::None)
            }
            ("update", 0) if arguments.has_named() => {
                let mut entries = Vec::new();
                for (key, value) in arguments.all_named() {
                    entries.push(format!("{}: {}", names::key(key), self.expr(value)?.text));
                }
                of.method("mixin", &[crate::value::map(&entries)], Type::None)
            }
            ("pop", 0) => of.method("pop", &[], of.kind.element()),
            ("pop" | "popleft", 1) if matches!(need(0)?.kind, ExprKind::Int(0)) => {
                of.method("shift", &[], of.kind.element())
            }
            ("popleft", 0) => of.method("shift", &[], of.kind.element()),
            ("pop", 1) => {
                let key = self.expr(need(0)?)?;
                if key.text == "-1" {
                    return Ok(of.method("pop", &[], of.kind.element()));
                }
                of.method("remove", &[key.text], Type::Unknown)
            }
            ("pop", 2) => {
                let (key, fallback) = (self.expr(need(0)?)?, self.expr(need(1)?)?);
                let removed = of.method("remove", &[key.text], Type::Unknown);
                if fallback.text == "()" {
                    removed
                } else {
                    let text = format!("{} ?? {}", removed.text, fallback.at(strength::COALESCE + 1));
                    Code::new(text, strength::COALESCE, Type::Unknown)
                }
            }
            ("clear", 0) => of.method("clear", &[], Type::None),
            ("model_dump" | "dict" | "model_copy", 0)
                if arguments.names().any(|name| matches!(name, "exclude" | "include" | "update")) =>
            {
                return Hindrance::err(NoteKind::Method, format!("`.{name}()` of some fields"));
            }
            ("copy" | "deepcopy" | "model_dump" | "dict" | "model_copy", 0) => {
                of.method("copy", &[], of.kind.clone())
            }
            ("model_dump_json", 0) => text("json::stringify", of, Type::Text),
            // Methods of lists.
            ("append", 1) => {
                let value = self.stored(need(0)?)?;
                of.method("push", &[value.text], Type::None)
            }
            ("appendleft", 1) => {
                let value = self.expr(need(0)?)?;
                of.method("insert", &["0".to_owned(), value.text], Type::None)
            }
            ("add", 1) => {
                let value = self.expr(need(0)?)?;
                let text =
                    format!("if !({0} in {1}) {{ {1}.push({0}); }}", value.at(strength::IN + 1), of.owner());
                Code::new(text, strength::ANY, Type::None)
            }
            ("extend", 1) => {
                let list = self.as_list(need(0)?)?;
                Code::new(format!("{} += {}", of.owner(), list.text), strength::ANY, Type::None)
            }
            ("insert", 2) => {
                let args = self.texts(arguments.positional())?;
                of.method("insert", &args, Type::None)
            }
            // Only the first of several equal elements is removed.
            ("remove", 1) if is_place(&of.text) => {
                let value = self.expr(need(0)?)?;
                let code = format!(
                    "if {1} in {0} {{ {0}.remove({0}.index_of({1})); }}",
                    of.owner(),
                    value.at(strength::IN + 1)
                );
                Code::new(code, strength::ANY, Type::None)
            }
            ("remove" | "discard", 1) => {
                let value = self.expr(need(0)?)?;
                Code::atom(format!("{}.retain(|one| one != {})", of.owner(), value.text), Type::None)
            }
            ("reverse", 0) => of.method("reverse", &[], Type::None),
            ("sort", 0) => {
                let sorted = self.ordered(of, arguments)?;
                Code::new(format!("{} = {}", of.owner(), sorted.text), strength::ANY, Type::None)
            }
            ("difference" | "intersection", 1) => {
                let other = self.expr(need(0)?)?;
                let not = if name == "difference" { "!" } else { "" };
                Code::atom(format!("{}.filter(|one| {not}(one in {}))", of.owner(), other.text), Type::list())
            }
            ("union", 1) => {
                let other = self.expr(need(0)?)?;
                let unique = self.helper(Helper::Unique);
                call(
                    unique,
                    &[format!("{} + {}", of.at(strength::ADD), other.at(strength::ADD + 1))],
                    Type::list(),
                )
            }
            ("issubset", 1) => {
                let other = self.expr(need(0)?)?;
                Code::atom(format!("{}.all(|one| one in {})", of.owner(), other.text), Type::Bool)
            }
            // Methods of patterns, matches, times and responses, for a receiver of unknown type.
            ("search" | "match" | "fullmatch" | "findall" | "finditer", 1) => {
                return self.pattern_method(of, name, arguments);
            }
            ("sub", 2) => return self.pattern_method(of, name, arguments),
            ("group" | "groups", _) => return self.match_method(of, name, arguments),
            ("strftime" | "isoformat" | "timestamp" | "total_seconds", _) => {
                return self.time_method(of, name, arguments);
            }
            (
                "json" | "raise_for_status" | "iter_lines" | "aiter_lines" | "iter_content" | "aiter_bytes"
                | "aiter_text" | "iter_any",
                _,
            ) => {
                arguments.skip();
                return self.answer_method(of, name);
            }
            ("text", 0) => of.property("text", Type::Text),
            ("hexdigest", 0) => of.clone().typed(Type::Text),
            ("is_integer", 0) => {
                Code::new(format!("{0} == {0}.to_int()", of.owner()), strength::EQUAL, Type::Bool)
            }
            ("done" | "cancel" | "cancelled", 0) => {
                return Hindrance::err(NoteKind::Concurrency, format!("`.{name}()` of a task"));
            }
            _ => return Hindrance::err(NoteKind::Method, format!("`.{name}()`")),
        })
    }
}

/// Returns a character as it is written inside `[…]` of a pattern.
fn class_of(letter: char) -> String {
    match letter {
        '\\' | ']' | '[' | '^' | '-' | '&' | '~' => format!("\\{letter}"),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        other => other.to_string(),
    }
}

/// Returns `true` for a variable with fields and elements, which can be assigned to.
pub(super) fn is_place(code: &str) -> bool {
    !code.contains(['(', '{', '?', '|', '+']) && !code.starts_with(['[', '#', '"', '`'])
}
