//! Functions whose syntax proves that a call is short, before the first call.
//!
//! The first calls of an unproven hook run on a separate thread.

use rhai::{AST, ASTNode, Expr, FnCallExpr, Module, ScriptFuncDef, Stmt};
use std::collections::HashSet;

/// The maximum number of syntax nodes of a function that is proven to be short.
const MAX_NODES: usize = 400;

/// The maximum number of calls in such a function; each may read a text once.
const MAX_PASSES: usize = 40;

/// Operators that run in constant time if one operand is a literal.
const OPERATORS: [&str; 13] = ["==", "!=", "<", ">", "<=", ">=", "!", "-", "+", "*", "/", "%", "in"];
/// Functions that run in constant time.
const FUNCTIONS: [&str; 3] = ["len", "is_empty", "type_of"];
/// Functions that run in constant time if all arguments are literals.
const OF_LITERALS: [&str; 3] = ["error", "deny", "skip"];

/// Returns `true` if no function of this name has a loop, calls a function whose time grows with its input, or
/// concatenates texts.
pub fn is_bounded(ast: &AST, name: &str) -> bool {
    let own: HashSet<&str> = ast.iter_fn_def().map(|function| function.name.as_str()).collect();
    let mut functions = ast.iter_fn_def().filter(|function| function.name == name);
    functions.all(|function| is_body_cheap(function, &own))
}

fn is_body_cheap(function: &ScriptFuncDef, own: &HashSet<&str>) -> bool {
    let mut alone = Module::new();
    alone.set_script_fn(function.clone());
    let (mut nodes, mut passes) = (0, 0);
    let mut is_bounded = true;
    AST::new_from_module(alone).walk(&mut |path: &[ASTNode<'_>]| {
        nodes += 1;
        passes += usize::from(matches!(
            path.last(),
            Some(
                ASTNode::Stmt(Stmt::FnCall(..) | Stmt::Assignment(..))
                    | ASTNode::Expr(Expr::FnCall(..) | Expr::MethodCall(..))
            )
        ));
        is_bounded = nodes <= MAX_NODES
            && passes <= MAX_PASSES
            && match path.last() {
                Some(ASTNode::Stmt(statement)) => is_statement_cheap(statement, own),
                Some(ASTNode::Expr(expression)) => is_expression_cheap(expression, own),
                _ => true,
            };
        is_bounded
    });
    is_bounded
}

fn is_statement_cheap(statement: &Stmt, own: &HashSet<&str>) -> bool {
    match statement {
        Stmt::Noop(..)
        | Stmt::If(..)
        | Stmt::Switch(..)
        | Stmt::Var(..)
        | Stmt::Block(..)
        | Stmt::TryCatch(..)
        | Stmt::Expr(..) => true,
        Stmt::Assignment(assignment) => !assignment.0.is_op_assignment() || is_number(&assignment.1.rhs),
        Stmt::FnCall(call, _) => is_call_cheap(call, own),
        Stmt::Return(..) => true,
        _ => false,
    }
}

fn is_expression_cheap(expression: &Expr, own: &HashSet<&str>) -> bool {
    match expression {
        Expr::FnCall(call, _) | Expr::MethodCall(call, _) => is_call_cheap(call, own),
        Expr::InterpolatedString(..) => false,
        // A thrown value is converted to text.
        Expr::Custom(custom, _) => {
            custom.tokens.first().is_some_and(|word| word == "throw") && custom.inputs.iter().all(is_literal)
        }
        _ => true,
    }
}

fn is_call_cheap(call: &FnCallExpr, own: &HashSet<&str>) -> bool {
    let name = call.name.as_str();
    if !call.namespace.path.is_empty() || own.contains(name) {
        return false;
    }
    if call.op_token.is_some() {
        // Concatenation copies a text.
        let is_joined = name == "+" && !call.args.iter().any(is_number);
        let has_literal = call.args.len() == 1 || call.args.iter().any(is_literal);
        return OPERATORS.contains(&name) && has_literal && !is_joined;
    }
    FUNCTIONS.contains(&name) || (OF_LITERALS.contains(&name) && call.args.iter().all(is_literal))
}

fn is_number(expression: &Expr) -> bool {
    matches!(expression, Expr::IntegerConstant(..) | Expr::FloatConstant(..))
}

fn is_literal(expression: &Expr) -> bool {
    is_number(expression)
        || matches!(
            expression,
            Expr::BoolConstant(..) | Expr::CharConstant(..) | Expr::StringConstant(..) | Expr::Unit(..)
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language;

    fn cheap(body: &str) -> bool {
        let ast =
            language::engine([]).compile(format!("fn own() {{ 1 }} fn inlet(body) {{ {body} }}")).unwrap();
        is_bounded(&ast, "inlet")
    }

    #[test]
    fn a_function_with_bounded_work_is_proven_cheap() {
        for body in [
            "body",
            "body.seen = true; body",
            "if body.messages.len() > 4 { throw \"too long\" } body",
            "let last = body.messages[-1]; if last.role == \"user\" && !last.seen { last.n += 1; }",
            "if body.model == \"x\" { return error(\"no\"); } #{ a: [1, body.b] }",
            "switch body.kind { \"a\" => 1, 2..4 => body.x, _ => () }",
            "try { body.a.b } catch { body }",
        ] {
            assert!(cheap(body), "{body}");
        }
    }

    #[test]
    fn a_function_with_loops_or_calls_is_not_proven_cheap() {
        for body in [
            "for m in body.messages { m.seen = true; }",
            "loop { break; }",
            "while body.a { }",
            "do { } while body.a",
            "regex::is_match(body.text, \"a\")",
            "own()",
            "body.own()",
            "body.text.replace(\"a\", \"b\")",
            "body.a == body.b",
            "body.text + body.text",
            "body.text + \"!\"",
            "body.text += \"!\"",
            "`${body.a}`",
            "throw body",
            "error(body)",
            "print(body)",
            "body.a.sort()",
            "let f = |x| x; f.call(1)",
            "[body.a].map(|x| x)",
        ] {
            assert!(!cheap(body), "{body}");
        }
        assert!(!cheap(&"body.a = 1;".repeat(200)));
        assert!(cheap(&"body.n = body.text + 1;".repeat(MAX_PASSES / 2)));
        assert!(!cheap(&"body.n = body.text + 1;".repeat(MAX_PASSES)));
    }
}
