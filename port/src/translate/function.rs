//! Functions: their parameters, variables and results.

use super::call::is_static;
use super::context::{FunctionRef, Hindrance, Outcome, Owner, Role, Scope, Translator, Variable, Yields};
use super::generators::{is_generator, streamed};
use crate::docs;
use crate::kinds::Type;
use crate::names;
use crate::plugin::{Attribute, PluginKind};
use crate::python::{ExprKind, Function, ParamKind, Stmt};
use crate::report::{Note, NoteKind};
use crate::scope::{self, Declarations};
use crate::text::{last_name, part};
use crate::value::Value;
use std::collections::BTreeSet;

/// The parameters that the host passes by name.
const GIVEN: [&str; 12] = [
    "__id__",
    "__user__",
    "__metadata__",
    "__model__",
    "__request__",
    "__chat_id__",
    "__message_id__",
    "__features__",
    "__files__",
    "__event_emitter__",
    "__event_call__",
    "__tools__",
];

/// The decorators that do not change the result of a function, or that the translation handles.
const NEEDLESS_DECORATORS: [&str; 11] = [
    "abstractmethod",
    "cache",
    "cached_property",
    "classmethod",
    "final",
    "lru_cache",
    "overload",
    "override",
    "property",
    "staticmethod",
    "wraps",
];

impl<'a> Translator<'a> {
    /// Returns the code of a function.
    pub(crate) fn function(&mut self, of: &FunctionRef<'a>, role: Role, name: &str) -> String {
        let function = of.function;
        self.effects.count.seen(head_line(function), head_line(function));
        for decorator in &function.decorators {
            let path = match &decorator.kind {
                ExprKind::Call(of, _) => of.path_or_empty(),
                _ => decorator.path_or_empty(),
            };
            if !NEEDLESS_DECORATORS.contains(&last_name(&path)) {
                let text = format!("the decorator `@{path}` of `{}`, which is left out", function.name);
                self.note(NoteKind::Python, text, decorator.line);
            }
        }
        let outer = std::mem::replace(&mut self.scope, Scope::new(role));
        self.current = &function.body;
        let mut lines = Vec::new();
        let mut given = BTreeSet::new();
        for param in &function.params {
            if matches!(role, Role::Hook | Role::Tool) && self.keeps_default(param) {
                let text = format!("the default of `{}`, which keeps its changes between calls", param.name);
                let line = head_line(function);
                lines.push(format!("// TODO {text}"));
                self.effects.count.left(line, line);
                self.effects.notes.push(Note { kind: NoteKind::State, text, line, is_todo: true });
            }
        }
        let mut params = self.parameters(of, role, &mut lines, &mut given);
        let mut declared = scope::outer_names(&function.body);
        declared.extend(given.iter().cloned());
        self.scope.declarations = Declarations::of(&function.body, &declared);
        self.scope.streamed = streamed(&function.body);
        let is_collecting = is_generator(function)
            && (self.plugin.kind != PluginKind::Pipe || self.collected.contains(&function.name));
        self.scope.yields = if is_collecting { Yields::Collected } else { Yields::Sent };
        self.scope.is_pipe_generator = role == Role::Hook && is_generator(function) && !is_collecting;
        if is_collecting {
            lines.push("let yielded = [];".to_owned());
        }
        lines.iter().for_each(|line| self.emit(line));
        // Arguments are assumed to belong to the host.
        self.scope.live = given.clone();

        // The first pass infers the types of variables, the second writes the code.
        let start = self.scope.clone();
        let effects = self.effects.clone();
        self.scope.is_inferring = true;
        self.comments_from(function.header_end);
        self.block(&function.body);
        let joined = std::mem::take(&mut self.scope.joined);
        self.effects = effects;
        self.scope = start;
        self.scope.joined = joined;
        self.comments_from(function.header_end);
        self.block(&function.body);

        if is_collecting {
            self.emit("yielded");
        } else if self.scope.is_pipe_generator {
            self.emit("\"\"");
        }
        let mut body = std::mem::replace(&mut self.scope, outer).out;
        finish(&mut body);
        let is_maker = function.name == "__init__" && matches!(role, Role::Method(_));
        if is_maker {
            body = body.into_iter().map(|line| replace_word(&line, "this", "made")).collect();
            let fields = match role {
                Role::Method(at) => match self.field_defaults(at, &[]) {
                    Ok(fields) => fields,
                    Err(why) => {
                        let text = format!("the defaults of a class: {}", why.text);
                        self.note(why.kind, text, head_line(function));
                        Vec::new()
                    }
                },
                _ => Vec::new(),
            };
            let fields = crate::value::map(&fields).replace('\n', "\n    ");
            body.insert(0, format!("    let made = {fields};"));
            body.push("    made".to_owned());
        }
        let text = body.join("\n");
        match role {
            Role::Hook | Role::Tool => {
                if has_word(&text, "__tools__") {
                    self.capability("tools");
                }
                for name in ["__chat_id__", "__message_id__", "__user__"] {
                    if has_word(&text, name) && !params.iter().any(|param| param == name) {
                        params.push(name.to_owned());
                    }
                }
                params.retain(|param| {
                    matches!(param.as_str(), "body" | "event" | "args" | "ctx") || has_word(&text, param)
                });
                if params.is_empty() && role == Role::Tool {
                    params.push("args".to_owned());
                }
            }
            Role::Plain | Role::Method(_) => {}
        }
        if role == Role::Hook || role == Role::Tool {
            self.prepare_state(of, &mut body);
        }
        let body = if body.is_empty() { String::new() } else { format!("\n{}\n", body.join("\n")) };
        format!("fn {name}({}) {{{body}}}", params.join(", "))
    }

    /// Adds lines that put the initial values of attributes into `state`.
    fn prepare_state(&mut self, of: &FunctionRef<'a>, body: &mut Vec<String>) {
        if of.owner != Owner::Plugin || !self.needs_state.contains(&of.function.name) {
            return;
        }
        let text = body.join("\n");
        if !has_word(&text, "state") {
            return;
        }
        let mut lines = Vec::new();
        let plugin = self.plugin;
        for (name, attribute) in &plugin.attributes {
            let Some(value) = plugin.initial.get(name).filter(|_| *attribute == Attribute::State) else {
                continue;
            };
            let code = match Value::of(value, &plugin.constants) {
                Some(Value::None) => continue,
                Some(value) => value.code(),
                None => match self.expr(value) {
                    Ok(code) if !code.kind.is_ghost() && code.kind != Type::Pattern && code.text != "()" => {
                        code.text
                    }
                    _ => continue,
                },
            };
            let key = super::expression::state_key(name);
            let code = code.replace('\n', "\n    ");
            lines.push(match of.function.name.as_str() {
                "pipes" => format!("    state.{key} = {code};"),
                _ => format!("    state.ensure({}, {code});", names::quoted(&key)),
            });
        }
        if lines.is_empty() {
            return;
        }
        self.note(
            NoteKind::State,
            "attributes that change are in `state`, which lasts for a turn: use `kv` for longer",
            head_line(of.function),
        );
        if body.first().is_some_and(|line| line == "    let state = #{};") {
            lines.insert(0, body.remove(0));
        }
        lines.append(body);
        *body = lines;
    }

    /// Declares the parameters. Returns those of the script and adds to `lines` the first lines of the body.
    fn parameters(
        &mut self,
        of: &FunctionRef<'a>,
        role: Role,
        lines: &mut Vec<String>,
        given: &mut BTreeSet<String>,
    ) -> Vec<String> {
        let function = of.function;
        let mut params = Vec::new();
        let is_first_body = role == Role::Hook && function.name != "pipes";
        let all = self.params(of.owner, function);
        if role == Role::Tool {
            params.push("args".to_owned());
        }
        for (at, param) in all.into_iter().enumerate() {
            given.insert(param.name.clone());
            let kind = self.param_type(param);
            let name = param.name.as_str();
            let is_assigned = scope::is_assigned(&function.body, name);
            let set = |translator: &mut Self, code: String, kind: Type| {
                translator.scope.variables.insert(param.name.clone(), Variable { code, kind });
            };
            match role {
                Role::Plain | Role::Method(_) => {
                    if kind.is_ghost() {
                        set(self, "()".to_owned(), kind);
                        continue;
                    }
                    let code = self.code_name(name);
                    params.push(code.clone());
                    let kind = match param.kind {
                        ParamKind::List => Type::list(),
                        ParamKind::Map => Type::Map,
                        ParamKind::Plain => kind,
                    };
                    set(self, code, kind);
                    continue;
                }
                Role::Hook
                    if at == 0 && is_first_body && !name.starts_with("__") && name != "user_message" =>
                {
                    let code = if function.name == "request" {
                        "ctx".to_owned()
                    } else {
                        first_name(&function.name)
                    };
                    params.push(code.clone());
                    set(self, code, Type::Unknown);
                    continue;
                }
                Role::Hook | Role::Tool => {}
            }
            let value = match (name, role) {
                ("__event_emitter__" | "__event_call__", _) => {
                    set(self, "()".to_owned(), kind);
                    continue;
                }
                ("body", Role::Hook) => "body".to_owned(),
                ("user" | "__user__", Role::Hook) | ("__user__", _) => "__user__".to_owned(),
                ("user_message", Role::Hook) => "body.messages.last(\"user\")?.text".to_owned(),
                ("model_id", Role::Hook) => "body.model".to_owned(),
                ("messages" | "__messages__", Role::Hook) => "body.messages".to_owned(),
                ("valves", _) => "Valves".to_owned(),
                ("user_valves" | "__user_valves__", _) => "__user__.valves".to_owned(),
                ("__messages__", Role::Tool) => "__messages__".to_owned(),
                ("__task__", _) => "__metadata__.task".to_owned(),
                ("__task_body__", _) => "__metadata__.task_body".to_owned(),
                ("__session_id__", _) => "__metadata__.session_id".to_owned(),
                ("__body__", _) => "__metadata__".to_owned(),
                ("__tools__", _) if self.plugin.kind != PluginKind::Pipe || function.name != "pipe" => {
                    "()".to_owned()
                }
                (name, _) if GIVEN.contains(&name) => name.to_owned(),
                (name, Role::Tool) if !name.starts_with("__") => {
                    if names::is_reserved(name) || !names::is_key(name) {
                        format!("args[{}]", names::quoted(name))
                    } else {
                        format!("args.{}", name)
                    }
                }
                _ => {
                    let default =
                        param.default.as_ref().and_then(|value| Value::of(value, &self.plugin.constants));
                    if default.is_none() && scope::uses(&function.body, name) {
                        let line = head_line(function);
                        let text = format!("`{name}`, a parameter that nobody passes");
                        lines.push(format!("// TODO {text}"));
                        self.effects.count.left(line, line);
                        self.effects.notes.push(Note { kind: NoteKind::HostCode, text, line, is_todo: true });
                    }
                    default.map_or_else(|| "()".to_owned(), |value| value.code())
                }
            };
            let is_plain = names::is_key(&value) && value.starts_with("__");
            if is_plain && !params.contains(&value) {
                params.push(value.clone());
            }
            if has_word(&value, "__metadata__") && !params.iter().any(|param| param == "__metadata__") {
                params.push("__metadata__".to_owned());
            }
            let kind = match value.as_str() {
                "Valves" | "__user__.valves" => Type::Valves,
                _ if is_plain || role == Role::Hook => Type::Unknown,
                _ => kind,
            };
            let is_simple =
                value.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter));
            if !scope::uses(&function.body, name) {
                set(self, value, kind);
            } else if is_assigned || !is_simple || value == "()" {
                let code = if is_plain { value.clone() } else { self.code_name(name) };
                if !is_plain {
                    lines.push(format!("let {code} = {value};"));
                }
                set(self, code, kind);
            } else {
                set(self, value, kind);
            }
        }
        if is_first_body && !params.iter().any(|param| param == &first_name(&function.name) || param == "ctx")
        {
            params.insert(0, first_name(&function.name));
        }
        if of.owner == Owner::Plugin
            && function.name != "pipes"
            && self.needs_user.contains(&function.name)
            && !params.iter().any(|param| param == "__user__")
        {
            params.push("__user__".to_owned());
        }
        let takes_state = of.owner == Owner::Plugin && self.needs_state.contains(&function.name);
        if takes_state && function.name == "pipes" {
            lines.push("let state = #{};".to_owned());
        } else if takes_state {
            params.push("state".to_owned());
        }
        params
    }

    /// Translates an inner function into a closure.
    pub(super) fn inner_function(&mut self, stmt: &'a Stmt, function: &'a Function) -> Outcome<()> {
        if scope::uses(&function.body, &function.name) {
            return Hindrance::err(NoteKind::Python, "a function within a function that calls itself");
        }
        if let Some(decorator) = function.decorators.first() {
            let shown = decorator.path_or_empty();
            return Hindrance::err(NoteKind::Python, format!("the decorator `@{shown}`"));
        }
        if function.params.iter().any(|param| param.kind != ParamKind::Plain) {
            return Hindrance::err(NoteKind::Python, "`*` in the parameters of a function within a function");
        }
        let place = scope::place(stmt);
        let declares =
            self.scope.declarations.at.get(&place).is_some_and(|names| names.contains(&function.name));
        let mut inner = self.scope.clone();
        inner.out = Vec::new();
        inner.indent = 1;
        inner.is_closure = true;
        inner.streamed = streamed(&function.body);
        let outer = std::mem::replace(&mut self.scope, inner);
        let mut params = Vec::new();
        let mut given = BTreeSet::new();
        let mut kept = Vec::new();
        for param in &function.params {
            given.insert(param.name.clone());
            let kind = self.param_type(param);
            if kind.is_ghost() {
                self.scope.variables.insert(param.name.clone(), Variable { code: "()".to_owned(), kind });
                continue;
            }
            self.scope.variables.remove(&param.name);
            let code = self.code_name(&param.name);
            params.push(code.clone());
            kept.push(param.clone());
            self.scope.variables.insert(param.name.clone(), Variable { code, kind });
        }
        let mut assigned = given.clone();
        // The closure captures the outer variables that it does not assign.
        assigned
            .extend(outer.variables.keys().filter(|name| !scope::is_assigned(&function.body, name)).cloned());
        assigned.extend(scope::outer_names(&function.body));
        self.scope.declarations = Declarations::of(&function.body, &assigned);
        let is_sent = self.plugin.kind == PluginKind::Pipe && !self.collected.contains(&function.name);
        let is_collecting = is_generator(function) && !is_sent;
        self.scope.yields = if is_collecting { Yields::Collected } else { Yields::Sent };
        if is_collecting {
            self.emit("let yielded = [];");
        }
        self.block(&function.body);
        if is_collecting {
            self.emit("yielded");
        }
        let joined = std::mem::take(&mut self.scope.joined);
        let mut body = std::mem::replace(&mut self.scope, outer).out;
        if self.scope.is_inferring {
            self.scope.joined.extend(joined);
        }
        finish(&mut body);
        let code = self.code_name(&function.name);
        let word = if declares { "let " } else { "" };
        let bars = if params.is_empty() { "||".to_owned() } else { format!("|{}|", params.join(", ")) };
        self.emit(&format!("{word}{code} = {bars} {{"));
        self.emit(&body.join("\n"));
        self.emit("};");
        self.scope.closures.insert(function.name.clone(), kept);
        self.scope.variables.insert(function.name.clone(), Variable { code, kind: Type::Closure });
        Ok(())
    }

    /// Returns the role of a function that other functions call.
    pub(crate) fn role_of(&self, of: &FunctionRef<'a>) -> Role {
        match of.owner {
            Owner::Object(at) if !is_static(of.function) => Role::Method(at),
            _ => Role::Plain,
        }
    }

    /// Translates the called functions, and those that they call in turn.
    pub(crate) fn called_functions(&mut self, done: &mut Vec<String>) {
        while let Some(of) = self.queue.pop() {
            let key = (of.owner, of.function.name.clone());
            let Some(name) = self.function_names.get(&key).cloned() else { continue };
            let is_tool = of.owner == Owner::Plugin && self.tools.contains(&of.function.name);
            if is_tool {
                continue;
            }
            let role = self.role_of(&of);
            done.push(self.function(&of, role, &name));
        }
    }

    /// Returns the functions for values that Python computes when it loads the file.
    pub(crate) fn computed_functions(&mut self) -> Vec<String> {
        let mut done: Vec<String> = Vec::new();
        let mut seen = BTreeSet::new();
        loop {
            let next = self.effects.computed.iter().find(|name| !seen.contains(*name)).cloned();
            let Some(name) = next else { return done };
            seen.insert(name.clone());
            let Some((value, ..)) = self.plugin.computed.get(&name).copied() else { continue };
            self.scope = Scope::new(Role::Plain);
            if let Ok(code) = self.expr(value) {
                let function = names::function(&names::snake_case(&name));
                done.push(format!("fn {function}() {{\n    {}\n}}", code.text.replace('\n', "\n    ")));
            }
        }
    }
}

/// Returns the last line of the function's head: the line before its body.
pub(crate) fn head_line(function: &Function) -> usize {
    function.body.first().map_or(0, |first| {
        let start = docs::docstring(&function.body).map_or(first.line, |_| first.line);
        start.saturating_sub(1)
    })
}

fn first_name(hook: &str) -> String {
    if hook == "stream" { "event".to_owned() } else { "body".to_owned() }
}

/// Turns the last `return` of a body into its final expression.
fn finish(body: &mut Vec<String>) {
    while body.last().is_some_and(|line| line == "    return;") {
        body.pop();
    }
    if let Some(last) = body.last_mut()
        && let Some(value) = last.strip_prefix("    return ").and_then(|rest| rest.strip_suffix(';'))
    {
        *last = format!("    {value}");
    }
}

/// Returns `true` if a text contains a word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| is_word_at(text, at, word.len()))
}

fn is_word_at(text: &str, at: usize, length: usize) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let before = text.get(..at).and_then(|before| before.chars().next_back());
    let after = text.get(at + length..).and_then(|after| after.chars().next());
    !before.is_some_and(is_part) && !after.is_some_and(is_part)
}

fn replace_word(text: &str, word: &str, other: &str) -> String {
    let mut out = String::new();
    let mut last = 0;
    for (at, _) in text.match_indices(word) {
        if is_word_at(text, at, word.len()) {
            out.push_str(part(text, last..at));
            out.push_str(other);
            last = at + word.len();
        }
    }
    out.push_str(part(text, last..));
    out
}
