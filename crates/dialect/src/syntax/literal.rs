//! Reads literal constants with the key order of the source; Rhai's own maps sort their keys.

use crate::value::json_of;
use rhai::{AST, Expr, Stmt};
use valvehouse_json::{Json, Object};

/// Returns the literal constants of a file in source order, with their keys in source order.
///
/// `folded` is the file compiled with folded constants, so that `60 * 60` counts as a literal; `plain` is the file
/// compiled without, which has the order.
pub fn constants(folded: &AST, plain: &AST) -> Vec<(String, Json)> {
    let values = folded.iter_literal_variables(true, false);
    let values = values.filter_map(|(name, _, value)| Some((name.to_owned(), json_of(&value).ok()?)));
    values
        .map(|(name, value)| match written(plain, &name) {
            Some(expression) => {
                let value = in_order(expression, value);
                (name, value)
            }
            None => (name, value),
        })
        .collect()
}

fn written<'a>(plain: &'a AST, name: &str) -> Option<&'a Expr> {
    plain.statements().iter().rev().find_map(|statement| match statement {
        Stmt::Var(variable, ..) if variable.0.name == name => Some(&variable.1),
        _ => None,
    })
}

/// Returns a value with its keys in the order of its expression.
fn in_order(expression: &Expr, value: Json) -> Json {
    match (expression, &value) {
        (Expr::Map(entries, _), Json::Object(fields)) => entries
            .0
            .iter()
            .filter_map(|(key, expression)| {
                Some((key.name.as_str().into(), in_order(expression, fields.get(&key.name)?)))
            })
            .collect::<Object>()
            .into(),
        (Expr::Array(items, _), Json::Array(values)) => {
            let items = items.iter().zip(values.items());
            items.map(|(expression, value)| in_order(expression, value)).collect::<Vec<_>>().into()
        }
        _ => value,
    }
}
