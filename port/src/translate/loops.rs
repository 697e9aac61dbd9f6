//! Loops and the values of generators.

use super::context::{Hindrance, Outcome, Translator, Variable, Yields};
use super::generators::is_generator;
use super::helper::Helper;
use crate::code::{Code, call, strength};
use crate::kinds::Type;
use crate::plugin::{PluginKind, of_self};
use crate::python::{Expr, ExprKind, Stmt, StmtKind};
use crate::report::NoteKind;

/// The head of a loop and the first lines of its body.
struct Head {
    pattern: String,
    source: String,
    lines: Vec<String>,
}

impl<'a> Translator<'a> {
    pub(super) fn for_statement(
        &mut self,
        target: &'a Expr,
        iter: &'a Expr,
        body: &'a [Stmt],
        otherwise: &'a [Stmt],
    ) -> Outcome<()> {
        let iter = iter.awaited();
        // `for piece in self.generate(…): yield piece`.
        if let [only] = body
            && let StmtKind::Expr(Expr { kind: ExprKind::Yield(Some(value)), .. }) = &only.kind
            && value.as_name().is_some()
            && value.as_name() == target.as_name()
            && self.is_sent_generator(iter)
        {
            self.effects.count.seen(only.line, only.end_line);
            let call = self.expr(iter)?;
            self.emit_statement(&call.text);
            return Ok(());
        }
        let flag = if otherwise.is_empty() { None } else { Some(self.fresh("ended")) };
        if let Some(flag) = &flag {
            self.emit(&format!("let {flag} = true;"));
        }
        let known = self.scope.variables.clone();
        let is_live = self.is_live(iter);
        for name in target_names(target) {
            if is_live {
                self.scope.live.insert(name.to_owned());
            } else {
                self.scope.live.remove(name);
            }
        }
        let is_letters = target.as_name().is_some_and(|name| asks_for_letters(body, name));
        let mut head = self.loop_head(target, iter, is_letters)?;
        let was_written = self.scope.written_back.len();
        if let Some(name) = target.as_name()
            && !is_live
            && is_place(&head.source)
            && super::live::block_changes(body, name)
            && let Some(variable) = self.scope.variables.get(name).map(|variable| variable.code.clone())
        {
            let at = self.held("at", Type::Int);
            self.scope.written_back.push((name.to_owned(), format!("{}[{at}] = {variable};", head.source)));
            head.pattern = format!("({}, {at})", head.pattern);
        } else if !is_live {
            self.refuse_loop(&target_names(target), iter, body)?;
        }
        self.emit(&format!("for {} in {} {{", head.pattern, head.source));
        self.scope.indent += 1;
        head.lines.iter().for_each(|line| self.emit(line));
        let mark = self.scope.out.len();
        self.block(body);
        self.scope.written_back.truncate(was_written);
        if let Some(flag) = &flag {
            // A `break` skips the `else` branch of the loop.
            for line in self.scope.out.split_off(mark) {
                if line.trim() == "break;" {
                    self.scope.out.push(line.replace("break;", &format!("{flag} = false;")));
                }
                self.scope.out.push(line);
            }
        }
        self.scope.indent -= 1;
        self.emit("}");
        for (name, variable) in known {
            let kind = self.scope.variables.get(&name).map_or(Type::Unknown, |inner| inner.kind.clone());
            self.scope.variables.insert(name, Variable { kind, ..variable });
        }
        if let Some(flag) = flag {
            self.emit(&format!("if {flag} {{"));
            self.inner_block(otherwise);
            self.emit("}");
        }
        Ok(())
    }

    fn loop_head(&mut self, target: &Expr, iter: &Expr, is_letters: bool) -> Outcome<Head> {
        let targets: Option<&[Expr]> = match &target.kind {
            ExprKind::Tuple(all) | ExprKind::List(all) => Some(all),
            _ => None,
        };
        if let ExprKind::Call(of, args) = &iter.kind {
            let function = of.as_name().filter(|name| !self.scope.variables.contains_key(*name));
            match (function, targets) {
                (Some("enumerate"), Some([index, value])) => {
                    let Some(list) = args.first() else {
                        return Hindrance::err(NoteKind::Python, "`enumerate`");
                    };
                    let start = match args.get(1) {
                        Some(start) => Some(self.expr(&start.value)?.at(strength::ADD + 1)),
                        None => None,
                    };
                    // `enumerate(zip(a, b))` and similar calls give lists of pairs.
                    let list = self.as_list(&list.value)?;
                    let mut lines = Vec::new();
                    let value = self.loop_value(value, &list.kind.element(), &mut lines)?;
                    let Some(name) = index.as_name() else {
                        return Hindrance::err(NoteKind::Python, "these names of a loop");
                    };
                    let at = match start.filter(|start| start != "0") {
                        None => self.loop_variable(name, Type::Int, &mut lines),
                        Some(start) => {
                            let at = self.held("at", Type::Int);
                            let sum = Code::new(format!("{at} + {start}"), strength::ADD, Type::Int);
                            self.set_in_loop(name, &sum, &mut lines);
                            at
                        }
                    };
                    return Ok(Head {
                        pattern: format!("({value}, {at})"),
                        source: list.at(strength::RANGE),
                        lines,
                    });
                }
                (Some("zip"), Some([a, b])) => {
                    let [first, second] = args.as_slice() else {
                        return Hindrance::err(NoteKind::Python, "`zip` of more than two lists");
                    };
                    let (first, second) = (self.as_list(&first.value)?, self.as_list(&second.value)?);
                    let others = self.held("others", Type::list());
                    self.emit(&format!("let {others} = {};", second.text));
                    let at = self.held("at", Type::Int);
                    let mut lines = vec![format!("if {at} >= {others}.len() {{ break; }}")];
                    let value = self.loop_value(a, &first.kind.element(), &mut lines)?;
                    self.take_apart(
                        b,
                        &Code::atom(format!("{others}[{at}]"), second.kind.element()),
                        &mut lines,
                    )?;
                    return Ok(Head {
                        pattern: format!("({value}, {at})"),
                        source: first.at(strength::RANGE),
                        lines,
                    });
                }
                _ => {}
            }
            if let ExprKind::Attribute(map, name) = &of.kind
                && name == "items"
                && args.is_empty()
                && let Some([key, value]) = targets
            {
                let map = self.expr(map)?;
                let map = if map.is_simple() && !map.is_optional {
                    map
                } else {
                    let name = self.held("entries", Type::Map);
                    self.emit(&format!("let {name} = {};", map.text));
                    Code::atom(name, Type::Map)
                };
                let Some(name) = key.as_name() else {
                    return Hindrance::err(NoteKind::Python, "these names of a loop");
                };
                let mut lines = Vec::new();
                let code = self.loop_variable(name, Type::Text, &mut lines);
                self.take_apart(value, &map.index(&code, Type::Unknown), &mut lines)?;
                return Ok(Head { pattern: code, source: format!("{}.keys()", map.owner()), lines });
            }
        }
        let source = self.expr(iter)?;
        // `response.content` of an answer that was not streamed.
        let source = match (&iter.kind, source.text.strip_suffix(".bytes")) {
            (ExprKind::Attribute(_, name), Some(answer))
                if name == "content" && source.kind == Type::Bytes =>
            {
                call("text::lines", &[format!("{answer}.text")], Type::list_of(Type::Text))
            }
            _ => source,
        };
        let source = if source.kind == Type::Unknown && is_letters {
            let name = self.helper(Helper::Elements);
            call(name, &[source.text], Type::list())
        } else {
            self.iterated(source)
        };
        if source.kind.is_ghost() {
            return Hindrance::err(NoteKind::Python, "a loop over this value");
        }
        if matches!(source.kind, Type::Stream | Type::Answer)
            && let Some(name) = target.as_name()
        {
            self.scope.line_variables.insert(name.to_owned());
        }
        let mut lines = Vec::new();
        let pattern = self.loop_value(target, &source.kind.element(), &mut lines)?;
        if source.kind == Type::Stream && reads_chunks(iter) {
            lines.insert(0, format!("{pattern} += \"\\n\";"));
        }
        Ok(Head { pattern, source: source.at(strength::RANGE), lines })
    }

    /// Returns the loop variable; a target of several names is unpacked inside the loop.
    fn loop_value(&mut self, target: &Expr, element: &Type, lines: &mut Vec<String>) -> Outcome<String> {
        match &target.kind {
            ExprKind::Name(name) => Ok(self.loop_variable(name, element.clone(), lines)),
            _ => {
                let entry = self.held("entry", Type::list());
                self.take_apart(target, &Code::atom(entry.clone(), element.clone()), lines)?;
                Ok(entry)
            }
        }
    }

    /// Returns the name of a new variable that the translation adds.
    fn held(&mut self, base: &str, kind: Type) -> String {
        let name = self.fresh(base);
        self.scope.variables.insert(format!("{name} "), Variable { code: name.clone(), kind });
        name
    }

    /// Declares the loop variable. If it is read after the loop, the loop has a separate variable.
    fn loop_variable(&mut self, name: &str, kind: Type, lines: &mut Vec<String>) -> String {
        if self.scope.declarations.outlive.contains(name)
            && let Some(outer) = self.scope.variables.get(name).map(|variable| variable.code.clone())
        {
            let inner = self.held(&format!("{outer}_now"), kind.clone());
            lines.push(format!("{outer} = {inner};"));
            self.note_type(name, kind);
            return inner;
        }
        self.scope.variables.remove(name);
        let code = self.code_name(name);
        self.scope.variables.insert(name.to_owned(), Variable { code: code.clone(), kind });
        code
    }

    /// Declares a variable at the start of the loop body.
    fn set_in_loop(&mut self, name: &str, value: &Code, lines: &mut Vec<String>) {
        if self.scope.declarations.outlive.contains(name)
            && let Some(outer) = self.scope.variables.get(name).map(|variable| variable.code.clone())
        {
            lines.push(format!("{outer} = {};", value.text));
            self.note_type(name, value.kind.clone());
            return;
        }
        self.scope.variables.remove(name);
        let code = self.code_name(name);
        lines.push(format!("let {code} = {};", value.text));
        self.scope.variables.insert(name.to_owned(), Variable { code, kind: value.kind.clone() });
    }

    fn take_apart(&mut self, target: &Expr, value: &Code, lines: &mut Vec<String>) -> Outcome<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                self.set_in_loop(name, value, lines);
                Ok(())
            }
            ExprKind::Tuple(all) | ExprKind::List(all) => {
                for (at, one) in all.iter().enumerate() {
                    self.take_apart(one, &value.index(&at.to_string(), value.kind.element()), lines)?;
                }
                Ok(())
            }
            _ => Hindrance::err(NoteKind::Python, "these names of a loop"),
        }
    }

    /// Translates `yield value`.
    pub(super) fn yielded(&mut self, value: Option<&Expr>) -> Outcome<()> {
        let Some(value) = value else { return Ok(()) };
        let code = self.expr(value)?;
        let is_line = value.as_name().is_some_and(|name| self.scope.line_variables.contains(name))
            || code.text.trim_start_matches(['"', '`']).starts_with("data:");
        match self.scope.yields {
            Yields::Collected => self.emit(&format!("yielded.push({});", code.text)),
            Yields::Sent if is_line => {
                let send = self.helper(Helper::SendLine);
                self.emit(&format!("{send}({});", code.text));
            }
            Yields::Sent if code.kind == Type::Text => self.emit(&format!("yield_text({});", code.text)),
            Yields::Sent => self.emit(&format!("yield_piece({});", code.text)),
        }
        Ok(())
    }

    /// Translates `yield from value`.
    pub(super) fn yield_all(&mut self, value: &Expr) -> Outcome<()> {
        if self.is_sent_generator(value) {
            let call = self.expr(value)?;
            self.emit_statement(&call.text);
            return Ok(());
        }
        let list = self.expr(value)?;
        match (self.scope.yields, &list.kind) {
            (Yields::Collected, _) => self.emit(&format!("yielded += {};", list.text)),
            (Yields::Sent, Type::Stream) => self.send_lines(&list),
            (Yields::Sent, _) => self.emit(&format!("for piece in {} {{ yield_piece(piece); }}", list.text)),
        }
        Ok(())
    }

    /// Writes a loop that sends the lines of a streamed response.
    pub(super) fn send_lines(&mut self, stream: &Code) {
        let send = self.helper(Helper::SendLine);
        self.emit(&format!("for line in {} {{", stream.text));
        self.emit(&format!("    {send}(line);"));
        self.emit("}");
    }

    /// Returns `true` for a call of a generator whose values are sent as deltas of the response.
    fn is_sent_generator(&self, value: &Expr) -> bool {
        if self.plugin.kind != PluginKind::Pipe || self.scope.yields == Yields::Collected {
            return false;
        }
        let ExprKind::Call(of, _) = &value.awaited().kind else { return false };
        let function = match of_self(of) {
            Some(name) => self.plugin.methods.get(name).copied(),
            None => of.as_name().and_then(|name| self.plugin.functions.get(name).copied()),
        };
        function.is_some_and(|function| is_generator(function) && !self.collected.contains(&function.name))
    }
}

/// Returns `true` for a response that is read in chunks of bytes, which include line breaks.
fn reads_chunks(iter: &Expr) -> bool {
    let ExprKind::Call(of, _) = &iter.awaited().kind else { return false };
    let ExprKind::Attribute(_, name) = &of.kind else { return false };
    matches!(
        name.as_str(),
        "iter_chunked"
            | "iter_any"
            | "iter_content"
            | "iter_bytes"
            | "iter_raw"
            | "aiter_bytes"
            | "aiter_raw"
    )
}

/// Returns `true` if a block calls functions that Python code calls on single letters of a text.
fn asks_for_letters(body: &[Stmt], name: &str) -> bool {
    let mut found = false;
    for stmt in body {
        stmt.walk(&mut |stmt| {
            stmt.expressions(&mut |expr| {
                expr.walk(&mut |inner| {
                    let ExprKind::Call(of, args) = &inner.kind else { return };
                    found |= match &of.kind {
                        ExprKind::Attribute(of, method) => {
                            of.as_name() == Some(name) && method.starts_with("is")
                        }
                        ExprKind::Name(function) => {
                            function == "ord" && args.iter().any(|one| one.value.as_name() == Some(name))
                        }
                        _ => false,
                    };
                });
            });
        });
    }
    found
}

/// Returns the names that a loop sets.
fn target_names(target: &Expr) -> Vec<&str> {
    match &target.kind {
        ExprKind::Name(name) => vec![name],
        ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().flat_map(target_names).collect(),
        _ => Vec::new(),
    }
}

/// Returns `true` for the code of a variable or of one of its fields.
fn is_place(code: &str) -> bool {
    code.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && code.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter))
        && !code.contains("..")
}
