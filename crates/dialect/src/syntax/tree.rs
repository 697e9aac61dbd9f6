//! The statements of a function, and the calls among the nodes of a syntax tree.

use rhai::{AST, ASTNode, Expr, FnCallExpr, Module, Position, ScriptFuncDef, Stmt};

/// Returns the statements of a function. Rhai shows a function's body only during a walk of a whole file, so a file
/// with only this function is created.
pub fn statements_of(function: &ScriptFuncDef) -> Vec<Stmt> {
    let mut alone = Module::new();
    alone.set_script_fn(function.clone());
    let mut statements = Vec::new();
    AST::new_from_module(alone).walk(&mut |path: &[ASTNode<'_>]| {
        if let [ASTNode::Stmt(statement)] = path {
            statements.push((*statement).clone());
        }
        true
    });
    statements
}

/// Returns the call at a node of a syntax tree, with its position.
pub fn call_of<'a>(node: &ASTNode<'a>) -> Option<(&'a FnCallExpr, Position)> {
    match node {
        ASTNode::Expr(Expr::FnCall(call, position) | Expr::MethodCall(call, position))
        | ASTNode::Stmt(Stmt::FnCall(call, position)) => Some((call, *position)),
        _ => None,
    }
}
