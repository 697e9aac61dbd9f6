//! Conditions that are not booleans: as in Python, `()`, `false`, `0` and empty texts, lists and maps are false, and
//! all other values are true.
//!
//! Rhai's `if`, `while`, `&&`, `||` and `!` only accept booleans. Where the syntax does not prove one, a step converts
//! the value. Outside of conditions, `a || b` is `a` if that is true, and otherwise `b`; `a && b` is the reverse.

use super::kinds::{Kinds, KnownFunctions, OperandKind};
use crate::value::is_empty;
use crate::{budget, standard};
use rhai::{Dynamic, EvalAltResult, EvalContext, Expr, Expression, FnCallExpr, ImmutableString, Stmt};

/// Returns `true` for `!x`.
pub(super) fn is_not(call: &FnCallExpr) -> bool {
    call.op_token.is_some() && call.name == "!"
}

/// Returns the condition of a statement.
pub(super) fn condition_of(statement: &Stmt) -> Option<&Expr> {
    match statement {
        // The condition of a `loop` is the unit value.
        Stmt::While(flow, _) if matches!(flow.expr, Expr::Unit(_)) => None,
        Stmt::If(flow, _) | Stmt::While(flow, _) | Stmt::Do(flow, ..) => Some(&flow.expr),
        _ => None,
    }
}

/// Returns `true` if an expression is a boolean, as far as its syntax alone shows.
pub(super) fn is_plain(condition: &Expr, functions: KnownFunctions<'_>) -> bool {
    match condition {
        Expr::BoolConstant(..) => true,
        Expr::And(parts, _) | Expr::Or(parts, _) => parts.iter().all(|part| is_plain(part, functions)),
        Expr::FnCall(call, _) if is_not(call) => call.args.iter().all(|part| is_plain(part, functions)),
        Expr::FnCall(call, _) => !functions.own.contains(&*call.name) && functions.is_boolean(call),
        _ => false,
    }
}

/// Returns `true` if an expression that is used as a condition needs the step.
pub(super) fn is_doubtful(condition: &Expr, kinds: &Kinds<'_>) -> bool {
    kinds.kind_of(condition) != Some(OperandKind::Boolean)
}

/// Returns the first operand that decides `||` or `&&`, and otherwise the last.
pub(super) fn either(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    operands: &[Expression<'_>],
    is_or: &Dynamic,
) -> Result<Dynamic, Box<EvalAltResult>> {
    budget::forgive(1);
    let decides = is_or.as_bool() == Ok(true);
    let mut value = Dynamic::UNIT;
    for operand in operands {
        value = context.eval_expression_tree(operand)?.flatten();
        standard::check_size(context.engine(), &value)?;
        if is_empty(&value) != decides {
            break;
        }
    }
    Ok(value)
}

/// Converts a value to a boolean.
pub(super) fn convert(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    inputs: &[Expression<'_>],
) -> Result<Dynamic, Box<EvalAltResult>> {
    budget::forgive(1);
    let Some(condition) = inputs.first() else { return Ok(Dynamic::FALSE) };
    // A variable is not copied.
    let is_text = condition.get_literal_value::<ImmutableString>().is_some();
    let variable =
        condition.get_string_value().filter(|_| !is_text).and_then(|name| context.scope().get(name));
    if let Some(value) = variable {
        return Ok((!is_empty(value)).into());
    }
    let value = context.eval_expression_tree(condition)?;
    if value.is_bool() {
        return Ok(value);
    }
    standard::check_size(context.engine(), &value)?;
    Ok((!is_empty(&value)).into())
}
