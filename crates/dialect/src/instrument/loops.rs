//! Loops with two variables: over a map or a list of pairs they are the key and value of each, over all else an element
//! and its position.

use super::kinds::{Kinds, OperandKind};
use crate::budget;
use crate::value::{Map, PAIR};
use rhai::{Dynamic, EvalAltResult, EvalContext, Expr, Expression, ImmutableString, Stmt};

/// Returns `true` for a loop with two variables over what may be a map.
pub(super) fn may_be_over_map(statement: &Stmt, kinds: &Kinds<'_>) -> bool {
    let Stmt::For(parts, _) = statement else { return false };
    let is_range = matches!(&parts.2.expr, Expr::FnCall(call, _) if ["..", "..="].contains(&&*call.name));
    let kind = kinds.kind_of(&parts.2.expr);
    parts.1.is_some() && !is_range && kind.is_none_or(|kind| kind == OperandKind::Map)
}

/// Returns the entries of a map, and any other value as it is.
pub(super) fn entries(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    inputs: &[Expression<'_>],
) -> Result<Dynamic, Box<EvalAltResult>> {
    budget::forgive(1);
    let Some(value) = inputs.first() else { return Ok(Dynamic::UNIT) };
    let value = context.eval_expression_tree(value)?.flatten();
    match value.is_map() || value.is::<Map>() {
        true => context.call_native_fn("items", (value,)),
        false => Ok(value),
    }
}

/// Gives the variables of a loop the two parts of a pair.
pub(super) fn take_apart(context: &mut EvalContext<'_, '_, '_, '_, '_, '_>, inputs: &[Expression<'_>]) {
    budget::forgive(2);
    let [first, second] = inputs else { return };
    let name = |input: &Expression<'_>| input.get_literal_value::<ImmutableString>();
    let (Some(first), Some(second)) = (name(first), name(second)) else { return };
    let scope = context.scope_mut();
    let element = scope.get(&first).and_then(|place| place.read_lock::<Dynamic>());
    let Some(pair) = element.filter(|element| element.tag() == PAIR) else { return };
    let Ok(parts) = pair.as_array_ref().map(|parts| parts.clone()) else { return };
    drop(pair);
    for (name, part) in [first, second].iter().zip(parts) {
        // A closure may share the variable.
        if let Some(mut variable) = scope.get_mut(name).and_then(|place| place.write_lock::<Dynamic>()) {
            *variable = part;
        }
    }
}
