//! An explanation of syntax of another language, before it becomes a problem.

use super::cause::{Cause, Syntax};
use super::codes::Code;
use super::finding::Diagnostic;
use super::position;
use std::borrow::Cow;

/// An explanation of syntax of another language.
pub(super) struct Foreign {
    /// `None` if that of the parser is clear.
    message: Option<Cow<'static, str>>,
    help: Cow<'static, str>,
    cause: Cause,
    at: At,
}

/// The place that an explanation is about.
enum At {
    Problem,
    Word(&'static str),
    Line,
}

impl Foreign {
    pub(super) fn as_parsed(help: impl Into<Cow<'static, str>>) -> Self {
        Self { message: None, help: help.into(), cause: Cause::Other, at: At::Problem }
    }

    pub(super) fn said(message: impl Into<Cow<'static, str>>, help: impl Into<Cow<'static, str>>) -> Self {
        Self { message: Some(message.into()), ..Self::as_parsed(help) }
    }

    pub(super) fn syntax(syntax: Syntax, help: impl Into<Cow<'static, str>>) -> Self {
        Self::said(syntax.message(), help).because(Cause::Foreign(syntax))
    }

    pub(super) fn keyword(word: &'static str, help: &'static str) -> Self {
        Self::said(format!("unknown keyword `{word}`"), help).at(word)
    }

    pub(super) fn language(name: &str, help: &'static str) -> Self {
        Self { at: At::Line, ..Self::said(format!("cannot read {name}: a script is written in Rhai"), help) }
    }

    pub(super) fn operator(sign: &'static str, help: &'static str) -> Self {
        Self::said(format!("unknown operator `{sign}`"), help).at(sign)
    }

    pub(super) fn because(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }

    /// Moves the problem to the nearest place of a word or sign.
    pub(super) fn at(self, word: &'static str) -> Self {
        Self { at: At::Word(word), ..self }
    }

    pub(super) fn explain(self, problem: &Diagnostic, source: &str) -> Diagnostic {
        let message = self.message.map_or_else(|| problem.message.clone(), Cow::into_owned);
        let problem =
            Diagnostic { code: Code::ForeignSyntax, message, cause: self.cause.into(), ..problem.clone() };
        let problem = match self.at {
            At::Problem => problem,
            At::Word(word) => position::at_word_nearby(problem, source, word),
            At::Line => position::at_first_word(problem, source),
        };
        problem.help(self.help)
    }
}
