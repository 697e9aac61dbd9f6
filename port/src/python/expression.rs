//! Parses tokens into expressions, by operator precedence; this keeps the recursion per bracket level
//! shallow.

use super::ast::{Arg, BinaryOp, BoolOp, CompareOp, Comprehension, Expr, ExprKind, Star, UnaryOp};
use super::error::SyntaxError;
use super::parser::{Parser, is_keyword};
use super::token::{TextToken, Token, TokenKind};

/// The precedence of comparisons; `not` is one lower, arithmetic is higher.
const COMPARISON: u8 = 4;
const UNARY: u8 = 12;

impl Parser {
    /// Parses an expression that has no comma outside of brackets.
    pub(super) fn expression(&mut self) -> Result<Expr, SyntaxError> {
        self.deeper(|parser| {
            let line = parser.peek().line;
            if parser.is_word("lambda") {
                return parser.lambda();
            }
            if parser.is_word("yield") {
                return parser.yielded();
            }
            let first = parser.binary(1)?;
            if parser.is_op(":=")
                && let Some(name) = first.as_name()
            {
                let name = name.to_owned();
                parser.next();
                let value = parser.expression()?;
                return parser.node(ExprKind::Walrus(name, Box::new(value)), line);
            }
            if !parser.eat_word("if") {
                return Ok(first);
            }
            let condition = parser.binary(1)?;
            if !parser.eat_word("else") {
                return Err(parser.expected("`else`"));
            }
            let otherwise = parser.expression()?;
            let kind = ExprKind::Choice {
                condition: Box::new(condition),
                then: Box::new(first),
                otherwise: Box::new(otherwise),
            };
            parser.node(kind, line)
        })
    }

    /// Parses an expression, or a tuple of several that are separated by commas.
    pub(super) fn expressions(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        let first = self.starred()?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat_op(",") {
            if self.is_end_of_list() {
                break;
            }
            all.push(self.starred()?);
        }
        self.node(ExprKind::Tuple(all), line)
    }

    /// Parses the pattern of a `case`; an `if` after it starts a guard.
    pub(super) fn pattern(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        let one = |parser: &mut Self| {
            let line = parser.peek().line;
            let is_starred = parser.eat_op("*");
            let value = parser.deeper(|parser| parser.binary(1))?;
            if is_starred { parser.node(ExprKind::Starred(Box::new(value)), line) } else { Ok(value) }
        };
        let first = one(self)?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat_op(",") && !self.is_end_of_list() {
            all.push(one(self)?);
        }
        self.node(ExprKind::Tuple(all), line)
    }

    pub(super) fn expressions_to_end(&mut self) -> Result<Expr, SyntaxError> {
        let value = self.expressions()?;
        if matches!(self.peek().kind, TokenKind::End) { Ok(value) } else { Err(self.expected("`}`")) }
    }

    fn is_end_of_list(&self) -> bool {
        matches!(
            self.peek().kind,
            TokenKind::Newline
                | TokenKind::End
                | TokenKind::Op(")" | "]" | "}" | "=" | ":" | ";" | "+=" | "-=" | "*=" | "/=" | "|=" | "&=")
        ) || self.is_word("in")
    }

    pub(super) fn starred(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        if self.eat_op("*") {
            let value = self.deeper(|parser| parser.binary(COMPARISON + 1))?;
            return self.node(ExprKind::Starred(Box::new(value)), line);
        }
        self.expression()
    }

    /// Parses the targets of a loop or comprehension.
    pub(super) fn targets(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        let first = self.target()?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat_op(",") {
            if self.is_word("in") {
                break;
            }
            all.push(self.target()?);
        }
        self.node(ExprKind::Tuple(all), line)
    }

    pub(super) fn target(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        if self.eat_op("*") {
            let value = self.deeper(Self::postfix)?;
            return self.node(ExprKind::Starred(Box::new(value)), line);
        }
        self.deeper(Self::postfix)
    }

    fn lambda(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.next().line;
        let params = self.params(":", false)?;
        self.expect_op(":")?;
        let body = self.expression()?;
        self.node(ExprKind::Lambda(params, Box::new(body)), line)
    }

    fn yielded(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.next().line;
        if self.eat_word("from") {
            let value = self.expression()?;
            return self.node(ExprKind::YieldFrom(Box::new(value)), line);
        }
        let value = if self.is_end_of_list() { None } else { Some(Box::new(self.expressions()?)) };
        self.node(ExprKind::Yield(value), line)
    }

    /// Parses operators of at least the given precedence.
    fn binary(&mut self, least: u8) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        let mut left = if least <= 3 && self.is_word("not") {
            self.next();
            let value = self.deeper(|parser| parser.binary(3))?;
            self.node(ExprKind::Unary(UnaryOp::Not, Box::new(value)), line)?
        } else {
            self.unary()?
        };
        loop {
            let Some(operator) = self.operator() else { return Ok(left) };
            let strength = operator.strength();
            if strength < least {
                return Ok(left);
            }
            left = match operator {
                Operator::Logic(op) => {
                    let mut all = vec![left];
                    while self.operator() == Some(operator) {
                        self.next();
                        all.push(self.deeper(|parser| parser.binary(strength + 1))?);
                    }
                    self.node(ExprKind::Logic(op, all), line)?
                }
                Operator::Compare(_) => {
                    let mut all = Vec::new();
                    while let Some(Operator::Compare(op)) = self.operator() {
                        self.eat_comparison(op);
                        all.push((op, self.deeper(|parser| parser.binary(COMPARISON + 1))?));
                    }
                    self.node(ExprKind::Compare(Box::new(left), all), line)?
                }
                Operator::Binary(op) => {
                    self.next();
                    // `**` is right-associative and binds weaker than a sign on its right.
                    let least = if op == BinaryOp::Pow { strength } else { strength + 1 };
                    let right = self.deeper(|parser| parser.binary(least))?;
                    self.node(ExprKind::Binary(op, Box::new(left), Box::new(right)), line)?
                }
            };
        }
    }

    fn operator(&self) -> Option<Operator> {
        Some(match &self.peek().kind {
            TokenKind::Name(word) => match word.as_str() {
                "or" => Operator::Logic(BoolOp::Or),
                "and" => Operator::Logic(BoolOp::And),
                "in" => Operator::Compare(CompareOp::In),
                "is" => match self.peek_after() {
                    Some(TokenKind::Name(word)) if word == "not" => Operator::Compare(CompareOp::IsNot),
                    _ => Operator::Compare(CompareOp::Is),
                },
                "not" => match self.peek_after() {
                    Some(TokenKind::Name(word)) if word == "in" => Operator::Compare(CompareOp::NotIn),
                    _ => return None,
                },
                _ => return None,
            },
            TokenKind::Op(op) => match *op {
                "==" => Operator::Compare(CompareOp::Eq),
                "!=" | "<>" => Operator::Compare(CompareOp::NotEq),
                "<" => Operator::Compare(CompareOp::Less),
                "<=" => Operator::Compare(CompareOp::LessEq),
                ">" => Operator::Compare(CompareOp::Greater),
                ">=" => Operator::Compare(CompareOp::GreaterEq),
                "|" => Operator::Binary(BinaryOp::Or),
                "^" => Operator::Binary(BinaryOp::Xor),
                "&" => Operator::Binary(BinaryOp::And),
                "<<" => Operator::Binary(BinaryOp::ShiftLeft),
                ">>" => Operator::Binary(BinaryOp::ShiftRight),
                "+" => Operator::Binary(BinaryOp::Add),
                "-" => Operator::Binary(BinaryOp::Sub),
                "*" => Operator::Binary(BinaryOp::Mul),
                "/" => Operator::Binary(BinaryOp::Div),
                "//" => Operator::Binary(BinaryOp::FloorDiv),
                "%" => Operator::Binary(BinaryOp::Mod),
                "@" => Operator::Binary(BinaryOp::MatMul),
                "**" => Operator::Binary(BinaryOp::Pow),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn eat_comparison(&mut self, op: CompareOp) {
        self.next();
        if matches!(op, CompareOp::NotIn | CompareOp::IsNot) {
            self.next();
        }
    }

    fn unary(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        let op = match self.peek().kind {
            TokenKind::Op("-") => UnaryOp::Minus,
            TokenKind::Op("+") => UnaryOp::Plus,
            TokenKind::Op("~") => UnaryOp::Invert,
            _ => {
                if self.eat_word("await") {
                    let value = self.deeper(Self::unary)?;
                    return self.node(ExprKind::Await(Box::new(value)), line);
                }
                return self.postfix();
            }
        };
        self.next();
        let value = self.deeper(|parser| parser.binary(UNARY))?;
        self.node(ExprKind::Unary(op, Box::new(value)), line)
    }

    /// Parses an atom with the calls, indexes and attributes that follow it.
    fn postfix(&mut self) -> Result<Expr, SyntaxError> {
        let mut value = self.atom()?;
        loop {
            let line = self.peek().line;
            if self.eat_op(".") {
                let name = match self.peek().kind.clone() {
                    TokenKind::Name(name) if !is_keyword(&name) => name,
                    _ => return Err(self.expected("a name")),
                };
                self.next();
                value = self.node(ExprKind::Attribute(Box::new(value), name), line)?;
            } else if self.eat_op("(") {
                let args = self.arguments()?;
                value = self.node(ExprKind::Call(Box::new(value), args), line)?;
            } else if self.eat_op("[") {
                let index = self.index()?;
                value = self.node(ExprKind::Index(Box::new(value), Box::new(index)), line)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// Parses the arguments of a call after its opening bracket, including the closing one.
    pub(super) fn arguments(&mut self) -> Result<Vec<Arg>, SyntaxError> {
        let mut args = Vec::new();
        while !self.is_op(")") {
            let star = if self.eat_op("*") {
                Star::List
            } else if self.eat_op("**") {
                Star::Map
            } else {
                Star::None
            };
            let is_named = matches!(self.peek().kind, TokenKind::Name(_))
                && matches!(self.peek_after(), Some(TokenKind::Op("=")));
            let name = if is_named && star == Star::None { Some(self.name()?) } else { None };
            if name.is_some() {
                self.next();
            }
            let mut value = self.expression()?;
            if self.is_comprehension() {
                let line = value.line;
                let of = self.comprehensions()?;
                value = self.node(ExprKind::Generator(Box::new(value), of), line)?;
            }
            args.push(Arg { name, star, value });
            if !self.eat_op(",") {
                break;
            }
        }
        self.expect_op(")")?;
        Ok(args)
    }

    fn index(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        let mut all = Vec::new();
        let mut is_tuple = false;
        while !self.is_op("]") {
            all.push(self.slice()?);
            if !self.eat_op(",") {
                break;
            }
            is_tuple = true;
        }
        self.expect_op("]")?;
        match all.pop() {
            Some(one) if !is_tuple && all.is_empty() => Ok(one),
            Some(last) => {
                all.push(last);
                self.node(ExprKind::Tuple(all), line)
            }
            None => Err(self.expected("an index")),
        }
    }

    fn slice(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.peek().line;
        let is_end = |parser: &Self| parser.is_op(":") || parser.is_op("]") || parser.is_op(",");
        let part = |parser: &mut Self| {
            if is_end(parser) { Ok(None) } else { parser.starred().map(|value| Some(Box::new(value))) }
        };
        let start = part(self)?;
        if !self.eat_op(":") {
            return match start {
                Some(start) => Ok(*start),
                None => Err(self.expected("an index")),
            };
        }
        let end = part(self)?;
        let step = if self.eat_op(":") { part(self)? } else { None };
        self.node(ExprKind::Slice(start, end, step), line)
    }

    fn is_comprehension(&self) -> bool {
        self.is_word("for")
            || (self.is_word("async")
                && matches!(self.peek_after(), Some(TokenKind::Name(word)) if word == "for"))
    }

    fn comprehensions(&mut self) -> Result<Vec<Comprehension>, SyntaxError> {
        let mut all = Vec::new();
        while self.is_comprehension() {
            self.eat_word("async");
            self.next();
            let target = self.targets()?;
            if !self.eat_word("in") {
                return Err(self.expected("`in`"));
            }
            let iter = self.deeper(|parser| parser.binary(1))?;
            let mut conditions = Vec::new();
            while self.eat_word("if") {
                let line = self.peek().line;
                let mut condition = self.deeper(|parser| parser.binary(1))?;
                if self.is_op(":=")
                    && let Some(name) = condition.as_name()
                {
                    let name = name.to_owned();
                    self.next();
                    let value = self.deeper(|parser| parser.binary(1))?;
                    condition = self.node(ExprKind::Walrus(name, Box::new(value)), line)?;
                }
                conditions.push(condition);
            }
            all.push(Comprehension { target, iter, conditions });
        }
        Ok(all)
    }

    fn atom(&mut self) -> Result<Expr, SyntaxError> {
        let token = self.peek().clone();
        let line = token.line;
        match token.kind {
            TokenKind::Name(name) => {
                let kind = match name.as_str() {
                    "None" => ExprKind::None,
                    "True" => ExprKind::Bool(true),
                    "False" => ExprKind::Bool(false),
                    word if is_keyword(word) => return Err(self.expected("an expression")),
                    _ => ExprKind::Name(name),
                };
                self.next();
                self.node(kind, line)
            }
            TokenKind::Number(number) => {
                self.next();
                let kind = number_kind(&number).ok_or_else(|| {
                    SyntaxError::new(line, token.column, format!("invalid number `{number}`"))
                })?;
                self.node(kind, line)
            }
            TokenKind::Text(_) => {
                let mut all: Vec<(TextToken, Token)> = Vec::new();
                while let TokenKind::Text(text) = &self.peek().kind {
                    let text = text.clone();
                    let token = self.next();
                    all.push((text, token));
                }
                let kind = self.texts(&all)?;
                self.node(kind, line)
            }
            TokenKind::Op("(") => self.in_brackets(),
            TokenKind::Op("[") => self.list(),
            TokenKind::Op("{") => self.braces(),
            TokenKind::Op("...") => {
                self.next();
                self.node(ExprKind::Ellipsis, line)
            }
            _ => Err(self.expected("an expression")),
        }
    }

    fn in_brackets(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.next().line;
        if self.eat_op(")") {
            return self.node(ExprKind::Tuple(Vec::new()), line);
        }
        let first = self.starred()?;
        if self.is_comprehension() {
            let of = self.comprehensions()?;
            self.expect_op(")")?;
            return self.node(ExprKind::Generator(Box::new(first), of), line);
        }
        if self.eat_op(")") {
            return Ok(first);
        }
        let all = self.rest_of_list(first, ")")?;
        self.node(ExprKind::Tuple(all), line)
    }

    fn list(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.next().line;
        if self.eat_op("]") {
            return self.node(ExprKind::List(Vec::new()), line);
        }
        let first = self.starred()?;
        if self.is_comprehension() {
            let of = self.comprehensions()?;
            self.expect_op("]")?;
            return self.node(ExprKind::ListOf(Box::new(first), of), line);
        }
        let all = self.rest_of_list(first, "]")?;
        self.node(ExprKind::List(all), line)
    }

    fn rest_of_list(&mut self, first: Expr, end: &str) -> Result<Vec<Expr>, SyntaxError> {
        let mut all = vec![first];
        while self.eat_op(",") && !self.is_op(end) {
            all.push(self.starred()?);
        }
        self.expect_op(end)?;
        Ok(all)
    }

    /// Parses a map or a set.
    fn braces(&mut self) -> Result<Expr, SyntaxError> {
        let line = self.next().line;
        let mut entries = Vec::new();
        let mut elements = Vec::new();
        while !self.is_op("}") {
            if self.eat_op("**") {
                let value = self.deeper(|parser| parser.binary(COMPARISON + 1))?;
                entries.push((None, value));
            } else {
                let key = self.starred()?;
                if self.eat_op(":") {
                    let value = self.expression()?;
                    if self.is_comprehension() {
                        let of = self.comprehensions()?;
                        self.expect_op("}")?;
                        return self.node(ExprKind::DictOf(Box::new(key), Box::new(value), of), line);
                    }
                    entries.push((Some(key), value));
                } else if self.is_comprehension() {
                    let of = self.comprehensions()?;
                    self.expect_op("}")?;
                    return self.node(ExprKind::SetOf(Box::new(key), of), line);
                } else {
                    elements.push(key);
                }
            }
            if !self.eat_op(",") {
                break;
            }
        }
        self.expect_op("}")?;
        let kind = if elements.is_empty() { ExprKind::Dict(entries) } else { ExprKind::Set(elements) };
        self.node(kind, line)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Logic(BoolOp),
    Compare(CompareOp),
    Binary(BinaryOp),
}

impl Operator {
    fn strength(self) -> u8 {
        match self {
            Self::Logic(BoolOp::Or) => 1,
            Self::Logic(BoolOp::And) => 2,
            Self::Compare(_) => COMPARISON,
            Self::Binary(op) => match op {
                BinaryOp::Or => 5,
                BinaryOp::Xor => 6,
                BinaryOp::And => 7,
                BinaryOp::ShiftLeft | BinaryOp::ShiftRight => 8,
                BinaryOp::Add | BinaryOp::Sub => 9,
                BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Mod | BinaryOp::MatMul => 10,
                BinaryOp::Pow => 13,
            },
        }
    }
}

fn number_kind(number: &str) -> Option<ExprKind> {
    let lower = number.to_ascii_lowercase();
    for (mark, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = lower.strip_prefix(mark) {
            return match i64::from_str_radix(digits, radix) {
                Ok(value) => Some(ExprKind::Int(value)),
                Err(_) if digits.chars().all(|digit| digit.is_digit(radix)) && !digits.is_empty() => {
                    Some(ExprKind::Float("0.0".to_owned()))
                }
                Err(_) => None,
            };
        }
    }
    if let Ok(value) = lower.parse::<i64>() {
        return Some(ExprKind::Int(value));
    }
    let real = lower.strip_suffix('j').unwrap_or(&lower);
    let value: f64 = real.parse().ok().filter(|value: &f64| value.is_finite())?;
    // The literal always has a decimal point, whatever its size.
    Some(ExprKind::Float(format!("{value:?}")))
}
