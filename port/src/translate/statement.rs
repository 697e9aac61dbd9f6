//! Statements and blocks.

use super::context::{Hindrance, Outcome, Translator, Variable};
use crate::code::{Code, call, strength};
use crate::docs;
use crate::kinds::Type;
use crate::names;
use crate::plugin::{Attribute, of_self};
use crate::python::{Expr, ExprKind, Stmt, StmtKind};
use crate::report::NoteKind;
use crate::scope;

impl<'a> Translator<'a> {
    pub(super) fn block(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            self.statement(stmt);
        }
    }

    /// Writes a block one level deeper.
    pub(super) fn inner_block(&mut self, body: &'a [Stmt]) {
        let known = self.scope.variables.clone();
        self.scope.indent += 1;
        self.block(body);
        self.scope.indent -= 1;
        // Variables that the block declared end with it.
        for (name, variable) in known {
            let kind = self.scope.variables.get(&name).map(|inner| inner.kind.clone());
            let kind = kind.filter(|kind| *kind != Type::None).unwrap_or_else(|| variable.kind.clone());
            self.scope.variables.insert(name, Variable { kind, ..variable });
        }
    }

    fn statement(&mut self, stmt: &'a Stmt) {
        if docs::is_comment(stmt) {
            self.comments_to(stmt.end_line);
            return;
        }
        self.comments_to(stmt.end_line);
        self.effects.count.seen(stmt.line, stmt.end_line);
        let place = scope::place(stmt);
        for name in self.scope.declarations.before.get(&place).cloned().unwrap_or_default() {
            self.declare(&name);
        }
        let mark = self.scope.out.len();
        let outer = self.statement.replace(stmt);
        let translated = self.translate(stmt);
        self.statement = outer;
        if let Err(blocked) = translated {
            self.scope.out.truncate(mark);
            self.give_up(stmt, &blocked);
            return;
        }
        // Inside a loop, the elements of a list that the script created are copies.
        for (name, line) in self.scope.written_back.clone() {
            if super::live::changes(stmt, &name) {
                self.emit(&line);
            }
        }
    }

    /// Writes `let name = ();`.
    pub(super) fn declare(&mut self, name: &str) {
        let kind = self.scope.joined.get(name).cloned().unwrap_or(Type::None);
        let code = self.code_name(name);
        if !kind.is_ghost() {
            self.emit(&format!("let {code} = ();"));
        }
        let code = if kind.is_ghost() { "()".to_owned() } else { code };
        self.scope.variables.insert(name.to_owned(), Variable { code, kind });
    }

    /// Returns a name in the script that no other variable has.
    pub(super) fn code_name(&self, name: &str) -> String {
        let mut code = names::variable(name);
        let is_plain = code == name && !name.ends_with('_') && !matches!(name, "state" | "args");
        if is_plain && !self.scope.variables.contains_key(&format!("{name} ")) {
            return code;
        }
        let is_taken = |code: &str| {
            matches!(code, "state" | "args")
                || self.scope.variables.iter().any(|(other, variable)| {
                    other != name && variable.code == code && !variable.kind.is_ghost()
                })
        };
        while is_taken(&code) {
            code.push('_');
        }
        code
    }

    /// Leaves a statement to the author and declares the variables that it would have declared.
    fn give_up(&mut self, stmt: &'a Stmt, blocked: &Hindrance) {
        self.leave(stmt, blocked);
        let place = scope::place(stmt);
        for name in self.scope.declarations.at.get(&place).cloned().unwrap_or_default() {
            let declaration = format!("let {} ", names::variable(&name));
            if !self.scope.variables.contains_key(&name)
                || !self.scope.out.iter().any(|line| line.contains(&declaration))
            {
                self.declare(&name);
            }
        }
        // Its value is the author's: nothing that follows may take it for `()`.
        if let StmtKind::Assign { targets, .. } = &stmt.kind {
            for name in targets.iter().filter_map(Expr::as_name) {
                if let Some(variable) = self.scope.variables.get_mut(name).filter(|known| known.code != "()")
                {
                    variable.kind = Type::Unknown;
                }
            }
        }
        match &stmt.kind {
            StmtKind::Return(_) | StmtKind::Raise(_) => {
                let text = format!("not ported yet: line {} of the Python file", stmt.line);
                self.emit(&format!("throw {};", names::quoted(&text)));
            }
            StmtKind::With { body, .. } => self.block(body),
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => {
                let known: Vec<String> = self.scope.variables.keys().cloned().collect();
                self.emit("if false {");
                if let StmtKind::For { target, .. } = &stmt.kind {
                    self.scope.indent += 1;
                    self.declare_names(target);
                    self.scope.indent -= 1;
                }
                self.emit("    loop {");
                self.scope.indent += 1;
                self.inner_block(body);
                self.scope.indent -= 1;
                self.emit("        break;");
                self.emit("    }");
                self.emit("}");
                // The variables of the loop end with it.
                self.scope
                    .variables
                    .retain(|name, variable| known.contains(name) || variable.kind.is_ghost());
            }
            StmtKind::Function(_) | StmtKind::Match { .. } => {
                for block in stmt.blocks() {
                    self.leave_block(block);
                }
            }
            _ => {}
        }
    }

    /// Counts the lines of a block that is left to the author.
    fn leave_block(&mut self, body: &[Stmt]) {
        for stmt in body {
            stmt.walk(&mut |inner| {
                if !docs::is_comment(inner) {
                    self.effects.count.left(inner.line, inner.end_line);
                }
            });
        }
    }

    fn declare_names(&mut self, target: &Expr) {
        match &target.kind {
            ExprKind::Name(name) => self.declare(name),
            ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().for_each(|one| self.declare_names(one)),
            _ => {}
        }
    }

    fn translate(&mut self, stmt: &'a Stmt) -> Outcome<()> {
        match &stmt.kind {
            StmtKind::Expr(value) => self.expression_statement(value),
            StmtKind::Assign { targets, value } => self.assign(stmt, targets, value),
            StmtKind::Annotated { target, value: Some(value), .. } => {
                self.assign(stmt, std::slice::from_ref(target), value)
            }
            StmtKind::Annotated { target, value: None, .. } => {
                if let Some(name) = target.as_name()
                    && self
                        .scope
                        .declarations
                        .at
                        .get(&scope::place(stmt))
                        .is_some_and(|names| names.contains(name))
                {
                    self.declare(name);
                }
                Ok(())
            }
            StmtKind::Augmented { target, op, value } => self.augment(target, *op, value),
            StmtKind::Return(value) => self.returned(value.as_ref()),
            StmtKind::Raise(value) => self.raise(value.as_ref()),
            StmtKind::If { branches, otherwise } => {
                self.if_statement(branches, otherwise);
                Ok(())
            }
            StmtKind::For { target, iter, body, otherwise } => {
                self.for_statement(target, iter, body, otherwise)
            }
            StmtKind::While { condition, body, otherwise } => {
                if !otherwise.is_empty() {
                    return Hindrance::err(NoteKind::Python, "`else` of a loop");
                }
                let is_endless = matches!(condition.kind, ExprKind::Bool(true) | ExprKind::Int(1));
                let head = if is_endless {
                    "loop {".to_owned()
                } else {
                    format!("while {} {{", self.condition(condition)?.text)
                };
                self.emit(&head);
                self.inner_block(body);
                self.emit("}");
                Ok(())
            }
            StmtKind::Try { body, handlers, otherwise, finally } => {
                self.try_statement(body, handlers, otherwise, finally);
                Ok(())
            }
            StmtKind::With { items, body } => self.with(stmt, items, body),
            StmtKind::Match { subject, cases } => self.match_statement(subject, cases),
            StmtKind::Function(function) => self.inner_function(stmt, function),
            StmtKind::Class(_) => Hindrance::err(NoteKind::Python, "a class within a function"),
            StmtKind::Delete(targets) => targets.iter().try_for_each(|target| self.delete(target)),
            StmtKind::Assert(value, message) => {
                let condition = self.condition(value)?;
                let message = match message {
                    Some(message) => self.expr(message)?.text,
                    None => "\"an assertion failed\"".to_owned(),
                };
                let wrong = super::expression::negated(&condition);
                self.emit(&format!("if {} {{ throw {message}; }}", wrong.text));
                Ok(())
            }
            StmtKind::Break => {
                self.emit("break;");
                Ok(())
            }
            StmtKind::Continue => {
                self.emit("continue;");
                Ok(())
            }
            // Imports inside a function apply to the whole file.
            StmtKind::Import(_)
            | StmtKind::ImportFrom { .. }
            | StmtKind::Outer(_)
            | StmtKind::TypeAlias
            | StmtKind::Pass => Ok(()),
        }
    }

    fn expression_statement(&mut self, value: &'a Expr) -> Outcome<()> {
        let value = value.awaited();
        self.refuse_added(value)?;
        match &value.kind {
            ExprKind::Yield(value) => return self.yielded(value.as_deref()),
            ExprKind::YieldFrom(value) => return self.yield_all(value),
            ExprKind::Call(of, args) => {
                // A background task.
                let path = self.full_path_or_empty(of);
                if matches!(path.as_str(), "asyncio.create_task" | "asyncio.ensure_future")
                    && let Some(work) = args.first()
                {
                    self.ends(&work.value)?;
                    let work = self.expr(&work.value)?;
                    self.emit(&format!("after(|| {});", work.text));
                    return Ok(());
                }
                // `map.setdefault(key, []).append(value)`.
                if let ExprKind::Attribute(owner, name) = &of.kind
                    && let Some(owner) = self.filled(owner)?
                {
                    let arguments = super::arguments::Arguments::of(args);
                    let code = match (name.as_str(), arguments.at(0)) {
                        ("append", Some(value)) => format!("{}.push({})", owner.text, self.expr(value)?.text),
                        ("extend", Some(value)) => format!("{} += {}", owner.text, self.as_list(value)?.text),
                        ("update", Some(value)) => {
                            format!("{}.mixin({})", owner.text, self.expr(value)?.text)
                        }
                        ("add", Some(value)) => {
                            let value = self.expr(value)?;
                            format!(
                                "if !({0} in {1}) {{ {1}.push({0}); }}",
                                value.at(strength::IN + 1),
                                owner.text
                            )
                        }
                        _ => return Hindrance::err(NoteKind::Method, format!("`.setdefault(…).{name}()`")),
                    };
                    self.emit_statement(&code);
                    return Ok(());
                }
            }
            _ => {}
        }
        let code = self.expr(value)?;
        let is_empty =
            code.text == "()" || code.kind.is_ghost() || (code.is_simple() && !code.text.contains('('));
        if !is_empty {
            self.emit_statement(&code.text);
        }
        Ok(())
    }

    /// Writes an expression as a statement.
    pub(super) fn emit_statement(&mut self, code: &str) {
        let ends_itself = (code.starts_with("if ") || code.starts_with("for ")) && code.ends_with('}');
        self.emit(&if ends_itself { code.to_owned() } else { format!("{code};") });
    }

    /// Writes the default of a missing key, for a `map.setdefault(key, default)` whose result is changed.
    pub(super) fn filled(&mut self, owner: &Expr) -> Outcome<Option<Code>> {
        let ExprKind::Call(of, args) = &owner.kind else { return Ok(None) };
        let ExprKind::Attribute(map, name) = &of.kind else { return Ok(None) };
        if name != "setdefault" || self.scope.is_closure {
            return Ok(None);
        }
        let [key, fallback] = args.as_slice() else { return Ok(None) };
        let map = match self.filled(map)? {
            Some(map) => map,
            None => {
                let map = self.expr(map)?;
                if super::method::is_place(&map.text) {
                    map
                } else {
                    let name = self.fresh("changed");
                    self.emit(&format!("let {name} = {};", map.text));
                    Code::atom(name, map.kind)
                }
            }
        };
        let fallback = self.expr(&fallback.value)?;
        let literal = key.value.as_text();
        let key = self.expr(&key.value)?;
        let element = match literal {
            Some(literal) => self.key_of_map(&map, literal)?.typed(fallback.kind.clone()).optional(false),
            None => map.index(&key.text, fallback.kind.clone()),
        };
        self.emit(&format!(
            "if !({} in {}) {{ {} = {}; }}",
            key.at(strength::IN + 1),
            map.at(strength::IN + 1),
            element.text,
            fallback.text
        ));
        Ok(Some(element))
    }

    fn if_statement(&mut self, branches: &'a [(Expr, Vec<Stmt>, usize)], otherwise: &'a [Stmt]) {
        let mut is_first = true;
        let mut levels = 0;
        for (at, (condition, body, line)) in branches.iter().enumerate() {
            if !is_first {
                self.effects.count.seen(*line, *line);
            }
            if at == 0
                && let Some(walrus) = first_walrus(condition)
                && let ExprKind::Walrus(name, value) = &walrus.kind
                && let Some(variable) = self.scope.variables.get(name).cloned()
                && let Ok(value) = self.expr(value)
            {
                let declaration = format!("{}let {} = ();", "    ".repeat(self.scope.indent), variable.code);
                let is_new = self.scope.out.last() == Some(&declaration);
                if is_new {
                    self.scope.out.pop();
                }
                self.emit(&format!(
                    "{}{} = {};",
                    if is_new { "let " } else { "" },
                    variable.code,
                    value.text
                ));
                self.note_type(name, value.kind);
                self.scope.hoisted.insert(std::ptr::from_ref(walrus) as usize);
            }
            let code = match self.condition(condition) {
                Ok(code) => code.text,
                Err(blocked) => {
                    if !is_first {
                        // The note is written inside `else`.
                        self.emit("} else {");
                        self.scope.indent += 1;
                        levels += 1;
                        is_first = true;
                    }
                    self.leave_lines(*line, *line, &blocked);
                    "false".to_owned()
                }
            };
            // A value that is always present needs no test.
            if code == "true" && branches.len() == 1 && otherwise.is_empty() && is_first {
                self.block(body);
                break;
            }
            let head = if is_first { format!("if {code} {{") } else { format!("}} else if {code} {{") };
            self.emit(&head);
            self.inner_block(body);
            is_first = false;
            if at + 1 == branches.len() {
                if !otherwise.is_empty() {
                    self.emit("} else {");
                    self.inner_block(otherwise);
                }
                self.emit("}");
            }
        }
        for _ in 0..levels {
            self.scope.indent -= 1;
            self.emit("}");
        }
    }

    fn with(&mut self, stmt: &'a Stmt, items: &'a [(Expr, Option<Expr>)], body: &'a [Stmt]) -> Outcome<()> {
        for (value, target) in items {
            let name = target.as_ref().and_then(Expr::as_name);
            self.scope.wants_stream = name.is_some_and(|name| self.scope.streamed.contains(name));
            let code = self.expr(value);
            self.scope.wants_stream = false;
            let code = code?;
            match (&code.kind, target) {
                (kind, None) if kind.is_ghost() || *kind == Type::Unknown || *kind == Type::None => {}
                (_, None) => self.emit_statement(&code.text),
                (_, Some(target)) => {
                    self.assign_to(stmt, target, code)?;
                }
            }
        }
        self.block(body);
        Ok(())
    }

    fn delete(&mut self, target: &Expr) -> Outcome<()> {
        match &target.kind {
            ExprKind::Name(_) => Ok(()),
            ExprKind::Index(of, index) if !matches!(index.kind, ExprKind::Slice(..)) => {
                let of = self.expr(of)?;
                let index = self.expr(index)?;
                self.emit(&format!("{}.remove({});", of.owner(), index.text));
                Ok(())
            }
            ExprKind::Attribute(of, name) => {
                if of_self(target).is_some() && self.plugin.attributes.get(name) == Some(&Attribute::Kept) {
                    return Err(super::expression::kept(name));
                }
                let of = match of.as_name() {
                    Some("self") => "state".to_owned(),
                    _ => self.expr(of)?.owner(),
                };
                self.emit(&format!("{of}.remove({});", names::quoted(name)));
                Ok(())
            }
            _ => Hindrance::err(NoteKind::Python, "`del` of a slice"),
        }
    }

    fn match_statement(
        &mut self,
        subject: &'a Expr,
        cases: &'a [(Expr, Option<Expr>, Vec<Stmt>, usize)],
    ) -> Outcome<()> {
        let value = self.expr(subject)?;
        let value = if value.is_simple() {
            value
        } else {
            let name = self.fresh("subject");
            self.emit(&format!("let {name} = {};", value.text));
            Code::atom(name, value.kind)
        };
        let mut heads = Vec::new();
        for (pattern, guard, ..) in cases {
            let condition = self.pattern_condition(&value, pattern)?;
            heads.push(match (condition, guard) {
                (condition, None) => condition,
                (Some(condition), Some(guard)) => {
                    let guard = self.condition(guard)?;
                    Some(format!("{condition} && {}", guard.at(strength::AND)))
                }
                (None, Some(guard)) => Some(self.condition(guard)?.text),
            });
        }
        let mut is_open = false;
        for ((_, _, body, line), head) in cases.iter().zip(heads) {
            self.effects.count.seen(*line, *line);
            let text = match (head, is_open) {
                (Some(head), false) => format!("if {head} {{"),
                (Some(head), true) => format!("}} else if {head} {{"),
                (None, true) => "} else {".to_owned(),
                (None, false) => "if true {".to_owned(),
            };
            self.emit(&text);
            self.inner_block(body);
            is_open = true;
        }
        self.emit("}");
        Ok(())
    }

    /// Returns the condition of a `case`, or `None` if it always matches.
    fn pattern_condition(&mut self, value: &Code, pattern: &Expr) -> Outcome<Option<String>> {
        match &pattern.kind {
            ExprKind::Name(name) if name == "_" => Ok(None),
            ExprKind::Binary(crate::python::BinaryOp::Or, left, right) => {
                let (left, right) =
                    (self.pattern_condition(value, left)?, self.pattern_condition(value, right)?);
                Ok(left.zip(right).map(|(left, right)| format!("({left} || {right})")))
            }
            ExprKind::Text(_)
            | ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Attribute(..) => {
                let one = self.expr(pattern)?;
                Ok(Some(format!("{} == {}", value.text, one.at(strength::EQUAL + 1))))
            }
            ExprKind::Call(of, args) if args.is_empty() => {
                let word = match of.as_name() {
                    Some("str") => "string",
                    Some("int") => "i64",
                    Some("float") => "f64",
                    Some("list") => "array",
                    Some("dict") => "map",
                    Some("bool") => "bool",
                    _ => return Hindrance::err(NoteKind::Python, "this pattern of `case`"),
                };
                Ok(Some(format!(
                    "{} == \"{word}\"",
                    call("type_of", std::slice::from_ref(&value.text), Type::Text).text
                )))
            }
            _ => Hindrance::err(NoteKind::Python, "this pattern of `case`"),
        }
    }
}

/// Returns the `name := value` that a condition evaluates first.
fn first_walrus(condition: &Expr) -> Option<&Expr> {
    match &condition.kind {
        ExprKind::Walrus(..) => Some(condition),
        ExprKind::Logic(_, all) => all.first().and_then(first_walrus),
        ExprKind::Compare(first, _) => first_walrus(first),
        ExprKind::Unary(_, inner) => first_walrus(inner),
        _ => None,
    }
}
