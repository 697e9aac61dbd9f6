//! The literals of a file whose keys are not written in sorted order.

use crate::value::{KeyOrders, set_order};
use rhai::{AST, ASTNode, Dynamic, Expr, Position, Stmt};
use std::collections::HashMap;
use std::rc::Rc;

/// The array and map literals with such keys, by their positions. The optimizer replaces a literal of constants with
/// its value; only the syntax tree without folded constants has the order of the keys.
pub struct Literals {
    orders: KeyOrders,
    /// Several files may have a literal at the same position.
    by_place: HashMap<Place, Vec<Rc<Literal>>>,
}

type Place = (Option<usize>, Option<usize>);

enum Literal {
    /// The keys with their values, and the tag of the order.
    Map(Vec<(String, Option<Rc<Literal>>)>, Option<i64>),
    Array(Vec<Option<Rc<Literal>>>),
}

impl Literals {
    /// Collects the literals of files without folded constants.
    pub fn of<'a>(files: impl Iterator<Item = &'a AST>, orders: &KeyOrders) -> Self {
        let mut literals = Self { orders: orders.clone(), by_place: HashMap::new() };
        for as_written in files {
            let constants: HashMap<&str, Rc<Literal>> = as_written
                .statements()
                .iter()
                .filter_map(|statement| match statement {
                    Stmt::Var(variable, ..) => Some((variable.0.name.as_str(), literals.add(&variable.1)?)),
                    _ => None,
                })
                .collect();
            as_written.walk(&mut |path: &[ASTNode<'_>]| {
                let is_literal =
                    |node: &ASTNode<'_>| matches!(node, ASTNode::Expr(Expr::Map(..) | Expr::Array(..)));
                match path {
                    [.., parent, ASTNode::Expr(literal @ (Expr::Map(..) | Expr::Array(..)))]
                        if !is_literal(parent) =>
                    {
                        literals.add(literal);
                    }
                    // The optimizer replaces the name of a constant with its value or a part of it.
                    [.., ASTNode::Expr(Expr::Variable(name, _, position))] => {
                        if let Some(literal) = constants.get(name.1.as_str()) {
                            literals.add_parts(literal, *position);
                        }
                    }
                    _ => {}
                }
                true
            });
        }
        literals
    }

    fn add_parts(&mut self, literal: &Rc<Literal>, position: Position) {
        self.by_place.entry(place(position)).or_default().push(literal.clone());
        let parts: Vec<&Rc<Literal>> = match &**literal {
            Literal::Map(entries, _) => entries.iter().filter_map(|(_, part)| part.as_ref()).collect(),
            Literal::Array(parts) => parts.iter().flatten().collect(),
        };
        parts.into_iter().for_each(|part| self.add_parts(part, position));
    }

    /// Adds a literal; returns `None` if all keys in it are sorted.
    fn add(&mut self, expression: &Expr) -> Option<Rc<Literal>> {
        let (literal, position) = match expression {
            Expr::Map(entries, position) => {
                let tag = self.tag(expression);
                let entries: Vec<_> =
                    entries.0.iter().map(|(key, value)| (key.name.to_string(), self.add(value))).collect();
                if tag.is_none() && entries.iter().all(|(_, value)| value.is_none()) {
                    return None;
                }
                (Literal::Map(entries, tag), position)
            }
            Expr::Array(items, position) => {
                let items: Vec<_> = items.iter().map(|item| self.add(item)).collect();
                if items.iter().all(Option::is_none) {
                    return None;
                }
                (Literal::Array(items), position)
            }
            _ => return None,
        };
        let literal = Rc::new(literal);
        self.by_place.entry(place(*position)).or_default().push(literal.clone());
        Some(literal)
    }

    /// Returns the tag of the maps that a map literal makes; `None` if its keys are sorted.
    pub(super) fn tag(&self, expression: &Expr) -> Option<i64> {
        match expression {
            Expr::Map(entries, _) => self.orders.tag(entries.0.iter().map(|(key, _)| key.name.as_str())),
            _ => None,
        }
    }

    /// Sets the key orders of the maps in a constant. Returns `true` if it has any.
    pub(super) fn order(&self, constant: &mut Dynamic, position: Position) -> bool {
        let literals = self.by_place.get(&place(position));
        literals.is_some_and(|literals| literals.iter().any(|literal| order(constant, literal)))
    }

    /// Returns `true` if a literal with unsorted keys begins at a position.
    pub(super) fn has(&self, position: Position) -> bool {
        self.by_place.contains_key(&place(position))
    }
}

fn place(position: Position) -> Place {
    (position.line(), position.position())
}

/// Sets the key orders of a value. Returns `true` if a literal fits it.
fn order(value: &mut Dynamic, literal: &Literal) -> bool {
    match literal {
        Literal::Map(entries, tag) => {
            let Ok(mut map) = value.as_map_mut() else { return false };
            if map.len() != entries.len() || entries.iter().any(|(key, _)| !map.contains_key(key.as_str())) {
                return false;
            }
            for (key, literal) in entries {
                if let (Some(value), Some(literal)) = (map.get_mut(key.as_str()), literal) {
                    order(value, literal);
                }
            }
            drop(map);
            tag.inspect(|tag| set_order(value, *tag));
            true
        }
        Literal::Array(literals) => {
            let Ok(mut items) = value.as_array_mut() else { return false };
            let pairs = items.iter_mut().zip(literals);
            pairs.fold(false, |any, (value, literal)| {
                literal.as_ref().is_some_and(|literal| order(value, literal)) || any
            })
        }
    }
}
