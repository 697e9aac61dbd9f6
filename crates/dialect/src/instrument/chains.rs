//! Chains whose closures use the variable that the chain starts with, such as `map.keys().map(|key| map[key])`.
//!
//! Rhai locks the variable until the chain ends, and fails when a closure reads it. A chain that starts with a
//! method that only reads can start with the value instead.

use rhai::{ASTFlags, ASTNode, Expr, Stmt, StmtBlock};

/// The methods that do not change their value.
const READING: [&str; 24] = [
    "all",
    "contains",
    "copy",
    "extract",
    "filter",
    "find",
    "find_map",
    "get",
    "index_of",
    "keys",
    "last",
    "len",
    "map",
    "order",
    "order_by",
    "order_desc",
    "reduce",
    "reduce_rev",
    "some",
    "tail",
    "to_chars",
    "to_string",
    "values",
    "zip",
];

/// Makes a chain start with the value of its variable if a closure in it uses the variable. Returns `true` if it
/// was changed.
pub(super) fn detach(chain: &mut Expr) -> bool {
    let name = first_method(chain);
    if !name.is_some_and(|name| READING.contains(&name)) {
        return false;
    }
    let (Expr::Dot(pair, ..) | Expr::Index(pair, ..)) = chain else { return false };
    let Expr::Variable(variable, _, position) = &pair.lhs else { return false };
    if !is_captured(&variable.1, &pair.rhs) {
        return false;
    }
    let position = *position;
    let variable = std::mem::replace(&mut pair.lhs, Expr::Unit(position));
    pair.lhs = Expr::Stmt(StmtBlock::new([Stmt::Expr(variable.into())], position, position).into());
    true
}

/// Returns the name of the first method that a chain calls on its start or on a part of it.
fn first_method(chain: &Expr) -> Option<&str> {
    match chain {
        Expr::Dot(pair, ..) => match &pair.rhs {
            Expr::MethodCall(call, _) => Some(&call.name),
            Expr::Dot(rest, ..) | Expr::Index(rest, ..) if let Expr::MethodCall(call, _) = &rest.lhs => {
                Some(&call.name)
            }
            rest => first_method(rest),
        },
        // What follows the index, which is the left side of it.
        Expr::Index(pair, flags, _) if !flags.contains(ASTFlags::BREAK) => first_method(&pair.rhs),
        _ => None,
    }
}

/// Returns `true` if a closure in an expression captures the variable.
fn is_captured(name: &str, expression: &Expr) -> bool {
    let is_other = &mut |path: &[ASTNode<'_>]| match path.last() {
        Some(ASTNode::Stmt(Stmt::Share(variables))) => {
            !variables.iter().any(|(variable, _)| variable.name == name)
        }
        _ => true,
    };
    !expression.walk(&mut Vec::new(), is_other)
}
