//! The lifetime of an attribute of the plugin: a turn, or as long as Open WebUI runs.

use crate::plugin::{CHANGES, Object, PluginKind, of_self};
use crate::python::{Expr, ExprKind, Function, Stmt, StmtKind};
use crate::text::{first_name, last_name};
use std::collections::{BTreeMap, BTreeSet};

/// The first use of an attribute in the statements of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstUse {
    Nothing,
    /// It is replaced.
    Set,
    /// It may hold what an earlier call left there.
    Read,
}

/// Returns `true` if each call of the plugin sets the attribute before it reads it, so that nothing is kept for the next
/// call.
pub(crate) fn is_set_in_each_turn(kind: PluginKind, methods: &BTreeMap<&str, &Function>, name: &str) -> bool {
    let first = |method: &str| {
        let function = methods.get(method)?;
        Some(first_use(&function.body, name, methods, &mut BTreeSet::new()))
    };
    let in_order: &[&str] = match kind {
        // The hooks of one turn share their attributes.
        PluginKind::Filter => &["inlet", "request", "stream", "outlet"],
        PluginKind::Pipe => &["pipe"],
        PluginKind::Action => &["action"],
        PluginKind::Tool => {
            let mut tools = methods.keys().filter(|name| !name.starts_with('_'));
            return tools.all(|tool| first(tool) != Some(FirstUse::Read)) && first("pipes").is_none();
        }
    };
    let mut is_set = false;
    for method in in_order {
        match first(method) {
            Some(FirstUse::Set) => is_set = true,
            Some(FirstUse::Read) if !is_set => return false,
            _ => {}
        }
    }
    // The list of models is fetched outside of a turn.
    matches!(first("pipes"), None | Some(FirstUse::Nothing))
}

fn first_use<'a>(
    body: &'a [Stmt],
    name: &str,
    methods: &BTreeMap<&str, &'a Function>,
    seen: &mut BTreeSet<&'a str>,
) -> FirstUse {
    for stmt in body {
        let found = of_statement(stmt, name, methods, seen);
        if found != FirstUse::Nothing {
            return found;
        }
    }
    FirstUse::Nothing
}

fn of_statement<'a>(
    stmt: &'a Stmt,
    name: &str,
    methods: &BTreeMap<&str, &'a Function>,
    seen: &mut BTreeSet<&'a str>,
) -> FirstUse {
    let targets: &[Expr] = match &stmt.kind {
        StmtKind::Assign { targets, .. } => targets,
        StmtKind::Annotated { target, value: Some(_), .. } => std::slice::from_ref(target),
        _ => &[],
    };
    let is_target = |expr: &Expr| targets.iter().any(|target| std::ptr::eq(target, expr));
    let is_set = targets.iter().any(|target| of_self(target) == Some(name));
    let mut found = FirstUse::Nothing;
    stmt.expressions(&mut |expr| {
        let is_own = is_target(expr) && of_self(expr) == Some(name);
        if found == FirstUse::Nothing && !is_own {
            found = of_expression(expr, name, methods, seen);
        }
    });
    if found != FirstUse::Nothing || is_set {
        return if found == FirstUse::Nothing { FirstUse::Set } else { found };
    }
    match &stmt.kind {
        StmtKind::With { body, .. } | StmtKind::Try { body, .. } => first_use(body, name, methods, seen),
        StmtKind::Function(_) | StmtKind::Class(_) => FirstUse::Nothing,
        _ => {
            let blocks = stmt.blocks();
            let all: Vec<FirstUse> =
                blocks.iter().map(|block| first_use(block, name, methods, seen)).collect();
            let is_always =
                matches!(&stmt.kind, StmtKind::If { .. }) && all.iter().all(|one| *one == FirstUse::Set);
            match all.iter().all(|one| *one == FirstUse::Nothing) {
                true => FirstUse::Nothing,
                // A value that only some calls set may be that of an earlier call.
                false if is_always => FirstUse::Set,
                false => FirstUse::Read,
            }
        }
    }
}

fn of_expression<'a>(
    expr: &'a Expr,
    name: &str,
    methods: &BTreeMap<&str, &'a Function>,
    seen: &mut BTreeSet<&'a str>,
) -> FirstUse {
    let mut found = FirstUse::Nothing;
    expr.walk(&mut |inner| {
        if found != FirstUse::Nothing {
            return;
        }
        match of_self(inner) {
            Some(own) if own == name => found = FirstUse::Read,
            Some(own) => {
                if let Some(function) = methods.get(own)
                    && seen.insert(&function.name)
                {
                    found = first_use(&function.body, name, methods, seen);
                }
            }
            None => {}
        }
    });
    found
}

/// Returns `true` if an initial value is another one in each process, or an object that changes.
pub(crate) fn differs(value: &Expr, imports: &BTreeMap<String, String>, objects: &[Object<'_>]) -> bool {
    let mut found = false;
    value.walk(&mut |inner| {
        let ExprKind::Call(of, _) = &inner.kind else { return };
        let path = of.path_or_empty();
        let root = first_name(&path);
        let full = imports.get(root).map_or_else(|| path.clone(), |full| path.replacen(root, full, 1));
        found |= ["random.", "secrets.", "uuid.", "time.time", "time.monotonic"]
            .iter()
            .any(|of| full.starts_with(of))
            || ["now", "utcnow", "today"].contains(&last_name(&full)) && full.contains("date");
        found |= objects.iter().any(|object| {
            object.class.name == path && object.methods.values().any(|method| changes_self(method))
        });
    });
    found
}

/// Returns `true` for a method that changes its object after it was made.
fn changes_self(method: &Function) -> bool {
    if method.name == "__init__" {
        return false;
    }
    let mut found = false;
    for stmt in &method.body {
        stmt.walk(&mut |stmt| {
            let targets: &[Expr] = match &stmt.kind {
                StmtKind::Assign { targets, .. } | StmtKind::Delete(targets) => targets,
                StmtKind::Augmented { target, .. } | StmtKind::Annotated { target, .. } => {
                    std::slice::from_ref(target)
                }
                _ => &[],
            };
            found |= targets.iter().any(starts_with_self);
            stmt.expressions(&mut |expr| {
                expr.walk(&mut |inner| {
                    if let ExprKind::Call(of, _) = &inner.kind
                        && let ExprKind::Attribute(of, name) = &of.kind
                    {
                        found |= CHANGES.contains(&name.as_str()) && starts_with_self(of);
                    }
                });
            });
        });
    }
    found
}

fn starts_with_self(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Attribute(of, _) | ExprKind::Index(of, _) => {
            of.as_name() == Some("self") || starts_with_self(of)
        }
        ExprKind::Tuple(all) | ExprKind::List(all) => all.iter().any(starts_with_self),
        _ => false,
    }
}
