//! Closures that answer yes or no, as in `list.filter(|x| x.name)`: Rhai takes any value but `true` for no. Their
//! results follow the rules of conditions.

use super::kinds::{Kinds, OperandKind};
use crate::value::is_empty;
use crate::{budget, standard};
use rhai::{AST, ASTNode, Dynamic, EvalAltResult, EvalContext, Expr, Expression, FnCallExpr, FnPtr, Stmt};
use std::collections::HashSet;

/// Functions with a closure that answers yes or no.
const ASKING: [&str; 7] = ["filter", "some", "all", "find", "index_of", "retain", "drain"];

/// Returns the names of the closures that answer yes or no. The script's own functions are called by others.
pub(super) fn of(functions: &AST) -> HashSet<String> {
    let own = |name: &str| functions.iter_functions().any(|function| function.name == name);
    closures_of(functions, &ASKING.into_iter().filter(|name| !own(name)).collect::<Vec<_>>())
}

/// Returns the names of the closures that calls of these functions have as arguments.
pub(super) fn closures_of(functions: &AST, takers: &[&str]) -> HashSet<String> {
    let mut names = HashSet::new();
    functions.walk(&mut |path: &[ASTNode<'_>]| {
        if let Some(
            ASTNode::Expr(Expr::FnCall(call, _) | Expr::MethodCall(call, _))
            | ASTNode::Stmt(Stmt::FnCall(call, _)),
        ) = path.last()
            && call.namespace.is_empty()
            && takers.contains(&&*call.name)
        {
            names.extend(call.args.iter().filter_map(closure));
        }
        true
    });
    names
}

/// Returns the name of a closure; one that uses variables around it is created in a block.
fn closure(argument: &Expr) -> Option<String> {
    match argument {
        Expr::DynamicConstant(value, _) => Some(value.read_lock::<FnPtr>()?.fn_name().to_owned()),
        Expr::Stmt(block) => match block.statements().last()? {
            Stmt::Expr(expression) => closure(expression),
            Stmt::FnCall(call, _) => curried(call),
            _ => None,
        },
        Expr::FnCall(call, _) => curried(call),
        _ => None,
    }
}

fn curried(call: &FnCallExpr) -> Option<String> {
    call.args.first().filter(|_| call.name == "curry").and_then(closure)
}

/// Returns `true` if a closure with this body may return another value than a boolean.
pub(super) fn is_doubtful(body: &[Stmt], kinds: &Kinds<'_>) -> bool {
    let kind = match body {
        [Stmt::Expr(expression)] => kinds.kind_of(expression),
        [Stmt::FnCall(call, position)] => kinds.kind_of(&Expr::FnCall(call.clone(), *position)),
        _ => None,
    };
    kind != Some(OperandKind::Boolean)
}

/// Returns the result of a closure's body as a boolean.
pub(super) fn answer(
    context: &mut EvalContext<'_, '_, '_, '_, '_, '_>,
    inputs: &[Expression<'_>],
) -> Result<Dynamic, Box<EvalAltResult>> {
    let Some(body) = inputs.first() else { return Ok(Dynamic::FALSE) };
    budget::forgive(1);
    let value = match context.eval_expression_tree(body).map_err(|ended| *ended) {
        Err(EvalAltResult::Return(value, _)) => value,
        ended => ended?,
    };
    standard::check_size(context.engine(), &value)?;
    Ok((!is_empty(&value)).into())
}
