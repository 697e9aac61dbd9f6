//! Live values: values of the host are references as in Python, values that the script creates are copied.

use super::context::Translator;
use crate::plugin::CHANGES;
use crate::python::{Expr, ExprKind, Stmt, StmtKind};

impl Translator<'_> {
    /// Returns `true` if a value, or the elements of a list, belong to the host.
    pub(super) fn is_live(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name(name) => self.scope.live.contains(name),
            ExprKind::Attribute(of, _) => of.as_name() == Some("self") || self.is_live(of),
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
    let within = |target: &Expr| is_within(target, name);
    match &stmt.kind {
        StmtKind::Assign { targets, .. } => targets.iter().any(within),
        StmtKind::Augmented { target, .. } | StmtKind::Annotated { target, .. } => within(target),
        StmtKind::Delete(targets) => targets.iter().any(within),
        StmtKind::Expr(value) => match &value.awaited().kind {
            ExprKind::Call(of, _) => match &of.kind {
                ExprKind::Attribute(owner, method) => {
                    CHANGES.contains(&method.as_str())
                        && (owner.as_name() == Some(name) || is_within(owner, name))
                }
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// Returns `true` if a statement of a block changes the value that a variable holds.
pub(super) fn block_changes(body: &[Stmt], name: &str) -> bool {
    let mut found = false;
    body.iter().for_each(|stmt| stmt.walk(&mut |inner| found |= changes(inner, name)));
    found
}

/// Returns `true` for an element or attribute of a variable.
fn is_within(expr: &Expr, name: &str) -> bool {
    match &expr.kind {
        ExprKind::Attribute(of, _) | ExprKind::Index(of, _) => {
            of.as_name() == Some(name) || is_within(of, name)
        }
        ExprKind::Call(of, _) => match &of.kind {
            ExprKind::Attribute(of, method) if method == "setdefault" || method == "get" => {
                of.as_name() == Some(name) || is_within(of, name)
            }
            _ => false,
        },
        _ => false,
    }
}
