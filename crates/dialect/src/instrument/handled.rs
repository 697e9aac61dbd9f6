//! Comparisons that expect values of several types.

use super::places::show;
use crate::value::reads_alike;
use rhai::{ASTNode, Dynamic, Expr, FnCallExpr, Stmt};

/// The maximum number of comparisons with constants in a function that are compared with each other.
const MAX_HANDLED: usize = 64;

/// Comparisons of one expression with constants of several types that read the same: `x == 5 || x == "5"` expects
/// either.
pub(super) struct HandledTypes {
    /// The compared expressions and the constants, of a function.
    compared: Vec<(String, Dynamic)>,
}

impl HandledTypes {
    /// Collects the comparisons with constants in a function.
    pub(super) fn of(statements: &[Stmt]) -> Self {
        let mut compared = Vec::new();
        for statement in statements {
            statement.walk(&mut Vec::new(), &mut |path: &[ASTNode<'_>]| {
                if let Some(ASTNode::Expr(Expr::FnCall(call, _)) | ASTNode::Stmt(Stmt::FnCall(call, _))) =
                    path.last()
                    && let Some(found) = compared_constant(call)
                    && compared.len() < MAX_HANDLED
                {
                    compared.push(found);
                }
                true
            });
        }
        Self { compared }
    }

    /// Returns `true` if the function also compares the expression with a constant of another type that reads the
    /// same.
    pub(super) fn has(&self, call: &FnCallExpr) -> bool {
        let Some((expression, constant)) = compared_constant(call) else { return false };
        self.compared.iter().any(|(other, alike)| *other == expression && reads_alike(alike, &constant))
    }
}

/// Returns the expression that a call of `==` or `!=` compares with a constant, and the constant.
fn compared_constant(call: &FnCallExpr) -> Option<(String, Dynamic)> {
    let [first, second] = call.args.as_slice() else { return None };
    if call.op_token.is_none() || !["==", "!="].contains(&call.name.as_str()) {
        return None;
    }
    let (expression, constant) = match (first.get_literal_value(None), second.get_literal_value(None)) {
        (None, Some(constant)) => (first, constant),
        (Some(constant), None) => (second, constant),
        _ => return None,
    };
    let mut text = String::new();
    show(expression, &mut text);
    (!text.contains('…')).then_some((text, constant))
}
