//! Reads a file with ruff's parser and turns its tree into ours, which is smaller and knows lines.

use super::ast::{
    Arg, BinaryOp, BoolOp, Class, CompareOp, Comprehension, Expr, ExprKind, FormatPart, Function, Handler,
    MAX_DEPTH, Param, ParamKind, Star, Stmt, StmtKind, UnaryOp,
};
use super::error::SyntaxError;
use ruff_python_ast as ruff;
use ruff_python_ast::token::TokenKind;
use ruff_text_size::{Ranged, TextRange, TextSize};

/// A parsed file.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    pub(crate) body: Vec<Stmt>,
    pub(crate) comments: Vec<Comment>,
}

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comment {
    pub(crate) line: usize,
    /// The text after `#`, trimmed.
    pub(crate) text: String,
}

/// Parses a file.
pub(crate) fn parse(text: &str) -> Result<Module, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { text, lines: lines(text), depth: 0 };
    let parsed = ruff_python_parser::parse_module(text)
        .map_err(|error| reader.error(error.location.start(), reader.reason(&error)))?;
    let comments = parsed.tokens().iter().filter(|token| token.kind() == TokenKind::Comment);
    let comments = comments
        .map(|token| Comment {
            line: reader.line(token.start()),
            text: reader.part(token.range()).trim_start_matches('#').trim().to_owned(),
        })
        .collect();
    match reader.block(&parsed.syntax().body) {
        Ok(body) => Ok(Module { body, comments }),
        Err(error) => {
            // A tree that is too deep for us is too deep for the stack when it is dropped.
            std::mem::forget(parsed);
            Err(error)
        }
    }
}

/// Returns the places where lines begin.
fn lines(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

type Read<T> = Result<T, SyntaxError>;

struct Reader<'a> {
    text: &'a str,
    lines: Vec<usize>,
    /// The number of nested expressions and statements.
    depth: u16,
}

impl Reader<'_> {
    fn line(&self, at: TextSize) -> usize {
        self.lines.partition_point(|start| *start <= at.to_usize())
    }

    fn part(&self, range: TextRange) -> &str {
        &self.text[range]
    }

    /// Returns the reason of an error; a statement of Python 2 has one of its own.
    fn reason(&self, error: &ruff_python_parser::ParseError) -> String {
        let line = self.line(error.location.start());
        let line = self.text.lines().nth(line.saturating_sub(1)).map_or("", str::trim_start);
        match ["print ", "exec "].iter().any(|word| line.starts_with(word)) {
            true => "a statement of Python 2; convert the file to Python 3".to_owned(),
            false => error.error.to_string(),
        }
    }

    fn error(&self, at: TextSize, message: String) -> SyntaxError {
        let line = self.line(at);
        let start = line.checked_sub(1).map_or(0, |line| self.lines[line]);
        let column = self.text.get(start..at.to_usize()).map_or(0, |before| before.chars().count()) + 1;
        SyntaxError::new(line, column, message)
    }

    /// Returns the line of the colon that ends the head of a compound statement, from a place before it.
    fn colon_after(&self, at: TextSize) -> usize {
        let mut is_comment = false;
        let colon = self.text[at.to_usize()..].char_indices().find(|(_, letter)| {
            is_comment = *letter == '#' || is_comment && *letter != '\n';
            !is_comment && *letter == ':'
        });
        let colon = colon.map_or(0, |(after, _)| after);
        self.lines.partition_point(|start| *start <= at.to_usize() + colon)
    }

    /// Runs a step one level deeper.
    fn deeper<T>(&mut self, at: TextSize, step: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(at, format!("an expression of more than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    fn block(&mut self, body: &[ruff::Stmt]) -> Read<Vec<Stmt>> {
        body.iter().map(|stmt| self.deeper(stmt.start(), |reader| reader.statement(stmt))).collect()
    }

    fn statement(&mut self, stmt: &ruff::Stmt) -> Read<Stmt> {
        let line = self.line(stmt.start());
        let (kind, end_line) = match stmt {
            ruff::Stmt::FunctionDef(of) => {
                (StmtKind::Function(self.function(of)?), self.line(of.name.start()))
            }
            ruff::Stmt::ClassDef(of) => (StmtKind::Class(self.class(of)?), self.line(of.name.start())),
            ruff::Stmt::If(of) => (self.if_statement(of)?, self.colon_after(of.test.end())),
            ruff::Stmt::For(of) => (
                StmtKind::For {
                    target: self.expr(&of.target)?,
                    iter: self.expr(&of.iter)?,
                    body: self.block(&of.body)?,
                    otherwise: self.block(&of.orelse)?,
                },
                self.colon_after(of.iter.end()),
            ),
            ruff::Stmt::While(of) => (
                StmtKind::While {
                    condition: self.expr(&of.test)?,
                    body: self.block(&of.body)?,
                    otherwise: self.block(&of.orelse)?,
                },
                self.colon_after(of.test.end()),
            ),
            ruff::Stmt::With(of) => {
                let end = of.items.last().map_or(stmt.start(), Ranged::end);
                (self.with_statement(of)?, self.colon_after(end))
            }
            ruff::Stmt::Try(of) => (self.try_statement(of)?, self.colon_after(stmt.start())),
            ruff::Stmt::Match(of) => (self.match_statement(of)?, self.colon_after(of.subject.end())),
            _ => (self.simple(stmt)?, self.line(stmt.end())),
        };
        Ok(Stmt { kind, line, end_line })
    }

    fn simple(&mut self, stmt: &ruff::Stmt) -> Read<StmtKind> {
        Ok(match stmt {
            ruff::Stmt::Expr(of) => StmtKind::Expr(self.expr(&of.value)?),
            ruff::Stmt::Assign(of) => {
                StmtKind::Assign { targets: self.all(&of.targets)?, value: self.expr(&of.value)? }
            }
            ruff::Stmt::AugAssign(of) => StmtKind::Augmented {
                target: self.expr(&of.target)?,
                op: binary(of.op),
                value: self.expr(&of.value)?,
            },
            ruff::Stmt::AnnAssign(of) => StmtKind::Annotated {
                target: self.expr(&of.target)?,
                annotation: self.expr(&of.annotation)?,
                value: self.maybe(of.value.as_deref())?,
            },
            ruff::Stmt::Return(of) => StmtKind::Return(self.maybe(of.value.as_deref())?),
            ruff::Stmt::Raise(of) => StmtKind::Raise(self.maybe(of.exc.as_deref())?),
            ruff::Stmt::Delete(of) => StmtKind::Delete(match of.targets.as_slice() {
                [ruff::Expr::Tuple(of)] => self.all(&of.elts)?,
                targets => self.all(targets)?,
            }),
            ruff::Stmt::Assert(of) => StmtKind::Assert(self.expr(&of.test)?, self.maybe(of.msg.as_deref())?),
            ruff::Stmt::Import(of) => StmtKind::Import(of.names.iter().map(alias).collect()),
            ruff::Stmt::ImportFrom(of) => {
                let mut module = (0..of.level).map(|_| '.').collect::<String>();
                module.push_str(of.module.as_ref().map_or("", |module| module.as_str()));
                let names = of.names.iter().filter(|name| name.name.as_str() != "*").map(alias);
                StmtKind::ImportFrom { module, names: names.collect() }
            }
            ruff::Stmt::Global(of) => StmtKind::Outer(of.names.iter().map(ToString::to_string).collect()),
            ruff::Stmt::Nonlocal(of) => StmtKind::Outer(of.names.iter().map(ToString::to_string).collect()),
            ruff::Stmt::TypeAlias(_) => StmtKind::TypeAlias,
            ruff::Stmt::Break(_) => StmtKind::Break,
            ruff::Stmt::Continue(_) => StmtKind::Continue,
            _ => StmtKind::Pass,
        })
    }

    fn if_statement(&mut self, of: &ruff::StmtIf) -> Read<StmtKind> {
        let mut branches = vec![(self.expr(&of.test)?, self.block(&of.body)?, self.line(of.start()))];
        let mut otherwise = Vec::new();
        for clause in &of.elif_else_clauses {
            let body = self.block(&clause.body)?;
            match &clause.test {
                Some(test) => branches.push((self.expr(test)?, body, self.line(clause.start()))),
                None => otherwise = body,
            }
        }
        Ok(StmtKind::If { branches, otherwise })
    }

    fn with_statement(&mut self, of: &ruff::StmtWith) -> Read<StmtKind> {
        let mut items = Vec::new();
        for item in &of.items {
            items.push((self.expr(&item.context_expr)?, self.maybe(item.optional_vars.as_deref())?));
        }
        Ok(StmtKind::With { items, body: self.block(&of.body)? })
    }

    fn try_statement(&mut self, of: &ruff::StmtTry) -> Read<StmtKind> {
        let mut handlers = Vec::new();
        for handler in &of.handlers {
            let ruff::ExceptHandler::ExceptHandler(handler) = handler;
            handlers.push(Handler {
                types: self.maybe(handler.type_.as_deref())?,
                name: handler.name.as_ref().map(ToString::to_string),
                body: self.block(&handler.body)?,
                line: self.line(handler.start()),
            });
        }
        Ok(StmtKind::Try {
            body: self.block(&of.body)?,
            handlers,
            otherwise: self.block(&of.orelse)?,
            finally: self.block(&of.finalbody)?,
        })
    }

    fn match_statement(&mut self, of: &ruff::StmtMatch) -> Read<StmtKind> {
        let mut cases = Vec::new();
        for case in &of.cases {
            let pattern = self.pattern(&case.pattern)?;
            let guard = self.maybe(case.guard.as_deref())?;
            cases.push((pattern, guard, self.block(&case.body)?, self.line(case.start())));
        }
        Ok(StmtKind::Match { subject: self.expr(&of.subject)?, cases })
    }

    fn function(&mut self, of: &ruff::StmtFunctionDef) -> Read<Function> {
        let end = of.returns.as_ref().map_or(of.parameters.end(), |returns| returns.end());
        Ok(Function {
            name: of.name.to_string(),
            params: self.params(&of.parameters)?,
            body: self.block(&of.body)?,
            decorators: self.decorators(&of.decorator_list)?,
            header_end: self.colon_after(end),
        })
    }

    fn class(&mut self, of: &ruff::StmtClassDef) -> Read<Class> {
        Ok(Class {
            name: of.name.to_string(),
            bases: of.arguments.as_ref().map_or(Ok(Vec::new()), |arguments| self.arguments(arguments))?,
            body: self.block(&of.body)?,
            decorators: self.decorators(&of.decorator_list)?,
        })
    }

    fn decorators(&mut self, all: &[ruff::Decorator]) -> Read<Vec<Expr>> {
        all.iter().map(|one| self.expr(&one.expression)).collect()
    }

    fn params(&mut self, of: &ruff::Parameters) -> Read<Vec<Param>> {
        let mut all = Vec::new();
        let mut add =
            |reader: &mut Self, param: &ruff::Parameter, default: Option<&ruff::Expr>, kind: ParamKind| {
                all.push(Param {
                    name: param.name.to_string(),
                    annotation: reader.maybe(param.annotation.as_deref())?,
                    default: reader.maybe(default)?,
                    kind,
                });
                Ok(())
            };
        for one in of.posonlyargs.iter().chain(&of.args) {
            add(self, &one.parameter, one.default.as_deref(), ParamKind::Plain)?;
        }
        if let Some(list) = &of.vararg {
            add(self, list, None, ParamKind::List)?;
        }
        for one in &of.kwonlyargs {
            add(self, &one.parameter, one.default.as_deref(), ParamKind::Plain)?;
        }
        if let Some(map) = &of.kwarg {
            add(self, map, None, ParamKind::Map)?;
        }
        Ok(all)
    }

    fn arguments(&mut self, of: &ruff::Arguments) -> Read<Vec<Arg>> {
        let mut all = Vec::new();
        for value in &of.args {
            all.push(match value {
                ruff::Expr::Starred(list) => {
                    Arg { name: None, star: Star::List, value: self.expr(&list.value)? }
                }
                _ => Arg { name: None, star: Star::None, value: self.expr(value)? },
            });
        }
        for keyword in &of.keywords {
            all.push(Arg {
                name: keyword.arg.as_ref().map(ToString::to_string),
                star: if keyword.arg.is_none() { Star::Map } else { Star::None },
                value: self.expr(&keyword.value)?,
            });
        }
        Ok(all)
    }

    fn all(&mut self, all: &[ruff::Expr]) -> Read<Vec<Expr>> {
        all.iter().map(|one| self.expr(one)).collect()
    }

    fn maybe(&mut self, one: Option<&ruff::Expr>) -> Read<Option<Expr>> {
        one.map(|one| self.expr(one)).transpose()
    }

    fn boxed(&mut self, one: &ruff::Expr) -> Read<Box<Expr>> {
        self.expr(one).map(Box::new)
    }

    fn expr(&mut self, expr: &ruff::Expr) -> Read<Expr> {
        let line = self.line(expr.start());
        let kind = self.deeper(expr.start(), |reader| reader.kind(expr))?;
        Ok(Expr { kind, line })
    }

    fn kind(&mut self, expr: &ruff::Expr) -> Read<ExprKind> {
        Ok(match expr {
            ruff::Expr::Name(of) => ExprKind::Name(of.id.to_string()),
            ruff::Expr::NumberLiteral(of) => number(&of.value),
            ruff::Expr::StringLiteral(of) => ExprKind::Text(of.value.to_str().to_owned()),
            ruff::Expr::BytesLiteral(of) => ExprKind::Bytes(of.value.bytes().map(char::from).collect()),
            ruff::Expr::FString(of) => ExprKind::Format(self.format(of)?),
            ruff::Expr::BooleanLiteral(of) => ExprKind::Bool(of.value),
            ruff::Expr::NoneLiteral(_) => ExprKind::None,
            ruff::Expr::EllipsisLiteral(_) => ExprKind::Ellipsis,
            ruff::Expr::Attribute(of) => ExprKind::Attribute(self.boxed(&of.value)?, of.attr.to_string()),
            ruff::Expr::Subscript(of) => ExprKind::Index(self.boxed(&of.value)?, self.boxed(&of.slice)?),
            ruff::Expr::Slice(of) => {
                let mut part =
                    |part: &Option<Box<ruff::Expr>>| part.as_deref().map(|part| self.boxed(part)).transpose();
                ExprKind::Slice(part(&of.lower)?, part(&of.upper)?, part(&of.step)?)
            }
            ruff::Expr::Call(of) => ExprKind::Call(self.boxed(&of.func)?, self.arguments(&of.arguments)?),
            ruff::Expr::Lambda(of) => {
                let params = of.parameters.as_ref().map_or(Ok(Vec::new()), |params| self.params(params))?;
                ExprKind::Lambda(params, self.boxed(&of.body)?)
            }
            ruff::Expr::List(of) => ExprKind::List(self.all(&of.elts)?),
            ruff::Expr::Tuple(of) => ExprKind::Tuple(self.all(&of.elts)?),
            ruff::Expr::Set(of) => ExprKind::Set(self.all(&of.elts)?),
            ruff::Expr::Dict(of) => {
                let entries = of.items.iter();
                let entries =
                    entries.map(|item| Ok((self.maybe(item.key.as_ref())?, self.expr(&item.value)?)));
                ExprKind::Dict(entries.collect::<Read<_>>()?)
            }
            ruff::Expr::Await(of) => ExprKind::Await(self.boxed(&of.value)?),
            ruff::Expr::Yield(of) => {
                ExprKind::Yield(of.value.as_deref().map(|value| self.boxed(value)).transpose()?)
            }
            ruff::Expr::YieldFrom(of) => ExprKind::YieldFrom(self.boxed(&of.value)?),
            ruff::Expr::Starred(of) => ExprKind::Starred(self.boxed(&of.value)?),
            ruff::Expr::Named(of) => {
                let name = self.part(of.target.range()).to_owned();
                ExprKind::Walrus(name, self.boxed(&of.value)?)
            }
            _ => return self.operation(expr),
        })
    }

    /// Reads operators and comprehensions.
    fn operation(&mut self, expr: &ruff::Expr) -> Read<ExprKind> {
        Ok(match expr {
            ruff::Expr::UnaryOp(of) => ExprKind::Unary(unary(of.op), self.boxed(&of.operand)?),
            ruff::Expr::BinOp(of) => {
                ExprKind::Binary(binary(of.op), self.boxed(&of.left)?, self.boxed(&of.right)?)
            }
            ruff::Expr::BoolOp(of) => {
                let op = if of.op == ruff::BoolOp::And { BoolOp::And } else { BoolOp::Or };
                ExprKind::Logic(op, self.all(&of.values)?)
            }
            ruff::Expr::Compare(of) => {
                let others = of.ops.iter().zip(&of.comparators);
                let others = others.map(|(op, other)| Ok((comparison(*op), self.expr(other)?)));
                let others = others.collect::<Read<_>>()?;
                ExprKind::Compare(self.boxed(&of.left)?, others)
            }
            ruff::Expr::If(of) => ExprKind::Choice {
                condition: self.boxed(&of.test)?,
                then: self.boxed(&of.body)?,
                otherwise: self.boxed(&of.orelse)?,
            },
            ruff::Expr::ListComp(of) => ExprKind::ListOf(self.boxed(&of.elt)?, self.loops(&of.generators)?),
            ruff::Expr::SetComp(of) => ExprKind::SetOf(self.boxed(&of.elt)?, self.loops(&of.generators)?),
            ruff::Expr::Generator(of) => {
                ExprKind::Generator(self.boxed(&of.elt)?, self.loops(&of.generators)?)
            }
            ruff::Expr::DictComp(of) => {
                let Some(key) = &of.key else {
                    return Err(self.error(expr.start(), "`**` in a comprehension".to_owned()));
                };
                ExprKind::DictOf(self.boxed(key)?, self.boxed(&of.value)?, self.loops(&of.generators)?)
            }
            _ => return Err(self.error(expr.start(), "a template string".to_owned())),
        })
    }

    fn loops(&mut self, all: &[ruff::Comprehension]) -> Read<Vec<Comprehension>> {
        let mut loops = Vec::new();
        for one in all {
            loops.push(Comprehension {
                target: self.expr(&one.target)?,
                iter: self.expr(&one.iter)?,
                conditions: self.all(&one.ifs)?,
            });
        }
        Ok(loops)
    }

    fn format(&mut self, of: &ruff::ExprFString) -> Read<Vec<FormatPart>> {
        let mut parts = Vec::new();
        for part in of.value.iter() {
            match part {
                ruff::FStringPart::Literal(text) => add(&mut parts, &text.value),
                ruff::FStringPart::FString(format) => self.elements(&format.elements, &mut parts)?,
            }
        }
        Ok(parts)
    }

    fn elements(&mut self, all: &ruff::InterpolatedStringElements, parts: &mut Vec<FormatPart>) -> Read<()> {
        for one in all {
            let value = match one {
                ruff::InterpolatedStringElement::Literal(text) => {
                    add(parts, &text.value);
                    continue;
                }
                ruff::InterpolatedStringElement::Interpolation(value) => value,
            };
            let mut format = Vec::new();
            if let Some(spec) = &value.format_spec {
                self.deeper(value.start(), |reader| reader.elements(&spec.elements, &mut format))?;
            }
            let shown = self.part(value.expression.range()).to_owned();
            parts.push(FormatPart::Value {
                value: self.expr(&value.expression)?,
                conversion: value.conversion.to_byte().map(char::from),
                format,
                is_debug: value.debug_text.is_some().then_some(shown),
            });
        }
        Ok(())
    }

    /// Reads the pattern of a `case` as an expression that looks like it.
    fn pattern(&mut self, pattern: &ruff::Pattern) -> Read<Expr> {
        let line = self.line(pattern.start());
        let kind = self.deeper(pattern.start(), |reader| reader.pattern_kind(pattern, line))?;
        Ok(Expr { kind, line })
    }

    fn pattern_kind(&mut self, pattern: &ruff::Pattern, line: usize) -> Read<ExprKind> {
        let mut patterns =
            |all: &[ruff::Pattern]| all.iter().map(|one| self.pattern(one)).collect::<Read<Vec<_>>>();
        Ok(match pattern {
            ruff::Pattern::MatchValue(of) => self.expr(&of.value)?.kind,
            ruff::Pattern::MatchSingleton(of) => match of.value {
                ruff::Singleton::None => ExprKind::None,
                ruff::Singleton::True => ExprKind::Bool(true),
                ruff::Singleton::False => ExprKind::Bool(false),
            },
            ruff::Pattern::MatchSequence(of) => ExprKind::Tuple(patterns(&of.patterns)?),
            ruff::Pattern::MatchMapping(of) => {
                let values = patterns(&of.patterns)?;
                let keys = self.all(&of.keys)?.into_iter().map(Some);
                ExprKind::Dict(keys.zip(values).collect())
            }
            ruff::Pattern::MatchClass(of) => {
                let fields =
                    of.arguments.keywords.iter().map(|one| (Some(one.attr.to_string()), &one.pattern));
                let all = of.arguments.patterns.iter().map(|one| (None, one)).chain(fields);
                let mut args = Vec::new();
                for (name, value) in all {
                    args.push(Arg { name, star: Star::None, value: self.pattern(value)? });
                }
                ExprKind::Call(self.boxed(&of.cls)?, args)
            }
            ruff::Pattern::MatchStar(of) => {
                let name = of.name.as_ref().map_or("_", |name| name.as_str()).to_owned();
                ExprKind::Starred(Box::new(Expr { kind: ExprKind::Name(name), line }))
            }
            ruff::Pattern::MatchAs(of) => {
                let name = of.name.as_ref().map_or("_", |name| name.as_str()).to_owned();
                match &of.pattern {
                    Some(pattern) => ExprKind::Walrus(name, Box::new(self.pattern(pattern)?)),
                    None => ExprKind::Name(name),
                }
            }
            ruff::Pattern::MatchOr(of) => {
                let all = patterns(&of.patterns)?.into_iter();
                let either = all.reduce(|left, right| Expr {
                    kind: ExprKind::Binary(BinaryOp::Or, Box::new(left), Box::new(right)),
                    line,
                });
                either.map_or(ExprKind::None, |either| either.kind)
            }
        })
    }
}

/// Adds a text to the parts of a formatted text.
fn add(parts: &mut Vec<FormatPart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(FormatPart::Text(before)) => before.push_str(text),
        _ => parts.push(FormatPart::Text(text.to_owned())),
    }
}

fn alias(of: &ruff::Alias) -> (String, Option<String>) {
    (of.name.to_string(), of.asname.as_ref().map(ToString::to_string))
}

/// Returns an integer of 64 bits, or a float in Rhai's syntax, which always has a decimal point.
fn number(of: &ruff::Number) -> ExprKind {
    let float = |value: f64| ExprKind::Float(format!("{:?}", if value.is_finite() { value } else { 0.0 }));
    match of {
        ruff::Number::Int(value) => match value.as_i64() {
            Some(value) => ExprKind::Int(value),
            None => float(value.to_string().parse().unwrap_or(0.0)),
        },
        ruff::Number::Float(value) => float(*value),
        ruff::Number::Complex { imag, .. } => float(*imag),
    }
}

fn unary(op: ruff::UnaryOp) -> UnaryOp {
    match op {
        ruff::UnaryOp::Not => UnaryOp::Not,
        ruff::UnaryOp::USub => UnaryOp::Minus,
        ruff::UnaryOp::UAdd => UnaryOp::Plus,
        ruff::UnaryOp::Invert => UnaryOp::Invert,
    }
}

fn binary(op: ruff::Operator) -> BinaryOp {
    match op {
        ruff::Operator::Add => BinaryOp::Add,
        ruff::Operator::Sub => BinaryOp::Sub,
        ruff::Operator::Mult => BinaryOp::Mul,
        ruff::Operator::MatMult => BinaryOp::MatMul,
        ruff::Operator::Div => BinaryOp::Div,
        ruff::Operator::Mod => BinaryOp::Mod,
        ruff::Operator::Pow => BinaryOp::Pow,
        ruff::Operator::LShift => BinaryOp::ShiftLeft,
        ruff::Operator::RShift => BinaryOp::ShiftRight,
        ruff::Operator::BitOr => BinaryOp::Or,
        ruff::Operator::BitXor => BinaryOp::Xor,
        ruff::Operator::BitAnd => BinaryOp::And,
        ruff::Operator::FloorDiv => BinaryOp::FloorDiv,
    }
}

fn comparison(op: ruff::CmpOp) -> CompareOp {
    match op {
        ruff::CmpOp::Eq => CompareOp::Eq,
        ruff::CmpOp::NotEq => CompareOp::NotEq,
        ruff::CmpOp::Lt => CompareOp::Less,
        ruff::CmpOp::LtE => CompareOp::LessEq,
        ruff::CmpOp::Gt => CompareOp::Greater,
        ruff::CmpOp::GtE => CompareOp::GreaterEq,
        ruff::CmpOp::Is => CompareOp::Is,
        ruff::CmpOp::IsNot => CompareOp::IsNot,
        ruff::CmpOp::In => CompareOp::In,
        ruff::CmpOp::NotIn => CompareOp::NotIn,
    }
}
