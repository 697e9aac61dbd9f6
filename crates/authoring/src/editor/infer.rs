//! Infers the kind of a value from its syntax.

use super::outline::{Binding, Constant, Field, Sketch, Value};
use super::scan::Kind;
use std::ops::Range;
use valvehouse_dialect::value::Type;
use valvehouse_script_std::reference::{self, Form, FunctionOrigin, is_list};

/// The known facts about a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ValueFacts {
    Type(Type),
    /// A map with the keys of this constant: the valves or a tool's arguments.
    Fields(&'static str),
}

const UNKNOWN: ValueFacts = ValueFacts::Type(Type::Any);
/// The maximum depth of dependent inferences.
const DEEPEST: u8 = 12;

/// List methods that return one element.
const PICKING: [&str; 7] = ["last", "first", "pop", "shift", "remove", "find", "get"];
/// Methods that return a part of the list or text.
const SELECTING: [&str; 8] = ["filter", "extract", "drain", "splice", "copy", "tail", "keep_last", "split"];

impl Sketch {
    /// Returns the names in scope at a byte, the innermost last.
    pub(super) fn visible(&self, at: usize) -> impl DoubleEndedIterator<Item = &Binding> {
        self.bindings.iter().filter(move |binding| binding.scope.start <= at && at <= binding.scope.end)
    }

    pub(super) fn constant_named(&self, name: &str) -> Option<&Constant> {
        self.constants.iter().find(|constant| constant.name == name)
    }

    /// Infers the value of an expression's tokens.
    pub(super) fn infer(&self, tokens: Range<usize>) -> ValueFacts {
        self.infer_at(tokens, 0)
    }

    fn infer_at(&self, tokens: Range<usize>, depth: u8) -> ValueFacts {
        let Range { start, end } = tokens;
        if depth > DEEPEST || start >= end || start >= self.tokens.len() {
            return UNKNOWN;
        }
        let (mut of, mut place) = self.primary(start, end, depth);
        while place < end {
            match self.word(place) {
                "." | "?." if self.is_word(place + 1) => {
                    let is_call = self.word(place + 2) == "(";
                    of = self.member(&of, self.word(place + 1), is_call);
                    place = if is_call { self.end_of(place + 2) + 1 } else { place + 2 };
                }
                "[" | "?[" => {
                    let close = self.end_of(place);
                    of = self.indexed(of, place + 1..close);
                    place = close + 1;
                }
                "??" => {
                    return if of == UNKNOWN { self.infer_at(place + 1..end, depth + 1) } else { of };
                }
                "==" | "!=" | "<" | ">" | "<=" | ">=" | "&&" | "||" | "in" => {
                    return ValueFacts::Type(Type::Boolean);
                }
                "+" | "-" | "*" | "/" | "%" => return of,
                ".." | "..=" => return ValueFacts::Type(Type::Range),
                _ => return if matches!(self.word(place), ";" | "{") { of } else { UNKNOWN },
            }
        }
        of
    }

    /// Infers the value that begins at a token, and returns the token after it.
    fn primary(&self, start: usize, end: usize, depth: u8) -> (ValueFacts, usize) {
        let token = &self.tokens[start];
        match (token.kind, self.word(start)) {
            (Kind::Text, _) => {
                // A text with interpolations continues after each of them.
                let mut place = start + 1;
                while self.word(place) == "${" {
                    place = self.end_of(place) + 1;
                    place +=
                        usize::from(self.tokens.get(place).is_some_and(|token| token.kind == Kind::Text));
                }
                (ValueFacts::Type(Type::Text), place)
            }
            (Kind::Number, _) => (ValueFacts::Type(self.literal(start)), start + 1),
            (_, "-") => (self.infer_at(start + 1..start + 2, depth + 1), start + 2),
            (_, "!") => (ValueFacts::Type(Type::Boolean), end),
            (_, "(") => {
                let close = self.end_of(start);
                (self.infer_at(start + 1..close, depth + 1), close + 1)
            }
            (_, "[" | "#{") => (ValueFacts::Type(self.literal(start)), self.end_of(start) + 1),
            (Kind::Word, "true" | "false") => (ValueFacts::Type(Type::Boolean), start + 1),
            (Kind::Word, "if" | "switch" | "return" | "throw") => (UNKNOWN, end),
            (Kind::Word, _) if self.word(start + 1) == "::" => self.of_module(start),
            (Kind::Word, name) if self.word(start + 1) == "(" => {
                let own = self.functions.iter().any(|function| function.name == name);
                let of = if own { UNKNOWN } else { returned("", name) };
                (of, self.end_of(start + 1) + 1)
            }
            (Kind::Word, name) => (self.variable(name, token.at.start, depth), start + 1),
            _ => (UNKNOWN, end),
        }
    }

    /// Infers the value of a call such as `regex::find(…)`.
    fn of_module(&self, start: usize) -> (ValueFacts, usize) {
        let mut place = start;
        while self.word(place + 1) == "::" && self.is_word(place + 2) {
            place += 2;
        }
        let path: Vec<&str> = (start..place).step_by(2).map(|word| self.word(word)).collect();
        let of = returned(&path.join("::"), self.word(place));
        let next = if self.word(place + 1) == "(" { self.end_of(place + 1) + 1 } else { place + 1 };
        (of, next)
    }

    fn variable(&self, name: &str, at: usize, depth: u8) -> ValueFacts {
        if name == "Valves" && self.constant_named("Valves").is_some() {
            return ValueFacts::Fields("Valves");
        }
        // In `let x = x.y`, the second `x` is the earlier variable.
        let binding = self.visible(at).rfind(|binding| binding.name == name && binding.at.start < at);
        match binding {
            Some(binding) => self.value(binding, depth),
            None => self.constant_named(name).map_or(UNKNOWN, |constant| ValueFacts::Type(constant.kind)),
        }
    }

    /// Infers the value of a name.
    pub(super) fn bound(&self, binding: &Binding) -> ValueFacts {
        self.value(binding, 0)
    }

    fn value(&self, binding: &Binding, depth: u8) -> ValueFacts {
        match &binding.value {
            Value::Is(tokens) => self.infer_at(tokens.clone(), depth + 1),
            Value::ElementOf(tokens) => element(&self.infer_at(tokens.clone(), depth + 1)),
            Value::GivenBy(bracket) => self.given_by(*bracket, depth),
            Value::Caught => ValueFacts::Type(Type::Handle("error")),
            Value::Parameter { function, has_args } => parameter(function, &binding.name, *has_args),
            Value::Unknown => UNKNOWN,
        }
    }

    /// Infers the value that the method before a bracket passes to a closure: an element of its receiver.
    fn given_by(&self, bracket: usize, depth: u8) -> ValueFacts {
        let Some(method) = bracket.checked_sub(1).filter(|method| self.is_word(*method)) else {
            return UNKNOWN;
        };
        let Some(dot) = method.checked_sub(1).filter(|dot| matches!(self.word(*dot), "." | "?.")) else {
            return match self.word(method) {
                "replace" | "update" => UNKNOWN,
                "window" => ValueFacts::Type(Type::Text),
                _ => UNKNOWN,
            };
        };
        let over = self.infer_at(self.chain_before(dot), depth + 1);
        match &over {
            ValueFacts::Type(kind) if is_list(*kind) && self.word(method) != "reduce" => element(&over),
            _ => UNKNOWN,
        }
    }

    /// Returns the tokens of the chain of words and brackets before a dot.
    pub(super) fn chain_before(&self, dot: usize) -> Range<usize> {
        let mut start = dot;
        while let Some(last) = start.checked_sub(1) {
            let is_group = matches!(self.word(last), ")" | "]" | "}");
            let mut first = if is_group { self.tokens[last].pair.unwrap_or(last) } else { last };
            // The receiver of a call or an index belongs to the chain.
            while is_group
                && matches!(self.word(first), "(" | "[" | "?[")
                && first.checked_sub(1).is_some_and(|before| self.is_operand(before))
            {
                let before = first - 1;
                first = match self.word(before) {
                    ")" | "]" => self.tokens[before].pair.unwrap_or(before),
                    _ => before,
                };
                if self.is_word(first) {
                    break;
                }
            }
            start = first;
            match first.checked_sub(1).map(|before| self.word(before)) {
                Some("." | "?." | "::") => start = first - 1,
                _ => break,
            }
        }
        start..dot
    }

    /// Returns `true` if a call or an index may follow this token.
    fn is_operand(&self, place: usize) -> bool {
        const SPEAKING: [&str; 8] = ["if", "in", "return", "while", "switch", "throw", "else", "let"];
        self.is_word(place) && !SPEAKING.contains(&self.word(place)) || matches!(self.word(place), ")" | "]")
    }

    fn indexed(&self, of: ValueFacts, index: Range<usize>) -> ValueFacts {
        let is_range = index.clone().any(|place| matches!(self.word(place), ".." | "..="));
        let key =
            index.len() == 1 && self.tokens.get(index.start).is_some_and(|token| token.kind == Kind::Text);
        match &of {
            ValueFacts::Type(kind) if is_list(*kind) && is_range => of,
            ValueFacts::Type(kind) if is_list(*kind) => element(&of),
            _ if key => self.member(&of, self.word(index.start).trim_matches('"'), false),
            _ => UNKNOWN,
        }
    }

    /// Infers the value of the member after the dot.
    pub(super) fn member(&self, of: &ValueFacts, name: &str, is_call: bool) -> ValueFacts {
        match of {
            ValueFacts::Fields(constant) => {
                self.field(constant, name).map_or(UNKNOWN, |field| ValueFacts::Type(field.kind))
            }
            ValueFacts::Type(Type::Handle("__user__")) if name == "valves" => {
                ValueFacts::Fields("UserValves")
            }
            ValueFacts::Type(kind) => {
                if is_call && name == "copy" || is_call && is_list(*kind) && SELECTING.contains(&name) {
                    return of.clone();
                }
                let words = reference::members(*kind);
                let mut fitting = words
                    .iter()
                    .filter(|word| word.name == name && matches!(word.form, Form::Method(_)) == is_call);
                match fitting.next() {
                    Some(word) if word.kind != Type::Any => ValueFacts::Type(word.kind),
                    _ if is_call && is_list(*kind) && PICKING.contains(&name) => element(of),
                    _ => UNKNOWN,
                }
            }
        }
    }

    /// Returns a key of a constant whose value is a map.
    pub(super) fn field(&self, constant: &str, name: &str) -> Option<&Field> {
        self.constant_named(constant)?.fields.iter().find(|field| field.name == name)
    }
}

fn element(of: &ValueFacts) -> ValueFacts {
    match of {
        ValueFacts::Type(kind) => ValueFacts::Type(reference::element_of(*kind)),
        ValueFacts::Fields(_) => ValueFacts::Type(Type::Text),
    }
}

/// Infers the return value of a host function.
fn returned(module: &str, name: &str) -> ValueFacts {
    let mut named = reference::functions().iter().filter(|function| {
        function.module == module
            && function.name == name
            && (!module.is_empty() || function.origin == FunctionOrigin::Host || !function.is_method)
    });
    named.next().map_or(UNKNOWN, |function| ValueFacts::Type(function.returns))
}

/// Infers the value of a function's parameter by its name. In functions that the host does not call, common names
/// are assumed to have their usual meaning.
fn parameter(function: &str, name: &str, has_args: bool) -> ValueFacts {
    if let Some((subject, kind)) = reference::entry(function).and_then(|entry| entry.subject)
        && subject == name
    {
        return if name == "args" { ValueFacts::Fields("parameters") } else { ValueFacts::Type(kind) };
    }
    match name {
        "valves" => ValueFacts::Fields("Valves"),
        "args" => ValueFacts::Fields("parameters"),
        "ctx" if has_args => ValueFacts::Type(Type::Handle("context")),
        _ => {
            let parameter = reference::PARAMETERS.iter().find(|key| key.name == name);
            let usual = ["body", "event", "ctx", "messages", "message", "context", "result"];
            let usual = usual.into_iter().find(|usual| *usual == name);
            parameter.map(|key| key.kind).or(usual.map(Type::Handle)).map_or(UNKNOWN, ValueFacts::Type)
        }
    }
}
