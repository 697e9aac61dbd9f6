//! `return`, `raise` and `try`.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Role, Translator, Variable, Yields};
use crate::code::Code;
use crate::kinds::Type;
use crate::names;
use crate::plugin::{self, PluginKind};
use crate::python::{Expr, ExprKind, Handler, Stmt, StmtKind};
use crate::report::NoteKind;
use crate::text::last_name;
use std::collections::BTreeSet;

impl<'a> Translator<'a> {
    pub(super) fn returned(&mut self, value: Option<&Expr>) -> Outcome<()> {
        let Some(value) = value else {
            self.emit(match self.scope.yields {
                Yields::Collected if self.is_collecting() => "return yielded;",
                // A pipe that has sent nothing has an empty answer.
                Yields::Sent if self.scope.is_pipe_generator => "return \"\";",
                _ => "return;",
            });
            return Ok(());
        };
        let code = self.stored(value)?;
        if code.kind == Type::Stream && self.plugin.kind == PluginKind::Pipe {
            self.send_lines(&code);
            self.emit("return;");
            return Ok(());
        }
        let text = match code.kind {
            Type::Model if self.scope.role == Role::Hook => format!("{}.content", code.owner()),
            ref kind if kind.is_ghost() => "()".to_owned(),
            _ => code.text,
        };
        self.emit(&if text == "()" { "return;".to_owned() } else { format!("return {text};") });
        Ok(())
    }

    fn is_collecting(&self) -> bool {
        self.scope.out.iter().any(|line| line.trim() == "let yielded = [];")
    }

    pub(super) fn raise(&mut self, value: Option<&Expr>) -> Outcome<()> {
        let Some(value) = value else {
            let error = self.scope.error.clone();
            let error = error.ok_or_else(|| Hindrance::new(NoteKind::Python, "`raise` without an error"))?;
            self.emit(&format!("throw {error};"));
            return Ok(());
        };
        if let ExprKind::Call(of, args) = &value.kind {
            let path = self.full_path(of).or_else(|| of.path()).unwrap_or_default();
            if path.ends_with("HTTPException") {
                let arguments = Arguments::of(args);
                let status = match arguments.get(0, "status_code") {
                    Some(status) => self.expr(status)?.text,
                    None => "400".to_owned(),
                };
                let message = match arguments.get(1, "detail") {
                    Some(message) => self.expr(message)?.text,
                    None => "\"rejected\"".to_owned(),
                };
                self.emit(&format!("throw #{{ status: {status}, message: {message} }};"));
                return Ok(());
            }
        }
        let code = match value.as_name() {
            Some(name) if !self.scope.variables.contains_key(name) => {
                Code::atom(names::quoted(name), Type::Text)
            }
            _ => self.expr(value)?,
        };
        self.emit(&format!("throw {};", code.text));
        Ok(())
    }

    pub(super) fn try_statement(
        &mut self,
        body: &'a [Stmt],
        handlers: &'a [Handler],
        otherwise: &'a [Stmt],
        finally: &'a [Stmt],
    ) {
        let start = self.scope.out.len();
        self.emit("try {");
        let known = self.scope.variables.clone();
        self.scope.indent += 1;
        let handles = |names: &[&str]| {
            let classes = handlers.iter().filter_map(|handler| handler.types.as_ref()).flat_map(classes_of);
            classes.into_iter().any(|class| names.contains(&last_name(&class)))
        };
        let outer = (self.scope.needs_keys, self.scope.needs_divisor);
        self.scope.needs_keys |= handles(&["KeyError", "LookupError"]);
        self.scope.needs_divisor |= handles(&["ZeroDivisionError", "ArithmeticError"]);
        self.block(body);
        (self.scope.needs_keys, self.scope.needs_divisor) = outer;
        self.block(otherwise);
        self.scope.indent -= 1;
        self.leave_scope(known.clone());
        let is_empty = self.scope.out.len() == start + 1;
        let name = handlers.iter().rev().find_map(|handler| handler.name.as_deref()).unwrap_or("error");
        let variable = self.code_name(name);
        self.emit(&format!("}} catch ({variable}) {{"));
        let outer = self.scope.error.replace(variable.clone());
        self.scope.indent += 1;
        self.handlers(body, handlers, &variable);
        if handlers.is_empty() {
            self.block(finally);
            self.emit(&format!("throw {variable};"));
        }
        self.scope.indent -= 1;
        self.scope.error = outer;
        self.leave_scope(known);
        self.emit("}");
        if is_empty {
            // The body is empty, so there is nothing to catch.
            self.scope.out.truncate(start);
        }
        let end = self.scope.out.len();
        self.block(finally);
        let runs_code = self.scope.out.iter().skip(end).any(|line| !line.trim_start().starts_with("//"));
        let blocks =
            [body, otherwise].into_iter().chain(handlers.iter().map(|handler| handler.body.as_slice()));
        if let Some(first) = finally.first().filter(|_| runs_code)
            && blocks.flatten().any(returns)
        {
            let text = "`finally`: its lines do not run after a `return` within `try`";
            self.note(NoteKind::Python, text, first.line);
        }
    }

    fn leave_scope(&mut self, known: std::collections::BTreeMap<String, Variable>) {
        let inner = std::mem::take(&mut self.scope.variables);
        self.scope.variables = known;
        for (name, variable) in &mut self.scope.variables {
            if let Some(inner) = inner.get(name).filter(|inner| inner.kind != Type::None) {
                variable.kind = inner.kind.clone();
            }
        }
        // A value that exists only in Python is not bound to a block.
        for (name, variable) in inner {
            if variable.kind.is_ghost() {
                self.scope.variables.entry(name).or_insert(variable);
            }
        }
    }

    fn handlers(&mut self, body: &[Stmt], handlers: &'a [Handler], variable: &str) {
        let mut is_open = false;
        for (at, handler) in handlers.iter().enumerate() {
            self.comments_to(handler.line);
            self.effects.count.seen(handler.line, handler.line);
            let is_last = at + 1 == handlers.len();
            let classes = handler.types.as_ref().map_or_else(Vec::new, classes_of);
            let is_general = classes.is_empty()
                || classes.iter().any(|class| ["Exception", "BaseException"].contains(&last_name(class)));
            let types = handler.types.as_ref().filter(|_| !is_general);
            let condition = types.and_then(|types| condition(types, variable, &self.plugin.raised));
            let later = &handlers[at + 1..];
            // Of several handlers for such errors, the first one would take them all.
            let condition = condition.filter(|condition| {
                !is_of_the_language(condition)
                    || !later.iter().any(|later| takes_language(later, variable, &self.plugin.raised))
            });
            if let Some(condition) = &condition
                && is_of_the_language(condition)
                && let Some(other) = raises_other(body, &classes)
            {
                let shown = classes.join(", ");
                let text =
                    format!("`except {shown}`, which also catches a `{other}` here: errors have no types");
                self.note(NoteKind::Python, text, handler.line);
            }
            let binds = handler.name.clone().unwrap_or_else(|| " error".to_owned());
            self.scope.variables.insert(binds, Variable { code: variable.to_owned(), kind: Type::Error });
            // A handler of another class must not catch what the body raises.
            let is_foreign = |raised: &String| !classes.iter().any(|class| last_name(class) == raised);
            match condition {
                None if is_last && (is_general || !plugin::raised(body).iter().any(is_foreign)) => {
                    if !is_open {
                        self.block(&handler.body);
                        return;
                    }
                    self.emit("} else {");
                    self.inner_block(&handler.body);
                }
                Some(condition) => {
                    self.emit(&if is_open {
                        format!("}} else if {condition} {{")
                    } else {
                        format!("if {condition} {{")
                    });
                    self.inner_block(&handler.body);
                    is_open = true;
                    if is_last {
                        self.throw_again(variable, is_open);
                    }
                }
                None => {
                    let shown = handler.types.as_ref().and_then(Expr::path).unwrap_or_else(|| "…".to_owned());
                    let blocked = Hindrance::new(
                        NoteKind::Python,
                        format!("`except {shown}`: errors have no types here"),
                    );
                    self.leave_lines(handler.line, handler.line, &blocked);
                    for stmt in &handler.body {
                        stmt.walk(&mut |inner| self.effects.count.left(inner.line, inner.end_line));
                    }
                    if is_last {
                        self.throw_again(variable, is_open);
                    }
                }
            }
        }
        if is_open {
            self.emit("}");
        }
    }

    /// Throws an error that no handler catches, in the last branch if the handlers before it have conditions.
    fn throw_again(&mut self, variable: &str, is_branch: bool) {
        if is_branch {
            self.emit("} else {");
        }
        self.scope.indent += usize::from(is_branch);
        self.emit(&format!("throw {variable};"));
        self.scope.indent -= usize::from(is_branch);
    }
}

/// Returns the classes of the errors that a handler catches.
fn classes_of(types: &Expr) -> Vec<String> {
    match &types.kind {
        ExprKind::Tuple(all) => all.iter().filter_map(Expr::path).collect(),
        _ => types.path().into_iter().collect(),
    }
}

/// Returns the condition that matches errors of some types.
///
/// Errors that a script throws have the status 400 or the one it names, and errors of the interpreter and the host
/// have 500. The file itself raises the classes `raised`.
pub(super) fn condition(types: &Expr, variable: &str, raised: &BTreeSet<String>) -> Option<String> {
    const OF_THE_LANGUAGE: [&str; 9] = [
        "ArithmeticError",
        "AttributeError",
        "IndexError",
        "KeyError",
        "LookupError",
        "TypeError",
        "UnicodeDecodeError",
        "ValueError",
        "ZeroDivisionError",
    ];
    let mut parts: Vec<String> = Vec::new();
    for path in classes_of(types) {
        let name = last_name(&path);
        let part = if name.contains("Timeout") {
            format!("{variable}.message.contains(\"time\")")
        } else if matches!(name, "HTTPStatusError" | "ClientResponseError")
            || name == "HTTPError" && !path.starts_with("httpx")
        {
            format!("{variable}.message.contains(\"HTTP status\")")
        } else if matches!(
            name,
            "ConnectionError"
                | "ConnectError"
                | "ClientConnectorError"
                | "ClientConnectionError"
                | "NetworkError"
        ) {
            format!("{variable}.message.contains(\"connect\")")
        } else if matches!(
            name,
            "RequestException" | "ClientError" | "RequestError" | "TransportError" | "HTTPError"
        ) {
            format!(
                "{variable}.message.starts_with(\"http::\") || {variable}.message.contains(\"HTTP status\")"
            )
        } else if name.contains("JSONDecodeError") || name == "ContentTypeError" {
            format!("{variable}.message.to_lower().contains(\"json\")")
        } else if matches!(name, "CancelledError" | "KeyboardInterrupt" | "GeneratorExit" | "ImportError") {
            "false".to_owned()
        } else if name == "HTTPException" {
            format!("{variable}.status != 500")
        } else if OF_THE_LANGUAGE.contains(&name) && !raised.contains(name) {
            format!("{variable}.status == 500")
        } else {
            return None;
        };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    (!parts.is_empty()).then(|| parts.join(" || "))
}

/// Returns `true` for the condition of an error that Python's own operations raise.
fn is_of_the_language(condition: &str) -> bool {
    condition.contains(".status == 500")
}

/// Returns `true` for a handler that catches errors of Python's own operations.
fn takes_language(handler: &Handler, variable: &str, raised: &BTreeSet<String>) -> bool {
    let Some(types) = &handler.types else { return true };
    let is_general = |class: &String| ["Exception", "BaseException"].contains(&last_name(class));
    classes_of(types).iter().any(is_general)
        || condition(types, variable, raised).is_some_and(|condition| is_of_the_language(&condition))
}

/// Returns an error that operations in a block raise and that a handler of these classes does not catch.
fn raises_other(body: &[Stmt], classes: &[String]) -> Option<&'static str> {
    let catches = |names: &[&str]| classes.iter().any(|class| names.contains(&last_name(class)));
    let mut found = None;
    let mut check = |expr: &Expr| {
        let raised = match &expr.kind {
            ExprKind::Call(of, _) if matches!(of.as_name(), Some("int" | "float")) => {
                Some("ValueError").filter(|_| !catches(&["ValueError"]))
            }
            ExprKind::Index(_, index) if index.as_text().is_some() => {
                Some("KeyError").filter(|_| !catches(&["KeyError", "LookupError"]))
            }
            ExprKind::Index(_, index) if matches!(index.kind, ExprKind::Int(_)) => {
                Some("IndexError").filter(|_| !catches(&["IndexError", "LookupError", "KeyError"]))
            }
            _ => None,
        };
        found = found.or(raised);
    };
    for stmt in body {
        stmt.walk(&mut |stmt| {
            let is_store = |expr: &Expr| match &stmt.kind {
                StmtKind::Assign { targets, .. } => targets.iter().any(|target| std::ptr::eq(target, expr)),
                _ => false,
            };
            stmt.expressions(&mut |expr| {
                if !is_store(expr) {
                    expr.walk(&mut check);
                }
            });
        });
    }
    found
}

/// Returns `true` if a statement returns from its function.
fn returns(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.walk(&mut |inner| found |= matches!(inner.kind, StmtKind::Return(_)));
    found
}
