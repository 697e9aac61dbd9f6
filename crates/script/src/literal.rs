//! Reads literal constants with the key order of the source; Rhai's own maps sort their keys.

use super::value::json_of;
use rhai::{AST, ASTNode, Expr, Stmt};
use std::collections::{BTreeSet, HashMap};
use valvehouse_json::{Json, Object};

/// Returns the literal constants of a file in source order, with their keys in source order.
///
/// `folded` is the file compiled with folded constants, so that `60 * 60` counts as a literal; `plain` is the file
/// compiled without, which has the order.
pub(super) fn constants(folded: &AST, plain: &AST) -> Vec<(String, Json)> {
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

/// The key orders of map literals. The keys of a function's return value are sorted; a literal with exactly these
/// keys provides their order.
#[derive(Default)]
pub(super) struct KeyOrders(HashMap<BTreeSet<String>, Vec<String>>);

impl KeyOrders {
    /// Collects the orders. Literals within a tool's entry take precedence over others with the same keys.
    pub(super) fn of<'a>(files: impl Iterator<Item = &'a AST>) -> Self {
        let (mut of_tools, mut others) = (Vec::new(), Vec::new());
        let mut look = |path: &[ASTNode<'_>]| {
            if let Some(ASTNode::Expr(Expr::Map(literal, _))) = path.last() {
                let keys: Vec<String> = literal.0.iter().map(|(key, _)| key.name.to_string()).collect();
                let is_of_tool = path.iter().any(|node| {
                    matches!(node, ASTNode::Expr(Expr::Map(outer, _))
                        if outer.0.iter().any(|(key, _)| key.name == "handler"))
                });
                if is_of_tool { &mut of_tools } else { &mut others }.push(keys);
            }
            true
        };
        for plain in files {
            plain.walk(&mut look);
        }
        let mut orders = HashMap::new();
        for keys in of_tools.into_iter().chain(others) {
            orders.entry(keys.iter().cloned().collect()).or_insert(keys);
        }
        Self(orders)
    }

    /// Returns a value with its keys in source order.
    pub(super) fn restore(&self, value: &Json) -> Json {
        match value {
            Json::Array(items) => {
                items.items().iter().map(|item| self.restore(item)).collect::<Vec<_>>().into()
            }
            Json::Object(fields) => {
                let keys = fields.keys();
                let set: BTreeSet<String> = keys.iter().map(ToString::to_string).collect();
                let written = self.0.get(&set).cloned().unwrap_or_else(|| set.into_iter().collect());
                let field = |key: String| Some((key.as_str().into(), self.restore(&fields.get(&key)?)));
                written.into_iter().filter_map(field).collect::<Object>().into()
            }
            plain => plain.clone(),
        }
    }
}
