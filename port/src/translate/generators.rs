//! Generators, and variables that hold streamed responses.

use crate::plugin::{Plugin, PluginKind, of_self};
use crate::python::{Expr, ExprKind, Function, Stmt, StmtKind};
use crate::text::last_name;
use std::collections::BTreeSet;

/// Returns `true` for a generator function.
pub(super) fn is_generator(function: &Function) -> bool {
    yields(&function.body)
}

fn yields(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| {
        let mut found = false;
        stmt.expressions(&mut |expr| {
            expr.walk(&mut |inner| {
                found |= matches!(inner.kind, ExprKind::Yield(_) | ExprKind::YieldFrom(_))
            });
        });
        found
            || (!matches!(stmt.kind, StmtKind::Function(_) | StmtKind::Class(_))
                && stmt.blocks().iter().any(|block| yields(block)))
    })
}

/// Returns the generators whose values the plugin itself reads.
pub(super) fn collected(plugin: &Plugin<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let functions = plugin.methods.values().chain(plugin.functions.values());
    for function in functions {
        if plugin.kind != PluginKind::Pipe && is_generator(function) {
            all.insert(function.name.clone());
        }
        for stmt in &function.body {
            stmt.walk(&mut |stmt| {
                let is_passed_on = match &stmt.kind {
                    StmtKind::For { target, body, .. } => match body.as_slice() {
                        [only] => matches!(
                            &only.kind,
                            StmtKind::Expr(Expr { kind: ExprKind::Yield(Some(value)), .. })
                                if value.as_name().is_some() && value.as_name() == target.as_name()
                        ),
                        _ => false,
                    },
                    StmtKind::Return(Some(value)) => {
                        read_within(value, &mut all);
                        true
                    }
                    StmtKind::Return(None) => true,
                    StmtKind::Expr(Expr { kind: ExprKind::YieldFrom(_), .. }) => true,
                    _ => false,
                };
                if is_passed_on {
                    return;
                }
                stmt.expressions(&mut |expr| calls_of(expr, &mut all));
            });
        }
    }
    all
}

/// Adds the functions whose results a returned expression reads, other than those that it passes on.
fn read_within(value: &Expr, all: &mut BTreeSet<String>) {
    match &value.awaited().kind {
        ExprKind::Choice { condition, then, otherwise } => {
            calls_of(condition, all);
            read_within(then, all);
            read_within(otherwise, all);
        }
        ExprKind::Call(of, args) => {
            let passes_on = last_name(&of.path_or_empty()).ends_with("Response");
            for arg in args {
                if passes_on { read_within(&arg.value, all) } else { calls_of(&arg.value, all) }
            }
            of.children(&mut |inner| calls_of(inner, all));
        }
        _ => value.children(&mut |inner| calls_of(inner, all)),
    }
}

/// Adds the names of all functions that an expression calls.
fn calls_of(expr: &Expr, all: &mut BTreeSet<String>) {
    expr.walk(&mut |inner| {
        if let ExprKind::Call(of, _) = &inner.kind
            && let Some(name) = of_self(of).or(of.as_name())
        {
            all.insert(name.to_owned());
        }
    });
}

/// Returns the variables whose responses a function reads as a stream.
pub(super) fn streamed(body: &[Stmt]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for stmt in body {
        stmt.walk(&mut |stmt| {
            if let StmtKind::For { iter, .. } = &stmt.kind
                && let ExprKind::Attribute(of, name) = &iter.awaited().kind
                && name == "content"
            {
                all.extend(of.as_name().map(str::to_owned));
            }
            stmt.expressions(&mut |expr| {
                expr.walk(&mut |inner| {
                    if let ExprKind::Attribute(of, name) = &inner.kind
                        && matches!(
                            name.as_str(),
                            "iter_lines"
                                | "aiter_lines"
                                | "iter_content"
                                | "aiter_bytes"
                                | "aiter_text"
                                | "aiter_raw"
                                | "iter_any"
                                | "iter_chunked"
                                | "iter_text"
                                | "iter_raw"
                                | "iter_bytes"
                                | "readline"
                        )
                    {
                        let of = match &of.kind {
                            ExprKind::Attribute(of, name) if name == "content" => of,
                            _ => of,
                        };
                        all.extend(of.as_name().map(str::to_owned));
                    }
                });
            });
        });
    }
    all
}
