//! Declarations of variables: in Python the scope is the function, in Rhai it is the block.

use crate::python::{Expr, ExprKind, Stmt, StmtKind};
use std::collections::{BTreeMap, BTreeSet};

/// The declarations of a function's variables.
#[derive(Debug, Default, Clone)]
pub(crate) struct Declarations {
    /// The variables to declare before a statement, by its place.
    pub(crate) before: BTreeMap<usize, Vec<String>>,
    /// The variables that an assignment declares, by the place of the statement.
    pub(crate) at: BTreeMap<usize, BTreeSet<String>>,
    /// The loop variables that are read after their loop.
    pub(crate) outlive: BTreeSet<String>,
}

/// The maximum product of statements and variables for which the innermost block of each variable is
/// computed.
const MAX_WORK: usize = 2_000_000;

/// Returns the identity of a statement: its address.
pub(crate) fn place(stmt: &Stmt) -> usize {
    std::ptr::from_ref(stmt) as usize
}

impl Declarations {
    /// Computes where the variables of a function are declared; `given` are declared already.
    pub(crate) fn of(body: &[Stmt], given: &BTreeSet<String>) -> Self {
        let mut assigned = BTreeSet::new();
        let mut looped = BTreeSet::new();
        collect(body, &mut assigned, &mut looped);
        let mut declarations = Self::default();
        let mut statements = 0_usize;
        body.iter().for_each(|stmt| stmt.walk(&mut |_| statements += 1));
        if statements.saturating_mul(assigned.len() + looped.len()) > MAX_WORK {
            // A function above this limit declares all of its variables at the top.
            let all: BTreeSet<String> =
                assigned.union(&looped).filter(|name| !given.contains(*name)).cloned().collect();
            if let Some(first) = body.first() {
                declarations.before.insert(place(first), all.into_iter().collect());
            }
            declarations.outlive = looped;
            return declarations;
        }
        for name in looped.difference(&assigned) {
            if is_read_outside(body, name) {
                declarations.outlive.insert(name.clone());
            }
        }
        for name in looped.intersection(&assigned) {
            // The name is also assigned elsewhere. The loop has a separate variable, unless the name is read
            // first.
            if !given.contains(name) && !begins_with_assignment(body, name) {
                declarations.outlive.insert(name.clone());
            }
        }
        assigned.extend(declarations.outlive.iter().cloned());
        for name in assigned.difference(given) {
            declarations.place(body, name, false);
        }
        declarations
    }

    /// Declares a variable in the innermost block that contains all of its uses.
    fn place(&mut self, body: &[Stmt], name: &str, is_loop: bool) -> bool {
        let items = items(body);
        let outlives = self.outlive.contains(name);
        let uses: Vec<&Item<'_>> = items.iter().filter(|item| item.uses(name, outlives)).collect();
        let Some(first) = uses.first() else { return true };
        if let [Item { stmt, is_head: false }] = uses.as_slice() {
            let in_head = head_uses(stmt, name);
            let blocks: Vec<&[Stmt]> =
                stmt.blocks().into_iter().filter(|block| block_uses(block, name, outlives)).collect();
            let is_function = matches!(stmt.kind, StmtKind::Function(_) | StmtKind::Class(_));
            if !in_head
                && !is_function
                && let [block] = blocks.as_slice()
            {
                let is_loop = matches!(stmt.kind, StmtKind::For { .. } | StmtKind::While { .. });
                if self.place(block, name, is_loop) {
                    return true;
                }
            }
        }
        let assigns = first.assigns(name);
        if is_loop && !assigns {
            // The variable may hold a value of the previous iteration.
            return false;
        }
        if assigns {
            self.at.entry(place(first.stmt)).or_default().insert(name.to_owned());
        } else {
            self.before.entry(place(first.stmt)).or_default().push(name.to_owned());
        }
        true
    }
}

/// A statement, or the head of a `with` whose body follows as further items.
struct Item<'a> {
    stmt: &'a Stmt,
    is_head: bool,
}

/// Returns the statements of a block; the body of a `with` belongs to the block.
fn items(body: &[Stmt]) -> Vec<Item<'_>> {
    let mut all = Vec::new();
    for stmt in body {
        match &stmt.kind {
            StmtKind::With { body, .. } => {
                all.push(Item { stmt, is_head: true });
                all.extend(items(body));
            }
            _ => all.push(Item { stmt, is_head: false }),
        }
    }
    all
}

impl Item<'_> {
    fn uses(&self, name: &str, outlives: bool) -> bool {
        head_uses(self.stmt, name) && !self.binds(name, outlives)
            || (!self.is_head
                && !self.binds(name, outlives)
                && self.stmt.blocks().iter().any(|block| block_uses(block, name, outlives)))
    }

    /// Returns `true` for a loop over the variable.
    fn binds(&self, name: &str, outlives: bool) -> bool {
        !outlives && binds(self.stmt, name)
    }

    /// Returns `true` if the statement assigns the variable and does not read it.
    fn assigns(&self, name: &str) -> bool {
        let is = |expr: &Expr| expr.as_name() == Some(name);
        match &self.stmt.kind {
            StmtKind::Assign { targets, value } => match targets.as_slice() {
                [target] => {
                    let is_target = is(target)
                        || matches!(&target.kind, ExprKind::Tuple(all) if all.iter().all(|one| one.as_name().is_some()) && all.iter().any(is));
                    is_target && !expr_uses(value, name)
                }
                _ => false,
            },
            StmtKind::Annotated { target, value: Some(value), .. } => is(target) && !expr_uses(value, name),
            StmtKind::Annotated { target, value: None, .. } => is(target),
            StmtKind::With { items, .. } => {
                items.iter().any(|(value, target)| target.as_ref().is_some_and(is) && !expr_uses(value, name))
            }
            StmtKind::Function(function) => function.name == name && !block_uses(&function.body, name, true),
            _ => false,
        }
    }
}

fn binds(stmt: &Stmt, name: &str) -> bool {
    matches!(&stmt.kind, StmtKind::For { target, iter, .. } if expr_uses(target, name) && !expr_uses(iter, name))
}

fn head_uses(stmt: &Stmt, name: &str) -> bool {
    let mut found = matches!(&stmt.kind, StmtKind::Function(function) if function.name == name);
    stmt.expressions(&mut |expr| found |= expr_uses(expr, name));
    found
}

fn block_uses(body: &[Stmt], name: &str, outlives: bool) -> bool {
    body.iter().any(|stmt| {
        if !outlives && binds(stmt, name) {
            return false;
        }
        head_uses(stmt, name) || stmt.blocks().iter().any(|block| block_uses(block, name, outlives))
    })
}

fn expr_uses(expr: &Expr, name: &str) -> bool {
    let mut found = false;
    expr.walk(&mut |inner| {
        found |= match &inner.kind {
            ExprKind::Name(other) | ExprKind::Walrus(other, _) => other == name,
            _ => false,
        };
    });
    found
}

/// Returns `true` if the first use of a variable in the text is a plain assignment or a loop over it.
pub(crate) fn begins_with_assignment(body: &[Stmt], name: &str) -> bool {
    for item in items(body) {
        if item.assigns(name) || binds(item.stmt, name) {
            return true;
        }
        if head_uses(item.stmt, name) {
            return false;
        }
        for block in item.stmt.blocks() {
            if !item.is_head && block_uses(block, name, true) {
                return begins_with_assignment(block, name);
            }
        }
    }
    true
}

/// Returns `true` if a loop variable is used outside of the loops that set it.
fn is_read_outside(body: &[Stmt], name: &str) -> bool {
    body.iter().any(|stmt| {
        if binds(stmt, name) {
            return false;
        }
        let mut found = false;
        stmt.expressions(&mut |expr| found |= reads_free(expr, name));
        found || stmt.blocks().iter().any(|block| is_read_outside(block, name))
    })
}

/// Returns `true` if an expression reads a variable that it does not bind.
fn reads_free(expr: &Expr, name: &str) -> bool {
    match &expr.kind {
        ExprKind::Name(other) => other == name,
        ExprKind::ListOf(_, of)
        | ExprKind::SetOf(_, of)
        | ExprKind::Generator(_, of)
        | ExprKind::DictOf(_, _, of)
            if of.iter().any(|one| expr_uses(&one.target, name)) =>
        {
            of.first().is_some_and(|one| reads_free(&one.iter, name))
        }
        ExprKind::Lambda(params, _) if params.iter().any(|param| param.name == name) => false,
        _ => {
            let mut found = false;
            expr.children(&mut |child| found |= reads_free(child, name));
            found
        }
    }
}

/// Collects the variables that a function assigns and its loop variables.
fn collect(body: &[Stmt], assigned: &mut BTreeSet<String>, looped: &mut BTreeSet<String>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { targets, .. } => targets.iter().for_each(|target| names_of(target, assigned)),
            StmtKind::Augmented { target, .. } | StmtKind::Annotated { target, .. } => {
                names_of(target, assigned)
            }
            StmtKind::For { target, .. } => names_of(target, looped),
            StmtKind::With { items, .. } => {
                items
                    .iter()
                    .filter_map(|(_, target)| target.as_ref())
                    .for_each(|target| names_of(target, assigned));
            }
            StmtKind::Function(function) => {
                assigned.insert(function.name.clone());
            }
            _ => {}
        }
        stmt.expressions(&mut |expr| {
            expr.walk(&mut |inner| {
                if let ExprKind::Walrus(name, _) = &inner.kind {
                    assigned.insert(name.clone());
                }
            });
        });
        if !matches!(stmt.kind, StmtKind::Function(_) | StmtKind::Class(_)) {
            stmt.blocks().into_iter().for_each(|block| collect(block, assigned, looped));
        }
    }
}

fn names_of(target: &Expr, out: &mut BTreeSet<String>) {
    match &target.kind {
        ExprKind::Name(name) => {
            out.insert(name.clone());
        }
        ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().for_each(|one| names_of(one, out)),
        ExprKind::Starred(inner) => names_of(inner, out),
        _ => {}
    }
}

/// Returns the names that a function declares as `global` or `nonlocal`.
pub(crate) fn outer_names(body: &[Stmt]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for stmt in body {
        match &stmt.kind {
            StmtKind::Outer(all) => names.extend(all.iter().cloned()),
            StmtKind::Function(_) | StmtKind::Class(_) => {}
            _ => stmt.blocks().into_iter().for_each(|block| names.extend(outer_names(block))),
        }
    }
    names
}

/// Returns `true` if a function assigns a variable.
pub(crate) fn is_assigned(body: &[Stmt], name: &str) -> bool {
    let mut assigned = BTreeSet::new();
    let mut looped = BTreeSet::new();
    collect(body, &mut assigned, &mut looped);
    assigned.contains(name) || looped.contains(name)
}

/// Returns `true` if a function uses a name, including uses in its inner functions.
pub(crate) fn uses(body: &[Stmt], name: &str) -> bool {
    block_uses(body, name, true)
}
