//! Parses tokens into statements.

use super::ast::{
    Arg, BinaryOp, Class, Expr, ExprKind, Function, Handler, MAX_DEPTH, Param, ParamKind, Stmt, StmtKind,
};
use super::error::SyntaxError;
use super::lexer::{Comment, Lexer};
use super::token::{Token, TokenKind};

/// A parsed file.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    pub(crate) body: Vec<Stmt>,
    pub(crate) comments: Vec<Comment>,
}

/// Parses a file.
pub(crate) fn parse(text: &str) -> Result<Module, SyntaxError> {
    let (tokens, comments) = Lexer::read(text)?;
    let mut parser = Parser { tokens, at: 0, depth: 0, format_nesting: 0 };
    let mut body = Vec::new();
    while !matches!(parser.peek().kind, TokenKind::End) {
        parser.statement(&mut body)?;
    }
    Ok(Module { body, comments })
}

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    /// The number of nested expressions and statements.
    depth: u16,
    pub(super) format_nesting: usize,
}

impl Parser {
    pub(super) fn peek(&self) -> &Token {
        // The last token is the end of the file; the parser never moves past it.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn peek_after(&self) -> Option<&TokenKind> {
        self.tokens.get(self.at + 1).map(|token| &token.kind)
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    /// Returns the line on which the previous token ends.
    fn last_line(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(1, |token| token.end_line)
    }

    pub(super) fn is_op(&self, op: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Op(found) if found == op)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(&self.peek().kind, TokenKind::Name(name) if name == word)
    }

    pub(super) fn eat_op(&mut self, op: &str) -> bool {
        let is = self.is_op(op);
        if is {
            self.next();
        }
        is
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        if is {
            self.next();
        }
        is
    }

    pub(super) fn expect_op(&mut self, op: &str) -> Result<(), SyntaxError> {
        if self.eat_op(op) { Ok(()) } else { Err(self.expected(&format!("`{op}`"))) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), SyntaxError> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    pub(super) fn expected(&self, what: &str) -> SyntaxError {
        let token = self.peek();
        SyntaxError::new(token.line, token.column, format!("expected {what}, got {}", token.kind.shown()))
    }

    pub(super) fn name(&mut self) -> Result<String, SyntaxError> {
        match &self.peek().kind {
            TokenKind::Name(name) if !is_keyword(name) => {
                let name = name.clone();
                self.next();
                Ok(name)
            }
            _ => Err(self.expected("a name")),
        }
    }

    /// Creates a node, or returns an error if the tree becomes too deep.
    pub(super) fn node(&self, kind: ExprKind, line: usize) -> Result<Expr, SyntaxError> {
        let mut expr = Expr { kind, line, depth: 0 };
        let mut deepest = 0;
        expr.children(&mut |child| deepest = deepest.max(child.depth));
        expr.depth = deepest + 1;
        if expr.depth > MAX_DEPTH { Err(self.too_deep()) } else { Ok(expr) }
    }

    fn too_deep(&self) -> SyntaxError {
        let token = self.peek();
        SyntaxError::new(token.line, token.column, format!("an expression of more than {MAX_DEPTH} levels"))
    }

    /// Runs a step one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// Parses other tokens and then returns to the current ones.
    pub(super) fn within<T>(
        &mut self,
        tokens: Vec<Token>,
        step: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        let outer = std::mem::replace(&mut self.tokens, tokens);
        let at = std::mem::take(&mut self.at);
        let result = step(self);
        self.tokens = outer;
        self.at = at;
        result
    }

    fn block(&mut self) -> Result<(Vec<Stmt>, usize), SyntaxError> {
        self.expect_op(":")?;
        let end = self.last_line();
        let mut body = Vec::new();
        if !matches!(self.peek().kind, TokenKind::Newline) {
            self.simple_statements(&mut body)?;
            return Ok((body, end));
        }
        self.next();
        if !matches!(self.peek().kind, TokenKind::Indent) {
            return Err(self.expected("an indented block"));
        }
        self.next();
        while !matches!(self.peek().kind, TokenKind::Dedent | TokenKind::End) {
            self.statement(&mut body)?;
        }
        if matches!(self.peek().kind, TokenKind::Dedent) {
            self.next();
        }
        Ok((body, end))
    }

    fn statement(&mut self, out: &mut Vec<Stmt>) -> Result<(), SyntaxError> {
        let line = self.peek().line;
        let word = match &self.peek().kind {
            TokenKind::Name(name) => name.clone(),
            TokenKind::Op("@") => "@".to_owned(),
            TokenKind::Indent => return Err(self.expected("a statement")),
            TokenKind::Newline => {
                self.next();
                return Ok(());
            }
            _ => String::new(),
        };
        let (kind, end_line) = match word.as_str() {
            "if" => self.if_statement()?,
            "for" => self.for_statement()?,
            "while" => {
                self.next();
                let condition = self.expression()?;
                let (body, end) = self.block()?;
                (StmtKind::While { condition, body, otherwise: self.otherwise()? }, end)
            }
            "try" => self.try_statement()?,
            "with" => self.with_statement()?,
            "def" => (StmtKind::Function(self.function(Vec::new())?), line),
            "class" => (StmtKind::Class(self.class(Vec::new())?), line),
            "@" => self.decorated()?,
            "async" => {
                self.next();
                return match &self.peek().kind {
                    TokenKind::Name(name) if matches!(name.as_str(), "def" | "for" | "with") => {
                        self.statement(out)
                    }
                    _ => Err(self.expected("`def`, `for` or `with`")),
                };
            }
            "match" if self.is_match() => self.match_statement()?,
            _ => return self.simple_statements(out),
        };
        out.push(Stmt { kind, line, end_line });
        Ok(())
    }

    fn otherwise(&mut self) -> Result<Vec<Stmt>, SyntaxError> {
        if self.eat_word("else") { Ok(self.block()?.0) } else { Ok(Vec::new()) }
    }

    fn if_statement(&mut self) -> Result<(StmtKind, usize), SyntaxError> {
        let mut branches = Vec::new();
        let mut end = None;
        loop {
            let line = self.next().line;
            let condition = self.expression()?;
            let (body, body_end) = self.block()?;
            end.get_or_insert(body_end);
            branches.push((condition, body, line));
            if !self.is_word("elif") {
                break;
            }
        }
        let otherwise = self.otherwise()?;
        Ok((StmtKind::If { branches, otherwise }, end.unwrap_or_default()))
    }

    fn for_statement(&mut self) -> Result<(StmtKind, usize), SyntaxError> {
        self.next();
        let target = self.targets()?;
        self.expect_word("in")?;
        let iter = self.expressions()?;
        let (body, end) = self.block()?;
        Ok((StmtKind::For { target, iter, body, otherwise: self.otherwise()? }, end))
    }

    fn try_statement(&mut self) -> Result<(StmtKind, usize), SyntaxError> {
        self.next();
        let (body, end) = self.block()?;
        let mut handlers = Vec::new();
        while self.is_word("except") {
            let line = self.next().line;
            self.eat_op("*");
            let types = if self.is_op(":") { None } else { Some(self.expressions()?) };
            let name = if self.eat_word("as") { Some(self.name()?) } else { None };
            handlers.push(Handler { types, name, body: self.block()?.0, line });
        }
        let otherwise = self.otherwise()?;
        let finally = if self.eat_word("finally") { self.block()?.0 } else { Vec::new() };
        if handlers.is_empty() && finally.is_empty() {
            return Err(self.expected("`except` or `finally`"));
        }
        Ok((StmtKind::Try { body, handlers, otherwise, finally }, end))
    }

    fn with_statement(&mut self) -> Result<(StmtKind, usize), SyntaxError> {
        self.next();
        let start = self.at;
        // Items in brackets may span several lines.
        if self.eat_op("(")
            && let Ok(items) = self.with_items()
            && self.eat_op(")")
            && self.is_op(":")
        {
            let (body, end) = self.block()?;
            return Ok((StmtKind::With { items, body }, end));
        }
        self.at = start;
        let items = self.with_items()?;
        let (body, end) = self.block()?;
        Ok((StmtKind::With { items, body }, end))
    }

    fn with_items(&mut self) -> Result<Vec<(Expr, Option<Expr>)>, SyntaxError> {
        let mut items = Vec::new();
        loop {
            let value = self.expression()?;
            let name = if self.eat_word("as") { Some(self.target()?) } else { None };
            items.push((value, name));
            if !self.eat_op(",") || self.is_op(")") {
                return Ok(items);
            }
        }
    }

    fn decorated(&mut self) -> Result<(StmtKind, usize), SyntaxError> {
        let mut decorators = Vec::new();
        while self.eat_op("@") {
            decorators.push(self.expression()?);
            if !matches!(self.next().kind, TokenKind::Newline) {
                return Err(self.expected("the end of the line"));
            }
        }
        self.eat_word("async");
        let line = self.peek().line;
        if self.is_word("def") {
            return Ok((StmtKind::Function(self.function(decorators)?), line));
        }
        if self.is_word("class") {
            return Ok((StmtKind::Class(self.class(decorators)?), line));
        }
        Err(self.expected("`def` or `class`"))
    }

    fn function(&mut self, decorators: Vec<Expr>) -> Result<Function, SyntaxError> {
        self.next();
        let name = self.name()?;
        self.type_params()?;
        self.expect_op("(")?;
        let params = self.params(")", true)?;
        self.expect_op(")")?;
        if self.eat_op("->") {
            self.expressions()?;
        }
        let header_end = self.peek().line;
        let (body, _) = self.block()?;
        Ok(Function { name, params, body, decorators, header_end })
    }

    /// Skips the type parameters of a generic function or class.
    fn type_params(&mut self) -> Result<(), SyntaxError> {
        if !self.is_op("[") {
            return Ok(());
        }
        let mut depth = 0_usize;
        loop {
            match self.next().kind {
                TokenKind::Op("[") => depth += 1,
                TokenKind::Op("]") => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                TokenKind::End => return Err(self.expected("`]`")),
                _ => {}
            }
        }
    }

    pub(super) fn params(&mut self, end: &str, is_annotated: bool) -> Result<Vec<Param>, SyntaxError> {
        let mut params = Vec::new();
        while !self.is_op(end) {
            let kind = if self.eat_op("*") {
                ParamKind::List
            } else if self.eat_op("**") {
                ParamKind::Map
            } else {
                ParamKind::Plain
            };
            if (kind == ParamKind::List && self.is_op(",")) || self.eat_op("/") {
                self.eat_op(",");
                continue;
            }
            let name = self.name()?;
            let annotation = if is_annotated && self.eat_op(":") { Some(self.starred()?) } else { None };
            let default = if self.eat_op("=") { Some(self.expression()?) } else { None };
            params.push(Param { name, annotation, default, kind });
            if !self.eat_op(",") {
                break;
            }
        }
        Ok(params)
    }

    fn class(&mut self, decorators: Vec<Expr>) -> Result<Class, SyntaxError> {
        self.next();
        let name = self.name()?;
        self.type_params()?;
        let bases: Vec<Arg> = if self.eat_op("(") { self.arguments()? } else { Vec::new() };
        let (body, _) = self.block()?;
        Ok(Class { name, bases, body, decorators })
    }

    /// Returns `true` at the soft keyword `match`: a block that starts with `case` follows the line.
    fn is_match(&self) -> bool {
        let mut rest = self.tokens.iter().skip(self.at + 1).map(|token| &token.kind);
        if matches!(rest.clone().next(), Some(TokenKind::Op("=" | "." | "," | ")" | ":"))) {
            return false;
        }
        rest.by_ref().find(|kind| matches!(kind, TokenKind::Newline | TokenKind::End));
        matches!(rest.next(), Some(TokenKind::Indent))
            && matches!(rest.next(), Some(TokenKind::Name(name)) if name == "case")
    }

    fn match_statement(&mut self) -> Result<(StmtKind, usize), SyntaxError> {
        self.next();
        let subject = self.expressions()?;
        self.expect_op(":")?;
        let end = self.last_line();
        // The end of the line and the indentation; `is_match` has checked them.
        self.next();
        self.next();
        let mut cases = Vec::new();
        while self.is_word("case") {
            let line = self.next().line;
            let mut pattern = self.pattern()?;
            if self.eat_word("as") {
                let name = self.name()?;
                pattern = self.node(ExprKind::Walrus(name, Box::new(pattern)), line)?;
            }
            let guard = if self.eat_word("if") { Some(self.expression()?) } else { None };
            cases.push((pattern, guard, self.block()?.0, line));
        }
        if !matches!(self.next().kind, TokenKind::Dedent) {
            return Err(self.expected("`case`"));
        }
        Ok((StmtKind::Match { subject, cases }, end))
    }

    fn simple_statements(&mut self, out: &mut Vec<Stmt>) -> Result<(), SyntaxError> {
        loop {
            let line = self.peek().line;
            let word = self.peek().kind.clone();
            let kind = self.simple_statement()?;
            out.push(Stmt { kind, line, end_line: self.last_line() });
            let is_more = self.eat_op(";");
            if matches!(self.peek().kind, TokenKind::Newline) {
                self.next();
                return Ok(());
            }
            if matches!(self.peek().kind, TokenKind::End) {
                return Ok(());
            }
            if !is_more {
                if matches!(&word, TokenKind::Name(name) if name == "print" || name == "exec") {
                    let token = self.peek();
                    let text = "a statement of Python 2; convert the file to Python 3";
                    return Err(SyntaxError::new(token.line, token.column, text));
                }
                return Err(self.expected("the end of the line"));
            }
        }
    }

    fn is_at_end(&self) -> bool {
        matches!(self.peek().kind, TokenKind::Newline | TokenKind::End | TokenKind::Op(";"))
    }

    fn simple_statement(&mut self) -> Result<StmtKind, SyntaxError> {
        let word = match &self.peek().kind {
            TokenKind::Name(name) => name.clone(),
            _ => String::new(),
        };
        let kind = match word.as_str() {
            "pass" => StmtKind::Pass,
            "break" => StmtKind::Break,
            "continue" => StmtKind::Continue,
            "return" => {
                self.next();
                return Ok(StmtKind::Return(if self.is_at_end() { None } else { Some(self.expressions()?) }));
            }
            "raise" => {
                self.next();
                let value = if self.is_at_end() { None } else { Some(self.expression()?) };
                if self.eat_word("from") {
                    self.expression()?;
                }
                return Ok(StmtKind::Raise(value));
            }
            "global" | "nonlocal" => {
                self.next();
                let mut names = vec![self.name()?];
                while self.eat_op(",") {
                    names.push(self.name()?);
                }
                return Ok(StmtKind::Outer(names));
            }
            "del" => {
                self.next();
                let targets = self.expressions()?;
                return Ok(StmtKind::Delete(match targets.kind {
                    ExprKind::Tuple(all) => all,
                    kind => vec![Expr { kind, ..targets }],
                }));
            }
            "assert" => {
                self.next();
                let value = self.expression()?;
                let message = if self.eat_op(",") { Some(self.expression()?) } else { None };
                return Ok(StmtKind::Assert(value, message));
            }
            "import" => return self.import(),
            "from" => return self.import_from(),
            "type" if matches!(self.peek_after(), Some(TokenKind::Name(_))) => {
                self.next();
                self.name()?;
                self.type_params()?;
                self.expect_op("=")?;
                self.expression()?;
                return Ok(StmtKind::TypeAlias);
            }
            _ => return self.expression_statement(),
        };
        self.next();
        Ok(kind)
    }

    fn expression_statement(&mut self) -> Result<StmtKind, SyntaxError> {
        let first = self.expressions()?;
        if self.eat_op(":") {
            let annotation = self.expression()?;
            let value = if self.eat_op("=") { Some(self.expressions()?) } else { None };
            return Ok(StmtKind::Annotated { target: first, annotation, value });
        }
        if let TokenKind::Op(op) = self.peek().kind
            && let Some(op) = augmented(op)
        {
            self.next();
            return Ok(StmtKind::Augmented { target: first, op, value: self.expressions()? });
        }
        if !self.is_op("=") {
            return Ok(StmtKind::Expr(first));
        }
        let mut all = vec![first];
        while self.eat_op("=") {
            all.push(self.expressions()?);
        }
        let value = all.pop().ok_or_else(|| self.expected("a value"))?;
        if let Some(wrong) = all.iter().find(|target| !is_target(target)) {
            return Err(SyntaxError::new(wrong.line, 1, "cannot assign to this expression"));
        }
        Ok(StmtKind::Assign { targets: all, value })
    }

    fn dotted(&mut self) -> Result<String, SyntaxError> {
        let mut path = self.name()?;
        while self.eat_op(".") {
            path.push('.');
            path.push_str(&self.name()?);
        }
        Ok(path)
    }

    fn import(&mut self) -> Result<StmtKind, SyntaxError> {
        self.next();
        let mut modules = Vec::new();
        loop {
            let module = self.dotted()?;
            let name = if self.eat_word("as") { Some(self.name()?) } else { None };
            modules.push((module, name));
            if !self.eat_op(",") {
                return Ok(StmtKind::Import(modules));
            }
        }
    }

    fn import_from(&mut self) -> Result<StmtKind, SyntaxError> {
        self.next();
        let mut module = String::new();
        while self.is_op(".") || self.is_op("...") {
            module.push('.');
            self.next();
        }
        if !self.is_word("import") {
            module.push_str(&self.dotted()?);
        }
        self.expect_word("import")?;
        if self.eat_op("*") {
            return Ok(StmtKind::ImportFrom { module, names: Vec::new() });
        }
        let in_brackets = self.eat_op("(");
        let mut names = Vec::new();
        loop {
            let name = self.name()?;
            let alias = if self.eat_word("as") { Some(self.name()?) } else { None };
            names.push((name, alias));
            if !self.eat_op(",") || self.is_op(")") {
                break;
            }
        }
        if in_brackets {
            self.expect_op(")")?;
        }
        Ok(StmtKind::ImportFrom { module, names })
    }
}

fn is_target(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Name(_) | ExprKind::Attribute(..) | ExprKind::Index(..) => true,
        ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().all(is_target),
        ExprKind::Starred(inner) => is_target(inner),
        _ => false,
    }
}

fn augmented(op: &str) -> Option<BinaryOp> {
    Some(match op {
        "+=" => BinaryOp::Add,
        "-=" => BinaryOp::Sub,
        "*=" => BinaryOp::Mul,
        "/=" => BinaryOp::Div,
        "//=" => BinaryOp::FloorDiv,
        "%=" => BinaryOp::Mod,
        "**=" => BinaryOp::Pow,
        "@=" => BinaryOp::MatMul,
        "&=" => BinaryOp::And,
        "|=" => BinaryOp::Or,
        "^=" => BinaryOp::Xor,
        "<<=" => BinaryOp::ShiftLeft,
        ">>=" => BinaryOp::ShiftRight,
        _ => return None,
    })
}

/// Returns `true` for a reserved word of Python.
pub(super) fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 35] = [
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
        "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in",
        "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
    ];
    KEYWORDS.contains(&word)
}
