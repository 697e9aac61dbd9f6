//! The arguments of a call.

use super::context::{Hindrance, Outcome};
use crate::python::{Arg, Expr, Star};
use crate::report::NoteKind;

/// The arguments of a call by position and by name.
pub(super) struct Arguments<'e> {
    pub(super) positional: Vec<&'e Expr>,
    pub(super) named: Vec<(&'e str, &'e Expr)>,
    /// The arguments `*list` and `**map`.
    pub(super) spread: Vec<(Star, &'e Expr)>,
}

impl<'e> Arguments<'e> {
    pub(super) fn of(args: &'e [Arg]) -> Self {
        let mut all = Self { positional: Vec::new(), named: Vec::new(), spread: Vec::new() };
        for arg in args {
            match (&arg.name, arg.star) {
                (Some(name), _) => all.named.push((name, &arg.value)),
                (None, Star::None) => all.positional.push(&arg.value),
                (None, star) => all.spread.push((star, &arg.value)),
            }
        }
        all
    }

    /// Returns the argument at a position or with a name.
    pub(super) fn get(&self, at: usize, name: &str) -> Option<&'e Expr> {
        self.positional.get(at).copied().or_else(|| self.named(name))
    }

    pub(super) fn named(&self, name: &str) -> Option<&'e Expr> {
        self.named.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    pub(super) fn at(&self, at: usize) -> Option<&'e Expr> {
        self.positional.get(at).copied()
    }

    /// Returns the argument at a position, or a hindrance if the call does not have it.
    pub(super) fn need(&self, at: usize, of: &str) -> Outcome<&'e Expr> {
        match self.at(at) {
            Some(value) if self.spread.is_empty() => Ok(value),
            _ => Hindrance::err(NoteKind::Python, format!("the arguments of `{of}`")),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.positional.len()
    }
}
