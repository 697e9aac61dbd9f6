//! The arguments of a call.

use super::context::{Hindrance, Outcome};
use crate::python::{Arg, Expr, Star};
use crate::report::NoteKind;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The arguments of a call by position and by name. It records which of them the translation has read, so that none is
/// dropped without a word.
pub(super) struct Arguments<'e> {
    positional: Vec<&'e Expr>,
    named: Vec<(&'e str, &'e Expr)>,
    /// The arguments `*list` and `**map`.
    pub(super) spread: Vec<(Star, &'e Expr)>,
    read: RefCell<Read>,
}

#[derive(Default)]
struct Read {
    places: BTreeSet<usize>,
    names: BTreeSet<String>,
}

/// Arguments without an effect on the result, by name.
const NEEDLESS: [&str; 20] = [
    "content_type",
    "default",
    "ensure_ascii",
    "errors",
    "encoding",
    "exc_info",
    "extra",
    "features",
    "file",
    "flush",
    "json_serialize",
    "limits",
    "connector",
    "name",
    "separators",
    "stack_info",
    "stacklevel",
    "strict",
    "trust_env",
    "bypass_filter",
];

impl<'e> Arguments<'e> {
    pub(super) fn of(args: &'e [Arg]) -> Self {
        let mut all =
            Self { positional: Vec::new(), named: Vec::new(), spread: Vec::new(), read: RefCell::default() };
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
        self.at(at).or_else(|| self.named(name))
    }

    pub(super) fn named(&self, name: &str) -> Option<&'e Expr> {
        self.read.borrow_mut().names.insert(name.to_owned());
        self.named.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    pub(super) fn at(&self, at: usize) -> Option<&'e Expr> {
        self.read.borrow_mut().places.insert(at);
        self.positional.get(at).copied()
    }

    /// Returns the argument at a position, or a hindrance if the call does not have it.
    pub(super) fn need(&self, at: usize, of: &str) -> Outcome<&'e Expr> {
        match self.at(at) {
            Some(value) if self.spread.is_empty() => Ok(value),
            _ => Hindrance::err(NoteKind::Python, format!("the arguments of `{of}`")),
        }
    }

    /// Returns all arguments without names, to be read.
    pub(super) fn positional(&self) -> &[&'e Expr] {
        self.read.borrow_mut().places.extend(0..self.positional.len());
        &self.positional
    }

    /// Returns all arguments with names, to be read.
    pub(super) fn all_named(&self) -> &[(&'e str, &'e Expr)] {
        self.read.borrow_mut().names.extend(self.named.iter().map(|(name, _)| (*name).to_owned()));
        &self.named
    }

    /// Returns the names of the arguments.
    pub(super) fn names(&self) -> impl Iterator<Item = &'e str> {
        self.named.iter().map(|(name, _)| *name)
    }

    /// Marks all arguments as read: none of them changes the result.
    pub(super) fn skip(&self) {
        let _ = (self.positional(), self.all_named());
    }

    pub(super) fn has_named(&self) -> bool {
        !self.named.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.positional.len()
    }

    /// Returns an argument that nobody has read: its name, or its place.
    pub(super) fn unread(&self) -> Option<String> {
        let read = self.read.borrow();
        let is_left = |name: &&str| !read.names.contains(*name) && !NEEDLESS.contains(name);
        let name = self.named.iter().map(|(name, _)| *name).find(is_left).map(|name| format!("`{name}=`"));
        name.or_else(|| {
            let place = (0..self.positional.len()).find(|place| !read.places.contains(place));
            place.map(|place| format!("argument {}", place + 1))
        })
    }
}
