//! Live values: values of the host are references as in Python, values that the script creates are copied.

use super::context::Role;
use super::context::Translator;
use crate::python::{Expr, ExprKind, Stmt};

impl Translator<'_> {
    /// Returns `true` if a value, or the elements of a list, belong to the host.
    pub(super) fn is_live(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name(name) => self.scope.live.contains(name),
            // The plugin's own attributes are entries of `state`.
            ExprKind::Attribute(of, _) if of.as_name() == Some("self") => {
                !matches!(self.scope.role, Role::Method(_))
            }
            ExprKind::Attribute(of, _) => self.is_live(of),
            ExprKind::Index(of, _) | ExprKind::Await(of) | ExprKind::Walrus(_, of) => self.is_live(of),
            ExprKind::Logic(_, all) => all.first().is_some_and(|first| self.is_live(first)),
            ExprKind::Choice { then, otherwise, .. } => self.is_live(then) && self.is_live(otherwise),
            ExprKind::ListOf(value, of) | ExprKind::Generator(value, of) => match of.as_slice() {
                [one] => {
                    value.as_name().is_some()
                        && value.as_name() == one.target.as_name()
                        && self.is_live(&one.iter)
                }
                _ => false,
            },
            ExprKind::Call(of, args) => match &of.kind {
                ExprKind::Name(name)
                    if matches!(name.as_str(), "reversed" | "sorted" | "list" | "enumerate") =>
                {
                    args.first().is_some_and(|first| self.is_live(&first.value))
                }
                ExprKind::Attribute(_, name) if name == "loads" || name == "json" => true,
                ExprKind::Attribute(of, name) => {
                    matches!(name.as_str(), "get" | "setdefault" | "values" | "items" | "pop")
                        && self.is_live(of)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Records whether a variable is live from here on.
    pub(super) fn note_live(&mut self, name: &str, value: &Expr) {
        if self.is_live(value) {
            self.scope.live.insert(name.to_owned());
        } else {
            self.scope.live.remove(name);
        }
    }
}

/// Returns `true` if a statement, without its nested ones, changes the value that a variable holds.
pub(super) fn changes(stmt: &Stmt, name: &str) -> bool {
    let mut found = false;
    super::aliases::changed(stmt, &super::aliases::Changers::new(), &mut |place| {
        found |= super::aliases::base(place) == Some(name);
    });
    found
}

/// Returns `true` if a statement of a block changes the value that a variable holds.
pub(super) fn block_changes(body: &[Stmt], name: &str) -> bool {
    let mut found = false;
    body.iter().for_each(|stmt| stmt.walk(&mut |inner| found |= changes(inner, name)));
    found
}
