//! Second names: Python has one list with two names where a script, outside of the host's values, has two lists.
//!
//! A list or map gets a second name by an assignment, as an element, in a loop, or as an argument. If it changes after
//! that, the line that gives the name is left to the author.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Role, Translator};
use crate::kinds::Type;
use crate::plugin::{CHANGES, Plugin};
use crate::python::{Arg, Expr, ExprKind, Function, Stmt, StmtKind};
use crate::report::NoteKind;
use crate::scope;
use std::collections::{BTreeMap, BTreeSet};

/// The places of the parameters that functions of the file change, by the names of the functions.
pub(super) type Changers = BTreeMap<String, BTreeSet<usize>>;

impl<'a> Translator<'a> {
    /// Refuses a second name of a value that changes later, under either name.
    pub(super) fn refuse_second_name(
        &self,
        line: usize,
        name: &str,
        value: &Expr,
        kind: &Type,
    ) -> Outcome<()> {
        if is_scalar(kind) || self.is_live(value) {
            return Ok(());
        }
        for place in places(value) {
            let Some(source) = base(place).filter(|source| *source != name && self.may_be_copied(source))
            else {
                continue;
            };
            let is_changed = !self.is_live(place)
                && (self.changes_after(line, name, &|changed| base(changed) == Some(name))
                    || self.changes_after(line, source, &|changed| covers(place, changed)));
            if is_changed {
                return Hindrance::err(
                    NoteKind::State,
                    format!(
                        "`{name}`, a second name in `{source}`, which changes later: lists and maps are copied here"
                    ),
                );
            }
        }
        Ok(())
    }

    /// Refuses `a = b = []` if the list changes.
    pub(super) fn refuse_two_names(&self, line: usize, name: &str, value: &Expr, kind: &Type) -> Outcome<()> {
        if !is_scalar(kind)
            && !self.is_live(value)
            && self.changes_after(line, name, &|changed| base(changed) == Some(name))
        {
            return Hindrance::err(
                NoteKind::State,
                format!("`{name}`, one of two names of a value that changes: lists and maps are copied here"),
            );
        }
        Ok(())
    }

    /// Refuses a value that becomes part of a list or map and changes later.
    pub(super) fn refuse_stored(&self, line: usize, value: &Expr) -> Outcome<()> {
        for name in stored(value) {
            if self.may_be_copied(name)
                && !self.scope.live.contains(name)
                && self.changes_after(line, name, &|changed| base(changed) == Some(name))
            {
                return Hindrance::err(
                    NoteKind::State,
                    format!("a second name of `{name}`, which changes later: lists and maps are copied here"),
                );
            }
        }
        Ok(())
    }

    /// Refuses elements that a method such as `append` adds and that change later.
    pub(super) fn refuse_added(&self, value: &Expr) -> Outcome<()> {
        let mut calls: Vec<(&Expr, &[Arg], usize)> = Vec::new();
        value.walk(&mut |inner| {
            if let ExprKind::Call(of, args) = &inner.kind
                && let ExprKind::Attribute(owner, method) = &of.kind
                && CHANGES.contains(&method.as_str())
            {
                calls.push((owner, args, inner.line));
            }
        });
        for (owner, args, line) in calls {
            for arg in args {
                self.refuse_stored(line, &arg.value)?;
                let (Some(list), Some(name)) = (base(owner), arg.value.as_name()) else { continue };
                // The element changes through the list, and the value is read by its name.
                let is_changed = self.may_be_copied(name)
                    && !self.scope.live.contains(list)
                    && !self.scope.live.contains(name)
                    && self.is_read_after(line, name)
                    && self.changes_after(line, list, &|changed| {
                        base(changed) == Some(list) && !matches!(changed.kind, ExprKind::Name(_))
                    });
                if is_changed {
                    return Hindrance::err(
                        NoteKind::State,
                        format!(
                            "`{name}`, which changes as an element of `{list}`: lists and maps are copied here"
                        ),
                    );
                }
            }
        }
        Ok(())
    }

    /// Refuses a loop that changes the elements of lists and maps that other names hold.
    pub(super) fn refuse_loop(&self, names: &[&str], iter: &Expr, body: &[Stmt]) -> Outcome<()> {
        let is_own = |changed: &Expr| base(changed).is_some_and(|name| names.contains(&name));
        if !self.block_changes(body, &is_own) {
            return Ok(());
        }
        let mut source = None;
        iter.walk(&mut |inner| {
            let name =
                inner.as_name().filter(|name| !self.scope.live.contains(*name) && self.may_be_copied(name));
            source = source.or(name);
        });
        match source {
            Some(source) => Hindrance::err(
                NoteKind::State,
                format!("a loop that changes the elements of `{source}`: lists and maps are copied here"),
            ),
            None => Ok(()),
        }
    }

    /// Refuses a call of an inner function that changes an argument.
    pub(super) fn refuse_changed_by_closure(&self, name: &str, arguments: &Arguments<'_>) -> Outcome<()> {
        let mut found = None;
        for stmt in self.current {
            stmt.walk(&mut |inner| match &inner.kind {
                StmtKind::Function(function) if function.name == name => found = Some(function),
                _ => {}
            });
        }
        let Some(function) = found else { return Ok(()) };
        for (at, param) in function.params.iter().enumerate() {
            if let Some(given) = arguments.get(at, &param.name) {
                self.refuse_changed_argument(function, at, &param.name, given)?;
            }
        }
        Ok(())
    }

    /// Refuses a call of a function that changes an argument, which would be its copy.
    pub(super) fn refuse_changed_argument(
        &self,
        function: &Function,
        at: usize,
        param: &str,
        given: &Expr,
    ) -> Outcome<()> {
        let changes = changed_by(function, &self.changers);
        if !changes.contains(&at) {
            return Ok(());
        }
        for place in places(given) {
            let Some(source) = base(place).filter(|source| self.may_be_copied(source)) else { continue };
            let is_given_back = returns(&function.body, param) && self.is_assigned_to(place);
            let is_last = place.as_name().is_some_and(|name| !self.is_read_after(given.line, name));
            if !self.is_live(place) && !is_given_back && !is_last {
                let shown = match place.as_name() {
                    Some(name) => format!("`{name}`"),
                    None => format!("a part of `{source}`"),
                };
                return Hindrance::err(
                    NoteKind::State,
                    format!("`{}` changes its copy of {shown}: return it and assign it", function.name),
                );
            }
        }
        Ok(())
    }

    /// Returns `true` for a value that the statement in translation replaces with its own result.
    fn is_assigned_to(&self, place: &Expr) -> bool {
        let Some(stmt) = self.statement else { return false };
        match &stmt.kind {
            StmtKind::Assign { targets, .. } => {
                targets.iter().any(|target| steps(target).is_some() && steps(target) == steps(place))
            }
            StmtKind::Return(_) => true,
            _ => false,
        }
    }

    /// Returns `true` for a name whose value may be a list or map.
    pub(super) fn may_be_copied(&self, name: &str) -> bool {
        match self.scope.variables.get(name) {
            Some(variable) => !is_scalar(&variable.kind) && !variable.kind.is_ghost(),
            None => {
                name == "self" && matches!(self.scope.role, Role::Method(_))
                    || self.plugin.constants.contains_key(name)
                    || self.plugin.computed.contains_key(name)
            }
        }
    }

    /// Returns `true` if statements that run after a line change something, before the name gets a new value.
    pub(super) fn changes_after(&self, line: usize, name: &str, is: &dyn Fn(&Expr) -> bool) -> bool {
        if self.current.is_empty() || is_replaced_next(self.current, line, name) {
            return false;
        }
        let start = first_after(self.current, line, name);
        let mut found = false;
        for stmt in self.current {
            stmt.walk(&mut |inner| {
                if inner.line >= start {
                    found |= self.statement_changes(inner, is);
                }
            });
        }
        found
    }

    fn is_read_after(&self, line: usize, name: &str) -> bool {
        let start = first_after(self.current, line, name);
        let mut found = false;
        for stmt in self.current {
            stmt.walk(&mut |inner| {
                if inner.line >= start && inner.line != line {
                    inner.expressions(&mut |expr| {
                        expr.walk(&mut |expr| found |= expr.as_name() == Some(name));
                    });
                }
            });
        }
        found
    }

    fn block_changes(&self, body: &[Stmt], is: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        body.iter().for_each(|stmt| stmt.walk(&mut |inner| found |= self.statement_changes(inner, is)));
        found
    }

    fn statement_changes(&self, stmt: &Stmt, is: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        changed(stmt, &self.changers, &mut |place| found |= is(place));
        found
    }
}

/// Finds the parameters that functions of the file change, also through the functions that they call.
pub(super) fn changers(plugin: &Plugin<'_>) -> Changers {
    let objects = plugin.objects.iter().flat_map(|object| object.methods.values());
    let functions: Vec<&Function> =
        plugin.methods.values().chain(plugin.functions.values()).chain(objects).copied().collect();
    let mut all = Changers::new();
    loop {
        let before: usize = all.values().map(BTreeSet::len).sum();
        for function in &functions {
            let found = changed_by(function, &all);
            all.entry(function.name.clone()).or_default().extend(found);
        }
        if all.values().map(BTreeSet::len).sum::<usize>() == before {
            return all;
        }
    }
}

/// Returns the places of the parameters, without `self`, that a function changes.
fn changed_by(function: &Function, changers: &Changers) -> BTreeSet<usize> {
    let skip = function.params.first().is_some_and(|first| matches!(first.name.as_str(), "self" | "cls"));
    let params = function.params.iter().skip(usize::from(skip)).enumerate();
    params.filter(|(_, param)| changes_param(function, &param.name, changers)).map(|(at, _)| at).collect()
}

fn changes_param(function: &Function, param: &str, changers: &Changers) -> bool {
    // The names of the parameter's value and of its parts.
    let mut names: BTreeSet<&str> = BTreeSet::from([param]);
    let mut line_of_copy = usize::MAX;
    for stmt in &function.body {
        stmt.walk(&mut |inner| match &inner.kind {
            StmtKind::Assign { targets, value } => {
                let is_part =
                    places(value).iter().any(|place| base(place).is_some_and(|base| names.contains(base)));
                for name in targets.iter().flat_map(names_in) {
                    if is_part {
                        names.insert(name);
                    } else if name == param {
                        line_of_copy = line_of_copy.min(inner.line);
                    }
                }
            }
            StmtKind::For { target, iter, .. } => {
                let mut is_part = false;
                iter.walk(&mut |one| is_part |= one.as_name().is_some_and(|name| names.contains(name)));
                if is_part {
                    names.extend(names_in(target));
                }
            }
            _ => {}
        });
    }
    let mut found = false;
    for stmt in &function.body {
        stmt.walk(&mut |inner| {
            if inner.line < line_of_copy {
                changed(inner, changers, &mut |place| {
                    found |= base(place).is_some_and(|base| names.contains(base))
                });
            }
        });
    }
    found
}

/// Calls a function with each list or map that a statement changes, without those of nested statements.
pub(super) fn changed(stmt: &Stmt, changers: &Changers, f: &mut dyn FnMut(&Expr)) {
    match &stmt.kind {
        StmtKind::Assign { targets, .. } | StmtKind::Delete(targets) => {
            targets.iter().for_each(|target| owners(target, f));
        }
        StmtKind::Annotated { target, .. } | StmtKind::For { target, .. } => owners(target, f),
        StmtKind::Augmented { target, value, .. } => {
            owners(target, f);
            // `list += […]` changes the list itself.
            if matches!(value.kind, ExprKind::List(_) | ExprKind::ListOf(..) | ExprKind::Dict(_)) {
                f(target);
            }
        }
        _ => {}
    }
    stmt.expressions(&mut |expr| {
        expr.walk(&mut |inner| {
            let ExprKind::Call(of, args) = &inner.kind else { return };
            let name = match &of.kind {
                ExprKind::Attribute(owner, method) => {
                    if CHANGES.contains(&method.as_str()) {
                        f(owner);
                    }
                    method
                }
                ExprKind::Name(name) => name,
                _ => return,
            };
            let Some(places) = changers.get(name) else { return };
            for (at, arg) in args.iter().enumerate() {
                if arg.name.is_some() || places.contains(&at) {
                    f(&arg.value);
                }
            }
        });
    });
}

/// Calls a function with the list or map that an assignment to a target changes.
fn owners(target: &Expr, f: &mut dyn FnMut(&Expr)) {
    match &target.kind {
        ExprKind::Index(of, _) | ExprKind::Attribute(of, _) => f(of),
        ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().for_each(|one| owners(one, f)),
        ExprKind::Starred(inner) => owners(inner, f),
        _ => {}
    }
}

/// Returns the places whose list or map is the value of an expression, and not a new one.
fn places(value: &Expr) -> Vec<&Expr> {
    match &value.kind {
        ExprKind::Name(_) => vec![value],
        ExprKind::Index(_, index) if !matches!(index.kind, ExprKind::Slice(..)) => vec![value],
        ExprKind::Attribute(..) => vec![value],
        ExprKind::Call(of, _) => match &of.kind {
            ExprKind::Attribute(_, name) if matches!(name.as_str(), "get" | "setdefault") => vec![value],
            _ => Vec::new(),
        },
        ExprKind::Await(inner) | ExprKind::Walrus(_, inner) => places(inner),
        ExprKind::Logic(_, all) => all.iter().flat_map(places).collect(),
        ExprKind::Choice { then, otherwise, .. } => {
            places(then).into_iter().chain(places(otherwise)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the names whose values become parts of a new list or map.
fn stored(value: &Expr) -> Vec<&str> {
    match &value.kind {
        ExprKind::Name(name) => vec![name],
        ExprKind::List(all) | ExprKind::Tuple(all) | ExprKind::Set(all) => {
            all.iter().flat_map(stored).collect()
        }
        ExprKind::Dict(entries) => {
            entries.iter().filter(|(key, _)| key.is_some()).flat_map(|(_, value)| stored(value)).collect()
        }
        ExprKind::Logic(_, all) => all.iter().flat_map(stored).collect(),
        ExprKind::Choice { then, otherwise, .. } => {
            stored(then).into_iter().chain(stored(otherwise)).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn names_in(target: &Expr) -> Vec<&str> {
    match &target.kind {
        ExprKind::Name(name) => vec![name],
        ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().flat_map(names_in).collect(),
        ExprKind::Starred(inner) => names_in(inner),
        _ => Vec::new(),
    }
}

/// Returns the variable that a place belongs to.
pub(super) fn base(place: &Expr) -> Option<&str> {
    match &place.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Index(of, _) | ExprKind::Attribute(of, _) | ExprKind::Await(of) => base(of),
        ExprKind::Walrus(name, _) => Some(name),
        ExprKind::Logic(_, all) => all.first().and_then(base),
        ExprKind::Call(of, _) => match &of.kind {
            ExprKind::Attribute(of, name)
                if matches!(name.as_str(), "get" | "setdefault" | "values" | "items") =>
            {
                base(of)
            }
            _ => None,
        },
        _ => None,
    }
}

/// A step from a map or list to one of its parts; `None` for a computed one.
type Step = Option<String>;

/// Returns the variable of a place and the steps from it.
fn steps(place: &Expr) -> Option<(&str, Vec<Step>)> {
    let further = |of, step: Step| {
        let (name, mut all): (&str, Vec<Step>) = steps(of)?;
        all.push(step);
        Some((name, all))
    };
    let key = |expr: &Expr| match &expr.kind {
        ExprKind::Text(text) => Some(text.clone()),
        ExprKind::Int(number) => Some(number.to_string()),
        _ => None,
    };
    match &place.kind {
        ExprKind::Name(name) => Some((name, Vec::new())),
        ExprKind::Index(of, index) => further(of, key(index)),
        ExprKind::Attribute(of, name) => further(of, Some(name.clone())),
        ExprKind::Call(of, args) => match &of.kind {
            ExprKind::Attribute(of, name) if matches!(name.as_str(), "get" | "setdefault") => {
                further(of, args.first().and_then(|first| key(&first.value)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns `true` if a change of one place changes the value at another, or a part of it.
fn covers(place: &Expr, changed: &Expr) -> bool {
    let (Some((name, of)), Some((other, to))) = (steps(place), steps(changed)) else {
        return base(place).is_some() && base(place) == base(changed);
    };
    let is_same = |(one, other): (&Step, &Step)| one.is_none() || other.is_none() || one == other;
    name == other && of.len() <= to.len() && of.iter().zip(&to).all(is_same)
}

/// Returns `true` if the next statement of the block that uses a name gives it a new value.
fn is_replaced_next(body: &[Stmt], line: usize, name: &str) -> bool {
    let Some(at) = body.iter().position(|stmt| stmt.line == line) else {
        let mut blocks = body.iter().flat_map(Stmt::blocks);
        return blocks.any(|block| is_replaced_next(block, line, name));
    };
    let next = body[at + 1..].iter().find(|stmt| scope::uses(std::slice::from_ref(stmt), name));
    next.is_some_and(|stmt| match &stmt.kind {
        StmtKind::Assign { targets, value } => {
            let mut is_read = false;
            value.walk(&mut |inner| is_read |= inner.as_name() == Some(name));
            !is_read && targets.iter().any(|target| target.as_name() == Some(name))
        }
        _ => false,
    })
}

/// Returns the first line that may run after a line with the same value of a name: a loop runs again from its head,
/// unless its body begins by giving the name a new value.
fn first_after(body: &[Stmt], line: usize, name: &str) -> usize {
    let mut loops: Vec<&Stmt> = Vec::new();
    for stmt in body {
        stmt.walk(&mut |inner| {
            let is_loop = matches!(inner.kind, StmtKind::For { .. } | StmtKind::While { .. });
            if is_loop && inner.line < line && last_line(inner) >= line {
                loops.push(inner);
            }
        });
    }
    let mut start = line + 1;
    for one in loops.iter().rev() {
        let (inner, binds) = match &one.kind {
            StmtKind::For { target, body, .. } => (body, names_in(target).contains(&name)),
            StmtKind::While { body, .. } => (body, false),
            _ => continue,
        };
        if binds || scope::begins_with_assignment(inner, name) {
            break;
        }
        start = one.line;
    }
    start
}

fn last_line(stmt: &Stmt) -> usize {
    let mut last = stmt.end_line;
    stmt.walk(&mut |inner| last = last.max(inner.end_line));
    last
}

/// Returns `true` if a function returns a variable, alone or as a part of its result.
fn returns(body: &[Stmt], name: &str) -> bool {
    let mut found = false;
    for stmt in body {
        stmt.walk(&mut |stmt| {
            if let StmtKind::Return(Some(value)) = &stmt.kind {
                value.walk(&mut |inner| found |= inner.as_name() == Some(name));
            }
        });
    }
    found
}

/// Returns `true` for values that are not lists or maps.
fn is_scalar(kind: &Type) -> bool {
    !matches!(kind, Type::Unknown | Type::None | Type::List(_) | Type::Map | Type::Object(_))
}
